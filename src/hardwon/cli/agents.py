"""install, install timer, uninstall"""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from hardwon import clock, paths, projects
from hardwon.actions.approvals import compile_manifest
from hardwon.agents import AGENT_NAMES, hook_settings
from hardwon.agents.codex.install import find_displaced_events
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import (
    SettingsChange,
    find_upgrade_hint,
    plan_install,
    plan_removal,
    read_version,
    write_change,
    write_removal,
)
from hardwon.cli.context import confirm, open_store, require_person, show_diff, yes_option
from hardwon.cli.output import echo_text
from hardwon.errors import UserError
from hardwon.handoff import memory_queue
from hardwon.sessions.spool import get_spool_folder
from hardwon.text.characters import format_count
from hardwon.worker import lifecycle
from hardwon.worker.removal import find_files_elsewhere, remove_files

_TIMER = "timer"
_AGENTS_LINE = f"AGENT is one of {', '.join(AGENT_NAMES)}."
_INTERVAL_MINUTES = 10
_NAME = "hardwon-reflect"
SCHEDULERS = ("systemd", "launchd", "cron")


@click.command(epilog=_AGENTS_LINE)
@click.argument("agent", metavar="AGENT|timer", type=click.Choice([*AGENT_NAMES, _TIMER]))
@click.option("--project", "here", is_flag=True, help="for this project only, in a file that is not committed")
@click.option("--mcp", is_flag=True, help="register hardwon's MCP server with the agent, too")
@click.option("--trust", is_flag=True, help="for codex: trust these hooks, as you would with /hooks in it")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@click.option("--with", "scheduler", type=click.Choice(SCHEDULERS), default="systemd", help="for the timer: which one")
@yes_option
def install(agent: str, here: bool, mcp: bool, trust: bool, only_print: bool, scheduler: str, yes: bool) -> None:
    """Add hardwon's hooks to an agent's settings; nothing else in them is touched.

    `timer` prints a systemd, launchd or cron job that drafts handoffs of idle sessions every 10 minutes, for machines
    where the worker does not run.
    """
    if agent == _TIMER:
        _print_timer(paths.get_home(), scheduler)
        return
    agent_settings = load_settings(agent)
    home = paths.get_home()
    project = projects.find_git_root(os.getcwd()) if here else ""
    plans = plan_install(agent, home, project=project, with_mcp=mcp, with_trust=trust)
    _report_program(agent_settings)
    changes = [plan for plan in plans if not plan.is_empty]
    for plan in plans:
        if plan.is_empty:
            click.echo(f"already installed in {plan.path}")
        elif only_print:
            show_diff(plan.path, plan.old_text, plan.new_text)
    if only_print or not changes:
        return
    _print_summary(agent_settings, agent, changes)
    # Codex asks its user about new hooks, and writing its hash of them bypasses that question. An agent may install
    # where nothing is, but must not point installed hooks at another home.
    if trust:
        require_person("trusting hooks")
    elif any(change.replaces_hooks for change in changes):
        require_person("changing installed hooks")
    if not confirm(yes, "Make this change?", default=True, show_details=lambda: _show_changes(changes)):
        return
    _write_changes(home, changes)
    click.echo(f"Restart open {agent_settings.title} sessions to activate it. Check: hardwon doctor")
    if trust:
        click.echo("Codex trusts these hooks now; it asks you again if one of them changes")
    elif agent_settings.next_step:
        click.echo(agent_settings.next_step)


def _write_changes(home: str, changes: Sequence[SettingsChange]) -> None:
    """Change the settings files, and compile the manifest, from which hooks answer while the worker is away."""
    for change in changes:
        backup = write_change(home, change)
        backup_note = f"; the file as it was: {backup}" if backup else ""
        click.echo(f"installed in {change.path}{backup_note}")
        _report_displaced_hooks(change)
    compile_manifest(home, clock.now())


def _print_summary(agent_settings: hook_settings.HookSettings, agent: str, changes: Sequence[SettingsChange]) -> None:
    """Print what would change in three lines; the whole difference is shown on request."""
    for change in changes:
        if change.replaces_hooks:
            verb = "replaces hardwon's hooks in"
        elif "made" in change.created_paths:  # the file with the hooks; trust and the MCP server may be in another
            commands_by_event = agent_settings.find_hooks(change.new_text)
            hook_count = sum(map(len, commands_by_event.values()))
            verb = f"adds {format_count(hook_count, 'hook')} to"
        elif "trust" in change.created_paths:
            verb = "trusts these hooks in"
        else:
            verb = "registers hardwon's MCP server in"
        click.echo(f"{agent_settings.title}: {verb} {change.path}")
    click.echo("  nothing else in it changes, and the file as it was is kept in backups")
    click.echo(f"  take it out again: hardwon uninstall {agent}")


def _show_changes(changes: Sequence[SettingsChange]) -> None:
    """Print the whole difference of every file."""
    for change in changes:
        show_diff(change.path, change.old_text, change.new_text)


def _report_program(agent_settings: hook_settings.HookSettings) -> None:
    """Say that an agent is not installed, or too old for its hooks; nothing if all is well."""
    program = shutil.which(agent_settings.program)
    if not program:
        click.echo(f"{agent_settings.title} is not on the PATH here; its settings are prepared all the same")
        return
    version = read_version(program)
    if fix := find_upgrade_hint(agent_settings, version):
        click.echo(f"{program}, version {version}, is too old: {fix}")


def _report_displaced_hooks(change: SettingsChange) -> None:
    """Say which hooks of others have moved in Codex's file: it knows them by position and asks for trust again."""
    if change.agent != "codex" or not change.path.endswith(".json"):
        return  # the hooks of Codex are in its only JSON file
    if events := find_displaced_events(change.path, change.old_text, change.new_text):
        click.echo(f"Codex asks you to trust other hooks in {', '.join(events)} again: they have moved")


@click.command(epilog=_AGENTS_LINE)
@click.argument("agent", metavar="[AGENT]", type=click.Choice(list(AGENT_NAMES)), required=False)
@click.option("--project", "here", is_flag=True, help="from this project only")
@click.option("--all", "every", is_flag=True, help="from every agent; stop the worker, leave only your data")
@click.option("--data", is_flag=True, help="with --all: delete your data, too")
@yes_option
def uninstall(agent: str | None, here: bool, every: bool, data: bool, yes: bool) -> None:
    """Remove hardwon's hooks from an agent's settings; your data stays."""
    require_person("uninstalling")
    has_one_choice = every != bool(agent)  # either an agent or --all, and not both
    if not has_one_choice or (data and not every):
        raise UserError("choose an agent, or --all", "hardwon uninstall claude-code, or hardwon uninstall --all")
    home = paths.get_home()
    if agent is None:
        _uninstall_everything(home, delete_data=data, yes=yes)
        return
    project = projects.find_git_root(os.getcwd()) if here else ""
    for path in hook_settings.list_hook_files(agent, project=project):
        _remove_hooks(agent, home, path, yes=yes)
    if here:
        return  # the MCP server is never registered for one project
    # The MCP server may be in a file without hooks.
    for path, entry in hook_settings.read_install_ledger(home).items():
        if entry.get("host") == agent and "mcp" in entry:
            _remove_hooks(agent, home, path, yes=yes)


def _remove_hooks(agent: str, home: str, path: str, *, yes: bool) -> None:
    """Show what is taken out of one settings file, ask, and do it."""
    change = plan_removal(agent, home, path)
    if change.is_empty:
        click.echo(f"nothing of hardwon's in {path}")
        return
    click.echo(f"removes hardwon's lines from {path}; nothing else in it changes")
    if not confirm(yes, "Make this change?", default=True, show_details=lambda: _show_changes([change])):
        return
    write_removal(home, change)
    _report_displaced_hooks(change)
    click.echo(f"uninstalled from {path}; your data stays in {home}")


def _uninstall_everything(home: str, *, delete_data: bool, yes: bool) -> None:
    """Take the hooks out of every agent, stop the worker, and remove hardwon's files."""
    effect = "delete everything" if delete_data else "leave only your data"
    if not confirm(yes, f"Remove hardwon from every agent, and {effect} in {home}?"):
        return
    refusals = []
    for name, path in hook_settings.list_settings_files(home):
        try:
            _remove_hooks(name, home, path, yes=True)
        except UserError as error:
            refusals.append(f"{error.message}; {error.fix}")
    # The hooks are out first, since a hook starts the worker again.
    lifecycle.stop_worker(home)
    lifecycle.wait_for_jobs(home)  # a job of a killed worker would write files again
    if os.path.isdir(get_spool_folder(home)):
        with open_store(drain=True), suppress(OSError):  # events that cannot be read stay where they are
            os.rmdir(get_spool_folder(home))
    # Only the database knows the files in repositories, so list them before it is deleted.
    files_elsewhere = find_files_elsewhere(home) if delete_data else []
    remove_files(home, is_complete=not refusals, delete_data=delete_data)
    _print_leftovers(home, refusals, [path for path in files_elsewhere if os.path.lexists(path)])


def _print_leftovers(home: str, refusals: Sequence[str], files_elsewhere: Sequence[str]) -> None:
    """Print what is left and why; exit with 1 if a settings file could not be changed."""
    with suppress(OSError):  # the home is gone, is not empty, or is a link to a folder of the person's
        os.rmdir(home)
    remaining_names = sorted(os.listdir(home)) if os.path.isdir(home) else []
    if remaining_names:
        click.echo(f"left      {home}: {', '.join(remaining_names)}")
    elif not files_elsewhere:
        click.echo("left      nothing")
    if files_elsewhere:
        count = format_count(len(files_elsewhere), "file")
        click.echo(f"left      {count} of yours in repositories; delete what you do not want:")
        for path in files_elsewhere:
            echo_text(f"          {path}")
    queue_folder = memory_queue.get_queue_folder()
    if memory_queue.read_queue(queue_folder):
        click.echo(f"          {queue_folder}: statements that wait to be remembered")
    click.echo("          agents that are running call the hook until they are restarted")
    click.echo("          a plugin of ours: remove it in the agent, such as claude plugin uninstall hardwon@hardwon")
    click.echo("          a timer: remove it the way you set it up")
    click.echo("          the program itself: remove it the way you installed it, such as pipx uninstall hardwon")
    for refusal in refusals:
        echo_text(f"failed    {refusal}", err=True)
    if refusals:
        raise SystemExit(1)


def _print_timer(home: str, scheduler: str) -> None:
    """Print the files and the commands that set up the timer, and the command that removes it."""
    command = [sys.executable, "-I", "-m", "hardwon", "reflect", "--idle"]
    if scheduler == "cron":
        click.echo(f"# add this line with: crontab -e\n{build_cron_line(home, command)}")
        return
    if scheduler == "launchd":
        path = f"~/Library/LaunchAgents/{_NAME}.plist"
        files = {path: build_launch_agent(home, command)}
        setup = f"launchctl load -w {path}"
        removal = f"launchctl unload -w {path} && rm {path}"
    else:
        folder = "~/.config/systemd/user"
        files = {
            f"{folder}/{_NAME}.service": build_service_unit(home, command),
            f"{folder}/{_NAME}.timer": _build_timer_unit(),
        }
        setup = f"systemctl --user daemon-reload && systemctl --user enable --now {_NAME}.timer"
        removal = f"systemctl --user disable --now {_NAME}.timer && rm {folder}/{_NAME}.*"
    for path, text in files.items():
        click.echo(f"# save as {path}\n{text}")
    click.echo(f"# then run:   {setup}\n# to remove:  {removal}")


def build_cron_line(home: str, command: list[str]) -> str:
    """Return the line of a cron table that runs the command."""
    line = f"HARDWON_HOME={shlex.quote(home)} {shlex.join(command)} >/dev/null 2>&1"
    # An unescaped % ends the command in a cron table.
    escaped_line = line.replace("%", "\\%")
    return f"*/{_INTERVAL_MINUTES} * * * * {escaped_line}"


def build_launch_agent(home: str, command: list[str]) -> str:
    """Return the property list with which launchd runs the command."""
    properties = {
        "Label": _NAME,
        "ProgramArguments": command,
        "EnvironmentVariables": {"HARDWON_HOME": home},
        "StartInterval": _INTERVAL_MINUTES * 60,
        "ProcessType": "Background",
    }
    return plistlib.dumps(properties).decode()


def build_service_unit(home: str, command: list[str]) -> str:
    """Return the systemd unit that runs the command once; the timer starts it."""
    # systemd expands % everywhere and $ in commands.
    words = " ".join(_quote_unit_word(word).replace("$", "$$") for word in command)
    return (
        "[Unit]\nDescription=Draft handoffs of idle sessions\n\n[Service]\nType=oneshot\nNice=10\n"
        f"Environment={_quote_unit_word(f'HARDWON_HOME={home}')}\nExecStart={words}\n"
    )


def _quote_unit_word(word: str) -> str:
    """Return a word in quotes, as it stands for itself in a systemd unit."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _build_timer_unit() -> str:
    """Return the systemd unit that starts the service again and again."""
    interval = f"{_INTERVAL_MINUTES}min"
    return (
        f"[Unit]\nDescription=Run hardwon every {_INTERVAL_MINUTES} minutes\n\n"
        f"[Timer]\nOnActiveSec={interval}\nOnUnitActiveSec={interval}\n\n[Install]\nWantedBy=timers.target\n"
    )
