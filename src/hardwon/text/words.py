"""The words by which a text is found, the same for what is stored and for what is asked.

Prose gives its words. An identifier or a path gives its parts, itself, and each of its ends, written together: so
`getUserById`, `get_user_by_id` and "user by id" find each other, and `auth/token.py` finds `src/auth/token.py`. Scripts
that do not part their words give each sign and each pair of signs. Nothing here is a sign of any query language.
"""

from __future__ import annotations

import re
from unicodedata import category, normalize

MAX_WORD_LENGTH = 64  # characters of a word that anybody would look for
MAX_PATH_ENDS = 4  # of a path, counted from its last part

_STOP_WORD_TEXT = (
    "a about after all also am an and any are as at be because been before being but by can could did do does doing "
    "done for from had has have having he her here him his how i if in into is it its just me my no not of on or our "
    "out over own she should so some such than that the their them then there these they this those through to too "
    "until up us was we were what when where which while who whom why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())

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
# Letters that the index of words takes for blanks stand in it as signs of private use, which it takes for letters.
_INDEX_BLANKS = [*range(0x19B0, 0x19CA), 0x1CF2, 0x1CF3]
_INDEX_TABLE = {sign: 0xF0000 + sign for sign in _INDEX_BLANKS}


def extract_words(text: str, *, is_query: bool = False) -> list[str]:
    """Each word once, in order, without those that say nothing. Of unparted scripts a question gives pairs alone."""
    unique_words: dict[str, None] = {}
    if not text.isascii():
        text = normalize("NFKC", text)  # wide and narrow forms of a sign are one
    for run in (_ASCII_RUN if text.isascii() else _WORD_RUN).finditer(text):
        unspaced, identifier = run.groups()
        if unspaced:
            unique_words.update(dict.fromkeys(_split_unspaced(unspaced, is_query)))
        elif identifier.isalpha() and (identifier.islower() or identifier[1:].islower()):
            unique_words[identifier.lower()] = None
        else:
            unique_words.update(dict.fromkeys(_split_identifier(identifier)))
    words = [word for word in unique_words if word not in STOP_WORDS and len(word) <= MAX_WORD_LENGTH]
    return words if text.isascii() else list(dict.fromkeys(word.translate(_INDEX_TABLE) for word in words))


def squeeze_identifier(text: str) -> str:
    """An identifier or a path in one piece: small letters and digits alone."""
    return _PUNCTUATION.sub("", text).lower().translate(_INDEX_TABLE)


def build_filter_word(name: str, value: str) -> str:
    """A word that no text has, for what is filtered by: a type, a file, an agent."""
    return f"0{name}{squeeze_identifier(value)}"[:MAX_WORD_LENGTH]


def list_path_ends(path: str) -> list[str]:
    """A path and each of its last parts, in one piece each."""
    steps = [step for step in re.split(r"[/\\]+", path) if step]
    return [squeeze_identifier("".join(steps[-count:])) for count in range(1, min(len(steps), MAX_PATH_ENDS) + 1)]


def _split_unspaced(run: str, is_query: bool) -> list[str]:
    """The signs of an unparted script and their pairs.

    Vowels and tones written as marks are left out: the index of words does not take them for letters. What is neither
    a letter nor a digit parts what stands around it.
    """
    letters = [" " if not char.isalnum() else char for char in run if category(char)[0] != "M"]
    words: list[str] = []
    for part in "".join(letters).split():
        pairs = [part[i : i + 2] for i in range(len(part) - 1)]
        words += pairs if is_query and pairs else [*part, *pairs]
    return words


def _split_identifier(identifier: str) -> list[str]:
    """The parts of an identifier or a path, then it as a whole and by its ends."""
    pieces = _SEPARATOR.split(identifier)
    words = [piece.lower() for piece in pieces]
    if len(pieces) > 1:
        steps = _PATH_SEPARATOR.split(identifier)
        words += [squeeze_identifier(step) for step in steps]
        words += [
            squeeze_identifier("".join(steps[-count:])) for count in range(2, MAX_PATH_ENDS + 2) if count <= len(steps)
        ]
        words.append(squeeze_identifier(identifier))
    for piece in pieces:
        parts = _WORD_PART.findall(piece)
        if len(parts) > 1:
            words += [part.lower() for part in parts if len(part) > 1]
    return words
