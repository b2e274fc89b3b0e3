"""up"""

from __future__ import annotations

import os
import shutil

import click

from hardwon import clock, paths, pauses, settings
from hardwon.actions.approvals import compile_manifest
from hardwon.agents import AGENT_PACKAGES, load_settings
from hardwon.agents.diagnosis import find_path_fix
from hardwon.agents.settings_files import read_text_file, write_discovery_files
from hardwon.cli.agents import install
from hardwon.cli.candidates import show_list
from hardwon.cli.context import is_interactive, open_store
from hardwon.cli.scan import describe_read_size, echo_remaining, show_progress
from hardwon.errors import UserError
from hardwon.lessons.review_queue import is_proven, list_waiting
from hardwon.mining.scan import hold_scan_lock
from hardwon.mining.scan_request import ScanRequest, run_scan
from hardwon.store.candidates import list_fresh_signatures
from hardwon.text.excerpts import pluralize
from hardwon.worker import lifecycle

MAX_SHOWN_MISTAKES = 5


@click.command()
@click.option("--yes", is_flag=True, help="install into every agent found, without asking")
@click.pass_context
def up(ctx: click.Context, yes: bool) -> None:
    """Start hardwon, and show where things are and what to do next."""
    home = paths.get_home()
    build_result = compile_manifest(home, clock.now())
    # Plugins find the hook by these files, and see in them that they are not needed.
    write_discovery_files(home)
    worker_status = lifecycle.start_worker(home)
    has_proposals = _show_mistakes(home)
    click.echo(f"worker    running, process {worker_status.pid}")
    for pause in pauses.describe_pauses(home, clock.now()):
        click.echo(f"pause     {pause}; lift it: hardwon unpause")
    click.echo(f"home      {home}")
    click.echo(f"lessons   {build_result.lesson_count} in force")
    for name in AGENT_PACKAGES:
        try:
            _set_up_agent(ctx, name, yes)
        except UserError as error:  # one agent's broken settings must not stop the others
            click.echo(f"agent     {load_settings(name).title}: {error.say}; {error.fix}")
    if fix := find_path_fix():
        click.echo(f"command   hardwon is not on the PATH; to call it by name, as agents do:\n          {fix}")
    values = settings.resolve_settings(settings.read_config(home))
    if values["autoReflect"]:
        idle_minutes = values["idleMinutes"]
        when = f"after {pluralize(idle_minutes, 'minute')} idle" if idle_minutes else "when a session ends"
        click.echo(f"handoffs  drafted {when}\n          (off: hardwon config set autoReflect false)")
    else:
        click.echo("handoffs  not drafted (on: hardwon config set autoReflect true)")
    if has_proposals:
        click.echo("next      hardwon review          decide about the proposals")
    click.echo("next      hardwon lessons add     write what went wrong, for the next time")
    click.echo("          hardwon view            look at everything in the browser")
    click.echo("          hardwon doctor          check every part")


def _set_up_agent(ctx: click.Context, name: str, yes: bool) -> None:
    agent_settings = load_settings(name)
    path = agent_settings.get_settings_path()
    try:
        settings_text = read_text_file(os.path.realpath(path))
        has_hooks = bool(settings_text and agent_settings.find_hooks(settings_text))
    except ValueError as error:
        raise UserError(f"{path}: {error}", f"repair it, then: hardwon install {name}") from None
    if has_hooks:
        click.echo(f"agent     {agent_settings.title}: hooks installed")
    elif not shutil.which(agent_settings.program):
        click.echo(f"agent     {agent_settings.title}: not found on the PATH")
    elif yes or is_interactive():
        click.echo(f"agent     {agent_settings.title}: found, no hooks yet; they would go into {path}")
        ctx.invoke(install, agent=name, yes=yes)
    else:
        click.echo(f"agent     {agent_settings.title}: found, no hooks yet: hardwon install {name}")


def _show_mistakes(home: str) -> bool:
    """Scan what is new, show at most five proposals that pass the gate, and return whether any wait for review."""
    values = settings.resolve_settings(settings.read_config(home))
    with open_store() as connection:
        with hold_scan_lock(home, wait=False) as has_lock:
            if has_lock:
                outcome = run_scan(home, connection, values, ScanRequest(), show_progress)
                click.echo(f"scanned   {describe_read_size(outcome)}")
            else:
                click.echo("scanned   another scan is running")
        waiting = list_waiting(home, connection)
        fresh_count = len(list_fresh_signatures(connection))
    proven = [candidate for candidate in waiting if is_proven(candidate, values["minTriggerPrecision"])]
    if proven:
        shown = proven[:MAX_SHOWN_MISTAKES]
        of_all = f" of {len(proven)}" if len(proven) > len(shown) else ""
        click.echo(f"mistakes  {pluralize(len(shown), 'lesson')}{of_all} worth a look; recorded calls prove each:")
        show_list(shown)
        echo_remaining(fresh_count)
    else:
        click.echo("mistakes  nothing repeatable was found")
    if len(waiting) > len(proven):
        click.echo(f"          {pluralize(len(waiting) - len(proven), 'more proposal')} that no recorded call proves")
    return bool(waiting)
