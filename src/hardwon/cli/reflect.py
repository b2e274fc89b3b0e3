"""reflect"""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from hardwon import clock, paths, projects
from hardwon.actions.handoffs import undo_reflection
from hardwon.cli.context import json_option, open_store, require_person
from hardwon.cli.output import echo_json, echo_table, echo_text
from hardwon.handoff import reflection
from hardwon.handoff.draft import next_step
from hardwon.handoff.reflection import ReflectionResult
from hardwon.lessons import compiled_brief
from hardwon.search.brief import refresh_brief
from hardwon.sessions.lookup import find_transcript
from hardwon.store.db import Connection
from hardwon.text.characters import to_printable_line
from hardwon.worker.reflection_job import reflect_on_due_sessions, reflect_on_session


@click.command()
@click.argument("name", required=False, default="", metavar="[SESSION|TRANSCRIPT]")
@click.option("--idle", is_flag=True, help="every idle session that was not handed off")
@click.option("--menu", "show_menu", is_flag=True, help="what is looked for, and how often people keep it")
@click.option("--undo", type=int, metavar="ID", help="restore every file that a reflection wrote")
@click.option("--plain", is_flag=True, help="without a model, even if one is set")
@json_option
def reflect(name: str, idle: bool, show_menu: bool, undo: int | None, plain: bool, as_json: bool) -> None:
    """Draft the handoff of a session: what it came to, what is open.

    Without a SESSION it is the latest in this folder. The draft is in
    ~/.hardwon/drafts and waits for you: hardwon handoff list.
    """
    home = paths.get_home()
    with open_store() as connection:
        if show_menu:
            _print_menu(reflection.list_menu_items(connection), as_json)
        elif undo is not None:
            require_person("undoing a reflection")
            _undo_reflection(connection, home, undo)
        elif idle:
            _reflect_on_idle(connection, home, plain, as_json)
        else:
            path, host = find_transcript(connection, name)
            result = reflect_on_session(connection, home, path, host, plain=plain)
            refresh_brief(connection, home, result.record.project)
            if as_json:
                echo_json(reflection.to_json(result))
            else:
                _print_result(result)


def _undo_reflection(connection: Connection, home: str, number: int) -> None:
    record, committed = undo_reflection(connection, home, number, clock.now())
    compiled_brief.delete_all(home)
    refresh_brief(connection, home, record.project)
    echo_text(f"reflection {record.id} is undone: {', '.join(file.path for file in record.files)}")
    if committed:
        root = projects.find_git_root(os.path.dirname(committed[0]))
        relative_paths = [os.path.relpath(path, root) for path in committed]
        message = f"Take back handoff {record.id}"
        command = shlex.join(["git", "-C", root, "commit", "-m", message, "--", *relative_paths])
        echo_text(f"the commit stays; this takes the files out of the next:\n  {command}")


def _reflect_on_idle(connection: Connection, home: str, plain: bool, as_json: bool) -> None:
    results: list[ReflectionResult] = []
    for result in reflect_on_due_sessions(connection, home, plain=plain):
        if isinstance(result, ReflectionResult):
            results.append(result)
            refresh_brief(connection, home, result.record.project)
        else:
            echo_text(str(result), err=True)
    if as_json:
        echo_json([reflection.to_json(result) for result in results])
        return
    for result in results:
        _print_result(result)
    if not results:
        click.echo("no idle session without a handoff")


def _print_result(result: ReflectionResult) -> None:
    draft = result.draft
    echo_text(f"{draft.topic}\n  draft: {result.record.draft}   (reflection {result.record.id})")
    for finding in draft.findings:
        click.echo(f"  {to_printable_line(finding.item)} -> {finding.target}: {to_printable_line(finding.text)}")
    for memory in draft.memories:
        click.echo(f"  memory to approve ({memory.type}): {to_printable_line(memory.text)}")
    step = next_step(draft)
    if not step:
        step = draft.open_ends[0].text if draft.open_ends else "nothing says what comes next"
    click.echo(f"  next: {to_printable_line(step)}")
    if result.fallback_reason:
        echo_text(f"  {result.fallback_reason}", err=True)


def _print_menu(items: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        echo_json(items)
        return
    rows = []
    for item in items:
        rows.append([item["item"], str(item["kept"]), str(item["dropped"]), f"{item['weight']:.2f}", item["help"]])
    echo_table(["item", "kept", "dropped", "weight", "what"], rows)
