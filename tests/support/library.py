"""A store with the records that tests of searching look for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hardwon.search import indexing, vectors
from hardwon.search.search import SearchResult, search_records
from hardwon.store import db, events
from tests.support.new_store import connect_to_new_store

NOW = 1_795_000_000.0
DAY = 86_400.0
KITE, BOAT = "/home/dev/kite", "/home/dev/boat"


class Library:
    """Owns a store, and adds the records that tests look for."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.connection = connect_to_new_store(home)
        self._count = 0

    def prompt(self, text: str, *, project: str = KITE, session: str = "s1", at: float = 0.0) -> str:
        self._count += 1
        at = at or NOW - 10 * DAY + self._count
        with db.transaction(self.connection):
            number = events.find_or_create_project(self.connection, project, "", NOW)
            events.store_report(
                self.connection,
                events.Report(
                    f"p{self._count}", "claude-code", session, "UserPromptSubmit", at, project, number, prompt=text
                ),
            )
        (prompt_id,) = self.connection.execute("select max(id) from prompts").fetchone()
        return f"P{prompt_id}"

    def observe(
        self, title: str, *, project: str = KITE, session: str = "s1", files: tuple[str, ...] = (), **more: Any
    ) -> str:
        self.prompt("go on", project=project, session=session)
        (number,) = self.connection.execute("select id from sessions where session = ?", (session,)).fetchone()
        row = {
            "key": f"o{self._count}",
            "session": number,
            "at": NOW - 10 * DAY + self._count,
            "prompt": 1,
            "type": "discovery",
            "title": title,
            "subtitle": "",
            "narrative": "",
            "facts": "[]",
            "concepts": "[]",
            "files_read": "[]",
            "files_modified": json.dumps(files),
            "events": "[]",
            "tokens": 900,
            "times": 1,
            "made": "plain",
            **more,
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        cursor = self.connection.execute(f"insert into observations ({names}) values ({marks})", tuple(row.values()))
        return f"O{cursor.lastrowid}"

    def observe_many(self, titles: Sequence[str], **more: Any) -> list[str]:
        """Add observations of one session, a second apart, the first after all others."""
        (last,) = self.connection.execute("select coalesce(max(id), 0) from observations").fetchone()
        first = self.observe(titles[0], session="many", **more)
        self.connection.execute("update observations set at = ? where id = ?", (NOW - 9 * DAY, int(first[1:])))
        with db.transaction(self.connection):
            columns = "session, prompt, type, subtitle, narrative, facts, concepts, files_read, files_modified, events"
            self.connection.executemany(
                f"insert into observations (key, title, at, tokens, times, made, {columns})"
                f" select ?, ?, ?, tokens, times, made, {columns} from observations where id = ?",
                [
                    (f"many {last} {number}", title, NOW - 9 * DAY + number, int(first[1:]))
                    for number, title in enumerate(titles[1:], 1)
                ],
            )
        rows = self.connection.execute("select id from observations where id > ? order by at", (last,)).fetchall()
        return [f"O{observation_id}" for (observation_id,) in rows]

    def refresh(self, model: vectors.Model | None = None) -> None:
        indexing.refresh_index(self.connection, self.home, model=model, should_continue=lambda: True)

    def find(self, query: str, **options: Any) -> SearchResult:
        self.refresh()
        return search_records(
            self.connection, self.home, query, **{"project": KITE, "now": NOW, "limit": 10, **options}
        )

    def ids(self, query: str, **options: Any) -> list[str]:
        return [hit.id for hit in self.find(query, **options).hits]
