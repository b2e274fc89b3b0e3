"""Our hooks and our MCP server in JSON that belongs to somebody else: all else in it stays as it was, to the letter.

Most agents keep hooks in the shape that Claude Code has, `{"hooks": {EVENT: [{"hooks": [{"command": …}]}]}}`, and MCP
servers by name in one object; what differs is said in each agent's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardwon.agents import json_edit
from hardwon.agents.fields import text_of

if TYPE_CHECKING:
    from hardwon.agents import Made, Ours

SERVER = "hardwon"
SERVERS = "mcpServers"


def add_hooks(text: str, entries: Mapping[str, Mapping[str, Any]], *, comments: bool = False) -> tuple[str, Made]:
    """The settings with one entry of ours at each of the agent's events, and the containers made for them."""
    made: Made = []
    for event, entry in entries.items():
        text, new = json_edit.append(text, ["hooks", event], {"hooks": [dict(entry)]}, comments=comments)
        made.extend(map(list, new))
    return text, made


def uninstall(text: str, made: Made, ours: Ours, *, comments: bool = False) -> str:
    """The settings without our hooks, whichever version of us put them there."""
    for event in installed(text, ours, comments=comments):
        path = ["hooks", event]
        text = json_edit.remove(text, path, lambda entry: _is_ours(entry, ours), made=made, comments=comments)
    return text


def installed(text: str, ours: Ours, *, comments: bool = False) -> dict[str, list[str]]:
    """Our commands in these settings, by the agent's name of the event."""
    hooks = json_edit.get(text, ["hooks"], comments=comments) if text.strip() else None
    found: dict[str, list[str]] = {}
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            found.setdefault(event, []).extend(command for command in _commands(entry) if ours(command))
    return {event: commands for event, commands in found.items() if commands}


def _is_ours(entry: object, ours: Callable[[str], bool]) -> bool:
    commands = _commands(entry)
    return bool(commands) and all(map(ours, commands))


def _commands(entry: object) -> list[str]:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    given = hooks if isinstance(hooks, list) else []
    return [text_of(hook, "command") for hook in given if isinstance(hook, dict)]


def add_server(text: str, path: Sequence[str], entry: object, *, comments: bool = False) -> tuple[str, Made]:
    """The settings with our MCP server at the path; what stood there under our name is ours, so it goes."""
    text, made = json_edit.put(json_edit.take(text, path, comments=comments), path, entry, comments=comments)
    return text, [list(each) for each in made]


def remove_mcp(text: str, made: Made, *, comments: bool = False) -> str:
    return json_edit.take(text, [SERVERS, SERVER], made=made, comments=comments)


def mcp(text: str, *, comments: bool = False) -> list[str]:
    """The command that starts our server, by these settings; empty if they have none."""
    return words_of(json_edit.get(text, [SERVERS, SERVER], comments=comments))


def words_of(server: object) -> list[str]:
    return [str(server.get("command")), *map(str, server.get("args") or ())] if isinstance(server, dict) else []
