"""Cut long texts and large values before searching them for secrets, which takes a second per megabyte.

Private parts are stripped from the whole text first, because a tag may open in the part that is cut out. Then the head
and the tail that `trim_text` would keep stay, each with a margin towards the cut. Secrets are redacted with the margins
in place, so a secret across the end of the kept part is still whole. Removing the margins then removes any half secret
at the cut.
"""

from __future__ import annotations

from hardwon.privacy.private_tags import has_possible_tag, strip_private
from hardwon.privacy.redaction import redact_text
from hardwon.privacy.truncation import Excerpt, format_items_note, format_keys_note, trim_text

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MARGIN_CHARS = 8_192  # a private key of 8192 bits, the longest common secret, has 6,500 characters
MAX_NODES = 5_000  # nested values; more would not fit into a stored event
MAX_SCANNED_CHARS = 300_000  # of a value that are searched for secrets: a third of a second
MAX_STRIPPED_CHARS = 2_000_000  # of a text that are searched for private tags
_MAX_KEY_CHARS = 1_000
_CUT_START, _CUT_END = "\n\x00hardwon cut ", "\x00\n"  # between head and tail, with the number of characters cut


def clean_long_text(text: str, max_length: int) -> str:
    """Return at most `max_length` characters of a text, without its private parts and secrets."""
    if not text:
        return text
    return trim_text(remove_margins(redact_text(cut_with_margins(strip_long_text(text), max_length))), max_length)


def strip_long_text(text: str) -> str:
    """Strip private parts; of a very long text with tags keep only the head.

    The tail may belong to a private part that opens before it.
    """
    if len(text) > MAX_STRIPPED_CHARS and has_possible_tag(text):
        text = text[:MAX_STRIPPED_CHARS]
    return strip_private(text)


def prune_value(value: Any, max_length: int) -> Any:
    """Return the JSON value up to the limits on items and characters, with notes of how many items are missing.

    A string counts only with the part that `cut_with_margins` keeps.
    """
    if not isinstance(value, dict | list | tuple):
        return value
    nodes, characters = MAX_NODES, max(MAX_SCANNED_CHARS, max_length + 2 * MARGIN_CHARS)
    pruned: Any = {} if isinstance(value, dict) else []
    stack = [(value, pruned, _iterate_items(value))]
    while stack:
        item, copy, items = stack[-1]
        for key, inner in items:
            nodes -= 1
            characters -= min(len(inner), max_length + 2 * MARGIN_CHARS) if isinstance(inner, str) else 0
            if nodes < 0 or characters < 0:
                break
            if not isinstance(inner, dict | list | tuple):
                _put_item(copy, key, inner)
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
    return iter(container.items() if isinstance(container, dict) else enumerate(container))


def _put_item(copy: Any, key: Any, value: Any) -> None:
    if not isinstance(copy, dict):
        copy.append(value)
    elif isinstance(key, str) and len(key) > _MAX_KEY_CHARS:
        copy[f"[… key {len(copy) + 1}, of {len(key):,} characters …]"] = value
    else:
        copy[key] = value


def _note_left_out(item: Any, copy: Any) -> None:
    count = len(item) - len(copy)
    if count and isinstance(copy, dict):
        copy["…"] = format_keys_note(count)
    elif count:
        copy.append(format_items_note(count))


def cut_with_margins(text: str, max_length: int) -> str:
    """Return the head and tail of a long text, each with a margin, around a mark that `remove_margins` finds."""
    tail = max_length // 3 + MARGIN_CHARS
    head = max_length - max_length // 3 + MARGIN_CHARS
    cut = len(text) - head - tail
    return f"{text[:head]}{_CUT_START}{cut}{_CUT_END}{text[-tail:]}" if cut > 0 else text


def remove_margins(text: str) -> str:
    """Return a text that `cut_with_margins` cut, without its margins; call it after redaction."""
    head, mark, rest = text.partition(_CUT_START)
    number, end, tail = rest.partition(_CUT_END)
    if not mark or not end or not number.isdecimal() or len(number) > 12:
        return text
    return Excerpt(head[:-MARGIN_CHARS], tail[MARGIN_CHARS:], int(number) + 2 * MARGIN_CHARS)
