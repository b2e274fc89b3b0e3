"""hardwon as its user has it: the installed commands and the installed hook, in a home of one test."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import hardwon
from hardwon.words import word

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
GIT_STASH: dict[str, Any] = {
    "summary": "git stash leaves untracked files behind",
    "problem": "git stash only stashes tracked files; untracked ones stay where they are",
    "solution": "use git stash -u to keep untracked files as well",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b"]},
}
_numbers = itertools.count(1)


def lesson(command: str = "", **changes: Any) -> dict[str, Any]:
    """A sound record, with what the test is about changed."""
    number = next(_numbers)
    record = {
        "summary": f"made-up lesson {number} about {command or 'something'}"[:110],
        "problem": f"cause{number} makes thing{number} fail{number} whenever it{number} is tried{number}",
        "solution": f"way{number} avoids{number} that{number} and works{number} instead{number}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [command]} if command else {},
    }
    return {**record, **changes}


def bash(command: str, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it before a Bash call."""
    return call("Bash", {"command": command, "description": "made up"}, **more)


def call(tool: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/.claude/projects/-home-dev-project/made-up.jsonl",
        "cwd": "/home/dev/project",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": f"toolu_{next(_numbers):06d}",
    }
    return {**payload, **more}


def prompt(text: str, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it for what the person typed."""
    return happened("UserPromptSubmit", prompt=text, **more)


def used(tool: str, given: dict[str, Any], response: Any, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it after a call that worked."""
    return call(tool, given, **{"hook_event_name": "PostToolUse", "tool_response": response, **more})


def failed(tool: str, given: dict[str, Any], error: str, **more: Any) -> dict[str, Any]:
    return call(tool, given, **{"hook_event_name": "PostToolUseFailure", "error": error, **more})


def happened(event: str, **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/.claude/projects/-home-dev-project/made-up.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
    }
    return {**payload, **more}


@word
class Answer:
    """What came back from a hook, by its parts."""

    context: str
    denied: str
    notice: str
    raw: bytes


@word
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class House:
    """Owns a home and whatever processes run for it."""

    def __init__(self, home: str) -> None:
        self.home = home

    def cli(self, *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: str | None = None) -> Ran:
        command = [sys.executable, "-m", "hardwon", *words]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env={**os.environ, **(env or {})}, cwd=cwd
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, **more: Any) -> Ran:
        """Run a command that must succeed."""
        ran = self.cli(*words, **more)
        assert ran.code == 0, f"hardwon {' '.join(words)}\n{ran.out}{ran.err}"
        return ran

    def add(self, record: dict[str, Any]) -> str:
        """Add a lesson as a person would and return its slug."""
        self.ok("lessons", "add", "--json", json.dumps(record))
        listed: Sequence[dict[str, Any]] = self.ok("lessons", "list", "--json").json()
        return next(str(one["slug"]) for one in listed if one["summary"] == record["summary"])

    def hook(self, event: str, payload: bytes, env: dict[str, str] | None = None, host: str = "claude-code") -> bytes:
        """What the installed command prints; its exit code must be 0 whatever it was given."""
        command = [sys.executable, "-I", "-S", HOOK, host, event, self.home]
        done = subprocess.run(command, input=payload, capture_output=True, env={**os.environ, **(env or {})})
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def ask(self, session: str, payload: dict[str, Any], env: dict[str, str] | None = None) -> Answer:
        wire = {"session_id": session, **payload}
        raw = self.hook(wire["hook_event_name"], json.dumps(wire).encode(), env)
        said = json.loads(raw)
        own = said.get("hookSpecificOutput", {})
        assert own.get("hookEventName", wire["hook_event_name"]) == wire["hook_event_name"]
        denied = own.get("permissionDecisionReason", "") if own.get("permissionDecision") == "deny" else ""
        return Answer(own.get("additionalContext", ""), denied, said.get("systemMessage", ""), raw)

    def session_start(self, session: str, source: str = "startup", **more: Any) -> Answer:
        return self.ask(
            session, {"hook_event_name": "SessionStart", "source": source, "cwd": "/home/dev/project", **more}
        )

    def status(self) -> dict[str, Any]:
        said: dict[str, Any] = self.ok("status", "--json").json()
        return said

    def deliveries(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = self.ok("deliveries", "--json", "--limit", "10000").json()
        return said

    def stay_cold(self) -> None:
        """No hook starts a worker: too many starts have come to nothing just now."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        with open(os.path.join(self.home, "worker.starts"), "w") as file:
            file.write("." * 8)

    def kill(self) -> None:
        """End the worker as a crash would, and wait until it is gone."""
        os.kill(self.status()["pid"], signal.SIGKILL)
        while self.status()["running"]:
            continue

    def stored(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table as they are in the file, with whatever waited in the spool taken in."""
        self.deliveries()
        connection = sqlite3.connect(os.path.join(self.home, "hardwon.db"))
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f"select * from {table} order by id")]
        finally:
            connection.close()
