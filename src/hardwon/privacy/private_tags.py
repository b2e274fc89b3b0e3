"""What a person marked as private, and what we said ourselves, is taken out before a text goes anywhere.

In doubt it is hidden: a part that is never closed reaches to the end of its string, a tag that is not finished opens
all the same, and where two kinds overlap both must be closed. Text in a string may itself be JSON, so `\\u003cprivate>`
and `<\\/private>` are tags too. The names of the kinds are looked for first; only a likely tag pays for `re`.
"""

from __future__ import annotations

from hardwon.text.case_folding import fold_case
from hardwon.text.fence import FENCE_OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

MAX_TAGS = 100
_MOST_SPOTS = 20 * MAX_TAGS  # nobody writes so many unfinished tags
WITHHELD_TEXT = f"[withheld: more than {MAX_TAGS} private tags]"
TAG_NAMES = ("private", "claude-mem-context", FENCE_OPEN[1:-1])
_BEFORE = ("<", "3c", "2f")  # how a tag begins, once blanks, slashes and backslashes are gone
_REACH = 48  # the longest way to write what stands before the kind
_PATTERNS = (
    r"(?ix) (?: < | \\{1,8} (?: u00 | x ) 3c ) (?P<blank> \s{0,8} )"
    r"      (?P<close> \\{0,8} / | \\{1,8} (?: u00 | x ) 2f )? \s{0,8} \Z",
    r"(?ix) (?P<done> (?= \s{0,8} (?: > | \\{1,8} (?: u00 | x ) 3e ) ) )?"
    r"      (?P<end> [^<>]{0,200}? (?: > | \\{1,8} (?: u00 | x ) 3e ) )?",
)
_compiled: list[re.Pattern[str]] = []


def strip_private(text: str) -> str:
    """The text without its private parts; with more than MOST_TAGS tags nothing of it."""
    seen = 0
    while spots := _spots(fold_case(text)):
        if len(spots) > _MOST_SPOTS:
            return WITHHELD_TEXT
        after, tags = _stripped(text, spots, MAX_TAGS - seen)
        if not tags:
            break
        seen += tags
        if seen > MAX_TAGS:
            return WITHHELD_TEXT
        text = after  # taking a part out may have put the halves of a tag together
    return text


def has_possible_tag(text: str) -> bool:
    low = fold_case(text)
    return any(kind in low for kind in TAG_NAMES)


def is_wholly_private(text: str) -> bool:
    """The prompt said something, and nothing of it is left."""
    return not text.isspace() and text != "" and strip_private(text).strip() in ("", WITHHELD_TEXT)


def strip_private_deep(value: Any) -> Any:
    """A JSON value with every string and key stripped, each by itself."""
    return map_strings(value, lambda text, _: strip_private(text))


def map_strings(
    value: Any, change: Callable[[str, str], str], is_covering_key: Callable[[str], bool] = lambda key: False
) -> Any:
    """The JSON value with `change(text, its key)` for each string and key, however deep it is nested.

    In `{"name": "TOKEN", "value": "…"}` the value's key is TOKEN; what is in a list has the key of the list. A key that
    `is_covering_key` is the key of all that is in its value, and there numbers of four digits or more are strings.
    """
    root = [value]
    waiting: list[tuple[Any, Any, Any, str]] = [(value, root, 0, "")]
    while waiting:
        item, home, place, key = waiting.pop()
        if isinstance(item, str):
            home[place] = change(item, key)
        elif isinstance(item, dict):
            new: dict[Any, Any] = {}
            home[place], covered = new, is_covering_key(key)
            for name, inner in item.items():
                renamed = change(name, "") if isinstance(name, str) else name
                new[renamed] = None
                called = item.get("name", item.get("key")) if name == "value" else name
                called = key if covered else called
                waiting.append((inner, new, renamed, called if isinstance(called, str) else ""))
        elif isinstance(item, list | tuple):
            home[place] = row = [None] * len(item)
            waiting += [(inner, row, at, key) for at, inner in enumerate(item)]
        elif (
            isinstance(item, int | float) and len(str(item)) > 3 and not isinstance(item, bool) and is_covering_key(key)
        ):
            home[place] = change(str(item), key)
        else:
            home[place] = item
    return root[0]


def _spots(low: str) -> list[tuple[int, str]]:
    """Where the name of a kind stands after what may be the beginning of a tag."""
    spots = []
    for kind in TAG_NAMES:
        at = low.find(kind)
        while at >= 0:
            end = at + len(kind)
            begins = low[max(at - _REACH, 0) : at].rstrip(" \t\r\n\f\v/\\").endswith(_BEFORE)
            if begins and not low[end : end + 1].isalnum() and low[end : end + 1] not in ("-", "_"):
                spots.append((at, kind))
            if len(spots) > _MOST_SPOTS:
                return spots  # the text is withheld
            at = low.find(kind, end)
    return sorted(spots)


def _stripped(text: str, spots: list[tuple[int, str]], most: int) -> tuple[str, int]:
    """One pass: the text outside every part, and how many tags there were, at most one more than `most`."""
    kept, start, tags = [], 0, 0
    depth = dict.fromkeys(TAG_NAMES, 0)
    before, after = _patterns()
    for at, kind in spots:
        head = before.search(text[max(at - _REACH, start) : at])
        tail = after.match(text, at + len(kind))
        if not head or not tail:
            continue
        closes = head["close"] is not None
        # With blanks after the bracket it is a tag only if it is finished: `count < private` is code.
        if (closes and tail["end"] is None) or (head["blank"] and tail["done"] is None):
            continue
        tags += 1
        if tags > most:
            break
        if not any(depth.values()):
            kept.append(text[start : at - len(head[0])])
        depth[kind] = max(depth[kind] - 1, 0) if closes else depth[kind] + 1
        start = tail.end()
    if not any(depth.values()):
        kept.append(text[start:])
    return "".join(kept), tags


def _patterns() -> list[re.Pattern[str]]:
    """What stands before and after the name of a kind in a tag."""
    if not _compiled:
        import re

        _compiled.extend(map(re.compile, _PATTERNS))
    return _compiled
