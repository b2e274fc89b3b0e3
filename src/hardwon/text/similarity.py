"""Is this the same lesson in other words?

What a person rejected stays rejected, also with other case, spaces, invisible or look-alike characters: texts are
compared in a normal form that has none of these. It is a key and never shown, so it may spell a Russian word with
Latin letters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from hardwon.types import Lesson, word

SAME = 0.5  # of the words in common, from which on it is the same lesson, or memory, in other words
_MANY = 1_000  # lessons with one word in common: too many to look for the nearest among them
_STOP_WORDS = (
    "a an and are as at be been but by can do does for from had has have if in into is it its of on or so such than "
    "that the their then there these they this those to was were which while will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())
# What a wish is put in: two that have nothing else in common are two.
_FRAME_WORDS = "now always never not don t dont use using prefer please we i only going forward"
_FRAME = frozenset(_FRAME_WORDS.split())
_DENIED = re.compile(
    r"\b(?:never|not|no|without|don'?t|instead of|rather than|over)\s+(?:(?:ever|use|using|the|an?|any)\s+)*(-*\w+)"
)

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
_OPTION = r"(?<![\w-])--?[a-z][\w-]*"
_TOKEN = re.compile(rf"{_OPTION}|[{_UNPARTED}]|(?:(?![{_UNPARTED}])\w)+")
_ASCII_TOKEN = re.compile(rf"{_OPTION}|\w+")  # the same where there is nothing but ASCII, in a third of the time


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
    seen = normal(text)
    return frozenset((_ASCII_TOKEN if seen.isascii() else _TOKEN).findall(seen)) - _STOP


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of words in common; texts without words have nothing in common."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def is_same(one: str, other: str) -> bool:
    """Whether two memories say the same in nearly the same words; one that turns the other round does not."""
    if normal(one) == normal(other):
        return True
    return jaccard(tokens(one) - _FRAME, tokens(other) - _FRAME) >= SAME and denied(one) == denied(other)


@word
class Trace:
    """What tells whether a text says the same as one that is gone, by salted hashes of its words."""

    salt: str
    normal: str
    words: frozenset[str]
    denied: frozenset[str]


def trace_of(text: str, salt: str) -> Trace:
    def hashed(part: str) -> str:
        return hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8, key=salt.encode()).hexdigest()

    words = frozenset(map(hashed, tokens(text) - _FRAME))
    return Trace(salt, hashed(normal(text)), words, frozenset(map(hashed, denied(text))))


def is_same_as_trace(text: str, trace: Trace) -> bool:
    """As `is_same`, where of the other text only its trace is left."""
    own = trace_of(text, trace.salt)
    return own.normal == trace.normal or (jaccard(own.words, trace.words) >= SAME and own.denied == trace.denied)


def turns_round(one: str, other: str) -> bool:
    """Whether, in nearly the same words, one speaks against what the other is for."""
    is_near = jaccard(tokens(one) - _FRAME, tokens(other) - _FRAME) >= SAME
    return is_near and not denied(one).isdisjoint(tokens(other) - denied(other))


def denied(text: str) -> frozenset[str]:
    """What it speaks against: of "tabs, not spaces" the spaces."""
    return frozenset(_DENIED.findall(normal(text)))


def nearest(lesson: Lesson, others: Sequence[Lesson]) -> tuple[Lesson, float] | None:
    """The other lesson most like this one, the first of equals; None if none shares a word with it."""
    return nearest_in(index(others), lesson)


@word
class Vocabulary:
    """What each lesson says and which lessons use which word, so that many can be compared with many; it may grow."""

    lessons: list[Lesson]
    said: list[frozenset[str]]
    users: dict[str, list[int]]


def index(lessons: Iterable[Lesson]) -> Vocabulary:
    made = Vocabulary([], [], {})
    for lesson in lessons:
        extend(made, lesson)
    return made


def extend(vocabulary: Vocabulary, lesson: Lesson) -> None:
    words, number = _said(lesson), len(vocabulary.lessons)
    vocabulary.lessons.append(lesson)
    vocabulary.said.append(words)
    for one in words:
        vocabulary.users.setdefault(one, []).append(number)


def nearest_in(vocabulary: Vocabulary, lesson: Lesson) -> tuple[Lesson, float] | None:
    """As `nearest`, counting shared words from the rarest on, and only as far as the common ones may still decide."""
    words, said = _said(lesson), vocabulary.said
    others = [vocabulary.users[one] for one in words if one in vocabulary.users]
    shared: Counter[int] = Counter()
    least, left = 0.0, len(others)  # what the nearest has at least, and the words that were not counted yet
    for users in sorted(others, key=len):
        if left < int(least * len(words)):  # too few for whoever was not met yet
            break
        shared.update(users)
        left -= 1
        if len(users) < _MANY:
            leader = max(users, key=shared.__getitem__)
            least = max(least, 0.0 if _is_own(vocabulary, leader, lesson) else jaccard(words, said[leader]))
    best, found = 0.0, -1
    for number, count in shared.items():
        most = count + left
        if most < int(least * len(words)) or most < int(least * (len(words) + len(said[number]) - most)):
            continue
        share = jaccard(words, said[number])
        if (share, -number) > (best, -found) and not _is_own(vocabulary, number, lesson):
            best, found, least = share, number, max(share, least)
    return (vocabulary.lessons[found], best) if best else None


def _is_own(vocabulary: Vocabulary, number: int, lesson: Lesson) -> bool:
    return lesson.id != "" and vocabulary.lessons[number].id == lesson.id


def _said(lesson: Lesson) -> frozenset[str]:
    return tokens(f"{lesson.problem}\n{lesson.solution}")
