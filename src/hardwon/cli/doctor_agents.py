"""doctor, of the agents: what is installed in each, whether it answers, and who else is there."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hardwon import paths, projects
from hardwon.agents import AGENT_PACKAGES, json_edit, load_install_module, toml_edit
from hardwon.agents.claude_code import other_hooks
from hardwon.agents.codex import hook_trust
from hardwon.agents.gemini import install
from hardwon.agents.hook_entries import SERVER_NAME
from hardwon.agents.plugin_discovery import is_hardwon_hook
from hardwon.cli.agents import build_hook_command
from hardwon.cli.programs import find_path_fix, find_upgrade_hint, read_version
from hardwon.errors import UserError
from hardwon.store import db, hooks
from hardwon.types import frozen

if TYPE_CHECKING:
    from hardwon.agents import InstallModule

PROBE_ROUNDS = 9
SLOW_FACTOR = 4.0  # times an empty interpreter
RECENT_SESSIONS = 10  # the latest, whose hooks are looked at
TAIL_BYTES = 2_000_000  # bytes of a transcript that are looked at
SLOW_MILLISECONDS = 500.0  # of a person's time, for each call
PROBE_SECONDS = 20.0
_ASKED = " PreToolUse "
_OFF = (False, {"enabled": False})  # what an agent has beside a plugin that is not on


@frozen
class Check:
    """One thing looked at: what was found, and what mends it if it is not well. None: worth knowing, not wrong."""

    name: str
    well: bool | None
    found: str
    fix: str = ""


def check_agents(home: str) -> Iterator[Check]:
    if fix := find_path_fix():
        yield Check("command", None, "hardwon is not on the PATH, so agents cannot call it by name", fix)
    for name in AGENT_PACKAGES:
        yield from _agent(home, name, load_install_module(name))
    yield from _beside(load_install_module("claude-code"))
    yield from _fired(home)


def _agent(home: str, name: str, module: InstallModule) -> Iterator[Check]:
    program, path, mend = shutil.which(module.PROGRAM), module.get_settings_path(), f"hardwon install {name}"
    found: dict[str, list[str]] = {}
    try:
        with open(os.path.realpath(path), encoding="utf-8", opener=paths.open_plain_file) as file:
            found = module.find_hooks(file.read(), is_hardwon_hook)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as wrong:
        yield Check("hooks", False, f"{path}: {wrong}", f"mend it, then: {mend}")
        return
    if not program and not found:
        yield Check(name, None, f"{module.TITLE} is not on the PATH", f"install {module.TITLE}")
        return
    yield _version(name, module, program)
    wanted = module.find_hooks(
        module.add_hooks(module.EMPTY_SETTINGS, build_hook_command(name, home))[0], is_hardwon_hook
    )
    if not found and (plugin := _plugin(name, module)):
        yield Check("hooks", True, f"by the plugin, as {plugin} says")
    elif not found:
        yield Check("hooks", None, f"none in {path}", mend)
    elif found != wanted:
        yield Check("hooks", False, f"those in {path} are another version's", mend)
    else:
        yield Check("hooks", True, f"{len(found)} in {path}")
    if found and name == "codex":
        yield _trust(module)
    if (
        found
        and name == "gemini"
        and (why := install.find_hook_obstacle(_text(path), projects.find_git_root(os.getcwd())))
    ):
        yield Check("trust", None, why, module.NEXT_STEP)
    asked = [command for commands in found.values() for command in commands if _ASKED in command]
    if asked:
        yield try_hook(asked[0], module.PROBE_PAYLOAD, mend)


def _plugin(name: str, module: InstallModule) -> str:
    """Where it stands that the agent has our plugin; empty if it has none."""
    path = module.get_mcp_path() if name == "codex" else module.get_settings_path()
    if name == "gemini":
        folder = os.path.join(os.path.dirname(path), "extensions", SERVER_NAME)
        return folder if os.path.isdir(folder) else ""
    try:
        text = _text(path)
        told = (
            toml_edit.get_value(text, ["plugins"]) if name == "codex" else json_edit.get_value(text, ["enabledPlugins"])
        )
    except (OSError, ValueError):
        return ""
    on = [key for key, value in told.items() if value not in _OFF] if isinstance(told, dict) else []
    return path if any(key.partition("@")[0] == SERVER_NAME for key in on) else ""


def _trust(module: InstallModule) -> Check:
    """Whether Codex runs our hooks: those that nobody trusted it leaves out, and does not say so."""
    config, mend = module.get_mcp_path(), "type /hooks in Codex and trust hardwon's, or: hardwon install codex --trust"
    try:
        text = _text(config)
        wanted = hook_trust.list_hooks(module.get_settings_path(), _text(module.get_settings_path()), is_hardwon_hook)
        left_out = hook_trust.find_distrusted_hooks(text, wanted)
        off = hook_trust.has_hooks_disabled(text)
    except (OSError, ValueError) as wrong:
        return Check("trust", False, f"{config}: {wrong}", "mend it")
    if off:
        return Check("trust", False, f"hooks are switched off in {config}", "hooks = true below [features] there")
    if left_out:
        told = [f"{why}: {', '.join(events)}" for why, events in left_out.items()]
        return Check("trust", False, f"Codex leaves out {'; '.join(told)}", mend)
    return Check("trust", True, f"Codex trusts all {len(wanted)} hooks")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _version(name: str, module: InstallModule, program: str | None) -> Check:
    """Whether the agent is there, and no older than the oldest on which a hold was seen to hold."""
    if not program:
        return Check(name, None, f"{module.TITLE} is not on the PATH", f"install {module.TITLE}")
    if not (version := read_version(program)):
        return Check(name, None, f"{program} does not say which version it is")
    fix = find_upgrade_hint(module, version)
    return Check(name, not fix, f"{program}, version {version}", fix)


def _beside(module: InstallModule) -> Iterator[Check]:
    """Who else remembers for this agent; two that do may say the same twice, or the opposite."""
    local = module.get_settings_path(project=projects.find_git_root(os.getcwd()))
    files = [local, os.path.join(os.path.dirname(local), "settings.json"), module.get_settings_path()]
    found = [(path, _settings(path)) for path in dict.fromkeys(files)]
    for path, settled in found:
        for name, how in other_hooks.find_memory_tools(settled, is_hardwon_hook).items():
            mend = f"/plugin disable {name}, in {module.TITLE}" if how == "plugin" else f"take its hooks out of {path}"
            yield Check("others", None, f"{name} is here as well, by a {how} in {path}", f"if one is enough: {mend}")
    is_here = shutil.which(module.PROGRAM) or any(settled for _, settled in found)
    if is_here and other_hooks.is_auto_memory_on([settled for _, settled in found], os.environ):
        mend = f'if one is enough: "autoMemoryEnabled": false in {module.get_settings_path()}'
        yield Check("auto-memory", None, f"{module.TITLE} keeps notes of its own beside hardwon's", mend)


def _settings(path: str) -> object:
    try:
        with open(path, encoding="utf-8-sig", opener=paths.open_plain_file) as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):  # said with the hooks
        return None


def _fired(home: str) -> Iterator[Check]:
    """What hooks told of the latest sessions, and how long the agent says that they took."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return
    try:
        connection = db.connect(home)
        told = hooks.list_hook_coverage(connection, RECENT_SESSIONS)
        connection.close()
    except (UserError, db.StoreError):  # said with the database
        return
    if not told:
        return
    by_hooks, filled = sum(one.hook_events for one in told), sum(one.transcript_events for one in told)
    fired = sum(1 for one in told if one.hook_events)
    more = f"; {filled} more came from transcripts" if filled else ""
    fix = "" if fired else f"hardwon install {told[0].agent}, then start the agent anew"
    found = f"in {fired} of the last {len(told)} sessions, {by_hooks} events{more}"
    yield Check("hooks fired", True if fired else None, found, fix)
    times = [time for one in told for time in other_hooks.read_hook_durations(_tail(one.transcript), is_hardwon_hook)]
    if times:
        middle = statistics.median(took for _, took in times)
        event, slowest = max(times, key=lambda time: time[1])
        found = f"{middle:.0f} ms in the middle, {slowest:.0f} ms at most ({event}), as the agent timed {len(times)}"
        fits = middle < SLOW_MILLISECONDS
        yield Check("hooks took", True if fits else None, found, "" if fits else "hardwon start")


def _tail(path: str) -> list[bytes]:
    if not os.path.isfile(path):
        return []
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            file.seek(max(os.path.getsize(path) - TAIL_BYTES, 0))
            return file.read(TAIL_BYTES).splitlines()
    except OSError:
        return []


def try_hook(command: str, probe: dict[str, Any], fix: str, timeout: float = PROBE_SECONDS) -> Check:
    """Run the installed command as the agent would, and time it against an empty interpreter in the same run."""
    payload = json.dumps(probe).encode()
    empty = [sys.executable, "-I", "-S", "-c", "pass"]
    hook_times, empty_times = [], []
    for _ in range(PROBE_ROUNDS):
        begun = perf_counter()
        try:
            done = subprocess.run(["/bin/sh", "-c", command], input=payload, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return Check("hook", False, f"the installed command did not answer within {timeout:g} seconds", fix)
        hook_times.append(perf_counter() - begun)
        begun = perf_counter()
        subprocess.run(empty, capture_output=True)
        empty_times.append(perf_counter() - begun)
        try:
            answered = isinstance(json.loads(done.stdout), dict)
        except ValueError:
            answered = False
        if done.returncode != 0 or not answered:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-200:]
            return Check("hook", False, f"the installed command gave no answer: {said}", fix)
    hook, bare = statistics.median(hook_times), statistics.median(empty_times)
    found = f"answers in {hook * 1000:.0f} ms ({hook / bare:.1f} x an empty interpreter)"
    return Check("hook", hook < SLOW_FACTOR * bare, found, "" if hook < SLOW_FACTOR * bare else "hardwon start")
