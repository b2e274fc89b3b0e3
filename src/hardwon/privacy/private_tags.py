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
_MAX_SPOTS = 20 * MAX_TAGS  # nobody writes so many unfinished tags
WITHHELD_TEXT = f"[withheld: more than {MAX_TAGS} private tags]"
TAG_NAMES = ("private", "claude-mem-context", FENCE_OPEN[1:-1])
_TAG_STARTS = ("<", "3c", "2f")  # how a tag begins, once blanks, slashes and backslashes are gone
_MAX_LEAD_CHARS = 48  # the longest way to write what stands before the kind
_PATTERNS = (
    r"(?ix) (?: < | \\{1,8} (?: u00 | x ) 3c ) (?P<blank> \s{0,8} )"
    r"      (?P<close> \\{0,8} / | \\{1,8} (?: u00 | x ) 2f )? \s{0,8} \Z",
    r"(?ix) (?P<done> (?= \s{0,8} (?: > | \\{1,8} (?: u00 | x ) 3e ) ) )?"
    r"      (?P<end> [^<>]{0,200}? (?: > | \\{1,8} (?: u00 | x ) 3e ) )?",
)
_compiled: list[re.Pattern[str]] = []


def strip_private(text: str) -> str:
    """The text without its private parts; with more than MOST_TAGS tags nothing of it."""
    tag_count = 0
    while spots := _find_spots(fold_case(text)):
        if len(spots) > _MAX_SPOTS:
            return WITHHELD_TEXT
        stripped, tags = _strip_parts(text, spots, MAX_TAGS - tag_count)
        if not tags:
            break
        tag_count += tags
        if tag_count > MAX_TAGS:
            return WITHHELD_TEXT
        text = stripped  # taking a part out may have put the halves of a tag together
    return text


def has_possible_tag(text: str) -> bool:
    folded_text = fold_case(text)
    return any(tag_name in folded_text for tag_name in TAG_NAMES)


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
        item, parent, slot, key = waiting.pop()
        if isinstance(item, str):
            parent[slot] = change(item, key)
        elif isinstance(item, dict):
            new_dict: dict[Any, Any] = {}
            parent[slot], is_covered = new_dict, is_covering_key(key)
            for name, inner in item.items():
                renamed = change(name, "") if isinstance(name, str) else name
                new_dict[renamed] = None
                inner_key = item.get("name", item.get("key")) if name == "value" else name
                inner_key = key if is_covered else inner_key
                waiting.append((inner, new_dict, renamed, inner_key if isinstance(inner_key, str) else ""))
        elif isinstance(item, list | tuple):
            parent[slot] = new_list = [None] * len(item)
            waiting += [(inner, new_list, index, key) for index, inner in enumerate(item)]
        elif (
            isinstance(item, int | float) and len(str(item)) > 3 and not isinstance(item, bool) and is_covering_key(key)
        ):
            parent[slot] = change(str(item), key)
        else:
            parent[slot] = item
    return root[0]


def _find_spots(folded_text: str) -> list[tuple[int, str]]:
    """Where the name of a kind stands after what may be the beginning of a tag."""
    spots = []
    for tag_name in TAG_NAMES:
        position = folded_text.find(tag_name)
        while position >= 0:
            end = position + len(tag_name)
            is_tag_start = (
                folded_text[max(position - _MAX_LEAD_CHARS, 0) : position]
                .rstrip(" \t\r\n\f\v/\\")
                .endswith(_TAG_STARTS)
            )
            if (
                is_tag_start
                and not folded_text[end : end + 1].isalnum()
                and folded_text[end : end + 1] not in ("-", "_")
            ):
                spots.append((position, tag_name))
            if len(spots) > _MAX_SPOTS:
                return spots  # the text is withheld
            position = folded_text.find(tag_name, end)
    return sorted(spots)


def _strip_parts(text: str, spots: list[tuple[int, str]], max_tags: int) -> tuple[str, int]:
    """One pass: the text outside every part, and how many tags there were, at most one more than `most`."""
    public_parts, start, tags = [], 0, 0
    depth = dict.fromkeys(TAG_NAMES, 0)
    lead_pattern, tail_pattern = _compile_patterns()
    for position, tag_name in spots:
        head = lead_pattern.search(text[max(position - _MAX_LEAD_CHARS, start) : position])
        tail = tail_pattern.match(text, position + len(tag_name))
        if not head or not tail:
            continue
        is_closing = head["close"] is not None
        # With blanks after the bracket it is a tag only if it is finished: `count < private` is code.
        if (is_closing and tail["end"] is None) or (head["blank"] and tail["done"] is None):
            continue
        tags += 1
        if tags > max_tags:
            break
        if not any(depth.values()):
            public_parts.append(text[start : position - len(head[0])])
        depth[tag_name] = max(depth[tag_name] - 1, 0) if is_closing else depth[tag_name] + 1
        start = tail.end()
    if not any(depth.values()):
        public_parts.append(text[start:])
    return "".join(public_parts), tags


def _compile_patterns() -> list[re.Pattern[str]]:
    """What stands before and after the name of a kind in a tag."""
    if not _compiled:
        import re

        _compiled.extend(map(re.compile, _PATTERNS))
    return _compiled
