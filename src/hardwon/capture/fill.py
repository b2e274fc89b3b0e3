"""What hooks missed, from the transcript: at the end of a turn and of a session, or for all of history.

A hook may be cut off, switched off, or not have been there yet. The transcript has the same calls under the same ids,
so both accounts merge. What the edge would not have let in does not come in this way either.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from hardwon import clock
from hardwon.capture import edge, intake
from hardwon.core.clean import clean, clean_state
from hardwon.core.private import is_private
from hardwon.hosts.history import Step, history, tail
from hardwon.hosts.history.siblings import may_be_private
from hardwon.store import db, sessions, transcripts
from hardwon.store import projects as known_projects
from hardwon.words import Event, Mark, replace

PURPOSE = "capture"
_UNDER_WAY = 64  # calls whose result is awaited


def fill(connection: db.Connection, session: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Take in what a session's transcripts know; gives how many reports were new."""
    path = str(session["transcript"])
    found = [path, *sorted(glob.glob(os.path.join(glob.escape(path.removesuffix(".jsonl")), "subagents", "*.jsonl")))]
    new = sum(read(connection, session["host"], one, values) for one in found if path and not may_be_private(one))
    with db.transaction(connection):
        sessions.is_filled(connection, session["id"])
    return new


def read(connection: db.Connection, host: str, path: str, values: Mapping[str, Any]) -> int:
    """Take in what one transcript has new, portion by portion, each with its mark; nothing if it is gone."""
    module, new = history(host), 0
    whole = module.WHOLE or path.endswith(".json")
    try:
        with open(path, "rb") as file:
            known = None if whole else transcripts.mark_of(connection, path, PURPOSE)
            mark = tail.still(file, known)
            reader = module.Reader(_loads(mark.reader))
            turn = Turn(host, path, _loads(mark.watch))
            for lines, after in tail.portions(file, mark, whole=whole):
                steps = [step for number, line in lines for step in reader.read(number, line)]
                events = [event for step in steps for event in turn.take(step)]
                told = {"reader": dumped(reader.state()), "watch": dumped(turn.state())}
                new += _commit(connection, host, path, events, replace(after, **told), values, turn)
    except OSError:
        return new
    return new


def dumped(state: Mapping[str, Any]) -> str:
    return orjson.dumps(clean_state(state)).decode()


def _loads(text: str) -> dict[str, Any]:
    found = orjson.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _commit(
    connection: db.Connection,
    host: str,
    path: str,
    events: Iterable[Event],
    mark: Mark,
    values: Mapping[str, Any],
    turn: Turn,
) -> int:
    fit = [event for event in (edge.fit(event, values) for event in events) if event]
    with db.transaction(connection):
        new = 0
        for event in fit:
            project = known_projects.resolve(connection, *intake.place_of(event.cwd), event.at)
            new += sessions.take(connection, intake.report(event, project, "transcript"))
        if turn.session and turn.said and not turn.hidden:
            sessions.last_words(connection, host, turn.session, edge.words(turn.said, values))
        transcripts.set_mark(connection, PURPOSE, path, host, mark, clock.now())
    return new


class Turn:
    """Owns what is under way in a transcript: the calls without a result, and whether the turn is private."""

    def __init__(self, host: str, path: str, state: Mapping[str, Any]) -> None:
        self._host, self._path = host, path
        self.hidden = bool(state.get("hidden"))
        self.session = str(state.get("session", ""))
        self.said = ""
        self._at = float(state.get("at") or 0) or clock.now()
        self._under_way: dict[str, list[Any]] = dict(state.get("calls") or {})

    def state(self) -> dict[str, Any]:
        return {"hidden": self.hidden, "session": self.session, "at": self._at, "calls": self._under_way}

    def take(self, step: Step) -> Iterator[Event]:
        self.session = step.session or self.session
        self._at = instant(step.at) or self._at
        if step.kind == "person":
            self.hidden = is_private(step.text)
            if not self.hidden:
                yield self._event(step, "UserPromptSubmit", prompt=step.text, prompt_name=step.call)
        elif self.hidden:
            return
        elif step.kind == "agent":
            self.said = "" if step.agent else step.text
        elif step.kind == "call":
            self._under_way[step.call] = [step.tool, clean(step.command), step.path, clean(step.content)]
            if len(self._under_way) > _UNDER_WAY:
                del self._under_way[next(iter(self._under_way))]
        elif step.kind == "result" and step.call in self._under_way:
            yield self._ended(step, *self._under_way.pop(step.call))

    def _ended(self, step: Step, tool: str, command: str, path: str, content: str) -> Event:
        given = {"command": command, "file_path": path, "content": content}
        return self._event(
            step,
            "PostToolUseFailure" if step.failed or step.refused else "PostToolUse",
            tool=tool,
            tool_use_id=step.call,
            command=command,
            path=path,
            input={name: value for name, value in given.items() if value},
            response=step.text,
            failed=bool(step.failed or step.refused),
        )

    def _event(self, step: Step, kind: str, **more: Any) -> Event:
        return Event(
            self._host, kind, self.session, step.cwd, id=f"{self._host}:{step.id}", at=self._at,
            agent=step.agent, transcript=self._path, **more,
        )  # fmt: skip


def instant(at: str) -> float:
    """A transcript's time in seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0
