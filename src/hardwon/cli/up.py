"""up: show what repeats, stop it, connect the agents, and import the history in the background"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import click

from hardwon import __version__, clock, paths, pauses, settings
from hardwon.actions.approvals import Decider, compile_manifest, open_decider
from hardwon.actions.lessons import accept_candidate, reject_candidate
from hardwon.agents import AGENT_NAMES
from hardwon.agents.hook_settings import load_settings, write_discovery_files
from hardwon.agents.installation import find_path_fix
from hardwon.agents.settings_files import read_text_file
from hardwon.cli.agents import install
from hardwon.cli.candidates import MAX_LINE_CHARS
from hardwon.cli.config import SETUP_LINES
from hardwon.cli.context import find_agent, is_interactive, open_store
from hardwon.cli.output import echo_indented, echo_styled, show_progress
from hardwon.cli.scan import describe_read_size, echo_remaining
from hardwon.errors import UserError
from hardwon.lessons.review_queue import describe_scope, list_waiting
from hardwon.mining.scan import ScanRequest, find_transcripts, hold_scan_lock, run_scan
from hardwon.store import retention
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, list_fresh_signatures
from hardwon.store.db import Connection
from hardwon.text.characters import format_count, to_printable_line
from hardwon.worker import lifecycle

_MAX_SHOWN_MISTAKES = 3


@click.command()
@click.option("--yes", is_flag=True, help="connect every agent found, without asking")
@click.pass_context
def up(ctx: click.Context, yes: bool) -> None:
    """Set up hardwon: show the mistakes that repeat, stop them, and connect your agents.

    It starts the worker. At a terminal it asks before it changes anything; run it again whenever you like.
    """
    home = paths.get_home()
    # Starting and reading take a few seconds the first time.
    click.echo("starting the worker, then reading your agents' transcripts …", err=True)
    compile_manifest(home, clock.now())
    # Plugins find the hook by these files, and see in them that they are not needed.
    write_discovery_files(home)
    worker_status = lifecycle.start_worker(home)
    # An older worker ends by itself when it is idle, but a person should not wait for that.
    if worker_status.version != __version__:
        lifecycle.stop_worker(home)
        worker_status = lifecycle.start_worker(home)
    has_proposals = _show_mistakes(home)
    for name in AGENT_NAMES:
        try:
            _set_up_agent(ctx, name, yes)
        except UserError as error:  # one agent's broken settings must not stop the others
            click.echo(f"agent     {load_settings(name).title}: {error.message}; {error.fix}")
    if not any(shutil.which(load_settings(name).program) for name in AGENT_NAMES):
        click.echo("agent     no supported agent on the PATH; once there is one: hardwon up")
    _offer_path_fix()
    _offer_completion()
    _start_import(home, should_start=yes or is_interactive())
    click.echo(f"worker    running, process {worker_status.pid}")
    for pause in pauses.describe_pauses(home, clock.now()):
        click.echo(f"pause     {pause}; lift it: hardwon unpause")
    click.echo(f"home      {home}")
    click.echo(f"lessons   {compile_manifest(home, clock.now()).lesson_count} in force")
    values = settings.load_settings(home)
    if values["autoReflect"]:
        idle_minutes = values["idleMinutes"]
        when = f"after {format_count(idle_minutes, 'minute')} idle" if idle_minutes else "when a session ends"
        click.echo(f"handoffs  drafted {when}\n          (off: hardwon config set autoReflect false)")
    else:
        click.echo("handoffs  not drafted (on: hardwon config set autoReflect true)")
    label = "next"
    if has_proposals:
        click.echo("next      hardwon review          decide about the proposals")
        label = ""
    click.echo(f"{label:<10}hardwon lessons add     write what went wrong, for the next time")
    click.echo("          hardwon view            look at everything in the browser")
    click.echo("          hardwon doctor          check every part")


def _show_mistakes(home: str) -> bool:
    """Scan what is new, offer to stop the mistakes that recorded calls prove, and return whether proposals wait."""
    values = settings.load_settings(home)
    with open_store() as connection:
        with hold_scan_lock(home, wait=False) as has_lock:
            if has_lock:
                outcome = run_scan(home, connection, values, ScanRequest(), show_progress)
                click.echo(f"scanned   {describe_read_size(outcome)}")
            else:
                click.echo("scanned   another scan is running")
        waiting = list_waiting(home, connection)
        proven = [candidate for candidate in waiting if candidate.parts.get("proven")]
        if not proven:
            click.echo("mistakes  nothing repeatable was found")
        else:
            _offer_fixes(home, connection, proven)
        echo_remaining(len(list_fresh_signatures(connection)))
        unproven_count = len(waiting) - len(proven)
        if unproven_count:
            click.echo(f"          {format_count(unproven_count, 'more proposal')} that no recorded call proves")
        return bool(list_waiting(home, connection))


def _offer_fixes(home: str, connection: Connection, proven: list[Candidate]) -> None:
    """Show the mistakes with their fixes; at a terminal a person stops each with one key."""
    lost_calls = sum(candidate.occurrences for candidate in proven)
    mistakes = format_count(len(proven), "repeatable mistake")
    echo_styled(f"mistakes  your agents lost {format_count(lost_calls, 'call')} to {mistakes}", bold=True)
    can_decide = is_interactive() and not find_agent()
    for candidate in proven[:_MAX_SHOWN_MISTAKES]:
        _show_mistake(candidate)
        if can_decide and not _ask_about(open_decider(home, connection, COMMAND_LINE), candidate):
            break
    if not can_decide:
        names = " ".join(f"L{candidate.number}" for candidate in proven[:_MAX_SHOWN_MISTAKES])
        pronoun = "it" if len(proven) == 1 else "them"
        click.echo(f"          stop {pronoun}: hardwon accept {names}")
    if len(proven) > _MAX_SHOWN_MISTAKES:
        click.echo(f"          and {len(proven) - _MAX_SHOWN_MISTAKES} more: hardwon review")


def _show_mistake(candidate: Candidate) -> None:
    """Print a mistake, what works instead, and what it cost."""
    summary = to_printable_line(candidate.record["summary"], MAX_LINE_CHARS)
    echo_indented(f"  L{candidate.number:<6} ", summary)
    echo_indented("          → ", to_printable_line(candidate.record["solution"], MAX_LINE_CHARS), fg="green")
    sessions = format_count(len(candidate.sessions), "session")
    scope = to_printable_line(describe_scope(candidate.record))
    lost = f"{format_count(candidate.occurrences, 'call')} lost in {sessions}"
    echo_styled(f"          {lost}; holds in {scope}", dim=True)


def _ask_about(decider: Decider, candidate: Candidate) -> bool:
    """Ask whether to stop a mistake, do it, and return whether to go on to the next."""
    question = "          Stop it from now on? [Y]es [n]o [l]ater [q]uit"
    answer = click.prompt(question, default="", show_default=False).strip().lower() or "yes"
    try:
        if answer.startswith("y"):
            lesson = accept_candidate(decider, candidate, changes={})
            click.echo(f"          in force as a {lesson.delivery} (undo: hardwon undo L{candidate.number})")
        elif answer.startswith("n"):
            reject_candidate(decider, candidate)
            click.echo("          rejected; it is not proposed again")
    except UserError as error:
        click.echo(f"          not accepted: {to_printable_line(error.message)}; it stays in review")
    return not answer.startswith("q")


def _set_up_agent(ctx: click.Context, name: str, yes: bool) -> None:
    """Connect an agent if it is installed and not connected yet; without a terminal, say how."""
    agent_settings = load_settings(name)
    path = agent_settings.get_settings_path()
    try:
        settings_text = read_text_file(os.path.realpath(path))
        has_hooks = bool(settings_text and agent_settings.find_hooks(settings_text))
    except ValueError as error:
        raise UserError(f"{path}: {error}", f"repair it, then: hardwon install {name}") from None
    if has_hooks:
        click.echo(f"agent     {agent_settings.title}: connected")
    elif not shutil.which(agent_settings.program):
        return  # agents that are not used here are none of the person's concern
    elif yes or is_interactive():
        ctx.invoke(install, agent=name, yes=yes)
    else:
        click.echo(f"agent     {agent_settings.title}: found, not connected: hardwon install {name}")


def _offer_path_fix() -> None:
    """Say how to call hardwon by name, and at a terminal do it."""
    fix = find_path_fix()
    if not fix:
        return  # hardwon is on the PATH
    click.echo(f"command   hardwon is not on the PATH; to call it by name, as agents do:\n          {fix}")
    if not is_interactive() or not click.confirm("          Do this now?", default=True):
        return
    subprocess.run(["/bin/sh", "-c", fix], check=True)
    folder = os.path.expanduser("~/.local/bin")
    if folder not in os.environ.get("PATH", "").split(os.pathsep):
        click.echo('          linked; this shell finds it after: export PATH="$HOME/.local/bin:$PATH"')


def _offer_completion() -> None:
    """At a terminal, offer to complete hardwon's commands in the person's shell, unless it does so already."""
    shell = os.path.basename(os.environ.get("SHELL", ""))
    if not is_interactive() or shell not in SETUP_LINES:
        return
    line, file_name = SETUP_LINES[shell]
    path = os.path.expanduser(file_name)
    if "hardwon completion" in read_text_file(path):
        return  # completion was set up before
    if click.confirm(f"          Complete hardwon's commands with Tab (a line in {file_name})?", default=False):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
        click.echo("          done; open a new shell")


def _start_import(home: str, *, should_start: bool) -> None:
    """Import the agents' history in a process of its own, if nothing is recorded yet."""
    values = settings.load_settings(home)
    with open_store() as connection:
        if retention.read_store_totals(connection).sessions:
            return  # history was imported before, or hooks recorded sessions
    files = find_transcripts(ScanRequest(), values, read_positions={})
    if not files:
        return  # no agent was used here
    count = format_count(len(files), "transcript")
    if not should_start:
        click.echo(f"history   {count} can be imported: hardwon import transcripts")
        return
    log_path = os.path.join(home, "logs", "import.log")
    paths.make_private_folder(os.path.dirname(log_path))
    with open(log_path, "ab") as log, lifecycle.open_jobs_lock(home) as lock:
        subprocess.Popen(
            [sys.executable, "-I", "-m", "hardwon", "import", "transcripts", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock],
        )
    click.echo(f"history   importing {count} in the background; hardwon status shows how far it is")
