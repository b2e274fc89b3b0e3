"""How candidates look: as the record other tools read, as a line in a list, and whole, with what speaks for them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hardwon.cli.lessons import counted
from hardwon.cli.show import printable, table
from hardwon.core import record as records
from hardwon.core import rules
from hardwon.core.similarity import Vocabulary, nearest_in
from hardwon.recall.replay import Replay
from hardwon.store import candidates
from hardwon.store.candidates import Judgement, Proposal
from hardwon.store.db import Connection
from hardwon.words import DELIVERIES, Lesson

_EVIDENCE = 6
_LINE = 110
_PATTERNS = {"commandPatterns": "command", "pathPatterns": "path", "contentPatterns": "content"}


def as_record(connection: Connection, proposal: Proposal) -> dict[str, Any]:
    """The seed's candidate and what hardwon knows beyond it."""
    found = candidates.signals_of(connection, proposal.signature)
    best, record = found[0].body if found else {}, proposal.record
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
        "trigger": best.get("trigger", ""),
        "triggers": record["triggers"],
        "delivery": record["delivery"],
        "scope": record["scope"],
        "needsReview": proposal.tier == 2 or record["confidence"] < rules.REVIEW_BELOW,
        "sourceSessionIds": list(proposal.sessions),
        "signals": {"userCorrection": any(bool(signal.body.get("person")) for signal in found)},
        "score": proposal.score,
        "scoreParts": dict(proposal.parts),
        "difference": {key: best[key] for key in ("command", "worked", "removed", "added") if key in best},
        "evidence": [each for signal in found for each in signal.body["evidence"]],
    }


def listing(proposals: Sequence[Proposal]) -> None:
    """A line or two for each."""
    if not proposals:
        return
    rows = []
    for one in proposals:
        said = f"{_short(one.record['summary'])}\n→ {_short(one.record['solution'])}"
        rows.append([str(one.number), f"{one.score:.2f}", _seen(one), said])
    table(["no", "score", "seen", "mistake, and what worked"], rows)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


def _seen(proposal: Proposal) -> str:
    seen = f"{proposal.occurrences}x" if proposal.occurrences > 1 else "once"
    return f"{seen}\n{counted(len(proposal.sessions), 'session')}" if len(proposal.sessions) > 1 else seen


def preview(proposal: Proposal) -> None:
    """The suggested lesson."""
    record = proposal.record
    click.secho(printable(f"{proposal.number}. {record['summary']}"), bold=True)
    click.echo(printable(f"   problem   {_indented(record['problem'])}"))
    click.echo(printable(f"   solution  {_indented(record['solution'] or '(none found: edit it)')}"))
    click.echo(printable(f"   trigger   {trigger_of(record) or '(none found: edit it)'}"))
    scope = record["scope"].get("path", "every project") if isinstance(record["scope"], dict) else record["scope"]
    tags = f", {' '.join(record['tags'])}" if record["tags"] else ""
    click.echo(printable(f"   delivery  {record['delivery']}, priority {record['priority']}, in {scope}{tags}"))


def trigger_of(record: Mapping[str, Any]) -> str:
    given = record["triggers"]
    shown = [f"{name} {' | '.join(map(str, given[key]))}" for key, name in _PATTERNS.items() if given.get(key)]
    return "; ".join(shown)


def _indented(text: str) -> str:
    return text.replace("\n", "\n             ")


def reasons(proposal: Proposal, judgement: Judgement | None) -> None:
    """Why it is here: the score's parts, the counts, the evidence, and what a reader made of it."""
    parts = "  ".join(f"{name} {value:+.2f}" for name, value in proposal.parts.items() if value)
    click.echo(f"   score     {proposal.score:.2f} = {parts}")
    where = f"{counted(len(proposal.sessions), 'session')}, {counted(len(proposal.projects), 'project')}"
    click.echo(f"   seen      {counted(proposal.occurrences, 'time')} in {where}")
    evidence = proposal.record["evidence"]
    for each in evidence[:_EVIDENCE]:
        click.echo(printable(f"   {each['kind'].replace('correction', 'then'):<10}{_indented(each['quote'])}"))
        click.secho(printable(f"             {each['path']}:{each['line']}"), dim=True)
    if len(evidence) > _EVIDENCE:
        click.echo(f"             and {len(evidence) - _EVIDENCE} more")
    if judgement:
        void = f" (void: {judgement.void})" if judgement.void else ""
        why = judgement.body.get("why", "")
        click.echo(printable(f"   reader    {judgement.reader}: {judgement.verdict}{void} {why}"))


def history(replay: Replay | None) -> None:
    """What the trigger would have done so far."""
    if replay is None:
        return
    went = f"{replay.failed} failed, {replay.fine} went fine"
    click.echo(f"   history   would have fired {counted(replay.fires, 'time')}" + (f": {went}" if replay.fires else ""))
    for call in replay.samples:
        shown = " ".join((call.command or call.file).split())
        click.echo(printable(f"             {call.outcome:<7}{shown[:100]}"))


def alike(lessons: Vocabulary, proposal: Proposal) -> None:
    """The lesson that says nearly the same, if there is one."""
    try:
        near = nearest_in(lessons, records.read({**proposal.record, "id": proposal.id}))
    except records.BadRecord:
        return
    if near and near[1] >= 0.25:
        lesson, share = near
        click.echo(printable(f"   like      {lesson.slug} ({share:.0%}): {lesson.summary}"))


def faults_of(proposal: Proposal) -> list[str]:
    """What must be mended before it can be accepted."""
    try:
        return rules.faults(records.read(dict(proposal.record)))
    except records.BadRecord as bad:
        return bad.faults


def ask_for_fields(proposal: Proposal) -> dict[str, Any]:
    """What a person changes in the suggestion, asked for one by one."""
    record = proposal.record
    preview(proposal)
    changes: dict[str, Any] = {"summary": click.prompt("Summary", default=record["summary"])}
    kind = next((key for key in _PATTERNS if record["triggers"].get(key)), "commandPatterns")
    given = record["triggers"].get(kind, [])
    pattern = click.prompt(f"Trigger ({_PATTERNS[kind]})", default=str(given[0]) if given else None)
    if not given or pattern != given[0]:
        changes[kind] = [pattern]
    if not record["solution"]:
        changes["solution"] = click.prompt("Solution")
    changes["delivery"] = click.prompt("Delivery", type=click.Choice(DELIVERIES), default=record["delivery"])
    changes["priority"] = click.prompt("Priority", type=int, default=record["priority"])
    named = click.prompt("Tags", default=" ".join(record["tags"]), show_default=True)
    changes["tags"] = named.replace(",", " ").split()
    return changes


def known_lessons(lessons: Sequence[Lesson]) -> Sequence[Lesson]:
    return [lesson for lesson in lessons if lesson.status != "rejected"]
