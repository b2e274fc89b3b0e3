-- A database as hardwon 0.1.0 made it: every statement of its eleven schema steps, then a few rows.
create table injections (
    id integer primary key,
    event text not null,
    at real not null,
    host text not null,
    session text not null,
    agent text not null,
    kind text not null,
    tool text not null,
    lesson text not null,
    slug text not null,
    summary text not null,
    delivery text not null,
    unique (event, lesson)
) strict;
create index injections_by_session on injections (session, at);
create index injections_by_lesson on injections (lesson, at);
create table transcripts (
    purpose text not null,
    path text not null,
    host text not null,
    at real not null,
    inode integer not null,
    size integer not null,
    modified integer not null,
    offset integer not null,
    line integer not null,
    unended integer not null,
    print text not null,
    malformed integer not null,
    reader text not null,
    watch text not null,
    primary key (purpose, path)
) strict, without rowid;
create table calls (
    id integer primary key,
    key text not null unique,
    host text not null,
    session text not null,
    cwd text not null,
    at text not null,
    path text not null,
    line integer not null,
    tool text not null,
    command text not null,
    file text not null,
    content text not null,
    outcome text not null,
    waits text not null
) strict;
create index calls_waiting on calls (waits) where waits != '';
create table candidates (
    number integer primary key autoincrement,
    id text not null unique,
    slug text not null unique,
    signature text not null unique,
    tier integer not null,
    status text not null,
    score real not null,
    parts text not null,
    occurrences integer not null,
    sessions text not null,
    projects text not null,
    record text not null,
    lesson text not null,
    found_at real not null,
    decided_at real
) strict;
create index candidates_by_status on candidates (status, score);
create table signals (
    id integer primary key,
    key text not null unique,
    tier integer not null,
    signature text not null,
    host text not null,
    path text not null,
    session text not null,
    agent text not null,
    project text not null,
    at text not null,
    score real not null,
    body text not null,
    fresh integer not null
) strict;
create index signals_by_signature on signals (signature);
create index signals_fresh on signals (signature) where fresh;
create index signals_by_session on signals (session);
create index signals_by_path on signals (path);
create table signal_errors (
    error text primary key,
    signal text not null references signals (key) on delete cascade
) strict, without rowid;
create index signal_errors_by_signal on signal_errors (signal);
create table judgements (
    id integer primary key,
    candidate integer not null references candidates (number) on delete cascade,
    at real not null,
    reader text not null,
    verdict text not null,
    body text not null,
    void text not null
) strict;
create index judgements_by_candidate on judgements (candidate, at);
create table scans (
    id integer primary key,
    at real not null,
    kind text not null,
    files integer not null,
    bytes integer not null,
    malformed integer not null,
    signals integer not null,
    candidates integer not null
) strict;
create table projects (
    id integer primary key,
    path text not null unique,
    name text not null,
    remote text not null,
    at real not null
) strict;
create table sessions (
    id integer primary key,
    host text not null,
    session text not null,
    project integer references projects (id),
    cwd text not null,
    transcript text not null,
    first_prompt text not null,
    prompts integer not null,
    status text not null,
    reason text not null,
    started_at real not null,
    opened_at real not null,
    last_at real not null,
    ended_at real,
    to_fill integer not null,
    unique (host, session)
) strict;
create index sessions_by_time on sessions (last_at);
create index sessions_to_fill on sessions (id) where to_fill;
create table prompts (
    id integer primary key,
    key text not null unique,
    session integer not null references sessions (id) on delete cascade,
    number integer not null,
    at real not null,
    prompt text not null,
    name text not null
) strict;
create index prompts_by_session on prompts (session, at);
create unique index prompts_by_name on prompts (session, name) where name != '';
create table events (
    id integer primary key,
    key text not null unique,
    session integer not null references sessions (id) on delete cascade,
    kind text not null,
    at real not null,
    prompt integer not null,
    agent text not null,
    tool text not null,
    tool_use_id text not null,
    input text not null,
    response text not null,
    outcome text not null,
    signature text not null,
    duration real,
    origin text not null
) strict;
create index events_by_session on events (session, at);
create index events_by_time on events (at);
create unique index events_by_call on events (session, tool_use_id, kind) where tool_use_id != '';
create table observations (
    id integer primary key autoincrement,
    key text not null unique,
    session integer not null references sessions (id) on delete cascade,
    at real not null,
    prompt integer not null,
    type text not null,
    title text not null,
    subtitle text not null,
    narrative text not null,
    facts text not null,
    concepts text not null,
    files_read text not null,
    files_modified text not null,
    events text not null,
    tokens integer not null,
    times integer not null,
    made text not null
) strict;
create index observations_by_session on observations (session, at);
create index observations_by_time on observations (at);
create table summaries (
    id integer primary key autoincrement,
    key text not null unique,
    session integer not null references sessions (id) on delete cascade,
    at real not null,
    request text not null,
    investigated text not null,
    learned text not null,
    completed text not null,
    next_steps text not null,
    made text not null
) strict;
create index summaries_by_session on summaries (session, at);
create table turns (
    session integer not null references sessions (id) on delete cascade,
    number integer not null,
    print text not null,
    made text not null,
    primary key (session, number)
) strict, without rowid;
create table jobs (
    id integer primary key,
    kind text not null,
    session integer not null references sessions (id) on delete cascade,
    state text not null,
    priority integer not null,
    wanted integer not null,
    tries integer not null,
    made_at real not null,
    due_at real not null,
    lease text not null,
    lease_until real not null,
    why text not null,
    unique (kind, session)
) strict;
create index jobs_in_order on jobs (state, priority, due_at);
create index observations_by_title on observations (title, at);
alter table summaries add column print text not null default '';
create table runs (
    id integer primary key,
    at real not null,
    day text not null,
    purpose text not null,
    provider text not null,
    model text not null,
    project text not null,
    session integer references sessions (id) on delete set null,
    tokens_in integer not null,
    tokens_out integer not null,
    tokens_cached integer not null,
    cost real not null,
    duration real not null,
    outcome text not null,
    why text not null
) strict;
create index runs_by_day on runs (day);
create index runs_by_session on runs (session);
create table refusals (
    day text not null,
    cap text not null,
    at real not null,
    times integer not null,
    primary key (day, cap)
) strict, without rowid;
create table documents (
    id integer primary key,
    kind text not null,
    row integer not null,
    name text not null,
    session integer not null,
    project integer not null,
    at real not null,
    words text not null
) strict;
create unique index documents_by_source on documents (kind, row, name);
create index documents_by_session on documents (session, kind, at);
create index documents_by_time on documents (project, at);
create virtual table document_words using fts5 (
    words, content = 'documents', content_rowid = 'id', detail = none,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
create table vectors (
    id integer primary key autoincrement,
    document integer not null unique,
    model text not null,
    code blob not null,
    vector blob not null
) strict;
create index vectors_by_model on vectors (model);
create table to_embed (document integer primary key) strict;
create table to_index (
    kind text not null,
    row integer not null,
    times integer not null,
    primary key (kind, row)
) strict, without rowid;
create table indexed_files (path text primary key, print text not null) strict, without rowid;
create trigger documents_gone after delete on documents begin
    insert into document_words (document_words, rowid, words) values ('delete', old.id, old.words);
    delete from vectors where document = old.id;
    delete from to_embed where document = old.id;
end;
create trigger vectors_gone after delete on vectors
when exists (select 1 from documents where id = old.document) begin
    insert or ignore into to_embed (document) values (old.document);
end;
create trigger sessions_moved after update of project on sessions when old.project is not new.project begin
    insert into to_index (kind, row, times)
    select kind, row, 1 from documents where session = new.id
    on conflict (kind, row) do update set times = times + 1;
end;
create trigger observations_came after insert on observations begin insert into to_index (kind, row, times) values ('O', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger observations_changed after update of session, at, title, subtitle, narrative, facts, concepts, files_read, files_modified, type on observations begin insert into to_index (kind, row, times) values ('O', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger observations_gone after delete on observations begin delete from to_index where kind = 'O' and row = old.id; delete from documents where kind = 'O' and row = old.id; end;
create trigger summaries_came after insert on summaries begin insert into to_index (kind, row, times) values ('S', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger summaries_changed after update of session, at, request, investigated, learned, completed, next_steps on summaries begin insert into to_index (kind, row, times) values ('S', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger summaries_gone after delete on summaries begin delete from to_index where kind = 'S' and row = old.id; delete from documents where kind = 'S' and row = old.id; end;
create trigger prompts_came after insert on prompts begin insert into to_index (kind, row, times) values ('P', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger prompts_changed after update of session, at, prompt on prompts begin insert into to_index (kind, row, times) values ('P', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger prompts_gone after delete on prompts begin delete from to_index where kind = 'P' and row = old.id; delete from documents where kind = 'P' and row = old.id; end;
create trigger events_came after insert on events when new.kind = 'tool' or (new.kind in ('Stop', 'SubagentStop') and new.response != '') begin insert into to_index (kind, row, times) values ('E', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger events_changed after update of session, at, tool, input, response, outcome on events when new.kind = 'tool' or (new.kind in ('Stop', 'SubagentStop') and new.response != '') begin insert into to_index (kind, row, times) values ('E', new.id, 1) on conflict (kind, row) do update set times = times + 1; end;
create trigger events_gone after delete on events begin delete from to_index where kind = 'E' and row = old.id; delete from documents where kind = 'E' and row = old.id; end;
insert into to_index select 'O', id, 1 from observations;
insert into to_index select 'S', id, 1 from summaries;
insert into to_index select 'P', id, 1 from prompts;
insert into to_index select 'E', id, 1 from events as new where new.kind = 'tool' or (new.kind in ('Stop', 'SubagentStop') and new.response != '');
create table observation_files (
    project integer not null,
    path text not null,
    observation integer not null references observations (id) on delete cascade,
    primary key (project, path, observation)
) strict, without rowid;
create index observation_files_by_observation on observation_files (observation);
create trigger observation_files_named after insert on observations begin
    insert or ignore into observation_files (project, path, observation)
    select coalesce((select project from sessions where id = new.session), 0), value, new.id from (
        select type, value from json_each(iif(json_valid(new.files_modified), new.files_modified, '[]'))
        union
        select type, value from json_each(iif(json_valid(new.files_read), new.files_read, '[]'))
    ) where type = 'text';
end;
create trigger observation_files_changed after update of files_read, files_modified on observations begin
    delete from observation_files where observation = old.id;
    insert or ignore into observation_files (project, path, observation)
    select coalesce((select project from sessions where id = new.session), 0), value, new.id from (
        select type, value from json_each(iif(json_valid(new.files_modified), new.files_modified, '[]'))
        union
        select type, value from json_each(iif(json_valid(new.files_read), new.files_read, '[]'))
    ) where type = 'text';
end;
create trigger observation_files_moved after update of project on sessions
when new.project is not old.project begin
    update or replace observation_files set project = coalesce(new.project, 0)
    where observation in (select id from observations where session = new.id);
end;
update observations set files_read = files_read;
create index sessions_by_project on sessions (project, last_at);
create index events_failed on events (at, signature, session) where outcome = 'failed';
create index events_failed_in_session on events (session, at) where outcome = 'failed';
create table memories (
    id integer primary key autoincrement,
    key text not null unique,
    type text not null,
    text text not null,
    project text not null,
    session text not null,
    status text not null,
    source text not null,
    evidence text not null,
    file text not null,
    at real not null,
    decided_at real
) strict;
create index memories_by_status on memories (status, project);
create table reflections (
    id integer primary key autoincrement,
    key text not null unique,
    host text not null,
    session text not null,
    project text not null,
    at real not null,
    kind text not null,
    status text not null,
    draft text not null default '',
    topic text not null,
    resume text not null,
    confidence text not null,
    findings text not null,
    files text not null default '[]',
    log text not null default '',
    decided_at real
) strict;
create index reflections_by_session on reflections (session, at);
create index reflections_by_project on reflections (project, at);
create table kept (
    reflection text not null,
    item text not null,
    was text not null,
    at real not null,
    primary key (reflection, item)
) strict, without rowid;
create table vectors_went (project integer primary key, times integer not null) strict;
create trigger vectors_count_what_went after delete on vectors begin
    insert into vectors_went (project, times) values (old.document >> 40, 1)
    on conflict (project) do update set times = times + 1;
end;
insert into projects values (1, '/home/dev/shop', 'shop', '', 1000.0);
insert into sessions (id, host, session, project, cwd, transcript, first_prompt, prompts, status, reason, started_at,
    opened_at, last_at, ended_at, to_fill)
values (1, 'claude-code', 's-1', 1, '/home/dev/shop', '', 'fix the login', 1, 'completed', '', 1000.0, 1000.0, 1060.0, 1060.0, 0);
insert into prompts values (1, 'k-prompt', 1, 1, 1001.0, 'fix the login', '');
insert into events values (1, 'k-call', 1, 'tool', 1002.0, 1, '', 'Bash', 't-1', '{"command": "pytest"}', 'blocked', 'denied', '', null, 'hook');
insert into observations values (1, 'k-observation', 1, 1003.0, 1, 'bugfix', 'Fixed the login', '', '', '[]', '[]', '[]', '["login.py"]', '[]', 10, 1, 'plain');
insert into summaries values (1, 'k-summary', 1, 1060.0, 'fix the login', '', '', 'done', '', 'plain', 'fingerprint');
insert into turns values (1, 1, 'fingerprint', 'plain');
insert into memories values (1, 'k-memory', 'user', 'Use spaces', '', 's-1', 'rejected', 'prompt', '[]', '', 1004.0, 1005.0);
insert into calls values (1, 'k-scanned', 'claude-code', 's-1', '/home/dev/shop', '2026-01-01T00:00:00Z', '/t.jsonl', 1, 'Bash', 'pytest', '', '', 'failed', '');
pragma user_version = 11;
