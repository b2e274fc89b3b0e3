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

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+",
    re.DOTALL,
)
_LAST_NEWLINE = re.compile(r"\r?\n\Z")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


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
    return _get_at_path(_parse_toml(text), path)


def append_table(text: str, path: Sequence[str], values: Mapping[str, TomlValue]) -> str:
    """The text with one more table, last in it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    header = ".".join(key if _BARE_KEY.fullmatch(key) else _quote_text(key) for key in path)
    table = newline.join([f"[{header}]", *(f"{key} = {_render_value(value)}" for key, value in values.items())])
    last_newline = _LAST_NEWLINE.search(text)
    position = last_newline.start() if last_newline else len(text)
    new_text = text[:position] + newline * 2 + table + text[position:] if text else table + newline
    if _get_at_path(_parse_toml(text), path) is not None:
        raise EditConflictError(tuple(path), "a table")
    try:
        added_values = _get_at_path(_parse_toml(new_text), path)
    except InvalidTomlError:  # a part of the path stands there in a form to which nothing can be added
        added_values = None
    if added_values != {key: value if isinstance(value, str | int) else [*value] for key, value in values.items()}:
        raise EditConflictError(tuple(path[:-1]), "what cannot take another table")
    return new_text


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at the path and those below it; no such table, no change."""
    path = tuple(path)
    old_values = _parse_toml(text)
    if _get_at_path(old_values, path) is None:
        return text
    new_text = text
    for table in reversed([table for table in _find_tables(text) if table.path[: len(path)] == path]):
        new_text = _cut_table(new_text, table)
    new_values = _parse_toml(new_text)
    if _get_at_path(new_values, path) is not None:
        raise EditConflictError(path, "what is not a table of its own")
    if _drop_path(old_values, path) != _drop_path(new_values, path):
        raise EditConflictError(path, "a table that cannot be told from its neighbours")
    return new_text


def _cut_table(text: str, table: _Table) -> str:
    head, tail = text[: table.start], text[table.end :]
    newline = "\r\n" if tail.startswith("\r\n") or head.endswith("\r\n") else "\n"
    if not head:
        tail = tail.removeprefix(newline)
        return tail.removeprefix(newline)
    for _ in range(2):
        head = head.removesuffix(newline)
    return head + tail


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, location = str(error).rstrip(")").rpartition(" (at ")
        raise InvalidTomlError(f"{location}: {message[:1].lower()}{message[1:]}") from None
    except RecursionError:
        raise InvalidTomlError("is nested too deeply") from None


def _get_at_path(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _drop_path(value: Any, path: Sequence[str]) -> Any:
    """The value without what stands at the path, nor the tables that are empty on the way to it."""
    if not isinstance(value, dict) or not path:
        return value
    inner = _drop_path(value.get(path[0], {}), path[1:]) if len(path) > 1 else {}
    remaining = {key: other for key, other in value.items() if key != path[0]}
    return {**remaining, path[0]: inner} if inner != {} else remaining


def _find_tables(text: str) -> Iterator[_Table]:
    starts = [*_find_header_starts(text), len(text)]
    for start, next_start in pairwise(starts):
        yield _Table(_parse_header(text[start:].partition("\n")[0]), start, _find_table_end(text, start, next_start))


def _find_header_starts(text: str) -> Iterator[int]:
    """Where lines begin that a bracket opens, which is in no string and no array that spans lines."""
    depth, line_start, is_line_start = 0, 0, True
    for token in _TOKEN.finditer(text):
        if is_line_start and not depth and token[0] == "[":
            yield line_start
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        is_line_start = token[0] == "\n" or (is_line_start and not token[0].strip())
        line_start = token.end() if token[0] == "\n" else line_start


def _parse_header(header: str) -> tuple[str, ...]:
    value: Any = tomllib.loads(header.removesuffix("\r"))
    path = []
    while value:
        ((key, value),) = value.items()
        path.append(key)
        value = value[0] if isinstance(value, list) else value
    return tuple(path)


def _find_table_end(text: str, start: int, next_start: int) -> int:
    """The end of the last line that says something, without its line break."""
    end = start
    for token in _TOKEN.finditer(text, start, next_start):
        if token[0].strip() and not token[0].startswith("#"):
            end = token.end()
    newline = text.find("\n", end, next_start)
    return len(text[: newline if newline >= 0 else next_start].rstrip("\r\n"))


def _render_value(value: TomlValue) -> str:
    if isinstance(value, int):
        return str(value)
    return _quote_text(value) if isinstance(value, str) else f"[{', '.join(map(_quote_text, value))}]"


def _quote_text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL; half a surrogate pair can be in neither."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
