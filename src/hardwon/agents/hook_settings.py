"""Where an agent keeps its settings, and how hooks and the MCP server stand in them, as a table for each agent.

The defaults are Claude Code's form, `{"hooks": {EVENT: [{"hooks": [{"command": …}]}]}}`, and MCP servers by name in one
object. Another form is a HookFormat or a ServerFormat in the agent's `install` module.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hardwon import paths
from hardwon.agents import AGENT_NAMES, get_package, load_agent
from hardwon.agents.fields import get_list, get_text
from hardwon.agents.prompt_origin import HOOK_PATH
from hardwon.agents.settings_files import (
    SERVER_NAME,
    SERVERS_KEY,
    CreatedPaths,
    append_value,
    get_value,
    insert_value,
    is_hardwon_hook,
    read_server_command,
    remove_children,
    remove_value,
)
from hardwon.errors import UserError

HOOK_LOCATION_FILE = "front-door"
REMOVED_NOTICE_FILE = "removed.sh"
_REMOVED_NOTICE = """\
# Run by the hook of a session's start when hardwon's own hook cannot run: says once that hardwon was removed.
[ -e "$0.said" ] || [ -e {hook} ] && exit 0
: >"$0.said"
echo '{{"systemMessage": "hardwon was removed, but its hooks are still in this agent. Install it again (uv tool install\
 hardwon), or delete the hooks that name hardwon/hook.py from the settings of the agent."}}'"""
HOOKED_SETTINGS_FOLDER = "hooked"
_COMMAND_SUFFIX = " || :"
_SERVER_PATH = (SERVERS_KEY, SERVER_NAME)
TrustFinding = tuple[bool | None, str, str]  # whether hooks run (None: not here), what was found, the fix


class HookFormat(Protocol):
    """How hooks stand in a settings file that does not have Claude Code's form."""

    def add_hooks(self, text: str, commands: Mapping[str, str]) -> str: ...
    def remove_hooks(self, text: str) -> str: ...
    def find_hooks(self, text: str) -> dict[str, list[str]]: ...


class ServerFormat(Protocol):
    """How MCP servers stand in a settings file that does not have Claude Code's form."""

    def add_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]: ...
    def remove_server(self, text: str, created_paths: CreatedPaths) -> str: ...
    def find_command(self, text: str) -> list[str]: ...


@dataclass(frozen=True)
class HookSettings:
    """An agent's settings files."""

    title: str
    program: str
    minimum_version: tuple[int, ...]  # the oldest version on which a hold was seen to work
    timeouts: Mapping[str, int]  # in seconds, by our names of the events
    folder: str
    file_name: str = "settings.json"  # of the hooks
    server_file_name: str = ""  # of the MCP servers; empty if hardwon cannot register its own
    folder_variable: str = ""  # of the environment, which names another folder
    event_names: Mapping[str, str] = field(default_factory=dict)  # those that the agent calls differently
    has_nested_hooks: bool = True  # whether an entry has a list of hooks, or is one
    has_timeouts: bool = True
    timeout_unit: int = 1  # to the second
    is_stderr_shown: bool = False  # to the person; at every call once hardwon is gone
    hook_fields: Mapping[str, Any] = field(default_factory=dict)  # of every entry, beside the command
    empty_settings: str = "{}\n"  # what a new settings file begins as
    next_step: str = ""  # what a person still has to do after installing
    shell_tool: str = "Bash"
    probe_fields: Mapping[str, Any] = field(default_factory=dict)  # of the payload that doctor sends
    event_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of the entry of one event
    project_file_name: str = ""  # of a project's settings that are never committed
    hooks_path: tuple[str, ...] = ("hooks",)  # where the events are in the file
    hook_format: HookFormat | None = None
    event_files: Mapping[str, str] = field(default_factory=dict)  # for agents that have a file for each event
    server_format: ServerFormat | None = None
    server_fields: Mapping[str, Any] = field(default_factory=dict)  # of the server's entry, beside the command
    folder_finder: Callable[[], str] | None = None  # for a folder that a variable alone does not tell
    mcp_path_finder: Callable[[], str] | None = None
    plugin_finder: Callable[[], str] | None = None
    trust_checker: Callable[[str], TrustFinding | None] | None = None
    run_checker: Callable[[str, str], bool] | None = None  # whether the agent runs the hooks that are there

    @property
    def probe_payload(self) -> dict[str, Any]:
        """Return a payload of a harmless call, as the agent would send it."""
        return {
            "session_id": "hardwon-doctor",
            "transcript_path": "",
            "cwd": "/",
            "hook_event_name": self.event_names.get("PreToolUse", "PreToolUse"),
            "tool_name": self.shell_tool,
            "tool_input": {"command": "true", "description": "hardwon doctor"},
            **self.probe_fields,
        }

    @property
    def files(self) -> Sequence[HookSettings]:
        """Return these settings once for each file that hooks stand in: for most agents there is one file."""
        if not self.event_files:
            return [self]
        files = []
        for event, name in self.event_files.items():
            files.append(replace(self, file_name=name, event_files={}, timeouts={event: self.timeouts[event]}))
        return files

    def get_folder(self) -> str:
        if self.folder_finder:
            return self.folder_finder()
        return os.environ.get(self.folder_variable, "") or os.path.expanduser(self.folder)

    def get_settings_path(self, *, project: str = "") -> str:
        """Return the path of the person's settings, or of a project's that are not committed."""
        if project and self.project_file_name:
            return os.path.join(project, self.project_file_name)
        if project:
            message = f"{self.title} has no hooks for one project but in a file that is committed"
            raise UserError(message, "leave out --project; HARDWON_OFF=1 keeps hardwon out of one session")
        return os.path.join(self.get_folder(), self.file_name)

    def add_hooks(self, text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]:
        """Return the settings with one entry of ours for each event, and the containers created for them."""
        commands = {event: self.build_shell_line(build_command(event)) for event in self.timeouts}
        if self.hook_format:
            return self.hook_format.add_hooks(text, commands), []
        created_paths: CreatedPaths = []
        for event, seconds in self.timeouts.items():
            hook: dict[str, Any] = {"type": "command", "command": commands[event]}
            if self.has_timeouts:
                hook["timeout"] = seconds * self.timeout_unit
            hook |= self.hook_fields
            hook |= self.event_fields.get(event, {})
            entry = {"hooks": [hook]} if self.has_nested_hooks else hook
            path = [*self.hooks_path, self.event_names.get(event, event)]
            text, new_paths = append_value(text, path, entry)
            created_paths += new_paths
        return text, created_paths

    def build_shell_line(self, command: str) -> str:
        """Return the command as it stands in the settings; without its errors where the agent shows them."""
        if not self.is_stderr_shown:
            return command
        return f"{command.removesuffix(_COMMAND_SUFFIX)} 2>/dev/null{_COMMAND_SUFFIX}"

    def remove_hooks(self, text: str, created_paths: CreatedPaths) -> str:
        """Return the settings without our hooks, whichever version of hardwon added them."""
        if self.hook_format:
            return self.hook_format.remove_hooks(text)

        def is_hardwon_entry(_: str, entry: object) -> bool:
            commands = self._list_commands(entry)
            # An entry that somebody else's hook shares stays; `plan_removal` reports it.
            return bool(commands) and all(map(is_hardwon_hook, commands))

        for event in self.find_hooks(text):
            text = remove_children(text, [*self.hooks_path, event], is_hardwon_entry, created_paths)
        return text

    def find_hooks(self, text: str) -> dict[str, list[str]]:
        """Return our commands in these settings, by the agent's name of the event."""
        if self.hook_format:
            return self.hook_format.find_hooks(text)
        hooks = get_value(text, self.hooks_path)
        commands_by_event: dict[str, list[str]] = {}
        if not isinstance(hooks, dict):
            return commands_by_event
        for event in hooks:
            commands: list[str] = []
            for entry in get_list(hooks, event):
                commands += filter(is_hardwon_hook, self._list_commands(entry))
            if commands:
                commands_by_event[event] = commands
        return commands_by_event

    def _list_commands(self, entry: object) -> list[str]:
        """Return the commands of one entry below an event."""
        hooks = get_list(entry, "hooks") if self.has_nested_hooks else [entry]
        return [get_text(hook, "command") for hook in hooks]

    def runs_hooks(self, path: str, text: str) -> bool:
        """Return whether the agent runs our hooks, by the settings file at this path."""
        if self.run_checker:
            return self.run_checker(path, text)
        return bool(self.find_hooks(text))

    def find_plugin(self) -> str:
        """Return the path that shows the agent has hardwon's plugin; empty if it has not."""
        return self.plugin_finder() if self.plugin_finder else ""

    def check_trust(self, text: str) -> TrustFinding | None:
        """Return whether the agent trusts the hooks in these settings; None if there is nothing to say about that."""
        return self.trust_checker(text) if self.trust_checker else None

    def get_mcp_path(self) -> str:
        """Return the file of the MCP servers; UserError if hardwon cannot register its own."""
        if self.mcp_path_finder:
            return self.mcp_path_finder()
        if not self.server_file_name:
            raise UserError(f"hardwon cannot register its MCP server with {self.title}", "leave out --mcp")
        return os.path.join(self.get_folder(), self.server_file_name)

    def add_mcp_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        """Return the settings with our server, and the containers created for it."""
        if self.server_format:
            return self.server_format.add_server(text, command)
        entry = {"command": command[0], "args": [*command[1:]], **self.server_fields}
        # Replaced and not edited: the command holds paths that change with every upgrade.
        text_without_server = remove_value(text, _SERVER_PATH)
        return insert_value(text_without_server, _SERVER_PATH, entry)

    def remove_mcp_server(self, text: str, created_paths: CreatedPaths) -> str:
        if self.server_format:
            return self.server_format.remove_server(text, created_paths)
        return remove_value(text, _SERVER_PATH, created_paths)

    def find_mcp_command(self, text: str) -> list[str]:
        """Return the command that starts our server by these settings; empty if they have none."""
        if self.server_format:
            return self.server_format.find_command(text)
        return read_server_command(get_value(text, _SERVER_PATH))


def load_settings(agent: str) -> HookSettings:
    """Return an agent's settings: built from the table in its package, or as its `install` module has them."""
    package = load_agent(agent)
    if fields := getattr(package, "SETTINGS", None):
        return HookSettings(timeouts=package.EVENT_TIMEOUTS, **fields)
    settings: HookSettings = __import__(f"{get_package(agent)}.install", fromlist=["SETTINGS"]).SETTINGS
    return settings


def read_install_ledger(home: str) -> dict[str, Any]:
    """Return hardwon's changes by settings file, so that they can be undone; none if the ledger is missing."""
    path = os.path.join(home, paths.INSTALL_LEDGER)
    try:
        ledger = json.loads(paths.read_text(path))
    except (OSError, ValueError):
        return {}
    return ledger if isinstance(ledger, dict) else {}


def list_hook_files(agent: str, *, project: str = "") -> list[str]:
    """Return the settings files that may hold our hooks for an agent."""
    settings_paths = [file.get_settings_path(project=project) for file in load_settings(agent).files]
    return [os.path.realpath(path) for path in settings_paths]


def list_settings_files(home: str) -> list[tuple[str, str]]:
    """Return every agent with each of its settings files that may hold our hooks."""
    files = []
    for name in AGENT_NAMES:
        for path in list_hook_files(name):
            files.append((name, path))
    # Only the ledger knows the settings files of projects.
    for path, entry in read_install_ledger(home).items():
        if entry.get("host") in AGENT_NAMES:
            files.append((str(entry["host"]), path))
    return list(dict.fromkeys(files))


def write_discovery_files(home: str) -> None:
    """Write the two files that the script of a plugin reads, by what the settings files say now, and the notice.

    A plugin is a few files in an agent's own folder and does not know where hardwon is. `front-door` has the
    interpreter and the hook, a line each; `hooked/AGENT` lists the settings files that run hardwon's hooks, so that the
    plugin's hooks do nothing.
    """
    _write_if_changed(os.path.join(home, HOOK_LOCATION_FILE), [sys.executable, HOOK_PATH])
    notice_path = os.path.join(home, REMOVED_NOTICE_FILE)
    _write_if_changed(notice_path, [_REMOVED_NOTICE.format(hook=shlex.quote(HOOK_PATH))])
    with suppress(FileNotFoundError):
        os.unlink(f"{notice_path}.said")
    hooked_files = [(name, path) for name, path in list_settings_files(home) if _runs_hooks(name, path)]
    for name in AGENT_NAMES:
        agent_files = [path for agent, path in hooked_files if agent == name]
        _write_if_changed(os.path.join(home, HOOKED_SETTINGS_FOLDER, name), agent_files)


def _runs_hooks(name: str, path: str) -> bool:
    """Return whether an agent runs our hooks by this file; one that cannot be read has none."""
    try:
        return load_settings(name).runs_hooks(path, paths.read_text(path))
    except (OSError, ValueError):
        return False


def _write_if_changed(path: str, lines: list[str]) -> None:
    """Write a file in the home, unless it has these lines already."""
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            if file.read() == content:
                return  # a file that stays as it is need not be written at every start
    except OSError:
        pass
    paths.write_private(path, content)
