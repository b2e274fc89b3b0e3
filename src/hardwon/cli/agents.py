"""install, uninstall"""

from __future__ import annotations

import difflib
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

import hardwon
from hardwon import clock, paths, projects
from hardwon.cli.person import require_person
from hardwon.cli.show import at_terminal, styled
from hardwon.core.jsontext import Misfit, NotJson
from hardwon.errors import UserError
from hardwon.hosts import MODULES, setup
from hardwon.recall import manifest
from hardwon.words import replace, word

if TYPE_CHECKING:
    from hardwon.hosts import Made, Setup

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
TIMER = "timer"
_HOSTS = click.Choice([*MODULES, TIMER])


def command_for(name: str, home: str) -> Callable[[str], str]:
    """What an agent runs for an event. `|| :` because a missing file makes Python exit 2, which agents read as deny."""

    def command(event: str) -> str:
        words = [sys.executable, "-I", "-S", HOOK, name, event, home]
        return f"{shlex.join(words)} || :"

    return command


def is_ours(command: str) -> bool:
    return "/hardwon/hook.py" in command


def server_words(home: str) -> list[str]:
    """What an agent runs to have us as an MCP server; the home is said where it is not the usual one."""
    words = [sys.executable, "-I", "-m", "hardwon", "mcp"]
    return words if home == os.path.expanduser("~/.hardwon") else ["env", f"HARDWON_HOME={home}", *words]


@click.command()
@click.argument("agent", type=_HOSTS)
@click.option("--project", "here", is_flag=True, help="for this project only, in a file that is not committed")
@click.option("--mcp", is_flag=True, help="register hardwon's MCP server with the agent, too")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@click.option("--with", "clockwork", type=click.Choice(["systemd", "launchd", "cron"]), help="for the timer: whose")
@click.option("--yes", is_flag=True, help="do not ask")
def install(agent: str, here: bool, mcp: bool, only_print: bool, clockwork: str | None, yes: bool) -> None:
    """Add hardwon's hooks to an agent's settings; nothing else in them is touched.

    `timer` instead has sessions that were left reflected on every ten minutes, the worker running or not.
    """
    if agent == TIMER:
        from hardwon.cli import timer

        timer.install(paths.home(), clockwork, only_print=only_print, confirmed=partial(_confirmed, yes))
        return
    module, home = setup(agent), paths.home()
    path, ledger = _settings_path(module, here), _ledger(home)
    plans = [_hooks_in(module, agent, path, home, ledger)]
    if mcp:
        plans = _with_server(plans, module, agent, home, ledger)
    if not shutil.which(module.PROGRAM):
        click.echo(f"{module.TITLE} is not on the PATH here; its settings are prepared all the same")
    changes = [plan for plan in plans if plan.after != plan.before]
    for plan in plans:
        if plan not in changes:
            click.echo(f"already installed in {plan.path}")
        _show_change(plan.path, plan.before, plan.after)
    if only_print or not changes:
        return
    if any(plan.replaces for plan in changes):
        require_person("changing hooks that are there")
    if not _confirmed(yes, f"hardwon install {agent}{' --mcp' * mcp} --yes"):
        return
    for plan in changes:
        existed = ledger.get(plan.path, {}).get("existed", os.path.exists(plan.path))
        backup = _write(home, agent, plan.path, plan.before, plan.after)
        ledger[plan.path] = {"host": agent, "existed": existed, **plan.made}
        click.echo(f"installed in {plan.path}" + (f"; the file as it was: {backup}" if backup else ""))
    _keep_ledger(home, ledger)
    manifest.build(home, clock.now())
    click.echo(f"running sessions of {module.TITLE} pick it up when they start anew; try: hardwon doctor")
    if module.THEN:
        click.echo(module.THEN)


@word
class Plan:
    """One file of an agent as it is and as it is to be, and which containers in it are ours, by what they hold."""

    path: str
    before: str
    after: str
    made: dict[str, Made]
    replaces: bool


def _hooks_in(module: Setup, agent: str, path: str, home: str, ledger: dict[str, Any]) -> Plan:
    before, kept = _read(path), ledger.get(path, {})
    with _mendable(path, f"hardwon install {agent}"):
        given = before if os.path.exists(path) else module.EMPTY
        bare = module.uninstall(given, kept.get("made", []), is_ours)
        after, made = module.install(bare, command_for(agent, home))
    return Plan(path, before, after, {**_containers(kept), "made": made}, bare != given)


def _with_server(plans: list[Plan], module: Setup, agent: str, home: str, ledger: dict[str, Any]) -> list[Plan]:
    """The plans with our MCP server in the agent's file for them, which may be the one that has the hooks."""
    path = os.path.realpath(module.mcp_file())
    plan = next((plan for plan in plans if plan.path == path), None)
    if plan is None:
        before = _read(path)
        plan = Plan(path, before, before, _containers(ledger.get(path, {})), False)
    with _mendable(path, f"hardwon install {agent} --mcp"):
        bare = module.remove_mcp(plan.after, plan.made.get("mcp", []))
        after, made = module.add_mcp(bare, server_words(home))
    plan = replace(plan, after=after, made={**plan.made, "mcp": made})
    return [*(other for other in plans if other.path != path), plan]


def _containers(kept: dict[str, Any]) -> dict[str, Made]:
    return {name: kept[name] for name in ("made", "mcp") if name in kept}


@contextmanager
def _mendable(path: str, then: str) -> Iterator[None]:
    try:
        yield
    except (NotJson, Misfit) as wrong:
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
        timer.uninstall(paths.home())
        return
    if agent:
        take_out(agent, _settings_path(setup(agent), here), yes=yes)
        server = os.path.realpath(setup(agent).mcp_file())
        if not here and server in _ledger(paths.home()):
            take_out(agent, server, yes=yes)
        return
    from hardwon.cli.leave import leave

    take_outs = [partial(take_out, name, path, yes=True) for name, path in _places(paths.home())]
    leave([*take_outs, partial(timer.uninstall, paths.home(), quietly=True)], data=data, yes=yes)


def _places(home: str) -> list[tuple[str, str]]:
    """Every agent with each settings file of it that may hold our hooks."""
    usual = [(name, _settings_path(setup(name), here=False)) for name in MODULES]
    noted = [(str(kept["host"]), path) for path, kept in _ledger(home).items() if kept.get("host") in MODULES]
    return list(dict.fromkeys([*usual, *noted]))


def take_out(agent: str, path: str, *, yes: bool) -> None:
    """Take our hooks out of one settings file, and our MCP server if we put it there."""
    module, home = setup(agent), paths.home()
    before = _read(path)
    ledger = _ledger(home)
    kept = ledger.get(path, {})
    with _mendable(path, f"hardwon uninstall {agent}"):
        after = module.remove_mcp(before, kept["mcp"]) if "mcp" in kept else before
        after = module.uninstall(after, kept.get("made", []), is_ours)
    if left := module.installed(after, is_ours):
        say = f"{path}: somebody else's hook stands in one entry with ours, in {', '.join(left)}"
        raise UserError(say, f"give theirs an entry of its own, then: hardwon uninstall {agent}")
    if after == before:
        click.echo(f"nothing of ours in {path}")
        return
    _show_change(path, before, after)
    if not _confirmed(yes, f"hardwon uninstall {agent} --yes"):
        return
    if not kept.get("existed", True) and after.strip() in ("", module.EMPTY.strip()):
        os.unlink(path)
    else:
        _write(home, agent, path, before, after)
    ledger.pop(path, None)
    _keep_ledger(home, ledger)
    click.echo(f"uninstalled from {path}; your data stays in {home}")


def _settings_path(module: Setup, here: bool) -> str:
    """Through links to the file itself, so that a settings file kept elsewhere stays a link."""
    return os.path.realpath(module.settings_file(project=projects.root(os.getcwd()) if here else ""))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as wrong:
        raise UserError(f"{path} cannot be read: {wrong}", "mend or move that file") from None


def _where(wrong: NotJson | Misfit) -> str:
    if isinstance(wrong, NotJson):
        return f"line {wrong.line}, column {wrong.column}: {wrong.say}"
    return str(wrong)


def _show_change(path: str, before: str, after: str) -> None:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=2)
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        styled(line, fg=colour)


def _confirmed(yes: bool, command: str) -> bool:
    if yes:
        return True
    if at_terminal():
        return click.confirm("Make this change?", default=True)
    raise UserError("nothing was changed: this is not a terminal, so nobody can be asked", command)


def _write(home: str, agent: str, path: str, before: str, after: str) -> str:
    """Write the settings with the mode they had, after keeping a copy of what they were."""
    backup = ""
    if os.path.exists(path):
        stamp = clock.iso(clock.now()).replace(":", "")
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


def _ledger(home: str) -> dict[str, Any]:
    """What we did to which settings file, so that it can be undone to the letter."""
    try:
        with open(os.path.join(home, paths.INSTALLED), encoding="utf-8") as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _keep_ledger(home: str, ledger: dict[str, Any]) -> None:
    paths.write_private(os.path.join(home, paths.INSTALLED), json.dumps(ledger, indent=2).encode())
