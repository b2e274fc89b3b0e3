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
        _menu(connection, as_json)
    elif undo is not None:
        require_person("undoing a reflection")
        _undo(connection, home, undo)
    elif idle:
        _idle(connection, home, plain, as_json)
    else:
        done = reflect_on(connection, home, *_transcript(connection, what), plain=plain)
        brief.refresh_brief(connection, home, done.record.project)
        click.echo(json.dumps(reflection.to_json(done), indent=2)) if as_json else _show(done)


def _undo(connection: db.Connection, home: str, number: int) -> None:
    """Put the files back. A commit is history, which is not ours to change: say how the person takes it back."""
    known = reflections.get(connection, number)
    committed = ratification.list_committed_files(known) if known else []
    one = reflection.undo(connection, home, number, clock.now())
    ratification.retire_undone_memories(connection, home, one, clock.now())
    approvals.withdraw_undone_reflection(connection, one.id, clock.now())
    compiled_brief.delete_all(home)
    brief.refresh_brief(connection, home, one.project)
    click.echo(make_printable(f"reflection {one.id} is undone: {', '.join(file.path for file in one.files)}"))
    if committed:
        top = projects.find_git_root(os.path.dirname(committed[0]))
        names = [os.path.relpath(path, top) for path in committed]
        command = shlex.join(["git", "-C", top, "commit", "-m", f"Take back handoff {one.id}", "--", *names])
        click.echo(make_printable(f"the commit stays; this takes the files out of the next:\n  {command}"))


def _transcript(connection: db.Connection, what: str) -> tuple[str, str]:
    """The path of a transcript and its host, where we know it."""
    if what and transcript_files.exists(os.path.realpath(what)):
        return what, ""
    if what:
        found = sessions.find_by_name(connection, what)
        if len(found) > 1:
            raise UserError(f"{what!r} is the beginning of {len(found)} sessions", "give more of the id")
    else:
        found = sessions.list_sessions(connection, limit=1, project=projects.find_project_path(os.getcwd()))
    if not found:
        say = f"there is no session or file {what!r}" if what else "no session of this folder is recorded"
        raise UserError(say, "hardwon sessions list   (or give the path of a transcript)")
    host, session = found[0]["host"], found[0]["session"]
    path = found[0]["transcript"] or transcript_files.find_session_path(host, session)
    if not path:
        raise UserError(f"session {session} has no transcript that we know of", "give the path of it")
    return path, host


def _idle(connection: db.Connection, home: str, plain: bool, as_json: bool) -> None:
    made = list[reflection.ReflectionResult]()
    for done in reflect_on_due_sessions(connection, home, plain=plain):
        if isinstance(done, reflection.ReflectionResult):
            made.append(done)
            brief.refresh_brief(connection, home, done.record.project)
        else:
            click.echo(make_printable(str(done)), err=True)
    if as_json:
        click.echo(json.dumps([reflection.to_json(done) for done in made], indent=2))
        return
    for done in made:
        _show(done)
    if not made:
        click.echo("no session waits to be reflected on")


def _show(done: reflection.ReflectionResult) -> None:
    made = done.draft
    click.echo(make_printable(f"{made.topic}\n  draft: {done.record.draft}   (reflection {done.record.id})"))
    for one in made.findings:
        click.echo(f"  {to_printable_line(one.item)} -> {one.target}: {to_printable_line(one.text)}")
    for memory in made.memories:
        click.echo(f"  memory to approve ({memory.type}): {to_printable_line(memory.text)}")
    click.echo(f"  next: {to_printable_line(next_step(made) or 'nothing is known to be open')}")
    if done.fallback_reason:
        click.echo(make_printable(f"  {done.fallback_reason}"), err=True)


def _menu(connection: db.Connection, as_json: bool) -> None:
    rows = reflection.list_menu_items(connection)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    echo_table(["item", "kept", "dropped", "weight", "what"], [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> list[str]:
    return [row["item"], str(row["kept"]), str(row["dropped"]), f"{row['weight']:.2f}", row["help"]]
