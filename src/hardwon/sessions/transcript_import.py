"""What hooks missed, from the transcript: at the end of a turn and of a session, or for all of history.

A hook may be cut off, switched off, or not have been there yet. The transcript has the same calls under the same ids,
so both accounts merge. What the edge would not have let in does not come in this way either, nor does it wait in the
state that is stored between two readings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import orjson

from hardwon import claims, clock, pauses
from hardwon.agents import token_usage, transcript_files, transcript_tail
from hardwon.agents.private_turns import Hidden
from hardwon.agents.token_usage import Usage
from hardwon.agents.transcript_steps import Step, history, instant
from hardwon.privacy import event_filter
from hardwon.privacy.cleaning import clean_state
from hardwon.privacy.identifiers import clean_ids
from hardwon.privacy.prompt_text import is_said_to_hardwon
from hardwon.sessions import ingest
from hardwon.store import db, deletions, jobs, sessions, transcripts
from hardwon.store import projects as known_projects
from hardwon.types import Event, Mark, replace

PURPOSE = "capture"
BATCH = 100  # events in one transaction
_UNDER_WAY = 64  # calls whose result is awaited


class Told(NamedTuple):
    """An event; how it ended where a hook would not have told it; of a prompt how often its words were told."""

    event: Event
    outcome: str = ""
    times: int = 1


class Words(NamedTuple):
    """What the agent said last in a turn, when, and when the next turn began."""

    session: str
    text: str
    at: float
    until: float


def waiting(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    """Fill every session that waits for it."""
    for session in sessions.to_fill(connection):
        if not pauses.paused(home, session["cwd"], clock.now()):
            fill(home, connection, session, values)


def fill(home: str, connection: db.Connection, session: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Take in what a session's transcripts know; gives how many reports were new."""
    with db.transaction(connection):
        tries = sessions.begin_fill(connection, session["id"])
    path, new = str(session["transcript"]) or transcript_files.located(session["host"], session["session"]), 0
    for one in filter(None, [path, *transcript_files.subagents(path)]):
        with suppress(OSError):
            new += read(home, connection, session["host"], one, values)
    with db.transaction(connection):
        sessions.set_transcript(connection, session["id"], path)
        sessions.is_filled(connection, session["id"], tries)
        jobs.want(connection, jobs.DISTIL, session["id"], priority=jobs.LIVE, now=clock.now())
    return new


def read(home: str, connection: db.Connection, host: str, path: str, values: Mapping[str, Any]) -> int:
    """Take in what one transcript has new, portion by portion, each with its mark; OSError if it cannot be read.

    Nothing is taken from where on it tells of a session part of which was paused.
    """
    path = os.path.realpath(path)
    known = transcripts.mark_of(connection, path, PURPOSE)
    with transcript_files.reading(path, known) as opened:
        if known and transcript_tail.is_unchanged(opened.stat, known):
            return 0
        return sum(_portions(home, connection, host, path, opened, values, known))


def _portions(
    home: str,
    connection: db.Connection,
    host: str,
    path: str,
    opened: transcript_files.Reading,
    values: Mapping[str, Any],
    known: Mark | None,
) -> Iterator[int]:
    stat, mark, portions = opened
    whole, reader = transcript_files.is_whole(path), history(host).Reader(_loads(mark.reader))
    tombstones = deletions.read_tombstones(connection)
    turn = UnderWay(host, path, values, _loads(mark.watch), stat.st_mtime, tombstones)
    counted = token_usage.total(_usage_in(known)) or Usage()
    for lines, after in portions:
        steps = [step for number, line in lines for step in reader.read(number, line)]
        if any(claims.was_paused(home, session) for session in {step.session for step in steps}):
            return
        told = [one for step in steps for one in turn.take(step)]
        last = turn.last_words(at_end=after.size >= 0)
        state = {"reader": dumped(reader.state()), "watch": dumped(turn.state())}
        if whole:  # it is read again from the beginning, and only what was counted must be known then
            state = {"reader": dumped({"usage": reader.usage})}
        read_mark = replace(after, malformed=reader.malformed, **state)
        now_counted = token_usage.total(reader.usage)
        new_tokens = _difference(counted, now_counted) if now_counted else None
        yield _commit(connection, host, path, told, last, read_mark, turn.session, new_tokens)
        counted = now_counted or counted


def _usage_in(known: Mark | None) -> Mapping[str, Any]:
    """What was counted in a transcript up to a mark: one that was rewritten since is counted from the beginning."""
    found = _loads(known.reader).get("usage") if known else None
    return found if isinstance(found, dict) else {}


def _difference(before: Usage, after: Usage) -> Usage:
    return Usage(*(now - was for was, now in zip(before, after, strict=True)))


def dumped(state: Mapping[str, Any]) -> str:
    return orjson.dumps(clean_state(state)).decode()


def _loads(text: str) -> dict[str, Any]:
    found = orjson.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _commit(
    connection: db.Connection,
    host: str,
    path: str,
    told: Sequence[Told],
    last: Sequence[Words],
    mark: Mark,
    of_session: str,
    new_tokens: Usage | None,
) -> int:
    """A few events at a time, the mark with the last of them: who dies between reads them again, and knows them."""
    placed = iter([(one, ingest.place_of(one.event.cwd)) for one in told])
    new, taken_at = 0, clock.now()
    while batch := list(islice(placed, BATCH)):
        with db.transaction(connection):
            for (event, outcome, times), place in batch:
                report = ingest.report(event, known_projects.resolve(connection, *place, event.at), "transcript")
                report = replace(report, outcome=outcome or report.outcome, times=times, taken_at=taken_at)
                new += sessions.take(connection, report)
    with db.transaction(connection):
        for session, text, at, until in last:
            sessions.last_words(connection, host, session, text, since=at, until=until)
        if new_tokens:
            sessions.add_tokens(connection, host, of_session, *new_tokens)
        transcripts.set_mark(connection, PURPOSE, path, host, mark, clock.now())
    return new


class UnderWay:
    """Owns what is under way in a transcript: the calls without a result, the latest words, whether it is private."""

    def __init__(
        self,
        host: str,
        path: str,
        values: Mapping[str, Any],
        state: Mapping[str, Any],
        modified: float,
        tombstones: deletions.Tombstones,
    ) -> None:
        self._host, self._path, self._values, self._tombstones = host, path, values, tombstones
        self._hidden = Hidden(path, state)
        self._session = str(state.get("session", ""))
        self._at = float(state.get("at") or modified)
        self._calls: dict[str, list[Any]] = dict(state.get("calls") or {})
        self._said: Event | None = None
        if said := state.get("said"):
            self._said = self._event(Step("agent", 0, cwd=said[2]), "Stop", message=said[0], at=said[1])
        self._prompts: dict[str, list[int]] = dict(state.get("prompts") or {})
        self._words: list[Words] = []
        self._is_for_us = bool(state.get("for_us"))  # the last prompt was for hardwon, so the answer is about us

    def state(self) -> dict[str, Any]:
        said = self._said and self._admit(self._said)
        return {
            **self._hidden.state(),
            "session": self._session,
            "at": self._at,
            "calls": self._calls,
            "said": [said.message, said.at, said.cwd] if said else None,
            "prompts": self._prompts,
            "for_us": self._is_for_us,
        }

    @property
    def session(self) -> str:
        """The session that the transcript told of last."""
        return self._session

    def take(self, step: Step) -> Iterator[Told]:
        """What a step tells."""
        self._session = step.session or self._session
        self._at = instant(step.at) or self._at
        hidden = self._hidden.hides(step)
        if step.kind == "person":
            yield from self._prompted(step)
        elif hidden:
            return
        elif step.kind == "result":
            yield from self._ended(step)
        elif not step.agent:
            is_kept = step.kind == "agent" and not self._is_for_us
            self._said = self._event(step, "Stop", message=step.text) if is_kept else None
        if step.kind == "call":
            self._call(step)

    def last_words(self, *, at_end: bool) -> list[Words]:
        """The last words of the turns that were read; of the one under way if the transcript ends with them."""
        found, self._words = self._words, []
        return [*found, *self._latest(inf)] if at_end else found

    def _latest(self, until: float) -> list[Words]:
        said = self._said and self._admit(self._said)
        return [Words(said.session, said.message, said.at, until)] if said and said.message else []

    def _prompted(self, step: Step) -> Iterator[Told]:
        self._words += self._latest(self._at)
        self._said = None
        self._is_for_us = is_said_to_hardwon(step.text)
        if self._hidden.private or self._is_for_us:
            return
        for fit, _, _ in self._fit(self._event(step, "UserPromptSubmit", prompt=step.text, prompt_name=step.call)):
            yield Told(fit, times=self._times(fit))

    def _times(self, prompt: Event) -> int:
        """How often the words were told; of a prompt that has a name how often with one."""
        hash = blake2b(prompt.prompt.encode("utf-8", "replace"), digest_size=8).hexdigest()
        total, named = self._prompts.get(hash, (0, 0))
        self._prompts[hash] = [total + 1, named + bool(prompt.prompt_name)]
        return self._prompts[hash][bool(prompt.prompt_name)]

    def _call(self, step: Step) -> None:
        """Keep of a call what may be kept, until its result is there."""
        given = {"command": step.command, "file_path": step.path, "content": step.content}
        event = self._tool(step, step.tool, {name: value for name, value in given.items() if value})
        for fit, _, _ in self._fit(event):
            self._calls[step.call] = [fit.tool, fit.input]
            if len(self._calls) > _UNDER_WAY:
                del self._calls[next(iter(self._calls))]

    def _ended(self, step: Step) -> Iterator[Told]:
        """A call that a person refused or a hook denied is no failure of the agent."""
        tool, given = self._calls.pop(step.call, ("", None))
        if not tool:
            return
        failed = step.failed and not step.refused
        outcome = ""
        if step.refused:
            outcome = "refused"
        elif step.denied:
            outcome = "denied"
        event = self._tool(step, tool, given)
        yield from self._fit(replace(event, response=step.text, failed=failed), outcome)

    def _tool(self, step: Step, tool: str, given: Any) -> Event:
        named = given if isinstance(given, dict) else {}
        return self._event(
            step,
            "PostToolUse",
            tool=tool,
            tool_use_id=step.call,
            input=given,
            command=named.get("command", ""),
            path=named.get("file_path", ""),
            content=named.get("content", ""),
        )

    def _fit(self, event: Event, outcome: str = "") -> Iterator[Told]:
        fit = self._admit(event)
        if fit:
            yield Told(fit, outcome)

    def _admit(self, event: Event) -> Event | None:
        """Return what may be kept of an event; None if it was deleted since it happened."""
        fit = event_filter.fit(event, self._values)
        if fit is None or not self._tombstones:
            return fit
        words = f"{fit.prompt}\n{fit.message}\n{orjson.dumps([fit.input, fit.response], default=str).decode()}"
        if self._tombstones.covers(deletions.SESSION, fit.session, fit.at):
            return None
        return None if self._tombstones.covers_text(words, fit.at) else fit

    def _event(self, step: Step, kind: str, **more: Any) -> Event:
        fields = {"id": f"{self._host}:{step.id}", "at": self._at, "agent": step.agent, **more}
        path = "" if step.agent else self._path
        return clean_ids(Event(self._host, kind, self._session, step.cwd, transcript=path, **fields))
