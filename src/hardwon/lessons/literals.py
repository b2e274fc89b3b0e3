"""Which words must a text hold for a pattern to match it? The index asks only the lessons whose word occurs.

Each part of the parsed pattern is reduced to its *spellings*, the folded strings it can match, as long as they are few.
Neighbouring spellings are multiplied into longer runs; a part without spellings ends the run. A run is a promise
only, never a guess: dropping a lesson that would have matched is the one error this module may not make.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from hardwon.lessons.pattern_check import REPEAT_OPS, ops, parse_regex
from hardwon.text.case_folding import fold_case

MAX_SPELLINGS = 16
MAX_SPELLING_CHARS = 100
MIN_LITERAL_CHARS = 2
_EMPTY = frozenset({""})

Literals = frozenset[str]


def find_required_literals(source: str, flags: int = 0) -> Literals | None:
    """Folded literals of which at least one occurs in the folded form of every text the pattern matches, if any."""
    return _choose_longest(find_literal_sets(source, flags))


def find_literal_sets(source: str, flags: int = 0) -> list[Literals]:
    """Everything a pattern demands of a text, each as in `required`: whoever knows other patterns can choose the one
    that few of them share."""
    tree = parse_regex(source, flags)
    return _list_literal_sets(tree, bool(tree.state.flags & re.IGNORECASE))


def _find_best_set(items: Any, ignore_case: bool) -> Literals | None:
    return _choose_longest(_list_literal_sets(items, ignore_case))


def _choose_longest(literal_sets: list[Literals]) -> Literals | None:
    return max(literal_sets, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _list_literal_sets(items: Any, ignore_case: bool) -> list[Literals]:
    literal_sets: list[Literals] = []
    run = _EMPTY
    for op, value in items:
        spellings = _find_spellings(op, value, ignore_case)
        joined = _join_spellings(run, spellings) if spellings is not None else None
        if joined is not None:
            run = joined
        else:
            literal_sets.append(run)
            run = spellings or _EMPTY
        if op in REPEAT_OPS and spellings is None and value[0] > 0:
            body_run = _spell_run(value[2], ignore_case)
            literal_sets.append(_join_spellings(literal_sets[-1], body_run) or _EMPTY)
            run = body_run
        literal_sets += [words for words in _list_inner_sets(op, value, ignore_case) if words]
    return [words for words in map(_drop_redundant, [*literal_sets, run]) if words]


def _list_inner_sets(op: Any, value: Any, ignore_case: bool) -> list[Literals | None]:
    """What a part demands by itself, wherever it stands."""
    if op is ops.SUBPATTERN:
        return [_find_best_set(value[3], _is_case_ignored(value, ignore_case))]
    if op is ops.ATOMIC_GROUP:
        return [_find_best_set(value, ignore_case)]
    if op is ops.ASSERT or (op in REPEAT_OPS and value[0] > 0):
        return [_find_best_set(value[-1], ignore_case)]
    if op is ops.BRANCH:
        branch_sets = [_find_best_set(branch, ignore_case) for branch in value[1]]
        combined: Literals = frozenset().union(*(words or () for words in branch_sets))
        return [combined if all(branch_sets) and len(combined) <= MAX_SPELLINGS else None]
    return []


def _find_spellings(op: Any, value: Any, ignore_case: bool) -> Literals | None:
    """Every folded string this part can match, or None if they are many or unknown."""
    if op is ops.LITERAL:
        return _spell_char(value, ignore_case)
    if op is ops.IN:
        return _spell_class(value, ignore_case)
    if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return _EMPTY
    if op is ops.SUBPATTERN:
        return _spell_sequence(value[3], _is_case_ignored(value, ignore_case))
    if op is ops.ATOMIC_GROUP:
        return _spell_sequence(value, ignore_case)
    if op is ops.BRANCH:
        return _merge_spellings([_spell_sequence(branch, ignore_case) for branch in value[1]])
    if op in REPEAT_OPS:
        least, most, body = value
        return _spell_repeat(_spell_sequence(body, ignore_case), least, most)
    return None


def _spell_char(code: int, ignore_case: bool) -> Literals | None:
    return frozenset({fold_case(chr(code))}) if code < 128 or not ignore_case else None


def _spell_class(members: Any, ignore_case: bool) -> Literals | None:
    if any(op is not ops.LITERAL for op, _ in members):
        return None
    return _merge_spellings([_spell_char(code, ignore_case) for _, code in members])


def _spell_sequence(items: Any, ignore_case: bool) -> Literals | None:
    spellings: Literals | None = _EMPTY
    for op, value in items:
        part = _find_spellings(op, value, ignore_case)
        spellings = _join_spellings(spellings, part) if spellings is not None and part is not None else None
        if spellings is None:
            return None
    return spellings


def _spell_run(items: Any, ignore_case: bool) -> Literals:
    return _spell_sequence(items, ignore_case) or _EMPTY


def _spell_repeat(body: Literals | None, least: int, most: int) -> Literals | None:
    if body is None or most > 4:
        return None
    powers: list[Literals | None] = [_EMPTY]
    for _ in range(most):
        last = powers[-1]
        powers.append(_join_spellings(last, body) if last is not None else None)
    return _merge_spellings(powers[least:])


def _merge_spellings(parts: list[Literals | None]) -> Literals | None:
    merged: set[str] = set()
    for part in parts:
        if part is None:
            return None
        merged |= part
    return frozenset(merged) if len(merged) <= MAX_SPELLINGS else None


def _join_spellings(prefixes: Literals, suffixes: Literals) -> Literals | None:
    joined = frozenset(a + b for a, b in product(prefixes, suffixes))
    return joined if len(joined) <= MAX_SPELLINGS and max(map(len, joined)) <= MAX_SPELLING_CHARS else None


def _drop_redundant(words: Literals) -> Literals | None:
    """The words without those that hold another of them; None if one is too short to tell anything."""
    if min(map(len, words)) < MIN_LITERAL_CHARS:
        return None
    return frozenset(word for word in words if not any(other in word for other in words if other != word))


def _is_case_ignored(group: Any, ignore_case: bool) -> bool:
    _, added, removed, _ = group
    return (ignore_case or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
