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
_UNDER = " " * 16  # a slug is to be copied whole, which beside the rest there is no room for


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many")
@click.option("-f", "--follow", is_flag=True, help="go on printing as they happen")
@click.option("--json", "as_json", is_flag=True, help="print JSON, one array; with --follow a line each")
def deliveries(limit: int, follow: bool, as_json: bool) -> None:
    """What was delivered to agents: when, how, and which lesson."""
    connection = open_drained_store(paths.get_home())
    found = injections.list_latest_deliveries(connection, limit=limit)
    if follow:
        _follow(connection, found, as_json)
    elif as_json:
        click.echo(json.dumps([_plain(one) for _, one in found], indent=2))
    elif found:
        for _, one in found:
            *known, told = _row(one)
            click.echo(make_printable("  ".join(known)))
            echo_indented(_UNDER, told)
    else:
        click.echo("nothing has been delivered yet")


def _follow(connection: db.Connection, found: list[tuple[int, Delivery]], as_json: bool) -> None:
    last = 0
    while True:
        for number, one in found:
            click.echo(json.dumps(_plain(one)) if as_json else make_printable("  ".join(_row(one)).replace("\n", "  ")))
            last = number
        sleep(POLL_SECONDS)
        drain_spool(connection, paths.get_home())
        found = injections.list_latest_deliveries(connection, limit=1000, after_id=last)


def _row(one: Delivery) -> list[str]:
    when = datetime.fromtimestamp(one.at).strftime("%m-%d %H:%M:%S")
    return [when, one.delivery, one.host, one.tool or one.kind, f"{one.summary}\n{one.slug}"]


def _plain(one: Delivery) -> dict[str, object]:
    return {**one.__dict__, "at": clock.format_iso(one.at)}
