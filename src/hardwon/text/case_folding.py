"""One spelling per letter, so that a plain `in` can stand in for a case-insensitive search.

`re.IGNORECASE` takes four characters beyond ASCII for ASCII letters, and `str.lower` turns one of them into two
characters and spells the capital sigma by its neighbours. Both are settled first; then each character folds by itself,
so a literal that occurs in a text occurs in the folded text too. The hook folds every call: no imports.
"""

from __future__ import annotations

_EQUIVALENT_LETTERS = (("ı", "i"), ("İ", "i"), ("ſ", "s"), ("\u212a", "k"), ("Σ", "σ"), ("ς", "σ"))


def fold_case(text: str) -> str:
    """The text in lower case, with every character that `re.IGNORECASE` equates to an ASCII letter as that letter."""
    if not text.isascii():
        for variant, letter in _EQUIVALENT_LETTERS:
            text = text.replace(variant, letter)
    return text.lower()
