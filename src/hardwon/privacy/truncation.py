"""Cut long text and large values to size, with a note of how much was cut.

Strip, redact, then trim, in this order. After a cut, private parts and secrets may no longer be recognised: the end of
`<private>…` without its tag looks like any text, and no pattern matches half a key.
"""

from __future__ import annotations

from hardwon.text.light_json import dumps

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 64  # deeper levels are left out, because JSON writers may recurse
_MIN_STRING_CHARS = 64
_TOO_DEEP = "[… left out: nested too deep …]"


class Excerpt(str):
    """A text whose middle was cut; trimmed again, its note counts all characters cut so far."""

    head: str
    tail: str
    cut_length: int

    def __new__(cls, head: str, tail: str, cut: int) -> Excerpt:
        excerpt = super().__new__(cls, f"{head}{_format_cut_note(cut)}{tail}")
        excerpt.head, excerpt.tail, excerpt.cut_length = head, tail, cut
        return excerpt


def trim_text(text: str, max_length: int) -> str:
    """Cut a text to `max_length`: two thirds from the head, one from the tail, and a note of the cut between them."""
    if len(text) <= max_length:
        return text
    head, tail, cut = (text.head, text.tail, text.cut_length) if isinstance(text, Excerpt) else (text, text, 0)
    length = len(head) + len(tail) + cut if cut else len(text)
    room = max_length - len(_format_cut_note(length))
    if room < 2:
        return text[: max(max_length, 0)]
    from_tail = room // 3
    from_head = min(room - from_tail, len(head))
    from_tail = min(from_tail, len(tail))
    return f"{head[:from_head]}{_format_cut_note(length - from_head - from_tail)}{tail[len(tail) - from_tail :]}"


def trim_value(value: Any, max_string: int, max_total: int) -> Any:
    """Cut strings of a JSON value to `max_string` characters, and its compact JSON to `max_total`.

    All strings are shortened before any items are left out, so that one long string cannot crowd out the rest.
    """
    string_limit, item_limit = max_string, max(max_total // 2, 1)
    while _measure_json(trimmed := _cut_value(value, string_limit, item_limit), max_total) > max_total:
        if string_limit > _MIN_STRING_CHARS:
            string_limit = max(string_limit // 2, _MIN_STRING_CHARS)
        elif item_limit > 1:
            item_limit //= 2
        else:
            return _format_too_large(max_string, max_total)
    return trimmed


def _format_cut_note(cut: int) -> str:
    return f"\n[… {cut:,} characters cut …]\n"


def _format_too_large(max_string: int, max_total: int) -> str:
    """Return the note for a value of which nothing fits; empty if even the note does not."""
    note = "[left out: too large]"[: max(max_string, 0)]
    return note if len(note) + 2 <= max_total else ""


def _cut_value(value: Any, string_limit: int, item_limit: int) -> Any:
    """Return the value with its strings, containers and depth cut to these limits."""
    root = [value]
    waiting: list[tuple[Any, Any, Any, int]] = [(value, root, 0, 0)]
    while waiting:
        item, parent, slot, depth = waiting.pop()
        if isinstance(item, str):
            parent[slot] = trim_text(item, string_limit)
        elif isinstance(item, dict | list | tuple) and item and depth >= MAX_DEPTH:
            parent[slot] = trim_text(_TOO_DEEP, string_limit)
        elif isinstance(item, dict):
            parent[slot] = new_dict = _cut_keys(item, string_limit, item_limit)
            waiting += [(inner, new_dict, name, depth + 1) for name, inner in new_dict.items()]
            if len(item) > item_limit:
                new_dict["…"] = trim_text(
                    format_keys_note(len(item) - item_limit + _read_omitted_count(item.get("…"))), string_limit
                )
        elif isinstance(item, list | tuple):
            parent[slot] = new_list = list(item[:item_limit])
            waiting += [(inner, new_list, index, depth + 1) for index, inner in enumerate(new_list)]
            if len(item) > item_limit:
                new_list.append(
                    trim_text(format_items_note(len(item) - item_limit + _read_omitted_count(item[-1])), string_limit)
                )
        else:
            parent[slot] = item
    return root[0]


def _cut_keys(item: dict[Any, Any], string_limit: int, item_limit: int) -> dict[Any, Any]:
    new_dict: dict[Any, Any] = {}
    for name, inner in item.items():
        if len(new_dict) == item_limit:
            break
        new_dict[trim_text(name, string_limit) if isinstance(name, str) else name] = inner
    return new_dict


def format_items_note(count: int) -> str:
    return f"[… {count:,} items left out …]"


def format_keys_note(count: int) -> str:
    return f"[… {count:,} keys left out …]"


def _read_omitted_count(note: object) -> int:
    """Return how many items an earlier note says were left out, minus one for the note itself."""
    if not isinstance(note, str) or not note.startswith("[… ") or not note.endswith(" left out …]"):
        return 0
    number = note[3:].partition(" ")[0].replace(",", "")
    return int(number) - 1 if number.isdecimal() and len(number) < 12 else 0


def _measure_json(value: Any, limit: int) -> int:
    """Return the length of the value's compact JSON; stop counting above `limit`."""
    size, waiting = 0, [value]
    while waiting and size <= limit:
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
