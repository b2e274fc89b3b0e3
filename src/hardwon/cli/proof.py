"""proof, blame"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from hardwon import clock, paths
from hardwon.actions.lessons import measure_lesson, stop_measuring, undo_step_down
from hardwon.cli.completions import complete_lessons
from hardwon.cli.context import json_option, open_decider, open_store, require_person
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_styled, echo_table, echo_text, format_time
from hardwon.efficacy.blame import describe_call, list_told_items
from hardwon.efficacy.delivery_changes import build_proofs, propose_retiring_gone, update_deliveries
from hardwon.efficacy.outcomes import (
    CHANGED,
    GIVEN_UP,
    IGNORED,
    REPEATED_FAILED,
    REPEATED_FINE,
    UNKNOWN,
    judge_open_firings,
    record_past_firings,
)
from hardwon.efficacy.proof import (
    PROVEN,
    TOLD_ARMS,
    FiringCounts,
    LessonProof,
    Trial,
    compute_pooled_share,
    describe_counts,
    describe_grade,
    format_share,
)
from hardwon.errors import UserError
from hardwon.lessons.lookup import find_lesson
from hardwon.sessions.lookup import find_session
from hardwon.store.db import Connection
from hardwon.store.efficacy import BEFORE, find_call, read_calls
from hardwon.text.characters import format_count, to_printable_line
from hardwon.types import Lesson

_MAX_LISTED = 40
_MAX_LATEST = 5
_VERDICT_NAMES = {
    "": "still open",
    CHANGED: "changed",
    REPEATED_FAILED: "repeated and failed",
    REPEATED_FINE: "repeated and fine",
    GIVEN_UP: "given up",
    IGNORED: "ran although denied",
    UNKNOWN: "unknown",
}


@click.command()
@click.argument("slug", required=False, shell_complete=complete_lessons)
@click.option("--measure", is_flag=True, help="keep the lesson silent in some sessions, drawn at random, to measure it")
@click.option("--stop", is_flag=True, help="tell it in every session again")
@click.option("--undo", is_flag=True, help="undo a step down: hold or tell it as its record says")
@click.option("--export", "is_export", is_flag=True, help="print counts only, as JSON, without texts and names")
@json_option
def proof(slug: str | None, measure: bool, stop: bool, undo: bool, is_export: bool, as_json: bool) -> None:
    """Show whether lessons prevent the repeat: what each firing led to, and how sure that is."""
    home = paths.get_home()
    decisions = [name for name, is_given in (("measure", measure), ("stop", stop), ("undo", undo)) if is_given]
    if len(decisions) > 1 or (decisions and not slug):
        raise UserError("choose one of --measure, --stop and --undo, with a lesson", "hardwon proof SLUG --measure")
    if slug and decisions:
        require_person("deciding how a lesson is delivered")
        _carry_out_decision(find_lesson(home, slug), decisions[0])
        return
    with open_store(drain=True) as connection:
        _update_ledger(connection, home)
        proofs = build_proofs(connection, home)
        latest_lines = list[str]()
        if slug:
            lesson = find_lesson(home, slug)
            proofs = [lesson_proof for lesson_proof in proofs if lesson_proof.lesson.id == lesson.id]
            if not proofs:
                raise UserError(f"{lesson.slug} is not in force", "hardwon lessons list")
            latest_lines = _format_latest_firings(connection, proofs[0])
    if is_export or as_json:
        echo_json([_build_record(lesson_proof, with_names=not is_export) for lesson_proof in proofs])
    elif slug:
        _print_lesson(proofs[0], latest_lines)
    else:
        _print_all(proofs)


def _carry_out_decision(lesson: Lesson, decision: str) -> None:
    """Measure a lesson, stop measuring it, or undo its step down."""
    with open_decider(drain=True) as decider:
        if decision == "measure":
            measure_lesson(decider, lesson)
            echo_text(f"measured from now on: {lesson.slug} stays silent in half of the sessions at first")
        elif decision == "stop":
            stop_measuring(decider, lesson)
            echo_text(f"no longer measured: {lesson.slug} is told in every session")
        elif undo_step_down(decider, lesson):
            echo_text(f"undone: {lesson.slug} is a {lesson.delivery} again")
        else:
            echo_text("nothing to undo")


def _update_ledger(connection: Connection, home: str) -> None:
    """Judge every firing that can be judged by now, so that the figures are of this moment."""
    record_past_firings(connection, home)
    now = clock.now()
    propose_retiring_gone(connection, home, now)
    while judge_open_firings(connection, home, now):  # a backlog of history is judged in portions
        pass
    update_deliveries(connection, home, now, is_changed=True)


def _print_all(proofs: list[LessonProof]) -> None:
    """Print a line for each lesson that has fired, and what all of them prevent together."""
    fired = []
    for lesson_proof in proofs:
        if lesson_proof.told_counts.total or lesson_proof.silent_counts.total:
            fired.append(lesson_proof)
    if not fired:
        click.echo("no lesson has fired yet")
        return
    rows = [_build_row(lesson_proof) for lesson_proof in fired[:_MAX_LISTED]]
    echo_table(["told", "changed", "failed", "untold", "false alarms", "grade", "lesson"], rows)
    if len(fired) > _MAX_LISTED:
        click.echo(f"and {len(fired) - _MAX_LISTED} more: hardwon proof --json")
    trials: list[Trial] = []
    for lesson_proof in fired:
        trials += lesson_proof.trials
    share = compute_pooled_share(trials)
    has_silent_trial = not all(trial.is_live for trial in trials)  # without one there is nothing to compare with
    if share and has_silent_trial:
        click.echo(f"here hardwon prevents {format_share(share)}, by {format_count(len(trials), 'measured firing')}")
    else:
        click.echo("nobody measured whether these help: hardwon proof SLUG --measure")


def _build_row(lesson_proof: LessonProof) -> list[str]:
    """Return the cells of a lesson in the table of all; "-" where it was never left untold."""
    told_counts = lesson_proof.told_counts
    silent_counts = lesson_proof.silent_counts
    untold = "-"
    if silent_counts.total:
        untold = f"{silent_counts.failed} of {silent_counts.judged}"
    return [
        str(told_counts.total),
        str(told_counts.by_verdict[CHANGED]),
        f"{told_counts.failed} of {told_counts.judged}",
        untold,
        str(told_counts.false_alarms + silent_counts.false_alarms),
        _name_grade(lesson_proof),
        lesson_proof.lesson.slug,
    ]


def _name_grade(lesson_proof: LessonProof) -> str:
    """Return how sure it is that a lesson helps, in a word or two for a table."""
    if lesson_proof.stepped_down_to:
        return f"now {lesson_proof.stepped_down_to}"
    if lesson_proof.is_measured and lesson_proof.grade != PROVEN:
        return "being measured"
    return lesson_proof.grade


def _format_latest_firings(connection: Connection, lesson_proof: LessonProof) -> list[str]:
    """Return a line for each of a lesson's latest firings: when, whether it was told, and the call that followed."""
    firings = [firing for firing in lesson_proof.firings if firing.arm != BEFORE]
    latest = firings[-_MAX_LATEST:][::-1]
    calls = read_calls(connection, [firing.instead for firing in latest if firing.instead])
    lines = []
    for firing in latest:
        time_text = format_time(firing.at, "%m-%d %H:%M")
        arm = "told" if firing.arm in TOLD_ARMS else "silent"
        line = f"{time_text}  {arm:<7} {_VERDICT_NAMES[firing.verdict]}"
        if call := calls.get(firing.instead or 0):  # retention may have deleted it
            line += f": {to_printable_line(describe_call(call), 60)} ({call['outcome']})"
        lines.append(line)
    return lines


def _print_lesson(lesson_proof: LessonProof, latest_lines: Sequence[str]) -> None:
    """Print all that is known about whether one lesson helps."""
    lesson = lesson_proof.lesson
    echo_styled(lesson.slug, bold=True)
    echo_field("lesson", lesson.summary)
    delivery: str = lesson.delivery
    if lesson_proof.stepped_down_to:
        delivery += f", stepped down to {lesson_proof.stepped_down_to} (undo: hardwon proof {lesson.slug} --undo)"
    elif lesson_proof.is_measured:
        delivery += (
            f", silent in {lesson_proof.silent_share:.0%} of sessions (stop: hardwon proof {lesson.slug} --stop)"
        )
    echo_field("delivery", delivery)
    for label, counts in (
        ("told", lesson_proof.told_counts),
        ("silent", lesson_proof.silent_counts),
        ("before", lesson_proof.before_counts),
    ):
        if counts.total:
            echo_field(label, f"{format_count(counts.total, 'time')}: {describe_counts(counts)}")
    echo_field("proof", describe_grade(lesson_proof))
    for number, line in enumerate(latest_lines):
        echo_field("latest" if number == 0 else "", line)
    if not lesson_proof.is_measured and not lesson_proof.stepped_down_to:
        echo_field("next", f"hardwon proof {lesson.slug} --measure")


def _build_record(lesson_proof: LessonProof, *, with_names: bool) -> dict[str, object]:
    """Return the figures of a lesson; without names they hold no text that a person or an agent wrote."""
    share = lesson_proof.compute_prevented_share()
    record: dict[str, object] = {"slug": lesson_proof.lesson.slug} if with_names else {}
    record |= {
        "delivery": lesson_proof.lesson.delivery,
        "grade": lesson_proof.grade,
        "measured": lesson_proof.is_measured,
        "steppedDownTo": lesson_proof.stepped_down_to,
        "silentShare": lesson_proof.silent_share,
        "told": _build_counts(lesson_proof.told_counts),
        "silent": _build_counts(lesson_proof.silent_counts),
        "before": _build_counts(lesson_proof.before_counts),
        "eValue": round(lesson_proof.e_value, 3),
        "prevented": {"of100": share.estimate, "low": share.low, "high": share.high} if share else None,
    }
    return record


def _build_counts(counts: FiringCounts) -> dict[str, int]:
    """Return counts of firings by the names that the JSON has."""
    return {
        "firings": counts.total,
        "changed": counts.by_verdict[CHANGED],
        "changedAndFine": counts.changed_fine,
        "repeatedAndFailed": counts.failed,
        "repeatedAndFine": counts.false_alarms,
        "givenUp": counts.by_verdict[GIVEN_UP],
        "unknown": counts.by_verdict[UNKNOWN],
        "ignored": counts.by_verdict[IGNORED],
        "open": counts.open,
    }


@click.command()
@click.argument("name", metavar="SESSION|CALL")
@json_option
def blame(name: str, as_json: bool) -> None:
    """Show what hardwon had told an agent, and who approved it: for "why did it do that?".

    CALL is the id of a call, as E12 in a search or as the agent gave it. What was told before it is listed, with the
    words that it shares with the call. For a SESSION everything is listed.
    """
    with open_store(drain=True) as connection:
        call = find_call(connection, name)
        session = find_session(connection, str(call["session"]) if call else name)
        items = list_told_items(connection, paths.get_home(), session, call)
    if as_json:
        echo_json([asdict(item) for item in items])
        return
    echo_styled(f"session {session['session']} ({session['host']})", bold=True)
    if call:
        echo_text(f"call E{call['id']}: {to_printable_line(describe_call(call), 100)} ({call['outcome']})")
    if not items:
        click.echo("hardwon had told it nothing" + (" before this call" if call else ""))
    for item in items:
        time_text = format_time(item.at, "%m-%d %H:%M")
        echo_indented(f"{time_text}  {item.delivery:<6}", f"{to_printable_line(item.text, 160)} [{item.name}]")
        echo_field("from", f"{item.origin}; {item.approval}", indent=13)
        if item.shared_words:
            echo_field("shares", ", ".join(item.shared_words), indent=13)
