"""Long text and large values cut to size, saying what was cut.

Strip, redact, then trim, in this order. A cut takes away the mark by which a private part or a secret is known: the
end of `<private>…` without its beginning looks like any text, and half a key is no key to a pattern.
"""

from __future__ import annotations

from hardwon.core.jsons import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEEPEST = 64  # what is nested deeper is left out: whoever writes the value as JSON may recurse
_SHORTEST = 64
_TOO_DEEP = "[… left out: nested too deep …]"


def trim(text: str, most: int) -> str:
    """At most `most` characters: two thirds from the head, one from the tail, between them how many were cut."""
    if len(text) <= most:
        return text
    room = most - len(_note(len(text)))
    if room < 2:
        return text[: max(most, 0)]
    tail = room // 3
    return f"{text[: room - tail]}{_note(len(text) - room)}{text[len(text) - tail :]}"


def trim_deep(value: Any, most_string: int, most_total: int) -> Any:
    """The JSON value with no string above `most_string`, and its compact JSON at most `most_total` characters.

    To fit, strings get shorter all over before items are left out, so that one long string cannot starve the rest.
    """
    strings, items = most_string, max(most_total // 2, 1)
    while _size(cut := _cut(value, strings, items), most_total) > most_total:
        if strings > _SHORTEST:
            strings = max(strings // 2, _SHORTEST)
        elif items > 1:
            items //= 2
        else:
            return _last(most_string, most_total)
    return cut


def _note(cut: int) -> str:
    return f"\n[… {cut:,} characters cut …]\n"


def _last(most_string: int, most_total: int) -> str:
    """What is said when nothing of the value fits."""
    said = "[left out: too large]"[: max(most_string, 0)]
    return said if len(said) + 2 <= most_total else ""


def _cut(value: Any, strings: int, items: int) -> Any:
    """The value with strings, containers and depth within these bounds."""
    root = [value]
    waiting: list[tuple[Any, Any, Any, int]] = [(value, root, 0, 0)]
    while waiting:
        item, home, place, depth = waiting.pop()
        if isinstance(item, str):
            home[place] = trim(item, strings)
        elif isinstance(item, dict | list | tuple) and item and depth >= DEEPEST:
            home[place] = trim(_TOO_DEEP, strings)
        elif isinstance(item, dict):
            home[place] = row = _cut_keys(item, strings, items)
            waiting += [(inner, row, name, depth + 1) for name, inner in row.items()]
            _say_left_out(row, len(item) - items, strings)
        elif isinstance(item, list | tuple):
            home[place] = new = list(item[:items])
            waiting += [(inner, new, at, depth + 1) for at, inner in enumerate(new)]
            if len(item) > items:
                new.append(trim(f"[… {len(item) - items:,} items left out …]", strings))
        else:
            home[place] = item
    return root[0]


def _cut_keys(item: dict[Any, Any], strings: int, items: int) -> dict[Any, Any]:
    row: dict[Any, Any] = {}
    for name, inner in item.items():
        if len(row) == items:
            break
        row[trim(name, strings) if isinstance(name, str) else name] = inner
    return row


def _say_left_out(row: dict[Any, Any], left: int, strings: int) -> None:
    if left > 0:
        row["…"] = trim(f"[… {left:,} keys left out …]", strings)


def _size(value: Any, enough: int) -> int:
    """Characters of the value's compact JSON, or some number above `enough`."""
    size, waiting = 0, [value]
    while waiting and size <= enough:
        item = waiting.pop()
        if isinstance(item, dict):
            size += 2 + max(2 * len(item) - 1, 0) + sum(len(dumps(str(name))) for name in item)
            waiting += item.values()
        elif isinstance(item, list | tuple):
            size += 2 + max(len(item) - 1, 0)
            waiting += item
        else:
            size += len(dumps(item))
    return size
