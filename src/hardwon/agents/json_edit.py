"""Edits of a JSON file that a person keeps by hand.

Loading and dumping such a file would rewrite all of it: indentation, spellings of numbers, escapes, duplicate
keys. So an edit here is text put in at one place or cut out at one place, and all other characters stay. What
`append` puts in is shaped so that `remove` can tell from the text alone which white space was there before.
Comments are white space to an agent that allows them, and so to whoever says `comments` here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal

from hardwon.types import frozen

KeyPath = tuple[str, ...]
NodeKind = Literal["object", "array", "string", "number", "scalar"]

MAX_DEPTH = 200
_BOM = "\ufeff"
_WHITESPACE = re.compile(r"[ \t\r\n]*")
_STRING_BODY = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_BARE_WORD = re.compile(r"[-+.\w]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_COMMENT_START = re.compile(r"//|/\*|#")
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*+")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\r\n]")
_NEWLINE = re.compile(r"\r?\n")
_INDENTED_LINE = re.compile(r"\n([ \t]+)[^ \t\r\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidJsonError(ValueError):
    """The text is not JSON: where, counted from 1 as editors do, and what a person would say about it."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column, self.message = line, column, message


class EditConflictError(ValueError):
    """Something on the path, or at the top level (path `()`), is not of the kind an append needs there."""

    def __init__(self, path: KeyPath, actual: str) -> None:
        super().__init__(f"found {actual} at {'.'.join(path) or 'the top level'}")
        self.path, self.actual = path, actual


@frozen
class Node:
    """One value, and where it stands: `text[start:end]`."""

    kind: NodeKind
    start: int
    end: int
    members: tuple[Member, ...] = ()
    elements: tuple[Node, ...] = ()

    @property
    def children(self) -> Sequence[Node | Member]:
        return self.members or self.elements


@frozen
class Member:
    """A key and its value, from the key's quote to the value's end."""

    key: str
    start: int
    end: int
    value: Node


@frozen
class _Style:
    newline: str
    indent_unit: str
    space: str  # after a colon, and after a comma on the same line
    is_multiline: bool  # False: all of the file is one line, and stays one


def parse_json(text: str) -> Node:
    """The one value in `text`, by RFC 8259 and no looser, but for a byte order mark before it."""
    root = _parse_value(text, _skip_whitespace(text, int(text.startswith(_BOM))), 1)
    if (end := _skip_whitespace(text, root.end)) < len(text):
        raise _build_error(text, end, "expected the end of the text")
    return root


def get_value(text: str, path: Sequence[str], *, allow_comments: bool = False) -> Any:
    """The value at the path, or None where there is nothing."""
    if _is_blank(text):
        return None
    text = _mask_comments(text, allow_comments)
    nodes = _walk_path(parse_json(text), path)
    return json.loads(text[nodes[-1].start : nodes[-1].end]) if len(nodes) > len(path) else None


def append_value(
    text: str, path: Sequence[str], value: object, *, allow_comments: bool = False
) -> tuple[str, tuple[KeyPath, ...]]:
    """The text with `value` last in the array at `path`, and the paths of the containers made for it.

    An empty text counts as `{}`, made at the path `()`. Of duplicate keys the last counts, as in JavaScript.
    """
    path = tuple(path)
    if _is_blank(text):
        text, created_paths = append_value(_insert_empty_object(text), path, value)
        return text, ((), *created_paths)
    masked_text = _mask_comments(text, allow_comments)
    root = parse_json(masked_text)
    nodes, style = _walk_path(root, path), _detect_style(masked_text, root)
    node, depth = nodes[-1], len(nodes) - 1
    if depth < len(path):
        return _insert_at_path(text, style, nodes, path, [value]), _list_created_paths(path, depth, len(path))
    if node.kind != "array":
        raise _build_conflict(text, node, path)
    return _insert_child(text, node, None, value, style), ()


def insert_value(
    text: str, path: Sequence[str], value: object, *, allow_comments: bool = False
) -> tuple[str, tuple[KeyPath, ...]]:
    """The text with `value` under the last key of `path`, where nothing may stand, and the containers made for it."""
    path = tuple(path)
    if _is_blank(text):
        text, created_paths = insert_value(_insert_empty_object(text), path, value)
        return text, ((), *created_paths)
    masked_text = _mask_comments(text, allow_comments)
    root = parse_json(masked_text)
    nodes = _walk_path(root, path)
    depth = len(nodes) - 1
    if depth == len(path):
        raise _build_conflict(text, nodes[-1], path)
    return _insert_at_path(text, _detect_style(masked_text, root), nodes, path, value), _list_created_paths(
        path, depth, len(path) - 1
    )


def remove_value(
    text: str, path: Sequence[str], *, created_paths: Iterable[Sequence[str]] = (), allow_comments: bool = False
) -> str:
    """The text without what stands at `path`, and without the containers in `made` that this empties."""
    if _is_blank(text):
        return text
    path = tuple(path)
    nodes = _walk_path(parse_json(_mask_comments(text, allow_comments)), path)
    if len(nodes) <= len(path):
        return text
    return _prune_children(text, nodes[:-1], path[:-1], _list_other_indexes(nodes[-2], nodes[-1]), created_paths)


def remove_elements(
    text: str,
    path: Sequence[str],
    should_remove: Callable[[Any], bool],
    *,
    created_paths: Iterable[Sequence[str]] = (),
    allow_comments: bool = False,
) -> str:
    """The text without those elements of the array at `path` that `drop` names; no such array, no change.

    A container this empties goes too if its path is in `made`: hand in what all the appends gave, joined, and
    they can be undone in any order.
    """
    if _is_blank(text):
        return text
    path, masked_text = tuple(path), _mask_comments(text, allow_comments)
    nodes = _walk_path(parse_json(masked_text), path)
    node, depth = nodes[-1], len(nodes) - 1
    if depth < len(path) or node.kind != "array":
        return text
    kept_indexes = [
        i
        for i, element in enumerate(node.elements)
        if not should_remove(json.loads(masked_text[element.start : element.end]))
    ]
    if len(kept_indexes) == len(node.elements):
        return text
    return _prune_children(text, nodes, path, kept_indexes, created_paths)


def _mask_comments(text: str, allow_comments: bool) -> str:
    """The text with spaces for comments, so that everything in it stands where it stood."""
    if not allow_comments:
        return text
    return _STRING_OR_COMMENT.sub(lambda match: match[1] or _NOT_NEWLINE.sub(" ", match[0]), text)


def _insert_empty_object(text: str) -> str:
    bom = int(text.startswith(_BOM))
    return f"{text[:bom]}{{}}{text[bom:]}"


def _list_created_paths(path: KeyPath, first: int, last: int) -> tuple[KeyPath, ...]:
    return tuple(path[:end] for end in range(first + 1, last + 1))


def _build_conflict(text: str, node: Node, path: KeyPath) -> EditConflictError:
    return EditConflictError(path, text[node.start : node.end] if node.kind == "scalar" else node.kind)


def _insert_at_path(text: str, style: _Style, nodes: Sequence[Node], path: KeyPath, value: object) -> str:
    """The text with `value` at the path, of which only the first nodes are there."""
    parent, depth = nodes[-1], len(nodes) - 1
    if parent.kind != "object":
        raise _build_conflict(text, parent, path[:depth])
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert_child(text, parent, path[depth], value, style)


def _list_other_indexes(parent: Node, removed: Node) -> list[int]:
    return [i for i, member in enumerate(parent.members) if member.value.start != removed.start]


def _prune_children(
    text: str, nodes: Sequence[Node], path: KeyPath, kept_indexes: list[int], created_paths: Iterable[Sequence[str]]
) -> str:
    """The text with only the kept children in the last node; one that is left empty goes with it if it was made."""
    node, depth, removable_paths = nodes[-1], len(nodes) - 1, {tuple(created_path) for created_path in created_paths}
    while not kept_indexes and path[:depth] in removable_paths:
        if depth == 0:
            return text[: node.start] + text[node.end :]
        emptied, node, depth = node, nodes[depth - 1], depth - 1
        kept_indexes = _list_other_indexes(node, emptied)
    return _remove_children(text, node, kept_indexes)


def _is_blank(text: str) -> bool:
    return not text.removeprefix(_BOM).strip(" \t\r\n")


def _walk_path(root: Node, path: Sequence[str]) -> list[Node]:
    """The values along the path, the root first, as far as it leads."""
    nodes = [root]
    for key in path:
        values = [member.value for member in nodes[-1].members if member.key == key]
        if not values:
            break
        nodes.append(values[-1])
    return nodes


def _detect_style(text: str, root: Node) -> _Style:
    newline = match[0] if (match := _NEWLINE.search(text)) else "\n"
    indent = match[1] if (match := _INDENTED_LINE.search(text, root.start, root.end)) else ""
    space = "" if root.members and text[root.members[0].value.start - 1] == ":" else " "
    is_multiline = not root.members or "\n" in text[root.start : root.end]
    return _Style(newline, indent.removeprefix(_get_indent(text, root.start)) or "  ", space, is_multiline)


def _insert_child(text: str, parent: Node, key: str | None, value: object, style: _Style) -> str:
    """The text with one more child, last in `into` and written as the child before it."""
    children = parent.children
    if children:
        previous_end, last = children[-2].end if len(children) > 1 else parent.start, children[-1]
        indent = _get_indent(text, last.start)
        is_own_line = "\n" in text[previous_end : last.start]
        is_multiline = is_own_line or "\n" in text[last.start : last.end]
        gap = style.newline + indent if is_own_line else style.space
        child = _render_child(key, value, style, indent if is_multiline else None)
        return f"{text[: last.end]},{gap}{child}{text[last.end :]}"
    # The white space W of an empty container stays in front, and `_cut` finds it again: on one line W also
    # follows the child, so W is what stands before it; on several, W is what stands before the child's line.
    position, outer_indent = parent.end - 1, _get_indent(text, parent.start)
    if not style.is_multiline:
        return text[:position] + _render_child(key, value, style, None) + text[parent.start + 1 :]
    child = style.indent_unit + _render_child(key, value, style, outer_indent + style.indent_unit)
    return f"{text[:position]}{style.newline}{outer_indent}{child}{style.newline}{outer_indent}{text[position:]}"


def _remove_children(text: str, parent: Node, kept_indexes: Collection[int]) -> str:
    """The text without the other children, each with the comma that came with it."""
    children = parent.children
    first, last = children[0], children[-1]
    if not kept_indexes:
        blank = text[parent.start + 1 : first.start]
        newline = _NEWLINE.search(text, last.end, parent.end)
        if newline:
            blank = blank[: max(blank.rfind(newline[0]), 0)]
        return text[: parent.start + 1] + blank + text[parent.end - 1 :]
    result, copy_start = text[: first.start], children[min(kept_indexes)].start
    for i in range(min(kept_indexes) + 1, len(children)):
        if i not in kept_indexes:
            result += text[copy_start : children[i - 1].end]
            copy_start = children[i].end
    return result + text[copy_start:]


def _render_child(key: str | None, value: object, style: _Style, indent: str | None) -> str:
    """The child as text: on one line, or on several that continue at `indent`."""
    colon = ":" + style.space
    comma, unit = ("," + style.space, None) if indent is None else (",", style.indent_unit)
    rendered = json.dumps(value, indent=unit, separators=(comma, colon), ensure_ascii=False, allow_nan=False)
    if key is not None:
        rendered = json.dumps(key, ensure_ascii=False) + colon + rendered
    # a file name that is not UTF-8 reaches us with lone surrogates, which no file can hold unescaped
    rendered = _SURROGATE.sub(lambda surrogate: f"\\u{ord(surrogate[0]):04x}", rendered)
    return rendered.replace("\n", f"{style.newline}{indent}")


def _get_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _parse_value(text: str, position: int, depth: int) -> Node:
    if text.startswith(("{", "["), position):
        return _parse_container(text, position, depth)
    if text.startswith('"', position):
        return Node("string", position, _find_string_end(text, position))
    word = _BARE_WORD.match(text, position)
    if word and _NUMBER.fullmatch(word[0]):
        return Node("number", position, word.end())
    if word and word[0] in ("true", "false", "null"):
        return Node("scalar", position, word.end())
    raise _build_error(text, position, f"{word[0]} is not JSON" if word else "expected a value")


def _parse_container(text: str, start: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise _build_error(text, start, f"nested deeper than {MAX_DEPTH}")
    close = "}" if text[start] == "{" else "]"
    members: list[Member] = []
    elements: list[Node] = []
    position = _skip_whitespace(text, start + 1)
    while not text.startswith(close, position):
        if members or elements:
            if not text.startswith(",", position):
                is_mismatched = text.startswith(("}", "]"), position)
                raise _build_error(text, position, f"expected {close}" if is_mismatched else "expected a comma")
            comma, position = position, _skip_whitespace(text, position + 1)
            if text.startswith(close, position):
                raise _build_error(text, comma, "trailing comma")
        key, value_start = _parse_key(text, position) if close == "}" else ("", position)
        value = _parse_value(text, value_start, depth + 1)
        if close == "}":
            members.append(Member(key, position, value.end, value))
        else:
            elements.append(value)
        position = _skip_whitespace(text, value.end)
    return Node("object" if close == "}" else "array", start, position + 1, tuple(members), tuple(elements))


def _parse_key(text: str, position: int) -> tuple[str, int]:
    """The key, decoded, and where its value starts."""
    if not text.startswith('"', position):
        raise _build_error(text, position, "expected a key in double quotes")
    end = _find_string_end(text, position)
    colon = _skip_whitespace(text, end)
    if not text.startswith(":", colon):
        raise _build_error(text, colon, "expected a colon")
    return json.loads(text[position:end]), _skip_whitespace(text, colon + 1)


def _find_string_end(text: str, start: int) -> int:
    body = _STRING_BODY.match(text, start)
    end = body.end() if body else start
    stop = text[end : end + 1]
    if stop == '"':
        return end + 1
    if stop in ("\n", "\r") or '"' not in text[end:]:
        raise _build_error(text, start, "unclosed string")
    raise _build_error(text, end, "unknown escape" if stop == "\\" else "control character in a string")


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _build_error(text: str, position: int, message: str) -> InvalidJsonError:
    if position >= len(text):
        message = "ends too early"
    elif _COMMENT_START.match(text, position):
        message = "comments are not JSON"
    line_start = text.rfind("\n", 0, position) + 1
    has_bom = line_start == 0 and text.startswith(_BOM)
    return InvalidJsonError(text.count("\n", 0, position) + 1, position - line_start - has_bom + 1, message)
