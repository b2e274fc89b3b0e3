"""Cut long text and large values to size, with a note of how much was cut.

Strip, redact, then trim, in this order. After a cut, private parts and secrets may no longer be recognised: the end of
`<private>…` without its tag looks like any text, and no pattern matches half a key.

Searching for secrets takes a second per megabyte, so a long text is cut twice. First the head and the tail stay that
`trim_text` would keep, each with a margin towards the cut. Secrets are redacted with the margins in place, so a secret
across the end of the kept part is still whole. Removing the margins then removes any half secret at the cut.
"""

from __future__ import annotations

from hardwon.privacy.private_tags import has_possible_tag, strip_private
from hardwon.privacy.redaction import redact_text
from hardwon.text.light_json import dumps

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_TEXT_CHARS = 20_000  # of a prompt, or of one text in a tool's input or result
MAX_EVENT_CHARS = 60_000  # of all texts of a tool's input or result
MARGIN_CHARS = 8_192  # a private key of 8192 bits, the longest common secret, has 6,500 characters
MAX_NODES = 5_000  # nested values; more would not fit into a stored event
MAX_SCANNED_CHARS = 300_000  # of a value that are searched for secrets: a third of a second
MAX_STRIPPED_CHARS = 2_000_000  # of a text that are searched for private tags
MAX_DEPTH = 64  # deeper levels are left out, because what cleans and writes a value recurses
_MIN_STRING_CHARS = 64
_MAX_KEY_CHARS = 1_000
_TOO_DEEP = "[… left out: nested too deep …]"
_CUT_START, _CUT_END = "\n\x00hardwon cut ", "\x00\n"  # between head and tail, with the number of characters cut


class Excerpt(str):
    """A text whose middle was cut; trimmed again, its note counts all characters cut so far."""

    head: str
    tail: str
    cut_length: int

    def __new__(cls, head: str, tail: str, cut: int) -> Excerpt:
        excerpt = super().__new__(cls, f"{head}{_format_cut_note(cut)}{tail}")
        excerpt.head = head
        excerpt.tail = tail
        excerpt.cut_length = cut
        return excerpt


def trim_text(text: str, max_length: int) -> str:
    """Cut a text to `max_length`: two thirds from the head, one from the tail, and a note of the cut between them."""
    if len(text) <= max_length:
        return text
    head = text
    tail = text
    full_length = len(text)
    if isinstance(text, Excerpt):
        head = text.head
        tail = text.tail
        full_length = len(head) + len(tail) + text.cut_length
    room = max_length - len(_format_cut_note(full_length))
    if room < 2:
        return text[: max(max_length, 0)]
    tail_length = min(room // 3, len(tail))
    head_length = min(room - room // 3, len(head))
    note = _format_cut_note(full_length - head_length - tail_length)
    return f"{head[:head_length]}{note}{tail[len(tail) - tail_length :]}"


def trim_value(value: Any, max_string: int, max_total: int) -> Any:
    """Cut strings of a JSON value to `max_string` characters, and its compact JSON to `max_total`.

    All strings are shortened before any items are left out, so that one long string cannot crowd out the rest.
    """
    string_limit = max_string
    item_limit = max(max_total // 2, 1)
    while True:
        trimmed = _cut_value(value, string_limit, item_limit)
        if _measure_json(trimmed, max_total) <= max_total:
            return trimmed
        if string_limit > _MIN_STRING_CHARS:
            string_limit = max(string_limit // 2, _MIN_STRING_CHARS)
        elif item_limit > 1:
            item_limit //= 2
        else:
            note = "[left out: too large]"[: max(max_string, 0)]
            return note if len(note) + 2 <= max_total else ""  # 2 for its quotes


def _format_cut_note(cut: int) -> str:
    return f"\n[… {cut:,} characters cut …]\n"


def _cut_value(value: Any, string_limit: int, item_limit: int) -> Any:
    """Return the value with its strings and containers cut to these limits."""
    root = [value]
    waiting: list[tuple[Any, Any, Any]] = [(value, root, 0)]
    while waiting:
        item, parent, slot = waiting.pop()
        if isinstance(item, str):
            parent[slot] = trim_text(item, string_limit)
        elif isinstance(item, dict):
            new_dict = _cut_keys(item, string_limit, item_limit)
            parent[slot] = new_dict
            waiting += [(inner, new_dict, name) for name, inner in new_dict.items()]
            if len(item) > item_limit:
                omitted_count = len(item) - item_limit + _read_omitted_count(item.get("…"))
                new_dict["…"] = trim_text(_format_keys_note(omitted_count), string_limit)
        elif isinstance(item, list | tuple):
            new_list = list(item[:item_limit])
            parent[slot] = new_list
            waiting += [(inner, new_list, index) for index, inner in enumerate(new_list)]
            if len(item) > item_limit:
                omitted_count = len(item) - item_limit + _read_omitted_count(item[-1])
                new_list.append(trim_text(_format_items_note(omitted_count), string_limit))
        else:
            parent[slot] = item
    return root[0]


def _cut_keys(item: dict[Any, Any], string_limit: int, item_limit: int) -> dict[Any, Any]:
    """Return the first items of an object under shortened keys; two keys that become equal count as one."""
    new_dict: dict[Any, Any] = {}
    for name, inner in item.items():
        if len(new_dict) == item_limit:
            break
        new_name = trim_text(name, string_limit) if isinstance(name, str) else name
        new_dict[new_name] = inner
    return new_dict


def _format_items_note(count: int) -> str:
    return f"[… {count:,} items left out …]"


def _format_keys_note(count: int) -> str:
    return f"[… {count:,} keys left out …]"


def _read_omitted_count(note: object) -> int:
    """Return how many items an earlier note says were left out, minus one for the note itself; 0 for other texts."""
    if not isinstance(note, str) or not note.startswith("[… ") or not note.endswith(" left out …]"):
        return 0
    number = note[3:].partition(" ")[0].replace(",", "")
    # A text that only looks like a note may have any number of digits.
    if not number.isdecimal() or len(number) >= 12:
        return 0
    return int(number) - 1


def _measure_json(value: Any, limit: int) -> int:
    """Return the length of the value's compact JSON; stop counting above `limit`."""
    size = 0
    waiting = [value]
    while waiting and size <= limit:
        item = waiting.pop()
        if isinstance(item, dict):
            colons_and_commas = max(2 * len(item) - 1, 0)
            size += len("{}") + colons_and_commas + sum(len(dumps(str(name))) for name in item)
            waiting += item.values()
        elif isinstance(item, list | tuple):
            commas = max(len(item) - 1, 0)
            size += len("[]") + commas
            waiting += item
        else:
            size += len(dumps(item))
    return size


def clean_long_text(text: str, max_length: int) -> str:
    """Return at most `max_length` characters of a text, without its private parts and secrets."""
    if not text:
        return text
    # The order matters, see the top of this file.
    cut_text = cut_with_margins(strip_long_text(text), max_length)
    return trim_text(remove_margins(redact_text(cut_text)), max_length)


def strip_long_text(text: str) -> str:
    """Strip private parts; of a very long text with tags keep only the head.

    The tail may belong to a private part that opens before it.
    """
    if len(text) > MAX_STRIPPED_CHARS and has_possible_tag(text):
        text = text[:MAX_STRIPPED_CHARS]
    return strip_private(text)


def prune_value(value: Any, max_length: int) -> Any:
    """Return the JSON value up to the limits on items, characters and depth, with notes of what is missing.

    A string counts only with the part that `cut_with_margins` keeps.
    """
    if not isinstance(value, dict | list | tuple):
        return value
    max_kept_chars = max_length + 2 * MARGIN_CHARS  # of one string
    nodes = MAX_NODES
    characters = max(MAX_SCANNED_CHARS, max_kept_chars)
    pruned: Any = {} if isinstance(value, dict) else []
    # The containers that are being copied, outermost first, each with its copy and an iterator over the rest of it.
    stack = [(value, pruned, _iterate_items(value))]
    while stack:
        item, copy, items = stack[-1]
        for key, inner in items:
            nodes -= 1
            if isinstance(inner, str):
                characters -= min(len(inner), max_kept_chars)
            if nodes < 0 or characters < 0:
                break
            if not isinstance(inner, dict | list | tuple):
                _put_item(copy, key, inner)
                continue
            if inner and len(stack) >= MAX_DEPTH:
                _put_item(copy, key, _TOO_DEEP)
                continue
            inner_copy: Any = {} if isinstance(inner, dict) else []
            _put_item(copy, key, inner_copy)
            stack.append((inner, inner_copy, _iterate_items(inner)))
            break
        else:
            stack.pop()
        if nodes < 0 or characters < 0:
            break
    for item, copy, _ in stack:
        _note_left_out(item, copy)
    return pruned


def _iterate_items(container: Any) -> Iterator[tuple[Any, Any]]:
    """Return an iterator over the keys and values of an object, or the indexes and items of a list."""
    return iter(container.items() if isinstance(container, dict) else enumerate(container))


def _put_item(copy: Any, key: Any, value: Any) -> None:
    """Add a value to the copy of a list or an object; a huge key is replaced, since keys are never cut."""
    if not isinstance(copy, dict):
        copy.append(value)
    elif isinstance(key, str) and len(key) > _MAX_KEY_CHARS:
        copy[f"[… key {len(copy) + 1}, of {len(key):,} characters …]"] = value
    else:
        copy[key] = value


def _note_left_out(item: Any, copy: Any) -> None:
    """Add to the copy of an object or list how much of it is missing; nothing if the copy is complete."""
    count = len(item) - len(copy)
    if count and isinstance(copy, dict):
        copy["…"] = _format_keys_note(count)
    elif count:
        copy.append(_format_items_note(count))


def cut_with_margins(text: str, max_length: int) -> str:
    """Return the head and tail of a long text, each with a margin, around a mark that `remove_margins` finds."""
    tail = max_length // 3 + MARGIN_CHARS
    head = max_length - max_length // 3 + MARGIN_CHARS
    cut = len(text) - head - tail
    if cut <= 0:
        return text
    return f"{text[:head]}{_CUT_START}{cut}{_CUT_END}{text[-tail:]}"


def remove_margins(text: str) -> str:
    """Return a text that `cut_with_margins` cut, without its margins; call it after redaction."""
    head, mark, rest = text.partition(_CUT_START)
    number, end, tail = rest.partition(_CUT_END)
    if not mark or not end or not number.isdecimal() or len(number) > 12:
        return text  # `cut_with_margins` did not cut it, whatever the text itself says
    return Excerpt(head[:-MARGIN_CHARS], tail[MARGIN_CHARS:], int(number) + 2 * MARGIN_CHARS)
