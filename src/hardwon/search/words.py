"""The words of texts and queries: split a text for the index, stem words, and find the words of a query in a text.

An identifier or a path gives its parts, the whole, and each of its ends, joined without separators. So `getUserById`,
`get_user_by_id` and "user by id" find each other, and `auth/token.py` finds `src/auth/token.py`. Scripts without spaces
give each character and each pair of characters. No word contains a character of a query language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from unicodedata import category, normalize

MAX_WORD_LENGTH = 64  # nobody searches for longer words
_MAX_PATH_ENDS = 4  # parts in the longest indexed end of a path

STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing
    done for from had has have having he her here him his how i if in into is it its just me my no not of on or our
    out over own she should so some such than that the their them then there these they this those through to too
    until up us was we were what when where which while who whom why will with would you your
    """.split()
)

_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
_WORD_RUN = re.compile(
    rf"([{_UNSPACED_SCRIPTS}]+)|((?:(?![{_UNSPACED_SCRIPTS}])[^\W_])+(?:[-_./\\:@#~+]+(?:(?![{_UNSPACED_SCRIPTS}])[^\W_])+)*)"
)
_ASCII_RUN = re.compile(r"()([^\W_]+(?:[-_./\\:@#~+]+[^\W_]+)*)", re.ASCII)
_WORD_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_SEPARATOR = re.compile(r"[\W_]+")
_PATH_SEPARATOR = re.compile(r"[/\\.:@#~+]+")
_PUNCTUATION = re.compile(r"[\W_]+")
# SQLite's word index treats these letters as separators, so they are stored as private-use characters, which it treats
# as letters.
_INDEX_BLANKS = [*range(0x19B0, 0x19CA), 0x1CF2, 0x1CF3]
_INDEX_TABLE = {sign: 0xF0000 + sign for sign in _INDEX_BLANKS}
_DENSE_CHARS = 300  # within which words count as close together
MAX_WHOLE_CHARS = 480  # a text of up to six lines on a terminal is shown whole
_MAX_EXCERPT_LINES = 8  # of code and lists, whose lines may be short
MAX_SCANNED_CHARS = 200_000
_MAX_POSITIONS = 40  # of one word in one text: more change neither score nor excerpt
# BM25's parameters. Texts of agents vary from a line to pages, and a page is not worse, so length counts less than the
# usual 0.75; from 0.2 to 0.6 the results are the same. Repeated words count more than with the usual 1.2, because a
# record is about what it repeats.
_TERM_SATURATION = 3.0
_LENGTH_SHARE = 0.4
_USUAL_LENGTH_CHARS = 900.0
_MAX_LENGTH_FACTOR = 3.0  # of texts with more than 5,400 characters: a long log may end with the question

_TOKEN = re.compile(r"[^\W_]+")
_NAME_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_WORD = re.compile(r"\w+")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,400}\)")
_MARKUP = re.compile(
    r"^[ \t]*(?:```|~~~)\w*[ \t]*$|^[ \t]*#{1,6}[ \t]+|\*\*|^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[-: \t]*$", re.M
)
_TERMINAL_CODE = re.compile(r"(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]")  # of colours; some programs write the escape as ^[
_DANGLING_MARKER = re.compile(r"\n(?:[-*+•|]|\d{1,2}[.)])$")  # of a list's next item, whose text was cut off
_SENTENCE_START = re.compile(r"\n+|[.!?:] +(?=\W*[A-Z0-9])")
_GAP = re.compile(r"\s+|[-_./]")
_PLURAL_ABBREVIATION = re.compile(r"[A-Z]{2,}s")  # URLs
_CONTRACTION = re.compile(r"\b\w+n['’]t\b|['’](?:s|re|ve|ll|d|m)\b")
# Words that make a sentence a question, and say nothing about its topic.
_QUESTION_WORDS = frozenset(
    """
    again ever find found get got happen happened let make made many much need put thing things tried try use used
    using want way yet
    """.split()
)
# The longest comes first, so that the whole ending is cut off.
STEM_ENDINGS = tuple("ations ation ings ing ions ion ies ied ers er ed es ly s e y".split())
_WORD_ENDINGS = frozenset(["", "d", "r", "rs", "ment", "ments", "able", "al", "or", "ors", "ity", *STEM_ENDINGS])
_SHORT_WORD_ENDINGS = frozenset(["", "d", "s", "es", "ed", "er", "ing"])  # of words such as `go`, that begin many
_MIN_STEM, _MAX_ENDING = 3, 7


def extract_words(text: str, *, is_query: bool = False) -> list[str]:
    """Return each word once, in order, without stop words; a query in a script without spaces gives only pairs."""
    unique_words: dict[str, None] = {}
    if not text.isascii():
        text = normalize("NFKC", text)  # makes wide and narrow forms of a character equal
    pattern = _ASCII_RUN if text.isascii() else _WORD_RUN
    for run in pattern.finditer(text):
        unspaced, identifier = run.groups()
        if unspaced:
            unique_words.update(dict.fromkeys(_split_unspaced(unspaced, is_query)))
        # Most words are plain and need no splitting.
        elif identifier.isalpha() and (identifier.islower() or identifier[1:].islower()):
            unique_words[identifier.lower()] = None
        else:
            unique_words.update(dict.fromkeys(_split_identifier(identifier)))
    words = [word for word in unique_words if word not in STOP_WORDS and len(word) <= MAX_WORD_LENGTH]
    if text.isascii():
        return words
    return list(dict.fromkeys(word.translate(_INDEX_TABLE) for word in words))


def _fold_unspaced(text: str) -> str:
    """Return a text as the index has the words of scripts without spaces."""
    folded = "".join(char for char in normalize("NFKC", text) if category(char)[0] != "M")
    return folded.translate(_INDEX_TABLE)


def squeeze_identifier(text: str) -> str:
    """Join an identifier or a path into one word of lower-case letters and digits."""
    return _PUNCTUATION.sub("", text).lower().translate(_INDEX_TABLE)


def build_filter_word(name: str, value: str) -> str:
    """Return an index word for a filter such as a type, a file or an agent, unlike the words of texts."""
    return f"0{name}{squeeze_identifier(value)}"[:MAX_WORD_LENGTH]


def list_path_ends(path: str) -> list[str]:
    """Return the last one to _MAX_PATH_ENDS parts of a path, each joined into one word."""
    steps = [step for step in re.split(r"[/\\]+", path) if step]
    return [squeeze_identifier("".join(steps[-count:])) for count in range(1, min(len(steps), _MAX_PATH_ENDS) + 1)]


def _split_unspaced(run: str, is_query: bool) -> list[str]:
    """Return the characters of a script without spaces, and their pairs.

    Vowels and tones written as marks are left out, because the word index does not treat them as letters. Pairs do not
    span other characters.
    """
    letters = [" " if not char.isalnum() else char for char in run if category(char)[0] != "M"]
    words: list[str] = []
    for part in "".join(letters).split():
        pairs = [part[i : i + 2] for i in range(len(part) - 1)]
        words += pairs if is_query and pairs else [*part, *pairs]
    return words


def _split_identifier(identifier: str) -> list[str]:
    """Return the parts of an identifier or a path, its ends and the whole as one word each."""
    pieces = _SEPARATOR.split(identifier)
    words = [piece.lower() for piece in pieces]
    if len(pieces) > 1:
        steps = _PATH_SEPARATOR.split(identifier)
        words += [squeeze_identifier(step) for step in steps]
        words += [
            squeeze_identifier("".join(steps[-count:])) for count in range(2, _MAX_PATH_ENDS + 2) if count <= len(steps)
        ]
        words.append(squeeze_identifier(identifier))
    for piece in pieces:
        parts = _WORD_PART.findall(piece)
        if len(parts) > 1:
            words += [part.lower() for part in parts if len(part) > 1]
    return words


@dataclass(frozen=True, slots=True)
class TextMatch:
    """What a text has of a query: `score` is about 1 if it has every word close together.

    `coverage` is the share of the words' weight that it has.
    """

    score: float
    coverage: float
    words: tuple[str, ...]


NO_MATCH = TextMatch(score=0.0, coverage=0.0, words=())
_NO_NAMES: Mapping[str, str] = {}


def strip_contractions(query: str) -> str:
    """Return a query without `couldn't` and the `'s` of `project's`, whose halves are no words."""
    return _CONTRACTION.sub(" ", query)


def split_query(query: str) -> list[str]:
    """Return the words to look for in texts, each part of an identifier by itself, without words of every question."""
    words: list[str] = []
    question_words: list[str] = []
    for token in _TOKEN.findall(query):
        if not token.isascii():
            words += extract_words(token, is_query=True)
        elif token.lower() in _QUESTION_WORDS:
            question_words.append(token.lower())
        elif _PLURAL_ABBREVIATION.fullmatch(token):
            words.append(token[:-1].lower())
        elif token.isalpha():
            words += [part.lower() for part in _NAME_PART.findall(token)]
        else:
            words.append(token.lower())  # a number, or a name such as `sha256sum`, which nobody writes in parts
    unique_words = [word for word in dict.fromkeys(words) if word not in STOP_WORDS]
    return unique_words or list(dict.fromkeys(question_words))


def find_whole_names(query: str) -> dict[str, str]:
    """Return the name that each part stands in, as one word: `github` for `git` and `hub` of `GitHub`."""
    whole_names: dict[str, str] = {}
    for token in _TOKEN.findall(query):
        parts = split_query(token)
        if len(parts) > 1 and token.isascii():
            whole_names |= dict.fromkeys(parts, token.lower())
    return whole_names


def list_names(query: str) -> list[str]:
    """Return the words of a query that are written like names: `Kafka`, `CPU`, `getUser`, `user_id`, `argon2`.

    The first word of a sentence has a capital anyway, and so have all words of a heading.
    """
    names = []
    for match in _WORD.finditer(query):
        word = match[0]
        text_before = query[: match.start()].rstrip()
        is_first = not text_before or text_before[-1] in ".!?:"
        has_inner_sign = "_" in word.strip("_") or any(char.isupper() for char in word[1:])
        has_digit = not word.isalpha() and not word.isdigit()
        if has_inner_sign or has_digit or (word[0].isupper() and not is_first):
            names.append(word)
    is_heading = len(names) > 1 and len(names) >= len(split_query(query))
    return [] if is_heading else [name for name in names if split_query(name)]


def match_text(
    text: str, extra_text: str, weights: Mapping[str, float], whole_names: Mapping[str, str] = _NO_NAMES
) -> TextMatch:
    """Match a text, given the weight of each word; words in the extra text, such as file names, count as well.

    A part of a name is also found where the whole name stands as one word.
    """
    total_weight = sum(weights.values())
    if not total_weight:
        return NO_MATCH
    scanned = text[:MAX_SCANNED_CHARS]
    lowered = lower_in_place(scanned)
    lowered_extra = lower_in_place(extra_text)
    length_factor = min(1 - _LENGTH_SHARE + _LENGTH_SHARE * len(scanned) / _USUAL_LENGTH_CHARS, _MAX_LENGTH_FACTOR)
    positions: list[tuple[int, str]] = []
    matched_words: list[str] = []
    frequency_score = coverage = 0.0
    for word, weight in weights.items():
        starts = find_starts(scanned, lowered, word, whole_names.get(word, ""))
        count = len(starts)
        if extra_text and next(_find_word(extra_text, lowered_extra, word), None):
            count += 1  # however often it stands there
        if not count and not word.isascii() and word in _fold_unspaced(scanned):
            count = 1
            starts = [0]
        if not count:
            continue
        matched_words.append(word)
        coverage += weight
        saturated = count * (_TERM_SATURATION + 1) / (count + _TERM_SATURATION * length_factor)
        frequency_score += weight * saturated
        positions += [(start, word) for start in starts]
    density = _compute_density(sorted(positions), weights)
    score = (frequency_score + density) / 2 / total_weight
    return TextMatch(score, coverage / total_weight, tuple(matched_words))


def _compute_density(positions: Sequence[tuple[int, str]], weights: Mapping[str, float]) -> float:
    """Return the largest weight of different words that stand close together."""
    best_weight = 0.0
    counts: dict[str, int] = {}
    weight, first = 0.0, 0
    for start, word in positions:
        if not counts.get(word):
            weight += weights[word]
        counts[word] = counts.get(word, 0) + 1
        while positions[first][0] < start - _DENSE_CHARS:
            dropped = positions[first][1]
            counts[dropped] -= 1
            if not counts[dropped]:
                weight -= weights[dropped]
            first += 1
        best_weight = max(best_weight, weight)
    return best_weight


def find_starts(text: str, lowered: str, word: str, whole_name: str) -> list[int]:
    """Return where a word stands in a text; if nowhere, where the name stands that it is a part of."""
    starts = [start for start, _ in _find_word(text, lowered, word)]
    if not starts and whole_name:
        starts = [start for start, _ in _find_word(text, lowered, whole_name)]
    return starts


def cut_excerpt(text: str, start: int, max_chars: int, *, is_markdown: bool = True) -> str:
    """Return part of a text from the beginning of the sentence that `start` is in, cut between words.

    Markdown is shown without its markup; in code the same signs mean something, as in `src/**/*.md`. Lines stay lines:
    joined, two commands or the items of a list would read as one.
    """
    if len(text) <= MAX_WHOLE_CHARS:
        start = 0
        max_chars = MAX_WHOLE_CHARS
    # Near the end, where less follows than an excerpt has room for, more of what stands before is shown.
    is_near_end = start + max_chars > len(text)
    begin = max(min(start - max_chars // 3, len(text) - max_chars), 0)
    if begin:
        # Begin at the nearest line or sentence before, else at a word a little before.
        ends = (match.end() for match in _SENTENCE_START.finditer(text, begin))
        breaks = list(takewhile(lambda end: end <= start, ends))
        begin = max(start - max_chars // 6, 0)
        if breaks:
            begin = breaks[0] if is_near_end else breaks[-1]
        else:
            begin += text[begin:start].find(" ") + 1
        for link in _LINK.finditer(text, max(begin - 600, 0), begin + 600):  # the longest link has 600 characters
            if link.start() < begin < link.end():
                begin = link.start()
    part = text[begin : begin + 3 * max_chars]
    lines = strip_markup(part) if is_markdown else _split_lines(part)
    is_cut = begin + 3 * max_chars < len(text) or len(lines) > _MAX_EXCERPT_LINES
    excerpt = "\n".join(lines[:_MAX_EXCERPT_LINES])
    if len(excerpt) > max_chars:
        is_cut = True
        excerpt = excerpt[:max_chars]
        if " " in excerpt[max_chars // 2 :]:
            excerpt = excerpt.rsplit(maxsplit=1)[0]
        excerpt = _DANGLING_MARKER.sub("", excerpt)
    if begin:
        excerpt = f"…{excerpt}"
    return f"{excerpt}…" if is_cut else excerpt


def strip_markup(text: str) -> list[str]:
    """Return the lines of Markdown without what a reader does not need: fences, headings, bold, targets of links."""
    # Codes of colours contain brackets, as links do.
    without_colours = _TERMINAL_CODE.sub("", text)
    return _split_lines(_MARKUP.sub("", _LINK.sub(r"\1", without_colours)))


def _split_lines(text: str) -> list[str]:
    """Return the lines that are not blank, with single spaces and without codes for the colours of a terminal."""
    lines = (" ".join(line.split()) for line in _TERMINAL_CODE.sub("", text).splitlines())
    return [line for line in lines if line]


def find_marks(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of a query's words in a text; a span has whole names, and words side by side make one span."""
    lowered = lower_in_place(text)
    spans: list[tuple[int, int]] = []
    for word in words:
        for start, end in _find_word(text, lowered, word):
            # Scripts without spaces have no names to widen the span to.
            spans.append(_find_whole_name(text, start, end) if word.isascii() else (start, end))
    marks: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if marks and (start <= marks[-1][1] or _GAP.fullmatch(text, marks[-1][1], start)):
            marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
        else:
            marks.append((start, end))
    return marks


def _find_whole_name(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the name that this part is in: `getToken` for `Token`."""
    while start and _is_name_char(text[start - 1]):
        start -= 1
    while end < len(text) and _is_name_char(text[end]):
        end += 1
    return start, end


def _is_name_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def mark_text(text: str, marks: Sequence[tuple[int, int]], begin: str, end: str) -> str:
    """Return the text with these signs before and after each span."""
    pieces = list[str]()
    last_end = 0
    for span_start, span_end in marks:
        pieces += [text[last_end:span_start], begin, text[span_start:span_end], end]
        last_end = span_end
    return "".join([*pieces, text[last_end:]])


def lower_in_place(text: str) -> str:
    """Return a text in lower case, with every character in its place: a few, such as U+0130, would become two."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(char.lower()[:1] for char in text)


def _find_word(text: str, lowered: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield where a word stands in a text, also with another ending or as a part of an identifier.

    `str.find` looks for the stem, which is ten times as fast as a pattern for all words.
    """
    is_plain = word.isascii()
    stem = stem_word(word) if is_plain else word
    count = 0
    start = lowered.find(stem)
    while start >= 0 and count < _MAX_POSITIONS:
        end = start + len(stem)
        if is_plain:
            endings = _WORD_ENDINGS if len(word) > _MIN_STEM else _SHORT_WORD_ENDINGS
            end = _find_word_end(text, end, stem, endings) if _is_word_start(text, start) else 0
        if end:
            count += 1
            yield start, end
        start = lowered.find(stem, start + 1)


def _is_word_start(text: str, start: int) -> bool:
    """Return whether a word or a part of an identifier begins here: `token` in `getToken`, `HTTPToken`, `v2token`."""
    previous_char = text[start - 1 : start]
    first_char = text[start]
    if not _is_letter(previous_char) or not _is_letter(first_char):
        return not (previous_char.isdigit() and first_char.isdigit())
    return first_char.isupper() and (previous_char.islower() or text[start + 1 : start + 2].islower())


def _is_letter(char: str) -> bool:
    """Return whether a character is a letter that has cases, unlike those of scripts without spaces."""
    return char.islower() or char.isupper()


def _find_word_end(text: str, position: int, stem: str, endings: frozenset[str]) -> int:
    """Return where the word with this stem ends; 0 if it is another word, such as `goal` for `go`."""
    end = position
    limit = min(position + _MAX_ENDING, len(text))
    if stem[-1].isdigit() and text[end : end + 1].isdigit():
        return 0
    while end < limit and text[end].islower():
        end += 1
    # In a name such as `parseJSON` a capital begins another word, but in `PARSED` it belongs to the ending.
    if end == position and text[position - 1].isupper():
        while end < limit and text[end].isupper():
            end += 1
    ending = text[position:end].lower()
    if ending in endings or (ending[:1] == stem[-1:] and ending[1:] in endings):  # `stop`, `stopped`
        return end
    return 0


@lru_cache(maxsize=1_000)
def stem_word(word: str) -> str:
    """Return a word without its ending; not a stem of the language, but the same for most forms of a word."""
    if not word.isalpha():
        return word
    for ending in STEM_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM:
            return word[: -len(ending)]
    return word
