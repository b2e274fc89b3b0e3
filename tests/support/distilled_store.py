"""A store with observations and summaries, inserted without the sessions they would be distilled from."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from hardwon import projects
from hardwon.store import db

NOON = 1_794_484_800.0  # 12 November 2026, noon in Greenwich
DAY = 86_400.0
TYPES = ("bugfix", "discovery", "change", "decision", "failure")
_numbers = itertools.count(1)


class DistilledStore:
    """Owns a connection to the store of a home, and one project in it."""

    def __init__(self, home: str, project: str) -> None:
        self.folder = project
        self.project = projects.find_project_path(project)
        self._connection = db.connect(home)

    def add_session(self, *, at: float = NOON, name: str = "") -> int:
        """Add a session of the project; return its id."""
        path = self.project
        self._connection.execute(
            "insert or ignore into projects (path, name, remote, at) values (?, ?, '', ?)",
            (path, os.path.basename(path), at),
        )
        cursor = self._connection.execute(
            "insert into sessions (host, session, project, cwd, transcript, first_prompt, prompts, status, reason,"
            " started_at, opened_at, last_at, to_fill) values ('claude-code', ?, (select id from projects where"
            " path = ?), ?, '', '', 1, 'completed', '', ?, ?, ?, 0)",
            (name or f"past-{next(_numbers)}", path, path, at, at, at),
        )
        return int(cursor.lastrowid or 0)

    def observe(self, session: int, title: str, *, at: float = NOON, files: Sequence[str] = (), **more: Any) -> int:
        """Add an observation; return its id."""
        row = {
            "key": f"made-up-{next(_numbers)}",
            "session": session,
            "at": at,
            "prompt": 1,
            "type": "discovery",
            "title": title,
            "subtitle": "",
            "narrative": "What was found out, in a sentence or two.",
            "facts": "[]",
            "concepts": "[]",
            "files_read": "[]",
            "files_modified": json.dumps(list(files)),
            "events": "[]",
            "tokens": 1200,
            "times": 1,
            "made": "plain",
            **more,
        }
        return self._insert("observations", row)

    def summarise(self, session: int, *, at: float = NOON, **fields: str) -> int:
        names = ("request", "investigated", "learned", "completed", "next_steps")
        empty = dict.fromkeys(names, "")
        row = {"key": f"made-up-{next(_numbers)}", "session": session, "at": at, "made": "plain", **empty, **fields}
        return self._insert("summaries", row)

    def observe_many(self, count: int) -> None:
        """Add observations, ten a session, five sessions a day, and a summary for every session."""
        with db.transaction(self._connection):
            for first in range(0, count, 10):
                self._observe_ten(first, min(first + 10, count))

    def _observe_ten(self, first: int, end: int) -> None:
        at = NOON + first / 50 * DAY
        session = self.add_session(at=at + 10)
        for number in range(first, end):
            title = f"observation {number} about the part that was looked at"
            files = [f"src/part{number % 7}/module{number % 3}.py"]
            self.observe(session, title, at=at + number % 10, files=files, type=TYPES[number % len(TYPES)])
        self.summarise(session, at=at + 10, request=f"ask {first}", completed=f"did {first}", next_steps="go on")

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        cursor = self._connection.execute(f"insert into {table} ({names}) values ({marks})", tuple(row.values()))
        return int(cursor.lastrowid or 0)

    def close(self) -> None:
        self._connection.close()
