"""Helpers that commands share: options, opening the store, asking the person, and editing what they may edit."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hardwon import paths, projects
from hardwon.actions import drain_spool
from hardwon.agents import TRANSCRIPT_AGENTS
from hardwon.cli.output import echo_styled
from hardwon.errors import UserError
from hardwon.self_protection.commands import find_agent_variable
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE
from hardwon.text.characters import make_printable
from hardwon.types import COMMAND_TARGETS, DELIVERY_MODES

if TYPE_CHECKING:
    from hardwon.actions.approvals import Decider

EXISTING_FILE = click.Path(exists=True, dir_okay=False)
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
yes_option = click.option("--yes", is_flag=True, help="do not ask")
# Each option is named by the field of a lesson's record that it sets.
_LESSON_OPTIONS = (
    click.option("--summary", help="what goes wrong, in a line"),
    click.option("--problem", help="the root cause"),
    click.option("--solution", help="what to do instead"),
    click.option("--command", "commandPatterns", multiple=True, metavar="REGEX", help="fires on a Bash command"),
    click.option("--path", "pathPatterns", multiple=True, metavar="GLOB", help="fires on a file"),
    click.option("--content", "contentPatterns", multiple=True, metavar="REGEX", help="fires on text to be written"),
    click.option("--unless", "unless", multiple=True, metavar="REGEX", help="skip if this matches too"),
    click.option("--tool", "toolNames", multiple=True, metavar="TOOL", help="only for this tool, such as Bash or Edit"),
    click.option("--delivery", type=click.Choice(DELIVERY_MODES), help="a new lesson is a note"),
    click.option("--block-reason", "blockReason", help="what the agent is told; {command} is filled in"),
    click.option(
        "--match-in", "commandMatchTarget", type=click.Choice(COMMAND_TARGETS), help="full: match inside quotes too"
    ),
    click.option("--priority", type=int, help="1 to 10; 5 for a new lesson"),
    click.option("--confidence", type=float, help="0 to 1; 0.9 for a new lesson"),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="category:value, such as tool:git"),
    click.option("--project", "here", is_flag=True, help="only for the project in this folder"),
)
confirm_option = click.option("--confirm", "confirmed", is_flag=True, help="allow a block with little history")


def answer_by_flag(confirmed: bool) -> Callable[[str], bool]:
    """Return what answers an action's question about doubts: yes if the person passed --confirm."""
    return lambda question: confirmed


class AgentOption(click.Option):
    """`--agent`. Its name in 0.1.0, `--host`, still works, but help and messages leave it out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, help_text = record
        return names.replace(", --host", ""), help_text

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return "'--agent'"


transcript_agent_option = click.option(
    "--agent",
    "--host",
    "agent",
    cls=AgentOption,
    type=click.Choice(TRANSCRIPT_AGENTS),
    metavar="AGENT",
    help="only this agent's transcripts",
)


@contextmanager
def open_store(*, drain: bool = False) -> Iterator[db.Connection]:
    """Open the home's database; with `drain`, record first what waits in the spool."""
    home = paths.get_home()
    with db.open(home) as connection:
        if drain:
            drain_spool(home, connection)
        yield connection


def find_project_here() -> str:
    """Return the project of the folder in which the command runs."""
    return projects.find_project_path(os.getcwd())


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def find_agent() -> str:
    """Return the environment variable that shows an agent runs this command; empty for a person."""
    return find_agent_variable(os.environ)


def require_person(action: str) -> None:
    """Refuse an action that an agent may not take; the fix is the command for the person to type."""
    if agent_variable := find_agent():
        command = shlex.join(["hardwon", *sys.argv[1:]])
        raise UserError(
            f"{action} is for a person, and {agent_variable} says an agent runs this", f"they type: {command}"
        )


def confirm(yes: bool, question: str, *, default: bool = False, show_details: Callable[[], None] | None = None) -> bool:
    """Return whether the person agrees; without a terminal only --yes can. `d` shows the details, if there are any."""
    if yes:
        return True
    if not is_interactive():
        raise UserError("nothing changed: confirmation needed", shlex.join(["hardwon", *sys.argv[1:], "--yes"]))
    if show_details is None:
        return click.confirm(make_printable(question), default=default)
    choices = "[Y]es [n]o [d]ifference" if default else "[y]es [N]o [d]ifference"
    while True:
        answer = click.prompt(f"{make_printable(question)} {choices}", default="", show_default=False).strip().lower()
        if not answer:
            return default
        if answer.startswith("d"):
            show_details()
        elif answer.startswith("y"):
            return True
        elif answer.startswith("n"):
            return False


def require_consent(yes: bool, question: str) -> None:
    """Abort the command unless the person agrees."""
    if not confirm(yes, question):
        raise click.Abort


def edit_as_json(record: Mapping[str, Any]) -> dict[str, Any]:
    """Have the person edit a lesson in their editor; return the fields they changed, None for those they deleted."""
    from hardwon.lessons.record import BadRecord, parse_lesson

    text = click.edit(json.dumps(record, indent=2, ensure_ascii=False), extension=".json")
    if text is None:  # the editor was left without saving
        return {}
    edited = parse_record(text)
    try:
        parse_lesson(edited)
    except BadRecord as error:
        raise UserError(f"this is not a lesson: {'; '.join(error.faults)}", "edit it again") from None
    changes = {name: value for name, value in edited.items() if value != record.get(name)}
    for name in record:
        if name not in edited:
            changes[name] = None
    return changes


def parse_record(text: str) -> dict[str, Any]:
    """Parse the JSON of a lesson's record; UserError if it is not an object."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the record is not JSON: {error}", "hardwon lessons add --help") from None
    if not isinstance(record, dict):
        raise UserError("the record is not an object", 'write {"summary": …, "problem": …, "solution": …}')
    return record


def show_diff(path: str, old_text: str, new_text: str) -> None:
    """Print the difference of a file's old and new text, with two lines around each change."""
    colours = {"+": "green", "-": "red", "@": "cyan"}  # by the first character of a line
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), path, path, lineterm="", n=2)
    for line in lines:
        colour = colours.get(line[:1])
        echo_styled(line, fg=colour)


@contextmanager
def open_decider(*, drain: bool = False, refreshes_brief: bool = False) -> Iterator[Decider]:
    """Open the database for a decision; one about memories or handoffs changes this project's brief, too."""
    # Imported here because commands that only read need neither.
    from hardwon.actions import approvals
    from hardwon.search import brief

    home = paths.get_home()
    with open_store(drain=drain) as connection:
        yield approvals.open_decider(home, connection, COMMAND_LINE)
        if refreshes_brief:
            brief.refresh_brief(connection, home, find_project_here())


def add_lesson_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of a lesson to a command."""
    # Decorators apply from the last to the first, and click lists options in that order.
    for option in reversed(_LESSON_OPTIONS):
        command = option(command)
    return command


def parse_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that the options set."""
    record: dict[str, Any] = {}
    if flags.pop("here"):
        record["scope"] = {"type": "project", "path": find_project_here()}
    for name, value in flags.items():
        if value is None or value == ():
            continue  # the option was not given
        record[name] = list(value) if isinstance(value, tuple) else value
    return record
