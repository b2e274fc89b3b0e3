"""Edit the text of agents' settings files.

People keep these files by hand: loading and dumping one would change its indentation, numbers, escapes and comments.
So an edit inserts or cuts text at one place, and every other character stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from hardwon import paths
from hardwon.agents.fields import get_first_text, get_list, get_object
from hardwon.errors import UserError
from hardwon.types import frozen

CreatedPaths = list[list[str]]  # the containers that an edit of a settings file had to create
SERVER_NAME = "hardwon"
SERVERS_KEY = "mcpServers"
# Claude Code writes a plain false, Codex a table.
_DISABLED_PLUGIN = (False, {"enabled": False})

_BOM = "\ufeff"
_WHITESPACE = re.compile(r"[ \t\r\n]*")
# A string is matched first, so that `//` inside it is not taken for a comment.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*+")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\r\n]")
_NEWLINE = re.compile(r"\r?\n")
_INDENTED_LINE = re.compile(r"\n([ \t]+)[^ \t\r\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DECODER = json.JSONDecoder()


class SettingsError(ValueError):
    """A settings file cannot be read or edited; the message says where and why."""


def is_hardwon_hook(command: str) -> bool:
    # By the end of the path, so that hooks of another version or virtual environment are known as well.
    return "/hardwon/hook.py" in command


def list_hook_commands(settings: object) -> Iterator[tuple[str, str]]:
    """Yield the event and the command, or the address, of every hook in these settings."""
    hooks = get_object(settings, "hooks")
    for event in hooks:
        for entry in get_list(hooks, event):
            for hook in get_list(entry, "hooks"):
                yield event, get_first_text(hook, "command", "url")


def read_server_command(server: object) -> list[str]:
    """Return the command and the arguments of an MCP server's entry; none if it is no entry."""
    if not isinstance(server, dict):
        return []
    return [str(server.get("command")), *map(str, get_list(server, "args"))]


def read_text_file(path: str) -> str:
    """Return a file's text with its line ends as they are; empty if there is no file."""
    try:
        with open(path, encoding="utf-8", newline="", opener=paths.open_plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", "repair or move that file") from None


def has_own_plugin(plugins: object) -> bool:
    """Return whether an agent's plugins, by name, have hardwon's, and it is not switched off."""
    if not isinstance(plugins, dict):
        return False
    for full_name, value in plugins.items():
        name, _, _ = full_name.partition("@")  # `hardwon@MARKETPLACE`
        if name == SERVER_NAME and value not in _DISABLED_PLUGIN:
            return True
    return False


@frozen
class _Child:
    """A value in a JSON text, from the quote of its key (if it has one) to its end."""

    start: int
    value_start: int
    end: int
    key: str
    value: Any


@frozen
class _Style:
    newline: str
    indent_unit: str
    space: str  # after a colon, and after a comma on the same line
    is_multiline: bool  # False: the whole file is one line, and stays one


def get_value(text: str, path: Sequence[str] = ()) -> Any:
    """Return the value at the path of a JSON text, which may have comments; None where there is nothing."""
    nodes = _find_nodes(_mask_comments(text), path)
    return nodes[-1].value if len(nodes) > len(path) else None


def append_value(text: str, path: Sequence[str], value: object) -> tuple[str, CreatedPaths]:
    """Return the text with the value last in the array at the path, and the paths of the containers created for it."""
    masked_text = _mask_comments(text)
    nodes = _find_nodes(masked_text, path)  # the root and a node for each key that is there
    if len(nodes) <= len(path):
        text, created_paths = insert_value(text, path, [value])
        return text, [*created_paths, [*path]]
    if not isinstance(nodes[-1].value, list):
        raise SettingsError(f"{'.'.join(path)} is not an array")
    return _insert_child(text, masked_text, nodes, key="", value=value), []


def insert_value(text: str, path: Sequence[str], value: object) -> tuple[str, CreatedPaths]:
    """Return the text with the value under the last key of the path, and the paths of the containers created for it.

    An empty text counts as `{}`, created at the path `[]`.
    """
    masked_text = _mask_comments(text)
    nodes = _find_nodes(masked_text, path)
    if not nodes:
        # Editors on Windows begin a file with a byte order mark, which must stay the first character.
        bom = _BOM if text.startswith(_BOM) else ""
        text, created_paths = insert_value(f"{bom}{{}}{text.removeprefix(_BOM)}", path, value)
        return text, [[], *created_paths]
    depth = len(nodes) - 1  # so many keys of the path are there
    if not isinstance(nodes[-1].value, dict) or depth == len(path):
        container = ".".join(path[:depth]) or "the file"
        raise SettingsError(f"{container} is not an object that takes another entry")
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    created_paths = [[*path[:end]] for end in range(depth + 1, len(path))]
    return _insert_child(text, masked_text, nodes, key=path[depth], value=value), created_paths


def remove_value(text: str, path: Sequence[str], created_paths: Iterable[Sequence[str]] = ()) -> str:
    """Return a JSON text without the value at a path, and without those of `created_paths` that are empty then."""
    *parent_path, name = path
    return remove_children(text, parent_path, lambda key, _: key == name, created_paths)


def remove_children(
    text: str,
    path: Sequence[str],
    should_remove: Callable[[str, Any], bool],
    created_paths: Iterable[Sequence[str]] = (),
) -> str:
    """Return the text without some children of the object or array at the path, chosen by their key and value.

    A container that this empties goes too if its path is among the created ones.
    """
    masked_text = _mask_comments(text)
    nodes = _find_nodes(masked_text, path)
    if len(nodes) <= len(path):
        return text  # there is nothing at the path
    removable_paths = [list(created_path) for created_path in created_paths]
    children = _list_children(masked_text, nodes[-1])
    remaining = [child for child in children if not should_remove(child.key, child.value)]
    if len(remaining) == len(children):
        return text
    # An empty container that the person had before hardwon came stays.
    while not remaining and [node.key for node in nodes[1:]] in removable_paths:
        emptied = nodes.pop()
        if not nodes:  # the whole file's object is empty
            return text[: emptied.start] + text[emptied.end :]
        children = _list_children(masked_text, nodes[-1])
        remaining = [child for child in children if child != emptied]
    return _cut_children(text, nodes[-1], children, remaining)


def _mask_comments(text: str) -> str:
    """Replace comments by spaces, so that everything else keeps its position."""
    return _STRING_OR_COMMENT.sub(lambda match: match[1] or _NOT_NEWLINE.sub(" ", match[0]), text)


def _find_nodes(text: str, path: Sequence[str]) -> list[_Child]:
    """Return the values along the path, the root first, as far as it leads; none in an empty text."""
    body = text.removeprefix(_BOM)
    if not body.strip():
        return []
    try:
        root_value = json.loads(body)
    except json.JSONDecodeError as error:
        message = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise SettingsError(f"line {error.lineno}, column {error.colno}: {message}") from None
    except RecursionError:
        raise SettingsError("is nested too deeply") from None
    start = _skip_whitespace(text, len(text) - len(body))
    nodes = [_Child(start=start, value_start=start, end=len(text.rstrip()), key="", value=root_value)]
    for key in path:
        children = [child for child in _list_children(text, nodes[-1]) if child.key == key]
        if not children:
            break  # the path leads no further
        nodes.append(children[-1])  # of duplicate keys the last counts, as in JavaScript
    return nodes


def _list_children(text: str, parent: _Child) -> list[_Child]:
    """Return the members of an object or the elements of an array, in a text that is known to be JSON."""
    children: list[_Child] = []
    if not isinstance(parent.value, dict | list):
        return children
    key = ""
    position = _skip_whitespace(text, parent.value_start + 1)
    while text[position] not in "]}":
        value_start = position
        if isinstance(parent.value, dict):
            key, key_end = _DECODER.raw_decode(text, position)
            colon = _skip_whitespace(text, key_end)
            value_start = _skip_whitespace(text, colon + 1)
        value, end = _DECODER.raw_decode(text, value_start)
        children.append(_Child(position, value_start, end, key, value))
        position = _skip_whitespace(text, end)
        if text[position] == ",":
            position = _skip_whitespace(text, position + 1)
    return children


def _skip_whitespace(text: str, position: int) -> int:
    """Return the position of the first character that is not white space."""
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _insert_child(text: str, masked_text: str, nodes: Sequence[_Child], *, key: str, value: object) -> str:
    """Return the text with one more child, last in the last node and written as the child before it.

    In an array the key is empty.
    """
    parent = nodes[-1]
    style = _detect_style(masked_text, nodes[0])
    children = _list_children(masked_text, parent)
    if children:
        last = children[-1]
        previous_end = children[-2].end if len(children) > 1 else parent.value_start
        indent = _get_indent(text, last.start)
        is_on_own_line = "\n" in text[previous_end : last.start]
        is_multiline = is_on_own_line or "\n" in text[last.start : last.end]
        child = _render_child(key, value, style, indent if is_multiline else None)
        gap = style.newline + indent if is_on_own_line else style.space
        return f"{text[: last.end]},{gap}{child}{text[last.end :]}"
    # The white space of an empty container stays in front of the child, where `_cut_children` finds it again: on one
    # line it also follows the child; on several lines it is all that precedes the child's line.
    position = parent.end - 1
    outer_indent = _get_indent(text, parent.start)
    if not style.is_multiline:
        return text[:position] + _render_child(key, value, style, indent=None) + text[parent.value_start + 1 :]
    indent = outer_indent + style.indent_unit
    child = _render_child(key, value, style, indent)
    return f"{text[:position]}{style.newline}{indent}{child}{style.newline}{outer_indent}{text[position:]}"


def _detect_style(text: str, root: _Child) -> _Style:
    """Return how a person wrote this file: its line ends, its indentation, and whether it is one line."""
    newline = _NEWLINE.search(text)
    unit = ""
    if indented_line := _INDENTED_LINE.search(text, root.start, root.end):
        unit = indented_line[1].removeprefix(_get_indent(text, root.start))
    members = _list_children(text, root)
    # `{"a":1}` as jq -c writes it, against `{"a": 1}`.
    is_tight = bool(members) and text[members[0].value_start - 1] == ":"
    return _Style(
        newline=newline[0] if newline else "\n",
        indent_unit=unit or "  ",
        space="" if is_tight else " ",
        is_multiline=not members or "\n" in text[root.start : root.end],
    )


def _render_child(key: str, value: object, style: _Style, indent: str | None) -> str:
    """Return the child as text: on several lines that continue at the indent, or for an indent of None on one."""
    colon = ":" + style.space
    if indent is None:
        rendered = json.dumps(value, separators=("," + style.space, colon), ensure_ascii=False)
    else:
        rendered = json.dumps(value, indent=style.indent_unit, separators=(",", colon), ensure_ascii=False)
    if key:
        rendered = json.dumps(key, ensure_ascii=False) + colon + rendered
    # A file name that is not UTF-8 reaches us with lone surrogates, which no file can hold unescaped.
    rendered = _SURROGATE.sub(lambda surrogate: f"\\u{ord(surrogate[0]):04x}", rendered)
    return rendered.replace("\n", f"{style.newline}{indent}")


def _get_indent(text: str, position: int) -> str:
    """Return the white space with which the line at a position begins."""
    line = text[text.rfind("\n", 0, position) + 1 : position].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _cut_children(text: str, parent: _Child, children: Sequence[_Child], remaining: Sequence[_Child]) -> str:
    """Return the text without the children that do not remain, each with the comma that came with it."""
    first = children[0]
    last = children[-1]
    if not remaining:
        # `_insert_child` put the white space of the empty container in front of the child.
        blank = text[parent.value_start + 1 : first.start]
        newline = _NEWLINE.search(text, last.end, parent.end)
        if newline:
            blank = blank[: max(blank.rfind(newline[0]), 0)]
        return text[: parent.value_start + 1] + blank + text[parent.end - 1 :]
    # The first child that remains takes the place of the first one; behind it each cut begins with a comma.
    result = text[: first.start]
    copy_start = remaining[0].start
    for previous, child in pairwise(children):
        if child not in remaining and child.start > remaining[0].start:
            result += text[copy_start : previous.end]
            copy_start = child.end
    return result + text[copy_start:]
