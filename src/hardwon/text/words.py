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

_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can could did do does doing "
    "done for from had has have having he her here him his how i if in into is it its just me my no not of on or our "
    "out over own she should so some such than that the their them then there these they this those through to too "
    "until up us was we were what when where which while who whom why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

_UNPARTED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"([{_UNPARTED}]+)|((?:(?![{_UNPARTED}])[^\W_])+(?:[-_./\\:@#~+]+(?:(?![{_UNPARTED}])[^\W_])+)*)")
_ASCII_RUN = re.compile(r"()([^\W_]+(?:[-_./\\:@#~+]+[^\W_]+)*)", re.ASCII)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W_A-Za-z0-9]+")
_BETWEEN = re.compile(r"[\W_]+")
_STEP = re.compile(r"[/\\.:@#~+]+")
_MARK = re.compile(r"[\W_]+")
# Letters that the index of words takes for blanks stand in it as signs of private use, which it takes for letters.
_BLANKS = [*range(0x19B0, 0x19CA), 0x1CF2, 0x1CF3]
_FOR_THE_INDEX = {sign: 0xF0000 + sign for sign in _BLANKS}


def extract_words(text: str, *, is_query: bool = False) -> list[str]:
    """Each word once, in order, without those that say nothing. Of unparted scripts a question gives pairs alone."""
    found: dict[str, None] = {}
    if not text.isascii():
        text = normalize("NFKC", text)  # wide and narrow forms of a sign are one
    for run in (_ASCII_RUN if text.isascii() else _RUN).finditer(text):
        unparted, chain = run.groups()
        if unparted:
            found.update(dict.fromkeys(_signs(unparted, is_query)))
        elif chain.isalpha() and (chain.islower() or chain[1:].islower()):
            found[chain.lower()] = None
        else:
            found.update(dict.fromkeys(_of_chain(chain)))
    words = [word for word in found if word not in STOP_WORDS and len(word) <= MAX_WORD_LENGTH]
    return words if text.isascii() else list(dict.fromkeys(word.translate(_FOR_THE_INDEX) for word in words))


def squeeze_identifier(text: str) -> str:
    """An identifier or a path in one piece: small letters and digits alone."""
    return _MARK.sub("", text).lower().translate(_FOR_THE_INDEX)


def build_filter_word(name: str, value: str) -> str:
    """A word that no text has, for what is filtered by: a type, a file, an agent."""
    return f"0{name}{squeeze_identifier(value)}"[:MAX_WORD_LENGTH]


def list_path_ends(path: str) -> list[str]:
    """A path and each of its last parts, in one piece each."""
    steps = [step for step in re.split(r"[/\\]+", path) if step]
    return [squeeze_identifier("".join(steps[-count:])) for count in range(1, min(len(steps), MAX_PATH_ENDS) + 1)]


def _signs(run: str, asked: bool) -> list[str]:
    """The signs of an unparted script and their pairs.

    Vowels and tones written as marks are left out: the index of words does not take them for letters. What is neither
    a letter nor a digit parts what stands around it.
    """
    letters = [" " if not sign.isalnum() else sign for sign in run if category(sign)[0] != "M"]
    words: list[str] = []
    for part in "".join(letters).split():
        pairs = [part[at : at + 2] for at in range(len(part) - 1)]
        words += pairs if asked and pairs else [*part, *pairs]
    return words


def _of_chain(chain: str) -> list[str]:
    """The parts of an identifier or a path, then it as a whole and by its ends."""
    pieces = _BETWEEN.split(chain)
    words = [piece.lower() for piece in pieces]
    if len(pieces) > 1:
        steps = _STEP.split(chain)
        words += [squeeze_identifier(step) for step in steps]
        words += [
            squeeze_identifier("".join(steps[-count:])) for count in range(2, MAX_PATH_ENDS + 2) if count <= len(steps)
        ]
        words.append(squeeze_identifier(chain))
    for piece in pieces:
        parts = _PART.findall(piece)
        if len(parts) > 1:
            words += [part.lower() for part in parts if len(part) > 1]
    return words
