"""memory list, show, add, edit, approve, reject, retire, check"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from hardwon import clock, paths
from hardwon.cli import CommandGroup
from hardwon.cli.completions import complete_memories
from hardwon.cli.context import (
    find_agent,
    find_project_here,
    is_interactive,
    json_option,
    open_decider,
    open_store,
    require_person,
)
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_table, echo_text
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.memories import memories
from hardwon.memories.memory_files import MEMORY_SUFFIX, get_memory_path
from hardwon.store import approvals
from hardwon.store.memories import list_memories
from hardwon.text.characters import to_printable_line
from hardwon.types import MEMORY_TYPES, STATUSES, Memory

if TYPE_CHECKING:
    from hardwon.actions.approvals import Decider

_MAX_LINE_CHARS = 200

name_argument = click.argument("name", metavar="NO", shell_complete=complete_memories)
names_argument = click.argument("names", nargs=-1, required=True, metavar="NO…", shell_complete=complete_memories)


@click.group(cls=CommandGroup)
def memory() -> None:
    """Propose, edit, approve, retire and check what agents should know here."""


@memory.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="only these")
@click.option("--all", "everywhere", is_flag=True, help="every project's")
@json_option
def print_memories(status: str | None, everywhere: bool, as_json: bool) -> None:
    """List this project's memories, and those that count everywhere."""
    home = paths.get_home()
    project = find_project_here()
    statuses = (status,) if status else ("candidate", "active")
    with open_store() as connection:
        matches = list_memories(connection, *statuses, project=None if everywhere else project)
        unapproved_pages = memories.list_unapproved_pages(connection, home, project) if not status else []
        states = [memories.describe_state(connection, home, record) for record in matches]
    if as_json:
        entries = [memories.to_json(home, record) for record in matches]
        for page in unapproved_pages:
            entries.append({"file": page.path, "type": page.type, "text": page.text, "approved": False})
        echo_json(entries)
        return
    rows = []
    for record, state in zip(matches, states, strict=True):
        text = to_printable_line(memories.read_text(home, record), _MAX_LINE_CHARS)
        rows.append([f"M{record.id}", record.type, state, text])
    for page in unapproved_pages:
        text = f"{to_printable_line(page.text, _MAX_LINE_CHARS)}\n{os.path.basename(page.path)}"
        rows.append(["-", page.type, "not approved here", text])
    if not rows and status:
        click.echo("no memories like that")
        return
    if not rows:
        click.echo("no memories yet: hardwon memory add TYPE TEXT")
        return
    echo_table(["no", "type", "state", "memory"], rows)
    proposed = [f"M{record.id}" for record in matches if record.status == "candidate"]
    if proposed:
        click.echo(f"Decide with hardwon accept {proposed[0]}, or hardwon reject {proposed[0]}")
    elif unapproved_pages:
        click.echo(f"Decide with hardwon memory approve {os.path.basename(unapproved_pages[0].path)}")


@memory.command()
@name_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one memory in full, with its source, file and earlier wordings."""
    home = paths.get_home()
    with open_store() as connection:
        record = memories.find_memory(connection, name)
        state = memories.describe_state(connection, home, record)
        subject_approvals = approvals.list_of_subject(connection, approvals.MEMORY, str(record.id))
    fields = memories.to_json(home, record)
    earlier_wordings: dict[str, str] = {}
    for approval in subject_approvals:
        if approval.body and approval.body.strip() != fields["text"].strip():
            earlier_wordings.setdefault(approval.body, clock.format_iso(approval.approved_at))
    if as_json:
        earlier = [{"text": text, "approved_at": approved_at} for text, approved_at in earlier_wordings.items()]
        echo_json({**fields, "earlier": earlier})
        return
    echo_indented(f"M{record.id}  ", fields["text"], bold=True)
    for label, text in (
        ("type", record.type),
        ("state", state),
        ("project", record.project or "every one"),
        ("from", ", ".join((record.source, *record.evidence))),
        ("session", record.session),
        ("file", fields["file"]),
    ):
        if text:
            echo_field(label, text)
    for text, approved_at in earlier_wordings.items():
        echo_field("earlier", f"{text} (approved {approved_at})")


@memory.command()
@click.argument("type_", metavar="TYPE", type=click.Choice(MEMORY_TYPES))
@click.argument("text", nargs=-1, required=True, metavar="TEXT…")
def add(type_: str, text: tuple[str, ...]) -> None:
    """Write a memory. TYPE: user, feedback, project or reference.

    A person's is approved at once and becomes a file; an agent's waits for a person.
    """
    agent_variable = find_agent()
    source = "agent" if agent_variable else "person"
    with open_decider(refreshes_brief=True) as decider:
        record = memories.propose(
            decider.connection,
            decider.home,
            type_,
            " ".join(text),
            project=find_project_here(),
            source=source,
            now=decider.now,
        )
        if not agent_variable:
            _approve_memory(decider, record)
            return
    click.echo(f"proposed as memory M{record.id}, since {agent_variable} says an agent runs this")
    click.echo(f"a person approves it with: hardwon accept M{record.id}")


@memory.command()
@name_argument
@click.argument("text", nargs=-1, metavar="[TEXT…]")
def edit(name: str, text: tuple[str, ...]) -> None:
    """Reword a memory; without TEXT in your editor.

    An approved memory stays approved with its new words; a proposed one still waits.
    """
    from hardwon.actions.memories import reword_memory

    require_person("editing a memory")
    with open_decider(refreshes_brief=True) as decider:
        record = memories.find_memory(decider.connection, name)
        new_text = " ".join(text)
        if not new_text:
            if not is_interactive():
                raise UserError("an editor needs a terminal", f"hardwon memory edit M{record.id} TEXT")
            old_text = memories.read_text(decider.home, record)
            new_text = click.edit(old_text) or old_text
        reworded = reword_memory(decider, record, new_text)
    click.echo(f"edited: memory M{reworded.id}, {memories.STATE_NAMES.get(reworded.status, reworded.status)}")


@memory.command()
@json_option
def check(as_json: bool) -> None:
    """Check the memories that count here, and report what is wrong with them."""
    with open_store() as connection:
        project = find_project_here()
        faults = memories.find_memory_faults(connection, paths.get_home(), project)
    if as_json:
        echo_json([{"memory": name, "wrong": fault, "fix": fix} for name, fault, fix in faults])
    elif not faults:
        click.echo("no faults found")
    else:
        for name, fault, fix in faults:
            echo_indented(f"{name}  ", f"{fault}\nfix: {fix}")
    if faults:
        raise SystemExit(1)


@memory.command(hidden=True)
@click.argument("names", nargs=-1, required=True, metavar="NO|FILE…", shell_complete=complete_memories)
def approve(names: tuple[str, ...]) -> None:
    """Approve memories: proposals by number, files of this repository by name."""
    from hardwon.actions.memories import adopt_memory_file

    require_person("approving a memory")
    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            if not name.endswith(MEMORY_SUFFIX):
                _approve_memory(decider, memories.find_memory(decider.connection, name))
                continue
            unapproved = memories.list_unapproved_pages(decider.connection, decider.home, find_project_here())
            pages = {os.path.basename(page.path): page for page in unapproved}
            page = pages.get(os.path.basename(name))
            if page is None:
                raise UserError(f"no unapproved memory file {name!r} here", "hardwon memory list")
            record = adopt_memory_file(decider, page)
            echo_text(f"approved as memory M{record.id}: {page.path}")


def _approve_memory(decider: Decider, record: Memory) -> None:
    """Approve a memory, and say where its file is and what is doubtful about it."""
    from hardwon.actions.memories import approve_memory

    approved, path = approve_memory(decider, record)
    approved_name = f"M{approved.id}"
    echo_text(f"approved as memory {approved_name}: {path}")
    # The memory is in force all the same: whether it may repeat or contradict another is for the person to decide.
    for name, fault, fix in memories.find_memory_faults(decider.connection, decider.home, approved.project):
        if name == approved_name:
            echo_text(f"  but {fault}: {fix}")


@memory.command(hidden=True)
@names_argument
def reject(names: tuple[str, ...]) -> None:
    """Reject proposals; the same words are not proposed again."""
    require_person("rejecting a memory")
    _reject_or_retire(names, "candidate")


@memory.command()
@names_argument
def retire(names: tuple[str, ...]) -> None:
    """Retire memories, which no longer count; their files stay."""
    require_person("retiring a memory")
    _reject_or_retire(names, "active")


def _reject_or_retire(names: tuple[str, ...], status: str) -> None:
    """Reject proposed memories, or retire active ones; UserError if one has another status."""
    from hardwon.actions.memories import reject_or_retire_memory

    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            record = memories.find_memory(decider.connection, name)
            if record.status != status:
                fix = f"hardwon memory show M{record.id}"
                raise UserError(f"memory M{record.id} is {record.status}, not {status}", fix)
            updated = reject_or_retire_memory(decider, record)
            file_note = f"; its file stays: {get_memory_path(decider.home, record)}" if record.file else ""
            echo_text(f"{updated.status}: memory M{record.id}{file_note}")
        # A memory may count in every project, so every compiled brief is out of date.
        compiled_brief.delete_all(decider.home)
