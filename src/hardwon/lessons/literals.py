"""Find literals that every text contains which a pattern matches; the index tries only lessons whose literals occur.

Each part of the parsed pattern is reduced to its *spellings*, the case-folded strings it can match, as long as they are
few. Spellings of neighbours are joined to longer runs; a part without spellings ends the run. Leaving out a lesson that
would have matched is the one error this module may not make, so a run contains only what is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hardwon.lessons.pattern_check import REPEAT_OPS, ops, parse_regex
from hardwon.text.case_folding import fold_case

MAX_SPELLINGS = 16
MAX_SPELLING_CHARS = 100
MIN_LITERAL_CHARS = 2
MAX_SPELLED_REPEATS = 4
_EMPTY = frozenset({""})

Literals = frozenset[str]
# The spellings of a part, None if they are many or unknown, and the sets of which every match contains a literal.
Analysis = tuple[Literals | None, list[Literals]]


def find_literal_sets(source: str, flags: int = 0) -> list[Literals]:
    """Return sets of folded literals; every text that the pattern matches contains, folded, one literal of each."""
    tree = parse_regex(source, flags)
    return _analyze_sequence(tree, bool(tree.state.flags & re.IGNORECASE))[1]


def choose_longest(literal_sets: list[Literals]) -> list[Literals]:
    """Return the set whose shortest literal is longest, alone in a list; none if there is none."""
    if not literal_sets:
        return []
    return [max(literal_sets, key=lambda literals: (min(map(len, literals)), -len(literals)))]


def _analyze_sequence(items: Any, ignore_case: bool) -> Analysis:
    literal_sets: list[Literals] = []
    runs = [_EMPTY]
    for op, value in items:
        pieces: list[Literals | None]
        if op in REPEAT_OPS:
            least, most, body = value
            body_spellings, body_sets = _analyze_sequence(body, ignore_case)
            pieces = [_spell_repeat(body_spellings, least, most)]
            if least > 0:
                literal_sets += choose_longest(body_sets)
                if pieces == [None]:  # what is repeated at least once begins and ends with its body
                    pieces = [body_spellings, None, body_spellings]
        else:
            spellings, inner_sets = _analyze_part(op, value, ignore_case)
            literal_sets += inner_sets
            pieces = [spellings]
        for piece in pieces:
            joined = _join_spellings(runs[-1], piece) if piece is not None else None
            if joined is None:
                runs.append(piece or _EMPTY)
            else:
                runs[-1] = joined
    literal_sets += [literals for literals in map(_drop_redundant, runs) if literals]
    return (runs[0] if len(runs) == 1 else None), literal_sets


def _analyze_part(op: Any, value: Any, ignore_case: bool) -> Analysis:
    if op is ops.LITERAL:
        return _spell_char(value, ignore_case), []
    if op is ops.IN:
        is_plain = all(kind is ops.LITERAL for kind, _ in value)
        return (_merge_spellings(_spell_char(code, ignore_case) for _, code in value) if is_plain else None), []
    if op in (ops.AT, ops.ASSERT_NOT):
        return _EMPTY, []
    if op is ops.ASSERT:
        return _EMPTY, choose_longest(_analyze_sequence(value[1], ignore_case)[1])
    if op is ops.SUBPATTERN:
        _, added_flags, removed_flags, body = value
        inside_case = (ignore_case or bool(added_flags & re.IGNORECASE)) and not removed_flags & re.IGNORECASE
        spellings, literal_sets = _analyze_sequence(body, inside_case)
        return spellings, choose_longest(literal_sets)
    if op is ops.ATOMIC_GROUP:
        spellings, literal_sets = _analyze_sequence(value, ignore_case)
        return spellings, choose_longest(literal_sets)
    if op is ops.BRANCH:
        branches = [_analyze_sequence(branch, ignore_case) for branch in value[1]]
        combined: set[str] = set()
        for _, literal_sets in branches:
            combined.update(*choose_longest(literal_sets))
        is_certain = all(literal_sets for _, literal_sets in branches) and len(combined) <= MAX_SPELLINGS
        return _merge_spellings(spellings for spellings, _ in branches), [frozenset(combined)] if is_certain else []
    return None, []


def _spell_char(code: int, ignore_case: bool) -> Literals | None:
    return frozenset({fold_case(chr(code))}) if code < 128 or not ignore_case else None


def _spell_repeat(body: Literals | None, least: int, most: int) -> Literals | None:
    if body is None or most > MAX_SPELLED_REPEATS:
        return None
    powers: list[Literals | None] = [_EMPTY]
    for _ in range(most):
        last = powers[-1]
        powers.append(_join_spellings(last, body) if last is not None else None)
    return _merge_spellings(powers[least:])


def _merge_spellings(parts: Iterable[Literals | None]) -> Literals | None:
    merged: set[str] = set()
    for part in parts:
        if part is None:
            return None
        merged |= part
    return frozenset(merged) if len(merged) <= MAX_SPELLINGS else None


def _join_spellings(prefixes: Literals, suffixes: Literals) -> Literals | None:
    joined = frozenset(prefix + suffix for prefix in prefixes for suffix in suffixes)
    return joined if len(joined) <= MAX_SPELLINGS and max(map(len, joined)) <= MAX_SPELLING_CHARS else None


def _drop_redundant(literals: Literals) -> Literals | None:
    """Return the literals without those that contain another; None if one is too short to tell anything."""
    if min(map(len, literals)) < MIN_LITERAL_CHARS:
        return None
    return frozenset(word for word in literals if not any(other in word for other in literals if other != word))
