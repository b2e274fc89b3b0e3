"""lessons add, edit, retire, restore, build, import, list, show, check"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from hardwon import clock, paths, projects, settings, who
from hardwon.cli.person import require_person
from hardwon.cli.show import at_terminal, printable, table
from hardwon.core import record as records
from hardwon.core import rules
from hardwon.errors import UserError
from hardwon.recall import admit, manifest
from hardwon.recall.deliver import open_index
from hardwon.store import lessons as shelves
from hardwon.words import DELIVERIES, STATUSES, TARGETS, Lesson


@click.group()
def lessons() -> None:
    """Write, edit, list, import and check lessons."""


def fields(command: Callable[..., None], *, new: bool = False) -> Callable[..., None]:
    """The flags that stand for a record's fields; in a new one, what is left out has a default."""
    note, priority, confidence = ("note (default)", ", 5 if left out", ", 0.9 if left out") if new else ("note", "", "")
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
            click.option("--delivery", type=click.Choice(DELIVERIES), help=f"{note}, hold, block or start"),
            click.option("--block-reason", help="what the agent is told; {command} is filled in"),
            click.option("--match-in", type=click.Choice(TARGETS), help="full: the text of quotes counts too"),
            click.option("--priority", type=int, help=f"1 to 10{priority}"),
            click.option("--confidence", type=float, help=f"0 to 1{confidence}"),
            click.option("--tag", "tags", multiple=True, help="category:value, such as tool:git"),
            click.option("--project", "here", is_flag=True, help="only for the project in this folder"),
        ]
    ):
        command = option(command)
    return command


@lessons.command()
@partial(fields, new=True)
@click.option("--json", "text", metavar="RECORD", help="the whole record as JSON; - reads it from stdin")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="the record in a file")
def add(text: str | None, path: str | None, **flags: Any) -> None:
    """Write a lesson. It is in force at once.

    Give flags, or a record with --json, --file or on stdin; at a terminal what is missing is asked for.
    """
    record = _given_record(text, path, flags)
    record.update(from_flags(flags))
    if at_terminal() and not (text or path):
        _ask_for_missing(record)
    mark = who.agent(os.environ)
    lesson = admit.add(paths.home(), record, approved=not mark)
    if mark:
        click.echo(f"proposed as a candidate, since {mark} says an agent runs this: {lesson.slug}")
        click.echo(f"a person puts it in force with: hardwon lessons restore {lesson.slug}")
    elif lesson.needs_review:
        click.echo(f"added, but not in force: confidence {lesson.confidence:g} needs review: {lesson.slug}")
    else:
        click.echo(f"added, and in force as a {lesson.delivery}: {lesson.slug}")


@lessons.command()
@click.argument("slug")
@fields
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def edit(slug: str, confirm: bool, **flags: Any) -> None:
    """Change the fields given; at a terminal, without any, open the record in $EDITOR."""
    lesson = find(slug)
    changes = from_flags(flags)
    require_person("editing a lesson")
    if changes:
        _may_become(lesson, admit.with_changes(records.write(lesson), changes), confirm)
        admit.edit(paths.home(), lesson.id, changes)
    else:
        record = json.dumps(records.write(lesson), indent=2, ensure_ascii=False)
        edited = click.edit(record, extension=".json") if at_terminal() else None
        if not edited or edited.strip() == record:
            raise UserError("nothing to change was given", f"hardwon lessons edit {lesson.slug} --priority 8")
        given = _given_record(edited, None, {})
        _may_become(lesson, given, confirm)
        admit.rewrite(paths.home(), lesson.id, given)
    click.echo(f"changed: {lesson.slug}")


def _may_become(lesson: Lesson, record: dict[str, Any], confirm: bool) -> None:
    from hardwon.recall import review
    from hardwon.store import db

    review.may_become(db.connect(paths.home()), lesson, record, confirm=lambda say: confirm)


@lessons.command()
@click.argument("slug")
def retire(slug: str) -> None:
    """Take a lesson out of force; it stays in the file."""
    lesson = find(slug)
    require_person("retiring a lesson")
    admit.set_status(paths.home(), lesson.id, "retired")
    click.echo(f"retired: {lesson.slug}; to undo: hardwon lessons restore {lesson.slug}")


@lessons.command()
@click.argument("slug")
def restore(slug: str) -> None:
    """Put a retired, proposed or unreviewed lesson in force."""
    lesson = find(slug)
    require_person("approving a lesson")
    if wrong := rules.faults(lesson):
        raise admit.refusal(wrong)
    admit.set_status(paths.home(), lesson.id, "active")
    click.echo(f"in force as a {lesson.delivery}: {lesson.slug}")


@lessons.command()
def build() -> None:
    """Compile the manifest now. Nobody needs to: it is built when a source changes."""
    built = manifest.build(paths.home(), clock.now())
    click.echo(f"{counted(built.count, 'lesson')} in force, {len(built.left_out)} left out")


@lessons.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def import_lessons(file: str, as_json: bool) -> None:
    """Take over lessons-learned's lessons.json or manifest; JavaScript patterns are translated."""
    from hardwon.core import adopt

    require_person("importing lessons")
    with open(file, encoding="utf-8-sig") as opened:
        try:
            found = adopt.records(json.load(opened))
        except ValueError as wrong:
            raise UserError(f"{file}: {wrong}", "give it a lessons.json or lesson-manifest.json") from None
    taken, refused = admit.take_over(paths.home(), found)
    if as_json:
        click.echo(json.dumps({"imported": [one.slug for one in taken], "refused": refused}, indent=2))
        return
    for name, reason in refused.items():
        click.echo(printable(f"not {name}: {reason}"))
    click.echo(f"{len(taken)} imported, {len(refused)} refused")


def _given_record(text: str | None, path: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    if path:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    elif text == "-" or (text is None and not any(flags.values()) and not sys.stdin.isatty()):
        text = sys.stdin.read()
    if not text:
        return {}
    try:
        record = json.loads(text)
    except ValueError as wrong:
        raise UserError(f"the record is not JSON: {wrong}", "hardwon lessons add --help") from None
    if not isinstance(record, dict):
        raise UserError("the record is not an object", 'write {"summary": …, "problem": …, "solution": …}')
    return record


def from_flags(flags: dict[str, Any]) -> dict[str, Any]:
    plain = {name: flags[name] for name in ("summary", "problem", "solution", "delivery", "priority", "confidence")}
    record = {name: value for name, value in plain.items() if value is not None}
    if flags["block_reason"]:
        record["blockReason"] = flags["block_reason"]
    lists = {
        "toolNames": flags["tools"],
        "commandPatterns": flags["commands"],
        "pathPatterns": flags["globs"],
        "contentPatterns": flags["contents"],
        "unless": flags["unless"],
        "tags": flags["tags"],
    }
    record.update({name: list(values) for name, values in lists.items() if values})
    if flags["match_in"]:
        record["commandMatchTarget"] = flags["match_in"]
    if flags["here"]:
        record["scope"] = {"type": "project", "path": projects.home_of(os.getcwd())}
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
        record["delivery"] = click.prompt("Delivery", type=click.Choice(DELIVERIES), default="note")


@lessons.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="only these")
@click.option("--tag", help="only those with this tag")
@click.option("--tool", help="only those about this tool")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_lessons(status: str | None, tag: str | None, tool: str | None, as_json: bool) -> None:
    """The lessons, highest priority first."""
    shelf = shelves.read(shelves.lessons_path(paths.home()))
    found = [one for one in shelf.lessons if _wanted(one, status, tag, tool)]
    found.sort(key=lambda one: (-one.priority, one.slug))
    if as_json:
        click.echo(json.dumps([records.write(one) for one in found], indent=2))
        return
    if not found:
        click.echo("no lessons" + (" like that" if shelf.lessons else " yet: hardwon lessons add"))
        return
    rows = [[str(one.priority), one.delivery, one.status, f"{one.summary}\n{one.slug}"] for one in found]
    table(["prio", "delivery", "status", "lesson"], rows)


def _wanted(lesson: Lesson, status: str | None, tag: str | None, tool: str | None) -> bool:
    return (
        (status is None or lesson.status == status)
        and (tag is None or tag in lesson.tags)
        and (tool is None or tool in manifest.gate(lesson))
    )


def find(name: str) -> Lesson:
    """A lesson by slug, id, or a beginning that only one slug has."""
    shelf = shelves.read(shelves.lessons_path(paths.home()))
    exact = [one for one in shelf.lessons if name in (one.slug, one.id)]
    found = exact or [one for one in shelf.lessons if one.slug.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{name!r} could be {', '.join(one.slug for one in found[:5])}", "write more of it")
    raise UserError(f"there is no lesson {name!r}", "hardwon lessons list")


@lessons.command()
@click.argument("slug")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(slug: str, as_json: bool) -> None:
    """One lesson, whole."""
    lesson = find(slug)
    if as_json:
        click.echo(json.dumps(records.write(lesson), indent=2))
        return
    written = records.write(lesson)
    for name, value in written.items():
        if value not in ("", [], None):
            spelled = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(printable(f"{name:<18}{spelled}"))


@lessons.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def check(as_json: bool) -> None:
    """Check lessons.json and config.json, and say what is wrong and where."""
    home = paths.home()
    broken: list[str] = []
    count, left_out = 0, []
    try:
        built = manifest.build(home, clock.now())
        count, left_out = built.count, list(built.left_out)
        broken.extend(built.faults)
        for lesson in shelves.read(shelves.lessons_path(home)).lessons:
            broken.extend(f"{lesson.slug}: {fault}" for fault in rules.faults(lesson) if lesson.status == "active")
        unknown = settings.unknown(settings.read_config(home))
        broken.extend(f"config.json: {name} is no setting" for name in unknown)
    except UserError as wrong:
        broken.append(f"{wrong.say}\n  fix: {wrong.fix}\n  the last good manifest stays in force")
        count = _in_force(home)
    if as_json:
        click.echo(json.dumps({"inForce": count, "leftOut": dict(left_out), "faults": broken}, indent=2))
    else:
        for fault in broken:
            click.echo(printable(fault))
        for slug, reason in left_out:
            click.echo(printable(f"left out {slug}: {reason}"))
        click.echo(f"{counted(len(broken), 'fault')}, " * bool(broken) + f"{counted(count, 'lesson')} in force")
    if broken:
        raise SystemExit(1)


def _in_force(home: str) -> int:
    try:
        return len(open_index(home))
    except (OSError, ValueError):
        return 0


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
