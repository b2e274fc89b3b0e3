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
from hardwon.store import candidates
from hardwon.store.candidates import Candidate, Judgement
from hardwon.store.db import Connection
from hardwon.text.excerpts import pluralize
from hardwon.text.similarity import LessonVocabulary, find_nearest_in
from hardwon.types import DELIVERY_MODES, Lesson

_EVIDENCE = 6
_QUOTE_LINES = 4
_LINE = 110
PERSON_READER = "person"  # the reader's name where no agent shows
_NAMES = {"commandPatterns": "command", "pathPatterns": "path", "contentPatterns": "content"}


def to_record(connection: Connection, proposal: Candidate) -> dict[str, Any]:
    """The seed's candidate and what hardwon knows beyond it."""
    found = candidates.list_episodes(connection, proposal.signature)
    record = proposal.record
    best = next((one.body for one in found if one.body["solution"] == record["solution"]), {})
    patterns = [_source(one) for key in _NAMES for one in record["triggers"].get(key, ())]
    pattern = next(iter(patterns), "")
    return {
        "index": proposal.number,
        "id": proposal.id,
        "slug": proposal.slug,
        "tier": proposal.tier,
        "status": proposal.status,
        "tool": best.get("tool", ""),
        "confidence": record["confidence"],
        "priority": record["priority"],
        "occurrenceCount": proposal.occurrences,
        "sessionCount": len(proposal.sessions),
        "projectCount": len(proposal.projects),
        "projects": [os.path.basename(project) or project for project in proposal.projects],
        "summary": record["summary"],
        "problem": record["problem"],
        "solution": record["solution"],
        "tags": record["tags"],
        "trigger": _raw_trigger(proposal, best) or pattern,
        "triggerPattern": pattern,
        "triggers": record["triggers"],
        "delivery": record["delivery"],
        "scope": record["scope"],
        "needsReview": proposal.tier == 2 or record["confidence"] < validation.REVIEW_BELOW,
        "sourceSessionIds": list(proposal.sessions),
        "signals": {"userCorrection": any(bool(signal.body.get("person")) for signal in found)},
        "score": proposal.score,
        "scoreParts": dict(proposal.parts),
        "difference": {key: best[key] for key in ("command", "worked", "removed", "added") if key in best},
        "evidence": [each for signal in found for each in signal.body["evidence"]],
    }


def _raw_trigger(proposal: Candidate, signal: Mapping[str, Any]) -> str:
    """Return what set it off as it stands in the session: a tag's own trigger, else the call or file that failed."""
    if proposal.tier == 1:
        return str(signal.get("trigger", ""))
    return str(signal.get("command") or signal.get("file") or "")


def _source(pattern: Any) -> str:
    return str(pattern["source"] if isinstance(pattern, dict) else pattern)


def show_list(proposals: Sequence[Candidate]) -> None:
    """A line or two for each."""
    if not proposals:
        return
    rows = []
    for one in proposals:
        said = (
            f"{to_printable_line(one.record['summary'], _LINE)}\n→ {to_printable_line(one.record['solution'], _LINE)}"
        )
        rows.append([str(one.number), f"{one.score:.2f}", _seen(one), said])
    echo_table(["no", "score", "seen", "mistake, and what worked"], rows)


def _seen(proposal: Candidate) -> str:
    if review_queue.is_proposed_by_agent(proposal):
        return "proposed"
    seen = f"{proposal.occurrences}x" if proposal.occurrences > 1 else "once"
    return f"{seen}\n{pluralize(len(proposal.sessions), 'session')}" if len(proposal.sessions) > 1 else seen


def show_preview(proposal: Candidate) -> None:
    """The suggested lesson."""
    echo_indented(f"{proposal.number}. ", to_printable_line(proposal.record["summary"]), bold=True)
    _spell_out(proposal.record)


def show_in_force(lesson: Lesson, *, with_text: bool = True, err: bool = False) -> None:
    """Say that a lesson is in force, and what it says."""
    click.echo(make_printable(f"in force as a {lesson.delivery}: {lesson.slug}"), err=err)
    if with_text:
        _spell_out(records.to_lesson_record(lesson), err=err)


def _spell_out(record: Mapping[str, Any], *, err: bool = False) -> None:
    for name, text in deciding.describe_record(record):
        echo_field(name, (to_printable_line(text) if name == "delivery" else text) or "(none found: edit it)", err=err)


def show_reasons(proposal: Candidate, judgement: Judgement | None) -> None:
    """Why it is here: the score's parts, the counts, the evidence, and what a reader made of it."""
    parts = "  ".join(f"{name} {value:+.2f}" for name, value in proposal.parts.items() if value)
    echo_field("score", f"{proposal.score:.2f} = {parts}")
    where = f"{pluralize(len(proposal.sessions), 'session')}, {pluralize(len(proposal.projects), 'project')}"
    if review_queue.is_proposed_by_agent(proposal):
        echo_field("seen", "in no transcript: an agent proposed it")
    else:
        echo_field("seen", f"{pluralize(proposal.occurrences, 'time')} in {where}")
    _evidence(proposal.record["evidence"])
    if judgement:
        reader = "you" if judgement.reader == PERSON_READER else judgement.reader
        void = f" (void: {judgement.void})" if judgement.void else ""
        echo_field("reader", f"{reader}: {judgement.verdict}{void} {judgement.body.get('why', '')}")
        for name, words in deciding.extract_rewording(judgement).items():
            shown = words if isinstance(words, str) else " | ".join(words)
            echo_field(_NAMES.get(name, name), shown, indent=5)


def _evidence(evidence: Sequence[dict[str, Any]]) -> None:
    """The quotes; one that stands on several lines of a file is shown once, and so is the file."""
    groups = [
        (where, [each["line"] for each in same])
        for where, same in groupby(evidence, lambda each: (each["path"], each["kind"], each["quote"]))
    ]
    before = ""
    for (path, kind, quote), lines in groups[:_EVIDENCE]:
        echo_field(kind.replace("correction", "then"), quote.strip(), most=_QUOTE_LINES)
        others = "".join(f", {line}" for line in lines[1:])
        place = f"line {lines[0]}" if path == before else f"{_from_home(path)}:{lines[0]}"
        echo_field("", to_printable_line(f"{place}{others}"), dim=True)
        before = path
    if left := sum(len(lines) for _, lines in groups[_EVIDENCE:]):
        echo_field("", f"and {left} more")


def _from_home(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if paths.is_inside(home, path) else path


def show_replay(replay: Replay | None) -> None:
    """What the trigger would have done so far."""
    if replay is None:
        return
    went = f"{replay.failed} failed, {replay.fine} went fine" + f", {replay.refused} refused" * bool(replay.refused)
    fired = f"would have fired {pluralize(replay.fires, 'time')}"
    echo_field("history", f"{fired}: {went}" if replay.fires else fired)
    calls = [
        f"{call.outcome:<8}{to_printable_line(call.command or call.file, get_width() - 21)}" for call in replay.samples
    ]
    for call in dict.fromkeys(calls):
        echo_field("", call)


def show_similar_lesson(lessons: LessonVocabulary, proposal: Candidate) -> None:
    """The lesson that says nearly the same, if there is one."""
    try:
        near = find_nearest_in(lessons, records.parse_lesson({**proposal.record, "id": proposal.id}))
    except records.BadRecord:
        return
    if near and near[1] >= 0.25:
        lesson, share = near
        echo_field("like", f"{lesson.slug} ({share:.0%}): {lesson.summary}")


def find_proposal_faults(proposal: Candidate) -> list[str]:
    """What must be mended before it can be accepted."""
    return adding.find_record_faults(deciding.build_accepted_record(proposal))


def ask_for_fields(proposal: Candidate) -> dict[str, Any]:
    """What a person changes in the suggestion, asked for one by one."""
    record = proposal.record
    show_preview(proposal)
    kind = next((key for key in _NAMES if record["triggers"].get(key)), "commandPatterns")
    given = [_source(one) for one in record["triggers"].get(kind, [])[:1]]
    delivery = record["delivery"] if record["delivery"] in DELIVERY_MODES else "note"
    priority = record["priority"] if isinstance(record["priority"], int) else None
    asked: dict[str, Any] = {
        "summary": _ask("Summary", record["summary"]),
        kind: _ask(f"Trigger ({_NAMES[kind]})", *given),
        "solution": _ask("Solution") if not record["solution"] else None,
        "delivery": click.prompt("Delivery", type=click.Choice(DELIVERY_MODES), default=delivery),
        "priority": click.prompt("Priority", type=int, default=priority),
        "tags": _ask("Tags", " ".join(record["tags"])),
    }
    if asked[kind] is not None:
        asked[kind] = [asked[kind]]
    if asked["tags"] is not None:
        asked["tags"] = asked["tags"].replace(",", " ").split()
    return {key: value for key, value in asked.items() if value is not None}


def _ask(question: str, *suggested: str) -> str | None:
    """The answer; None if the person leaves it as suggested, which is shown fit for a terminal but stays as it is."""
    shown = to_printable_line(suggested[0]) if suggested else None
    answer: str = click.prompt(question, default=shown)
    return None if answer == shown else answer


def drop_rejected(lessons: Sequence[Lesson]) -> Sequence[Lesson]:
    return [lesson for lesson in lessons if lesson.status != "rejected"]
