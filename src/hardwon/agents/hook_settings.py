"""Where an agent keeps its settings, and how hooks and the MCP server stand in them, as a table for each agent.

The defaults are Claude Code's form, `{"hooks": {EVENT: [{"hooks": [{"command": …}]}]}}`, and MCP servers by name in one
object. What an agent does beyond that is a function in its `install` module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from hardwon.agents import settings_files
from hardwon.agents.fields import get_list, get_text
from hardwon.agents.settings_files import SERVER_NAME, SERVERS_KEY, is_hardwon_hook
from hardwon.errors import UserError

if TYPE_CHECKING:
    from hardwon.agents import CreatedPaths, TrustFinding

_COMMAND_SUFFIX = " || :"
_SERVER_PATH = (SERVERS_KEY, SERVER_NAME)


class ServerFormat(Protocol):
    """How MCP servers stand in a settings file."""

    def add_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]: ...
    def remove_server(self, text: str, created_paths: CreatedPaths) -> str: ...
    def find_command(self, text: str) -> list[str]: ...


class HookFormat(Protocol):
    """How hooks stand in a settings file that does not have Claude Code's form."""

    def add_hooks(self, text: str, commands: Mapping[str, str]) -> str: ...
    def remove_hooks(self, text: str) -> str: ...
    def find_hooks(self, text: str) -> dict[str, list[str]]: ...


@dataclass(frozen=True)
class JsonServers:
    """MCP servers by name in the object `mcpServers`."""

    fields: Mapping[str, Any] = field(default_factory=dict)  # of our entry, beside the command

    def add_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        entry = {"command": command[0], "args": [*command[1:]], **self.fields}
        # Replaced and not edited: the command holds paths that change with every upgrade.
        return settings_files.insert_value(settings_files.remove_value(text, _SERVER_PATH), _SERVER_PATH, entry)

    def remove_server(self, text: str, created_paths: CreatedPaths) -> str:
        return settings_files.remove_value(text, _SERVER_PATH, created_paths)

    def find_command(self, text: str) -> list[str]:
        return settings_files.read_server_command(settings_files.get_value(text, _SERVER_PATH))


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
    servers: ServerFormat = field(default_factory=JsonServers)
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
        return [
            replace(self, file_name=name, event_files={}, timeouts={event: self.timeouts[event]})
            for event, name in self.event_files.items()
        ] or [self]

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
            hook = {
                "type": "command",
                "command": commands[event],
                **({"timeout": seconds * self.timeout_unit} if self.has_timeouts else {}),
                **self.hook_fields,
                **self.event_fields.get(event, {}),
            }
            entry = {"hooks": [hook]} if self.has_nested_hooks else hook
            path = [*self.hooks_path, self.event_names.get(event, event)]
            text, new_paths = settings_files.append_value(text, path, entry)
            created_paths += new_paths
        return text, created_paths

    def build_shell_line(self, command: str) -> str:
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
            text = settings_files.remove_children(text, [*self.hooks_path, event], is_hardwon_entry, created_paths)
        return text

    def find_hooks(self, text: str) -> dict[str, list[str]]:
        """Return our commands in these settings, by the agent's name of the event."""
        if self.hook_format:
            return self.hook_format.find_hooks(text)
        hooks = settings_files.get_value(text, self.hooks_path)
        commands_by_event: dict[str, list[str]] = {}
        for event in hooks if isinstance(hooks, dict) else ():
            commands = [command for entry in get_list(hooks, event) for command in self._list_commands(entry)]
            if own_commands := [command for command in commands if is_hardwon_hook(command)]:
                commands_by_event[event] = own_commands
        return commands_by_event

    def _list_commands(self, entry: object) -> list[str]:
        hooks = get_list(entry, "hooks") if self.has_nested_hooks else [entry]
        return [get_text(hook, "command") for hook in hooks]

    def runs_hooks(self, path: str, text: str) -> bool:
        """Return whether the agent runs our hooks, by the settings file at this path."""
        return self.run_checker(path, text) if self.run_checker else bool(self.find_hooks(text))

    def find_plugin(self) -> str:
        """Return the path that shows the agent has hardwon's plugin; empty if it has not."""
        return self.plugin_finder() if self.plugin_finder else ""

    def check_trust(self, text: str) -> TrustFinding | None:
        return self.trust_checker(text) if self.trust_checker else None

    def get_mcp_path(self) -> str:
        if self.mcp_path_finder:
            return self.mcp_path_finder()
        if not self.server_file_name:
            raise UserError(f"hardwon cannot register its MCP server with {self.title}", "leave out --mcp")
        return os.path.join(self.get_folder(), self.server_file_name)

    def add_mcp_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        return self.servers.add_server(text, command)

    def remove_mcp_server(self, text: str, created_paths: CreatedPaths) -> str:
        return self.servers.remove_server(text, created_paths)

    def find_mcp_command(self, text: str) -> list[str]:
        """Return the command that starts our server by these settings; empty if they have none."""
        return self.servers.find_command(text)
