"""Plan and write changes to agents' settings files: hooks, the MCP server, and trust in Codex.

A ledger in the home records which containers of a settings file hardwon created, so that uninstalling restores every
byte.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hardwon import clock, paths
from hardwon.agents.codex.install import grant_trust, list_hooks, revoke_trust
from hardwon.agents.hook_settings import (
    REMOVED_NOTICE_FILE,
    HookSettings,
    load_settings,
    read_install_ledger,
    write_discovery_files,
)
from hardwon.agents.prompt_origin import HOOK_PATH
from hardwon.agents.settings_files import CreatedPaths, SettingsError, get_value, read_text_file
from hardwon.errors import UserError

_AGENTS_WITH_MESSAGES = ("claude-code", "codex")  # they show a hook's `systemMessage` to the person


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

    `|| :` because Python exits with 2 if the file is missing, which agents read as a denial. AI_AGENT marks every event
    but prompts, so that an agent started from another's shell has guards but cannot speak for a person. If hardwon was
    removed and its hooks were not, a session's start says so, once.
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


def build_server_command(home: str) -> list[str]:
    """Return the command that an agent runs to start hardwon's MCP server."""
    command = [sys.executable, "-I", "-m", "hardwon", "mcp"]
    # Agents start the server with their own environment, so any other home must be in the command itself.
    if home == os.path.expanduser("~/.hardwon"):
        return command
    return ["env", f"HARDWON_HOME={home}", *command]


def plan_install(agent: str, home: str, *, project: str, with_mcp: bool, with_trust: bool) -> list[SettingsChange]:
    """Return a change for each settings file that installing touches; one of them may change nothing."""
    agent_settings, ledger = load_settings(agent), read_install_ledger(home)
    changes: dict[str, SettingsChange] = {}

    def open_change(path: str) -> SettingsChange:
        # Links are followed, so that a settings file kept elsewhere stays a link.
        path = os.path.realpath(path)
        # The MCP server and the trust may be in the file that has the hooks, or in another one.
        return changes.setdefault(path, _read_current(agent, path, ledger))

    for file_settings in agent_settings.files:
        hooks_change = open_change(file_settings.get_settings_path(project=project))
        with _report_edit_errors(hooks_change.path, f"hardwon install {agent}"):
            _add_hooks(hooks_change, file_settings, build_hook_command(agent, home))
    if with_mcp:
        change, command = open_change(agent_settings.get_mcp_path()), build_server_command(home)
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
    text, entry = read_text_file(path), ledger.get(path, {})
    created_paths = {name: entry[name] for name in ("made", "mcp", "trust") if name in entry}
    return SettingsChange(agent, path, text, text, created_paths)


def _say_the_same(text: str, other_text: str) -> bool:
    """Return whether two settings differ only in the order of an event's hooks."""
    try:
        return _sort_hooks(text) == _sort_hooks(other_text)
    except ValueError:
        return text == other_text


def _sort_hooks(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = get_value(text) or {}
    hooks = {}
    for event, entries in settings.get("hooks", {}).items():
        hooks[event] = sorted(entries, key=json.dumps) if isinstance(entries, list) else entries
    return {**settings, "hooks": hooks}


def plan_removal(agent: str, home: str, path: str) -> SettingsChange:
    """Return the change that takes hooks, MCP server and trust out of a settings file."""
    agent_settings = load_settings(agent)
    change = _read_current(agent, path, read_install_ledger(home))
    created, new_text = change.created_paths, change.old_text
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
    """Write a settings file with the mode it had, and return the path of a copy of what it was."""
    ledger = read_install_ledger(home)
    existed = ledger.get(change.path, {}).get("existed", os.path.exists(change.path))
    backup, mode = "", 0o600
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
    # A person may edit the file while the question is on the screen; their change must not be lost.
    if read_text_file(change.path) != change.old_text:
        raise UserError(f"{change.path} changed while you were looking at it", "run the command again")
    paths.replace_file(change.path, change.new_text.encode("utf-8"), mode)


def _save_ledger(home: str, ledger: dict[str, Any]) -> None:
    paths.write_private(os.path.join(home, paths.INSTALL_LEDGER), json.dumps(ledger, indent=2).encode())
    write_discovery_files(home)


@contextmanager
def _report_edit_errors(path: str, retry_command: str) -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        raise UserError(f"{path} {error}", f"repair it, then: {retry_command}") from None
