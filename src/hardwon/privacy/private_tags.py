"""Strip the parts of a text that a person tagged as private, and hardwon's own fenced text.

When in doubt, text is hidden: an unclosed part extends to the end of its string, an unfinished tag still opens one, and
where two kinds overlap both must be closed. A string may itself hold JSON, so `\\u003cprivate>` and `<\\/private>` are
tags too. Tag names are searched first, so that only a likely tag costs the import of `re`.
"""

from __future__ import annotations

from hardwon.text.characters import fold_case
from hardwon.text.fence import FENCE_OPEN

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

# Nobody tags this often by hand; a program that repeats tags could otherwise cost quadratic time.
MAX_TAGS = 100
_MAX_SPOTS = 20 * MAX_TAGS  # possible tags, most of them unfinished; above this the text is withheld
WITHHELD_TEXT = f"[withheld: more than {MAX_TAGS} private tags]"
TAG_NAMES = ("private", "claude-mem-context", FENCE_OPEN[1:-1])
_OPENING_TAG = "<private>"
_END_MARK = "\ue000"  # of private use, so no text has it
_TAG_STARTS = ("<", "3c", "2f")  # how a tag begins, without the spaces, slashes and backslashes after it
_MAX_LEAD_CHARS = 48  # the longest spelling of what precedes a tag's name
_PATTERNS = (
    r"(?ix) (?: < | \\{1,8} (?: u00 | x ) 3c ) (?P<blank> \s{0,8} )"
    r"      (?P<close> \\{0,8} / | \\{1,8} (?: u00 | x ) 2f )? \s{0,8} \Z",
    r"(?ix) (?P<done> (?= \s{0,8} (?: > | \\{1,8} (?: u00 | x ) 3e ) ) )?"
    r"      (?P<end> [^<>]{0,200}? (?: > | \\{1,8} (?: u00 | x ) 3e ) )?",
)
_compiled: list[re.Pattern[str]] = []


def strip_private(text: str) -> str:
    """Return the text without its private parts; withhold all of it if it has more than MAX_TAGS tags."""
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
        text = stripped  # search again: removing a part may join two halves of a tag
    return text


def strip_private_sequence(texts: list[str]) -> list[str]:
    """Return the texts of one value without what lies between a tag in one of them and its end in a later one.

    A part that is never closed extends to the end of its own text only.
    """
    changed = list(texts)
    for position, text in enumerate(texts):
        # A mark after the text disappears only if a part is still open there.
        is_part_open = has_possible_tag(text) and _END_MARK not in strip_private(text + _END_MARK)
        if not is_part_open:
            continue
        for later in range(position + 1, len(texts)):
            if not has_possible_tag(texts[later]):
                continue
            # Begin the later text within a part: the mark after it stays only if the text closes that part.
            closes_part = _END_MARK in strip_private(_OPENING_TAG + texts[later] + _END_MARK)
            if closes_part:
                changed[position] = strip_private(changed[position])
                changed[position + 1 : later] = [""] * (later - position - 1)
                changed[later] = strip_private(_OPENING_TAG + texts[later])
                break
    return changed


def has_possible_tag(text: str) -> bool:
    """Return whether a text has the name of a tag, which is a quick check before the exact search."""
    folded_text = fold_case(text)
    return any(tag_name in folded_text for tag_name in TAG_NAMES)


def is_wholly_private(text: str) -> bool:
    """Return whether a text that is not blank has nothing left once it is stripped."""
    return not text.isspace() and text != "" and strip_private(text).strip() in ("", WITHHELD_TEXT)


def strip_private_deep(value: Any) -> Any:
    """Strip every string and key of a JSON value, each by itself."""
    return map_strings(value, lambda text, _: strip_private(text))


def map_strings(
    value: Any, change: Callable[[str, str], str], is_covering_key: Callable[[str], bool] = lambda key: False
) -> Any:
    """Return the JSON value with `change(text, key)` applied to each string and key, at any depth.

    In `{"name": "TOKEN", "value": "…"}` the key of the value is TOKEN; items of a list have the key of the list. A key
    for which `is_covering_key` is true applies to everything inside its value, and numbers of four or more characters
    there are changed like strings.
    """
    root = [value]
    waiting: list[tuple[Any, Any, Any, str]] = [(value, root, 0, "")]
    while waiting:
        item, parent, slot, key = waiting.pop()
        if isinstance(item, str):
            parent[slot] = change(item, key)
        elif isinstance(item, dict):
            new_dict: dict[Any, Any] = {}
            parent[slot] = new_dict
            is_covered = is_covering_key(key)
            for name, inner in item.items():
                renamed = change(name, "") if isinstance(name, str) else name
                new_dict[renamed] = None  # now, so that the keys keep their order
                inner_key = key if is_covered else _get_key_of_value(item, name)
                waiting.append((inner, new_dict, renamed, inner_key))
        elif isinstance(item, list | tuple):
            new_list = [None] * len(item)
            parent[slot] = new_list
            waiting += [(inner, new_list, index, key) for index, inner in enumerate(item)]
        else:
            is_number = isinstance(item, int | float) and not isinstance(item, bool)
            if is_number and len(str(item)) > 3 and is_covering_key(key):
                parent[slot] = change(str(item), key)
            else:
                parent[slot] = item
    return root[0]


def _get_key_of_value(item: dict[Any, Any], name: Any) -> str:
    """Return the key that says what a value in an object is: its own, or the name beside it in name and value."""
    key = item.get("name", item.get("key")) if name == "value" else name
    return key if isinstance(key, str) else ""


def _find_spots(folded_text: str) -> list[tuple[int, str]]:
    """Return the positions of tag names that follow a possible beginning of a tag."""
    spots = []
    for tag_name in TAG_NAMES:
        position = folded_text.find(tag_name)
        while position >= 0:
            end = position + len(tag_name)
            lead = folded_text[max(position - _MAX_LEAD_CHARS, 0) : position]
            is_tag_start = lead.rstrip(" \t\r\n\f\v/\\").endswith(_TAG_STARTS)
            following = folded_text[end : end + 1]
            is_longer_name = following.isalnum() or following in ("-", "_")
            if is_tag_start and not is_longer_name:
                spots.append((position, tag_name))
            if len(spots) > _MAX_SPOTS:
                return spots  # enough for the caller to withhold the text
            position = folded_text.find(tag_name, end)
    return sorted(spots)


def _strip_parts(text: str, spots: list[tuple[int, str]], max_tags: int) -> tuple[str, int]:
    """Return the text outside all private parts, and the number of tags; stop counting above `max_tags`."""
    public_parts = []
    start = 0  # behind the last tag
    tags = 0
    depth = dict.fromkeys(TAG_NAMES, 0)  # how many parts of each kind are open
    lead_pattern, tail_pattern = _compile_patterns()
    for position, tag_name in spots:
        head = lead_pattern.search(text[max(position - _MAX_LEAD_CHARS, start) : position])
        tail = tail_pattern.match(text, position + len(tag_name))
        if not head or not tail:
            continue
        is_closing = head["close"] is not None
        if is_closing and tail["end"] is None:
            continue
        # With spaces after the bracket only a finished tag counts: `count < private` is code.
        if head["blank"] and tail["done"] is None:
            continue
        tags += 1
        if tags > max_tags:
            break
        if not any(depth.values()):
            public_parts.append(text[start : position - len(head[0])])
        depth[tag_name] += -1 if is_closing else 1
        depth[tag_name] = max(depth[tag_name], 0)  # a closing tag without an opening one
        start = tail.end()
    if not any(depth.values()):
        public_parts.append(text[start:])
    return "".join(public_parts), tags


def _compile_patterns() -> list[re.Pattern[str]]:
    """Return the patterns of a tag before and after its name, compiled on first use."""
    if not _compiled:
        import re

        _compiled.extend(map(re.compile, _PATTERNS))
    return _compiled
