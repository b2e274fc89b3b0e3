"""opencode's database in the format of that program, filled one message at a time."""

from __future__ import annotations

import json
import os
import sqlite3
from itertools import count
from time import time
from typing import Any

TABLES = """
create table session (id text primary key, project_id text, parent_id text, directory text not null, title text,
  version text, time_created integer not null, time_updated integer not null, time_archived integer);
create table message (id text primary key, session_id text not null, time_created integer not null,
  time_updated integer not null, data text not null);
create table part (id text primary key, message_id text not null, session_id text not null,
  time_created integer not null, time_updated integer not null, data text not null);
create index part_message_id_id_idx on part (message_id, id);
"""
UNKNOWN = "error: unknown option `--colour'\nusage: git log [<options>]"


class OpencodeDatabase:
    """Owns the connection through which opencode would write; `commit` makes the rows durable."""

    def __init__(self, home: str, *, name: str = "opencode.db") -> None:
        self.path = os.path.join(home, ".local", "share", "opencode", name)
        os.makedirs(os.path.dirname(self.path))
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("pragma journal_mode = wal")
        self.connection.executescript(TABLES)
        self._now = count(1_794_774_952_725)

    def at(self, session: str, parent: str = "") -> str:
        """Return the session's path as a transcript."""
        return os.path.join(self.path, *((parent, "subagents") if parent else ()), session)

    def session(self, session_id: str, *, parent: str = "", directory: str = "/home/dev/kite") -> str:
        now = next(self._now)
        self.connection.execute(
            "insert into session values (?, 'p', ?, ?, 'a title', '1.18.33', ?, ?, null)",
            (session_id, parent or None, directory, now, now),
        )
        return session_id

    def message(self, session: str, role: str, *parts: dict[str, Any], finished: bool = True) -> str:
        now = next(self._now)
        message_id, times = (
            f"msg_{now:x}",
            {"created": now, **({"completed": now} if finished and role != "user" else {})},
        )
        data = json.dumps({"role": role, "time": times, "path": {"cwd": "/home/dev/kite"}})
        self.connection.execute("insert into message values (?, ?, ?, ?, ?)", (message_id, session, now, now, data))
        for part in parts:
            row = (f"prt_{next(self._now):x}", message_id, session, now, now, json.dumps(part))
            self.connection.execute("insert into part values (?, ?, ?, ?, ?, ?)", row)
        self.connection.execute("update session set time_updated = ? where id = ?", (next(self._now), session))
        return message_id

    def continue_now(self) -> None:
        """Date the following rows from now on, as in a session that continues after a deletion."""
        self._now = count(int(time() * 1000) + 1000)

    def finish(self, message_id: str) -> None:
        now = next(self._now)
        sql = "update message set data = json_set(data, '$.time.completed', ?), time_updated = ? where id = ?"
        self.connection.execute(sql, (now, now, message_id))

    def person(self, session: str, text: str) -> str:
        return self.message(session, "user", {"type": "text", "text": text})

    def agent(self, session: str, text: str, **more: Any) -> str:
        return self.message(session, "assistant", {"type": "text", "text": text}, **more)

    def call(self, session: str, command: str, output: str, *, code: int = 0, **more: Any) -> str:
        """Add a shell call with its result; return the call's id."""
        call_id = f"call_{next(self._now)}"
        state = {"status": "completed", "input": {"command": command}, "output": output, "metadata": {"exit": code}}
        part = {"type": "tool", "tool": "bash", "callID": call_id, "state": state}
        self.message(session, "assistant", part, **more)
        return call_id

    def mistake(self, session: str) -> None:
        """Add a failed call, the reason why it failed, and the call that worked."""
        self.person(session, "show me the log")
        self.call(session, "git log --colour=always", UNKNOWN, code=129)
        self.agent(session, "The problem is that git spells it the American way.")
        self.call(session, "git log --color=always", "commit 1")
        self.agent(session, "There it is.")
