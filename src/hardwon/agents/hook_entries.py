"""Our hooks and our MCP server in JSON that belongs to somebody else: all else in it stays as it was, to the letter.

Most agents keep hooks in the shape that Claude Code has, `{"hooks": {EVENT: [{"hooks": [{"command": …}]}]}}`, and MCP
servers by name in one object; what differs is said in each agent's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardwon.agents import json_edit
from hardwon.agents.fields import get_text

if TYPE_CHECKING:
    from hardwon.agents import CommandPredicate, CreatedPaths

SERVER_NAME = "hardwon"
SERVERS_KEY = "mcpServers"


def add_hook_entries(
    text: str, entries: Mapping[str, Mapping[str, Any]], *, allow_comments: bool = False
) -> tuple[str, CreatedPaths]:
    """The settings with one entry of ours at each of the agent's events, and the containers made for them."""
    created_paths: CreatedPaths = []
    for event, entry in entries.items():
        text, new_paths = json_edit.append_value(
            text, ["hooks", event], {"hooks": [dict(entry)]}, allow_comments=allow_comments
        )
        created_paths.extend(map(list, new_paths))
    return text, created_paths


def remove_hooks(
    text: str, created_paths: CreatedPaths, is_hardwon_hook: CommandPredicate, *, allow_comments: bool = False
) -> str:
    """The settings without our hooks, whichever version of us put them there."""
    for event in find_hooks(text, is_hardwon_hook, allow_comments=allow_comments):
        path = ["hooks", event]
        text = json_edit.remove_elements(
            text,
            path,
            lambda entry: _is_hardwon_entry(entry, is_hardwon_hook),
            created_paths=created_paths,
            allow_comments=allow_comments,
        )
    return text


def find_hooks(text: str, is_hardwon_hook: CommandPredicate, *, allow_comments: bool = False) -> dict[str, list[str]]:
    """Our commands in these settings, by the agent's name of the event."""
    hooks = json_edit.get_value(text, ["hooks"], allow_comments=allow_comments) if text.strip() else None
    commands_by_event: dict[str, list[str]] = {}
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            commands_by_event.setdefault(event, []).extend(
                command for command in _list_commands(entry) if is_hardwon_hook(command)
            )
    return {event: commands for event, commands in commands_by_event.items() if commands}


def _is_hardwon_entry(entry: object, is_hardwon_hook: Callable[[str], bool]) -> bool:
    commands = _list_commands(entry)
    return bool(commands) and all(map(is_hardwon_hook, commands))


def _list_commands(entry: object) -> list[str]:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    listed_hooks = hooks if isinstance(hooks, list) else []
    return [get_text(hook, "command") for hook in listed_hooks if isinstance(hook, dict)]


def add_server_entry(
    text: str, path: Sequence[str], entry: object, *, allow_comments: bool = False
) -> tuple[str, CreatedPaths]:
    """The settings with our MCP server at the path; what stood there under our name is ours, so it goes."""
    text, created_paths = json_edit.insert_value(
        json_edit.remove_value(text, path, allow_comments=allow_comments), path, entry, allow_comments=allow_comments
    )
    return text, [list(created_path) for created_path in created_paths]


def remove_mcp_server(text: str, created_paths: CreatedPaths, *, allow_comments: bool = False) -> str:
    return json_edit.remove_value(
        text, [SERVERS_KEY, SERVER_NAME], created_paths=created_paths, allow_comments=allow_comments
    )


def find_mcp_command(text: str, *, allow_comments: bool = False) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    return read_server_command(json_edit.get_value(text, [SERVERS_KEY, SERVER_NAME], allow_comments=allow_comments))


def read_server_command(server: object) -> list[str]:
    return [str(server.get("command")), *map(str, server.get("args") or ())] if isinstance(server, dict) else []
