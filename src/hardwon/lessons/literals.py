"""Which words must a text hold for a pattern to match it? The index asks only the lessons whose word occurs.

Each part of the parsed pattern is reduced to its *spellings*, the folded strings it can match, as long as they are few.
Neighbouring spellings are multiplied into longer runs; a part without spellings ends the run. A run is a promise
only, never a guess: dropping a lesson that would have matched is the one error this module may not make.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from hardwon.lessons.backtracking import ops, parse_regex
from hardwon.text.case_folding import fold_case

MAX_SPELLINGS = 16
MAX_SPELLING_CHARS = 100
MIN_LITERAL_CHARS = 2
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_NOTHING = frozenset({""})

Literals = frozenset[str]


def find_required_literals(source: str, flags: int = 0) -> Literals | None:
    """Folded literals of which at least one occurs in the folded form of every text the pattern matches, if any."""
    return _longest(find_literal_sets(source, flags))


def find_literal_sets(source: str, flags: int = 0) -> list[Literals]:
    """Everything a pattern demands of a text, each as in `required`: whoever knows other patterns can choose the one
    that few of them share."""
    tree = parse_regex(source, flags)
    return _demands(tree, bool(tree.state.flags & re.IGNORECASE))


def _best(items: Any, anycase: bool) -> Literals | None:
    return _longest(_demands(items, anycase))


def _longest(found: list[Literals]) -> Literals | None:
    return max(found, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _demands(items: Any, anycase: bool) -> list[Literals]:
    found: list[Literals] = []
    run = _NOTHING
    for op, value in items:
        spelt = _spellings(op, value, anycase)
        joined = _join(run, spelt) if spelt is not None else None
        if joined is not None:
            run = joined
        else:
            found.append(run)
            run = spelt or _NOTHING
        if op in _REPEATS and spelt is None and value[0] > 0:
            once = _run(value[2], anycase)
            found.append(_join(found[-1], once) or _NOTHING)
            run = once
        found += [words for words in _inside(op, value, anycase) if words]
    return [words for words in map(_telling, [*found, run]) if words]


def _inside(op: Any, value: Any, anycase: bool) -> list[Literals | None]:
    """What a part demands by itself, wherever it stands."""
    if op is ops.SUBPATTERN:
        return [_best(value[3], _case(value, anycase))]
    if op is ops.ATOMIC_GROUP:
        return [_best(value, anycase)]
    if op is ops.ASSERT or (op in _REPEATS and value[0] > 0):
        return [_best(value[-1], anycase)]
    if op is ops.BRANCH:
        each = [_best(branch, anycase) for branch in value[1]]
        together: Literals = frozenset().union(*(words or () for words in each))
        return [together if all(each) and len(together) <= MAX_SPELLINGS else None]
    return []


def _spellings(op: Any, value: Any, anycase: bool) -> Literals | None:
    """Every folded string this part can match, or None if they are many or unknown."""
    if op is ops.LITERAL:
        return _letter(value, anycase)
    if op is ops.IN:
        return _class(value, anycase)
    if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return _NOTHING
    if op is ops.SUBPATTERN:
        return _sequence(value[3], _case(value, anycase))
    if op is ops.ATOMIC_GROUP:
        return _sequence(value, anycase)
    if op is ops.BRANCH:
        return _union([_sequence(branch, anycase) for branch in value[1]])
    if op in _REPEATS:
        least, most, body = value
        return _repeated(_sequence(body, anycase), least, most)
    return None


def _letter(code: int, anycase: bool) -> Literals | None:
    return frozenset({fold_case(chr(code))}) if code < 128 or not anycase else None


def _class(members: Any, anycase: bool) -> Literals | None:
    if any(op is not ops.LITERAL for op, _ in members):
        return None
    return _union([_letter(code, anycase) for _, code in members])


def _sequence(items: Any, anycase: bool) -> Literals | None:
    spelt: Literals | None = _NOTHING
    for op, value in items:
        part = _spellings(op, value, anycase)
        spelt = _join(spelt, part) if spelt is not None and part is not None else None
        if spelt is None:
            return None
    return spelt


def _run(items: Any, anycase: bool) -> Literals:
    return _sequence(items, anycase) or _NOTHING


def _repeated(body: Literals | None, least: int, most: int) -> Literals | None:
    if body is None or most > 4:
        return None
    powers: list[Literals | None] = [_NOTHING]
    for _ in range(most):
        last = powers[-1]
        powers.append(_join(last, body) if last is not None else None)
    return _union(powers[least:])


def _union(parts: list[Literals | None]) -> Literals | None:
    together: set[str] = set()
    for part in parts:
        if part is None:
            return None
        together |= part
    return frozenset(together) if len(together) <= MAX_SPELLINGS else None


def _join(left: Literals, right: Literals) -> Literals | None:
    both = frozenset(a + b for a, b in product(left, right))
    return both if len(both) <= MAX_SPELLINGS and max(map(len, both)) <= MAX_SPELLING_CHARS else None


def _telling(words: Literals) -> Literals | None:
    """The words without those that hold another of them; None if one is too short to tell anything."""
    if min(map(len, words)) < MIN_LITERAL_CHARS:
        return None
    return frozenset(word for word in words if not any(other in word for other in words if other != word))


def _case(group: Any, anycase: bool) -> bool:
    _, added, removed, _ = group
    return (anycase or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
