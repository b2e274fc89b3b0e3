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

    opening: str
    modifiers: frozenset[str]
    number: int = 0
    captures: list[int] = field(default_factory=list)
    has_alternatives: bool = False


@dataclass
class _TranslationState:
    """How far a pattern is read. `sure` are the captures that took part in every match that gets here."""

    source: str
    is_unicode: bool
    captures: list[str]
    frames: list[_Frame]
    pos: int = 0
    opened_count: int = 0
    output: list[str] = field(default_factory=list)
    certain_captures: set[int] = field(default_factory=set)
    last_captures: list[int] = field(default_factory=list)
    is_repeatable: bool = False
    needs_ascii: bool = False

    def emit(self, text: str, *, is_repeatable: bool = True, captures: list[int] | None = None) -> None:
        self.output.append(text)
        self.is_repeatable = is_repeatable
        self.last_captures = captures or []


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
_CODE_ESCAPE = re.compile(
    r"""\\(?:
      u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | u\{(?P<point>[0-9a-fA-F]+)\}
    | [ux](?P<hex>(?<=u)[0-9a-fA-F]{4}|(?<=x)[0-9a-fA-F]{2})
    | c(?P<letter>[A-Za-z])
    | (?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)
    )""",
    re.VERBOSE | re.ASCII,
)
_CONTROL_CHARS = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f"}
_NOT_LINE_END = r"[^\n\r\u2028\u2029]"
_CLASS_ESCAPES = frozenset({r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"})


def translate_pattern(source: str, flags: str = "") -> tuple[str, str]:
    """The same pattern for Python's `re`, with the letters of its flags; Untranslatable if there is none."""
    if bad_flags := [letter for letter in flags if letter not in "dgimsuvy" or flags.count(letter) > 1]:
        raise UntranslatablePattern(f"JavaScript refuses the flags {flags!r}: leave out {bad_flags[0]!r}")
    if "v" in flags:
        raise UntranslatablePattern(
            "the flag v, sets of characters, has no counterpart in Python's re: list the characters"
        )
    captures = ["", *(match[2] or "" for match in _CAPTURE.finditer(source) if match[1])]
    state = _TranslationState(source, "u" in flags, captures, [_Frame("", frozenset(flags) & {*"ims"})])
    while state.pos < len(source):
        start, match = state.pos, _TOKEN.match(source, state.pos)
        _HANDLERS[match.lastgroup if match else None](state, match)
        if match and state.pos == start:
            state.pos = match.end()
    if len(state.frames) > 1:
        raise UntranslatablePattern(r"a parenthesis is not closed: write \( for the parenthesis itself")
    python = "".join(state.output)
    if "y" in flags:
        python = rf"\A(?:{python})"
    letters = "i" * ("i" in flags) + "s" * ("s" in flags) + "a" * (state.needs_ascii or "i" in flags)
    try:
        re.compile(f"(?{letters}){python}" if letters else python)
    except (re.error, OverflowError, RecursionError) as error:
        fix = ": give each lookbehind one length, as in (?:(?<=a)|(?<=bc))" if "look-behind" in str(error) else ""
        raise UntranslatablePattern(f"Python's re refuses it, {error}{fix}") from None
    return python, letters


def _refuse(pos: int, reason: str) -> NoReturn:
    raise UntranslatablePattern(f"column {pos + 1}: {reason}")


def _translate_open(state: _TranslationState, match: re.Match[str]) -> None:
    text, outer_modifiers = match["open"], state.frames[-1].modifiers
    if text == "(" and state.source.startswith("?", match.end()):
        _refuse(state.pos, f"JavaScript knows no group {state.source[match.start() : match.end() + 2]}")
    frame = _Frame(text, outer_modifiers)
    if text == "(" or match["called"]:
        state.opened_count += 1
        frame.number = state.opened_count
        if match["called"]:
            if not match["called"].isidentifier():
                _refuse(state.pos, f"{match['called']!r} cannot name a group in Python's re: use letters and digits")
            text = f"(?P<{match['called']}>"
    elif match["on"] is not None:
        on, off = {*match["on"]}, {*(match["off"] or "")}
        frame.modifiers = frozenset(outer_modifiers | on) - off
        state.needs_ascii |= "i" in on
        removed = "".join(sorted(off - {"m"}))  # what m does is written out
        text = f"(?{''.join(sorted(on - {'m'}))}{'-' * bool(removed)}{removed}:"
    state.frames.append(frame)
    state.emit(text, is_repeatable=False)


def _translate_close(state: _TranslationState) -> None:
    if len(state.frames) == 1:
        _refuse(state.pos, r"nothing is open here: write \) for the parenthesis itself")
    frame = state.frames.pop()
    if frame.has_alternatives or frame.opening.endswith("!"):
        state.certain_captures.difference_update(frame.captures)
    if frame.number:
        state.certain_captures.add(frame.number)
        frame.captures.append(frame.number)
    state.frames[-1].captures += frame.captures
    is_lookaround = frame.opening[-1] in "=!"
    state.emit(")", is_repeatable=not is_lookaround, captures=frame.captures)


def _translate_repeat(state: _TranslationState, match: re.Match[str]) -> None:
    if not state.is_repeatable:
        _refuse(
            state.pos, rf"nothing to repeat before {match['repeat']}: write \{match['repeat'][0]} for the sign itself"
        )
    if match["repeat"][0] in "*?" or (match["least"] and not int(match["least"][:20])):
        state.certain_captures.difference_update(state.last_captures)
    state.emit(match["repeat"], is_repeatable=False)


def _translate_sign(state: _TranslationState, match: re.Match[str]) -> None:
    sign, frame = match["sign"], state.frames[-1]
    is_multiline = "m" in frame.modifiers
    if sign == ")":
        _translate_close(state)
    elif sign == "|":
        frame.has_alternatives = True
        state.certain_captures.difference_update(frame.captures)
        state.emit("|", is_repeatable=False)
    elif sign == "^":
        state.emit(f"(?<!{_NOT_LINE_END})" if is_multiline else "^", is_repeatable=False)
    elif sign == "$":
        state.emit(f"(?!{_NOT_LINE_END})" if is_multiline else r"\Z", is_repeatable=False)
    else:
        state.needs_ascii |= sign != "."
        state.emit(sign, is_repeatable=sign[-1] not in "bB")


def _translate_reference(state: _TranslationState, match: re.Match[str]) -> None:
    text, name = match["reference"], match["name"]
    if name is None:
        number = int(text[1:])
        is_reference = number < len(state.captures)
    else:
        number = state.captures.index(name) if name in state.captures[1:] else 0
        is_reference = state.is_unicode or any(state.captures)
        text = f"(?P={name})"
    if not is_reference:
        return _translate_literal(state)
    if number not in state.certain_captures or any(frame.opening in ("(?<=", "(?<!") for frame in state.frames):
        reason = "need not have matched, which JavaScript takes for empty and Python for a failure"
        _refuse(state.pos, f"{text} refers to a group that {reason}: write the group's pattern again")
    return state.emit(text)


def _translate_class(state: _TranslationState, match: re.Match[str]) -> None:
    negated = match["class"].startswith("[^")
    pos, end = state.pos + 1 + negated, match.end() - 1
    parts: list[str] = []
    while pos < end:
        low, pos = _read_member(state, pos)
        if state.source[pos] != "-" or pos + 1 == end:
            parts.append(_find_both_cases(state, low) or _escape_member(low))
            continue
        high, next_pos = _read_member(state, pos + 1)
        has_class_escape = low in _CLASS_ESCAPES or high in _CLASS_ESCAPES
        if state.is_unicode and has_class_escape:
            _refuse(pos, "JavaScript refuses a range from or to a class")
        if not has_class_escape and low > high:
            _refuse(pos, r"a range runs backwards: put the - last, or write \-")
        if _find_both_cases(state, low) or _find_both_cases(state, high):
            _refuse(pos, f"ignoring case, Python's re cannot say {low}-{high}: write both cases of each letter")
        low, high = _escape_member(low), _escape_member(high)
        parts += [low, r"\-", high] if has_class_escape else [f"{low}-{high}"]
        pos = next_pos
    state.needs_ascii |= not _CLASS_ESCAPES.isdisjoint(parts)
    matches_all = any({part, part.swapcase()} <= {*parts} for part in _CLASS_ESCAPES)
    if negated and not parts:
        state.emit(r"[\s\S]")
    elif not parts or (negated and matches_all):
        state.emit("(?!)")
    else:
        state.emit(f"[{'^' * negated}{''.join(parts)}]")


def _read_member(state: _TranslationState, pos: int) -> tuple[str, int]:
    """A character of a class, or one of the classes with a letter, and where the next begins."""
    pair = state.source[pos : pos + 2]
    if pair in _CLASS_ESCAPES:
        return pair, pos + 2
    return ("\b", pos + 2) if pair == r"\b" else _read_char(state, pos, "-")


def _escape_member(member: str) -> str:
    return member if member in _CLASS_ESCAPES else _escape_char(member, r"\][^-&~|")


def _find_both_cases(state: _TranslationState, char: str) -> str:
    """Both cases of a letter outside ASCII where case is ignored, since the flag `a` keeps Python from knowing them."""
    if "i" not in state.frames[-1].modifiers or char.isascii() or char.upper() == char.lower():
        return ""
    return "".join(sorted(case for case in {char, char.upper(), char.lower()} if len(case) == 1))


def _translate_literal(state: _TranslationState, _: object = None) -> None:
    (char, next_pos), raw_char = _read_char(state, state.pos), state.source[state.pos]
    if raw_char == "[":
        _refuse(state.pos, r"a class is not closed: write \[ for the bracket itself")
    if state.is_unicode and raw_char in "]{}":
        _refuse(state.pos, f"with the flag u JavaScript refuses a lone {char}: write \\{char}")
    both_cases = _find_both_cases(state, char)
    state.emit(f"[{both_cases}]" if both_cases else _escape_char(char, r"\^$.|?*+()[]{}"))
    state.pos = next_pos


def _read_char(state: _TranslationState, pos: int, extra_escapes: str = "") -> tuple[str, int]:
    """The character that stands at a place, written plainly or escaped, and where the next begins."""
    source, is_unicode = state.source, state.is_unicode
    if source[pos] != "\\":
        return source[pos], pos + 1
    if pos + 1 == len(source):
        _refuse(pos, r"nothing follows the backslash: write \\ for a backslash")
    match = _CODE_ESCAPE.match(source, pos)
    if match and (is_unicode or not match["point"]):
        return _decode_escape(match, pos, is_unicode), match.end()
    sign = source[pos + 1]
    if sign in _CONTROL_CHARS:
        return _CONTROL_CHARS[sign], pos + 2
    if is_unicode and sign in "pP":
        _refuse(
            pos, rf"\{sign}{{…}} has no counterpart in Python's re: write \w, or list the characters, as in [a-zäöü]"
        )
    if sign == "c" or (is_unicode and sign not in r"^$\.*+?()[]{}|/" + extra_escapes):
        _refuse(pos, rf"JavaScript refuses \{sign} here: without the backslash it stands for itself")
    return sign, pos + 2


def _decode_escape(match: re.Match[str], pos: int, is_unicode: bool) -> str:
    if match["letter"]:
        return chr(ord(match["letter"]) % 32)
    if match["octal"]:
        if is_unicode and (match["octal"] != "0" or match.string[match.end() : match.end() + 1].isdigit()):
            _refuse(pos, rf"with the flag u JavaScript refuses \{match['octal']}")
        return chr(int(match["octal"], 8))
    if match["high"]:
        return (bytes.fromhex(match["high"]) + bytes.fromhex(match["low"])).decode("utf-16-be")
    code = int(match["point"] or match["hex"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        _refuse(pos, f"{match[0]} is no character")
    return chr(code)


def _escape_char(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else repr(char)[1:-1]


_HANDLERS: dict[str | None, Callable[[_TranslationState, Any], None]] = {
    "open": _translate_open,
    "repeat": _translate_repeat,
    "sign": _translate_sign,
    "reference": _translate_reference,
    "class": _translate_class,
    None: _translate_literal,
}
