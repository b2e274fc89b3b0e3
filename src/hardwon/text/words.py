"""Split text into words for the search index, the same way for documents and for queries.

An identifier or a path gives its parts, the whole, and each of its ends, joined without separators. So `getUserById`,
`get_user_by_id` and "user by id" find each other, and `auth/token.py` finds `src/auth/token.py`. Scripts without spaces
give each character and each pair of characters. No word contains a character of a query language.
"""

from __future__ import annotations

import re
from unicodedata import category, normalize

MAX_WORD_LENGTH = 64  # nobody searches for longer words
MAX_PATH_ENDS = 4  # parts in the longest indexed end of a path

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


def extract_words(text: str, *, is_query: bool = False) -> list[str]:
    """Return each word once, in order, without stop words; a query in a script without spaces gives only pairs."""
    unique_words: dict[str, None] = {}
    if not text.isascii():
        text = normalize("NFKC", text)  # makes wide and narrow forms of a character equal
    for run in (_ASCII_RUN if text.isascii() else _WORD_RUN).finditer(text):
        unspaced, identifier = run.groups()
        if unspaced:
            unique_words.update(dict.fromkeys(_split_unspaced(unspaced, is_query)))
        # Most words are plain and need no splitting.
        elif identifier.isalpha() and (identifier.islower() or identifier[1:].islower()):
            unique_words[identifier.lower()] = None
        else:
            unique_words.update(dict.fromkeys(_split_identifier(identifier)))
    words = [word for word in unique_words if word not in STOP_WORDS and len(word) <= MAX_WORD_LENGTH]
    return words if text.isascii() else list(dict.fromkeys(word.translate(_INDEX_TABLE) for word in words))


def fold_unspaced(text: str) -> str:
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
    """Return the last one to MAX_PATH_ENDS parts of a path, each joined into one word."""
    steps = [step for step in re.split(r"[/\\]+", path) if step]
    return [squeeze_identifier("".join(steps[-count:])) for count in range(1, min(len(steps), MAX_PATH_ENDS) + 1)]


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
            squeeze_identifier("".join(steps[-count:])) for count in range(2, MAX_PATH_ENDS + 2) if count <= len(steps)
        ]
        words.append(squeeze_identifier(identifier))
    for piece in pieces:
        parts = _WORD_PART.findall(piece)
        if len(parts) > 1:
            words += [part.lower() for part in parts if len(part) > 1]
    return words
