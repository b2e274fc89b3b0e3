"""deliveries"""

from __future__ import annotations

import json
from datetime import datetime
from time import sleep

import click

from hardwon import clock, paths
from hardwon.cli.output import echo_indented, make_printable
from hardwon.cli.sessions import drain_spool, open_drained_store
from hardwon.store import db, injections
from hardwon.types import Delivery

POLL_SECONDS = 0.5
_INDENT = " " * 16  # a slug is to be copied whole, which beside the rest there is no room for


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many")
@click.option("-f", "--follow", is_flag=True, help="go on printing as they happen")
@click.option("--json", "as_json", is_flag=True, help="print JSON, one array; with --follow a line each")
def deliveries(limit: int, follow: bool, as_json: bool) -> None:
    """What was delivered to agents: when, how, and which lesson."""
    connection = open_drained_store(paths.get_home())
    numbered_deliveries = injections.list_latest_deliveries(connection, limit=limit)
    if follow:
        _follow_deliveries(connection, numbered_deliveries, as_json)
    elif as_json:
        click.echo(json.dumps([_to_json(delivery) for _, delivery in numbered_deliveries], indent=2))
    elif numbered_deliveries:
        for _, delivery in numbered_deliveries:
            *cells, text = _format_row(delivery)
            click.echo(make_printable("  ".join(cells)))
            echo_indented(_INDENT, text)
    else:
        click.echo("nothing has been delivered yet")


def _follow_deliveries(
    connection: db.Connection, numbered_deliveries: list[tuple[int, Delivery]], as_json: bool
) -> None:
    last_id = 0
    while True:
        for delivery_id, delivery in numbered_deliveries:
            click.echo(
                json.dumps(_to_json(delivery))
                if as_json
                else make_printable("  ".join(_format_row(delivery)).replace("\n", "  "))
            )
            last_id = delivery_id
        sleep(POLL_SECONDS)
        drain_spool(connection, paths.get_home())
        numbered_deliveries = injections.list_latest_deliveries(connection, limit=1000, after_id=last_id)


def _format_row(delivery: Delivery) -> list[str]:
    when = datetime.fromtimestamp(delivery.at).strftime("%m-%d %H:%M:%S")
    return [
        when,
        delivery.delivery,
        delivery.host,
        delivery.tool or delivery.kind,
        f"{delivery.summary}\n{delivery.slug}",
    ]


def _to_json(delivery: Delivery) -> dict[str, object]:
    return {**delivery.__dict__, "at": clock.format_iso(delivery.at)}
