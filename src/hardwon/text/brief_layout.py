"""How the text a session opens with is put together: sections in a fixed order, each with a share of the room.

A section gives back what it does not use, and the others take it by their shares. A line goes in whole or not at all;
a heading goes in with the first line below it. What the project's own notes say already is left out.
"""

from __future__ import annotations

from hardwon.types import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# In the order in which they are said, with what each may have of the room if all want more, in hundredths.
SHARES = {"handoff": 5, "resume": 15, "memories": 20, "lessons": 25, "index": 25, "summary": 10}
JOINT = "\n\n"
SHORTEST_KNOWN = 12  # characters; a shorter line of the notes is a heading, not something that is said
_LEFT_OUT = "(and {} more, left out for room: hardwon search WORDS)"
_QUOTING = str.maketrans("", "", "*_`\"'")
_MARKUP = "/!?"
_ENDS, _CLOSING = (".", "!", "?", ";"), "*_`\"')"


@word
class Line:
    """One line of a section, or with a rank a heading in it. `said` is what the project's notes may say too; of the
    first heading it is what the person is told of the section."""

    section: str
    text: str
    said: str = ""
    head: int = 0


@word
class Recalled:
    """One thing that is known of a file, or fits a prompt, as it is told."""

    id: str
    title: str
    text: str


@word
class Part:
    """A section as it is said, what it is to the person, and what it wanted and got: in characters, and in lines."""

    section: str
    text: str
    wanted: int
    room: int
    shown: int = 0
    left_out: int = 0
    known: int = 0
    about: str = ""


def width(text: str) -> int:
    """Characters as the agents count them: one beyond the first plane is two."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def allot(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """What each section may have of the room: all it wants, or its share and its part of what others give back."""
    given = dict.fromkeys(wanted, 0)
    while hungry := [name for name in wanted if given[name] < wanted[name]]:
        left, shares = room - sum(given.values()), sum(SHARES[name] for name in hungry)
        if left < len(hungry):
            break
        for name in hungry:
            given[name] = min(wanted[name], given[name] + left * SHARES[name] // shares)
        if room - sum(given.values()) == left:
            break
    return given


def need(lines: Iterable[Line]) -> int:
    found = [width(line.text) + 1 for line in lines]
    return sum(found) + len(JOINT) - 1 if found else 0


def fit(section: str, lines: Sequence[Line], room: int, known: frozenset[str]) -> Part:
    """The lines that fit, in their order, under their headings."""
    said, heads, shown, left_out = list[str](), list[Line](), 0, 0
    new = fresh(lines, known)
    left = room - len(JOINT) - (0 if need(new) <= room else len(_LEFT_OUT) + 5)
    for line in new:
        if line.head:
            heads = [*(one for one in heads if one.head < line.head), line]
            continue
        texts = [*(one.text for one in heads), line.text]
        cost = sum(width(text) + 1 for text in texts)
        if cost > left + 1:
            left_out += 1
            continue
        said, heads, left, shown = said + texts, [], left - cost, shown + 1
    if left_out and said:
        said.append(_LEFT_OUT.format(left_out))
    there = sum(not line.head for line in lines)
    about = next((line.said for line in new if line.head), "")
    return Part(section, "\n".join(said), need(new), room, shown, left_out, there - shown - left_out, about)


def fresh(lines: Sequence[Line], known: frozenset[str]) -> list[Line]:
    """Those that the project's notes do not say; none if only headings are left."""
    new = [line for line in lines if line.head or not is_known(line.said, known)]
    return new if any(not line.head for line in new) else []


def is_known(said: str, known: frozenset[str]) -> bool:
    plain = normal(said)
    return len(plain) >= SHORTEST_KNOWN and (plain in known or known.issuperset(sentences(said)))


def sayings(text: str) -> set[str]:
    """What notes say, as `normal` leaves it: each line, what goes on over several of them, each sentence of that."""
    found, pieces = set[str](), list[list[str]]()
    for line in text.splitlines():
        found.add(normal(line))
        if line.strip() and pieces and pieces[-1] and not _begins_anew(line):
            pieces[-1].append(line)
        else:
            pieces.append([line] if line.strip() else [])
        if line.startswith("#"):
            pieces.append([])
    for piece in map(" ".join, filter(None, pieces)):
        found.add(normal(piece))
        found.update(sentences(piece))
    return found


def _begins_anew(line: str) -> bool:
    """Whether a line is a heading, an item of a list, a quotation or a row of a table, and goes on with nothing."""
    first = line.split(None, 1)[0]
    return first[0] in "#>|" or first in ("-", "*", "+", "•") or (first[:-1].isdigit() and first[-1] in ".)")


def sentences(text: str) -> list[str]:
    """The sentences of a text, as `normal` leaves them."""
    found = [list[str]()]
    for said in text.split():
        found[-1].append(said)
        if not said[-1].isalnum() and said.rstrip(_CLOSING).endswith(_ENDS):
            found.append([])
    return [normal(" ".join(words)) for words in found if words]


def normal(line: str) -> str:
    """What a line says, without how it is marked, quoted, spaced or ended."""
    words = line.translate(_QUOTING).lstrip("-+#>• \t").split()
    if words and words[0][:-1].isdigit() and words[0][-1] in ".)":
        del words[0]
    return " ".join(words).rstrip(".:;!, ").casefold()


def one_line(text: str, most: int) -> str:
    """Text from outside as one line of data: nothing in it turns writing around, hides, or looks like a tag."""
    shown = "".join(" " if char.isspace() else char for char in text[: 4 * most] if _is_seen(char))
    line = harmless(" ".join(shown.split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def harmless(text: str) -> str:
    """Text in which nothing looks like a tag, so that nothing passes for words of the agent's own program."""
    pairs = zip(text, f"{text[1:]} ", strict=False)
    return "".join("‹" if char == "<" and (after.isalpha() or after in _MARKUP) else char for char, after in pairs)


def _is_seen(char: str) -> bool:
    selects = "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"  # invisible, and able to carry a hidden text
    return char.isspace() or (char.isprintable() and not selects)
