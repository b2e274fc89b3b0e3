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
_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_BARE = re.compile(r"[-+.\w]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_COMMENT = re.compile(r"//|/\*|#")
_COMMENTS = re.compile(r'("(?:[^"\\\n]|\\.)*+")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_SEEN = re.compile(r"[^\r\n]")
_NEWLINE = re.compile(r"\r?\n")
_INDENTED = re.compile(r"\n([ \t]+)[^ \t\r\n]")
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
    unit: str
    space: str  # after a colon, and after a comma on the same line
    lines: bool  # False: all of the file is one line, and stays one


def parse_json(text: str) -> Node:
    """The one value in `text`, by RFC 8259 and no looser, but for a byte order mark before it."""
    root = _value(text, _skip(text, int(text.startswith(_BOM))), 1)
    if (end := _skip(text, root.end)) < len(text):
        raise _wrong(text, end, "expected the end of the text")
    return root


def get_value(text: str, path: Sequence[str], *, allow_comments: bool = False) -> Any:
    """The value at the path, or None where there is nothing."""
    if _blank(text):
        return None
    text = _bare(text, allow_comments)
    nodes = _walk(parse_json(text), path)
    return json.loads(text[nodes[-1].start : nodes[-1].end]) if len(nodes) > len(path) else None


def append_value(
    text: str, path: Sequence[str], value: object, *, allow_comments: bool = False
) -> tuple[str, tuple[KeyPath, ...]]:
    """The text with `value` last in the array at `path`, and the paths of the containers made for it.

    An empty text counts as `{}`, made at the path `()`. Of duplicate keys the last counts, as in JavaScript.
    """
    path = tuple(path)
    if _blank(text):
        text, made = append_value(_empty(text), path, value)
        return text, ((), *made)
    bare = _bare(text, allow_comments)
    root = parse_json(bare)
    nodes, style = _walk(root, path), _style(bare, root)
    here, depth = nodes[-1], len(nodes) - 1
    if depth < len(path):
        return _grow(text, style, nodes, path, [value]), _made(path, depth, len(path))
    if here.kind != "array":
        raise _misfit(text, here, path)
    return _insert(text, here, None, value, style), ()


def insert_value(
    text: str, path: Sequence[str], value: object, *, allow_comments: bool = False
) -> tuple[str, tuple[KeyPath, ...]]:
    """The text with `value` under the last key of `path`, where nothing may stand, and the containers made for it."""
    path = tuple(path)
    if _blank(text):
        text, made = insert_value(_empty(text), path, value)
        return text, ((), *made)
    bare = _bare(text, allow_comments)
    root = parse_json(bare)
    nodes = _walk(root, path)
    depth = len(nodes) - 1
    if depth == len(path):
        raise _misfit(text, nodes[-1], path)
    return _grow(text, _style(bare, root), nodes, path, value), _made(path, depth, len(path) - 1)


def remove_value(
    text: str, path: Sequence[str], *, created_paths: Iterable[Sequence[str]] = (), allow_comments: bool = False
) -> str:
    """The text without what stands at `path`, and without the containers in `made` that this empties."""
    if _blank(text):
        return text
    path = tuple(path)
    nodes = _walk(parse_json(_bare(text, allow_comments)), path)
    if len(nodes) <= len(path):
        return text
    return _prune(text, nodes[:-1], path[:-1], _others(nodes[-2], nodes[-1]), created_paths)


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
    if _blank(text):
        return text
    path, bare = tuple(path), _bare(text, allow_comments)
    nodes = _walk(parse_json(bare), path)
    here, depth = nodes[-1], len(nodes) - 1
    if depth < len(path) or here.kind != "array":
        return text
    kept = [i for i, one in enumerate(here.elements) if not should_remove(json.loads(bare[one.start : one.end]))]
    if len(kept) == len(here.elements):
        return text
    return _prune(text, nodes, path, kept, created_paths)


def _bare(text: str, comments: bool) -> str:
    """The text with spaces for comments, so that everything in it stands where it stood."""
    if not comments:
        return text
    return _COMMENTS.sub(lambda found: found[1] or _SEEN.sub(" ", found[0]), text)


def _empty(text: str) -> str:
    bom = int(text.startswith(_BOM))
    return f"{text[:bom]}{{}}{text[bom:]}"


def _made(path: KeyPath, first: int, last: int) -> tuple[KeyPath, ...]:
    return tuple(path[:end] for end in range(first + 1, last + 1))


def _misfit(text: str, found: Node, path: KeyPath) -> EditConflictError:
    return EditConflictError(path, text[found.start : found.end] if found.kind == "scalar" else found.kind)


def _grow(text: str, style: _Style, nodes: Sequence[Node], path: KeyPath, value: object) -> str:
    """The text with `value` at the path, of which only the first nodes are there."""
    here, depth = nodes[-1], len(nodes) - 1
    if here.kind != "object":
        raise _misfit(text, here, path[:depth])
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert(text, here, path[depth], value, style)


def _others(parent: Node, gone: Node) -> list[int]:
    return [i for i, member in enumerate(parent.members) if member.value.start != gone.start]


def _prune(text: str, nodes: Sequence[Node], path: KeyPath, kept: list[int], made: Iterable[Sequence[str]]) -> str:
    """The text with only the kept children in the last node; one that is left empty goes with it if it was made."""
    here, depth, ours = nodes[-1], len(nodes) - 1, {tuple(each) for each in made}
    while not kept and path[:depth] in ours:
        if depth == 0:
            return text[: here.start] + text[here.end :]
        emptied, here, depth = here, nodes[depth - 1], depth - 1
        kept = _others(here, emptied)
    return _cut(text, here, kept)


def _blank(text: str) -> bool:
    return not text.removeprefix(_BOM).strip(" \t\r\n")


def _walk(root: Node, path: Sequence[str]) -> list[Node]:
    """The values along the path, the root first, as far as it leads."""
    nodes = [root]
    for key in path:
        found = [member.value for member in nodes[-1].members if member.key == key]
        if not found:
            break
        nodes.append(found[-1])
    return nodes


def _style(text: str, root: Node) -> _Style:
    newline = found[0] if (found := _NEWLINE.search(text)) else "\n"
    indent = found[1] if (found := _INDENTED.search(text, root.start, root.end)) else ""
    space = "" if root.members and text[root.members[0].value.start - 1] == ":" else " "
    lines = not root.members or "\n" in text[root.start : root.end]
    return _Style(newline, indent.removeprefix(_indent(text, root.start)) or "  ", space, lines)


def _insert(text: str, into: Node, key: str | None, value: object, style: _Style) -> str:
    """The text with one more child, last in `into` and written as the child before it."""
    children = into.children
    if children:
        before, last = children[-2].end if len(children) > 1 else into.start, children[-1]
        indent = _indent(text, last.start)
        own_line = "\n" in text[before : last.start]
        lines = own_line or "\n" in text[last.start : last.end]
        gap = style.newline + indent if own_line else style.space
        child = _render(key, value, style, indent if lines else None)
        return f"{text[: last.end]},{gap}{child}{text[last.end :]}"
    # The white space W of an empty container stays in front, and `_cut` finds it again: on one line W also
    # follows the child, so W is what stands before it; on several, W is what stands before the child's line.
    at, outer = into.end - 1, _indent(text, into.start)
    if not style.lines:
        return text[:at] + _render(key, value, style, None) + text[into.start + 1 :]
    child = style.unit + _render(key, value, style, outer + style.unit)
    return f"{text[:at]}{style.newline}{outer}{child}{style.newline}{outer}{text[at:]}"


def _cut(text: str, out_of: Node, kept: Collection[int]) -> str:
    """The text without the other children, each with the comma that came with it."""
    children = out_of.children
    first, last = children[0], children[-1]
    if not kept:
        blank = text[out_of.start + 1 : first.start]
        newline = _NEWLINE.search(text, last.end, out_of.end)
        if newline:
            blank = blank[: max(blank.rfind(newline[0]), 0)]
        return text[: out_of.start + 1] + blank + text[out_of.end - 1 :]
    result, at = text[: first.start], children[min(kept)].start
    for i in range(min(kept) + 1, len(children)):
        if i not in kept:
            result += text[at : children[i - 1].end]
            at = children[i].end
    return result + text[at:]


def _render(key: str | None, value: object, style: _Style, indent: str | None) -> str:
    """The child as text: on one line, or on several that continue at `indent`."""
    colon = ":" + style.space
    comma, unit = ("," + style.space, None) if indent is None else (",", style.unit)
    made = json.dumps(value, indent=unit, separators=(comma, colon), ensure_ascii=False, allow_nan=False)
    if key is not None:
        made = json.dumps(key, ensure_ascii=False) + colon + made
    # a file name that is not UTF-8 reaches us with lone surrogates, which no file can hold unescaped
    made = _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", made)
    return made.replace("\n", f"{style.newline}{indent}")


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _value(text: str, at: int, depth: int) -> Node:
    if text.startswith(("{", "["), at):
        return _container(text, at, depth)
    if text.startswith('"', at):
        return Node("string", at, _string_end(text, at))
    bare = _BARE.match(text, at)
    if bare and _NUMBER.fullmatch(bare[0]):
        return Node("number", at, bare.end())
    if bare and bare[0] in ("true", "false", "null"):
        return Node("scalar", at, bare.end())
    raise _wrong(text, at, f"{bare[0]} is not JSON" if bare else "expected a value")


def _container(text: str, start: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise _wrong(text, start, f"nested deeper than {MAX_DEPTH}")
    close = "}" if text[start] == "{" else "]"
    members: list[Member] = []
    elements: list[Node] = []
    at = _skip(text, start + 1)
    while not text.startswith(close, at):
        if members or elements:
            if not text.startswith(",", at):
                crossed = text.startswith(("}", "]"), at)
                raise _wrong(text, at, f"expected {close}" if crossed else "expected a comma")
            comma, at = at, _skip(text, at + 1)
            if text.startswith(close, at):
                raise _wrong(text, comma, "trailing comma")
        key, value_at = _key(text, at) if close == "}" else ("", at)
        value = _value(text, value_at, depth + 1)
        if close == "}":
            members.append(Member(key, at, value.end, value))
        else:
            elements.append(value)
        at = _skip(text, value.end)
    return Node("object" if close == "}" else "array", start, at + 1, tuple(members), tuple(elements))


def _key(text: str, at: int) -> tuple[str, int]:
    """The key, decoded, and where its value starts."""
    if not text.startswith('"', at):
        raise _wrong(text, at, "expected a key in double quotes")
    end = _string_end(text, at)
    colon = _skip(text, end)
    if not text.startswith(":", colon):
        raise _wrong(text, colon, "expected a colon")
    return json.loads(text[at:end]), _skip(text, colon + 1)


def _string_end(text: str, start: int) -> int:
    body = _TEXT.match(text, start)
    end = body.end() if body else start
    stop = text[end : end + 1]
    if stop == '"':
        return end + 1
    if stop in ("\n", "\r") or '"' not in text[end:]:
        raise _wrong(text, start, "unclosed string")
    raise _wrong(text, end, "unknown escape" if stop == "\\" else "control character in a string")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _wrong(text: str, at: int, say: str) -> InvalidJsonError:
    if at >= len(text):
        say = "ends too early"
    elif _COMMENT.match(text, at):
        say = "comments are not JSON"
    line_start = text.rfind("\n", 0, at) + 1
    unseen = line_start == 0 and text.startswith(_BOM)
    return InvalidJsonError(text.count("\n", 0, at) + 1, at - line_start - unseen + 1, say)
