"""Helpers that commands share: open the store, ask for the person's consent, options, and changes to their files."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from hardwon import paths, projects
from hardwon.actions.spool_draining import drain_spool
from hardwon.agents import TRANSCRIPT_AGENTS
from hardwon.cli.output import echo_styled
from hardwon.errors import UserError
from hardwon.self_protection.commands import find_agent_variable
from hardwon.store import db
from hardwon.text.characters import make_printable


class AgentOption(click.Option):
    """`--agent`. Its name in 0.1.0, `--host`, still works, but help and messages leave it out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (record[0].replace(", --host", ""), record[1])

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return "'--agent'"


json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
yes_option = click.option("--yes", is_flag=True, help="do not ask")
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
    with closing(db.connect(home)) as connection:
        if drain:
            drain_spool(home, connection)
        yield connection


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
        if answer[:1] == "d":
            show_details()
        elif answer[:1] in ("y", "n", ""):
            return answer[:1] == "y" or (not answer and default)


def show_diff(path: str, old_text: str, new_text: str) -> None:
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), path, path, lineterm="", n=2)
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        echo_styled(line, fg=colour)


@contextmanager
def open_store_for_decision(*, drain: bool = False) -> Iterator[db.Connection]:
    """Open the database for a decision about memories or handoffs, and update this project's brief afterwards."""
    from hardwon.search import brief

    with open_store(drain=drain) as connection:
        yield connection
        brief.refresh_brief(connection, paths.get_home(), projects.find_project_path(os.getcwd()))
