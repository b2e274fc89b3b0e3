"""up"""

from __future__ import annotations

import os
import shutil

import click

from hardwon import clock, paths, pauses, settings
from hardwon.actions import approvals
from hardwon.agents import AGENT_PACKAGES, load_install_module, settings_files
from hardwon.cli.agents import install
from hardwon.cli.candidates import show_list
from hardwon.cli.lessons import pluralize
from hardwon.cli.output import is_interactive
from hardwon.cli.programs import find_path_fix
from hardwon.cli.scan import describe_read_size, echo_remaining, run_scan
from hardwon.cli.timer import find_installed_schedulers
from hardwon.errors import UserError
from hardwon.lessons import review_queue
from hardwon.mining import scan as mining
from hardwon.store import candidates, db
from hardwon.worker import lifecycle

MAX_SHOWN_MISTAKES = 5


@click.command()
@click.option("--yes", is_flag=True, help="install into every agent found, without asking")
@click.pass_context
def up(ctx: click.Context, yes: bool) -> None:
    """Start hardwon, say where things are and what to do next."""
    home = paths.get_home()
    build_result = approvals.compile_manifest(home, clock.now())
    settings_files.write_discovery_files(home)
    worker_status = lifecycle.start_worker(home)
    click.echo(f"worker    running, process {worker_status.pid}")
    for pause in pauses.describe_pauses(home, clock.now()):
        click.echo(f"pause     {pause}; lift it: hardwon unpause")
    click.echo(f"home      {home}")
    click.echo(f"lessons   {build_result.lesson_count} in force")
    for name in AGENT_PACKAGES:
        module = load_install_module(name)
        settings_path = module.get_settings_path()
        try:
            if _has_hooks(name, settings_path):
                click.echo(f"agent     {module.TITLE}: hooks installed")
            elif not shutil.which(module.PROGRAM):
                click.echo(f"agent     {module.TITLE}: not found on the PATH")
            elif yes or is_interactive():
                click.echo(f"agent     {module.TITLE}: found, no hooks yet; they would go into {settings_path}")
                ctx.invoke(install, agent=name, here=False, only_print=False, yes=yes)
            else:
                click.echo(f"agent     {module.TITLE}: found, no hooks yet: hardwon install {name}")
        except UserError as error:  # one agent's file must not keep the others waiting
            click.echo(f"agent     {module.TITLE}: {error.say}; {error.fix}")
    if fix := find_path_fix():
        click.echo(f"command   hardwon is not on the PATH; to call it by name, as agents do:\n          {fix}")
    click.echo(f"handoffs  {_describe_handoffs(home)}")
    if _show_mistakes(home):
        click.echo("next      hardwon review          decide about what was found")
    click.echo("next      hardwon lessons add     write what went wrong, for the next time")
    click.echo("          hardwon view            look at everything in the browser")
    click.echo("          hardwon doctor          check every part")


def _describe_handoffs(home: str) -> str:
    """Return when handoffs are drafted; the worker's own clock does it, so there is nothing to install."""
    values = settings.resolve_settings(settings.read_config(home))
    if not values["autoReflect"]:
        return "not drafted (on: hardwon config set autoReflect true)"
    idle_minutes = values["idleMinutes"]
    when = f"after {pluralize(idle_minutes, 'minute')} idle" if idle_minutes else "when a session ends"
    timer = ", by a timer too" if find_installed_schedulers(home) else ""
    return f"drafted {when}{timer}\n          (off: hardwon config set autoReflect false)"


def _show_mistakes(home: str) -> bool:
    """Scan what is new, and show what agents keep getting wrong."""
    values = settings.resolve_settings(settings.read_config(home))
    connection = db.connect(home)
    with mining.hold_scan_lock(home, wait=False) as has_lock:
        if has_lock:
            click.echo(f"scanned   {describe_read_size(run_scan(home, connection, values))}")
        else:
            click.echo("scanned   another scan is at work")
    waiting = review_queue.list_waiting(home, connection)
    waiting.sort(key=lambda candidate: (-len(candidate.sessions), -candidate.occurrences, -candidate.score))
    if waiting:
        click.echo(f"mistakes  {pluralize(len(waiting), 'candidate')} for a lesson; the most repeated:")
        show_list(waiting[:MAX_SHOWN_MISTAKES])
        echo_remaining(len(candidates.list_fresh_signatures(connection)))
    elif candidates.list_slugs(connection):
        click.echo("mistakes  all that were found are decided about")
    else:
        click.echo("mistakes  no mistakes found yet")
    return bool(waiting)


def _has_hooks(name: str, path: str) -> bool:
    try:
        with open(os.path.realpath(path), encoding="utf-8", opener=paths.open_plain_file) as file:
            return bool(load_install_module(name).find_hooks(file.read(), settings_files.is_hardwon_hook))
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}", f"mend it, then: hardwon install {name}") from None
