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
from hardwon.agents import AGENT_PACKAGES, load_install_module
from hardwon.agents.codex import hook_trust
from hardwon.agents.json_edit import EditConflictError, InvalidJsonError, get_value
from hardwon.agents.plugin_discovery import HOOK_PATH, is_hardwon_hook, write_discovery_files
from hardwon.agents.plugin_discovery import list_settings_files as _places
from hardwon.agents.plugin_discovery import read_install_ledger as _ledger
from hardwon.agents.toml_edit import InvalidTomlError
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
_HOSTS = click.Choice([*AGENT_PACKAGES, TIMER])
_TRUSTED = "Codex trusts these hooks now, exactly as they are; it asks you again if one of them changes"


def build_hook_command(name: str, home: str) -> Callable[[str], str]:
    """What an agent runs for an event. `|| :` because a missing file makes Python exit 2, which agents read as deny.

    An agent that was started from another's shell has guards all the same, but what it is told is no person's word.
    """

    def command(event: str) -> str:
        words = [sys.executable, "-I", "-S", HOOK_PATH, name, event, home]
        mark = "" if event == "UserPromptSubmit" else f"AI_AGENT={name}_hook "
        return f"{mark}{shlex.join(words)} || :"

    return command


def build_server_command(home: str) -> list[str]:
    """What an agent runs to have us as an MCP server; the home is said where it is not the usual one."""
    words = [sys.executable, "-I", "-m", "hardwon", "mcp"]
    return words if home == os.path.expanduser("~/.hardwon") else ["env", f"HARDWON_HOME={home}", *words]


@click.command()
@click.argument("agent", type=_HOSTS)
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
    path, ledger = _settings_path(module, here), _ledger(home)
    plans = [_hooks_in(module, agent, path, home, ledger)]
    if mcp:
        plans = _with_server(plans, module, agent, home, ledger)
    if trust:
        plans = _with_trust(plans, module, agent, ledger)
    _say_program(module)
    changes = [plan for plan in plans if plan.after != plan.old_text]
    for plan in plans:
        if plan not in changes:
            click.echo(f"already installed in {plan.path}")
        _show_change(plan.path, plan.old_text, plan.after)
    if only_print or not changes:
        return
    if trust or any(plan.replaces_hooks for plan in changes):
        require_person("trusting hooks" if trust else "changing hooks that are there")
    if not _confirmed(yes, f"hardwon install {agent}{' --mcp' * mcp}{' --trust' * trust} --yes"):
        return
    for plan in changes:
        existed = ledger.get(plan.path, {}).get("existed", os.path.exists(plan.path))
        backup = _write(home, agent, plan.path, plan.old_text, plan.after)
        ledger[plan.path] = {"host": agent, "existed": existed, **plan.made}
        _keep_ledger(home, ledger)
        click.echo(f"installed in {plan.path}" + (f"; the file as it was: {backup}" if backup else ""))
        _say_moved(agent, plan.path, plan.old_text, plan.after)
    approvals.compile_manifest(home, clock.now())
    click.echo(f"running sessions of {module.TITLE} pick it up when they start anew; try: hardwon doctor")
    if then := _TRUSTED if trust else module.NEXT_STEP:
        click.echo(then)


def _say_program(module: InstallModule) -> None:
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
    after: str
    made: dict[str, CreatedPaths]
    replaces_hooks: bool


def _hooks_in(module: InstallModule, agent: str, path: str, home: str, ledger: dict[str, Any]) -> SettingsChange:
    before, kept = _read(path), ledger.get(path, {})
    with _mendable(path, f"hardwon install {agent}"):
        given = before if os.path.exists(path) else module.EMPTY_SETTINGS
        bare = module.remove_hooks(given, kept.get("made", []), is_hardwon_hook)
        after, made = module.add_hooks(bare, build_hook_command(agent, home))
    if _are_equal(after, given):  # our server or somebody else's hooks would only change places
        after, made = given, kept.get("made", made)
    return SettingsChange(path, before, after, {**_containers(kept), "made": made}, bare != given)


def _are_equal(one: str, other: str) -> bool:
    """Whether they say the same, in whatever order the hooks of an event stand."""
    try:
        return bool(
            _unordered(get_value(one, [], allow_comments=True) or {})
            == _unordered(get_value(other, [], allow_comments=True) or {})
        )
    except ValueError:
        return one == other


def _unordered(settings: dict[str, Any]) -> dict[str, Any]:
    hooks = settings.get("hooks", {}).items()
    ordered = {event: sorted(found, key=json.dumps) if isinstance(found, list) else found for event, found in hooks}
    return {**settings, "hooks": ordered}


def _say_moved(agent: str, path: str, before: str, after: str) -> None:
    """Codex knows a hook by its place in this file; those of others that stood behind ours have another one now."""
    moved = (
        hook_trust.find_displaced_events(path, before, after, is_hardwon_hook)
        if agent == "codex" and path.endswith(".json")
        else []
    )
    if moved:
        click.echo(f"Codex asks you to trust the hooks of others in {', '.join(moved)} again: they have moved")


def _with_server(
    plans: list[SettingsChange], module: InstallModule, agent: str, home: str, ledger: dict[str, Any]
) -> list[SettingsChange]:
    """The plans with our MCP server in the agent's file for them, which may be the one that has the hooks."""
    plan = _plan_of(plans, os.path.realpath(module.get_mcp_path()), ledger)
    after, made, words = plan.after, plan.made.get("mcp", []), build_server_command(home)
    with _mendable(plan.path, f"hardwon install {agent} --mcp"):
        if module.find_mcp_command(after) != words:
            after, made = module.add_mcp_server(module.remove_mcp_server(after, made), words)
    plan = replace(plan, after=after, made={**plan.made, "mcp": made})
    return [*(other for other in plans if other.path != plan.path), plan]


def _with_trust(
    plans: list[SettingsChange], module: InstallModule, agent: str, ledger: dict[str, Any]
) -> list[SettingsChange]:
    """The plans with the hooks that are put in trusted, in the file where Codex keeps which of them a person trusts."""
    if agent != "codex":
        raise UserError(f"{module.TITLE} runs hooks without being told to trust them", f"hardwon install {agent}")
    wanted = hook_trust.list_hooks(module.get_settings_path(), plans[0].after, is_hardwon_hook)
    plan = _plan_of(plans, os.path.realpath(module.get_mcp_path()), ledger)
    with _mendable(plan.path, f"hardwon install {agent} --trust"):
        after, made = hook_trust.grant_trust(plan.after, wanted, plan.made.get("trust", []))
    plan = replace(plan, after=after, made={**plan.made, "trust": made})
    return [*(other for other in plans if other.path != plan.path), plan]


def _plan_of(plans: list[SettingsChange], path: str, ledger: dict[str, Any]) -> SettingsChange:
    """The plan for a file, which may be one that has the hooks."""
    before = _read(path)
    untouched = SettingsChange(path, before, before, _containers(ledger.get(path, {})), False)
    return next((plan for plan in plans if plan.path == path), untouched)


def _containers(kept: dict[str, Any]) -> dict[str, CreatedPaths]:
    return {name: kept[name] for name in ("made", "mcp", "trust") if name in kept}


@contextmanager
def _mendable(path: str, then: str) -> Iterator[None]:
    try:
        yield
    except (InvalidJsonError, InvalidTomlError, EditConflictError) as wrong:
        raise UserError(f"{path} {_where(wrong)}", f"mend it, then: {then}") from None


@click.command()
@click.argument("agent", type=_HOSTS, required=False)
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
        remove_hooks(agent, _settings_path(load_install_module(agent), here), yes=yes)
        server = os.path.realpath(load_install_module(agent).get_mcp_path())
        if not here and server in _ledger(paths.get_home()):
            remove_hooks(agent, server, yes=yes)
        return
    from hardwon.cli.uninstall_all import uninstall_everything

    take_outs = [partial(remove_hooks, name, path, yes=True) for name, path in _places(paths.get_home())]
    uninstall_everything(
        [*take_outs, partial(timer.uninstall, paths.get_home(), quietly=True)], delete_data=data, yes=yes
    )


def remove_hooks(agent: str, path: str, *, yes: bool) -> None:
    """Take our hooks out of one settings file, and our MCP server and the trust in our hooks if we put them there."""
    module, home = load_install_module(agent), paths.get_home()
    before = _read(path)
    ledger = _ledger(home)
    kept = ledger.get(path, {})
    for_hooks = "made" in kept or not kept
    with _mendable(path, f"hardwon uninstall {agent}"):
        after = module.remove_mcp_server(before, kept["mcp"]) if "mcp" in kept else before
        after = hook_trust.revoke_trust(after, kept.get("trust", []))
        after = module.remove_hooks(after, kept.get("made", []), is_hardwon_hook) if for_hooks else after
    if left := module.find_hooks(after, is_hardwon_hook) if for_hooks else {}:
        say = f"{path}: somebody else's hook stands in one entry with ours, in {', '.join(left)}"
        raise UserError(say, f"give theirs an entry of its own, then: hardwon uninstall {agent}")
    if after == before:
        click.echo(f"nothing of ours in {path}")
        return
    _show_change(path, before, after)
    if not _confirmed(yes, f"hardwon uninstall {agent} --yes"):
        return
    if not kept.get("existed", True) and after.strip() in ("", module.EMPTY_SETTINGS.strip()):
        os.unlink(path)
    else:
        _write(home, agent, path, before, after)
    ledger.pop(path, None)
    _keep_ledger(home, ledger)
    _say_moved(agent, path, before, after)
    click.echo(f"uninstalled from {path}; your data stays in {home}")


def _settings_path(module: InstallModule, here: bool) -> str:
    """Through links to the file itself, so that a settings file kept elsewhere stays a link."""
    return os.path.realpath(module.get_settings_path(project=projects.find_git_root(os.getcwd()) if here else ""))


def _where(wrong: InvalidJsonError | InvalidTomlError | EditConflictError) -> str:
    if isinstance(wrong, InvalidJsonError):
        return f"line {wrong.line}, column {wrong.column}: {wrong.message}"
    return str(wrong)


def _write(home: str, agent: str, path: str, before: str, after: str) -> str:
    """Write the settings with the mode they had, after keeping a copy of what they were."""
    backup = ""
    if os.path.exists(path):
        stamp = clock.format_iso(clock.now()).replace(":", "")
        backup = os.path.join(home, "backups", f"{agent}-{os.path.basename(path)}-{stamp}")
        paths.write_private(backup, before.encode("utf-8"))
        mode = os.stat(path).st_mode & 0o777
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = 0o600
    if _read(path) != before:
        raise UserError(f"{path} changed while you were looking at it", "run the command again")
    paths.replace_file(path, after.encode("utf-8"), mode)
    return backup


def _keep_ledger(home: str, ledger: dict[str, Any]) -> None:
    paths.write_private(os.path.join(home, paths.INSTALL_LEDGER), json.dumps(ledger, indent=2).encode())
    write_discovery_files(home)
