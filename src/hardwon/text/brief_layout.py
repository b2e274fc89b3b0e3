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
SECTION_SHARES = {"handoff": 10, "resume": 15, "memories": 20, "lessons": 25, "index": 20, "summary": 10}
SECTION_SEPARATOR = "\n\n"
MIN_STATEMENT_LENGTH = 12  # characters; a shorter line of the notes is a heading, not something that is said
_OMITTED_NOTICE = "(and {} more, left out for room: hardwon search WORDS)"
_QUOTE_REMOVAL = str.maketrans("", "", "*_`\"'")
_TAG_STARTS = "/!?"
_SENTENCE_ENDS, _CLOSING_MARKS = (".", "!", "?", ";"), "*_`\"')"


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
    allotted = dict.fromkeys(wanted_chars, 0)
    while short_sections := [name for name in wanted_chars if allotted[name] < wanted_chars[name]]:
        remaining, shares = room - sum(allotted.values()), sum(SECTION_SHARES[name] for name in short_sections)
        if remaining < len(short_sections):
            break
        for name in short_sections:
            allotted[name] = min(wanted_chars[name], allotted[name] + remaining * SECTION_SHARES[name] // shares)
        if room - sum(allotted.values()) == remaining:
            break
    return allotted


def measure_lines(lines: Iterable[BriefLine]) -> int:
    lengths = [count_characters(line.text) + 1 for line in lines]
    return sum(lengths) + len(SECTION_SEPARATOR) - 1 if lengths else 0


def fit_section(section: str, lines: Sequence[BriefLine], room: int, note_statements: frozenset[str]) -> BriefSection:
    """The lines that fit, in their order, under their headings."""
    shown_texts, headings, shown_count, omitted_count = list[str](), list[BriefLine](), 0, 0
    new_lines = drop_noted_lines(lines, note_statements)
    remaining = room - len(SECTION_SEPARATOR) - (0 if measure_lines(new_lines) <= room else len(_OMITTED_NOTICE) + 5)
    for line in new_lines:
        if line.heading_rank:
            headings = [*(heading for heading in headings if heading.heading_rank < line.heading_rank), line]
            continue
        texts = [*(heading.text for heading in headings), line.text]
        cost = sum(count_characters(text) + 1 for text in texts)
        if cost > remaining + 1:
            omitted_count += 1
            continue
        shown_texts, headings, remaining, shown_count = shown_texts + texts, [], remaining - cost, shown_count + 1
    if omitted_count and shown_texts:
        shown_texts.append(_OMITTED_NOTICE.format(omitted_count))
    line_count = sum(not line.heading_rank for line in lines)
    notice = next((line.statement for line in new_lines if line.heading_rank), "")
    return BriefSection(
        section,
        "\n".join(shown_texts),
        measure_lines(new_lines),
        room,
        shown_count,
        omitted_count,
        line_count - shown_count - omitted_count,
        notice,
    )


def drop_noted_lines(lines: Sequence[BriefLine], note_statements: frozenset[str]) -> list[BriefLine]:
    """Those that the project's notes do not say; none if only headings are left."""
    new_lines = [line for line in lines if line.heading_rank or not is_in_notes(line.statement, note_statements)]
    return new_lines if any(not line.heading_rank for line in new_lines) else []


def is_in_notes(statement: str, note_statements: frozenset[str]) -> bool:
    normalized = normalize_line(statement)
    return len(normalized) >= MIN_STATEMENT_LENGTH and (
        normalized in note_statements or note_statements.issuperset(split_normalized_sentences(statement))
    )


def extract_statements(text: str) -> set[str]:
    """What notes say, as `normal` leaves it: each line, what goes on over several of them, each sentence of that."""
    statements, paragraphs = set[str](), list[list[str]]()
    for line in text.splitlines():
        statements.add(normalize_line(line))
        if line.strip() and paragraphs and paragraphs[-1] and not _is_block_start(line):
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line] if line.strip() else [])
        if line.startswith("#"):
            paragraphs.append([])
    for paragraph in map(" ".join, filter(None, paragraphs)):
        statements.add(normalize_line(paragraph))
        statements.update(split_normalized_sentences(paragraph))
    return statements


def _is_block_start(line: str) -> bool:
    """Whether a line is a heading, an item of a list, a quotation or a row of a table, and goes on with nothing."""
    first_word = line.split(None, 1)[0]
    return (
        first_word[0] in "#>|"
        or first_word in ("-", "*", "+", "•")
        or (first_word[:-1].isdigit() and first_word[-1] in ".)")
    )


def split_normalized_sentences(text: str) -> list[str]:
    """The sentences of a text, as `normal` leaves them."""
    sentences = [list[str]()]
    for word in text.split():
        sentences[-1].append(word)
        if not word[-1].isalnum() and word.rstrip(_CLOSING_MARKS).endswith(_SENTENCE_ENDS):
            sentences.append([])
    return [normalize_line(" ".join(words)) for words in sentences if words]


def normalize_line(line: str) -> str:
    """What a line says, without how it is marked, quoted, spaced or ended."""
    words = line.translate(_QUOTE_REMOVAL).lstrip("-+#>• \t").split()
    if words and words[0][:-1].isdigit() and words[0][-1] in ".)":
        del words[0]
    return " ".join(words).rstrip(".:;!, ").casefold()


def sanitize_line(text: str, max_length: int) -> str:
    """Text from outside as one line of data: nothing in it turns writing around, hides, or looks like a tag."""
    visible = "".join(" " if char.isspace() else char for char in text[: 4 * max_length] if _is_visible(char))
    line = escape_tags(" ".join(visible.split()))
    return line if len(line) <= max_length else f"{line[: max_length - 1].rstrip()}…"


def escape_tags(text: str) -> str:
    """Text in which nothing looks like a tag, so that nothing passes for words of the agent's own program."""
    pairs = zip(text, f"{text[1:]} ", strict=False)
    return "".join(
        "‹" if char == "<" and (next_char.isalpha() or next_char in _TAG_STARTS) else char for char, next_char in pairs
    )


def _is_visible(char: str) -> bool:
    is_selector = "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"  # invisible, and able to carry a hidden text
    return char.isspace() or (char.isprintable() and not is_selector)
