"""The schema as numbered steps. Append only: a step that was released is never edited."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
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
    ),
)
