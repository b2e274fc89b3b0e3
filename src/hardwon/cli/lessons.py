"""lessons add, edit, retire, restore, build, import, list, show, check"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import Any

import click

from hardwon import actor, clock, paths, projects, settings
from hardwon.actions import approvals
from hardwon.actions import lessons as actions
from hardwon.agents.fields import get_text, get_tool_path
from hardwon.cli import file_change
from hardwon.cli.output import echo_table, is_interactive, make_printable
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.lessons import approved_lessons, delivery_outcomes, manifest, validation
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons.approved_lessons import WaitingChange
from hardwon.lessons.delivery import open_index
from hardwon.store import db, views
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.db import parse_json_or_text
from hardwon.text.printable import to_printable_line
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES, STATUSES, Lesson

WAITING, NEEDS_REVIEW = "waiting", "needs-review"  # shown in place of a status that the record only claims
MAX_SHOWN_DELIVERIES = 10


@click.group()
def lessons() -> None:
    """Write, edit, list, import and check lessons."""


def add_lesson_options(command: Callable[..., None], *, is_new: bool = False) -> Callable[..., None]:
    """The flags that stand for a record's fields; in a new one, what is left out has a default."""
    note, priority, confidence = (
        ("note (default)", ", 5 if left out", ", 0.9 if left out") if is_new else ("note", "", "")
    )
    for option in reversed(
        [
            click.option("--summary", help="what goes wrong, in a line"),
            click.option("--problem", help="the root cause"),
            click.option("--solution", help="what to do instead"),
            click.option("--command", "commands", multiple=True, metavar="REGEX", help="fires on a Bash command"),
            click.option("--path", "globs", multiple=True, metavar="GLOB", help="fires on a file"),
            click.option("--content", "contents", multiple=True, metavar="REGEX", help="fires on text to be written"),
            click.option("--unless", multiple=True, metavar="REGEX", help="calls a match off"),
            click.option("--tool", "tools", multiple=True, help="only for this tool, such as Bash or Edit"),
            click.option("--delivery", type=click.Choice(DELIVERY_MODES), help=f"{note}, hold, block or start"),
            click.option("--block-reason", help="what the agent is told; {command} is filled in"),
            click.option("--match-in", type=click.Choice(COMMAND_TARGETS), help="full: the text of quotes counts too"),
            click.option("--priority", type=int, help=f"1 to 10{priority}"),
            click.option("--confidence", type=float, help=f"0 to 1{confidence}"),
            click.option("--tag", "tags", multiple=True, help="category:value, such as tool:git"),
            click.option("--project", "here", is_flag=True, help="only for the project in this folder"),
        ]
    ):
        command = option(command)
    return command


@lessons.command()
@partial(add_lesson_options, is_new=True)
@click.option("--json", "text", metavar="RECORD", help="the whole record as JSON; - reads it from stdin")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="the record in a file")
def add(text: str | None, path: str | None, **flags: Any) -> None:
    """Write a lesson. It is in force at once.

    Give flags, or a record with --json, --file or on stdin; at a terminal what is missing is asked for.
    """
    record = _read_record(text, path, flags)
    record.update(parse_flags(flags))
    if is_interactive() and not (text or path):
        _ask_for_missing(record)
    home, agent_variable = paths.get_home(), actor.find_agent_variable(os.environ)
    if agent_variable:
        lesson = actions.propose_lesson(home, record)
    else:
        lesson = actions.add_lesson(home, db.connect(home), record, COMMAND_LINE)
    if agent_variable:
        click.echo(f"proposed as a candidate, since {agent_variable} says an agent runs this: {lesson.slug}")
        click.echo(f"a person puts it in force with: hardwon lessons restore {lesson.slug}")
    elif lesson.needs_review:
        click.echo(f"added, but not in force: confidence {lesson.confidence:g} needs review: {lesson.slug}")
    else:
        click.echo(f"added, and in force as a {lesson.delivery}: {lesson.slug}")


@lessons.command()
@click.argument("slug")
@add_lesson_options
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def edit(slug: str, confirm: bool, **flags: Any) -> None:
    """Change the fields given; at a terminal, without any, open the record in $EDITOR."""
    lesson = find_lesson(slug)
    changes = parse_flags(flags)
    require_person("editing a lesson")
    home = paths.get_home()
    connection = db.connect(home)
    if changes:
        actions.edit_lesson(home, connection, lesson, changes, COMMAND_LINE, confirm=lambda message: confirm)
    else:
        record = json.dumps(records.to_lesson_record(lesson), indent=2, ensure_ascii=False)
        edited_text = click.edit(record, extension=".json") if is_interactive() else None
        if not edited_text or edited_text.strip() == record:
            raise UserError("nothing to change was given", f"hardwon lessons edit {lesson.slug} --priority 8")
        new_record = _read_record(edited_text, None, {})
        actions.rewrite_lesson(home, connection, lesson, new_record, COMMAND_LINE, confirm=lambda message: confirm)
    click.echo(f"changed: {lesson.slug}")


@lessons.command()
@click.argument("slug")
def retire(slug: str) -> None:
    """Take a lesson out of force; it stays in the file."""
    lesson = find_lesson(slug)
    require_person("retiring a lesson")
    home = paths.get_home()
    actions.retire_lesson(home, db.connect(home), lesson)
    click.echo(f"retired: {lesson.slug}; to undo: hardwon lessons restore {lesson.slug}")


@lessons.command()
@click.argument("slug")
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def restore(slug: str, confirm: bool) -> None:
    """Put a retired, proposed or unreviewed lesson in force."""
    lesson = find_lesson(slug)
    require_person("approving a lesson")
    home = paths.get_home()
    actions.restore_lesson(home, db.connect(home), lesson, COMMAND_LINE, confirm=lambda message: confirm)
    click.echo(f"in force as a {lesson.delivery}: {lesson.slug}")


@lessons.command()
@click.option("--yes", is_flag=True, help="approve what waits without asking")
@click.option("--no-approve", is_flag=True, help="compile only, approve nothing")
def build(yes: bool, no_approve: bool) -> None:
    """Show what you changed in lessons.json, approve it and compile the manifest.

    Without changes it only compiles, which also happens by itself. Run by an agent it approves nothing.
    """
    home, agent_variable = paths.get_home(), actor.find_agent_variable(os.environ)
    build_result = approvals.compile_manifest(home, clock.now())
    for waiting_change in build_result.waiting_changes:
        _show_change(waiting_change)
    if build_result.waiting_changes and agent_variable:
        click.echo(
            f"nothing approved, since {agent_variable} says an agent runs this; a person types: "
            f"{approved_lessons.APPROVE_COMMAND}"
        )
    elif build_result.waiting_changes and not no_approve:
        if not yes and is_interactive() and not click.confirm("Approve this?", default=True):
            click.echo("nothing approved; what was approved before stays in force")
        else:
            count = pluralize(len(build_result.waiting_changes), "change")
            build_result = actions.approve_waiting_changes(
                home, db.connect(home), build_result.waiting_changes, COMMAND_LINE
            )
            click.echo(f"approved {count}; to undo: hardwon approvals")
    waiting = f", {len(build_result.waiting_changes)} waiting" if build_result.waiting_changes else ""
    click.echo(
        f"{pluralize(build_result.lesson_count, 'lesson')} in force, {len(build_result.left_out)} left out{waiting}"
    )


def _show_change(waiting_change: WaitingChange) -> None:
    """Show how lessons.json differs from what was approved."""
    click.echo(make_printable(f"{waiting_change.change} by hand: {waiting_change.summary} [{waiting_change.slug}]"))
    if waiting_change.change in (approved_lessons.ADDED, approved_lessons.CHANGED):
        file_change.show_diff(
            waiting_change.slug,
            _format_authored_fields(waiting_change.approved),
            _format_authored_fields(waiting_change.proposed),
        )


def _format_authored_fields(lesson: Lesson | None) -> str:
    return (
        make_printable(json.dumps(records.select_authored_fields(lesson), indent=2, ensure_ascii=False))
        if lesson
        else ""
    )


@lessons.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--confirm", is_flag=True, help="for blocks whose trigger fired seldom")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def import_lessons(file: str, confirm: bool, as_json: bool) -> None:
    """Take over lessons-learned's lessons.json or manifest.

    A lesson with a pattern that Python's re does not accept becomes a candidate with the reason.

    A block that may not block yet, by the check that review makes, comes in as a candidate.
    """
    from hardwon.lessons import foreign_lessons

    require_person("importing lessons")
    with open(file, encoding="utf-8-sig") as stream:
        try:
            converted = foreign_lessons.convert_lessons(json.load(stream))
        except ValueError as error:
            raise UserError(f"{file}: {error}", "give it a lessons.json or lesson-manifest.json") from None
    home = paths.get_home()
    imported, refused = actions.import_foreign_lessons(
        home, db.connect(home), converted, COMMAND_LINE, confirm=lambda message: confirm
    )
    if as_json:
        click.echo(
            json.dumps(
                {"imported": [imported_lesson.slug for imported_lesson in imported], "refused": refused}, indent=2
            )
        )
        return
    for name, reason in refused.items():
        click.echo(make_printable(f"not {name}: {reason}"))
    for lesson in imported:
        if lesson.status == "candidate":
            faults = "; ".join(map(str, lesson.extra.get("importFaults", ())))
            click.echo(make_printable(f"not in force yet: {lesson.slug}: {faults}"))
    click.echo(f"{len(imported)} imported, {len(refused)} refused")


def _read_record(text: str | None, path: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    if path:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    elif text == "-" or (text is None and not any(flags.values()) and not sys.stdin.isatty()):
        text = sys.stdin.read()
    if not text:
        return {}
    try:
        record = json.loads(text)
    except ValueError as error:
        raise UserError(f"the record is not JSON: {error}", "hardwon lessons add --help") from None
    if not isinstance(record, dict):
        raise UserError("the record is not an object", 'write {"summary": …, "problem": …, "solution": …}')
    return record


def parse_flags(flags: dict[str, Any]) -> dict[str, Any]:
    plain_fields = {
        name: flags[name] for name in ("summary", "problem", "solution", "delivery", "priority", "confidence")
    }
    record = {name: value for name, value in plain_fields.items() if value is not None}
    if flags["block_reason"]:
        record["blockReason"] = flags["block_reason"]
    list_fields = {
        "toolNames": flags["tools"],
        "commandPatterns": flags["commands"],
        "pathPatterns": flags["globs"],
        "contentPatterns": flags["contents"],
        "unless": flags["unless"],
        "tags": flags["tags"],
    }
    record.update({name: list(values) for name, values in list_fields.items() if values})
    if flags["match_in"]:
        record["commandMatchTarget"] = flags["match_in"]
    if flags["here"]:
        record["scope"] = {"type": "project", "path": projects.find_project_path(os.getcwd())}
    return record


def _ask_for_missing(record: dict[str, Any]) -> None:
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


@lessons.command("list")
@click.option("--status", type=click.Choice((*STATUSES, WAITING, NEEDS_REVIEW)), help="only these")
@click.option("--tag", help="only those with this tag")
@click.option("--tool", help="only those about this tool")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_lessons(status: str | None, tag: str | None, tool: str | None, as_json: bool) -> None:
    """The lessons, highest priority first; with --status candidate all that wait for a decision, as in a review.

    Status `waiting` is a change that was made in lessons.json by hand and not approved: hardwon lessons build.
    """
    if status == "candidate":
        _list_waiting(tag, tool, as_json)
        return
    home = paths.get_home()
    parsed_file = shelves.read(shelves.get_lessons_path(home))
    waiting = {item.id: item for item in approvals.find_changes_to_approve(home, clock.now())}
    removed = [item.approved for item in waiting.values() if item.proposed is None and item.approved]
    matches = [
        item
        for item in (*parsed_file.lessons, *removed)
        if _has_tag_and_tool(item, tag, tool) and status in (None, _get_effective_status(item, waiting))
    ]
    matches.sort(key=lambda item: (-item.priority, item.slug))
    if as_json:
        listed = [
            {**records.to_lesson_record(item), "status": _get_effective_status(item, waiting)} for item in matches
        ]
        click.echo(json.dumps(listed, indent=2))
        return
    if not matches:
        click.echo("no lessons" + (" like that" if parsed_file.lessons else " yet: hardwon lessons add"))
        return
    rows = []
    for item in matches:
        change_note = f" ({waiting[item.id].change} by hand)" if item.id in waiting else ""
        lesson_text = f"{item.summary}\n{item.slug}{change_note}"
        rows.append([str(item.priority), item.delivery, _get_effective_status(item, waiting), lesson_text])
    echo_table(["prio", "delivery", "status", "lesson"], rows)
    if waiting:
        click.echo(
            f"{approved_lessons.describe_waiting_changes(list(waiting.values()))}: {approved_lessons.APPROVE_COMMAND}"
        )


def _list_waiting(tag: str | None, tool: str | None, as_json: bool) -> None:
    """Show the review queue: what was mined is not in lessons.json, but waits for the same decision."""
    from hardwon.cli import candidates as shown
    from hardwon.lessons import review_queue

    connection = db.connect(paths.get_home())
    waiting = review_queue.list_waiting(paths.get_home(), connection)
    matches = [candidate for candidate in waiting if _is_about(candidate.record, tag, tool)]
    if as_json:
        click.echo(json.dumps([shown.to_record(connection, candidate) for candidate in matches], indent=2))
        return
    shown.show_list(matches)
    if matches:
        click.echo("next      hardwon review")
    else:
        click.echo("no candidates" + (" like that" if waiting else ": hardwon scan"))


def _is_about(record: Mapping[str, Any], tag: str | None, tool: str | None) -> bool:
    try:
        return _has_tag_and_tool(records.parse_lesson(dict(record)), tag, tool)
    except records.BadRecord:  # a tag that cannot be a lesson as it is; a person mends it while accepting
        return tag is None and tool is None


def _get_effective_status(lesson: Lesson, waiting_changes: Mapping[str, WaitingChange]) -> str:
    """Return the status that counts, which is not always the one that the record claims."""
    if lesson.id in waiting_changes:
        return WAITING
    return NEEDS_REVIEW if lesson.status == "active" and lesson.needs_review else lesson.status


def _has_tag_and_tool(lesson: Lesson, tag: str | None, tool: str | None) -> bool:
    return (tag is None or tag in lesson.tags) and (tool is None or tool in manifest.find_lesson_tools(lesson))


def find_lesson(name: str) -> Lesson:
    """A lesson by slug, id, or a beginning that only one slug has."""
    parsed_file = shelves.read(shelves.get_lessons_path(paths.get_home()))
    exact_matches = [lesson for lesson in parsed_file.lessons if name in (lesson.slug, lesson.id)]
    matches = exact_matches or [lesson for lesson in parsed_file.lessons if lesson.slug.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{name!r} could be {', '.join(lesson.slug for lesson in matches[:5])}", "write more of it")
    raise UserError(f"there is no lesson {name!r}", "hardwon lessons list")


@lessons.command()
@click.argument("slug")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(slug: str, as_json: bool) -> None:
    """One lesson, whole."""
    lesson = find_lesson(slug)
    if as_json:
        click.echo(json.dumps(records.to_lesson_record(lesson), indent=2))
        return
    record = records.to_lesson_record(lesson)
    for name, value in record.items():
        if value not in ("", [], None):
            value_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(make_printable(f"{name:<18}{value_text}"))
    _print_outcomes(lesson)


def _print_outcomes(lesson: Lesson) -> None:
    """Print the latest holds and blocks, each with the call that came instead and how it ended."""
    home = paths.get_home()
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return
    with closing(db.connect(home)) as connection:
        deliveries = views.list_lesson_deliveries(connection, lesson=lesson.id, limit=MAX_SHOWN_DELIVERIES)
        for delivery in deliveries:
            outcome = delivery_outcomes.find_delivery_outcome(connection, delivery)
            if delivery["delivery"] not in ("hold", "block") or outcome.call is None:
                continue
            description = f"{_format_call(outcome.call)} -> "
            description += _format_call(outcome.instead) if outcome.instead else "no call came instead"
            time_text = datetime.fromtimestamp(delivery["at"]).strftime("%Y-%m-%d %H:%M")
            click.echo(make_printable(f"{delivery['delivery']:<6}{time_text}  {description}"))


def _format_call(call: dict[str, Any]) -> str:
    tool_input = parse_json_or_text(call["input"])
    fields = tool_input if isinstance(tool_input, dict) else {}
    subject = get_text(fields, "command") or get_tool_path(fields) or call["tool"]
    outcome = {"fine": "passed"}.get(call["outcome"], call["outcome"])
    return f"{to_printable_line(subject, 70)} ({outcome})"


@lessons.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def check(as_json: bool) -> None:
    """Check lessons.json and config.json, and say what is wrong and where."""
    home = paths.get_home()
    faults: list[str] = []
    count, left_out = 0, []
    try:
        build_result = approvals.compile_manifest(home, clock.now())
        count, left_out = build_result.lesson_count, list(build_result.left_out)
        faults.extend(build_result.faults)
        for lesson in shelves.read(shelves.get_lessons_path(home)).lessons:
            faults.extend(
                f"{lesson.slug}: {fault}"
                for fault in validation.find_lesson_faults(lesson)
                if lesson.status == "active"
            )
        unknown_keys = settings.find_unknown_keys(settings.read_config(home))
        faults.extend(f"config.json: {name} is no setting" for name in unknown_keys)
    except UserError as error:
        faults.append(f"{error.say}\n  fix: {error.fix}\n  the last good manifest stays in force")
        count = _count_in_force(home)
    if as_json:
        click.echo(json.dumps({"inForce": count, "leftOut": dict(left_out), "faults": faults}, indent=2))
    else:
        for fault in faults:
            click.echo(make_printable(fault))
        for slug, reason in left_out:
            click.echo(make_printable(f"left out {slug}: {reason}"))
        click.echo(f"{pluralize(len(faults), 'fault')}, " * bool(faults) + f"{pluralize(count, 'lesson')} in force")
    if faults:
        raise SystemExit(1)


def _count_in_force(home: str) -> int:
    try:
        return len(open_index(home))
    except (OSError, ValueError):
        return 0


def pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
