"""start, stop, restart, status, logs"""

from __future__ import annotations

import json
import os
from time import sleep

import click

from hardwon import launch, paths
from hardwon.cli.show import ago
from hardwon.errors import UserError
from hardwon.worker import lifecycle


@click.command()
def start() -> None:
    """Start the worker of this home, unless it runs."""
    said = lifecycle.start(paths.home())
    click.echo(f"worker running, process {said.pid}, home {said.home}")


@click.command()
def stop() -> None:
    """Stop the worker. Guards hold without it; the next session starts it again."""
    click.echo("worker stopped" if lifecycle.stop(paths.home()) else "no worker was running")


@click.command()
def restart() -> None:
    """Stop the worker, then start it."""
    lifecycle.stop(paths.home())
    said = lifecycle.start(paths.home())
    click.echo(f"worker running, process {said.pid}, home {said.home}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def status(as_json: bool) -> None:
    """Whether the worker runs, and where."""
    said = lifecycle.status(paths.home())
    if as_json:
        click.echo(json.dumps(said.__dict__))
        return
    if said.running:
        click.echo(f"worker   running, process {said.pid}, since {ago(said.since or 0)}")
        click.echo(f"socket   {said.socket}")
    else:
        failed, _ = launch.starts(said.home)
        click.echo("worker   stopped" + (f"; {failed} starts came to nothing: hardwon logs" if failed else ""))
    click.echo(f"home     {said.home}")
    click.echo(f"version  {said.version}")


@click.command()
@click.option("-n", "lines", default=50, show_default=True, help="how many lines")
@click.option("-f", "--follow", is_flag=True, help="go on printing as it grows")
def logs(lines: int, follow: bool) -> None:
    """The worker's log, its end first of all."""
    path = os.path.join(paths.home(), paths.LOG)
    if not os.path.exists(path):
        raise UserError(f"there is no log yet at {path}", "hardwon start")
    with open(path, encoding="utf-8", errors="replace") as file:
        click.echo("".join(file.readlines()[-lines:]), nl=False)
        while follow:
            click.echo(file.read(), nl=False)
            sleep(0.3)
