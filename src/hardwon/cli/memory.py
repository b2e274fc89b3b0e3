"""memory list, show, add, edit, approve, reject, retire, check"""

from __future__ import annotations

import json
import os
from typing import Any

import click

from hardwon import actor, clock, paths, projects
from hardwon.actions import memories as actions
from hardwon.cli.output import echo_field, echo_indented, echo_table, is_interactive, make_printable, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.handoff import memories as pages
from hardwon.handoff import memory_files
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.store import approvals, db, memories
from hardwon.store.approvals import COMMAND_LINE
from hardwon.types import MEMORY_TYPES, STATUSES, Memory

_STATES = {"candidate": "proposed", "active": "approved"}


@click.group()
def memory() -> None:
    """What agents should know here: propose, edit, approve, retire, check."""


@memory.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="only these")
@click.option("--all", "everywhere", is_flag=True, help="every project's")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_memories(status: str | None, everywhere: bool, as_json: bool) -> None:
    """The memories of this project, and those that count everywhere."""
    home, here = paths.get_home(), projects.find_project_path(os.getcwd())
    connection = db.connect(home)
    statuses = (status,) if status else ("candidate", "active")
    found = memories.list_memories(connection, *statuses, project=None if everywhere else here)
    others = pages.list_unapproved_pages(connection, home, here) if not status else []
    if as_json:
        files = [{"file": one.path, "type": one.type, "text": one.text, "approved": False} for one in others]
        click.echo(json.dumps([*(_plain(home, one) for one in found), *files], indent=2))
        return
    if not found and not others:
        click.echo("no memories" + (" like that" if status else " yet: hardwon memory add TYPE TEXT"))
        return
    rows = [
        [str(one.id), one.type, _state(connection, home, one), to_printable_line(_words(home, one), 200)]
        for one in found
    ]
    for page in others:
        rows.append(
            ["-", page.type, "not approved here", f"{to_printable_line(page.text, 200)}\n{os.path.basename(page.path)}"]
        )
    echo_table(["no", "type", "state", "memory"], rows)
    if any(one.status == "candidate" for one in found) or others:
        click.echo("a person decides: hardwon memory approve NO|FILE, hardwon memory reject NO")


def _state(connection: db.Connection, home: str, one: Memory) -> str:
    if one.status == "active" and not (page := pages.read_page(home, one)):
        return "its file is gone"
    if one.status == "active" and page and page.is_edited:
        return "edited since approved, not told"
    if one.status == "active" and page and not pages.is_approved(connection, one, page):
        return "not approved, not told"
    return _STATES.get(one.status, one.status)


def _words(home: str, one: Memory) -> str:
    page = pages.read_page(home, one)
    return page.text if page else one.text


def _plain(home: str, one: Memory) -> dict[str, Any]:
    page = pages.read_page(home, one)
    said = {**one.__dict__, "evidence": list(one.evidence), "file": page.path if page else one.file}
    times = {"at": clock.format_iso(one.at), "decided_at": clock.format_iso(one.decided_at) if one.decided_at else None}
    return {**said, **times, "text": page.text if page else one.text, "edited": bool(page and page.is_edited)}


@memory.command()
@click.argument("name", metavar="NO")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(name: str, as_json: bool) -> None:
    """One memory, whole, with where it came from and where its file is."""
    home = paths.get_home()
    connection = db.connect(home)
    one = pages.find_memory(connection, name)
    said = _plain(home, one)
    earlier = _list_earlier(connection, one, said["text"])
    if as_json:
        click.echo(json.dumps({**said, "earlier": earlier}, indent=2))
        return
    echo_indented(f"{one.id}  ", said["text"], bold=True)
    for label, text in (
        ("type", one.type),
        ("state", _state(connection, home, one)),
        ("project", one.project or "every one"),
        ("from", ", ".join((one.source, *one.evidence))),
        ("session", one.session),
        ("file", said["file"]),
    ):
        if text:
            echo_field(label, text)
    for wording in earlier:
        echo_field("earlier", f"{wording['text']} (approved {wording['approved_at']})")


def _list_earlier(connection: db.Connection, one: Memory, text: str) -> list[dict[str, str]]:
    """Return the wordings that were approved before the present one, oldest first."""
    wordings: dict[str, str] = {}
    for approval in approvals.list_of_subject(connection, approvals.MEMORY, str(one.id)):
        if approval.body and approval.body.strip() != text.strip():
            wordings.setdefault(approval.body, clock.format_iso(approval.approved_at))
    return [{"text": body, "approved_at": approved_at} for body, approved_at in wordings.items()]


@memory.command()
@click.argument("type_", metavar="TYPE", type=click.Choice(MEMORY_TYPES))
@click.argument("text", nargs=-1, required=True, metavar="TEXT…")
def add(type_: str, text: tuple[str, ...]) -> None:
    """Write down something to know. TYPE: user, feedback, project or reference.

    A person's is approved at once and becomes a file; an agent's waits for a person.
    """
    home, now = paths.get_home(), clock.now()
    connection, mark = db.connect(home), actor.find_agent_variable(os.environ)
    project = projects.find_project_path(os.getcwd())
    source = "agent" if mark else "person"
    one = pages.propose(connection, home, type_, " ".join(text), project=project, source=source, now=now)
    if mark:
        click.echo(f"proposed as memory {one.id}, since {mark} says an agent runs this")
        click.echo(f"a person approves it with: hardwon memory approve {one.id}")
    else:
        _approved(connection, home, one, now)


@memory.command()
@click.argument("name", metavar="NO")
@click.argument("text", nargs=-1, metavar="[TEXT…]")
def edit(name: str, text: tuple[str, ...]) -> None:
    """Say a memory in other words; without TEXT in your editor.

    One that is approved stays so, with its new words; one that is proposed still waits.
    """
    require_person("editing a memory")
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    one = pages.find_memory(connection, name)
    words = " ".join(text)
    if not words and not is_interactive():
        raise UserError("this is not a terminal, so no editor can be opened", f"hardwon memory edit {one.id} TEXT")
    text_after = words or click.edit(_words(home, one)) or _words(home, one)
    after = actions.reword_memory(connection, home, one, text_after, COMMAND_LINE, now)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    click.echo(make_printable(f"edited: memory {after.id}, {_STATES.get(after.status, after.status)}"))


@memory.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def check(as_json: bool) -> None:
    """Look through the memories that count here, and say what is wrong with them."""
    home = paths.get_home()
    found = pages.find_memory_faults(db.connect(home), home, projects.find_project_path(os.getcwd()))
    if as_json:
        click.echo(json.dumps([{"memory": name, "wrong": wrong, "fix": fix} for name, wrong, fix in found], indent=2))
    elif not found:
        click.echo("every memory is as it should be")
    else:
        for name, wrong, fix in found:
            echo_indented(f"{name}  ", f"{wrong}\nfix: {fix}")
    if found:
        raise SystemExit(1)


@memory.command()
@click.argument("names", nargs=-1, required=True, metavar="NO|FILE…")
def approve(names: tuple[str, ...]) -> None:
    """Let memories count: proposals by number, files of this repository by name."""
    require_person("approving a memory")
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    for name in names:
        if name.endswith(memory_files.MEMORY_SUFFIX):
            found = pages.list_unapproved_pages(connection, home, projects.find_project_path(os.getcwd()))
            page = next((page for page in found if os.path.basename(page.path) == os.path.basename(name)), None)
            if page is None:
                raise UserError(f"there is no {name!r} here that waits for it", "hardwon memory list")
            one = actions.adopt_memory_file(connection, home, page, COMMAND_LINE, now)
            brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
            click.echo(make_printable(f"approved as memory {one.id}: {page.path}"))
        else:
            _approved(connection, home, pages.find_memory(connection, name), now)


def _approved(connection: db.Connection, home: str, one: Memory, now: float) -> None:
    after, path = actions.approve_memory(connection, home, one, COMMAND_LINE, now)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    click.echo(make_printable(f"approved as memory {after.id}: {path}"))
    for name, said, fix in pages.find_memory_faults(connection, home, after.project):
        if name == f"M:{after.id}":
            click.echo(make_printable(f"  but {said}: {fix}"))


@memory.command()
@click.argument("names", nargs=-1, required=True, metavar="NO…")
def reject(names: tuple[str, ...]) -> None:
    """Say no to proposals; the same words are not proposed again."""
    require_person("rejecting a memory")
    _set_aside(names, "candidate")


@memory.command()
@click.argument("names", nargs=-1, required=True, metavar="NO…")
def retire(names: tuple[str, ...]) -> None:
    """Let memories no longer count; their files stay."""
    require_person("retiring a memory")
    _set_aside(names, "active")


def _set_aside(names: tuple[str, ...], status: str) -> None:
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    for name in names:
        one = pages.find_memory(connection, name)
        if one.status != status:
            raise UserError(f"memory {one.id} is {one.status}, not {status}", f"hardwon memory show {one.id}")
        after = actions.reject_or_retire_memory(connection, home, one, now)
        where = f"; its file stays: {memory_files.get_memory_path(home, one)}" if one.file else ""
        click.echo(make_printable(f"{after.status}: memory {one.id}{where}"))
    compiled_brief.delete_all(home)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
