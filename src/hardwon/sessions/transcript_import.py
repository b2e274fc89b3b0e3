"""Import from transcripts what hooks missed: at the end of a turn or session, or for all of history.

A hook may be killed, switched off, or not installed yet. The transcript has the same calls under the same ids, so both
reports merge. The filters for hooks apply here too, and also to the state that is stored between two reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple

import orjson

from hardwon import claims, clock, pauses
from hardwon.agents import transcript_files
from hardwon.agents.transcript_files import PrivateTurnTracker
from hardwon.agents.transcript_steps import (
    Step,
    TokenUsage,
    dump_reader_state,
    get_total_usage,
    load_transcript_module,
    parse_timestamp,
)
from hardwon.privacy import event_filter
from hardwon.privacy.cleaning import clean_state
from hardwon.privacy.identifiers import clean_ids
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.sessions import ingest
from hardwon.store import db, deletions, jobs, sessions, transcripts
from hardwon.store.events import (
    add_tokens,
    build_transcript_key,
    find_or_create_project,
    store_last_words,
    store_report,
)
from hardwon.types import AGENT_MESSAGE, GLOB_TOOL, Event, ReadPosition, replace

CAPTURE_PURPOSE = "capture"
# Hooks wait for the same lock, so no transaction may take longer than 50 ms.
_SEARCH_TOOLS = ("Grep", GLOB_TOOL)  # their input is stored under the names that their hooks use
BATCH_SIZE = 100  # events in one transaction
# Results follow their calls closely; the state is stored after every portion and must stay small.
_MAX_OPEN_CALLS = 64  # calls whose result is awaited
# Shorter messages between calls only announce the next one: "Let me look at the tests."
_MIN_MESSAGE_CHARS = 120


class TranscriptEvent(NamedTuple):
    """An event, its outcome if hooks do not report it, and how often a prompt's text occurred so far."""

    event: Event
    outcome: str = ""
    times: int = 1


class FinalMessage(NamedTuple):
    """The agent's last words in a turn, when it said them, and when the next turn began."""

    session: str
    text: str
    at: float
    next_turn_at: float


def import_waiting_sessions(home: str, connection: db.Connection, values: Mapping[str, Any]) -> None:
    """Import the transcripts of every session that waits for it."""
    for session in sessions.list_sessions_to_fill(connection):
        if not pauses.is_paused(home, session["cwd"], clock.now()):
            _import_session(home, connection, session, values)


def _import_session(home: str, connection: db.Connection, session: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Import a session's transcripts; return how many reports were new."""
    with db.transaction(connection):
        # Counted before reading, so that a transcript that crashes the worker is given up after a few tries.
        tries = sessions.begin_fill(connection, session["id"])
    path = str(session["transcript"]) or transcript_files.find_session_path(session["host"], session["session"])
    new_count = 0
    transcript_paths = [path, *transcript_files.list_subagent_transcripts(path)] if path else []
    for transcript_path in transcript_paths:
        with suppress(OSError):  # deleted, or not readable: the hooks' reports are all there is
            new_count += import_transcript(home, connection, session["host"], transcript_path, values)
    with db.transaction(connection):
        sessions.set_transcript(connection, session["id"], path)
        sessions.finish_fill(connection, session["id"], tries)
        jobs.enqueue(connection, jobs.DISTIL, session["id"], priority=jobs.LIVE, now=clock.now())
    return new_count


def import_transcript(home: str, connection: db.Connection, agent: str, path: str, values: Mapping[str, Any]) -> int:
    """Import the new part of a transcript in portions, each with its read position; return how many reports were new.

    Raise OSError if it cannot be read. The import stops at the first session of which a part was paused.
    """
    path = os.path.realpath(path)
    last_position = transcripts.find_read_position(connection, path, CAPTURE_PURPOSE)
    with transcript_files.open_transcript(path, last_position) as transcript:
        if last_position and transcript_files.is_unchanged(transcript.stat, last_position):
            return 0
        return sum(_import_portions(home, connection, agent, path, transcript, values, last_position))


def _import_portions(
    home: str,
    connection: db.Connection,
    agent: str,
    path: str,
    transcript: transcript_files.OpenTranscript,
    values: Mapping[str, Any],
    last_position: ReadPosition | None,
) -> Iterator[int]:
    """Import one portion after the other, and yield how many reports in each were new."""
    stat, position, portions = transcript
    reader = load_transcript_module(agent).Reader(_parse_state(position.reader))
    tombstones = deletions.read_tombstones(connection)
    tracker = TranscriptState(agent, path, values, _parse_state(position.watch), stat.st_mtime, tombstones)
    counted_usage = get_total_usage(_read_counted_usage(last_position)) or TokenUsage()
    for lines, next_position in portions:
        steps: list[Step] = []
        for number, line in lines:
            steps += reader.read_line(number, line)
        # Which part was paused is not known, so nothing more of the file is read.
        sessions = {step.session for step in steps}
        if any(claims.has_been_paused(home, session) for session in sessions):
            return
        events: list[TranscriptEvent] = []
        for step in steps:
            events += tracker.process_step(step)
        # Only the position behind the last portion has the file's size.
        final_messages = tracker.pop_final_messages(is_at_end=next_position.size >= 0)
        reader_state = dump_reader_state(reader, has_hidden_steps=tracker.has_hidden_steps)
        state = {"reader": _serialize_state(reader_state), "watch": _serialize_state(tracker.dump_state())}
        if transcript_files.is_single_document(path):
            # It is read again from the beginning, and only what was counted must be known then.
            state = {"reader": _serialize_state({"usage": reader.usage})}
        new_position = replace(next_position, malformed=reader.malformed, **state)
        new_tokens = None
        if total_usage := get_total_usage(reader.usage):
            # Only what is new is added: the same transcript is read again whenever it grows.
            differences = [total - counted for total, counted in zip(total_usage, counted_usage, strict=True)]
            new_tokens = TokenUsage(*differences)
        yield _commit_portion(
            connection, agent, path, events, final_messages, new_position, tracker.session, new_tokens
        )
        counted_usage = total_usage or counted_usage


def _read_counted_usage(position: ReadPosition | None) -> Mapping[str, Any]:
    """Return the tokens counted in a transcript so far, even if it was rewritten since; empty if none were."""
    usage = _parse_state(position.reader).get("usage") if position else None
    return usage if isinstance(usage, dict) else {}


def _serialize_state(state: Mapping[str, Any]) -> str:
    return orjson.dumps(clean_state(state)).decode()


def _parse_state(text: str) -> dict[str, Any]:
    """Return what a reader stored; empty for a transcript that is new, or whose state a purge cleared."""
    if not text:
        return {}
    state = orjson.loads(text)
    return state if isinstance(state, dict) else {}


def _commit_portion(
    connection: db.Connection,
    agent: str,
    path: str,
    events: Sequence[TranscriptEvent],
    final_messages: Sequence[FinalMessage],
    position: ReadPosition,
    session_id: str,
    new_tokens: TokenUsage | None,
) -> int:
    """Store a few events per transaction, then the read position, and return how many reports were new.

    After a crash the same events are read again, and the known ones are skipped.
    """
    # The projects are found before the first transaction, because git's files are read for them.
    projects_and_remotes = {event.cwd: ingest.find_project_and_remote(event.cwd) for event, _, _ in events}
    new_count = 0
    imported_at = clock.now()
    for start in range(0, len(events), BATCH_SIZE):
        with db.transaction(connection):
            for event, outcome, times in events[start : start + BATCH_SIZE]:
                project = find_or_create_project(connection, *projects_and_remotes[event.cwd], event.at)
                report = ingest.build_report(
                    event, project, origin="transcript", outcome=outcome, times=times, imported_at=imported_at
                )
                new_count += store_report(connection, report)
    with db.transaction(connection):
        for session, text, at, until in final_messages:
            store_last_words(connection, agent, session, text, since=at, until=until)
        if new_tokens:
            add_tokens(connection, agent, session_id, *new_tokens)
        transcripts.set_read_position(connection, CAPTURE_PURPOSE, path, agent, position, clock.now())
    return new_count


class TranscriptState:
    """The state of reading a transcript: open calls, the latest message, and whether the turn is private."""

    def __init__(
        self,
        agent: str,
        path: str,
        values: Mapping[str, Any],
        state: Mapping[str, Any],
        modified: float,
        tombstones: deletions.Tombstones,
    ) -> None:
        self._agent = agent
        self._path = path
        self._values = values
        self._tombstones = tombstones
        self._private_turns = PrivateTurnTracker(path, state)
        self.has_hidden_steps = self._private_turns.is_private  # steps that may not be stored were read
        self.session = str(state.get("session", ""))  # of the last step
        # Steps without a time get that of the step before, the first one that of the file.
        self._at = float(state.get("at") or modified)
        self._open_calls: dict[str, list[Any]] = dict(state.get("calls") or {})
        self._last_message: Event | None = None
        if saved_message := state.get("said"):
            message, at, cwd, *saved_key = saved_message
            step = Step("agent", line=0, cwd=cwd)
            self._last_message = self._build_event(step, "Stop", message=message, at=at)
            # A state that 0.1.0 stored has no key.
            key = saved_key[0] if saved_key else build_transcript_key(agent, f"{self.session}:{at}:said")
            self._last_message = replace(self._last_message, id=key)
        self._prompt_counts: dict[str, list[int]] = dict(state.get("prompts") or {})
        self._final_messages: list[FinalMessage] = []
        self._is_for_hardwon = bool(state.get("for_us"))  # the last prompt was for hardwon, so the answer is about us

    def dump_state(self) -> dict[str, Any]:
        """Return what the next portion needs, with nothing in it that may not be stored."""
        message = None
        if self._last_message and (event := self._filter_event(self._last_message)):
            message = [event.message, event.at, event.cwd, event.id]
        return {
            **self._private_turns.dump_state(),
            "session": self.session,
            "at": self._at,
            "calls": self._open_calls,
            "said": message,
            "prompts": self._prompt_counts,
            "for_us": self._is_for_hardwon,
        }

    def process_step(self, step: Step) -> Iterator[TranscriptEvent]:
        """Yield the events that a step reports."""
        self.session = step.session or self.session
        self._at = parse_timestamp(step.at) or self._at
        is_hidden = self._private_turns.check_next_step(step)
        self.has_hidden_steps |= is_hidden
        if step.kind == "person":
            yield from self._process_prompt(step)
        elif is_hidden:
            return
        elif step.kind == "result":
            yield from self._process_result(step)
        elif not step.subagent_id:
            yield from self._report_message_before()
            self._last_message = None  # words before a call are not the agent's last
            if step.kind == "agent" and not self._is_for_hardwon:
                self._last_message = self._build_event(step, "Stop", message=step.text)
        if step.kind == "call":
            self._remember_call(step)

    def pop_final_messages(self, *, is_at_end: bool) -> list[FinalMessage]:
        """Return the last words of the turns that were read; of the one under way if the transcript ends with them."""
        if is_at_end:
            self._note_final_message(until=inf)
        messages = self._final_messages
        self._final_messages = []
        return messages

    def _note_final_message(self, until: float) -> None:
        """Take the agent's latest message for its last words before this time, if it may be stored."""
        event = self._last_message and self._filter_event(self._last_message)
        if event and event.message:
            self._final_messages.append(FinalMessage(event.session, event.message, event.at, until))

    def _report_message_before(self) -> Iterator[TranscriptEvent]:
        """Yield the last message, if it says something, because the turn went on after it."""
        if self._last_message and len(self._last_message.message) >= _MIN_MESSAGE_CHARS:
            event = self._filter_event(replace(self._last_message, kind=AGENT_MESSAGE))
            if event:
                yield TranscriptEvent(event)

    def _process_prompt(self, step: Step) -> Iterator[TranscriptEvent]:
        """Yield the event of a person's prompt, unless it is private or for hardwon; it ends the turn before."""
        self._note_final_message(until=self._at)
        self._last_message = None
        self._is_for_hardwon = is_only_for_hardwon(step.text)
        if self._private_turns.is_private or self._is_for_hardwon:
            return  # no prompt for the agent that may be kept
        event = self._filter_event(self._build_event(step, "UserPromptSubmit", prompt=step.text, prompt_name=step.call))
        if event:
            yield TranscriptEvent(event, times=self._count_prompt(event))

    def _count_prompt(self, prompt: Event) -> int:
        """Return how often a prompt's text occurred so far; for a prompt with an id, count only those with one."""
        # A hash, because the counts are stored with the read position.
        digest = blake2b(prompt.prompt.encode("utf-8", "replace"), digest_size=8).hexdigest()
        total_count, named_count = self._prompt_counts.get(digest, (0, 0))
        total_count += 1
        if prompt.prompt_name:
            named_count += 1
        self._prompt_counts[digest] = [total_count, named_count]
        return named_count if prompt.prompt_name else total_count

    def _remember_call(self, step: Step) -> None:
        """Remember what may be stored of a call, until its result is there."""
        tool_input = {"command": step.command, "file_path": step.path, "content": step.content}
        if step.tool in _SEARCH_TOOLS:
            tool_input = {"pattern": step.content, "path": step.path}
        given_input = {name: value for name, value in tool_input.items() if value}
        event = self._filter_event(self._build_tool_event(step, step.tool, given_input))
        self.has_hidden_steps |= event is None
        if event:
            self._open_calls[step.call] = [event.tool, event.input]
            if len(self._open_calls) > _MAX_OPEN_CALLS:
                del self._open_calls[next(iter(self._open_calls))]

    def _process_result(self, step: Step) -> Iterator[TranscriptEvent]:
        """Yield the end of a call; one that a person refused or a hook denied is no failure of the agent."""
        tool, tool_input = self._open_calls.pop(step.call, ("", None))
        if not tool:
            return  # nothing of the call may be stored, so neither may its result
        outcome = ""
        if step.refused:
            outcome = "refused"
        elif step.denied:
            outcome = "denied"
        call = self._build_tool_event(step, tool, tool_input)
        event = self._filter_event(replace(call, response=step.text, failed=step.failed and not step.refused))
        if event:
            yield TranscriptEvent(event, outcome)

    def _build_tool_event(self, step: Step, tool: str, tool_input: Any) -> Event:
        """Return the event of a call, whose input may be the whole one or what was remembered of it."""
        fields = tool_input if isinstance(tool_input, dict) else {}
        return self._build_event(
            step,
            "PostToolUse",
            tool=tool,
            tool_use_id=step.call,
            input=tool_input,
            command=fields.get("command", ""),
            path=fields.get("file_path") or fields.get("path", ""),
            content=fields.get("content") or fields.get("pattern", ""),
        )

    def _filter_event(self, event: Event) -> Event | None:
        """Return the event as it may be stored; None if it was deleted since it happened."""
        clean = event_filter.filter_transcript_event(event, self._values)
        if clean is None or not self._tombstones:
            return clean
        if self._tombstones.covers(deletions.SESSION, clean.session, clean.at):
            return None
        # All text of the event in one search; a purged text may stand in any of its fields.
        call_text = orjson.dumps([clean.input, clean.response], default=str).decode()
        if self._tombstones.covers_text(f"{clean.prompt}\n{clean.message}\n{call_text}", clean.at):
            return None
        return clean

    def _build_event(self, step: Step, kind: str, **extra_fields: Any) -> Event:
        """Return an event of a step, with this transcript's session and the latest known time."""
        fields = {
            "id": build_transcript_key(self._agent, step.id),
            "at": self._at,
            "subagent_id": step.subagent_id,
            **extra_fields,
        }
        path = "" if step.subagent_id else self._path  # a session's transcript is not that of its sub-agent
        return clean_ids(Event(self._agent, kind, self.session, step.cwd, transcript=path, **fields))
