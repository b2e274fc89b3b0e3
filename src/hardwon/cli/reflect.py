"""reflect"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import click

from hardwon import clock, paths, projects
from hardwon.actions import approvals
from hardwon.agents import transcript_files
from hardwon.cli.output import echo_table, make_printable, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.handoff import ratification, reflection
from hardwon.handoff.draft import next_step
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.store import db, reflections, sessions
from hardwon.worker.reflection_job import reflect_on_due_sessions
from hardwon.worker.reflection_job import reflect_on_session as reflect_on


@click.command()
@click.argument("what", required=False, default="", metavar="[SESSION|TRANSCRIPT]")
@click.option("--idle", is_flag=True, help="every session that was left and not handed off")
@click.option("--menu", "show_menu", is_flag=True, help="what is looked for, and what people keep of it")
@click.option("--undo", type=int, metavar="ID", help="put back every file that a reflection wrote")
@click.option("--plain", is_flag=True, help="without a model, even if one is set")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def reflect(what: str, idle: bool, show_menu: bool, undo: int | None, plain: bool, as_json: bool) -> None:
    """Draft the handoff of a session: what it came to, what is open.

    Without a SESSION it is the latest in this folder. The draft lies in
    ~/.hardwon/drafts and waits for you: hardwon handoff list.
    """
    home = paths.get_home()
    connection = db.connect(home)
    if show_menu:
        _print_menu(connection, as_json)
    elif undo is not None:
        require_person("undoing a reflection")
        _undo_reflection(connection, home, undo)
    elif idle:
        _reflect_on_idle(connection, home, plain, as_json)
    else:
        result = reflect_on(connection, home, *_find_transcript(connection, what), plain=plain)
        brief.refresh_brief(connection, home, result.record.project)
        click.echo(json.dumps(reflection.to_json(result), indent=2)) if as_json else _print_result(result)


def _undo_reflection(connection: db.Connection, home: str, number: int) -> None:
    """Put the files back. A commit is history, which is not ours to change: say how the person takes it back."""
    existing_record = reflections.get(connection, number)
    committed = ratification.list_committed_files(existing_record) if existing_record else []
    undone_record = reflection.undo(connection, home, number, clock.now())
    ratification.retire_undone_memories(connection, home, undone_record, clock.now())
    approvals.withdraw_undone_reflection(connection, undone_record.id, clock.now())
    compiled_brief.delete_all(home)
    brief.refresh_brief(connection, home, undone_record.project)
    click.echo(
        make_printable(
            f"reflection {undone_record.id} is undone: {', '.join(file.path for file in undone_record.files)}"
        )
    )
    if committed:
        root = projects.find_git_root(os.path.dirname(committed[0]))
        relative_paths = [os.path.relpath(path, root) for path in committed]
        command = shlex.join(
            ["git", "-C", root, "commit", "-m", f"Take back handoff {undone_record.id}", "--", *relative_paths]
        )
        click.echo(make_printable(f"the commit stays; this takes the files out of the next:\n  {command}"))


def _find_transcript(connection: db.Connection, name: str) -> tuple[str, str]:
    """The path of a transcript and its host, where we know it."""
    if name and transcript_files.exists(os.path.realpath(name)):
        return name, ""
    if name:
        matches = sessions.find_by_name(connection, name)
        if len(matches) > 1:
            raise UserError(f"{name!r} is the beginning of {len(matches)} sessions", "give more of the id")
    else:
        matches = sessions.list_sessions(connection, limit=1, project=projects.find_project_path(os.getcwd()))
    if not matches:
        message = f"there is no session or file {name!r}" if name else "no session of this folder is recorded"
        raise UserError(message, "hardwon sessions list   (or give the path of a transcript)")
    host, session = matches[0]["host"], matches[0]["session"]
    path = matches[0]["transcript"] or transcript_files.find_session_path(host, session)
    if not path:
        raise UserError(f"session {session} has no transcript that we know of", "give the path of it")
    return path, host


def _reflect_on_idle(connection: db.Connection, home: str, plain: bool, as_json: bool) -> None:
    results = list[reflection.ReflectionResult]()
    for result in reflect_on_due_sessions(connection, home, plain=plain):
        if isinstance(result, reflection.ReflectionResult):
            results.append(result)
            brief.refresh_brief(connection, home, result.record.project)
        else:
            click.echo(make_printable(str(result)), err=True)
    if as_json:
        click.echo(json.dumps([reflection.to_json(result) for result in results], indent=2))
        return
    for result in results:
        _print_result(result)
    if not results:
        click.echo("no session waits to be reflected on")


def _print_result(result: reflection.ReflectionResult) -> None:
    draft = result.draft
    click.echo(make_printable(f"{draft.topic}\n  draft: {result.record.draft}   (reflection {result.record.id})"))
    for finding in draft.findings:
        click.echo(f"  {to_printable_line(finding.item)} -> {finding.target}: {to_printable_line(finding.text)}")
    for memory in draft.memories:
        click.echo(f"  memory to approve ({memory.type}): {to_printable_line(memory.text)}")
    click.echo(f"  next: {to_printable_line(next_step(draft) or 'nothing is known to be open')}")
    if result.fallback_reason:
        click.echo(make_printable(f"  {result.fallback_reason}"), err=True)


def _print_menu(connection: db.Connection, as_json: bool) -> None:
    rows = reflection.list_menu_items(connection)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    echo_table(["item", "kept", "dropped", "weight", "what"], [_format_row(row) for row in rows])


def _format_row(row: dict[str, Any]) -> list[str]:
    return [row["item"], str(row["kept"]), str(row["dropped"]), f"{row['weight']:.2f}", row["help"]]
