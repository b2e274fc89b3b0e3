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
from hardwon.agents.private_turns import PrivateTurnTracker
from hardwon.agents.token_usage import TokenUsage
from hardwon.agents.transcript_steps import Step, load_transcript_module, parse_timestamp
from hardwon.privacy import event_filter
from hardwon.privacy.cleaning import clean_state
from hardwon.privacy.identifiers import clean_ids
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.sessions import ingest
from hardwon.store import db, deletions, jobs, sessions, transcripts
from hardwon.store import projects as known_projects
from hardwon.types import Event, ReadPosition, replace

CAPTURE_PURPOSE = "capture"
BATCH_SIZE = 100  # events in one transaction
_UNDER_WAY = 64  # calls whose result is awaited


class TranscriptEvent(NamedTuple):
    """An event; how it ended where a hook would not have told it; of a prompt how often its words were told."""

    event: Event
    outcome: str = ""
    times: int = 1


class FinalMessage(NamedTuple):
    """What the agent said last in a turn, when, and when the next turn began."""

    session: str
    text: str
    at: float
    next_turn_at: float


def import_waiting_sessions(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    """Fill every session that waits for it."""
    for session in sessions.list_sessions_to_fill(connection):
        if not pauses.is_paused(home, session["cwd"], clock.now()):
            import_session(home, connection, session, values)


def import_session(home: str, connection: db.Connection, session: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Take in what a session's transcripts know; gives how many reports were new."""
    with db.transaction(connection):
        tries = sessions.begin_fill(connection, session["id"])
    path, new = str(session["transcript"]) or transcript_files.find_session_path(session["host"], session["session"]), 0
    for one in filter(None, [path, *transcript_files.list_subagent_transcripts(path)]):
        with suppress(OSError):
            new += import_transcript(home, connection, session["host"], one, values)
    with db.transaction(connection):
        sessions.set_transcript(connection, session["id"], path)
        sessions.finish_fill(connection, session["id"], tries)
        jobs.enqueue(connection, jobs.DISTIL, session["id"], priority=jobs.LIVE, now=clock.now())
    return new


def import_transcript(home: str, connection: db.Connection, agent: str, path: str, values: Mapping[str, Any]) -> int:
    """Take in what one transcript has new, portion by portion, each with its mark; OSError if it cannot be read.

    Nothing is taken from where on it tells of a session part of which was paused.
    """
    path = os.path.realpath(path)
    known = transcripts.find_read_position(connection, path, CAPTURE_PURPOSE)
    with transcript_files.open_transcript(path, known) as opened:
        if known and transcript_tail.is_unchanged(opened.stat, known):
            return 0
        return sum(_portions(home, connection, agent, path, opened, values, known))


def _portions(
    home: str,
    connection: db.Connection,
    host: str,
    path: str,
    opened: transcript_files.OpenTranscript,
    values: Mapping[str, Any],
    known: ReadPosition | None,
) -> Iterator[int]:
    stat, mark, portions = opened
    whole, reader = transcript_files.is_single_document(path), load_transcript_module(host).Reader(_loads(mark.reader))
    tombstones = deletions.read_tombstones(connection)
    turn = TranscriptState(host, path, values, _loads(mark.watch), stat.st_mtime, tombstones)
    counted = token_usage.get_total_usage(_usage_in(known)) or TokenUsage()
    for lines, after in portions:
        steps = [step for number, line in lines for step in reader.read_line(number, line)]
        if any(claims.has_been_paused(home, session) for session in {step.session for step in steps}):
            return
        told = [one for step in steps for one in turn.process_step(step)]
        last = turn.pop_final_messages(is_at_end=after.size >= 0)
        state = {"reader": serialize_state(reader.dump_state()), "watch": serialize_state(turn.dump_state())}
        if whole:  # it is read again from the beginning, and only what was counted must be known then
            state = {"reader": serialize_state({"usage": reader.usage})}
        read_mark = replace(after, malformed=reader.malformed, **state)
        now_counted = token_usage.get_total_usage(reader.usage)
        new_tokens = _difference(counted, now_counted) if now_counted else None
        yield _commit(connection, host, path, told, last, read_mark, turn.last_session, new_tokens)
        counted = now_counted or counted


def _usage_in(known: ReadPosition | None) -> Mapping[str, Any]:
    """What was counted in a transcript up to a mark: one that was rewritten since is counted from the beginning."""
    found = _loads(known.reader).get("usage") if known else None
    return found if isinstance(found, dict) else {}


def _difference(before: TokenUsage, after: TokenUsage) -> TokenUsage:
    return TokenUsage(*(now - was for was, now in zip(before, after, strict=True)))


def serialize_state(state: Mapping[str, Any]) -> str:
    return orjson.dumps(clean_state(state)).decode()


def _loads(text: str) -> dict[str, Any]:
    found = orjson.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _commit(
    connection: db.Connection,
    host: str,
    path: str,
    told: Sequence[TranscriptEvent],
    last: Sequence[FinalMessage],
    mark: ReadPosition,
    of_session: str,
    new_tokens: TokenUsage | None,
) -> int:
    """A few events at a time, the mark with the last of them: who dies between reads them again, and knows them."""
    placed = iter([(one, ingest.find_project_and_remote(one.event.cwd)) for one in told])
    new, taken_at = 0, clock.now()
    while batch := list(islice(placed, BATCH_SIZE)):
        with db.transaction(connection):
            for (event, outcome, times), place in batch:
                report = ingest.build_report(
                    event, known_projects.find_or_create(connection, *place, event.at), "transcript"
                )
                report = replace(report, outcome=outcome or report.outcome, times=times, imported_at=taken_at)
                new += sessions.store_report(connection, report)
    with db.transaction(connection):
        for session, text, at, until in last:
            sessions.store_last_words(connection, host, session, text, since=at, until=until)
        if new_tokens:
            sessions.add_tokens(connection, host, of_session, *new_tokens)
        transcripts.set_read_position(connection, CAPTURE_PURPOSE, path, host, mark, clock.now())
    return new


class TranscriptState:
    """Owns what is under way in a transcript: the calls without a result, the latest words, whether it is private."""

    def __init__(
        self,
        agent: str,
        path: str,
        values: Mapping[str, Any],
        state: Mapping[str, Any],
        modified: float,
        tombstones: deletions.Tombstones,
    ) -> None:
        self._host, self._path, self._values, self._tombstones = agent, path, values, tombstones
        self._hidden = PrivateTurnTracker(path, state)
        self._session = str(state.get("session", ""))
        self._at = float(state.get("at") or modified)
        self._calls: dict[str, list[Any]] = dict(state.get("calls") or {})
        self._said: Event | None = None
        if said := state.get("said"):
            self._said = self._event(Step("agent", 0, cwd=said[2]), "Stop", message=said[0], at=said[1])
        self._prompts: dict[str, list[int]] = dict(state.get("prompts") or {})
        self._words: list[FinalMessage] = []
        self._is_for_us = bool(state.get("for_us"))  # the last prompt was for hardwon, so the answer is about us

    def dump_state(self) -> dict[str, Any]:
        said = self._said and self._admit(self._said)
        return {
            **self._hidden.dump_state(),
            "session": self._session,
            "at": self._at,
            "calls": self._calls,
            "said": [said.message, said.at, said.cwd] if said else None,
            "prompts": self._prompts,
            "for_us": self._is_for_us,
        }

    @property
    def last_session(self) -> str:
        """The session that the transcript told of last."""
        return self._session

    def process_step(self, step: Step) -> Iterator[TranscriptEvent]:
        """What a step tells."""
        self._session = step.session or self._session
        self._at = parse_timestamp(step.at) or self._at
        hidden = self._hidden.should_hide(step)
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

    def pop_final_messages(self, *, is_at_end: bool) -> list[FinalMessage]:
        """The last words of the turns that were read; of the one under way if the transcript ends with them."""
        found, self._words = self._words, []
        return [*found, *self._latest(inf)] if is_at_end else found

    def _latest(self, until: float) -> list[FinalMessage]:
        said = self._said and self._admit(self._said)
        return [FinalMessage(said.session, said.message, said.at, until)] if said and said.message else []

    def _prompted(self, step: Step) -> Iterator[TranscriptEvent]:
        self._words += self._latest(self._at)
        self._said = None
        self._is_for_us = is_only_for_hardwon(step.text)
        if self._hidden.is_private or self._is_for_us:
            return
        for fit, _, _ in self._fit(self._event(step, "UserPromptSubmit", prompt=step.text, prompt_name=step.call)):
            yield TranscriptEvent(fit, times=self._times(fit))

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

    def _ended(self, step: Step) -> Iterator[TranscriptEvent]:
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

    def _fit(self, event: Event, outcome: str = "") -> Iterator[TranscriptEvent]:
        fit = self._admit(event)
        if fit:
            yield TranscriptEvent(fit, outcome)

    def _admit(self, event: Event) -> Event | None:
        """Return what may be kept of an event; None if it was deleted since it happened."""
        fit = event_filter.filter_transcript_event(event, self._values)
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
