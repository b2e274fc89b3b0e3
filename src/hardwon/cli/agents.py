"""install, uninstall"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hardwon import clock, paths, projects
from hardwon.actions import approvals
from hardwon.agents import AGENT_PACKAGES, SettingsError, load_install_module
from hardwon.agents.codex import hook_trust
from hardwon.agents.prompt_origin import HOOK_PATH
from hardwon.agents.settings_files import (
    get_value,
    is_hardwon_hook,
    list_settings_files,
    read_install_ledger,
    write_discovery_files,
)
from hardwon.cli.file_change import confirm_change as _confirmed
from hardwon.cli.file_change import read_text as _read
from hardwon.cli.file_change import show_diff as _show_change
from hardwon.cli.person_only import require_person
from hardwon.cli.programs import find_upgrade_hint, read_version
from hardwon.errors import UserError
from hardwon.types import frozen, replace

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths, InstallModule

TIMER = "timer"
_AGENT_CHOICE = click.Choice([*AGENT_PACKAGES, TIMER])
_TRUST_NOTICE = "Codex trusts these hooks now, exactly as they are; it asks you again if one of them changes"


def build_hook_command(name: str, home: str) -> Callable[[str], str]:
    """What an agent runs for an event. `|| :` because a missing file makes Python exit 2, which agents read as deny.

    An agent that was started from another's shell has guards all the same, but what it is told is no person's word.
    """

    def format_command(event: str) -> str:
        arguments = [sys.executable, "-I", "-S", HOOK_PATH, name, event, home]
        prefix = "" if event == "UserPromptSubmit" else f"AI_AGENT={name}_hook "
        return f"{prefix}{shlex.join(arguments)} || :"

    return format_command


def build_server_command(home: str) -> list[str]:
    """What an agent runs to have us as an MCP server; the home is said where it is not the usual one."""
    arguments = [sys.executable, "-I", "-m", "hardwon", "mcp"]
    return arguments if home == os.path.expanduser("~/.hardwon") else ["env", f"HARDWON_HOME={home}", *arguments]


@click.command()
@click.argument("agent", type=_AGENT_CHOICE)
@click.option("--project", "here", is_flag=True, help="for this project only, in a file that is not committed")
@click.option("--mcp", is_flag=True, help="register hardwon's MCP server with the agent, too")
@click.option("--trust", is_flag=True, help="for codex: trust these hooks, as you would with /hooks in it")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@click.option("--with", "clockwork", type=click.Choice(["systemd", "launchd", "cron"]), help="for the timer: whose")
@click.option("--yes", is_flag=True, help="do not ask")
def install(agent: str, here: bool, mcp: bool, trust: bool, only_print: bool, clockwork: str | None, yes: bool) -> None:
    """Add hardwon's hooks to an agent's settings; nothing else in them is touched.

    `timer` instead has sessions that were left reflected on every ten minutes, the worker running or not.
    """
    if agent == TIMER:
        from hardwon.cli import timer

        timer.install(paths.get_home(), clockwork, only_print=only_print, confirm=partial(_confirmed, yes))
        return
    module, home = load_install_module(agent), paths.get_home()
    path, ledger = _resolve_settings_path(module, here), read_install_ledger(home)
    plans = [_plan_hooks(module, agent, path, home, ledger)]
    if mcp:
        plans = _add_server_plan(plans, module, agent, home, ledger)
    if trust:
        plans = _add_trust_plan(plans, module, agent, ledger)
    _report_program(module)
    changes = [plan for plan in plans if plan.new_text != plan.old_text]
    for plan in plans:
        if plan not in changes:
            click.echo(f"already installed in {plan.path}")
        _show_change(plan.path, plan.old_text, plan.new_text)
    if only_print or not changes:
        return
    if trust or any(plan.replaces_hooks for plan in changes):
        require_person("trusting hooks" if trust else "changing hooks that are there")
    if not _confirmed(yes, f"hardwon install {agent}{' --mcp' * mcp}{' --trust' * trust} --yes"):
        return
    for plan in changes:
        existed = ledger.get(plan.path, {}).get("existed", os.path.exists(plan.path))
        backup = _write_settings(home, agent, plan.path, plan.old_text, plan.new_text)
        ledger[plan.path] = {"host": agent, "existed": existed, **plan.created_paths}
        _save_ledger(home, ledger)
        click.echo(f"installed in {plan.path}" + (f"; the file as it was: {backup}" if backup else ""))
        _report_displaced_hooks(agent, plan.path, plan.old_text, plan.new_text)
    approvals.compile_manifest(home, clock.now())
    click.echo(f"running sessions of {module.TITLE} pick it up when they start anew; try: hardwon doctor")
    if next_step := _TRUST_NOTICE if trust else module.NEXT_STEP:
        click.echo(next_step)


def _report_program(module: InstallModule) -> None:
    """Whether the agent is there, and new enough to do what the hooks ask of it."""
    if not (program := shutil.which(module.PROGRAM)):
        click.echo(f"{module.TITLE} is not on the PATH here; its settings are prepared all the same")
    elif fix := find_upgrade_hint(module, version := read_version(program)):
        click.echo(f"{program}, version {version}, is too old: {fix}")


@frozen
class SettingsChange:
    """One file of an agent as it is and as it is to be, and which containers in it are ours, by what they hold."""

    path: str
    old_text: str
    new_text: str
    created_paths: dict[str, CreatedPaths]
    replaces_hooks: bool


def _plan_hooks(module: InstallModule, agent: str, path: str, home: str, ledger: dict[str, Any]) -> SettingsChange:
    old_text, entry = _read(path), ledger.get(path, {})
    with _report_edit_errors(path, f"hardwon install {agent}"):
        current_text = old_text if os.path.exists(path) else module.EMPTY_SETTINGS
        stripped_text = module.remove_hooks(current_text, entry.get("made", []), is_hardwon_hook)
        new_text, created_paths = module.add_hooks(stripped_text, build_hook_command(agent, home))
    if _are_equal(new_text, current_text):  # our server or somebody else's hooks would only change places
        new_text, created_paths = current_text, entry.get("made", created_paths)
    return SettingsChange(
        path, old_text, new_text, {**_select_created_paths(entry), "made": created_paths}, stripped_text != current_text
    )


def _are_equal(text: str, other_text: str) -> bool:
    """Whether they say the same, in whatever order the hooks of an event stand."""
    try:
        return bool(_sort_hooks(get_value(text) or {}) == _sort_hooks(get_value(other_text) or {}))
    except ValueError:
        return text == other_text


def _sort_hooks(settings: dict[str, Any]) -> dict[str, Any]:
    hooks = settings.get("hooks", {}).items()
    sorted_hooks = {
        event: sorted(entries, key=json.dumps) if isinstance(entries, list) else entries for event, entries in hooks
    }
    return {**settings, "hooks": sorted_hooks}


def _report_displaced_hooks(agent: str, path: str, old_text: str, new_text: str) -> None:
    """Codex knows a hook by its place in this file; those of others that stood behind ours have another one now."""
    displaced_events = (
        hook_trust.find_displaced_events(path, old_text, new_text, is_hardwon_hook)
        if agent == "codex" and path.endswith(".json")
        else []
    )
    if displaced_events:
        click.echo(
            f"Codex asks you to trust the hooks of others in {', '.join(displaced_events)} again: they have moved"
        )


def _add_server_plan(
    plans: list[SettingsChange], module: InstallModule, agent: str, home: str, ledger: dict[str, Any]
) -> list[SettingsChange]:
    """The plans with our MCP server in the agent's file for them, which may be the one that has the hooks."""
    plan = _find_plan(plans, os.path.realpath(module.get_mcp_path()), ledger)
    new_text, created_paths, server_command = (
        plan.new_text,
        plan.created_paths.get("mcp", []),
        build_server_command(home),
    )
    with _report_edit_errors(plan.path, f"hardwon install {agent} --mcp"):
        if module.find_mcp_command(new_text) != server_command:
            new_text, created_paths = module.add_mcp_server(
                module.remove_mcp_server(new_text, created_paths), server_command
            )
    plan = replace(plan, new_text=new_text, created_paths={**plan.created_paths, "mcp": created_paths})
    return [*(other for other in plans if other.path != plan.path), plan]


def _add_trust_plan(
    plans: list[SettingsChange], module: InstallModule, agent: str, ledger: dict[str, Any]
) -> list[SettingsChange]:
    """The plans with the hooks that are put in trusted, in the file where Codex keeps which of them a person trusts."""
    if agent != "codex":
        raise UserError(f"{module.TITLE} runs hooks without being told to trust them", f"hardwon install {agent}")
    hooks = hook_trust.list_hooks(module.get_settings_path(), plans[0].new_text, is_hardwon_hook)
    plan = _find_plan(plans, os.path.realpath(module.get_mcp_path()), ledger)
    with _report_edit_errors(plan.path, f"hardwon install {agent} --trust"):
        new_text, created_paths = hook_trust.grant_trust(plan.new_text, hooks, plan.created_paths.get("trust", []))
    plan = replace(plan, new_text=new_text, created_paths={**plan.created_paths, "trust": created_paths})
    return [*(other for other in plans if other.path != plan.path), plan]


def _find_plan(plans: list[SettingsChange], path: str, ledger: dict[str, Any]) -> SettingsChange:
    """The plan for a file, which may be one that has the hooks."""
    old_text = _read(path)
    untouched = SettingsChange(path, old_text, old_text, _select_created_paths(ledger.get(path, {})), False)
    return next((plan for plan in plans if plan.path == path), untouched)


def _select_created_paths(entry: dict[str, Any]) -> dict[str, CreatedPaths]:
    return {name: entry[name] for name in ("made", "mcp", "trust") if name in entry}


@contextmanager
def _report_edit_errors(path: str, retry_command: str) -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        raise UserError(f"{path} {error}", f"mend it, then: {retry_command}") from None


@click.command()
@click.argument("agent", type=_AGENT_CHOICE, required=False)
@click.option("--project", "here", is_flag=True, help="from this project only")
@click.option("--all", "every", is_flag=True, help="from every agent; stop, and leave only your data")
@click.option("--data", is_flag=True, help="with --all: delete your data, too")
@click.option("--yes", is_flag=True, help="do not ask")
def uninstall(agent: str | None, here: bool, every: bool, data: bool, yes: bool) -> None:
    """Take hardwon's hooks out of an agent's settings; your data stays."""
    require_person("uninstalling")
    if every == bool(agent) or (data and not every):
        raise UserError("say which agent, or --all", "hardwon uninstall claude-code, or hardwon uninstall --all")
    from hardwon.cli import timer

    if agent == TIMER:
        timer.uninstall(paths.get_home())
        return
    if agent:
        remove_hooks(agent, _resolve_settings_path(load_install_module(agent), here), yes=yes)
        server_path = os.path.realpath(load_install_module(agent).get_mcp_path())
        if not here and server_path in read_install_ledger(paths.get_home()):
            remove_hooks(agent, server_path, yes=yes)
        return
    from hardwon.cli.uninstall_all import uninstall_everything

    removals = [partial(remove_hooks, name, path, yes=True) for name, path in list_settings_files(paths.get_home())]
    uninstall_everything(
        [*removals, partial(timer.uninstall, paths.get_home(), quietly=True)], delete_data=data, yes=yes
    )


def remove_hooks(agent: str, path: str, *, yes: bool) -> None:
    """Take our hooks out of one settings file, and our MCP server and the trust in our hooks if we put them there."""
    module, home = load_install_module(agent), paths.get_home()
    old_text = _read(path)
    ledger = read_install_ledger(home)
    entry = ledger.get(path, {})
    covers_hooks = "made" in entry or not entry
    with _report_edit_errors(path, f"hardwon uninstall {agent}"):
        new_text = module.remove_mcp_server(old_text, entry["mcp"]) if "mcp" in entry else old_text
        new_text = hook_trust.revoke_trust(new_text, entry.get("trust", []))
        new_text = module.remove_hooks(new_text, entry.get("made", []), is_hardwon_hook) if covers_hooks else new_text
    if remaining_hooks := module.find_hooks(new_text, is_hardwon_hook) if covers_hooks else {}:
        message = f"{path}: somebody else's hook stands in one entry with ours, in {', '.join(remaining_hooks)}"
        raise UserError(message, f"give theirs an entry of its own, then: hardwon uninstall {agent}")
    if new_text == old_text:
        click.echo(f"nothing of ours in {path}")
        return
    _show_change(path, old_text, new_text)
    if not _confirmed(yes, f"hardwon uninstall {agent} --yes"):
        return
    if not entry.get("existed", True) and new_text.strip() in ("", module.EMPTY_SETTINGS.strip()):
        os.unlink(path)
    else:
        _write_settings(home, agent, path, old_text, new_text)
    ledger.pop(path, None)
    _save_ledger(home, ledger)
    _report_displaced_hooks(agent, path, old_text, new_text)
    click.echo(f"uninstalled from {path}; your data stays in {home}")


def _resolve_settings_path(module: InstallModule, here: bool) -> str:
    """Through links to the file itself, so that a settings file kept elsewhere stays a link."""
    return os.path.realpath(module.get_settings_path(project=projects.find_git_root(os.getcwd()) if here else ""))


def _write_settings(home: str, agent: str, path: str, old_text: str, new_text: str) -> str:
    """Write the settings with the mode they had, after keeping a copy of what they were."""
    backup = ""
    if os.path.exists(path):
        stamp = clock.format_iso(clock.now()).replace(":", "")
        backup = os.path.join(home, "backups", f"{agent}-{os.path.basename(path)}-{stamp}")
        paths.write_private(backup, old_text.encode("utf-8"))
        mode = os.stat(path).st_mode & 0o777
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = 0o600
    if _read(path) != old_text:
        raise UserError(f"{path} changed while you were looking at it", "run the command again")
    paths.replace_file(path, new_text.encode("utf-8"), mode)
    return backup


def _save_ledger(home: str, ledger: dict[str, Any]) -> None:
    paths.write_private(os.path.join(home, paths.INSTALL_LEDGER), json.dumps(ledger, indent=2).encode())
    write_discovery_files(home)
