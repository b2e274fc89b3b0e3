"""Edits of a TOML file that a person keeps by hand: a table put in at its end, a table cut out, all else as it was.

The text is read by `tomllib` before and after, so that what is no TOML is refused and an edit that would make none is
not made. `append` shapes what it puts in so that `remove` can tell from the text alone what was there before: blank
line, table, and the end of the last line stays the end of the last line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hardwon.agents.json_edit import EditConflictError
from hardwon.types import frozen

_PIECE = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+",
    re.DOTALL,
)
_LAST_NEWLINE = re.compile(r"\r?\n\Z")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


TomlValue = str | int | Sequence[str]


class InvalidTomlError(ValueError):
    """The text is not TOML; says where."""


@frozen
class _Table:
    """A header and the lines that belong to it, `text[start:end]`; the blank lines and notes behind them do not."""

    path: tuple[str, ...]
    start: int
    end: int


def get_value(text: str, path: Sequence[str]) -> Any:
    """The value at the path, or None where there is nothing."""
    return _at(_parsed(text), path)


def append_table(text: str, path: Sequence[str], values: Mapping[str, TomlValue]) -> str:
    """The text with one more table, last in it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    header = ".".join(key if _BARE.fullmatch(key) else _quoted(key) for key in path)
    table = newline.join([f"[{header}]", *(f"{key} = {_value(value)}" for key, value in values.items())])
    last = _LAST_NEWLINE.search(text)
    at = last.start() if last else len(text)
    after = text[:at] + newline * 2 + table + text[at:] if text else table + newline
    if _at(_parsed(text), path) is not None:
        raise EditConflictError(tuple(path), "a table")
    try:
        placed = _at(_parsed(after), path)
    except InvalidTomlError:  # a part of the path stands there in a form to which nothing can be added
        placed = None
    if placed != {key: value if isinstance(value, str | int) else [*value] for key, value in values.items()}:
        raise EditConflictError(tuple(path[:-1]), "what cannot take another table")
    return after


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at the path and those below it; no such table, no change."""
    path = tuple(path)
    before = _parsed(text)
    if _at(before, path) is None:
        return text
    after = text
    for table in reversed([table for table in _tables(text) if table.path[: len(path)] == path]):
        after = _cut(after, table)
    left = _parsed(after)
    if _at(left, path) is not None:
        raise EditConflictError(path, "what is not a table of its own")
    if _without(before, path) != _without(left, path):
        raise EditConflictError(path, "a table that cannot be told from its neighbours")
    return after


def _cut(text: str, table: _Table) -> str:
    before, after = text[: table.start], text[table.end :]
    newline = "\r\n" if after.startswith("\r\n") or before.endswith("\r\n") else "\n"
    if not before:
        after = after.removeprefix(newline)
        return after.removeprefix(newline)
    for _ in range(2):
        before = before.removesuffix(newline)
    return before + after


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        say, _, where = str(wrong).rstrip(")").rpartition(" (at ")
        raise InvalidTomlError(f"{where}: {say[:1].lower()}{say[1:]}") from None
    except RecursionError:
        raise InvalidTomlError("is nested too deeply") from None


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _without(value: Any, path: Sequence[str]) -> Any:
    """The value without what stands at the path, nor the tables that are empty on the way to it."""
    if not isinstance(value, dict) or not path:
        return value
    inner = _without(value.get(path[0], {}), path[1:]) if len(path) > 1 else {}
    left = {key: other for key, other in value.items() if key != path[0]}
    return {**left, path[0]: inner} if inner != {} else left


def _tables(text: str) -> Iterator[_Table]:
    starts = [*_headers(text), len(text)]
    for start, until in pairwise(starts):
        yield _Table(_path(text[start:].partition("\n")[0]), start, _end(text, start, until))


def _headers(text: str) -> Iterator[int]:
    """Where lines begin that a bracket opens, which is in no string and no array that spans lines."""
    depth, line, fresh = 0, 0, True
    for piece in _PIECE.finditer(text):
        if fresh and not depth and piece[0] == "[":
            yield line
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(piece[0], 0)
        fresh = piece[0] == "\n" or (fresh and not piece[0].strip())
        line = piece.end() if piece[0] == "\n" else line


def _path(header: str) -> tuple[str, ...]:
    found: Any = tomllib.loads(header.removesuffix("\r"))
    path = []
    while found:
        ((key, found),) = found.items()
        path.append(key)
        found = found[0] if isinstance(found, list) else found
    return tuple(path)


def _end(text: str, start: int, until: int) -> int:
    """The end of the last line that says something, without its line break."""
    end = start
    for piece in _PIECE.finditer(text, start, until):
        if piece[0].strip() and not piece[0].startswith("#"):
            end = piece.end()
    line = text.find("\n", end, until)
    return len(text[: line if line >= 0 else until].rstrip("\r\n"))


def _value(value: TomlValue) -> str:
    if isinstance(value, int):
        return str(value)
    return _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL; half a surrogate pair can be in neither."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
