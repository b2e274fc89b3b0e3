"""Show candidates in a table and in detail, and accept one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hardwon import paths
from hardwon.cli.context import answer_by_flag, open_decider, require_person
from hardwon.cli.output import echo_field, echo_indented, echo_styled, echo_table, echo_text, get_width, wrap_text
from hardwon.lessons.adding import find_record_faults
from hardwon.lessons.record import to_lesson_record
from hardwon.lessons.review_queue import (
    PATTERN_NAMES,
    Segments,
    describe_delivery,
    describe_figures,
    describe_record,
    describe_scope,
    describe_trigger,
    describe_unless,
    extract_rewording,
    find_calls,
    find_first_pattern,
    find_similar_lesson,
    group_evidence,
    is_proposed_by_agent,
)
from hardwon.store.candidates import Candidate, Judgement
from hardwon.store.db import Connection
from hardwon.text.characters import format_count, to_printable_line
from hardwon.types import DELIVERY_MODES, TAG_TIER, Lesson

# `actions.lessons` is imported where a candidate is shown in full or accepted: a list needs nothing of it.
if TYPE_CHECKING:
    from hardwon.lessons.replay import Replay

_MAX_EVIDENCE = 6
_MAX_QUOTE_LINES = 4  # so that a proposal fits on one screen
PERSON_READER = "person"
MAX_LINE_CHARS = 110


def show_preview(candidate: Candidate) -> None:
    """Print a candidate in a few lines: what goes wrong, and what a lesson would do."""
    echo_indented(f"L{candidate.number} ", to_printable_line(candidate.record["summary"]), bold=True)
    show_record(candidate.record)


def show_in_force(lesson: Lesson, *, with_text: bool = True, err: bool = False) -> None:
    """Say that a lesson is in force, and with `with_text` what it says."""
    echo_text(f"in force as a {lesson.delivery}: {lesson.slug}", err=err)
    if with_text:
        show_record(to_lesson_record(lesson), err=err)


def show_record(record: Mapping[str, Any], *, err: bool = False) -> None:
    """Print the fields of a lesson that matter to a person, one below the other."""
    for name, text in describe_record(record):
        # The scope in it comes from a transcript, and must not start a line of its own.
        line = to_printable_line(text) if name == "delivery" else text
        echo_field(name, line or "(none found: edit it)", err=err)


def show_proposal(home: str, connection: Connection, candidate: Candidate, judgement: Judgement | None) -> None:
    """Print one screen: the mistake, the fix, the two calls, what the trigger would have hit, scope and delivery."""
    from hardwon.actions.lessons import build_accepted_record, replay_record
    from hardwon.lessons.replay import MAX_REPLAYED_CALLS

    record = candidate.record
    echo_indented(f"L{candidate.number} ", to_printable_line(record["summary"]), max_lines=3, bold=True)
    echo_indented("   → ", record["solution"] or "(no fix found: edit it)", max_lines=_MAX_QUOTE_LINES)
    failed, worked = find_calls(connection, candidate)
    if failed or worked:
        click.echo()
    _show_call("   - ", failed, "red")
    _show_call("   + ", worked, "green")
    click.echo()
    _show_replay(candidate, replay_record(connection, record, limit=MAX_REPLAYED_CALLS))
    echo_field("trigger", describe_trigger(record) or "(none found: edit it)", max_lines=_MAX_QUOTE_LINES)
    if record.get("injection"):
        echo_field("told as", record["injection"], max_lines=_MAX_QUOTE_LINES)
    if record.get("unless"):
        echo_field("unless", describe_unless(record), max_lines=_MAX_QUOTE_LINES)
    # The scope comes from a transcript, and must not start a line of its own.
    echo_field("scope", to_printable_line(describe_scope(record)))
    echo_field("delivery", describe_delivery(record))
    if record["delivery"] == "block":
        echo_field("reason", record.get("blockReason") or record["solution"], max_lines=_MAX_QUOTE_LINES)
    echo_field("seen", _describe_occurrences(candidate))
    if similar := find_similar_lesson(home, candidate):
        lesson, share = similar
        echo_field("like", f"{lesson.slug} ({share:.0%}): {lesson.summary}")
    if judgement:
        _show_judgement(candidate, judgement)
    for fault in find_record_faults(build_accepted_record(candidate)):
        echo_field("to fix", fault, fg="yellow")


def _show_call(prefix: str, segments: Segments, colour: str) -> None:
    """Print a call, with the words that only this one has in a colour."""
    if not segments:
        return  # the call is not known
    changed_words = set[str]()
    for segment, is_changed in segments:
        if is_changed:
            changed_words.update(to_printable_line(segment).split())
    whole_call = to_printable_line("".join(segment for segment, _ in segments))
    lines = wrap_text(whole_call, get_width() - len(prefix), _MAX_QUOTE_LINES)
    echo_styled(prefix, nl=False, fg=colour)
    for number, line in enumerate(lines):
        if number > 0:
            click.echo(" " * len(prefix), nl=False)
        for position, word in enumerate(line.split(" ")):
            text = word if position == 0 else f" {word}"
            is_changed = word in changed_words
            echo_styled(text, nl=False, fg=colour if is_changed else None, bold=is_changed)
        click.echo()


def _show_replay(candidate: Candidate, replay: Replay | None) -> None:
    """Print what the trigger would have stopped, and the calls that it would have hit."""
    if candidate.parts.get("repeats"):
        figures = describe_figures(candidate.parts)
    elif replay is None:
        figures = "it has no trigger to try"
    else:
        figures = f"would have fired {format_count(replay.fires, 'time')}"
        if replay.fires:
            figures += f": {replay.failed} failed, {replay.fine} went fine"
        if replay.refused:
            figures += f", {replay.refused} refused"
    echo_field("replay", figures)
    if replay is None:
        return
    width = get_width() - 21  # beside the name and the outcome
    calls = []
    for call in replay.samples:
        calls.append(f"{call.outcome:<8}{to_printable_line(call.command or call.file, width)}")
    # The same command may have failed several times; one line is enough.
    for call_text in dict.fromkeys(calls):
        echo_field(name="", text=call_text, dim=True)


def _describe_occurrences(candidate: Candidate) -> str:
    """Return how often the mistake was made, and where."""
    if is_proposed_by_agent(candidate):
        return "in no transcript: an agent proposed it"
    reporter = "reported by an agent, " if candidate.tier == TAG_TIER else ""
    spread = f"{format_count(len(candidate.sessions), 'session')}, {format_count(len(candidate.projects), 'project')}"
    return f"{reporter}{format_count(candidate.occurrences, 'time')} in {spread}"


def _show_judgement(candidate: Candidate, judgement: Judgement) -> None:
    """Print what a reader said about a candidate, and the words that it suggested."""
    verdict = judgement.verdict
    if judgement.void:
        verdict += f" (void: {judgement.void})"
    reader = "you" if judgement.reader == PERSON_READER else judgement.reader
    echo_field("reader", f"{reader}: {verdict} {judgement.body.get('why', '')}")
    for name, wording in extract_rewording(candidate, judgement).items():
        text = wording if isinstance(wording, str) else " | ".join(wording)
        echo_field(PATTERN_NAMES.get(name, name), text, indent=5)


def show_evidence(evidence: Sequence[dict[str, Any]]) -> None:
    """Print the quotes that a lesson rests on, each with its file and lines."""
    home = os.path.expanduser("~")
    quotes = group_evidence(evidence)
    for quote in quotes[:_MAX_EVIDENCE]:
        label = quote["kind"].replace("correction", "then")
        echo_field(label, quote["quote"].strip(), max_lines=_MAX_QUOTE_LINES)
        path = quote["path"]
        if paths.is_inside(home, path):
            path = f"~{path[len(home) :]}"
        line_numbers = ", ".join(str(line) for line in quote["lines"])
        echo_field(name="", text=to_printable_line(f"{path}:{line_numbers}"), dim=True)
    if len(quotes) > _MAX_EVIDENCE:
        echo_field(name="", text=f"and {len(quotes) - _MAX_EVIDENCE} more")
    if not quotes:
        echo_field(name="", text="no evidence")


def accept_by_name(name: str, changes: dict[str, Any], *, confirmed: bool, should_ask: bool) -> None:
    """Accept the candidate of this name for a person."""
    from hardwon.actions.lessons import accept_candidate, find_candidate

    require_person("accepting a lesson")
    with open_decider() as decider:
        candidate = find_candidate(decider.home, decider.connection, name)
        if should_ask and not changes:
            changes = _ask_for_fields(candidate)
        lesson = accept_candidate(decider, candidate, changes, confirm=answer_by_flag(confirmed))
    show_in_force(lesson)


def _ask_for_fields(candidate: Candidate) -> dict[str, Any]:
    """Ask for each field and return those that the person changed."""
    record = candidate.record
    show_preview(candidate)
    used_kinds = [name for name in PATTERN_NAMES if record["triggers"].get(name)]
    kind = used_kinds[0] if used_kinds else "commandPatterns"
    summary = _ask_field("Summary", record["summary"])
    trigger = _ask_field(f"Trigger ({PATTERN_NAMES[kind]})", find_first_pattern(record, kind))
    solution = None if record["solution"] else _ask_field("Solution")
    delivery = record["delivery"] if record["delivery"] in DELIVERY_MODES else "note"
    priority = record["priority"] if isinstance(record["priority"], int) else None
    answers: dict[str, Any] = {
        "summary": summary,
        kind: [trigger] if trigger else trigger,
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


def show_list(proposals: Sequence[Candidate]) -> None:
    """Print candidates in a table; nothing if there are none."""
    if not proposals:
        return  # a heading alone would say nothing
    rows = []
    for candidate in proposals:
        summary = to_printable_line(candidate.record["summary"], MAX_LINE_CHARS)
        solution = to_printable_line(candidate.record["solution"], MAX_LINE_CHARS)
        occurrences = f"{candidate.occurrences}x" if candidate.occurrences > 1 else "once"
        if is_proposed_by_agent(candidate):
            occurrences = "proposed"
        elif len(candidate.sessions) > 1:
            occurrences += f"\n{format_count(len(candidate.sessions), 'session')}"
        description = f"{summary}\n→ {solution}"
        if "repeats" in candidate.parts:
            description += f"\n{describe_figures(candidate.parts)}"
        rows.append([f"L{candidate.number}", f"{candidate.score:.2f}", occurrences, description])
    echo_table(["no", "score", "seen", "mistake, and what worked"], rows)
