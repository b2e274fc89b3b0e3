"""The schema as steps by version. Append only: a step that was released is never edited.

Version 11 is the schema of 0.1.0, so every home has at least that.
"""

from __future__ import annotations

# Calls and what the agent said are worth indexing.
_IS_INDEXED_IN_0_1_0 = "new.kind = 'tool' or (new.kind in ('Stop', 'SubagentStop') and new.response != '')"
_IS_INDEXED_EVENT = _IS_INDEXED_IN_0_1_0.replace("'SubagentStop'", "'SubagentStop', 'AgentMessage'")


_INDEXED_EVENT_COLUMNS = "tool, input, response, outcome"


def _build_triggers(kind: str, table: str, columns: str, when: str = "") -> tuple[str, ...]:
    """Return triggers that queue new and changed rows for indexing, and remove deleted rows from the index."""
    enqueue = (
        f"insert into to_index (kind, row, times) values ('{kind}', new.id, 1)"
        " on conflict (kind, row) do update set times = times + 1; end"
    )
    return (
        f"create trigger {table}_came after insert on {table}{when} begin {enqueue}",
        f"create trigger {table}_changed after update of session, at, {columns} on {table}{when} begin {enqueue}",
        f"create trigger {table}_gone after delete on {table} begin"
        f" delete from to_index where kind = '{kind}' and row = old.id;"
        f" delete from documents where kind = '{kind}' and row = old.id; end",
    )


FILL_TO_INDEX = (  # every row that is searched; a rebuild starts from these
    "insert into to_index select 'O', id, 1 from observations",
    "insert into to_index select 'S', id, 1 from summaries",
    "insert into to_index select 'P', id, 1 from prompts",
    f"insert into to_index select 'E', id, 1 from events as new where {_IS_INDEXED_EVENT}",
)

_SCHEMA_OF_0_1_0: tuple[str, ...] = (
    """
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
    ) strict
    """,
    "create index injections_by_session on injections (session, at)",
    "create index injections_by_lesson on injections (lesson, at)",
    """
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
    ) strict, without rowid
    """,
    """
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
    ) strict
    """,
    "create index calls_waiting on calls (waits) where waits != ''",
    """
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
    ) strict
    """,
    "create index candidates_by_status on candidates (status, score)",
    """
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
    ) strict
    """,
    "create index signals_by_signature on signals (signature)",
    "create index signals_fresh on signals (signature) where fresh",
    "create index signals_by_session on signals (session)",
    "create index signals_by_path on signals (path)",
    """
    create table signal_errors (
        error text primary key,
        signal text not null references signals (key) on delete cascade
    ) strict, without rowid
    """,
    "create index signal_errors_by_signal on signal_errors (signal)",
    """
    create table judgements (
        id integer primary key,
        candidate integer not null references candidates (number) on delete cascade,
        at real not null,
        reader text not null,
        verdict text not null,
        body text not null,
        void text not null
    ) strict
    """,
    "create index judgements_by_candidate on judgements (candidate, at)",
    """
    create table scans (
        id integer primary key,
        at real not null,
        kind text not null,
        files integer not null,
        bytes integer not null,
        malformed integer not null,
        signals integer not null,
        candidates integer not null
    ) strict
    """,
    """
    create table projects (
        id integer primary key,
        path text not null unique,
        name text not null,
        remote text not null,
        at real not null
    ) strict
    """,
    """
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
    ) strict
    """,
    "create index sessions_by_time on sessions (last_at)",
    "create index sessions_to_fill on sessions (id) where to_fill",
    """
    create table prompts (
        id integer primary key,
        key text not null unique,
        session integer not null references sessions (id) on delete cascade,
        number integer not null,
        at real not null,
        prompt text not null,
        name text not null
    ) strict
    """,
    "create index prompts_by_session on prompts (session, at)",
    "create unique index prompts_by_name on prompts (session, name) where name != ''",
    """
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
    ) strict
    """,
    "create index events_by_session on events (session, at)",
    "create index events_by_time on events (at)",
    "create unique index events_by_call on events (session, tool_use_id, kind) where tool_use_id != ''",
    """
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
    ) strict
    """,
    "create index observations_by_session on observations (session, at)",
    "create index observations_by_time on observations (at)",
    """
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
        made text not null,
        print text not null default ''
    ) strict
    """,
    "create index summaries_by_session on summaries (session, at)",
    """
    create table turns (
        session integer not null references sessions (id) on delete cascade,
        number integer not null,
        print text not null,
        made text not null,
        primary key (session, number)
    ) strict, without rowid
    """,
    """
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
    ) strict
    """,
    "create index jobs_in_order on jobs (state, priority, due_at)",
    "create index observations_by_title on observations (title, at)",
    """
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
    ) strict
    """,
    "create index runs_by_day on runs (day)",
    "create index runs_by_session on runs (session)",
    """
    create table refusals (
        day text not null,
        cap text not null,
        at real not null,
        times integer not null,
        primary key (day, cap)
    ) strict, without rowid
    """,
    """
    create table documents (
        id integer primary key,
        kind text not null,
        row integer not null,
        name text not null,
        session integer not null,
        project integer not null,
        at real not null,
        words text not null
    ) strict
    """,
    "create unique index documents_by_source on documents (kind, row, name)",
    "create index documents_by_session on documents (session, kind, at)",
    "create index documents_by_time on documents (project, at)",
    """
    create virtual table document_words using fts5 (
        words, content = 'documents', content_rowid = 'id', detail = none,
        tokenize = 'porter unicode61 remove_diacritics 2'
    )
    """,
    """
    create table vectors (
        id integer primary key autoincrement,
        document integer not null unique,
        model text not null,
        code blob not null,
        vector blob not null
    ) strict
    """,
    "create index vectors_by_model on vectors (model)",
    "create table to_embed (document integer primary key) strict",
    """
    create table to_index (
        kind text not null,
        row integer not null,
        times integer not null,
        primary key (kind, row)
    ) strict, without rowid
    """,
    "create table indexed_files (path text primary key, print text not null) strict, without rowid",
    """
    create trigger documents_gone after delete on documents begin
        insert into document_words (document_words, rowid, words) values ('delete', old.id, old.words);
        delete from vectors where document = old.id;
        delete from to_embed where document = old.id;
    end
    """,
    """
    create trigger vectors_gone after delete on vectors
    when exists (select 1 from documents where id = old.document) begin
        insert or ignore into to_embed (document) values (old.document);
    end
    """,
    """
    create trigger sessions_moved after update of project on sessions when old.project is not new.project begin
        insert into to_index (kind, row, times)
        select kind, row, 1 from documents where session = new.id
        on conflict (kind, row) do update set times = times + 1;
    end
    """,
    *_build_triggers(
        "O", "observations", "title, subtitle, narrative, facts, concepts, files_read, files_modified, type"
    ),
    *_build_triggers("S", "summaries", "request, investigated, learned, completed, next_steps"),
    *_build_triggers("P", "prompts", "prompt"),
    *_build_triggers("E", "events", _INDEXED_EVENT_COLUMNS, f" when {_IS_INDEXED_IN_0_1_0}"),
    """
    create table observation_files (
        project integer not null,
        path text not null,
        observation integer not null references observations (id) on delete cascade,
        primary key (project, path, observation)
    ) strict, without rowid
    """,
    "create index observation_files_by_observation on observation_files (observation)",
    """
    create trigger observation_files_named after insert on observations begin
        insert or ignore into observation_files (project, path, observation)
        select coalesce((select project from sessions where id = new.session), 0), value, new.id from (
            select type, value from json_each(iif(json_valid(new.files_modified), new.files_modified, '[]'))
            union
            select type, value from json_each(iif(json_valid(new.files_read), new.files_read, '[]'))
        ) where type = 'text';
    end
    """,
    """
    create trigger observation_files_changed after update of files_read, files_modified on observations begin
        delete from observation_files where observation = old.id;
        insert or ignore into observation_files (project, path, observation)
        select coalesce((select project from sessions where id = new.session), 0), value, new.id from (
            select type, value from json_each(iif(json_valid(new.files_modified), new.files_modified, '[]'))
            union
            select type, value from json_each(iif(json_valid(new.files_read), new.files_read, '[]'))
        ) where type = 'text';
    end
    """,
    """
    create trigger observation_files_moved after update of project on sessions
    when new.project is not old.project begin
        update or replace observation_files set project = coalesce(new.project, 0)
        where observation in (select id from observations where session = new.id);
    end
    """,
    "create index sessions_by_project on sessions (project, last_at)",
    # What the viewer counts: failed calls by time with what failed, and after a delivery in its session.
    "create index events_failed on events (at, signature, session) where outcome = 'failed'",
    "create index events_failed_in_session on events (session, at) where outcome = 'failed'",
    """
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
    ) strict
    """,
    "create index memories_by_status on memories (status, project)",
    """
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
    ) strict
    """,
    "create index reflections_by_session on reflections (session, at)",
    "create index reflections_by_project on reflections (project, at)",
    """
    create table kept (
        reflection text not null,
        item text not null,
        was text not null,
        at real not null,
        primary key (reflection, item)
    ) strict, without rowid
    """,
    # Every search checks whether vectors in memory were deleted; counting all vectors was the slowest part of a search.
    "create table vectors_went (project integer primary key, times integer not null) strict",
    """
    create trigger vectors_count_what_went after delete on vectors begin
        insert into vectors_went (project, times) values (old.document >> 40, 1)
        on conflict (project) do update set times = times + 1;
    end
    """,
)
_CHANGES_SINCE_0_1_0: tuple[str, ...] = (
    # A lesson, memory, handoff or trusted file is in force only with a row here that was not undone.
    """
    create table approvals (
        id integer primary key autoincrement,
        kind text not null,  -- lesson, memory, handoff or trust
        subject text not null,  -- the lesson's id, the number of the memory or reflection, the project's path
        hash text not null,  -- of the fields that an author writes, or of the file
        body text not null,  -- the approved lesson as JSON; empty for the other kinds and after a purge
        path text not null,  -- command-line, viewer, prompt, trust, policy, ratifyAfterDays or upgrade
        approved_at real not null,
        undone_at real,
        announced_at real  -- when a session start listed it
    ) strict
    """,
    "create index approvals_live on approvals (kind, subject, id) where undone_at is null",
    "create index approvals_unannounced on approvals (id) where announced_at is null",
    # Steps of an upgrade that SQL cannot do, each done once.
    "create table upgrades (name text primary key, done_at real not null) strict, without rowid",
    # History that is imported today is kept as long as what happened today; null for what hooks reported.
    "alter table events add column taken_at real",
    "alter table calls add column taken_at real",
    "alter table sessions add column taken_at real",
    # When hardwon was set up: handoffs of earlier sessions are not drafted automatically. A home already in use
    # gets 0, because its sessions were drafted all along.
    "create table set_up (id integer primary key check (id = 1), at real not null) strict",
    "insert into set_up (id, at) select 1, 0.0 where exists (select 1 from sessions)",
    # Tokens as the agent's transcript counts them; null if it does not.
    "alter table sessions add column tokens_in integer",
    "alter table sessions add column tokens_out integer",
    "alter table sessions add column tokens_cached integer",
    # Calls that did not run were described as passed, so distil their sessions again.
    """
    update summaries set print = '' where made = 'plain' and session in
    (select session from events where outcome in ('denied', 'refused', 'interrupted'))
    """,
    """
    delete from turns where made = 'plain' and substr(print, 1, 5) != 'worn:' and session in
    (select session from events where outcome in ('denied', 'refused', 'interrupted'))
    """,
    # Hashes of rejected memories and candidates, so that they stay rejected after a purge removed their words.
    """
    create table rejections (
        id integer primary key,
        kind text not null,
        salt text not null,
        project text not null,
        normal text not null,
        words text not null,
        denied text not null
    ) strict
    """,
    # The log of deletions: when, by which command, how many rows of each table; no content.
    """
    create table deletions (
        id integer primary key autoincrement,
        at real not null,
        path text not null,
        kind text not null,
        rows text not null
    ) strict
    """,
    # Salted hashes of deleted data from before a time, which an import must not bring back. The length and the
    # 16-bit checksum of a text select the positions worth hashing.
    """
    create table tombstones (
        id integer primary key,
        kind text not null,
        salt blob not null,
        hash blob not null,
        length integer not null,
        checksum integer not null,
        before real not null,
        unique (kind, hash)
    ) strict
    """,
    # A delivery is a firing of a trigger that was told; those of the arms silent, shadow and before were not.
    "alter table injections add column version text not null default ''",
    "alter table injections add column model text not null default ''",
    "alter table injections add column arm text not null default 'told'",
    "alter table injections add column probability real not null default 1.0",
    # What followed, see `efficacy/outcomes.py`; empty while it is not known yet.
    "alter table injections add column verdict text not null default ''",
    "alter table injections add column ended text not null default ''",  # how the call made instead ended
    "alter table injections add column instead integer",  # the event of that call
    "create index injections_unjudged on injections (id) where verdict = ''",
    # What hardwon or a person changed about a lesson's delivery: measured, stepped down, proposed to retire.
    """
    create table lesson_changes (
        id integer primary key autoincrement,
        at real not null,
        lesson text not null,
        slug text not null,
        change text not null,
        reason text not null,
        path text not null,  -- who: hardwon, or the path of a person's decision
        undone_at real,
        announced_at real
    ) strict
    """,
    "create index lesson_changes_live on lesson_changes (lesson, id) where undone_at is null",
    # What follows from these changes and the firings so far, for the manifest.
    """
    create table lesson_states (
        lesson text primary key,
        stepped_down_to text not null,  -- note, silent, or empty
        silent_share real not null  -- of the sessions in which a measured lesson is not told
    ) strict, without rowid
    """,
    # Calls that an agent ran although hardwon had denied them.
    """
    create table ignored_denials (
        id integer primary key autoincrement,
        at real not null,
        host text not null,
        version text not null,
        session text not null,
        call text not null,
        tool text not null,
        announced_at real,
        unique (host, session, call)
    ) strict
    """,
    # Code that a lesson, memory or handoff names, as it was when a person approved that.
    """
    create table anchors (
        kind text not null,
        subject text not null,
        path text not null,
        symbol text not null,
        hash text not null,
        revision text not null,
        at real not null,
        primary key (kind, subject, path, symbol)
    ) strict, without rowid
    """,
    # Single values: the secret that arms are drawn with, when the weekly line was shown last.
    "create table efficacy_values (name text primary key, value text not null) strict, without rowid",
    "insert into efficacy_values values ('secret', lower(hex(randomblob(32))))",
    # A team's append-only log: each machine's own chain of signed records. Bodies are apart, so that one can be
    # erased while the chain stays whole.
    """
    create table team_records (
        team text not null,
        writer text not null,
        sequence integer not null,
        kind text not null,
        format integer not null,
        subject text not null,
        parents text not null,
        body_hash text not null,
        hash text not null,
        signature text not null,
        primary key (team, writer, sequence)
    ) strict, without rowid
    """,
    "create table team_bodies (hash text primary key, body text not null) strict, without rowid",
    # Machines that wrote two records under one number: from that number on they do not count. The second record
    # is the evidence that other machines need to see.
    """
    create table team_forks (
        team text not null,
        writer text not null,
        sequence integer not null,
        evidence text not null,
        primary key (team, writer)
    ) strict, without rowid
    """,
    # What was decided on this machine about the subjects that arrived.
    """
    create table team_decisions (
        team text not null,
        subject text not null,
        version text not null,
        decision text not null,
        at real not null,
        primary key (team, subject)
    ) strict, without rowid
    """,
)
# What agents say between their calls is stored and indexed as well.
_INDEX_AGENT_MESSAGES = (
    *(f"drop trigger events_{name}" for name in ("came", "changed", "gone")),
    *_build_triggers("E", "events", _INDEXED_EVENT_COLUMNS, f" when {_IS_INDEXED_EVENT}"),
)
STEPS = ((11, _SCHEMA_OF_0_1_0), (19, _CHANGES_SINCE_0_1_0), (20, _INDEX_AGENT_MESSAGES))
LATEST_VERSION = STEPS[-1][0]


def _order_for_new_file() -> list[str]:
    """Return the statements of all steps, those that add a column right after the table is created.

    For each added column SQLite parses the whole schema again, which takes half of the time of a new file unless the
    schema is still small.
    """
    statements: list[str] = []
    for _, step in STEPS:
        statements += step
    additions = [statement for statement in statements if statement.startswith("alter table")]
    ordered: list[str] = []
    for statement in statements:
        if statement not in additions:
            ordered.append(statement)
            verb, kind, table = statement.split()[:3]
            if (verb, kind) == ("create", "table"):
                ordered += [addition for addition in additions if addition.split()[2] == table]
    return ordered


NEW_FILE_STATEMENTS = _order_for_new_file()
