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
_COMMON_WORD_LESSONS = 1_000  # lessons with one word in common: too many to look for the nearest among them
_STOP_WORDS = (
    "a an and are as at be been but by can do does for from had has have if in into is it its of on or so such than "
    "that the their then there these they this those to was were which while will with you your"
)
_IGNORED_WORDS = frozenset(_STOP_WORDS.split())
# What a wish is put in: two that have nothing else in common are two.
_FRAME_WORDS = "now always never not don t dont use using prefer please we i only going forward"
_PHRASING_WORDS = frozenset(_FRAME_WORDS.split())
_NEGATED_WORD = re.compile(
    r"\b(?:never|not|no|without|don'?t|instead of|rather than|over)\s+(?:(?:ever|use|using|the|an?|any)\s+)*(-*\w+)"
)

# The sign, then what it looks like. Small letters only, since the case is folded first: a Cyrillic letter is here if
# either of its cases deceives, a Greek one for its small case.
_LOOK_ALIKES = (
    "аa вb еe ёë ѕs іi їï јj кk мm нh оo рp сc тt уy хx һh ԁd ԛq ԝw ѵv ӏl ԍg ҽe үy ցg օo սu հh "
    "αa βb εe ζz ηn ιi κk νv οo ρp τt υu χx γy ωw ϲc ϳj ıi ɡg ɑa ʋv ɩi "
    "’' ‘' ʼ' ′' “\" ”\" „\" ″\" ‐- ‑- ‒- –- —- ―- −- ⁃- ⁄/ ∕/ ∗* ꞉: ∶: "
)
_LOOK_ALIKE_TABLE = {ord(pair[0]): pair[1] for pair in _LOOK_ALIKES.split()}
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_BRAILLE_BLANK = "\u2800"
_CONTROL_TABLE = {code: " " if chr(code).isspace() else None for code in (*range(32), 127)}

# Scripts that do not part their words; each sign counts as a word there.
_UNSPACED_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_OPTION_PATTERN = r"(?<![\w-])--?[a-z][\w-]*"
_TOKEN = re.compile(rf"{_OPTION_PATTERN}|[{_UNSPACED_SCRIPTS}]|(?:(?![{_UNSPACED_SCRIPTS}])\w)+")
_ASCII_TOKEN = re.compile(
    rf"{_OPTION_PATTERN}|\w+"
)  # the same where there is nothing but ASCII, in a third of the time


def normalize_text(text: str) -> str:
    """The form in which texts are compared and signed: equal for texts that look the same."""
    if text.isascii():
        return _fold_text(text)
    previous = None
    while previous != text:  # folding the case may undo what NFKC composed, and the other way round
        previous, text = text, _fold_text(text)
    return text


def _fold_text(text: str) -> str:
    if text.isascii():
        return " ".join(text.translate(_CONTROL_TABLE).lower().split())
    text = unicodedata.normalize("NFKC", text)
    replacements = {
        ord(char): " " if char.isspace() or char == _BRAILLE_BLANK else None
        for char in set(text)
        if _is_invisible(char)
    }
    return " ".join(text.translate(replacements).casefold().translate(_LOOK_ALIKE_TABLE).split())


def _is_invisible(char: str) -> bool:
    """Whether nothing of its own is shown for it: controls, joiners, selectors, marks that found no letter to join."""
    if " " <= char <= "~":
        return False
    is_mark = "\u0300" <= char <= "\u036f" or "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_mark or char in _INVISIBLE or char == _BRAILLE_BLANK or unicodedata.category(char) in ("Cc", "Cf", "Cs")


def tokenize(text: str) -> frozenset[str]:
    """The words, identifiers and options of a text in their normal form, without those that every sentence has."""
    normalized = normalize_text(text)
    return frozenset((_ASCII_TOKEN if normalized.isascii() else _TOKEN).findall(normalized)) - _IGNORED_WORDS


def compute_jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of words in common; texts without words have nothing in common."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def is_same_statement(text: str, other: str) -> bool:
    """Whether two memories say the same in nearly the same words; one that turns the other round does not."""
    if normalize_text(text) == normalize_text(other):
        return True
    return compute_jaccard(
        tokenize(text) - _PHRASING_WORDS, tokenize(other) - _PHRASING_WORDS
    ) >= SAME_THRESHOLD and find_negated_words(text) == find_negated_words(other)


@frozen
class TextFingerprint:
    """What tells whether a text says the same as one that is gone, by salted hashes of its words."""

    salt: str
    normal_hash: str
    word_hashes: frozenset[str]
    negated_hashes: frozenset[str]


def fingerprint_text(text: str, salt: str) -> TextFingerprint:
    def hash_part(part: str) -> str:
        return hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8, key=salt.encode()).hexdigest()

    word_hashes = frozenset(map(hash_part, tokenize(text) - _PHRASING_WORDS))
    return TextFingerprint(
        salt, hash_part(normalize_text(text)), word_hashes, frozenset(map(hash_part, find_negated_words(text)))
    )


def is_same_as_fingerprint(text: str, fingerprint: TextFingerprint) -> bool:
    """As `is_same`, where of the other text only its trace is left."""
    text_fingerprint = fingerprint_text(text, fingerprint.salt)
    return text_fingerprint.normal_hash == fingerprint.normal_hash or (
        compute_jaccard(text_fingerprint.word_hashes, fingerprint.word_hashes) >= SAME_THRESHOLD
        and text_fingerprint.negated_hashes == fingerprint.negated_hashes
    )


def is_contradiction(text: str, other: str) -> bool:
    """Whether, in nearly the same words, one speaks against what the other is for."""
    is_near = compute_jaccard(tokenize(text) - _PHRASING_WORDS, tokenize(other) - _PHRASING_WORDS) >= SAME_THRESHOLD
    return is_near and not find_negated_words(text).isdisjoint(tokenize(other) - find_negated_words(other))


def find_negated_words(text: str) -> frozenset[str]:
    """What it speaks against: of "tabs, not spaces" the spaces."""
    return frozenset(_NEGATED_WORD.findall(normalize_text(text)))


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
    vocabulary = LessonVocabulary([], [], {})
    for lesson in lessons:
        add_to_vocabulary(vocabulary, lesson)
    return vocabulary


def add_to_vocabulary(vocabulary: LessonVocabulary, lesson: Lesson) -> None:
    words, index = _tokenize_lesson(lesson), len(vocabulary.lessons)
    vocabulary.lessons.append(lesson)
    vocabulary.token_sets.append(words)
    for word in words:
        vocabulary.lessons_by_token.setdefault(word, []).append(index)


def find_nearest_in(vocabulary: LessonVocabulary, lesson: Lesson) -> tuple[Lesson, float] | None:
    """As `nearest`, counting shared words from the rarest on, and only as far as the common ones may still decide."""
    words, token_sets = _tokenize_lesson(lesson), vocabulary.token_sets
    lesson_lists = [vocabulary.lessons_by_token[word] for word in words if word in vocabulary.lessons_by_token]
    shared_counts: Counter[int] = Counter()
    min_share, uncounted = (
        0.0,
        len(lesson_lists),
    )  # what the nearest has at least, and the words that were not counted yet
    for lesson_indexes in sorted(lesson_lists, key=len):
        if uncounted < int(min_share * len(words)):  # too few for whoever was not met yet
            break
        shared_counts.update(lesson_indexes)
        uncounted -= 1
        if len(lesson_indexes) < _COMMON_WORD_LESSONS:
            leader = max(lesson_indexes, key=shared_counts.__getitem__)
            min_share = max(
                min_share,
                0.0 if _is_same_lesson(vocabulary, leader, lesson) else compute_jaccard(words, token_sets[leader]),
            )
    best_share, best_index = 0.0, -1
    for index, count in shared_counts.items():
        max_shared = count + uncounted
        if max_shared < int(min_share * len(words)) or max_shared < int(
            min_share * (len(words) + len(token_sets[index]) - max_shared)
        ):
            continue
        share = compute_jaccard(words, token_sets[index])
        if (share, -index) > (best_share, -best_index) and not _is_same_lesson(vocabulary, index, lesson):
            best_share, best_index, min_share = share, index, max(share, min_share)
    return (vocabulary.lessons[best_index], best_share) if best_share else None


def _is_same_lesson(vocabulary: LessonVocabulary, index: int, lesson: Lesson) -> bool:
    return lesson.id != "" and vocabulary.lessons[index].id == lesson.id


def _tokenize_lesson(lesson: Lesson) -> frozenset[str]:
    return tokenize(f"{lesson.problem}\n{lesson.solution}")
