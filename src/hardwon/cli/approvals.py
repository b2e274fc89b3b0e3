"""approvals, approvals undo"""

from __future__ import annotations

import json

import click

from hardwon import clock, paths
from hardwon.actions import approvals as actions
from hardwon.actions.undo import undo_approval
from hardwon.cli.output import echo_table, format_age, make_printable
from hardwon.cli.person_only import require_person
from hardwon.store import db


@click.group(invoke_without_command=True)
@click.option("--limit", default=50, show_default=True, help="how many, the newest")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.pass_context
def approvals(ctx: click.Context, limit: int, as_json: bool) -> None:
    """What was put in force, by which path and when, newest first."""
    if ctx.invoked_subcommand:
        return
    home = paths.get_home()
    connection = db.connect(home)
    actions.ensure_upgraded(home, connection, clock.now())
    entries = actions.describe_approvals(connection, limit)
    if as_json:
        click.echo(json.dumps([_to_json(connection, entry) for entry in entries], indent=2))
        return
    if not entries:
        click.echo("nothing is approved yet")
        return
    rows = []
    for entry in entries:
        state = actions.find_approval_state(connection, entry.approval)
        rows.append(
            [str(entry.approval.id), format_age(entry.approval.approved_at), entry.approval.path, state, entry.title]
        )
    echo_table(["no", "when", "path", "state", "what"], rows)
    click.echo("undo      hardwon approvals undo NO")


def _to_json(connection: db.Connection, entry: actions.ListedApproval) -> dict[str, object]:
    approval = entry.approval
    return {
        "id": approval.id,
        "kind": approval.kind,
        "subject": approval.subject,
        "title": entry.title,
        "hash": approval.hash,
        "path": approval.path,
        "state": actions.find_approval_state(connection, approval),
        "approvedAt": clock.format_iso(approval.approved_at),
        "undoneAt": clock.format_iso(approval.undone_at) if approval.undone_at else None,
        "undo": entry.undo_command,
    }


@approvals.command()
@click.argument("number", metavar="NO", type=int)
def undo(number: int) -> None:
    """Take an approval back.

    An edited lesson goes back to the version approved before; what was approved once is retired.
    """
    require_person("undoing an approval")
    home = paths.get_home()
    click.echo(make_printable(undo_approval(home, db.connect(home), number)))
