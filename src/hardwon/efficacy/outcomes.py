"""Judge what followed each firing, by one rule for every arm, and find the firings of the time before a lesson.

The rule looks at the calls that the same agent made from the firing on, in the same turn or among the next 15. A call
that matches the trigger and ran is a repeat. A note reaches the agent together with the call's result, so the call that
fired counts as a repeat only for lessons that can stop it; its outcome still tells a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hardwon.agents.fields import get_first_text, get_text, get_tool_content, read_tail_lines
from hardwon.lessons import manifest, validation
from hardwon.lessons.delivery_outcomes import shares_program_or_file
from hardwon.lessons.manifest import find_lesson_tools, parse_approval_body
from hardwon.lessons.matching import match_entry
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.record import BadRecord, compute_version, parse_lesson
from hardwon.lessons.replay import build_prefilter, prepare_stored_call
from hardwon.shell.failures import compute_signature
from hardwon.store import approvals, candidates, efficacy
from hardwon.store.candidates import Candidate
from hardwon.store.db import Connection, parse_json_or_text, transaction
from hardwon.store.efficacy import Firing, FiringContext, StoredCall, is_firing_call
from hardwon.types import Event, Lesson, ManifestEntry

_WINDOW_CALLS = 15
_IDLE_SECONDS = 3600.0  # after which nothing more is expected of a session
_MAX_JUDGED = 200  # firings at a time, so that a session start does not wait for a backlog
CHANGED, REPEATED_FAILED, REPEATED_FINE = "changed", "repeated-failed", "repeated-fine"
GIVEN_UP, UNKNOWN, IGNORED = "given-up", "unknown", "ignored"
VERDICTS = (CHANGED, REPEATED_FAILED, REPEATED_FINE, GIVEN_UP, UNKNOWN, IGNORED)
_MIN_SHARED_WORDS = 0.5  # of two error messages, to count as the same failure
_RAN = ("fine", "failed", "interrupted")
STOPPING_DELIVERIES = ("hold", "block")
_MAX_REPLAYED_CALLS = 50_000  # the newest: years of one person's work
_POSITION = "replayed "  # before a lesson's id; the value is its version and the last event
_TO_APPROVAL = " approved"  # after that, if all that the lesson fired on before its approval was replayed
_COMPLETED_BY_TRANSCRIPT = ("codex",)  # its hooks do not report how every call ended
_TAIL_BYTES = 200_000  # of a transcript, in which the model and the agent's version are looked for
_MODEL = re.compile(rb'"model(?:ID)?"\s*:\s*"([\w.:@/-]{2,80})"')
_VERSION = re.compile(rb'"(?:cli_)?version"\s*:\s*"(\d+\.\d+[\w.-]*)"')
_search_pattern = PatternCache().search  # compiled once for all lessons
Trigger = Callable[[str, str, str, str], bool]  # of a call's host, folder, tool and stored input


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, the call it rests on if there is one, and how that call ended."""

    verdict: str
    call: StoredCall | None = None

    @property
    def ended(self) -> str:
        return self.call.outcome if self.call else ""


def judge_open_firings(connection: Connection, home: str, now: float) -> int:
    """Judge the firings whose outcome can be known by now; return how many."""
    firings = efficacy.list_unjudged_firings(connection, _MAX_JUDGED)
    if not firings:
        return 0
    lessons = {lesson.id: lesson for lesson in manifest.list_lessons(home)}
    rows = []
    for firing in firings:
        context = efficacy.read_firing_context(connection, firing)
        if context is not None:
            lesson = lessons.get(firing.lesson) or find_former_lesson(connection, firing.lesson)
            outcome = _judge_firing(firing, context, lesson, now)
        elif now - firing.at > _IDLE_SECONDS:  # no event of its session is recorded, and no hook will report one
            outcome = Outcome(UNKNOWN)
        else:
            outcome = None
        if outcome is None:
            continue
        call_id = outcome.call.id if outcome.call else None
        model = _find_model(context.transcript) if context else ""
        rows.append((outcome.verdict, outcome.ended, call_id, model, firing.id))
    with transaction(connection):
        efficacy.skip_other_deliveries(connection)
        efficacy.save_outcomes(connection, rows)
    return len(rows)


def find_former_lesson(connection: Connection, lesson_id: str) -> Lesson | None:
    """Return a lesson that is no longer in the files, as it was last approved, or else as it was proposed.

    None if a purge removed both, or if neither can be read as a lesson any more.
    """
    former_approvals = approvals.list_of_subject(connection, approvals.LESSON, lesson_id)
    if former_approvals:
        lesson = parse_approval_body(former_approvals[-1].body)
        if lesson:
            return lesson
    candidate = candidates.find_by_name(connection, lesson_id)
    return parse_candidate(candidate) if candidate else None


def parse_candidate(candidate: Candidate) -> Lesson | None:
    """Return a candidate as the lesson that it would become; None if its record has faults."""
    try:
        return parse_lesson({**candidate.record, "id": candidate.id, "slug": candidate.slug})
    except BadRecord:
        return None


def _judge_firing(firing: Firing, context: FiringContext, lesson: Lesson | None, now: float) -> Outcome | None:
    """Return what followed a firing; None as long as more may follow.

    In this order: a repeat that failed is certain at once, everything else only when the window is over. Then the
    firing was a false alarm if the call, or a repeat of it, went fine; else the agent changed the call or gave up.
    """
    trigger = build_trigger(lesson) if lesson else None
    if lesson is None or trigger is None:  # nothing tells which calls would be repeats
        return Outcome(UNKNOWN)
    fired_call = next((call for call in context.calls if is_firing_call(firing, call)), None)
    repeats, other_calls = _split_repeats(firing, context, fired_call, trigger)
    if failed_repeat := _find_failed_repeat(firing, repeats, fired_call, lesson):
        return failed_repeat
    if _may_continue(firing, context, now):
        return None
    if repeats:
        fine_repeats = [call for call in repeats if call.outcome == "fine"]
        # The others were interrupted, or failed for another reason.
        return Outcome(REPEATED_FINE, fine_repeats[0]) if fine_repeats else Outcome(UNKNOWN, repeats[0])
    if fired_call and fired_call.outcome == "fine":
        return Outcome(REPEATED_FINE, fired_call)
    if fired_call is None:
        return Outcome(UNKNOWN)  # 0.1.0 did not record denied calls, so nothing tells whether another had its aim
    changed_calls = [
        call for call in other_calls if call.outcome in _RAN and shares_program_or_file(fired_call.input, call.input)
    ]
    if changed_calls:
        fine_calls = [call for call in changed_calls if call.outcome == "fine"]
        return Outcome(CHANGED, fine_calls[0] if fine_calls else changed_calls[0])
    if context.is_turn_over or context.is_ended or other_calls:
        return Outcome(GIVEN_UP)
    return Outcome(UNKNOWN)


def _find_failed_repeat(
    firing: Firing, repeats: Sequence[StoredCall], fired_call: StoredCall | None, lesson: Lesson
) -> Outcome | None:
    """Return the outcome that one repeat decides alone: it failed as the lesson says, or ran although denied."""
    expected_words = _list_failure_words(lesson)
    for call in repeats:
        # A denied call that ran all the same is the agent's failure, and says nothing about the lesson.
        if call is fired_call and firing.arm in ("told", "live") and firing.delivery in STOPPING_DELIVERIES:
            return Outcome(IGNORED, call)
        if call.outcome == "failed" and _is_expected_failure(call.signature, expected_words):
            return Outcome(REPEATED_FAILED, call)
    return None


def _split_repeats(
    firing: Firing, context: FiringContext, fired_call: StoredCall | None, trigger: Trigger
) -> tuple[list[StoredCall], list[StoredCall]]:
    """Return the calls of the window that repeat the mistake and ran, and those that are about something else."""
    repeats, other_calls = [], []
    for number, call in enumerate(context.calls):
        if call is fired_call:
            # A note comes with the result of this call, so only a lesson that stops calls could have prevented it.
            if call.outcome in _RAN and firing.delivery in STOPPING_DELIVERIES:
                repeats.append(call)
            continue
        is_in_window = call.prompt == context.turn or number <= _WINDOW_CALLS
        if not is_in_window:
            continue
        if not trigger(firing.host, context.cwd, call.tool, call.input):
            other_calls.append(call)
        elif call.outcome in _RAN:
            repeats.append(call)
    return repeats, other_calls


def _may_continue(firing: Firing, context: FiringContext, now: float) -> bool:
    """Return whether more calls may follow in the window of this firing."""
    if now - context.last_at > _IDLE_SECONDS:
        return False
    if firing.host in _COMPLETED_BY_TRANSCRIPT and context.awaits_transcript:
        return True
    is_window_over = len(context.calls) > _WINDOW_CALLS and context.is_turn_over
    return not context.is_ended and not is_window_over


def build_trigger(lesson: Lesson) -> Trigger | None:
    """Return a function that tells whether a lesson fires on a stored call; None if it fires on no call."""
    if lesson.delivery == "start" or validation.find_disabling_faults(lesson):
        return None
    (entry,) = manifest.compile_entries([lesson])
    return build_entry_trigger(entry)


@lru_cache(maxsize=500)
def build_entry_trigger(entry: ManifestEntry) -> Trigger:
    """Cache a trigger's answers: matching is slow, stored calls do not change, and the same ones are asked about."""
    may_fire = build_prefilter(entry)

    @lru_cache(maxsize=1_000)
    def fires(host: str, cwd: str, tool: str, tool_input: str) -> bool:
        """Return whether the lesson fires on a stored call; `tool_input` is its input as JSON."""
        if tool not in entry.tools:
            return False
        event = _build_stored_event(host, cwd, tool, tool_input)
        if not may_fire(event):
            return False
        return match_entry(entry, prepare_stored_call(event), _search_pattern) is not None

    return fires


def _build_stored_event(host: str, cwd: str, tool: str, stored_input: str) -> Event:
    """Return a recorded call as the hook saw it."""
    parsed_input = parse_json_or_text(stored_input)
    tool_input = parsed_input if isinstance(parsed_input, dict) else {}  # a long one was stored cut, so it is no JSON
    return Event(
        host,
        "PreToolUse",
        "",
        cwd,
        tool=tool,
        command=get_text(tool_input, "command"),
        path=get_first_text(tool_input, "file_path", "notebook_path", "path", "glob"),
        content=get_tool_content(tool, tool_input),
    )


def _list_failure_words(lesson: Lesson) -> list[frozenset[str]]:
    """Return the words of each error that the lesson was learned from; none for one that a person wrote."""
    word_sets = []
    for item in lesson.evidence:
        if item.get("kind") == "error":
            signature = compute_signature("Bash", command="", text=str(item.get("quote", "")))
            if words := _split_signature(signature):
                word_sets.append(words)
    return word_sets


def _split_signature(signature: str) -> frozenset[str]:
    """Return the words of an error in its signature, which begins with the program and the kind of failure."""
    return frozenset(signature.split()[2:])


def _is_expected_failure(signature: str, expected_words: Sequence[frozenset[str]]) -> bool:
    """Return whether a failure is the lesson's own; any failure is, if it is not known what that looks like."""
    words = _split_signature(signature)
    if not expected_words or not words:
        return True
    for expected in expected_words:
        # Of the shorter message, because errors are quoted in part.
        if len(words & expected) >= _MIN_SHARED_WORDS * min(len(words), len(expected)):
            return True
    return False


def _find_model(transcript: str) -> str:
    """Return the model that a transcript names last; empty if none is found."""
    if not transcript:
        return ""
    for line in reversed(read_tail_lines(transcript, _TAIL_BYTES)):
        # Text that an agent quotes has its quotes escaped, and the arguments of a call come after the model.
        if match := _MODEL.search(line):
            return match[1].decode()
    return ""


def find_agent_version(transcript: str) -> str:
    """Return the version of the agent that wrote a transcript; empty if it names none."""
    if not transcript:
        return ""
    for line in reversed(read_tail_lines(transcript, _TAIL_BYTES)):
        if match := _VERSION.search(line):
            return match[1].decode()
    return ""


def record_past_firings(connection: Connection, home: str) -> int:
    """Record what lessons and candidates would have fired on since the last time; return how many lessons.

    These firings are the baseline that a lesson in force is compared with. For candidates they are what is tracked in
    silence while a person has not decided yet. One firing per session counts, as it does live.
    """
    lessons = {lesson.id: lesson for lesson in manifest.list_lessons(home, "active", "candidate")}
    for candidate in candidates.list_candidates(connection):
        if proposed := parse_candidate(candidate):
            lessons.setdefault(candidate.id, proposed)
    replayed_count = 0
    for lesson in lessons.values():
        if _replay_lesson(connection, lesson):
            replayed_count += 1
    return replayed_count


def _replay_lesson(connection: Connection, lesson: Lesson) -> bool:
    """Record a lesson's past firings; return False if there is nothing new to look at."""
    version = compute_version(lesson)
    trigger = build_trigger(lesson)
    stored = efficacy.get_value(connection, _POSITION + lesson.id)
    replayed_version, _, position = stored.removesuffix(_TO_APPROVAL).partition(" ")
    is_new_version = replayed_version != version
    approved = approvals.list_of_subject(connection, approvals.LESSON, lesson.id)
    # After the approval one more replay takes in what a candidate fired on since the last one.
    is_complete = stored.endswith(_TO_APPROVAL) and not is_new_version
    if trigger is None or (approved and is_complete):
        return False
    # Everything that 0.1.0 had in force was approved by the upgrade, long after it was first told.
    in_force_since = efficacy.find_first_told(connection, lesson.id)
    if approved:
        in_force_since = min(in_force_since, approved[0].approved_at)
    after_id = 0 if is_new_version else int(position or 0)
    rows: dict[tuple[str, str], dict[str, object]] = {}
    last_id = after_id
    tools = find_lesson_tools(lesson)
    for call in efficacy.iter_history(connection, tools, after_id=after_id, limit=_MAX_REPLAYED_CALLS):
        last_id = max(last_id, call["id"])
        if call["at"] < in_force_since and trigger(call["host"], call["cwd"], call["tool"], call["input"]):
            # History is read backwards, so the first firing of a session is the one that stays.
            rows[call["host"], call["session"]] = _build_past_firing(call, lesson, version)
    with transaction(connection):
        if is_new_version:
            efficacy.delete_past_firings(connection, lesson.id)
        efficacy.insert_past_firings(connection, rows.values())
        suffix = _TO_APPROVAL if approved else ""
        efficacy.set_value(connection, _POSITION + lesson.id, f"{version} {last_id}{suffix}")
    return True


def _build_past_firing(call: Mapping[str, Any], lesson: Lesson, version: str) -> dict[str, object]:
    """Return the row of a firing that would have been, if the lesson had been in force when the call was made."""
    event_key = call["key"]
    if call["tool_use_id"]:
        event_key = f"{call['session']}:{call['tool_use_id']}"  # as `build_delivery` names the event of a call
    return {
        "event": event_key,
        "at": call["at"],
        "host": call["host"],
        "session": call["session"],
        "agent": call["agent"],
        "tool": call["tool"],
        "kind": "PreToolUse",
        "lesson": lesson.id,
        "slug": lesson.slug,
        "summary": "",
        "delivery": lesson.delivery,
        "version": version,
        "arm": efficacy.BEFORE,
        "probability": 0.0,
    }
