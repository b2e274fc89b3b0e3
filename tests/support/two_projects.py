"""A home with two projects, filled and queried in process: events as hooks report them, distilled by plain code."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from pathlib import Path
from time import time
from typing import Any

from hardwon import settings
from hardwon.mcp.server import MCPServer
from hardwon.privacy import event_filter
from hardwon.sessions import ingest
from hardwon.store import db
from hardwon.types import Event, replace
from tests.support.distilled_store import DAY
from tests.support.house import House

AGENT = {"CLAUDECODE": "1"}
_numbers = itertools.count(1)


class TwoProjects:
    """Owns the folders of two projects, `kite` and `boat`, and a home that remembers both."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house, self.home = house, house.home
        self.kite, self.boat = str(folder / "kite"), str(folder / "boat")
        for project in (self.kite, self.boat):
            os.makedirs(os.path.join(project, ".git"))
        house.stay_cold()
        self.yesterday = time() - DAY
        db.connect(self.home).close()

    def work(self, session: str, project: str, token: str, *, later: float = 0.0, host: str = "claude-code") -> None:
        """Record a turn in which a file was changed and tested; the token is in the prompt, a call and the answer."""
        file = f"{project}/src/{token}.py"
        events = (
            Event(host, "UserPromptSubmit", session, project, prompt=f"tune the {token} winch, please"),
            self._build_call(
                host, session, project, "Edit", {"file_path": file, "old_string": "1", "new_string": token}
            ),
            self._build_call(
                host, session, project, "Bash", {"command": f"pytest tests/{token}"}, f"1 passed: {token}"
            ),
            Event(
                host,
                "Stop",
                session,
                project,
                message=f"The cause was a loose bolt in src/{token}.py: the {token} winch is tuned now.",
            ),
        )
        self.record(*events, later=later)

    def _build_call(
        self, host: str, session: str, project: str, tool: str, tool_input: dict[str, str], response: str = "done"
    ) -> Event:
        return Event(
            host,
            "PostToolUse",
            session,
            project,
            tool=tool,
            tool_use_id=f"call-{next(_numbers)}",
            input=tool_input,
            command=tool_input.get("command", ""),
            path=tool_input.get("file_path", ""),
            response=response,
        )

    def record(self, *events: Event, later: float = 0.0) -> None:
        """Record events dated yesterday as the worker does: filter them, then store them."""
        values = settings.resolve_settings(settings.read_config(self.home))
        connection = db.connect(self.home)
        for position, event in enumerate(events):
            dated = replace(event, id=f"event-{next(_numbers)}", at=self.yesterday + later + position)
            ingest.commit_event(connection, event_filter.filter_transcript_event(dated, values))
        connection.close()

    def rebuild(self) -> dict[str, int]:
        """Distil, index and compile all of it."""
        counts: dict[str, int] = self.house.ok("rebuild", "--json").json()
        return counts

    def ask_mcp(self, folder: str, tool: str, /, **arguments: Any) -> str:
        """Return what an agent in a project's folder is answered over MCP, refusals too."""
        call = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        reply = MCPServer(self.home, folder).answer_line(json.dumps(request).encode())
        result = json.loads(reply or b"")["result"]
        text: str = result["content"][0]["text"]
        return f"refused: {text}" if result["isError"] else text

    def search(self, project: str, query: str, *options: str) -> list[str]:
        """Return the ids that a search in a project finds, best first."""
        result = self.house.cli("search", query, "--json", *options, cwd=project).json()
        return [hit["id"] for hit in result["hits"]]

    def brief(self, project: str) -> str:
        """Return what a session in a project opens with."""
        return self.house.ok("brief", cwd=project).out

    def recall(self, project: str, query: str) -> str:
        """Return everything that can reach an agent in a project about a query, one answer after another."""
        ids = [record_id for record_id in self.search(project, query) if not record_id.startswith("E")]
        records = self.ask_mcp(project, "get", ids=ids[:20]) if ids else ""
        answers = (self.ask_mcp(project, "search", query=query), self.ask_mcp(project, "handoff"), self.brief(project))
        return "\n".join((records, *answers))

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return rows of the database file, read beside hardwon."""
        connection = sqlite3.connect(os.path.join(self.home, "hardwon.db"))
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def run_sql(self, *statements: str) -> None:
        """Damage the database by hand."""
        connection = sqlite3.connect(os.path.join(self.home, "hardwon.db"))
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def add_memory(self, project: str, text: str, kind: str = "project") -> int:
        """Add a memory as a person does; return its number."""
        self.house.ok("memory", "add", kind, text, cwd=project)
        number: int = self.rows("select max(id) from memories")[0][0]
        return number
