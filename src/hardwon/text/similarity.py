"""Return whether two lessons or memories say the same in other words.

A rejected text must stay rejected if it comes back with other case, spaces, invisible or look-alike characters. So
texts are compared in a normal form without these differences. It is a key and never shown, so it may spell a Russian
word with Latin letters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from hardwon.types import Lesson, frozen

SAME_THRESHOLD = 0.5  # share of words in common at which two lessons or memories count as the same
_IGNORED_WORDS = frozenset(
    """
    a an and are as at be been but by can do does for from had has have if in into is it its of on or so such than
    that the their then there these they this those to was were which while will with you your
    """.split()
)
# Words that frame a wish; two memories that share only these are different.
_PHRASING_WORDS = frozenset("now always never not don t dont use using prefer please we i only going forward".split())
_NEGATED_WORD = re.compile(
    r"\b(?:never|not|no|without|don'?t|instead of|rather than|over)\s+(?:(?:ever|use|using|the|an?|any)\s+)*(-*\w+)"
)

# A character, then what it looks like. Lower case only, since case is folded first: a Cyrillic letter is listed if
# either of its cases looks Latin, a Greek one only for its lower case.
_LOOK_ALIKES = (
    "аa вb еe ёë ѕs іi їï јj кk мm нh оo рp сc тt уy хx һh ԁd ԛq ԝw ѵv ӏl ԍg ҽe үy ցg օo սu հh "
    "αa βb εe ζz ηn ιi κk νv οo ρp τt υu χx γy ωw ϲc ϳj ıi ɡg ɑa ʋv ɩi "
    "’' ‘' ʼ' ′' “\" ”\" „\" ″\" ‐- ‑- ‒- –- —- ―- −- ⁃- ⁄/ ∕/ ∗* ꞉: ∶: "
)
_LOOK_ALIKE_TABLE = {ord(pair[0]): pair[1] for pair in _LOOK_ALIKES.split()}
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_BRAILLE_BLANK = "\u2800"
_CONTROL_TABLE = {code: " " if chr(code).isspace() else None for code in (*range(32), 127)}

# Scripts without spaces between words; each of their characters counts as a word.
_UNSPACED_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_OPTION_PATTERN = r"(?<![\w-])--?[a-z][\w-]*"
_TOKEN = re.compile(rf"{_OPTION_PATTERN}|[{_UNSPACED_SCRIPTS}]|(?:(?![{_UNSPACED_SCRIPTS}])\w)+")
_ASCII_TOKEN = re.compile(rf"{_OPTION_PATTERN}|\w+")  # the same for ASCII text, in a third of the time


def normalize_text(text: str) -> str:
    """Return the normal form for comparing and hashing, which is equal for texts that look the same."""
    if text.isascii():
        return _fold_text(text)
    previous = None
    while previous != text:  # case folding may undo NFKC's composition, and the reverse
        previous = text
        text = _fold_text(text)
    return text


def _fold_text(text: str) -> str:
    """Return a text without differences that nobody sees: case, look-alike letters, invisible characters, spaces."""
    if text.isascii():
        return " ".join(text.translate(_CONTROL_TABLE).lower().split())
    text = unicodedata.normalize("NFKC", text)
    replacements: dict[int, str | None] = {}
    for char in set(text):
        if _is_invisible(char):
            is_blank = char.isspace() or char == _BRAILLE_BLANK
            replacements[ord(char)] = " " if is_blank else None  # None removes it
    folded_text = text.translate(replacements).casefold().translate(_LOOK_ALIKE_TABLE)
    return " ".join(folded_text.split())


def _is_invisible(char: str) -> bool:
    """Return whether a character has no glyph of its own: controls, joiners, selectors and uncomposed marks."""
    if " " <= char <= "~":
        return False
    is_mark = "\u0300" <= char <= "\u036f" or "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_mark or char in _INVISIBLE or char == _BRAILLE_BLANK or unicodedata.category(char) in ("Cc", "Cf", "Cs")


def tokenize(text: str) -> frozenset[str]:
    """Return the normalized words, identifiers and options of a text, without stop words."""
    normalized = normalize_text(text)
    return frozenset((_ASCII_TOKEN if normalized.isascii() else _TOKEN).findall(normalized)) - _IGNORED_WORDS


def compute_jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of words in common; 0 for texts without words."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def is_same_statement(text: str, other: str) -> bool:
    """Return whether two memories say the same in nearly the same words; "use tabs" and "not tabs" do not."""
    if normalize_text(text) == normalize_text(other):
        return True
    return _has_same_words(text, other) and find_negated_words(text) == find_negated_words(other)


def _has_same_words(text: str, other: str) -> bool:
    """Return whether two memories share most words besides those that frame a wish."""
    return compute_jaccard(tokenize(text) - _PHRASING_WORDS, tokenize(other) - _PHRASING_WORDS) >= SAME_THRESHOLD


@frozen
class TextFingerprint:
    """Salted hashes of a deleted text's words, to recognise a text that says the same."""

    salt: str
    normal_hash: str
    word_hashes: frozenset[str]
    negated_hashes: frozenset[str]


def fingerprint_text(text: str, salt: str) -> TextFingerprint:
    """Return hashes by which a text that says nearly the same is recognised, and which do not tell the text."""

    def hash_part(part: str) -> str:
        return hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8, key=salt.encode()).hexdigest()

    return TextFingerprint(
        salt=salt,
        normal_hash=hash_part(normalize_text(text)),
        word_hashes=frozenset(map(hash_part, tokenize(text) - _PHRASING_WORDS)),
        negated_hashes=frozenset(map(hash_part, find_negated_words(text))),
    )


def is_same_as_fingerprint(text: str, fingerprint: TextFingerprint) -> bool:
    """Compare like `is_same_statement` with a deleted text of which only the fingerprint is left."""
    text_fingerprint = fingerprint_text(text, fingerprint.salt)
    if text_fingerprint.normal_hash == fingerprint.normal_hash:
        return True
    shared_words = compute_jaccard(text_fingerprint.word_hashes, fingerprint.word_hashes)
    return shared_words >= SAME_THRESHOLD and text_fingerprint.negated_hashes == fingerprint.negated_hashes


def is_contradiction(text: str, other: str) -> bool:
    """Return whether the first text, in nearly the same words, rules out something that the other is for."""
    if not _has_same_words(text, other):
        return False
    affirmed_words = tokenize(other) - find_negated_words(other)
    return not find_negated_words(text).isdisjoint(affirmed_words)


def find_negated_words(text: str) -> frozenset[str]:
    """Return the words that a text rules out: `spaces` for "tabs, not spaces"."""
    return frozenset(_NEGATED_WORD.findall(normalize_text(text)))


def find_nearest_lesson(lesson: Lesson, others: Sequence[Lesson]) -> tuple[Lesson, float] | None:
    """Return the most similar other lesson and its share of words, the first of equals; None if none shares a word."""
    return find_nearest_in(build_vocabulary(others), lesson)


@frozen
class LessonVocabulary:
    """The words of each lesson and the lessons of each word, to compare many with many; lessons can be added."""

    lessons: list[Lesson]
    token_sets: list[frozenset[str]]
    lessons_by_token: dict[str, list[int]]


def build_vocabulary(lessons: Iterable[Lesson]) -> LessonVocabulary:
    vocabulary = LessonVocabulary(lessons=[], token_sets=[], lessons_by_token={})
    for lesson in lessons:
        add_to_vocabulary(vocabulary, lesson)
    return vocabulary


def add_to_vocabulary(vocabulary: LessonVocabulary, lesson: Lesson) -> None:
    """Add a lesson with its words, by which those that share some with another are found without comparing all."""
    words = _tokenize_lesson(lesson)
    index = len(vocabulary.lessons)
    vocabulary.lessons.append(lesson)
    vocabulary.token_sets.append(words)
    for word in words:
        vocabulary.lessons_by_token.setdefault(word, []).append(index)


def find_nearest_in(vocabulary: LessonVocabulary, lesson: Lesson) -> tuple[Lesson, float] | None:
    """Find the nearest lesson like `find_nearest_lesson`, but in a vocabulary that is built once."""
    words = _tokenize_lesson(lesson)
    shared_counts = Counter[int]()
    for word in words:
        shared_counts.update(vocabulary.lessons_by_token.get(word, ()))
    nearest: Lesson | None = None
    largest_share = 0.0
    for index in sorted(shared_counts):  # so that the first of equals stays
        other = vocabulary.lessons[index]
        if lesson.id and other.id == lesson.id:
            continue  # an edited lesson is compared with the others, not with its former self
        shared = shared_counts[index]
        share = shared / (len(words) + len(vocabulary.token_sets[index]) - shared)
        if nearest is None or share > largest_share:
            nearest = other
            largest_share = share
    return None if nearest is None else (nearest, largest_share)


def _tokenize_lesson(lesson: Lesson) -> frozenset[str]:
    return tokenize(f"{lesson.problem}\n{lesson.solution}")
