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

_STATE_NAMES = {"candidate": "proposed", "active": "approved"}


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
    matches = memories.list_memories(connection, *statuses, project=None if everywhere else here)
    unapproved_pages = pages.list_unapproved_pages(connection, home, here) if not status else []
    if as_json:
        files = [
            {"file": item.path, "type": item.type, "text": item.text, "approved": False} for item in unapproved_pages
        ]
        click.echo(json.dumps([*(_to_json(home, item) for item in matches), *files], indent=2))
        return
    if not matches and not unapproved_pages:
        click.echo("no memories" + (" like that" if status else " yet: hardwon memory add TYPE TEXT"))
        return
    rows = [
        [
            str(item.id),
            item.type,
            _describe_state(connection, home, item),
            to_printable_line(_read_text(home, item), 200),
        ]
        for item in matches
    ]
    for page in unapproved_pages:
        rows.append(
            ["-", page.type, "not approved here", f"{to_printable_line(page.text, 200)}\n{os.path.basename(page.path)}"]
        )
    echo_table(["no", "type", "state", "memory"], rows)
    if any(item.status == "candidate" for item in matches) or unapproved_pages:
        click.echo("a person decides: hardwon memory approve NO|FILE, hardwon memory reject NO")


def _describe_state(connection: db.Connection, home: str, record: Memory) -> str:
    if record.status == "active" and not (page := pages.read_page(home, record)):
        return "its file is gone"
    if record.status == "active" and page and page.is_edited:
        return "edited since approved, not told"
    if record.status == "active" and page and not pages.is_approved(connection, record, page):
        return "not approved, not told"
    return _STATE_NAMES.get(record.status, record.status)


def _read_text(home: str, record: Memory) -> str:
    page = pages.read_page(home, record)
    return page.text if page else record.text


def _to_json(home: str, record: Memory) -> dict[str, Any]:
    page = pages.read_page(home, record)
    fields = {**record.__dict__, "evidence": list(record.evidence), "file": page.path if page else record.file}
    times = {
        "at": clock.format_iso(record.at),
        "decided_at": clock.format_iso(record.decided_at) if record.decided_at else None,
    }
    return {**fields, **times, "text": page.text if page else record.text, "edited": bool(page and page.is_edited)}


@memory.command()
@click.argument("name", metavar="NO")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(name: str, as_json: bool) -> None:
    """One memory, whole, with where it came from and where its file is."""
    home = paths.get_home()
    connection = db.connect(home)
    record = pages.find_memory(connection, name)
    fields = _to_json(home, record)
    earlier_wordings = _list_earlier_wordings(connection, record, fields["text"])
    if as_json:
        click.echo(json.dumps({**fields, "earlier": earlier_wordings}, indent=2))
        return
    echo_indented(f"{record.id}  ", fields["text"], bold=True)
    for label, text in (
        ("type", record.type),
        ("state", _describe_state(connection, home, record)),
        ("project", record.project or "every one"),
        ("from", ", ".join((record.source, *record.evidence))),
        ("session", record.session),
        ("file", fields["file"]),
    ):
        if text:
            echo_field(label, text)
    for wording in earlier_wordings:
        echo_field("earlier", f"{wording['text']} (approved {wording['approved_at']})")


def _list_earlier_wordings(connection: db.Connection, record: Memory, text: str) -> list[dict[str, str]]:
    """Return the wordings that were approved before the present one, oldest first."""
    wordings: dict[str, str] = {}
    for approval in approvals.list_of_subject(connection, approvals.MEMORY, str(record.id)):
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
    connection, agent_variable = db.connect(home), actor.find_agent_variable(os.environ)
    project = projects.find_project_path(os.getcwd())
    source = "agent" if agent_variable else "person"
    record = pages.propose(connection, home, type_, " ".join(text), project=project, source=source, now=now)
    if agent_variable:
        click.echo(f"proposed as memory {record.id}, since {agent_variable} says an agent runs this")
        click.echo(f"a person approves it with: hardwon memory approve {record.id}")
    else:
        _approve_memory(connection, home, record, now)


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
    record = pages.find_memory(connection, name)
    typed_text = " ".join(text)
    if not typed_text and not is_interactive():
        raise UserError("this is not a terminal, so no editor can be opened", f"hardwon memory edit {record.id} TEXT")
    new_text = typed_text or click.edit(_read_text(home, record)) or _read_text(home, record)
    reworded = actions.reword_memory(connection, home, record, new_text, COMMAND_LINE, now)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    click.echo(make_printable(f"edited: memory {reworded.id}, {_STATE_NAMES.get(reworded.status, reworded.status)}"))


@memory.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def check(as_json: bool) -> None:
    """Look through the memories that count here, and say what is wrong with them."""
    home = paths.get_home()
    faults = pages.find_memory_faults(db.connect(home), home, projects.find_project_path(os.getcwd()))
    if as_json:
        click.echo(json.dumps([{"memory": name, "wrong": fault, "fix": fix} for name, fault, fix in faults], indent=2))
    elif not faults:
        click.echo("every memory is as it should be")
    else:
        for name, fault, fix in faults:
            echo_indented(f"{name}  ", f"{fault}\nfix: {fix}")
    if faults:
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
            unapproved_pages = pages.list_unapproved_pages(connection, home, projects.find_project_path(os.getcwd()))
            page = next(
                (page for page in unapproved_pages if os.path.basename(page.path) == os.path.basename(name)), None
            )
            if page is None:
                raise UserError(f"there is no {name!r} here that waits for it", "hardwon memory list")
            record = actions.adopt_memory_file(connection, home, page, COMMAND_LINE, now)
            brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
            click.echo(make_printable(f"approved as memory {record.id}: {page.path}"))
        else:
            _approve_memory(connection, home, pages.find_memory(connection, name), now)


def _approve_memory(connection: db.Connection, home: str, record: Memory, now: float) -> None:
    approved, path = actions.approve_memory(connection, home, record, COMMAND_LINE, now)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    click.echo(make_printable(f"approved as memory {approved.id}: {path}"))
    for name, fault, fix in pages.find_memory_faults(connection, home, approved.project):
        if name == f"M:{approved.id}":
            click.echo(make_printable(f"  but {fault}: {fix}"))


@memory.command()
@click.argument("names", nargs=-1, required=True, metavar="NO…")
def reject(names: tuple[str, ...]) -> None:
    """Say no to proposals; the same words are not proposed again."""
    require_person("rejecting a memory")
    _reject_or_retire(names, "candidate")


@memory.command()
@click.argument("names", nargs=-1, required=True, metavar="NO…")
def retire(names: tuple[str, ...]) -> None:
    """Let memories no longer count; their files stay."""
    require_person("retiring a memory")
    _reject_or_retire(names, "active")


def _reject_or_retire(names: tuple[str, ...], status: str) -> None:
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    for name in names:
        record = pages.find_memory(connection, name)
        if record.status != status:
            raise UserError(f"memory {record.id} is {record.status}, not {status}", f"hardwon memory show {record.id}")
        updated = actions.reject_or_retire_memory(connection, home, record, now)
        file_note = f"; its file stays: {memory_files.get_memory_path(home, record)}" if record.file else ""
        click.echo(make_printable(f"{updated.status}: memory {record.id}{file_note}"))
    compiled_brief.delete_all(home)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
