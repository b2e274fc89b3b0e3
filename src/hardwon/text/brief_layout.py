"""Lay out the brief that a session opens with: sections in a fixed order, each with a share of the room.

Room that a section does not use is divided among the others by their shares. A line goes in whole or not at all; a
heading goes in with the first line below it. Lines that the project's own notes already have are left out.
"""

from __future__ import annotations

from hardwon.text.fence import SECTION_SEPARATOR
from hardwon.types import frozen

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Agents replace more than 10,000 characters by a preview; this leaves room for the fence and a margin.
BRIEF_CHARACTERS = 8_800
# In the order of the brief; each section's share in percent, if all want more room than there is.
SECTION_SHARES = {"handoff": 10, "resume": 15, "memories": 20, "lessons": 25, "index": 20, "summary": 10}
MIN_STATEMENT_LENGTH = 12  # a shorter line of the notes is a heading, not a statement
_OMITTED_NOTICE = "(and {} more, left out for room: hardwon search WORDS)"
_QUOTE_REMOVAL = str.maketrans("", "", "*_`\"'")
_TAG_STARTS = "/!?"
_SENTENCE_ENDS = (".", "!", "?", ";")
_CLOSING_MARKS = "*_`\"')"


@frozen
class BriefLine:
    """One line of a section, or a heading in it if `heading_rank` is set.

    `statement` is compared with the project's notes; the first heading's `statement` is the section's notice.
    """

    section: str
    text: str
    statement: str = ""
    heading_rank: int = 0


@frozen
class RecalledItem:
    """One record about a file, or one that matches a prompt, as an agent is told it."""

    id: str
    title: str
    text: str


@frozen
class BriefSection:
    """A section's text, the notice about it for the person, and its size in characters and lines."""

    name: str
    text: str
    wanted_chars: int
    allotted_chars: int
    shown_lines: int = 0
    omitted_lines: int = 0
    noted_lines: int = 0  # left out because the project's own notes have them
    notice: str = ""


def count_characters(text: str) -> int:
    """Count characters as agents do, in UTF-16 units: one beyond the basic plane counts as two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(char > "\uffff" for char in text)


def allot_room(wanted_chars: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the room of each section: all it wants, or its share plus its part of the room that others leave."""
    allotted = dict.fromkeys(wanted_chars, 0)
    # Each round divides what is left among the sections that want more, until the parts round down to nothing.
    while short_sections := [name for name in wanted_chars if allotted[name] < wanted_chars[name]]:
        remaining = room - sum(allotted.values())
        if remaining < len(short_sections):
            break
        total_share = sum(SECTION_SHARES[name] for name in short_sections)
        for name in short_sections:
            part = remaining * SECTION_SHARES[name] // total_share
            allotted[name] = min(wanted_chars[name], allotted[name] + part)
        if room - sum(allotted.values()) == remaining:
            break
    return allotted


def measure_lines(lines: Iterable[BriefLine]) -> int:
    """Return the size of a section with these lines and the separator after it; 0 without lines."""
    lengths = [count_characters(line.text) + 1 for line in lines]  # each with its newline
    if not lengths:
        return 0
    return sum(lengths) - 1 + len(SECTION_SEPARATOR)


def fit_section(section: str, lines: Sequence[BriefLine], room: int, note_statements: frozenset[str]) -> BriefSection:
    """Lay out the lines that fit, in order and under their headings, and count the others."""
    shown_texts: list[str] = []
    headings: list[BriefLine] = []  # those above the next line that are not shown yet
    shown_count = 0
    omitted_count = 0
    new_lines = drop_noted_lines(lines, note_statements)
    wanted_chars = measure_lines(new_lines)
    remaining = room - len(SECTION_SEPARATOR)
    if wanted_chars > room:
        remaining -= len(_OMITTED_NOTICE) + 5  # for the digits of its count
    for line in new_lines:
        if line.heading_rank:
            headings = [*(heading for heading in headings if heading.heading_rank < line.heading_rank), line]
            continue
        texts = [*(heading.text for heading in headings), line.text]
        cost = sum(count_characters(text) + 1 for text in texts)
        if cost > remaining + 1:  # the last line needs no newline
            omitted_count += 1
            continue  # a later line may be shorter
        shown_texts += texts
        headings = []
        remaining -= cost
        shown_count += 1
    if omitted_count and shown_texts:
        shown_texts.append(_OMITTED_NOTICE.format(omitted_count))
    line_count = sum(not line.heading_rank for line in lines)
    headings_in_order = [line for line in new_lines if line.heading_rank]
    return BriefSection(
        name=section,
        text="\n".join(shown_texts),
        wanted_chars=wanted_chars,
        allotted_chars=room,
        shown_lines=shown_count,
        omitted_lines=omitted_count,
        noted_lines=line_count - shown_count - omitted_count,
        notice=headings_in_order[0].statement if headings_in_order else "",
    )


def drop_noted_lines(lines: Sequence[BriefLine], note_statements: frozenset[str]) -> list[BriefLine]:
    """Return the lines that the project's notes do not have; none if only headings remain."""
    new_lines = [line for line in lines if line.heading_rank or not is_in_notes(line.statement, note_statements)]
    has_statement = any(not line.heading_rank for line in new_lines)
    return new_lines if has_statement else []


def is_in_notes(statement: str, note_statements: frozenset[str]) -> bool:
    """Return whether the notes have this statement as a whole, or each of its sentences."""
    normalized = normalize_line(statement)
    if len(normalized) < MIN_STATEMENT_LENGTH:
        return False
    return normalized in note_statements or note_statements.issuperset(_split_normalized_sentences(statement))


def extract_statements(text: str) -> set[str]:
    """Return each line, paragraph and sentence of the notes, as `normalize_line` returns it."""
    statements = set[str]()
    paragraphs: list[list[str]] = [[]]  # the lines of each
    for line in text.splitlines():
        statements.add(normalize_line(line))
        if not line.strip() or _is_block_start(line):
            paragraphs.append([])
        if line.strip():
            paragraphs[-1].append(line)
        if line.startswith("#"):  # a heading ends with its line
            paragraphs.append([])
    for lines in paragraphs:
        if lines:
            paragraph = " ".join(lines)
            statements.add(normalize_line(paragraph))
            statements.update(_split_normalized_sentences(paragraph))
    return statements


def _is_block_start(line: str) -> bool:
    """Return whether a line is a heading, list item, quotation or table row, so does not continue the line before."""
    first_word = line.split(None, 1)[0]
    is_list_number = first_word[:-1].isdigit() and first_word[-1] in ".)"
    return is_list_number or first_word[0] in "#>|" or first_word in ("-", "*", "+", "•")


def _split_normalized_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each as `normalize_line` returns it."""
    sentences = [list[str]()]
    for word in text.split():
        sentences[-1].append(word)
        if not word[-1].isalnum() and word.rstrip(_CLOSING_MARKS).endswith(_SENTENCE_ENDS):
            sentences.append([])
    return [normalize_line(" ".join(words)) for words in sentences if words]


def normalize_line(line: str) -> str:
    """Return a line in lower case without markup, quotes, extra spaces and final punctuation."""
    words = line.translate(_QUOTE_REMOVAL).lstrip("-+#>• \t").split()
    first_word = words[0] if words else ""
    is_list_number = first_word.endswith((".", ")")) and first_word[:-1].isdigit()
    if is_list_number:
        del words[0]
    return " ".join(words).rstrip(".:;!, ").casefold()


def sanitize_line(text: str, max_length: int) -> str:
    """Return untrusted text as one line without bidirectional controls, invisible characters or tags."""
    # Cut before it is searched, because the text may be huge; what is removed below makes it shorter still.
    visible = "".join(filter(_is_visible, text[: 4 * max_length]))
    line = escape_tags(" ".join(visible.split()))
    if len(line) <= max_length:
        return line
    return f"{line[: max_length - 1].rstrip()}…"


def escape_tags(text: str) -> str:
    """Escape everything that looks like a tag, so that no text can pass for a message of the agent's own."""
    chars = []
    for char, next_char in zip(text, f"{text[1:]} ", strict=False):
        starts_tag = char == "<" and (next_char.isalpha() or next_char in _TAG_STARTS)
        chars.append("‹" if starts_tag else char)
    return "".join(chars)


def _is_visible(char: str) -> bool:
    """Return whether a character can be seen, or is white space that becomes a space."""
    if char.isspace():
        return True
    is_selector = "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"  # can carry hidden text
    return char.isprintable() and not is_selector
