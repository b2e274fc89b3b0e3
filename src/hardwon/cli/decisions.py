"""accept, reject, undo: one yes and one no for lessons, memories and handoffs"""

from __future__ import annotations

from typing import Any

import click

from hardwon import paths
from hardwon.actions.decisions import accept_proposal, reject_proposal, take_back_decision
from hardwon.cli.candidates import show_in_force
from hardwon.cli.completions import complete_proposals, complete_undoable
from hardwon.cli.context import open_store_for_decision, require_person
from hardwon.cli.lesson_options import add_lesson_options, confirm_option, parse_flags
from hardwon.cli.output import echo_text
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.store.approvals import COMMAND_LINE

names_argument = click.argument(
    "names", metavar="L3|M3|H3|SLUG…", nargs=-1, required=True, shell_complete=complete_proposals
)


@click.command()
@names_argument
@add_lesson_options
@confirm_option
def accept(names: tuple[str, ...], confirmed: bool, **flags: Any) -> None:
    """Say yes: put a lesson in force, approve a memory, ratify a handoff.

    L3 or 3 is a proposed lesson, M3 a memory, H3 a handoff. The options change a lesson before it is put in force.
    """
    require_person("accepting a proposal")
    changes = parse_flags(flags)
    if changes and len(names) > 1:
        raise UserError("options change one lesson at a time", "hardwon accept L3 --delivery hold")
    with open_store_for_decision() as connection:
        for name in names:
            acceptance = accept_proposal(
                paths.get_home(),
                connection,
                name,
                COMMAND_LINE,
                changes=changes,
                confirm=lambda message: confirmed,
            )
            if acceptance.lesson:
                show_in_force(acceptance.lesson)
            else:
                echo_text("\n".join(acceptance.lines))
        compiled_brief.delete_all(paths.get_home())


@click.command()
@names_argument
def reject(names: tuple[str, ...]) -> None:
    """Say no: reject a lesson or a memory, discard a draft handoff.

    What is rejected is not proposed again. A lesson or a memory that is in force already is retired.
    """
    require_person("rejecting a proposal")
    with open_store_for_decision() as connection:
        for name in names:
            echo_text(reject_proposal(paths.get_home(), connection, name)[0])
        compiled_brief.delete_all(paths.get_home())


@click.command()
@click.argument("name", metavar="[L3|M3|H3|SLUG|NO]", default="", shell_complete=complete_undoable)
def undo(name: str) -> None:
    """Take back the last approval, or the decision about a proposal.

    NO is a number that `hardwon approvals` lists. An edited lesson returns to the version approved before.
    """
    require_person("undoing a decision")
    with open_store_for_decision() as connection:
        echo_text(take_back_decision(paths.get_home(), connection, name))
