"""Showing candidates in a table and in detail; accepting one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hardwon import paths
from hardwon.actions.candidates import describe_record, extract_rewording, find_candidate
from hardwon.actions.lessons import accept_candidate
from hardwon.cli.context import open_store, require_person
from hardwon.cli.output import echo_field, echo_indented, echo_table, echo_text, get_width
from hardwon.lessons.candidate_record import PATTERN_NAMES, describe_figures, find_first_pattern
from hardwon.lessons.record import BadRecord, parse_lesson, to_lesson_record
from hardwon.lessons.replay import Replay
from hardwon.lessons.review_queue import is_proposed_by_agent
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement
from hardwon.text.excerpts import pluralize
from hardwon.text.printable import to_printable_line
from hardwon.text.similarity import find_nearest_lesson
from hardwon.types import DELIVERY_MODES, Lesson

MAX_EVIDENCE = 6
MAX_QUOTE_LINES = 4
MAX_LINE_CHARS = 110
MIN_SHOWN_SIMILARITY = 0.25
PERSON_READER = "person"


def show_list(proposals: Sequence[Candidate]) -> None:
    """Print candidates in a table; nothing if there are none."""
    if not proposals:
        return
    rows = []
    for candidate in proposals:
        summary = to_printable_line(candidate.record["summary"], MAX_LINE_CHARS)
        solution = to_printable_line(candidate.record["solution"], MAX_LINE_CHARS)
        occurrences = f"{candidate.occurrences}x" if candidate.occurrences > 1 else "once"
        if is_proposed_by_agent(candidate):
            occurrences = "proposed"
        elif len(candidate.sessions) > 1:
            occurrences += f"\n{pluralize(len(candidate.sessions), 'session')}"
        description = f"{summary}\n→ {solution}"
        if "repeats" in candidate.parts:
            description += f"\n{describe_figures(candidate.parts)}"
        rows.append([str(candidate.number), f"{candidate.score:.2f}", occurrences, description])
    echo_table(["no", "score", "seen", "mistake, and what worked"], rows)


def show_preview(candidate: Candidate) -> None:
    echo_indented(f"{candidate.number}. ", to_printable_line(candidate.record["summary"]), bold=True)
    _show_record(candidate.record)


def show_in_force(lesson: Lesson, *, with_text: bool = True, err: bool = False) -> None:
    echo_text(f"in force as a {lesson.delivery}: {lesson.slug}", err=err)
    if with_text:
        _show_record(to_lesson_record(lesson), err=err)


def _show_record(record: Mapping[str, Any], *, err: bool = False) -> None:
    for name, text in describe_record(record):
        # The scope in it comes from a transcript, and must not start a line of its own.
        line = to_printable_line(text) if name == "delivery" else text
        echo_field(name, line or "(none found: edit it)", err=err)


def show_reasons(candidate: Candidate, judgement: Judgement | None) -> None:
    """Print the replay figures, the counts, the evidence, and what a reader made of the candidate."""
    figures = describe_figures(candidate.parts) if "repeats" in candidate.parts else "reported by an agent"
    echo_field("score", f"{candidate.score:.2f}: {figures}")
    if is_proposed_by_agent(candidate):
        echo_field("seen", "in no transcript: an agent proposed it")
    else:
        spread = f"{pluralize(len(candidate.sessions), 'session')}, {pluralize(len(candidate.projects), 'project')}"
        echo_field("seen", f"{pluralize(candidate.occurrences, 'time')} in {spread}")
    _show_evidence(candidate.record["evidence"])
    if judgement:
        reader = "you" if judgement.reader == PERSON_READER else judgement.reader
        void_note = f" (void: {judgement.void})" if judgement.void else ""
        echo_field("reader", f"{reader}: {judgement.verdict}{void_note} {judgement.body.get('why', '')}")
        for name, wording in extract_rewording(judgement).items():
            text = wording if isinstance(wording, str) else " | ".join(wording)
            echo_field(PATTERN_NAMES.get(name, name), text, indent=5)


def _show_evidence(evidence: Sequence[dict[str, Any]]) -> None:
    """Print each quote once, with every line of the file where it stands."""
    lines_by_quote: dict[tuple[str, str, str], list[str]] = {}
    for entry in evidence:
        lines_by_quote.setdefault((entry["path"], entry["kind"], entry["quote"]), []).append(str(entry["line"]))
    home = os.path.expanduser("~")
    for path, kind, quote in list(lines_by_quote)[:MAX_EVIDENCE]:
        echo_field(kind.replace("correction", "then"), quote.strip(), max_lines=MAX_QUOTE_LINES)
        short_path = f"~{path[len(home) :]}" if paths.is_inside(home, path) else path
        echo_field("", to_printable_line(f"{short_path}:{', '.join(lines_by_quote[path, kind, quote])}"), dim=True)
    if len(lines_by_quote) > MAX_EVIDENCE:
        echo_field("", f"and {len(lines_by_quote) - MAX_EVIDENCE} more")


def show_replay(replay: Replay | None) -> None:
    """Print what the trigger would have fired on so far."""
    if replay is None:
        return
    firings = f"would have fired {pluralize(replay.fires, 'time')}"
    if replay.fires:
        firings += f": {replay.failed} failed, {replay.fine} went fine"
    if replay.refused:
        firings += f", {replay.refused} refused"
    echo_field("history", firings)
    width = get_width() - 21
    # The same command may have failed several times; one line is enough.
    calls = [f"{call.outcome:<8}{to_printable_line(call.command or call.file, width)}" for call in replay.samples]
    for call_text in dict.fromkeys(calls):
        echo_field("", call_text)


def show_similar_lesson(lessons: Sequence[Lesson], candidate: Candidate) -> None:
    try:
        candidate_lesson = parse_lesson({**candidate.record, "id": candidate.id})
    except BadRecord:
        return
    others = [lesson for lesson in lessons if lesson.id != candidate.id and lesson.status != "rejected"]
    nearest = find_nearest_lesson(candidate_lesson, others)
    if nearest and nearest[1] >= MIN_SHOWN_SIMILARITY:
        lesson, share = nearest
        echo_field("like", f"{lesson.slug} ({share:.0%}): {lesson.summary}")


def accept_by_name(name: str, changes: dict[str, Any], *, confirmed: bool, should_ask: bool) -> None:
    """Accept the candidate of this name for a person."""
    require_person("accepting a lesson")
    home = paths.get_home()
    with open_store() as connection:
        candidate = find_candidate(home, connection, name)
        if should_ask and not changes:
            changes = _ask_for_fields(candidate)
        lesson = accept_candidate(home, connection, candidate, changes, COMMAND_LINE, confirm=lambda message: confirmed)
    show_in_force(lesson)


def _ask_for_fields(candidate: Candidate) -> dict[str, Any]:
    """Ask for each field and return those that the person changed."""
    record = candidate.record
    show_preview(candidate)
    kind = next((key for key in PATTERN_NAMES if record["triggers"].get(key)), "commandPatterns")
    summary = _ask_field("Summary", record["summary"])
    trigger = _ask_field(f"Trigger ({PATTERN_NAMES[kind]})", find_first_pattern(record, kind))
    solution = None if record["solution"] else _ask_field("Solution")
    delivery = record["delivery"] if record["delivery"] in DELIVERY_MODES else "note"
    priority = record["priority"] if isinstance(record["priority"], int) else None
    answers: dict[str, Any] = {
        "summary": summary,
        kind: trigger and [trigger],
        "solution": solution,
        "delivery": click.prompt("Delivery", type=click.Choice(DELIVERY_MODES), default=delivery),
        "priority": click.prompt("Priority", type=int, default=priority),
    }
    tags = _ask_field("Tags", " ".join(record["tags"]))
    if tags is not None:
        answers["tags"] = tags.replace(",", " ").split()
    return {name: value for name, value in answers.items() if value is not None}


def _ask_field(question: str, suggested: str = "") -> str | None:
    """Return the answer; None if the person leaves it as suggested, which may not be printable as it is."""
    default = to_printable_line(suggested) or None
    answer: str = click.prompt(question, default=default)
    return None if answer == default else answer
