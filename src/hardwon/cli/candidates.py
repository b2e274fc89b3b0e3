"""How candidates look: as the record other tools read, as a line in a list, and whole, with what speaks for them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from hardwon import paths
from hardwon.actions import candidates as deciding
from hardwon.cli.output import echo_field, echo_indented, echo_table, get_width, make_printable, to_printable_line
from hardwon.lessons import adding, review_queue, validation
from hardwon.lessons import record as records
from hardwon.lessons.replay import Replay
from hardwon.mining import gate
from hardwon.store import candidates
from hardwon.store.candidates import Candidate, Judgement
from hardwon.store.db import Connection
from hardwon.text.excerpts import pluralize
from hardwon.text.similarity import LessonVocabulary, find_nearest_in
from hardwon.types import DELIVERY_MODES, Lesson

_MAX_EVIDENCE = 6
_MAX_QUOTE_LINES = 4
_MAX_LINE_CHARS = 110
PERSON_READER = "person"  # the reader's name where no agent shows
_PATTERN_NAMES = {"commandPatterns": "command", "pathPatterns": "path", "contentPatterns": "content"}


def to_record(connection: Connection, candidate: Candidate) -> dict[str, Any]:
    """The seed's candidate and what hardwon knows beyond it."""
    episodes = candidates.list_episodes(connection, candidate.signature)
    record = candidate.record
    best_body = next((item.body for item in episodes if item.body["solution"] == record["solution"]), {})
    patterns = [_get_pattern_source(item) for key in _PATTERN_NAMES for item in record["triggers"].get(key, ())]
    pattern = next(iter(patterns), "")
    return {
        "index": candidate.number,
        "id": candidate.id,
        "slug": candidate.slug,
        "tier": candidate.tier,
        "status": candidate.status,
        "tool": best_body.get("tool", ""),
        "confidence": record["confidence"],
        "priority": record["priority"],
        "occurrenceCount": candidate.occurrences,
        "sessionCount": len(candidate.sessions),
        "projectCount": len(candidate.projects),
        "projects": [os.path.basename(project) or project for project in candidate.projects],
        "summary": record["summary"],
        "problem": record["problem"],
        "solution": record["solution"],
        "tags": record["tags"],
        "trigger": _find_raw_trigger(candidate, best_body) or pattern,
        "triggerPattern": pattern,
        "triggers": record["triggers"],
        "delivery": record["delivery"],
        "scope": record["scope"],
        "needsReview": candidate.tier == 2 or record["confidence"] < validation.REVIEW_BELOW,
        "sourceSessionIds": list(candidate.sessions),
        "signals": {"userCorrection": any(bool(episode.body.get("person")) for episode in episodes)},
        "score": candidate.score,
        "scoreParts": dict(candidate.parts),
        "difference": {key: best_body[key] for key in ("command", "worked", "removed", "added") if key in best_body},
        "evidence": [entry for episode in episodes for entry in episode.body["evidence"]],
    }


def _find_raw_trigger(candidate: Candidate, episode_body: Mapping[str, Any]) -> str:
    """Return what set it off as it stands in the session: a tag's own trigger, else the call or file that failed."""
    if candidate.tier == 1:
        return str(episode_body.get("trigger", ""))
    return str(episode_body.get("command") or episode_body.get("file") or "")


def _get_pattern_source(pattern: Any) -> str:
    return str(pattern["source"] if isinstance(pattern, dict) else pattern)


def show_list(proposals: Sequence[Candidate]) -> None:
    """A line or two for each."""
    if not proposals:
        return
    rows = []
    for candidate in proposals:
        description = (
            f"{to_printable_line(candidate.record['summary'], _MAX_LINE_CHARS)}\n→ "
            f"{to_printable_line(candidate.record['solution'], _MAX_LINE_CHARS)}"
        )
        if "repeats" in candidate.parts:
            description += f"\n{gate.describe_figures(candidate.parts)}"
        rows.append([str(candidate.number), f"{candidate.score:.2f}", _format_occurrences(candidate), description])
    echo_table(["no", "score", "seen", "mistake, and what worked"], rows)


def _format_occurrences(candidate: Candidate) -> str:
    if review_queue.is_proposed_by_agent(candidate):
        return "proposed"
    times = f"{candidate.occurrences}x" if candidate.occurrences > 1 else "once"
    return f"{times}\n{pluralize(len(candidate.sessions), 'session')}" if len(candidate.sessions) > 1 else times


def show_preview(candidate: Candidate) -> None:
    """The suggested lesson."""
    echo_indented(f"{candidate.number}. ", to_printable_line(candidate.record["summary"]), bold=True)
    _show_record(candidate.record)


def show_in_force(lesson: Lesson, *, with_text: bool = True, err: bool = False) -> None:
    """Say that a lesson is in force, and what it says."""
    click.echo(make_printable(f"in force as a {lesson.delivery}: {lesson.slug}"), err=err)
    if with_text:
        _show_record(records.to_lesson_record(lesson), err=err)


def _show_record(record: Mapping[str, Any], *, err: bool = False) -> None:
    for name, text in deciding.describe_record(record):
        echo_field(name, (to_printable_line(text) if name == "delivery" else text) or "(none found: edit it)", err=err)


def show_reasons(candidate: Candidate, judgement: Judgement | None) -> None:
    """Why it is here: the score's parts, the counts, the evidence, and what a reader made of it."""
    if "repeats" in candidate.parts:
        echo_field("score", f"{candidate.score:.2f}: {gate.describe_figures(candidate.parts)}")
    else:
        echo_field("score", f"{candidate.score:.2f}: reported by an agent")
    spread = f"{pluralize(len(candidate.sessions), 'session')}, {pluralize(len(candidate.projects), 'project')}"
    if review_queue.is_proposed_by_agent(candidate):
        echo_field("seen", "in no transcript: an agent proposed it")
    else:
        echo_field("seen", f"{pluralize(candidate.occurrences, 'time')} in {spread}")
    _show_evidence(candidate.record["evidence"])
    if judgement:
        reader = "you" if judgement.reader == PERSON_READER else judgement.reader
        void_note = f" (void: {judgement.void})" if judgement.void else ""
        echo_field("reader", f"{reader}: {judgement.verdict}{void_note} {judgement.body.get('why', '')}")
        for name, wording in deciding.extract_rewording(judgement).items():
            wording_text = wording if isinstance(wording, str) else " | ".join(wording)
            echo_field(_PATTERN_NAMES.get(name, name), wording_text, indent=5)


def _show_evidence(evidence: Sequence[dict[str, Any]]) -> None:
    """The quotes; one that stands on several lines of a file is shown once, and so is the file."""
    groups = [
        (quote_key, [entry["line"] for entry in entries])
        for quote_key, entries in groupby(evidence, lambda entry: (entry["path"], entry["kind"], entry["quote"]))
    ]
    previous_path = ""
    for (path, kind, quote), lines in groups[:_MAX_EVIDENCE]:
        echo_field(kind.replace("correction", "then"), quote.strip(), max_lines=_MAX_QUOTE_LINES)
        other_lines = "".join(f", {line}" for line in lines[1:])
        location = f"line {lines[0]}" if path == previous_path else f"{_abbreviate_home(path)}:{lines[0]}"
        echo_field("", to_printable_line(f"{location}{other_lines}"), dim=True)
        previous_path = path
    if omitted_count := sum(len(lines) for _, lines in groups[_MAX_EVIDENCE:]):
        echo_field("", f"and {omitted_count} more")


def _abbreviate_home(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if paths.is_inside(home, path) else path


def show_replay(replay: Replay | None) -> None:
    """What the trigger would have done so far."""
    if replay is None:
        return
    outcomes = f"{replay.failed} failed, {replay.fine} went fine" + f", {replay.refused} refused" * bool(replay.refused)
    firings = f"would have fired {pluralize(replay.fires, 'time')}"
    echo_field("history", f"{firings}: {outcomes}" if replay.fires else firings)
    calls = [
        f"{call.outcome:<8}{to_printable_line(call.command or call.file, get_width() - 21)}" for call in replay.samples
    ]
    for call in dict.fromkeys(calls):
        echo_field("", call)


def show_similar_lesson(lessons: LessonVocabulary, candidate: Candidate) -> None:
    """The lesson that says nearly the same, if there is one."""
    try:
        nearest = find_nearest_in(lessons, records.parse_lesson({**candidate.record, "id": candidate.id}))
    except records.BadRecord:
        return
    if nearest and nearest[1] >= 0.25:
        lesson, share = nearest
        echo_field("like", f"{lesson.slug} ({share:.0%}): {lesson.summary}")


def find_proposal_faults(candidate: Candidate) -> list[str]:
    """What must be mended before it can be accepted."""
    return adding.find_record_faults(deciding.build_accepted_record(candidate))


def ask_for_fields(candidate: Candidate) -> dict[str, Any]:
    """What a person changes in the suggestion, asked for one by one."""
    record = candidate.record
    show_preview(candidate)
    kind = next((key for key in _PATTERN_NAMES if record["triggers"].get(key)), "commandPatterns")
    suggested = [_get_pattern_source(pattern) for pattern in record["triggers"].get(kind, [])[:1]]
    delivery = record["delivery"] if record["delivery"] in DELIVERY_MODES else "note"
    priority = record["priority"] if isinstance(record["priority"], int) else None
    answers: dict[str, Any] = {
        "summary": _ask_field("Summary", record["summary"]),
        kind: _ask_field(f"Trigger ({_PATTERN_NAMES[kind]})", *suggested),
        "solution": _ask_field("Solution") if not record["solution"] else None,
        "delivery": click.prompt("Delivery", type=click.Choice(DELIVERY_MODES), default=delivery),
        "priority": click.prompt("Priority", type=int, default=priority),
        "tags": _ask_field("Tags", " ".join(record["tags"])),
    }
    if answers[kind] is not None:
        answers[kind] = [answers[kind]]
    if answers["tags"] is not None:
        answers["tags"] = answers["tags"].replace(",", " ").split()
    return {key: value for key, value in answers.items() if value is not None}


def _ask_field(question: str, *suggested: str) -> str | None:
    """The answer; None if the person leaves it as suggested, which is shown fit for a terminal but stays as it is."""
    default = to_printable_line(suggested[0]) if suggested else None
    answer: str = click.prompt(question, default=default)
    return None if answer == default else answer


def drop_rejected(lessons: Sequence[Lesson]) -> Sequence[Lesson]:
    return [lesson for lesson in lessons if lesson.status != "rejected"]
