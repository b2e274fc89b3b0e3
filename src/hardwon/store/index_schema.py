"""The sixth step of the schema: what is searched. Released, it is never edited.

Everything here follows from other tables and from files, and can be made anew. A document is what is found; its number
holds its project, its time and how long it is (see `store.documents`), so that a search need not look these up.
"""

from __future__ import annotations

# An event that has something to find: a call, or what the agent said last.
_IS_INDEXED_EVENT = "new.kind = 'tool' or (new.kind in ('Stop', 'SubagentStop') and new.response != '')"


def _build_triggers(kind: str, table: str, columns: str, when: str = "") -> tuple[str, ...]:
    """Triggers of step 6: what comes and what changes waits to be indexed, what goes leaves the index with it."""
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


FILL_TO_INDEX = (
    "insert into to_index select 'O', id, 1 from observations",
    "insert into to_index select 'S', id, 1 from summaries",
    "insert into to_index select 'P', id, 1 from prompts",
    f"insert into to_index select 'E', id, 1 from events as new where {_IS_INDEXED_EVENT}",
)
STEP_6: tuple[str, ...] = (
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
    *_build_triggers("E", "events", "tool, input, response, outcome", f" when {_IS_INDEXED_EVENT}"),
    *FILL_TO_INDEX,
)
