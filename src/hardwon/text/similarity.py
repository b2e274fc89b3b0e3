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

from hardwon.types import Lesson, frozen

SAME_THRESHOLD = 0.5  # of the words in common, from which on it is the same lesson, or memory, in other words
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


def normalize_text(text: str) -> str:
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


def tokenize(text: str) -> frozenset[str]:
    """The words, identifiers and options of a text in their normal form, without those that every sentence has."""
    seen = normalize_text(text)
    return frozenset((_ASCII_TOKEN if seen.isascii() else _TOKEN).findall(seen)) - _STOP


def compute_jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of words in common; texts without words have nothing in common."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def is_same_statement(text: str, other: str) -> bool:
    """Whether two memories say the same in nearly the same words; one that turns the other round does not."""
    if normalize_text(text) == normalize_text(other):
        return True
    return compute_jaccard(tokenize(text) - _FRAME, tokenize(other) - _FRAME) >= SAME_THRESHOLD and find_negated_words(
        text
    ) == find_negated_words(other)


@frozen
class TextFingerprint:
    """What tells whether a text says the same as one that is gone, by salted hashes of its words."""

    salt: str
    normal_hash: str
    word_hashes: frozenset[str]
    negated_hashes: frozenset[str]


def fingerprint_text(text: str, salt: str) -> TextFingerprint:
    def hashed(part: str) -> str:
        return hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8, key=salt.encode()).hexdigest()

    words = frozenset(map(hashed, tokenize(text) - _FRAME))
    return TextFingerprint(salt, hashed(normalize_text(text)), words, frozenset(map(hashed, find_negated_words(text))))


def is_same_as_fingerprint(text: str, fingerprint: TextFingerprint) -> bool:
    """As `is_same`, where of the other text only its trace is left."""
    own = fingerprint_text(text, fingerprint.salt)
    return own.normal_hash == fingerprint.normal_hash or (
        compute_jaccard(own.word_hashes, fingerprint.word_hashes) >= SAME_THRESHOLD
        and own.negated_hashes == fingerprint.negated_hashes
    )


def is_contradiction(text: str, other: str) -> bool:
    """Whether, in nearly the same words, one speaks against what the other is for."""
    is_near = compute_jaccard(tokenize(text) - _FRAME, tokenize(other) - _FRAME) >= SAME_THRESHOLD
    return is_near and not find_negated_words(text).isdisjoint(tokenize(other) - find_negated_words(other))


def find_negated_words(text: str) -> frozenset[str]:
    """What it speaks against: of "tabs, not spaces" the spaces."""
    return frozenset(_DENIED.findall(normalize_text(text)))


def find_nearest_lesson(lesson: Lesson, others: Sequence[Lesson]) -> tuple[Lesson, float] | None:
    """The other lesson most like this one, the first of equals; None if none shares a word with it."""
    return find_nearest_in(build_vocabulary(others), lesson)


@frozen
class LessonVocabulary:
    """What each lesson says and which lessons use which word, so that many can be compared with many; it may grow."""

    lessons: list[Lesson]
    token_sets: list[frozenset[str]]
    lessons_by_token: dict[str, list[int]]


def build_vocabulary(lessons: Iterable[Lesson]) -> LessonVocabulary:
    made = LessonVocabulary([], [], {})
    for lesson in lessons:
        add_to_vocabulary(made, lesson)
    return made


def add_to_vocabulary(vocabulary: LessonVocabulary, lesson: Lesson) -> None:
    words, number = _said(lesson), len(vocabulary.lessons)
    vocabulary.lessons.append(lesson)
    vocabulary.token_sets.append(words)
    for one in words:
        vocabulary.lessons_by_token.setdefault(one, []).append(number)


def find_nearest_in(vocabulary: LessonVocabulary, lesson: Lesson) -> tuple[Lesson, float] | None:
    """As `nearest`, counting shared words from the rarest on, and only as far as the common ones may still decide."""
    words, said = _said(lesson), vocabulary.token_sets
    others = [vocabulary.lessons_by_token[one] for one in words if one in vocabulary.lessons_by_token]
    shared: Counter[int] = Counter()
    least, left = 0.0, len(others)  # what the nearest has at least, and the words that were not counted yet
    for users in sorted(others, key=len):
        if left < int(least * len(words)):  # too few for whoever was not met yet
            break
        shared.update(users)
        left -= 1
        if len(users) < _MANY:
            leader = max(users, key=shared.__getitem__)
            least = max(least, 0.0 if _is_own(vocabulary, leader, lesson) else compute_jaccard(words, said[leader]))
    best, found = 0.0, -1
    for number, count in shared.items():
        most = count + left
        if most < int(least * len(words)) or most < int(least * (len(words) + len(said[number]) - most)):
            continue
        share = compute_jaccard(words, said[number])
        if (share, -number) > (best, -found) and not _is_own(vocabulary, number, lesson):
            best, found, least = share, number, max(share, least)
    return (vocabulary.lessons[found], best) if best else None


def _is_own(vocabulary: LessonVocabulary, number: int, lesson: Lesson) -> bool:
    return lesson.id != "" and vocabulary.lessons[number].id == lesson.id


def _said(lesson: Lesson) -> frozenset[str]:
    return tokenize(f"{lesson.problem}\n{lesson.solution}")
