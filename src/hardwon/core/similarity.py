"""Is this the same lesson in other words?

What a person rejected stays rejected, also with other case, spaces, invisible or look-alike characters: texts are
compared in a normal form that has none of these. It is a key and never shown, so it may spell a Russian word with
Latin letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hardwon.words import Lesson, word

SAME = 0.5
_STOP_WORDS = (
    "a an and are as at be been but by can do does for from had has have if in into is it its of on or so such than "
    "that the their then there these they this those to was were which while will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())

# The sign, then what it looks like. Small letters only, since the case is folded first: a Cyrillic letter is here if
# either of its cases deceives, a Greek one for its small case.
_LOOK_ALIKES = (
    "аa вb еe ёë ѕs іi їï јj кk мm нh оo рp сc тt уy хx һh ԁd ԛq ԝw ѵv ӏl ԍg ҽe үy ցg օo սu հh "
    "αa βb εe ζz ηn ιi κk νv οo ρp τt υu χx γy ωw ϲc ϳj ıi ɡg ɑa ʋv ɩi "
    "’' ‘' ʼ' ′' “\" ”\" „\" ″\" ‐- ‑- ‒- –- —- ―- −- ⁃- ⁄/ ∕/ ∗* ꞉: ∶: "
)
_LETTERS = {ord(pair[0]): pair[1] for pair in _LOOK_ALIKES.split()}
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_BLANK = "\u2800"
_CONTROLS = {code: " " if chr(code).isspace() else None for code in (*range(32), 127)}

# Scripts that do not part their words; each sign counts as a word there.
_UNPARTED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"(?<![\w-])--?[a-z][\w-]*|[{_UNPARTED}]|(?:(?![{_UNPARTED}])\w)+")


def normal(text: str) -> str:
    """The form in which texts are compared and signed: equal for texts that look the same."""
    if text.isascii():
        return _folded(text)
    before = None
    while before != text:  # folding the case may undo what NFKC composed, and the other way round
        before, text = text, _folded(text)
    return text


def _folded(text: str) -> str:
    if text.isascii():
        return " ".join(text.translate(_CONTROLS).lower().split())
    text = unicodedata.normalize("NFKC", text)
    unseen = {ord(char): " " if char.isspace() or char == _BLANK else None for char in set(text) if _is_unseen(char)}
    return " ".join(text.translate(unseen).casefold().translate(_LETTERS).split())


def _is_unseen(char: str) -> bool:
    """Whether nothing of its own is shown for it: controls, joiners, selectors, marks that found no letter to join."""
    if " " <= char <= "~":
        return False
    mark = "\u0300" <= char <= "\u036f" or "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return mark or char in _UNSEEN or char == _BLANK or unicodedata.category(char) in ("Cc", "Cf", "Cs")


def tokens(text: str) -> frozenset[str]:
    """The words, identifiers and options of a text in their normal form, without those that every sentence has."""
    return frozenset(_TOKEN.findall(normal(text))) - _STOP


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of words in common; texts without words have nothing in common."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def likeness(a: Lesson, b: Lesson) -> float:
    """How much two lessons say the same, 0 to 1; from SAME on it is one lesson in other words."""
    return jaccard(_said(a), _said(b))


def nearest(lesson: Lesson, others: Sequence[Lesson]) -> tuple[Lesson, float] | None:
    """The other lesson most like this one, the first of equals; None if none shares a word with it."""
    return nearest_in(index(others), lesson)


@word
class Vocabulary:
    """Which lessons use which word, so that many can be compared with many."""

    lessons: tuple[Lesson, ...]
    sizes: tuple[int, ...]
    users: Mapping[str, Sequence[int]]


def index(lessons: Iterable[Lesson]) -> Vocabulary:
    known = tuple(lessons)
    said = [_said(lesson) for lesson in known]
    users: dict[str, list[int]] = {}
    for number, words in enumerate(said):
        for one in words:
            users.setdefault(one, []).append(number)
    return Vocabulary(known, tuple(map(len, said)), users)


def nearest_in(vocabulary: Vocabulary, lesson: Lesson) -> tuple[Lesson, float] | None:
    """As `nearest`, looking only at lessons that share a word."""
    words = _said(lesson)
    shared: Counter[int] = Counter()
    for one in words:
        shared.update(vocabulary.users.get(one, ()))
    best, found = 0.0, None
    for number, count in shared.items():
        share = count / (len(words) + vocabulary.sizes[number] - count)
        if share < best or (share == best and found is not None and number > found):
            continue
        if lesson.id and vocabulary.lessons[number].id == lesson.id:
            continue
        best, found = share, number
    return None if found is None else (vocabulary.lessons[found], best)


def _said(lesson: Lesson) -> frozenset[str]:
    return tokens(f"{lesson.problem}\n{lesson.solution}")
