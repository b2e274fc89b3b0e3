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
from hardwon.agents import AGENT_PACKAGES, load_install_module
from hardwon.agents.claude_code.install import find_memory_tools, is_auto_memory_on, read_hook_durations
from hardwon.agents.codex import hook_trust
from hardwon.agents.gemini import install
from hardwon.agents.settings_files import SERVER_NAME, get_value, is_hardwon_hook
from hardwon.cli.agents import build_hook_command
from hardwon.cli.programs import find_path_fix, find_upgrade_hint, read_version
from hardwon.errors import UserError
from hardwon.store import db, sessions
from hardwon.types import frozen

if TYPE_CHECKING:
    from hardwon.agents import InstallModule

PROBE_ROUNDS = 9
SLOW_FACTOR = 4.0  # times an empty interpreter
RECENT_SESSIONS = 10  # the latest, whose hooks are looked at
TAIL_BYTES = 2_000_000  # bytes of a transcript that are looked at
SLOW_MILLISECONDS = 500.0  # of a person's time, for each call
PROBE_SECONDS = 20.0
_PROBED_EVENT = " PreToolUse "
_DISABLED_VALUES = (False, {"enabled": False})  # what an agent has beside a plugin that is not on


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
        yield from _check_agent(home, name, load_install_module(name))
    yield from _check_other_tools(load_install_module("claude-code"))
    yield from _check_fired_hooks(home)


def _check_agent(home: str, name: str, module: InstallModule) -> Iterator[Check]:
    program, path, install_command = shutil.which(module.PROGRAM), module.get_settings_path(), f"hardwon install {name}"
    installed_hooks: dict[str, list[str]] = {}
    try:
        with open(os.path.realpath(path), encoding="utf-8", opener=paths.open_plain_file) as file:
            installed_hooks = module.find_hooks(file.read(), is_hardwon_hook)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        yield Check("hooks", False, f"{path}: {error}", f"mend it, then: {install_command}")
        return
    if not program and not installed_hooks:
        yield Check(name, None, f"{module.TITLE} is not on the PATH", f"install {module.TITLE}")
        return
    yield _check_version(name, module, program)
    expected_hooks = module.find_hooks(
        module.add_hooks(module.EMPTY_SETTINGS, build_hook_command(name, home))[0], is_hardwon_hook
    )
    if not installed_hooks and (plugin_path := _find_plugin(name, module)):
        yield Check("hooks", True, f"by the plugin, as {plugin_path} says")
    elif not installed_hooks:
        yield Check("hooks", None, f"none in {path}", install_command)
    elif installed_hooks != expected_hooks:
        yield Check("hooks", False, f"those in {path} are another version's", install_command)
    else:
        yield Check("hooks", True, f"{len(installed_hooks)} in {path}")
    if installed_hooks and name == "codex":
        yield _check_trust(module)
    if (
        installed_hooks
        and name == "gemini"
        and (obstacle := install.find_hook_obstacle(_read_text(path), projects.find_git_root(os.getcwd())))
    ):
        yield Check("trust", None, obstacle, module.NEXT_STEP)
    probed_commands = [
        command for commands in installed_hooks.values() for command in commands if _PROBED_EVENT in command
    ]
    if probed_commands:
        yield try_hook(probed_commands[0], module.PROBE_PAYLOAD, install_command)


def _find_plugin(name: str, module: InstallModule) -> str:
    """Where it stands that the agent has our plugin; empty if it has none."""
    path = module.get_mcp_path() if name == "codex" else module.get_settings_path()
    if name == "gemini":
        folder = os.path.join(os.path.dirname(path), "extensions", SERVER_NAME)
        return folder if os.path.isdir(folder) else ""
    try:
        text = _read_text(path)
        plugins = (
            hook_trust.get_toml_value(text, ["plugins"]) if name == "codex" else get_value(text, ["enabledPlugins"])
        )
    except (OSError, ValueError):
        return ""
    enabled_keys = (
        [key for key, value in plugins.items() if value not in _DISABLED_VALUES] if isinstance(plugins, dict) else []
    )
    return path if any(key.partition("@")[0] == SERVER_NAME for key in enabled_keys) else ""


def _check_trust(module: InstallModule) -> Check:
    """Whether Codex runs our hooks: those that nobody trusted it leaves out, and does not say so."""
    config_path, fix = (
        module.get_mcp_path(),
        "type /hooks in Codex and trust hardwon's, or: hardwon install codex --trust",
    )
    try:
        text = _read_text(config_path)
        expected_hooks = hook_trust.list_hooks(
            module.get_settings_path(), _read_text(module.get_settings_path()), is_hardwon_hook
        )
        distrusted_hooks = hook_trust.find_distrusted_hooks(text, expected_hooks)
        is_disabled = hook_trust.has_hooks_disabled(text)
    except (OSError, ValueError) as error:
        return Check("trust", False, f"{config_path}: {error}", "mend it")
    if is_disabled:
        return Check("trust", False, f"hooks are switched off in {config_path}", "hooks = true below [features] there")
    if distrusted_hooks:
        reasons = [f"{reason}: {', '.join(events)}" for reason, events in distrusted_hooks.items()]
        return Check("trust", False, f"Codex leaves out {'; '.join(reasons)}", fix)
    return Check("trust", True, f"Codex trusts all {len(expected_hooks)} hooks")


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _check_version(name: str, module: InstallModule, program: str | None) -> Check:
    """Whether the agent is there, and no older than the oldest on which a hold was seen to hold."""
    if not program:
        return Check(name, None, f"{module.TITLE} is not on the PATH", f"install {module.TITLE}")
    if not (version := read_version(program)):
        return Check(name, None, f"{program} does not say which version it is")
    fix = find_upgrade_hint(module, version)
    return Check(name, not fix, f"{program}, version {version}", fix)


def _check_other_tools(module: InstallModule) -> Iterator[Check]:
    """Who else remembers for this agent; two that do may say the same twice, or the opposite."""
    local_path = module.get_settings_path(project=projects.find_git_root(os.getcwd()))
    files = [local_path, os.path.join(os.path.dirname(local_path), "settings.json"), module.get_settings_path()]
    path_settings = [(path, _read_settings(path)) for path in dict.fromkeys(files)]
    for path, settings in path_settings:
        for name, source in find_memory_tools(settings, is_hardwon_hook).items():
            fix = (
                f"/plugin disable {name}, in {module.TITLE}" if source == "plugin" else f"take its hooks out of {path}"
            )
            yield Check("others", None, f"{name} is here as well, by a {source} in {path}", f"if one is enough: {fix}")
    is_present = shutil.which(module.PROGRAM) or any(settings for _, settings in path_settings)
    if is_present and is_auto_memory_on([settings for _, settings in path_settings], os.environ):
        fix = f'if one is enough: "autoMemoryEnabled": false in {module.get_settings_path()}'
        yield Check("auto-memory", None, f"{module.TITLE} keeps notes of its own beside hardwon's", fix)


def _read_settings(path: str) -> object:
    try:
        with open(path, encoding="utf-8-sig", opener=paths.open_plain_file) as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):  # said with the hooks
        return None


def _check_fired_hooks(home: str) -> Iterator[Check]:
    """What hooks told of the latest sessions, and how long the agent says that they took."""
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return
    try:
        connection = db.connect(home)
        coverage = sessions.list_hook_coverage(connection, RECENT_SESSIONS)
        connection.close()
    except (UserError, db.StoreError):  # said with the database
        return
    if not coverage:
        return
    hook_event_count, transcript_event_count = (
        sum(session.hook_events for session in coverage),
        sum(session.transcript_events for session in coverage),
    )
    fired_count = sum(1 for session in coverage if session.hook_events)
    transcript_note = f"; {transcript_event_count} more came from transcripts" if transcript_event_count else ""
    fix = "" if fired_count else f"hardwon install {coverage[0].agent}, then start the agent anew"
    finding = f"in {fired_count} of the last {len(coverage)} sessions, {hook_event_count} events{transcript_note}"
    yield Check("hooks fired", True if fired_count else None, finding, fix)
    durations = [
        duration
        for session in coverage
        for duration in read_hook_durations(_read_tail(session.transcript), is_hardwon_hook)
    ]
    if durations:
        median = statistics.median(milliseconds for _, milliseconds in durations)
        event, slowest = max(durations, key=lambda duration: duration[1])
        finding = (
            f"{median:.0f} ms in the middle, {slowest:.0f} ms at most ({event}), as the agent timed {len(durations)}"
        )
        fits = median < SLOW_MILLISECONDS
        yield Check("hooks took", True if fits else None, finding, "" if fits else "hardwon start")


def _read_tail(path: str) -> list[bytes]:
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
    empty_command = [sys.executable, "-I", "-S", "-c", "pass"]
    hook_times, empty_times = [], []
    for _ in range(PROBE_ROUNDS):
        started_at = perf_counter()
        try:
            result = subprocess.run(["/bin/sh", "-c", command], input=payload, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return Check("hook", False, f"the installed command did not answer within {timeout:g} seconds", fix)
        hook_times.append(perf_counter() - started_at)
        started_at = perf_counter()
        subprocess.run(empty_command, capture_output=True)
        empty_times.append(perf_counter() - started_at)
        try:
            has_answer = isinstance(json.loads(result.stdout), dict)
        except ValueError:
            has_answer = False
        if result.returncode != 0 or not has_answer:
            output = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-200:]
            return Check("hook", False, f"the installed command gave no answer: {output}", fix)
    hook_median, empty_median = statistics.median(hook_times), statistics.median(empty_times)
    finding = f"answers in {hook_median * 1000:.0f} ms ({hook_median / empty_median:.1f} x an empty interpreter)"
    return Check(
        "hook",
        hook_median < SLOW_FACTOR * empty_median,
        finding,
        "" if hook_median < SLOW_FACTOR * empty_median else "hardwon start",
    )
