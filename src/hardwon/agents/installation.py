"""Plan and write changes to agents' settings files: hooks, the MCP server, and trust in Codex.

A ledger in the home records which containers of a settings file hardwon created, so that uninstalling restores every
byte.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hardwon import clock, paths, projects
from hardwon.agents import AGENT_NAMES
from hardwon.agents.claude_code.install import find_memory_tools, is_auto_memory_on, read_hook_durations
from hardwon.agents.codex.install import grant_trust, list_hooks, revoke_trust
from hardwon.agents.hook_settings import (
    REMOVED_NOTICE_FILE,
    HookSettings,
    list_hook_files,
    load_settings,
    read_install_ledger,
    write_discovery_files,
)
from hardwon.agents.prompt_origin import HOOK_PATH
from hardwon.agents.settings_files import CreatedPaths, SettingsError, get_value, read_text_file
from hardwon.errors import UserError
from hardwon.store.sessions import HookCoverage

_AGENTS_WITH_MESSAGES = ("claude-code", "codex")  # show a hook's `systemMessage` to the person
# An odd number, so that the median is a run that took place.
_PROBE_ROUNDS = 9
# Twice the longest timeout that hardwon writes for a hook.
_PROBE_SECONDS = 20.0
# Without a worker a hook takes two to three times as long as an empty interpreter; more means that something is wrong.
_SLOW_FACTOR = 4.0  # times an empty interpreter
_SLOW_MILLISECONDS = 500.0
_TAIL_BYTES = 2_000_000  # bytes at the end of a transcript that are searched for hook times
_PROBED_EVENT = " PreToolUse "
_VERSION_PATTERN = re.compile(r"\d+(?:\.\d+)+")


@dataclass(slots=True)
class SettingsChange:
    """A settings file before and after a change, with the containers that hardwon created, by purpose."""

    agent: str
    path: str
    old_text: str
    new_text: str
    created_paths: dict[str, CreatedPaths]
    replaces_hooks: bool = False

    @property
    def is_empty(self) -> bool:
        return self.new_text == self.old_text


def build_hook_command(name: str, home: str) -> Callable[[str], str]:
    """Return a function that gives the command an agent runs for an event.

    The command ends with `|| :` because Python exits with 2 if hook.py is missing, which agents read as a denial. If
    hardwon was removed and its hooks were not, the command for a session's start says so, once.

    An agent that was started from another agent's shell inherits an AI_AGENT that switches hook.py off. The command
    replaces that value, so that lessons and guards still work there. It does not do so for prompts: those come from the
    other agent, and must not count as a person's.
    """

    def format_command(event: str) -> str:
        # `-I -S` leaves out site packages and the environment, which would slow the start and could change what runs.
        arguments = [sys.executable, "-I", "-S", HOOK_PATH, name, event, home]
        prefix = "" if event == "UserPromptSubmit" else f"AI_AGENT={name}_hook "
        notice = ""
        if event == "SessionStart" and name in _AGENTS_WITH_MESSAGES:
            notice = f"|| sh {shlex.quote(os.path.join(home, REMOVED_NOTICE_FILE))} "
        return f"{prefix}{shlex.join(arguments)} {notice}|| :"

    return format_command


def _build_server_command(home: str) -> list[str]:
    """Return the command that an agent runs to start hardwon's MCP server."""
    command = [sys.executable, "-I", "-m", "hardwon", "mcp"]
    # Agents start the server with their own environment, so any other home must be in the command itself.
    if home == os.path.expanduser("~/.hardwon"):
        return command
    return ["env", f"HARDWON_HOME={home}", *command]


def plan_install(agent: str, home: str, *, project: str, with_mcp: bool, with_trust: bool) -> list[SettingsChange]:
    """Return a change for each settings file that installing touches; one of them may change nothing."""
    agent_settings = load_settings(agent)
    ledger = read_install_ledger(home)
    changes: dict[str, SettingsChange] = {}

    def open_change(path: str) -> SettingsChange:
        """Return the change of a file, the same one whenever it is asked for."""
        # Links are followed, so that a settings file kept elsewhere stays a link.
        path = os.path.realpath(path)
        # The MCP server and the trust may be in the file that has the hooks, or in another one.
        return changes.setdefault(path, _read_current(agent, path, ledger))

    for file_settings in agent_settings.files:
        hooks_change = open_change(file_settings.get_settings_path(project=project))
        with _report_edit_errors(hooks_change.path, f"hardwon install {agent}"):
            _add_hooks(hooks_change, file_settings, build_hook_command(agent, home))
    if with_mcp:
        change = open_change(agent_settings.get_mcp_path())
        command = _build_server_command(home)
        with _report_edit_errors(change.path, f"hardwon install {agent} --mcp"):
            if agent_settings.find_mcp_command(change.new_text) != command:
                stripped_text = agent_settings.remove_mcp_server(change.new_text, change.created_paths.get("mcp", []))
                change.new_text, change.created_paths["mcp"] = agent_settings.add_mcp_server(stripped_text, command)
            change.created_paths.setdefault("mcp", [])
    if with_trust:
        if agent != "codex":
            raise UserError(f"{agent_settings.title} needs no trust for hooks", f"hardwon install {agent}")
        change = open_change(agent_settings.get_mcp_path())
        hooks = list_hooks(agent_settings.get_settings_path(), hooks_change.new_text)
        with _report_edit_errors(change.path, f"hardwon install {agent} --trust"):
            trusted_paths = change.created_paths.get("trust", [])
            change.new_text, change.created_paths["trust"] = grant_trust(change.new_text, hooks, trusted_paths)
    return list(changes.values())


def _add_hooks(change: SettingsChange, agent_settings: HookSettings, build_command: Callable[[str], str]) -> None:
    """Put today's hooks into the change, in place of those of any version that are there."""
    current_text = change.old_text if os.path.exists(change.path) else agent_settings.empty_settings
    stripped_text = agent_settings.remove_hooks(current_text, change.created_paths.get("made", []))
    change.new_text, created_paths = agent_settings.add_hooks(stripped_text, build_command)
    change.replaces_hooks = stripped_text != current_text
    if _say_the_same(change.new_text, current_text):  # installing again must not reorder hooks
        change.new_text = current_text
        change.created_paths.setdefault("made", created_paths)
    else:
        change.created_paths["made"] = created_paths


def _read_current(agent: str, path: str, ledger: dict[str, Any]) -> SettingsChange:
    """Return a change of this file that changes nothing yet, with the containers that hardwon created in it before."""
    text = read_text_file(path)
    entry = ledger.get(path, {})
    created_paths = {name: entry[name] for name in ("made", "mcp", "trust") if name in entry}
    return SettingsChange(agent, path, text, text, created_paths)


def _say_the_same(text: str, other_text: str) -> bool:
    """Return whether two settings differ only in the order of an event's hooks."""
    try:
        return _sort_hooks(text) == _sort_hooks(other_text)
    except ValueError:
        return text == other_text


def _sort_hooks(text: str) -> dict[str, Any]:
    """Return settings with the hooks of each event in an order that does not depend on the file."""
    settings: dict[str, Any] = get_value(text) or {}
    hooks = {}
    for event, entries in settings.get("hooks", {}).items():
        hooks[event] = sorted(entries, key=json.dumps) if isinstance(entries, list) else entries
    return {**settings, "hooks": hooks}


def plan_removal(agent: str, home: str, path: str) -> SettingsChange:
    """Return the change that takes hooks, MCP server and trust out of a settings file."""
    agent_settings = load_settings(agent)
    change = _read_current(agent, path, read_install_ledger(home))
    created = change.created_paths
    new_text = change.old_text
    remaining_hooks: dict[str, list[str]] = {}
    with _report_edit_errors(path, f"hardwon uninstall {agent}"):
        if "mcp" in created:
            new_text = agent_settings.remove_mcp_server(new_text, created["mcp"])
        new_text = revoke_trust(new_text, created.get("trust", []))
        # An empty ledger entry means that an older hardwon installed the hooks, or that the ledger was lost.
        if "made" in created or not created:  # a file that only has the server may be of another format
            new_text = agent_settings.remove_hooks(new_text, created.get("made", []))
            remaining_hooks = agent_settings.find_hooks(new_text)
    if remaining_hooks:
        message = f"{path}: another hook shares an entry with hardwon's, in {', '.join(remaining_hooks)}"
        raise UserError(message, f"give it an entry of its own, then: hardwon uninstall {agent}")
    change.new_text = new_text
    return change


def write_change(home: str, change: SettingsChange) -> str:
    """Write a settings file with the mode it had, and return the path of a copy of what it was.

    Empty if there was no file.
    """
    ledger = read_install_ledger(home)
    # As it was before hardwon first wrote the file, so that uninstalling can delete a file of its own.
    existed = ledger.get(change.path, {}).get("existed", os.path.exists(change.path))
    backup = ""
    mode = 0o600
    if os.path.exists(change.path):
        # Every change leaves a copy of the file as it was, since a broken settings file stops the agent.
        stamp = clock.format_iso(clock.now()).replace(":", "")
        backup = os.path.join(home, "backups", f"{change.agent}-{os.path.basename(change.path)}-{stamp}")
        paths.write_private(backup, change.old_text.encode("utf-8"))
        mode = os.stat(change.path).st_mode & 0o777
    else:
        os.makedirs(os.path.dirname(change.path), exist_ok=True)
        if change.new_text.startswith("#!"):  # Cline runs the file itself
            mode = 0o700
    _replace_text(change, mode)
    ledger[change.path] = {"host": change.agent, "existed": existed, **change.created_paths}
    _save_ledger(home, ledger)
    return backup


def write_removal(home: str, change: SettingsChange) -> None:
    """Write a settings file without hardwon; delete one that hardwon created and that holds nothing else."""
    ledger = read_install_ledger(home)
    entry = ledger.pop(change.path, {})
    empty_texts = ("", load_settings(change.agent).empty_settings.strip())
    # A file that was there before stays, even if hardwon's entries were all it held.
    was_there_before = entry.get("existed", True)
    if not was_there_before and change.new_text.strip() in empty_texts:
        os.unlink(change.path)
    else:
        write_change(home, change)
    _save_ledger(home, ledger)


def _replace_text(change: SettingsChange, mode: int) -> None:
    """Write the new text; UserError if somebody changed the file meanwhile."""
    # A person may edit the file while the question is on the screen; their change must not be lost.
    if read_text_file(change.path) != change.old_text:
        raise UserError(f"{change.path} changed while you were looking at it", "run the command again")
    paths.replace_file(change.path, change.new_text.encode("utf-8"), mode)


def _save_ledger(home: str, ledger: dict[str, Any]) -> None:
    """Write the ledger, and the files by which an agent without a path to hardwon finds it."""
    content = json.dumps(ledger, indent=2).encode()
    paths.write_private(os.path.join(home, paths.INSTALL_LEDGER), content)
    write_discovery_files(home)


@contextmanager
def _report_edit_errors(path: str, retry_command: str) -> Iterator[None]:
    """Turn the error of an edit into one that names the file and the command to run again."""
    try:
        yield
    except SettingsError as error:
        raise UserError(f"{path} {error}", f"repair it, then: {retry_command}") from None


OK, FAULT, NOTE = True, False, None  # of a check; a note is worth knowing but not wrong


@dataclass(frozen=True, slots=True)
class Check:
    """A finding and its fix. `is_ok` is OK, FAULT or NOTE."""

    name: str
    is_ok: bool | None
    finding: str
    fix: str = ""


def read_version(program: str) -> str:
    """Return the version that a program prints; empty if it prints none."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    match = _VERSION_PATTERN.search(output)
    return match[0] if match else ""


def find_upgrade_hint(agent_settings: HookSettings, version: str) -> str:
    """Return what to do about an agent that is older than its hooks need; empty if it is new enough.

    Also empty if `version` is, because the agent did not say which it is.
    """
    if not version:
        return ""
    minimum_version = agent_settings.minimum_version
    numbers = tuple(int(number) for number in version.split("."))
    if numbers >= minimum_version:
        return ""
    needed_version = ".".join(str(number) for number in minimum_version)
    return f"hooks are known to work from {needed_version} on: upgrade it"


def find_path_fix() -> str:
    """Return the command that puts hardwon on the PATH, where agents and plugins call it; empty if it is there."""
    if shutil.which("hardwon"):
        return ""
    own_path = os.path.join(os.path.dirname(sys.executable), "hardwon")
    # On a fresh machine the folder is missing; a link of an earlier installation may lead nowhere.
    return f"mkdir -p ~/.local/bin && ln -sf {shlex.quote(own_path)} ~/.local/bin/"


def check_agents(home: str) -> Iterator[Check]:
    """Check every agent that is installed or set up, and whether they can call hardwon by name."""
    if fix := find_path_fix():
        yield Check("command", NOTE, "hardwon is not on the PATH, so agents cannot call it by name", fix)
    has_agent = False
    for name in AGENT_NAMES:
        for check in _check_agent(home, name):
            yield check
            has_agent = True
    if not has_agent:
        titles = ", ".join(load_settings(name).title for name in AGENT_NAMES)
        yield Check("agents", NOTE, "no supported agent on the PATH", f"install one of: {titles}")
    yield from _check_other_tools(load_settings("claude-code"))


def _check_agent(home: str, name: str) -> Iterator[Check]:
    """Check one agent; yield nothing if it is neither installed nor set up."""
    agent_settings = load_settings(name)
    program = shutil.which(agent_settings.program)
    path = agent_settings.get_settings_path()
    install_command = f"hardwon install {name}"
    try:
        texts = list(map(read_text_file, list_hook_files(name)))
        installed_hooks = _find_all_hooks(agent_settings, texts)
    except (UserError, ValueError) as error:
        yield Check("hooks", FAULT, f"{path}: {error}", f"repair it, then: {install_command}")
        return
    if program:
        version = read_version(program)
        fix = find_upgrade_hint(agent_settings, version)
        yield Check(name, not fix, f"{program}, version {version or 'unknown'}", fix)
    elif installed_hooks:
        yield Check(name, NOTE, f"{agent_settings.title} is not on the PATH", f"install {agent_settings.title}")
    else:
        return
    if not installed_hooks:
        if plugin_path := agent_settings.find_plugin():
            yield Check("hooks", OK, f"by the plugin, as {plugin_path} says")
        else:
            yield Check("hooks", NOTE, f"none in {path}", install_command)
        return
    # What installing would write now shows whether the installed hooks are of this version.
    build_command = build_hook_command(name, home)
    expected_texts = []
    for file in agent_settings.files:
        expected_text, _ = file.add_hooks(file.empty_settings, build_command)
        expected_texts.append(expected_text)
    if installed_hooks != _find_all_hooks(agent_settings, expected_texts):
        yield Check("hooks", FAULT, f"those in {path} are another version's", install_command)
    else:
        location = path if len(texts) == 1 else os.path.dirname(path)
        yield Check("hooks", OK, f"{len(installed_hooks)} in {location}")
    if trust := agent_settings.check_trust(texts[0]):
        yield Check("trust", *trust)
    # Run the hook of PreToolUse, for which the agent waits at every call.
    for commands in installed_hooks.values():
        for command in commands:
            if _PROBED_EVENT in command:
                yield try_hook(command, agent_settings.probe_payload, install_command)
                return


def _find_all_hooks(agent_settings: HookSettings, texts: Sequence[str]) -> dict[str, list[str]]:
    """Return our commands in an agent's settings files, by the agent's name of the event."""
    commands_by_event: dict[str, list[str]] = {}
    for text in filter(None, texts):
        commands_by_event |= agent_settings.find_hooks(text)
    return commands_by_event


def _check_other_tools(agent_settings: HookSettings) -> Iterator[Check]:
    """Yield other memory tools for Claude Code; two may tell an agent the same twice, or the opposite."""
    local_path = agent_settings.get_settings_path(project=projects.find_git_root(os.getcwd()))
    project_path = os.path.join(os.path.dirname(local_path), "settings.json")
    # Settings nearer to the project win, as in Claude Code.
    files = dict.fromkeys([local_path, project_path, agent_settings.get_settings_path()])
    settings_by_path = {path: _read_settings(path) for path in files}
    for path, values in settings_by_path.items():
        for name, source in find_memory_tools(values).items():
            fix = f"remove its hooks from {path}"
            if source == "plugin":
                fix = f"/plugin disable {name}, in {agent_settings.title}"
            yield Check("others", NOTE, f"{name} is installed too, by a {source} in {path}", f"if one is enough: {fix}")
    is_present = shutil.which(agent_settings.program) or any(settings_by_path.values())
    if is_present and is_auto_memory_on(list(settings_by_path.values()), os.environ):
        fix = f'if one is enough: "autoMemoryEnabled": false in {agent_settings.get_settings_path()}'
        yield Check("auto-memory", NOTE, f"{agent_settings.title} keeps its own notes as well", fix)


def _read_settings(path: str) -> object:
    """Return the settings in a file; None if it cannot be read."""
    try:
        return json.loads(read_text_file(path).removeprefix("\ufeff"))
    except (UserError, ValueError, RecursionError):  # reported with the hooks
        return None


def check_fired_hooks(coverage: list[HookCoverage]) -> Iterator[Check]:
    """Yield in how many of the latest sessions the hooks fired, and how long the agent says they took."""
    if not coverage:
        return  # no session was recorded yet
    hook_events = sum(session.hook_events for session in coverage)
    transcript_events = sum(session.transcript_events for session in coverage)
    fired_count = sum(1 for session in coverage if session.hook_events)
    finding = f"in {fired_count} of the last {len(coverage)} sessions, {hook_events} events"
    if transcript_events:
        finding += f"; {transcript_events} more came from transcripts"
    if fired_count:
        yield Check("hooks fired", OK, finding)
    else:
        yield Check("hooks fired", NOTE, finding, f"hardwon install {coverage[0].agent}, then restart the agent")
    yield from _check_hook_times(coverage)


def _check_hook_times(coverage: list[HookCoverage]) -> Iterator[Check]:
    """Yield how long our hooks took in these sessions; nothing if no transcript says."""
    durations: list[tuple[str, float]] = []
    for session in coverage:
        if os.path.isfile(session.transcript):
            with open(session.transcript, "rb", opener=paths.open_plain_file) as file:
                file.seek(max(os.path.getsize(session.transcript) - _TAIL_BYTES, 0))
                lines = file.read(_TAIL_BYTES).splitlines()
            # Only Claude Code records how long its hooks took; other transcripts give none.
            durations += read_hook_durations(lines)
    if not durations:
        return  # no transcript says how long they took
    median = statistics.median(milliseconds for _, milliseconds in durations)
    slowest = max(milliseconds for _, milliseconds in durations)
    event = next(event for event, milliseconds in durations if milliseconds == slowest)
    counted = f"{len(durations)} runs timed by the agent"
    finding = f"median {median:.0f} ms, max {slowest:.0f} ms ({event}), {counted}"
    if median < _SLOW_MILLISECONDS:
        yield Check("hook time", OK, finding)
    else:
        yield Check("hook time", NOTE, finding, "hardwon start")


def try_hook(command: str, probe: dict[str, Any], fix: str, timeout: float = _PROBE_SECONDS) -> Check:
    """Run the installed command as the agent would, and time it against an empty interpreter.

    A hook that answers slowly fails the check as well: then it answers by itself, because no worker runs.
    """
    payload = json.dumps(probe).encode()
    empty_command = [sys.executable, "-I", "-S", "-c", "pass"]
    # The hook and an empty interpreter are timed in turns, so that a busy machine slows down both alike.
    hook_times = []
    empty_times = []
    for _ in range(_PROBE_ROUNDS):
        started_at = perf_counter()
        try:
            result = subprocess.run(["/bin/sh", "-c", command], input=payload, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return Check("hook", FAULT, f"the installed command did not answer within {timeout:g} seconds", fix)
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
            return Check("hook", FAULT, f"the installed command gave no answer: {output}", fix)
    hook_median = statistics.median(hook_times)
    empty_median = statistics.median(empty_times)
    finding = f"answers in {hook_median * 1000:.0f} ms ({hook_median / empty_median:.1f} x an empty interpreter)"
    if hook_median < _SLOW_FACTOR * empty_median:
        return Check("hook", OK, finding)
    return Check("hook", FAULT, finding, "hardwon start")
