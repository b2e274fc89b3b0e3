"""lessons add, edit, retire, restore, build, import, list, show, check; why; deliveries"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hardwon import clock, paths, pauses, settings
from hardwon.cli import CommandGroup
from hardwon.cli.completions import complete_lessons
from hardwon.cli.context import (
    EXISTING_FILE,
    add_lesson_options,
    answer_by_flag,
    confirm,
    confirm_option,
    edit_as_json,
    find_agent,
    is_interactive,
    json_option,
    open_decider,
    open_store,
    parse_flags,
    parse_record,
    require_person,
    show_diff,
)
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_table, echo_text, format_time
from hardwon.errors import UserError
from hardwon.lessons import manifest
from hardwon.lessons.lessons_file import get_lessons_path, read_own
from hardwon.lessons.lookup import (
    NEEDS_REVIEW,
    WAITING,
    explain_call,
    explain_inactive_lessons,
    find_lesson,
    get_effective_status,
    has_tag_and_tool,
    is_about,
)
from hardwon.lessons.manifest import APPROVE_COMMAND
from hardwon.lessons.record import select_authored_fields, to_lesson_record
from hardwon.store import db
from hardwon.store.approvals import is_upgraded
from hardwon.text.characters import format_count, make_printable, to_printable_line
from hardwon.types import DELIVERY_MODES, STATUSES, Event, Lesson, dump_record

if TYPE_CHECKING:
    from hardwon.store.candidates import Candidate

_MAX_SHOWN_DELIVERIES = 10
_MAX_SHOWN_OTHERS = 15
_SLUG_INDENT = " " * 16
_VERDICTS = {"block": "would block", "hold": "would hold", "note": "would note", "start": "is told at session start"}

slug_argument = click.argument("slug", shell_complete=complete_lessons)


@click.group(cls=CommandGroup)
def lessons() -> None:
    """Write, edit, list, import and check lessons."""


@lessons.command()
@add_lesson_options
@click.option("--json", "text", metavar="RECORD", help="the whole record as JSON; - reads it from stdin")
@click.option("--file", "path", type=EXISTING_FILE, help="the record in a file")
def add(text: str | None, path: str | None, **flags: Any) -> None:
    """Write a lesson. It is in force at once.

    Give flags, or a record with --json, --file or on stdin; at a terminal what is missing is asked for.
    """
    from hardwon.actions.lessons import add_lesson, propose_lesson

    changes = parse_flags(flags)
    if path:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    elif text == "-" or (text is None and not changes and not sys.stdin.isatty()):
        text = sys.stdin.read()
    record = parse_record(text) if text else {}
    record |= changes  # a flag wins over the same field of the record
    if is_interactive() and not text:
        _ask_for_missing(record)
    agent_variable = find_agent()
    if agent_variable:
        lesson = propose_lesson(paths.get_home(), record)
        click.echo(f"proposed as a candidate, since {agent_variable} says an agent runs this: {lesson.slug}")
        click.echo(f"a person puts it in force with: hardwon lessons restore {lesson.slug}")
        return
    with open_decider() as decider:
        lesson = add_lesson(decider, record)
    if lesson.needs_review:
        click.echo(f"added, but not in force: confidence {lesson.confidence:g} needs review: {lesson.slug}")
    else:
        click.echo(f"added, and in force as a {lesson.delivery}: {lesson.slug}")


def _ask_for_missing(record: dict[str, Any]) -> None:
    """Ask for the fields that a lesson cannot do without, and put the answers into the record."""
    questions = {
        "summary": "What goes wrong, in a line",
        "problem": "Why it goes wrong",
        "solution": "What to do instead",
    }
    for name, question in questions.items():
        if not record.get(name):
            record[name] = click.prompt(question)
    triggers = ("commandPatterns", "pathPatterns", "contentPatterns", "toolNames", "triggers")
    if not any(record.get(name) for name in triggers) and record.get("delivery") != "start":
        record["commandPatterns"] = [click.prompt("Regex for the command it is about, such as \\bgit stash\\b")]
    if not record.get("delivery"):
        record["delivery"] = click.prompt("Delivery", type=click.Choice(DELIVERY_MODES), default="note")


@lessons.command()
@slug_argument
@add_lesson_options
@confirm_option
def edit(slug: str, confirmed: bool, **flags: Any) -> None:
    """Change the fields given; at a terminal, without any, open the record in $EDITOR."""
    from hardwon.actions.lessons import edit_lesson

    lesson = find_lesson(paths.get_home(), slug)
    require_person("editing a lesson")
    changes = parse_flags(flags)
    if not changes and is_interactive():
        changes = edit_as_json(to_lesson_record(lesson))
        for fixed_field in ("id", "slug"):  # by which approvals and deliveries refer to the lesson
            changes.pop(fixed_field, None)
    if not changes:
        raise UserError("nothing to change was given", f"hardwon lessons edit {lesson.slug} --priority 8")
    with open_decider() as decider:
        edit_lesson(decider, lesson, changes, confirm=answer_by_flag(confirmed))
    click.echo(f"changed: {lesson.slug}")


@lessons.command()
@slug_argument
def retire(slug: str) -> None:
    """Take a lesson out of force; it stays in the file."""
    from hardwon.actions.lessons import retire_lesson

    lesson = find_lesson(paths.get_home(), slug)
    require_person("retiring a lesson")
    with open_decider() as decider:
        retire_lesson(decider, lesson)
    click.echo(f"retired: {lesson.slug}; to undo: hardwon lessons restore {lesson.slug}")


@lessons.command()
@slug_argument
@confirm_option
def restore(slug: str, confirmed: bool) -> None:
    """Put a retired, proposed or unreviewed lesson in force."""
    from hardwon.actions.lessons import restore_lesson

    lesson = find_lesson(paths.get_home(), slug)
    require_person("approving a lesson")
    with open_decider() as decider:
        restore_lesson(decider, lesson, confirm=answer_by_flag(confirmed))
    click.echo(f"in force as a {lesson.delivery}: {lesson.slug}")


@lessons.command()
@click.option("--yes", is_flag=True, help="approve waiting changes without asking")
@click.option("--no-approve", is_flag=True, help="compile only, approve nothing")
def build(yes: bool, no_approve: bool) -> None:
    """Show what you changed in lessons.json, approve it and compile the manifest.

    Without changes it only compiles, which also happens by itself. Run by an agent it approves nothing.
    """
    from hardwon.actions import approvals
    from hardwon.actions.lessons import approve_waiting_changes

    home = paths.get_home()
    agent_variable = find_agent()
    build_result = approvals.compile_manifest(home, clock.now())
    # A change made by hand counts only after a person has approved it.
    changes = build_result.waiting_changes
    for change in changes:
        echo_text(f"{change.change} by hand: {change.summary} [{change.slug}]")
        if change.change in (manifest.ADDED, manifest.CHANGED):
            show_diff(change.slug, _format_authored_fields(change.approved), _format_authored_fields(change.proposed))
    if changes and agent_variable:
        reason = f"since {agent_variable} says an agent runs this"
        click.echo(f"nothing approved, {reason}; a person types: {APPROVE_COMMAND}")
    elif changes and not no_approve:
        # Without a terminal the command itself is the person's word, so that scripts work.
        if is_interactive() and not confirm(yes, "Approve this?", default=True):
            click.echo("nothing approved; what was approved before stays in force")
        else:
            with open_decider() as decider:
                build_result = approve_waiting_changes(decider, changes)
            click.echo(f"approved {format_count(len(changes), 'change')}; to undo: hardwon approvals")
    summary = f"{format_count(build_result.lesson_count, 'lesson')} in force, {len(build_result.left_out)} left out"
    if build_result.waiting_changes:
        summary += f", {len(build_result.waiting_changes)} waiting"
    click.echo(summary)


def _format_authored_fields(lesson: Lesson | None) -> str:
    """Return what a person wrote of a lesson as JSON, for a difference; empty for no lesson."""
    if lesson is None:
        return ""
    return make_printable(json.dumps(select_authored_fields(lesson), indent=2, ensure_ascii=False))


@lessons.command("import")
@click.argument("file", type=EXISTING_FILE)
@confirm_option
@json_option
def import_lessons(file: str, confirmed: bool, as_json: bool) -> None:
    """Import lessons-learned's lessons.json or manifest.

    A block that may not block yet, by the check that review makes, comes in as a candidate.
    """
    from hardwon.actions.lessons import import_foreign_lessons
    from hardwon.lessons import lessons_learned_import

    require_person("importing lessons")
    with open(file, encoding="utf-8-sig") as stream:
        try:
            converted = lessons_learned_import.convert_lessons(json.load(stream))
        except ValueError as error:
            raise UserError(f"{file}: {error}", "give it a lessons.json or lesson-manifest.json") from None
    with open_decider() as decider:
        imported, refused = import_foreign_lessons(decider, converted, confirm=answer_by_flag(confirmed))
    if as_json:
        echo_json({"imported": [lesson.slug for lesson in imported], "refused": refused})
        return
    for name, reason in refused.items():
        echo_text(f"refused {name}: {reason}")
    for lesson in imported:
        if lesson.status == "candidate":
            faults = "; ".join(map(str, lesson.extra.get("importFaults", ())))
            echo_text(f"not in force yet: {lesson.slug}: {faults}")
    click.echo(f"{len(imported)} imported, {len(refused)} refused")


@lessons.command("list")
@click.option("--status", type=click.Choice((*STATUSES, WAITING, NEEDS_REVIEW)), help="only these")
@click.option("--tag", help="only those with this tag")
@click.option("--tool", help="only those about this tool")
@json_option
def print_lessons(status: str | None, tag: str | None, tool: str | None, as_json: bool) -> None:
    """List lessons, highest priority first; --status candidate lists the review queue.

    Status `waiting` is a change that was made in lessons.json by hand and not approved: hardwon lessons build.
    """
    if status == "candidate":
        _print_queue(tag, tool, as_json)
        return
    home = paths.get_home()
    lessons_in_file = read_own(home).lessons
    waiting = {change.id: change for change in _find_changes_to_approve(home)}
    # A lesson that was deleted by hand stays in force until that is approved, so it is listed as well.
    removed = [change.approved for change in waiting.values() if change.proposed is None and change.approved]
    matches = []
    for lesson in (*lessons_in_file, *removed):
        if has_tag_and_tool(lesson, tag, tool) and status in (None, get_effective_status(lesson, waiting)):
            matches.append(lesson)
    matches.sort(key=lambda lesson: (-lesson.priority, lesson.slug))
    if as_json:
        records = []
        for lesson in matches:
            records.append({**to_lesson_record(lesson), "status": get_effective_status(lesson, waiting)})
        echo_json(records)
        return
    if not matches:
        click.echo("no lessons like that" if lessons_in_file else "no lessons yet: hardwon lessons add")
        return
    rows = []
    for lesson in matches:
        change_note = f" ({waiting[lesson.id].change} by hand)" if lesson.id in waiting else ""
        lesson_text = f"{lesson.summary}\n{lesson.slug}{change_note}"
        rows.append([str(lesson.priority), lesson.delivery, get_effective_status(lesson, waiting), lesson_text])
    echo_table(["prio", "delivery", "status", "lesson"], rows)
    if waiting:
        click.echo(f"{manifest.describe_waiting_changes(list(waiting.values()))}: {APPROVE_COMMAND}")


def _find_changes_to_approve(home: str) -> list[manifest.WaitingChange]:
    """Return the changes to lessons.json that nobody has approved."""
    if os.path.exists(get_lessons_path(home)):
        with db.open(home) as connection:
            # `actions` takes long to import, and an upgrade comes once.
            if not is_upgraded(connection):
                from hardwon.actions.approvals import ensure_upgraded

                ensure_upgraded(home, connection, clock.now())
    return manifest.find_waiting_changes(home)


def _print_queue(tag: str | None, tool: str | None, as_json: bool) -> None:
    """Print the lessons that wait for a decision."""
    from hardwon.cli.candidates import show_list
    from hardwon.lessons.review_queue import list_waiting, to_candidate_record

    with open_store() as connection:
        waiting = list_waiting(paths.get_home(), connection)
        matches = [candidate for candidate in waiting if is_about(candidate.record, tag, tool)]
        if as_json:
            echo_json([to_candidate_record(connection, candidate) for candidate in matches])
            return
    show_list(matches)
    if matches:
        click.echo("next      hardwon review")
    elif waiting:
        click.echo("no candidates like that")
    else:
        click.echo("no candidates: hardwon scan")


@lessons.command()
@click.argument("name", metavar="SLUG|L3", shell_complete=complete_lessons)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one lesson in full, and what became of its holds and blocks.

    L3 is a proposal, or the lesson that it became. --json prints the whole record.
    """
    from hardwon.cli.candidates import show_evidence, show_preview, show_record

    candidate = _find_candidate(name)
    if candidate is not None and candidate.status != "active":
        if as_json:
            echo_json(candidate.record)
            return
        show_preview(candidate)
        echo_field("state", candidate.status)
        show_evidence(candidate.record["evidence"])
        return
    lesson = find_lesson(paths.get_home(), candidate.lesson if candidate is not None else name)
    record = to_lesson_record(lesson)
    if as_json:
        echo_json(record)
        return
    echo_text(f"{lesson.slug}  {to_printable_line(lesson.summary)}")
    show_record(record)
    echo_field(
        "state", f"{lesson.status}, confidence {lesson.confidence}, {record['source']} of {record['createdAt'][:10]}"
    )
    show_evidence(record.get("evidence", ()))
    if paths.has_database(paths.get_home()):
        _print_outcomes(lesson)


def _find_candidate(name: str) -> Candidate | None:
    """Return the candidate that a number such as L3 means; None for a slug."""
    if not (name[:1] in "Ll" and name[1:].isdigit()):
        return None
    from hardwon.lessons.review_queue import find_in_queue

    with open_store() as connection:
        candidate = find_in_queue(paths.get_home(), connection, name[1:])
    if candidate is None:
        raise UserError(f"there is no lesson {name}", "hardwon lessons list, or hardwon scan candidates --all")
    return candidate


def _print_outcomes(lesson: Lesson) -> None:
    """Print the latest holds and blocks, each with the call that came instead."""
    from hardwon.lessons.delivery_outcomes import find_delivery_outcome
    from hardwon.store.views import list_lesson_deliveries

    with open_store() as connection:
        for delivery in list_lesson_deliveries(connection, lesson=lesson.id, limit=_MAX_SHOWN_DELIVERIES):
            outcome = find_delivery_outcome(connection, delivery)
            if delivery["delivery"] not in ("hold", "block") or outcome.call is None:
                continue  # a note, or its call is not recorded
            instead = _format_call(outcome.instead) if outcome.instead else "no call came instead"
            time_text = format_time(delivery["at"])
            echo_text(f"{delivery['delivery']:<6}{time_text}  {_format_call(outcome.call)} -> {instead}")


def _format_call(call: db.Row) -> str:
    """Return a call and how it ended, in one line."""
    from hardwon.efficacy.blame import describe_call

    outcome = "passed" if call["outcome"] == "fine" else call["outcome"]
    return f"{to_printable_line(describe_call(call), 70)} ({outcome})"


@lessons.command()
@json_option
def check(as_json: bool) -> None:
    """Check lessons.json and config.json, and report what is wrong and where."""
    from hardwon.actions import approvals
    from hardwon.lessons.validation import find_lesson_faults

    home = paths.get_home()
    faults: list[str] = []
    left_out: Mapping[str, str] = {}
    try:
        build_result = approvals.compile_manifest(home, clock.now())
        count = build_result.lesson_count
        left_out = dict(build_result.left_out)
        faults.extend(build_result.faults)
        for lesson in read_own(home).lessons:
            if lesson.status == "active":
                faults.extend(f"{lesson.slug}: {fault}" for fault in find_lesson_faults(lesson))
        unknown_keys = settings.find_unknown_keys(settings.read_config(home))
        faults.extend(f"config.json: {name} is not a setting" for name in unknown_keys)
    except UserError as error:
        faults.append(f"{error.message}\n  fix: {error.fix}\n  the last good manifest stays in force")
        count = _count_in_force(home)
    if as_json:
        echo_json({"inForce": count, "leftOut": left_out, "faults": faults})
    else:
        for fault in faults:
            echo_text(fault)
        for slug, reason in left_out.items():
            echo_text(f"left out {slug}: {reason}")
        summary = f"{format_count(count, 'lesson')} in force"
        if faults:
            summary = f"{format_count(len(faults), 'fault')}, {summary}"
        click.echo(summary)
    if faults:
        raise SystemExit(1)


def _count_in_force(home: str) -> int:
    """Return how many lessons the last good manifest has."""
    from hardwon.lessons.manifest_index import open_index

    try:
        return len(open_index(home))
    except (OSError, ValueError):
        return 0


# Options of the command, as in `hardwon why git stash -u`, are part of it.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1)
@click.option("--tool", default="", help="the tool, if it is not Bash")
@click.option("--path", default="", help="the file it is about")
@click.option("--content", default="", help="the text it would write")
@click.option("--all", "show_all", is_flag=True, help="every lesson that would not fire, too")
@json_option
def why(command: tuple[str, ...], tool: str, path: str, content: str, show_all: bool, as_json: bool) -> None:
    """Explain which lessons would fire on COMMAND, and why the others would not.

    Nothing is delivered or claimed by asking.
    """
    command_text = " ".join(command)
    if not (command_text or path or content or tool):
        raise UserError("there is no call to explain", "hardwon why 'git stash'   (or --path, --content, --tool)")
    home = paths.get_home()
    folder = os.getcwd()
    now = clock.now()
    if not tool:
        tool = "Bash" if command_text else "Edit"  # a call without a command is about a file
    event = Event(
        host="",
        kind="PreToolUse",
        session="",
        cwd=folder,
        tool=tool,
        command=command_text,
        path=path,
        content=content,
    )
    matches, unmet = explain_call(home, event, now)
    is_paused = pauses.is_paused(home, folder, now)
    others = [{"slug": slug, "why": reason} for slug, reason in (*unmet, *explain_inactive_lessons(home))]
    if as_json:
        firings = []
        for match in matches:
            entry = match.entry
            verdict = {"slug": entry.slug, "would": entry.delivery, "summary": entry.summary}
            firings.append({**verdict, "in": match.matched_text})
        echo_json({"fires": firings, "others": others, "paused": is_paused})
        return
    if is_paused:
        click.echo("paused here, so nothing fires until you lift it (hardwon unpause); then:")
    for match in matches:
        echo_text(f"{_VERDICTS[match.entry.delivery]}: {match.entry.summary} [{match.entry.slug}]")
        echo_text(f"  matched in: {match.matched_text}")
    if not matches:
        click.echo("no lesson would fire")
    shown_others = others if show_all else others[:_MAX_SHOWN_OTHERS]
    for other in shown_others:
        echo_text(f"not {other['slug']}: it {other['why']}")
    if len(shown_others) < len(others):
        click.echo(f"… and {len(others) - len(shown_others)} more: hardwon why --all")


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many")
@json_option
def deliveries(limit: int, as_json: bool) -> None:
    """List what was delivered to agents: when, how, and which lesson."""
    from hardwon.store.efficacy import list_latest_deliveries

    with open_store(drain=True) as connection:
        latest_deliveries = [delivery for _, delivery in list_latest_deliveries(connection, limit=limit)]
    if as_json:
        echo_json([{**dump_record(delivery), "at": clock.format_iso(delivery.at)} for delivery in latest_deliveries])
        return
    for delivery in latest_deliveries:
        when = format_time(delivery.at, "%m-%d %H:%M:%S")
        echo_text("  ".join((when, delivery.delivery, delivery.host, delivery.tool or delivery.kind)))
        # The slug gets a line of its own, so that it can be copied whole.
        echo_indented(_SLUG_INDENT, f"{delivery.summary}\n{delivery.slug}")
    if not latest_deliveries:
        click.echo("nothing has been delivered yet")
