"""How the text a session opens with is put together: sections in a fixed order, each with a share of the room.

A section gives back what it does not use, and the others take it by their shares. A line goes in whole or not at all;
a heading goes in with the first line below it. What the project's own notes say already is left out.
"""

from __future__ import annotations

from hardwon.types import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# In the order in which they are said, with what each may have of the room if all want more, in hundredths.
SECTION_SHARES = {"handoff": 5, "resume": 15, "memories": 20, "lessons": 25, "index": 25, "summary": 10}
SECTION_SEPARATOR = "\n\n"
MIN_STATEMENT_LENGTH = 12  # characters; a shorter line of the notes is a heading, not something that is said
_LEFT_OUT = "(and {} more, left out for room: hardwon search WORDS)"
_QUOTING = str.maketrans("", "", "*_`\"'")
_MARKUP = "/!?"
_ENDS, _CLOSING = (".", "!", "?", ";"), "*_`\"')"


@frozen
class BriefLine:
    """One line of a section, or with a rank a heading in it. `said` is what the project's notes may say too; of the
    first heading it is what the person is told of the section."""

    section: str
    text: str
    statement: str = ""
    heading_rank: int = 0


@frozen
class RecalledItem:
    """One thing that is known of a file, or fits a prompt, as it is told."""

    id: str
    title: str
    text: str


@frozen
class BriefSection:
    """A section as it is said, what it is to the person, and what it wanted and got: in characters, and in lines."""

    name: str
    text: str
    wanted_chars: int
    allotted_chars: int
    shown_lines: int = 0
    omitted_lines: int = 0
    noted_lines: int = 0
    notice: str = ""


def count_characters(text: str) -> int:
    """Characters as the agents count them: one beyond the first plane is two."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def allot_room(wanted_chars: Mapping[str, int], room: int) -> dict[str, int]:
    """What each section may have of the room: all it wants, or its share and its part of what others give back."""
    given = dict.fromkeys(wanted_chars, 0)
    while hungry := [name for name in wanted_chars if given[name] < wanted_chars[name]]:
        left, shares = room - sum(given.values()), sum(SECTION_SHARES[name] for name in hungry)
        if left < len(hungry):
            break
        for name in hungry:
            given[name] = min(wanted_chars[name], given[name] + left * SECTION_SHARES[name] // shares)
        if room - sum(given.values()) == left:
            break
    return given


def measure_lines(lines: Iterable[BriefLine]) -> int:
    found = [count_characters(line.text) + 1 for line in lines]
    return sum(found) + len(SECTION_SEPARATOR) - 1 if found else 0


def fit_section(section: str, lines: Sequence[BriefLine], room: int, note_statements: frozenset[str]) -> BriefSection:
    """The lines that fit, in their order, under their headings."""
    said, heads, shown, left_out = list[str](), list[BriefLine](), 0, 0
    new = drop_noted_lines(lines, note_statements)
    left = room - len(SECTION_SEPARATOR) - (0 if measure_lines(new) <= room else len(_LEFT_OUT) + 5)
    for line in new:
        if line.heading_rank:
            heads = [*(one for one in heads if one.heading_rank < line.heading_rank), line]
            continue
        texts = [*(one.text for one in heads), line.text]
        cost = sum(count_characters(text) + 1 for text in texts)
        if cost > left + 1:
            left_out += 1
            continue
        said, heads, left, shown = said + texts, [], left - cost, shown + 1
    if left_out and said:
        said.append(_LEFT_OUT.format(left_out))
    there = sum(not line.heading_rank for line in lines)
    about = next((line.statement for line in new if line.heading_rank), "")
    return BriefSection(
        section, "\n".join(said), measure_lines(new), room, shown, left_out, there - shown - left_out, about
    )


def drop_noted_lines(lines: Sequence[BriefLine], note_statements: frozenset[str]) -> list[BriefLine]:
    """Those that the project's notes do not say; none if only headings are left."""
    new = [line for line in lines if line.heading_rank or not is_in_notes(line.statement, note_statements)]
    return new if any(not line.heading_rank for line in new) else []


def is_in_notes(statement: str, note_statements: frozenset[str]) -> bool:
    plain = normalize_line(statement)
    return len(plain) >= MIN_STATEMENT_LENGTH and (
        plain in note_statements or note_statements.issuperset(split_normalized_sentences(statement))
    )


def extract_statements(text: str) -> set[str]:
    """What notes say, as `normal` leaves it: each line, what goes on over several of them, each sentence of that."""
    found, pieces = set[str](), list[list[str]]()
    for line in text.splitlines():
        found.add(normalize_line(line))
        if line.strip() and pieces and pieces[-1] and not _begins_anew(line):
            pieces[-1].append(line)
        else:
            pieces.append([line] if line.strip() else [])
        if line.startswith("#"):
            pieces.append([])
    for piece in map(" ".join, filter(None, pieces)):
        found.add(normalize_line(piece))
        found.update(split_normalized_sentences(piece))
    return found


def _begins_anew(line: str) -> bool:
    """Whether a line is a heading, an item of a list, a quotation or a row of a table, and goes on with nothing."""
    first = line.split(None, 1)[0]
    return first[0] in "#>|" or first in ("-", "*", "+", "•") or (first[:-1].isdigit() and first[-1] in ".)")


def split_normalized_sentences(text: str) -> list[str]:
    """The sentences of a text, as `normal` leaves them."""
    found = [list[str]()]
    for said in text.split():
        found[-1].append(said)
        if not said[-1].isalnum() and said.rstrip(_CLOSING).endswith(_ENDS):
            found.append([])
    return [normalize_line(" ".join(words)) for words in found if words]


def normalize_line(line: str) -> str:
    """What a line says, without how it is marked, quoted, spaced or ended."""
    words = line.translate(_QUOTING).lstrip("-+#>• \t").split()
    if words and words[0][:-1].isdigit() and words[0][-1] in ".)":
        del words[0]
    return " ".join(words).rstrip(".:;!, ").casefold()


def sanitize_line(text: str, max_length: int) -> str:
    """Text from outside as one line of data: nothing in it turns writing around, hides, or looks like a tag."""
    shown = "".join(" " if char.isspace() else char for char in text[: 4 * max_length] if _is_seen(char))
    line = escape_tags(" ".join(shown.split()))
    return line if len(line) <= max_length else f"{line[: max_length - 1].rstrip()}…"


def escape_tags(text: str) -> str:
    """Text in which nothing looks like a tag, so that nothing passes for words of the agent's own program."""
    pairs = zip(text, f"{text[1:]} ", strict=False)
    return "".join("‹" if char == "<" and (after.isalpha() or after in _MARKUP) else char for char, after in pairs)


def _is_seen(char: str) -> bool:
    selects = "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"  # invisible, and able to carry a hidden text
    return char.isspace() or (char.isprintable() and not selects)
