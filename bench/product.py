"""The only place where the benchmarks of mining touch the product: read transcripts, mine, list, accept, match.

The benchmarks measure what a person would see and what an agent would be told, so everything here goes through the
functions that the commands and the hook use. When packages move, this file changes and no benchmark does.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hardwon import projects, settings
from hardwon.actions import lessons as lesson_actions
from hardwon.actions.approvals import Decider, open_decider
from hardwon.agents import transcript_files
from hardwon.agents.transcript_files import PrivateTurnTracker
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.errors import UserError
from hardwon.lessons import call_replies, review_queue, validation
from hardwon.lessons import lessons_file as lesson_files
from hardwon.lessons import record as records
from hardwon.lessons.delivery import SessionClaims
from hardwon.lessons.manifest import compile_entries
from hardwon.lessons.manifest_index import open_index
from hardwon.lessons.matching import match_entry, prepare_call
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.replay import build_prefilter
from hardwon.mining import scan
from hardwon.mining.transcript_reading import TranscriptFile, is_hardwon_call
from hardwon.store import db
from hardwon.types import Event, ManifestEntry, Pattern, replace

DENIALS = ("hold", "block")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript on disk and the agent that wrote it."""

    path: str
    agent_name: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call with its result; `key` is equal in copies of the same session."""

    key: str
    call_id: str
    path: str
    line: int
    result_line: int
    at: str
    agent_name: str
    session: str
    subagent_id: str
    cwd: str
    tool: str
    command: str
    file: str
    content: str
    result: str
    is_failed: bool
    is_refused: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate as it is listed; `evidence` has the path and line of each failed result it rests on."""

    id: str
    signature: str
    score: float
    record: Mapping[str, Any]
    evidence: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Firing:
    """A lesson that was delivered about a call."""

    lesson: str
    delivery: str

    @property
    def is_denial(self) -> bool:
        return self.delivery in DENIALS


def find_transcripts(root: str) -> list[Transcript]:
    """Return every transcript below a folder."""
    return [
        Transcript(file.path, file.agent, file.unread_bytes, file.modified_at)
        for file in scan.find_changed_transcripts({"": [root]}, {})
    ]


def read_calls(source: Transcript) -> tuple[list[Call], str, str]:
    """Return the calls that have a result, and the first and last time in the transcript."""
    reader, hidden = load_transcript_module(source.agent_name).Reader(), PrivateTurnTracker(source.path)
    calls: list[Call] = []
    waiting: dict[tuple[str, str], Any] = {}
    times: list[str] = []
    with transcript_files.open_transcript(source.path) as opened:
        for numbered_lines, _ in opened.portions:
            for number, line in numbered_lines:
                for step in reader.read_line(number, line):
                    if hidden.check_next_step(step):
                        continue
                    if step.at:
                        times.append(step.at)
                    if step.kind == "call" and not is_hardwon_call(step):
                        waiting[(step.subagent_id, step.call)] = step
                    elif step.kind == "result":
                        call = waiting.pop((step.subagent_id, step.call), None)
                        if call is not None:
                            calls.append(_join_call(source, call, step))
    calls.sort(key=lambda call: call.line)
    return calls, min(times, default=""), max(times, default="")


def _join_call(source: Transcript, call: Any, result: Any) -> Call:
    return Call(
        key=f"{source.agent_name}:{call.id}",
        call_id=call.call,
        path=source.path,
        line=call.line,
        result_line=result.line,
        at=call.at,
        agent_name=source.agent_name,
        session=call.session,
        subagent_id=call.subagent_id,
        cwd=call.cwd,
        tool=call.tool,
        command=call.command,
        file=call.path,
        content=call.content,
        result=result.text,
        is_failed=result.failed,
        is_refused=bool(result.refused) or result.denied,
    )


class Workshop:
    """A home of its own in which transcripts are mined and proposals accepted, as a person would."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._connection = db.connect(home)
        self._settings = settings.resolve_settings({})
        self._proposals: dict[str, Any] = {}

    def close(self) -> None:
        self._connection.close()

    def mine(self, transcripts: Iterable[Transcript]) -> None:
        """Scan transcripts whose sessions have ended."""
        files = [
            TranscriptFile(transcript.path, transcript.agent_name, transcript.size, transcript.modified)
            for transcript in transcripts
        ]
        scan.scan_transcripts(self._home, self._connection, files, self._settings, kind="part")

    def list_default(self) -> list[Proposal]:
        """Return what `hardwon review` shows, in its order: merged, ranked and gated as the product does it."""
        return self._wrap(review_queue.list_waiting(self._home, self._connection))

    def list_all(self) -> list[Proposal]:
        """Return every proposal, also those that the default list leaves out."""
        waiting = review_queue.list_waiting(self._home, self._connection)
        return self._wrap([*waiting, *review_queue.list_waiting(self._home, self._connection, "open")])

    def _wrap(self, listed: Iterable[Any]) -> list[Proposal]:
        wrapped: list[Proposal] = []
        for proposal in listed:
            self._proposals[proposal.id] = proposal
            errors = [quote for quote in proposal.record.get("evidence", ()) if quote["kind"] in ("error", "user")]
            evidence = tuple((str(quote["path"]), int(quote["line"])) for quote in errors)
            wrapped.append(Proposal(proposal.id, proposal.signature, proposal.score, proposal.record, evidence))
        return wrapped

    def accept(self, proposal: Proposal, delivery: str = "") -> tuple[str, str]:
        """Accept a proposal; return the lesson's id, or nothing and the reason why it was refused.

        It counts everywhere: a project's sessions come from several machines, so paths say nothing about it.
        """
        changes: dict[str, Any] = {"scope": {"type": "global"}}
        if delivery:
            changes["delivery"] = delivery
        try:
            lesson = lesson_actions.accept_candidate(
                self._open_decider(), self._proposals[proposal.id], changes, confirm=lambda _: True
            )
        except UserError as refusal:
            return "", " ".join(refusal.message.split())
        return lesson.id, ""

    def _open_decider(self) -> Decider:
        return open_decider(self._home, self._connection, "benchmark")

    def retire(self, lesson_id: str) -> None:
        """Take an accepted lesson out of force."""
        lesson = next(lesson for lesson in self._read_lessons() if lesson.id == lesson_id)
        lesson_actions.retire_lesson(self._open_decider(), lesson)

    def open_guard(self) -> Guard:
        """Return the matcher with the lessons that are in force now."""
        return Guard(self._open_index())

    def _read_lessons(self) -> Sequence[Any]:
        return lesson_files.read(lesson_files.get_lessons_path(self._home)).lessons

    def _open_index(self) -> Any:
        try:
            return open_index(self._home)
        except FileNotFoundError:
            return None


@contextmanager
def open_workshop() -> Iterator[Workshop]:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        os.chmod(home, 0o700)
        workshop = Workshop(home)
        try:
            yield workshop
        finally:
            workshop.close()


class _PatternRunner:
    """The worker's patterns, with all the time they take."""

    def __init__(self) -> None:
        self._patterns = PatternCache()

    def search_pattern(self, pattern: Pattern, text: str) -> bool:
        return self._patterns.search(pattern, text)

    def get_cpu_seconds(self) -> float:
        return 0.0

    def check_code(self, lesson_id: str) -> str:
        return "fresh"  # the corpus has no code that could have changed


class _ClaimsInMemory(SessionClaims):
    """Claims in a set instead of files: each lesson once per session and sub-agent."""

    def __init__(self, event: Event, delivered: set[tuple[str, str, str]]) -> None:
        super().__init__("", event)
        self._session, self._told = (event.session, event.subagent_id), delivered

    def take_lesson(self, entry: ManifestEntry) -> bool:
        key = (*self._session, entry.id)
        is_first = key not in self._told
        self._told.add(key)
        return is_first

    def is_allowed(self, entry: ManifestEntry) -> bool:
        return False


class Guard:
    """What the hook would say about calls: the shipped matcher, each lesson once per session and sub-agent."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._patterns: Any = _PatternRunner()  # calls need nothing else of what a hook draws on

    def ask(self, call: Call, delivered: set[tuple[str, str, str]]) -> list[Firing]:
        """Return what is delivered about a call; adds to `delivered`, which has what the session got before."""
        if self._index is None:
            return []

        event = _make_event(call)
        events = [event]
        if call.agent_name in call_replies.AGENTS_NOTED_AFTER_CALL and (
            call.agent_name != "opencode" or not call.is_failed
        ):
            # These read notes with the result, and opencode none with one that failed.
            events.append(replace(event, kind="PostToolUse"))
        firings: list[Firing] = []
        for reply_event in events:
            reply = call_replies.reply_to_call(
                reply_event, self._index, _ClaimsInMemory(event, delivered), self._patterns
            )
            firings += [Firing(injection.lesson, injection.delivery) for injection in reply.deliveries]
            if reply.deny:
                break
        return firings


class Trigger:
    """A proposal's trigger, to be tried on recorded calls."""

    def __init__(self, entry: ManifestEntry) -> None:
        self._entry = entry
        self._may_fire = build_prefilter(entry)
        self._search = PatternCache().search

    def matches(self, call: Call) -> bool:
        if call.tool not in self._entry.tools:
            return False
        event = _make_event(call)
        if not self._may_fire(event):
            return False
        sight = prepare_call(event, project_root=_find_root(call.cwd), equivalent_folders=_find_places(call.cwd))
        return match_entry(self._entry, sight, self._search) is not None


def compile_trigger(proposal: Proposal) -> Trigger | None:
    """Return the proposal's trigger; None if it has none that can be tried."""
    tried = {"id": proposal.id, "slug": "trial", "status": "active", "needsReview": False, "scope": {"type": "global"}}
    try:
        lesson = records.parse_lesson({**proposal.record, **tried})
    except records.BadRecord:
        return None
    if validation.find_disabling_faults(lesson) or lesson.delivery == "start":
        return None
    (entry,) = compile_entries([lesson])
    return Trigger(entry)


def _make_event(call: Call) -> Event:
    return Event(
        call.agent_name,
        "PreToolUse",
        call.session,
        call.cwd,
        id=call.key,
        subagent_id=call.subagent_id,
        tool=call.tool,
        tool_use_id=call.key,
        command=call.command,
        path=call.file,
        content=call.content,
    )


@lru_cache(maxsize=512)
def _find_root(cwd: str) -> str:
    return projects.find_git_root(cwd)


@lru_cache(maxsize=512)
def _find_places(cwd: str) -> tuple[str, ...]:
    return tuple(projects.list_equivalent_folders(cwd))
