"""Recognise keys as text that is too random to be a word, a name, a path or a hash.

Entropy does not work here: camel case and paths have as much of it as keys. So letter pairs are counted: the pairs that
words are made of are only a fifth of the pairs in random text.
"""

from __future__ import annotations

from itertools import pairwise

from hardwon.types import KNOWN_ID_PREFIXES

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_RANDOM_LENGTH = 32  # shorter text is not judged by randomness
_BLANKING_TABLE = bytes(
    [code if code < 128 and (chr(code).isalnum() or code in b"+/=_-") else 32 for code in range(256)]
)
# The letter pairs that words and names are made of.
_COMMON_PAIRS = frozenset(
    """
    th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic
    ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un
    lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev
    ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ov by rm ep tt oc ue up
    """.split()
)
_DIGITS = frozenset("0123456789")
_MARKING_TABLE = bytes([32 if code == 32 else 97 for code in _BLANKING_TABLE])


def is_key_like(value: str) -> bool:
    """Return whether a value does not read like words: rare letter pairs, many digits, or random changes of case.

    A value with digits needs fewer other signs.
    """
    has_letters = value.lower() != value.upper()
    if len(set(value)) < 4 or not has_letters:
        return False
    digit_count = sum(map(value.count, "0123456789"))
    if digit_count * 4 >= len(value):
        return True
    wordiness = _compute_wordiness(value)
    if digit_count:
        max_wordiness = 0.55 if digit_count < 4 else 0.75
        if wordiness < max_wordiness:
            return True
        return len(value) > 11 and wordiness < 0.65 and _compute_jumble(value) >= 0.25
    is_jumbled = len(value) > 13 and wordiness < 0.45 and _compute_jumble(value) >= 0.15
    return is_jumbled or (len(value) > 19 and wordiness < 0.3)


def _compute_jumble(value: str) -> float:
    """Return the share of pairs that are rare in names of mixed case: two capitals, or a letter and a digit.

    0 for a value that is not of mixed case.
    """
    if value == value.lower() or value == value.upper():
        return 0.0
    pairs = list(pairwise(value[:512]))
    rare_count = 0
    for first, second in pairs:
        are_capitals = first.isupper() and second.isupper()
        is_beside_digit = (first.isdigit() and second.isalpha()) or (first.isalpha() and second.isdigit())
        if are_capitals or is_beside_digit:
            rare_count += 1
    return rare_count / len(pairs)


def _compute_wordiness(value: str) -> float:
    """Return the share of a value's letter pairs that are common in words; 0 if it has no pairs."""
    pairs = []
    for first, second in pairwise(value[:512]):
        begins_word = first.islower() and second.isupper()  # in camel case
        if first.isalpha() and second.isalpha() and not begins_word:
            pairs.append(f"{first}{second}".lower())
    if not pairs:
        return 0.0
    return sum(pair in _COMMON_PAIRS for pair in pairs) / len(pairs)


def find_unbroken_runs(text: str, min_length: int = MIN_RANDOM_LENGTH) -> list[str]:
    """Return the long runs of letters, digits and `+/=_-`.

    Works on bytes, to avoid importing `re` and creating a string for every word.
    """
    blanked = text.encode("ascii", "replace").translate(_BLANKING_TABLE)
    marked = blanked.translate(_MARKING_TABLE) + b" "
    min_run = b"a" * min_length
    runs = []
    position = marked.find(min_run)
    while position >= 0:
        end = marked.index(b" ", position)
        runs.append(blanked[position:end].decode("ascii"))
        position = marked.find(min_run, end)
    return runs


def is_random(run: str) -> bool:
    """Return whether a run is random, and not a hash, a UUID, a path or a compound name."""
    if _DIGITS.isdisjoint(run):
        return False
    if "=" in run.strip("="):  # `commit=45de…`: judge each side by itself
        return _has_random_piece(run.split("="))
    if run.rpartition("/")[2].startswith(KNOWN_ID_PREFIXES):
        return False
    pieces = run.split("/")
    if len(pieces) > 1:  # a path, or a key in base64, which has neither these signs nor pieces in hex
        is_path = "-" in run or "_" in run or run[0] == "/" or any(map(_is_hex, pieces))
        if is_path:
            return _has_random_piece(pieces)
    if run.startswith(("sha1-", "sha256-", "sha384-", "sha512-", "AAAAB3Nza", "AAAAC3Nza", "AAAAE2Vj")):
        return False
    if _is_hex(run):
        # Not as short as SHA-256 in hex, nor as long as SHA-384 or SHA-512.
        return len(run) > 64 and len(run) not in (96, 128) and len(set(run)) > 12
    # Pieces in hex, such as those of a UUID at the end of a name, are left out.
    pieces = [piece for piece in run.replace("_", "-").split("-") if not _is_hex(piece)]
    return _has_random_letters("-".join(pieces))


def _has_random_letters(rest: str) -> bool:
    """Return whether what is left of a run is long and varied, has digits, and few letter pairs that words have."""
    digit_count = sum(map(rest.count, "0123456789"))
    if len(rest) < 24 or digit_count < 2 or len(set(rest)) < 14:
        return False
    beginning = rest[:512]
    step_count = sum(ord(second) - ord(first) == 1 for first, second in pairwise(beginning))
    if step_count * 2 > len(beginning):
        return False  # `abcdef…` is not a key
    is_mixed_case = rest != rest.lower() and rest != rest.upper()
    if is_mixed_case:
        return _compute_wordiness(rest) < 0.45
    return digit_count > 4 and "-" not in rest and _compute_wordiness(rest) < 0.35


def _has_random_piece(pieces: Sequence[str]) -> bool:
    """Return whether one of the pieces is random by itself; short ones are not judged."""
    return any(len(piece) >= MIN_RANDOM_LENGTH and is_random(piece) for piece in pieces)


def _is_hex(piece: str) -> bool:
    return not piece.strip("0123456789abcdefABCDEF")
