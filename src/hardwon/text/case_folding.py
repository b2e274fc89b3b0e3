"""Fold case so that a plain `in` can replace a case-insensitive regex search.

`re.IGNORECASE` treats four characters beyond ASCII as ASCII letters. `str.lower` turns one of them into two characters,
and lowers a capital sigma depending on its neighbours. Replacing these first makes each character fold by itself, so a
literal that occurs in a text also occurs in the folded text. The hook folds every call, so this module imports nothing.
"""

from __future__ import annotations

_EQUIVALENT_LETTERS = (("ı", "i"), ("İ", "i"), ("ſ", "s"), ("\u212a", "k"), ("Σ", "σ"), ("ς", "σ"))


def fold_case(text: str) -> str:
    """Lower a text, and replace each character that `re.IGNORECASE` equates to an ASCII letter by that letter."""
    if not text.isascii():
        for variant, letter in _EQUIVALENT_LETTERS:
            text = text.replace(variant, letter)
    return text.lower()
