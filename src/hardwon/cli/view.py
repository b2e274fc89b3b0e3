"""view"""

from __future__ import annotations

import webbrowser
from time import monotonic, sleep

import click

from hardwon import clock, paths, settings
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.web.gate import create_link
from hardwon.worker import lifecycle

PORT_SECONDS = 20.0


@click.command()
@click.option("--print", "only_print", is_flag=True, help="print the link alone; it works once, for five minutes")
def view(only_print: bool) -> None:
    """Look at everything in the browser, and decide there.

    The worker is started if need be. The link works once; the browser that opens it is let in until the worker ends.
    """
    require_person("opening the viewer")
    home = paths.get_home()
    link = create_link(home, _wait_for_port(home), clock.now())
    if only_print:
        click.echo(link)
    elif webbrowser.open(link):
        click.echo("opened in your browser; if nothing shows: hardwon view --print")
    else:
        click.echo("no browser could be opened; open this link, it works once:")
        click.echo(link)


def _wait_for_port(home: str) -> int:
    """Where the pages are served; they come up a moment after the worker."""
    if settings.resolve_settings(settings.read_config(home))["apiPort"] < 0:
        raise UserError("the viewer is served with the API, and apiPort is -1", "hardwon config set apiPort null")
    worker_status = lifecycle.start_worker(home)
    deadline = monotonic() + PORT_SECONDS
    while worker_status.running and not worker_status.port and monotonic() < deadline:
        sleep(0.05)
        worker_status = lifecycle.read_status(home)
    if not worker_status.port:
        raise UserError("the worker runs but serves no pages", "hardwon restart, then hardwon logs")
    return worker_status.port
