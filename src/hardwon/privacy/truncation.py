"""Long text and large values cut to size, saying what was cut.

Strip, redact, then trim, in this order. A cut takes away the mark by which a private part or a secret is known: the
end of `<private>…` without its beginning looks like any text, and half a key is no key to a pattern.
"""

from __future__ import annotations

from hardwon.text.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 64  # what is nested deeper is left out: whoever writes the value as JSON may recurse
_SHORTEST = 64
_TOO_DEEP = "[… left out: nested too deep …]"


class Excerpt(str):
    """A text of which the middle was cut before: trimmed again, it says how much is gone in all."""

    head: str
    tail: str
    cut_length: int

    def __new__(cls, head: str, tail: str, cut: int) -> Excerpt:
        made = super().__new__(cls, f"{head}{_note(cut)}{tail}")
        made.head, made.tail, made.cut_length = head, tail, cut
        return made


def trim_text(text: str, max_length: int) -> str:
    """At most `most` characters: two thirds from the head, one from the tail, between them how many were cut."""
    if len(text) <= max_length:
        return text
    head, tail, cut = (text.head, text.tail, text.cut_length) if isinstance(text, Excerpt) else (text, text, 0)
    length = len(head) + len(tail) + cut if cut else len(text)
    room = max_length - len(_note(length))
    if room < 2:
        return text[: max(max_length, 0)]
    from_tail = room // 3
    from_head = min(room - from_tail, len(head))
    from_tail = min(from_tail, len(tail))
    return f"{head[:from_head]}{_note(length - from_head - from_tail)}{tail[len(tail) - from_tail :]}"


def trim_value(value: Any, max_string: int, max_total: int) -> Any:
    """The JSON value with no string above `max_string`, and its compact JSON at most `max_total` characters.

    To fit, strings get shorter all over before items are left out, so that one long string cannot starve the rest.
    """
    strings, items = max_string, max(max_total // 2, 1)
    while _size(cut := _cut(value, strings, items), max_total) > max_total:
        if strings > _SHORTEST:
            strings = max(strings // 2, _SHORTEST)
        elif items > 1:
            items //= 2
        else:
            return _last(max_string, max_total)
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
            home[place] = trim_text(item, strings)
        elif isinstance(item, dict | list | tuple) and item and depth >= MAX_DEPTH:
            home[place] = trim_text(_TOO_DEEP, strings)
        elif isinstance(item, dict):
            home[place] = row = _cut_keys(item, strings, items)
            waiting += [(inner, row, name, depth + 1) for name, inner in row.items()]
            if len(item) > items:
                row["…"] = trim_text(format_keys_note(len(item) - items + _left_out_before(item.get("…"))), strings)
        elif isinstance(item, list | tuple):
            home[place] = new = list(item[:items])
            waiting += [(inner, new, at, depth + 1) for at, inner in enumerate(new)]
            if len(item) > items:
                new.append(trim_text(format_items_note(len(item) - items + _left_out_before(item[-1])), strings))
        else:
            home[place] = item
    return root[0]


def _cut_keys(item: dict[Any, Any], strings: int, items: int) -> dict[Any, Any]:
    row: dict[Any, Any] = {}
    for name, inner in item.items():
        if len(row) == items:
            break
        row[trim_text(name, strings) if isinstance(name, str) else name] = inner
    return row


def format_items_note(count: int) -> str:
    return f"[… {count:,} items left out …]"


def format_keys_note(count: int) -> str:
    return f"[… {count:,} keys left out …]"


def _left_out_before(note: object) -> int:
    """Return how many items a note at the end says were left out, less the note itself."""
    if not isinstance(note, str) or not note.startswith("[… ") or not note.endswith(" left out …]"):
        return 0
    number = note[3:].partition(" ")[0].replace(",", "")
    return int(number) - 1 if number.isdecimal() and len(number) < 12 else 0


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
