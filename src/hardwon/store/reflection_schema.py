"""The tenth step of the schema: what reflecting on sessions wrote. Released, it is never edited.

A session goes by the host's own id, since a transcript may be reflected on that no hook ever told of.
"""

from __future__ import annotations

STEP_10: tuple[str, ...] = (
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
)
