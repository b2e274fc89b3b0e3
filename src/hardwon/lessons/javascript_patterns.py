"""A regular expression of JavaScript, said in Python's `re`.

`a` and `i` come back as flags where the pattern needs them: JavaScript's `\\d`, `\\w` and `\\b` are ASCII, and its `i`
never lets a letter outside ASCII stand for one inside. `^` and `$` under `m` are written out, because JavaScript ends a
line at a carriage return too. Where Python would differ and no wording helps, the pattern is refused.

Three differences stay, so that people can still read their patterns. `\\s` is an ASCII blank, as it is to a shell;
`.` also matches a lone carriage return, U+2028 and U+2029; and a text is characters, never halves of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn


class UntranslatablePattern(ValueError):
    """What Python's `re` cannot say, or JavaScript itself refuses, as a sentence for a person."""


@dataclass
class _Frame:
    """An open group: how it was opened, the modifiers in force, the captures in it, and whether it has alternatives."""

    opened: str
    modifiers: frozenset[str]
    number: int = 0
    captures: list[int] = field(default_factory=list)
    divided: bool = False


@dataclass
class _Reading:
    """How far a pattern is read. `sure` are the captures that took part in every match that gets here."""

    source: str
    unicode: bool
    captures: list[str]
    frames: list[_Frame]
    at: int = 0
    opened: int = 0
    out: list[str] = field(default_factory=list)
    sure: set[int] = field(default_factory=set)
    last: list[int] = field(default_factory=list)
    repeatable: bool = False
    ascii: bool = False

    def put(self, text: str, *, repeatable: bool = True, captures: list[int] | None = None) -> None:
        self.out.append(text)
        self.repeatable = repeatable
        self.last = captures or []


_TOKEN = re.compile(
    r"""
      (?P<reference>\\(?:k<(?P<name>[^>]*)>|[1-9][0-9]{0,3}))
    | (?P<class>\[\^?(?:\\.|[^\]\\])*\])
    | (?P<open>\((?:\?(?:<?[=!]|:|<(?P<called>[^>=!][^>]*)>|(?P<on>[ims]*)(?:-(?P<off>[ims]*))?:))?)
    | (?P<repeat>(?:[*+?]|\{(?P<least>[0-9]+)(?:,[0-9]*)?\})\??)
    | (?P<sign>[)|^$.]|\\[dDwWsSbB])
    """,
    re.VERBOSE | re.DOTALL,
)
_CAPTURE = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(\((?:(?!\?)|\?<(?![=!])([^>]*)>))", re.DOTALL)
_CODE = re.compile(
    r"""\\(?:
      u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | u\{(?P<point>[0-9a-fA-F]+)\}
    | [ux](?P<hex>(?<=u)[0-9a-fA-F]{4}|(?<=x)[0-9a-fA-F]{2})
    | c(?P<letter>[A-Za-z])
    | (?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)
    )""",
    re.VERBOSE | re.ASCII,
)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f"}
_LINE_END = r"[^\n\r\u2028\u2029]"
_KINDS = frozenset({r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"})


def translate_pattern(source: str, flags: str = "") -> tuple[str, str]:
    """The same pattern for Python's `re`, with the letters of its flags; Untranslatable if there is none."""
    if wrong := [letter for letter in flags if letter not in "dgimsuvy" or flags.count(letter) > 1]:
        raise UntranslatablePattern(f"JavaScript refuses the flags {flags!r}: leave out {wrong[0]!r}")
    if "v" in flags:
        raise UntranslatablePattern(
            "the flag v, sets of characters, has no counterpart in Python's re: list the characters"
        )
    captures = ["", *(found[2] or "" for found in _CAPTURE.finditer(source) if found[1])]
    reading = _Reading(source, "u" in flags, captures, [_Frame("", frozenset(flags) & {*"ims"})])
    while reading.at < len(source):
        start, found = reading.at, _TOKEN.match(source, reading.at)
        _STEPS[found.lastgroup if found else None](reading, found)
        if found and reading.at == start:
            reading.at = found.end()
    if len(reading.frames) > 1:
        raise UntranslatablePattern(r"a parenthesis is not closed: write \( for the parenthesis itself")
    python = "".join(reading.out)
    if "y" in flags:
        python = rf"\A(?:{python})"
    letters = "i" * ("i" in flags) + "s" * ("s" in flags) + "a" * (reading.ascii or "i" in flags)
    try:
        re.compile(f"(?{letters}){python}" if letters else python)
    except (re.error, OverflowError, RecursionError) as error:
        fix = ": give each lookbehind one length, as in (?:(?<=a)|(?<=bc))" if "look-behind" in str(error) else ""
        raise UntranslatablePattern(f"Python's re refuses it, {error}{fix}") from None
    return python, letters


def _no(at: int, why: str) -> NoReturn:
    raise UntranslatablePattern(f"column {at + 1}: {why}")


def _open(reading: _Reading, found: re.Match[str]) -> None:
    text, above = found["open"], reading.frames[-1].modifiers
    if text == "(" and reading.source.startswith("?", found.end()):
        _no(reading.at, f"JavaScript knows no group {reading.source[found.start() : found.end() + 2]}")
    frame = _Frame(text, above)
    if text == "(" or found["called"]:
        reading.opened += 1
        frame.number = reading.opened
        if found["called"]:
            if not found["called"].isidentifier():
                _no(reading.at, f"{found['called']!r} cannot name a group in Python's re: use letters and digits")
            text = f"(?P<{found['called']}>"
    elif found["on"] is not None:
        on, off = {*found["on"]}, {*(found["off"] or "")}
        frame.modifiers = frozenset(above | on) - off
        reading.ascii |= "i" in on
        less = "".join(sorted(off - {"m"}))  # what m does is written out
        text = f"(?{''.join(sorted(on - {'m'}))}{'-' * bool(less)}{less}:"
    reading.frames.append(frame)
    reading.put(text, repeatable=False)


def _close(reading: _Reading) -> None:
    if len(reading.frames) == 1:
        _no(reading.at, r"nothing is open here: write \) for the parenthesis itself")
    frame = reading.frames.pop()
    if frame.divided or frame.opened.endswith("!"):
        reading.sure.difference_update(frame.captures)
    if frame.number:
        reading.sure.add(frame.number)
        frame.captures.append(frame.number)
    reading.frames[-1].captures += frame.captures
    looks = frame.opened[-1] in "=!"
    reading.put(")", repeatable=not looks, captures=frame.captures)


def _repeat(reading: _Reading, found: re.Match[str]) -> None:
    if not reading.repeatable:
        _no(reading.at, rf"nothing to repeat before {found['repeat']}: write \{found['repeat'][0]} for the sign itself")
    if found["repeat"][0] in "*?" or (found["least"] and not int(found["least"][:20])):
        reading.sure.difference_update(reading.last)
    reading.put(found["repeat"], repeatable=False)


def _sign(reading: _Reading, found: re.Match[str]) -> None:
    sign, frame = found["sign"], reading.frames[-1]
    lines = "m" in frame.modifiers
    if sign == ")":
        _close(reading)
    elif sign == "|":
        frame.divided = True
        reading.sure.difference_update(frame.captures)
        reading.put("|", repeatable=False)
    elif sign == "^":
        reading.put(f"(?<!{_LINE_END})" if lines else "^", repeatable=False)
    elif sign == "$":
        reading.put(f"(?!{_LINE_END})" if lines else r"\Z", repeatable=False)
    else:
        reading.ascii |= sign != "."
        reading.put(sign, repeatable=sign[-1] not in "bB")


def _reference(reading: _Reading, found: re.Match[str]) -> None:
    text, name = found["reference"], found["name"]
    if name is None:
        number = int(text[1:])
        known = number < len(reading.captures)
    else:
        number = reading.captures.index(name) if name in reading.captures[1:] else 0
        known = reading.unicode or any(reading.captures)
        text = f"(?P={name})"
    if not known:
        return _literal(reading)
    if number not in reading.sure or any(frame.opened in ("(?<=", "(?<!") for frame in reading.frames):
        why = "need not have matched, which JavaScript takes for empty and Python for a failure"
        _no(reading.at, f"{text} refers to a group that {why}: write the group's pattern again")
    return reading.put(text)


def _class(reading: _Reading, found: re.Match[str]) -> None:
    negated = found["class"].startswith("[^")
    at, end = reading.at + 1 + negated, found.end() - 1
    parts: list[str] = []
    while at < end:
        low, at = _member(reading, at)
        if reading.source[at] != "-" or at + 1 == end:
            parts.append(_both(reading, low) or _inside(low))
            continue
        high, then = _member(reading, at + 1)
        kinds = low in _KINDS or high in _KINDS
        if reading.unicode and kinds:
            _no(at, "JavaScript refuses a range from or to a class")
        if not kinds and low > high:
            _no(at, r"a range runs backwards: put the - last, or write \-")
        if _both(reading, low) or _both(reading, high):
            _no(at, f"ignoring case, Python's re cannot say {low}-{high}: write both cases of each letter")
        low, high = _inside(low), _inside(high)
        parts += [low, r"\-", high] if kinds else [f"{low}-{high}"]
        at = then
    reading.ascii |= not _KINDS.isdisjoint(parts)
    everything = any({part, part.swapcase()} <= {*parts} for part in _KINDS)
    if negated and not parts:
        reading.put(r"[\s\S]")
    elif not parts or (negated and everything):
        reading.put("(?!)")
    else:
        reading.put(f"[{'^' * negated}{''.join(parts)}]")


def _member(reading: _Reading, at: int) -> tuple[str, int]:
    """A character of a class, or one of the classes with a letter, and where the next begins."""
    pair = reading.source[at : at + 2]
    if pair in _KINDS:
        return pair, at + 2
    return ("\b", at + 2) if pair == r"\b" else _char(reading, at, "-")


def _inside(member: str) -> str:
    return member if member in _KINDS else _spelled(member, r"\][^-&~|")


def _both(reading: _Reading, char: str) -> str:
    """Both cases of a letter outside ASCII where case is ignored, since the flag `a` keeps Python from knowing them."""
    if "i" not in reading.frames[-1].modifiers or char.isascii() or char.upper() == char.lower():
        return ""
    return "".join(sorted(case for case in {char, char.upper(), char.lower()} if len(case) == 1))


def _literal(reading: _Reading, _: object = None) -> None:
    (char, then), bare = _char(reading, reading.at), reading.source[reading.at]
    if bare == "[":
        _no(reading.at, r"a class is not closed: write \[ for the bracket itself")
    if reading.unicode and bare in "]{}":
        _no(reading.at, f"with the flag u JavaScript refuses a lone {char}: write \\{char}")
    both = _both(reading, char)
    reading.put(f"[{both}]" if both else _spelled(char, r"\^$.|?*+()[]{}"))
    reading.at = then


def _char(reading: _Reading, at: int, also: str = "") -> tuple[str, int]:
    """The character that stands at a place, written plainly or escaped, and where the next begins."""
    source, unicode = reading.source, reading.unicode
    if source[at] != "\\":
        return source[at], at + 1
    if at + 1 == len(source):
        _no(at, r"nothing follows the backslash: write \\ for a backslash")
    found = _CODE.match(source, at)
    if found and (unicode or not found["point"]):
        return _coded(found, at, unicode), found.end()
    sign = source[at + 1]
    if sign in _NAMED:
        return _NAMED[sign], at + 2
    if unicode and sign in "pP":
        _no(at, rf"\{sign}{{…}} has no counterpart in Python's re: write \w, or list the characters, as in [a-zäöü]")
    if sign == "c" or (unicode and sign not in r"^$\.*+?()[]{}|/" + also):
        _no(at, rf"JavaScript refuses \{sign} here: without the backslash it stands for itself")
    return sign, at + 2


def _coded(found: re.Match[str], at: int, unicode: bool) -> str:
    if found["letter"]:
        return chr(ord(found["letter"]) % 32)
    if found["octal"]:
        if unicode and (found["octal"] != "0" or found.string[found.end() : found.end() + 1].isdigit()):
            _no(at, rf"with the flag u JavaScript refuses \{found['octal']}")
        return chr(int(found["octal"], 8))
    if found["high"]:
        return (bytes.fromhex(found["high"]) + bytes.fromhex(found["low"])).decode("utf-16-be")
    code = int(found["point"] or found["hex"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        _no(at, f"{found[0]} is no character")
    return chr(code)


def _spelled(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else repr(char)[1:-1]


_STEPS: dict[str | None, Callable[[_Reading, Any], None]] = {
    "open": _open,
    "repeat": _repeat,
    "sign": _sign,
    "reference": _reference,
    "class": _class,
    None: _literal,
}
