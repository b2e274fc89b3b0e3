"""Words for people from whatever stood in a session: one line, no control characters, never cut inside a word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

ELLIPSIS = "…"
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[a-z]\.)(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+(?=[\"'“`(*]*[A-Z0-9\u0080-\uffff])"
)
_MARKUP = re.compile(r"^\s*(?:[#>]+\s+|[-*+•]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+)|\*\*|__|^\s*\|?[-|: ]{4,}$")
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\(([^()\s]{1,400})\)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_EDGE = " ,;:-–—/|&("
_LONG_WORD = 20


def flat(text: str) -> str:
    return " ".join(text.split())


def plain(text: str) -> str:
    """One line without anything that is not seen."""
    return flat(_UNSEEN.sub(" ", text))


def short(text: str, most: int) -> str:
    """A line of at most so many characters; what is cut is cut between words."""
    line = plain(text[: 4 * most + 400])
    if len(line) <= most:
        return line
    whole, _, rest = line[: most - 1].rpartition(" ")
    if len(rest) > _LONG_WORD or not whole:
        return _first_parts(line, most)
    return f"{whole.rstrip(_EDGE)} {ELLIPSIS}"


def _first_parts(line: str, most: int) -> str:
    """With a long word at the end, as a path or an address is, the parts of it that fit."""
    cut = max(line.rfind(sign, 1, most - 1) for sign in "/?&=.:_|-, ")
    return line[:cut].rstrip(_EDGE) + ELLIPSIS if cut > 0 else ELLIPSIS


def lines_of(text: str) -> list[str]:
    """The lines of an agent's answer without its markup, code and tables."""
    found, fenced = list[str](), False
    for raw in text.splitlines():
        if _FENCE.match(raw):
            fenced = not fenced
        elif not fenced and not raw.lstrip().startswith("|") and (line := plain(_MARKUP.sub("", raw))):
            found.append(_LINK.sub(_linked, line) if "](" in line else line)
    return found


def _linked(link: re.Match[str]) -> str:
    return f"{link[1]} ({link[2]})" if link[2].startswith("http") else link[1]


def sentences(text: str) -> list[str]:
    return [sentence for line in lines_of(text) for sentence in _SENTENCE_END.split(line) if sentence]


def says_something(sentence: str) -> bool:
    """Neither a heading nor the opening of a list."""
    ended = sentence.endswith((".", "!", "?", ")", "`"))
    return not sentence.endswith(":") and not sentence.startswith(ELLIPSIS) and (ended or sentence.count(" ") > 3)


def listed(names: Iterable[str], most: int, *, quote: str = "{}") -> str:
    """`a, b and 3 more`."""
    every = list(dict.fromkeys(names))
    shown = [quote.format(name) for name in every[:most]]
    if len(every) > most:
        return ", ".join(shown) + f" and {len(every) - most} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def times(count: int) -> str:
    return "" if count == 1 else " twice" if count == 2 else f" {count} times"


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def fitted(items: Sequence[str], room: int, cost: int = 1) -> list[str]:
    """The items that fit into so many characters, each with some of its own; the first always goes in."""
    kept, used = list[str](), 0
    for item in items:
        size = len(item) + cost
        if not kept or used + size <= room:
            kept.append(item)
            used += size
    return kept
