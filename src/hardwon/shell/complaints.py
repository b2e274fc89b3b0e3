"""Read the lines in which programs say that they do not know a word of the call.

Every program has its own words for it, but few forms: the line has a word such as "unknown" or "not found", and names
the word of the call in quotes, as an option, after a noun such as "command", or after a colon. No program has a rule of
its own here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hardwon.text.characters import fold_case

# How programs call a word unknown, in lower case. It counts only together with a word of the call.
_BLAME = re.compile(
    r"\b(?:un(?:known|recogni[sz]ed|expected|supported|defined|registered|available)|in(?:valid|correct)|illegal|ambiguous"
    r"|malformed|bad|missing)\b"
    r"|\bno (?:such|longer|rule|idea|\S+(?: target)? (?:named|called|found|match(?:ed|es)?)\b|task|option|match for)"
    r"|\bnone of\b|\bhas no\b"
    r"|(?:\bnot|\bcannot|n't) (?:be )?(?:an?|found|find|defined|recogni[sz]ed|registered|supported?|valid|allowed"
    r"|available|expected|exist|have|contain|match|accept|know|create|open|resolve|locate|load|take|understand"
    r"|part of)\b"
    r"|\b(?:failed|unable) to (?:spawn|find|locate|resolve|load)|\breplaced (?:by|with)\b|\bdid you mean\b"
    r"|\bnot running\b|\bmultiple \w+(?: \w+)? (?:are|were|match)"
)
# Every such line has one of these, which are found faster than the pattern; without the letters that may be capitals.
_BLAME_MARKS = (
    *("nknown", "nrecogni", "nexpected", "nsupported", "ndefined", "nregistered", "navailable", "nvalid", "ncorrect"),
    *("llegal", "mbiguous", "alformed", "bad ", "Bad ", "issing", "o such", "o longer", "o rule", "o idea", "o task"),
    *(
        "o option",
        " named",
        " called",
        " match",
        " found",
        "one of",
        "as no",
        "not ",
        "n't ",
        "iled to",
        "nable to",
        "eplaced",
        "id you mean",
        "ultiple",
    ),
)
# A complaint about the code under work, also if it calls a name unknown.
_ABOUT_CODE = re.compile(
    r"^\S*\w\.\w{1,5}[:(]\d+|^\s*\d+:\d+\s|^E\s{2,}|\berror\[E\d+\]"
    r"|\b(?:Name|Type|Attribute|Import|Syntax|Reference|Assertion|Key|Value|Index)Error\b"
)
_NOUNS = (
    r"(?:option|flag|argument|(?:sub)?command|parameter|switch|script|task|target|recipe|skill|agent|tool|column)s?"
)
_NOUN = re.compile(_NOUNS, re.I)
# The text of a quote begins and ends with a letter or sign, which a stray quote before a sentence does not.
QUOTED = r"['\"`‘“](?P<quoted>[^\s'\"`’”](?:[^'\"`’”\n]{0,78}[^\s'\"`’”])?)['\"`’”]"
_NAMED = re.compile(rf"{QUOTED}|(?P<option>(?<![^\s'\"`(:,=\[])--?[A-Za-z][\w-]*)|: (?P<last>\S+)(?: not found)?$")
# The word after one of these is at fault, whatever else the error quotes.
_AFTER_NOUN = re.compile(
    rf"\b(?:{_NOUNS}|named|called):? +(?:-- +)?\(?"
    rf"(?:{QUOTED}|(?P<option>--?[A-Za-z][\w-]*)|(?:(?<=: )|(?<=-- )|(?<=named ))(?P<last>\S+))",
    re.I,
)
_THINGS = r"(?:package|module|library|plugin|extension|profile|role|crate|gem)"
# Without quotes: `Package Sails not found`, `command hoist does not exist`, `couldn't find profile north`.
_NOT_FOUND_NAME = re.compile(
    rf"\b(?:{_THINGS}|{_NOUNS}) (?P<before>\S+) (?:(?:was |is )?not (?:found|installed)|does not exist)"
    rf"|\bfind {_THINGS} (?P<after>\S+)$",
    re.I,
)


def find_blame_marks(text: str) -> list[str]:
    """Return the marks that a line which calls something unknown may have, as far as the text has them."""
    return list(filter(text.__contains__, _BLAME_MARKS))


@lru_cache(maxsize=64)
def is_blame(line: str) -> bool:
    """Return whether a line calls something unknown, and is not about the code under work."""
    if not any(map(line.__contains__, _BLAME_MARKS)):
        return False
    return _BLAME.search(fold_case(line)) is not None and not _ABOUT_CODE.search(line)


def is_noun(word: str) -> bool:
    """Return whether a word only says what was not known, such as "command"."""
    return _NOUN.fullmatch(word) is not None


@lru_cache(maxsize=64)  # a line is compared with each command of a call
def list_named_words(line: str) -> tuple[list[str], list[str]]:
    """Return the words that a line names: those after a noun such as "option", and all others."""
    names = _list_tokens(_NAMED, line)
    names += [match["before"] or match["after"] for match in _NOT_FOUND_NAME.finditer(line)]
    clauses = line.split(": ")
    if len(names) > 1 and len(clauses) > 1:
        # One clause says where it failed, another what is unknown: names in the latter come first.
        blamed_names: list[str] = []
        for clause in clauses:
            if _BLAME.search(fold_case(clause)):
                blamed_names += _list_tokens(_NAMED, clause)
        names = list(dict.fromkeys([*blamed_names, *names]))
    return _list_tokens(_AFTER_NOUN, line), names


def _list_tokens(pattern: re.Pattern[str], line: str) -> list[str]:
    """Return the names that a pattern finds in a line; options without their values."""
    tokens: list[str] = []
    for match in pattern.finditer(line):
        token = (match["quoted"] or match["option"] or match["last"] or "").strip(" '\"`‘’“”,()\\").rstrip(".,")
        if token.startswith("-") and "*" not in token:  # with `*` zsh took all of it for a file pattern
            token = token.partition("=")[0]
        if token:
            tokens.append(token)
    return tokens


def fold_name(name: str) -> str:
    """Return a name without dashes and case, since some programs call `--reporter-json` `reporterJson` in errors."""
    return name.replace("-", "").replace("_", "").lower()
