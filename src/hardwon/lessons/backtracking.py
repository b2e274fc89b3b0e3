"""How many steps does a backtracking engine take? A clock would answer differently on each machine; this counts.

A parsed pattern becomes a short program, and `steps` runs it the way Python's `re` does: alternatives in order, repeats
greedy or lazy, a stack of places to return to. Only the characters of a small alphabet are told apart, which is all
that a test text needs. It is the verdict of `pattern.fault`, so the same lesson is accepted everywhere or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # without stubs; Python's own parser, used only here
from typing import Any, NamedTuple

ops: Any = _constants

CHAR, CHAR_RUN, SPLIT, JUMP, POSITION, LOOKAROUND, ATOMIC, SAVE, LOOP, IF_GROUP, BACKREFERENCE = range(11)
MAX_PROGRAM_STEPS = 5000  # steps in a program
MAX_UNROLLED = 32  # a longer counted repeat of more than one character is run as an endless one

IGNORE_CASE = int(re.IGNORECASE)  # as a plain number: an enum's `&` costs more than all the rest of `takes`
SINGLE_CHAR_OPS = (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN)
REPEAT_OPS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_CATEGORIES = {
    ops.CATEGORY_DIGIT: re.compile(r"\d"),
    ops.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    ops.CATEGORY_SPACE: re.compile(r"\s"),
    ops.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    ops.CATEGORY_WORD: re.compile(r"\w"),
    ops.CATEGORY_NOT_WORD: re.compile(r"\W"),
}

Instruction = tuple[int, Any, Any]
Code = list[Instruction]
Slots = tuple[int | None, ...]


def parse_regex(source: str, flags: int = 0) -> Any:
    """The parsed pattern, as Python's own compiler sees it."""
    return _parser.parse(source, flags)


def list_child_sequences(op: Any, value: Any) -> list[Any]:
    """The sequences directly inside a part."""
    if op is ops.BRANCH:
        return list(value[1])
    if op is ops.GROUPREF_EXISTS:
        return [branch for branch in value[1:] if branch]
    if op is ops.ATOMIC_GROUP:
        return [value]
    if op in (ops.SUBPATTERN, ops.ASSERT, ops.ASSERT_NOT, *REPEAT_OPS):
        return [value[-1]]
    return []


def walk_parts(items: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a sequence, at any depth."""
    for op, value in items:
        yield op, value
        for inside in list_child_sequences(op, value):
            yield from walk_parts(inside)


def can_match_char(op: Any, value: Any, char: str, flags: int = 0) -> bool:
    """Whether a single-character part matches this character."""
    if op is ops.ANY:
        return char != "\n" or bool(flags & re.DOTALL)
    if op is ops.NOT_LITERAL:
        return not can_match_char(ops.LITERAL, value, char, flags)
    if op is ops.CATEGORY:
        return bool(_CATEGORIES[value].match(char))
    if op is ops.IN:
        negated = value[0][0] is ops.NEGATE
        return negated != any(can_match_char(kind, inside, char, flags) for kind, inside in value[negated:])
    low, high = value if op is ops.RANGE else (value, value)
    if not flags & IGNORE_CASE:
        return bool(low <= ord(char) <= high)
    return any(low <= ord(case) <= high for case in (char, char.lower(), char.upper()) if len(case) == 1)


class StepLimitExceeded(Exception):
    """More steps than were allowed."""


class Program(NamedTuple):
    """A pattern as steps, and the blank marks a run of it begins with."""

    code: Code
    initial_slots: Slots


class _Plan(NamedTuple):
    alphabet: frozenset[str]
    slots: dict[Any, int]  # where a run remembers: both ends of each group that is referred to, the start of each loop
    chars: dict[Any, frozenset[str]]


def compile_program(tree: Any, alphabet: Iterable[str]) -> Program:
    """The steps of a parsed pattern on texts over an alphabet; Spent if there are far too many."""
    plan = _Plan(frozenset(alphabet), {}, {})
    for op, value in walk_parts(tree):
        if op in (ops.GROUPREF, ops.GROUPREF_EXISTS):
            group = value if op is ops.GROUPREF else value[0]
            for end in "from", "to":
                plan.slots.setdefault((group, end), len(plan.slots))
    code = _code(tree, tree.state.flags, plan)
    return Program(code, (None,) * len(plan.slots))


def count_steps(program: Program, text: str, limit: int) -> int:
    """The steps a search through the text takes; `most` if it takes as many or more."""
    left = [limit]
    try:
        for start in range(len(text) + 1):
            if match_at(program.code, text, start, program.initial_slots, left):
                break
    except StepLimitExceeded:
        return limit
    return limit - left[0]


def match_at(code: Code, text: str, at: int, slots: Slots, steps_left: list[int]) -> tuple[int, Slots] | None:
    """Where a match that begins at a place ends, with what it marked; `left` holds the steps it may take."""
    stack: list[tuple[int, int, Slots, int]] = []
    pc, size, end = 0, len(text), len(code)
    budget = steps_left[0]
    while pc < end:
        budget -= 1
        if budget < 0:
            raise StepLimitExceeded
        kind, a, b = code[pc]
        if kind == CHAR:
            if at < size and text[at] in a:
                at, pc = at + 1, pc + 1
                continue
        elif kind == CHAR_RUN:
            least, many, lazy = b
            far, limit = at, size if many > size else min(size, at + many)
            while far < limit and text[far] in a:
                far += 1
            near, pc = at + least, pc + 1
            if far >= near:
                at, last = (near, far) if lazy else (far, near)
                if at != last:
                    stack.append((pc, at + (1 if lazy else -1), slots, last))
                continue
        elif kind == SPLIT:
            stack.append((b, at, slots, at))
            pc = a
            continue
        elif kind == JUMP:
            pc = a
            continue
        else:
            steps_left[0] = budget
            found = _rare((kind, a, b), text, pc, at, slots, steps_left)
            budget = steps_left[0]
            if found:
                pc, at, slots = found
                continue
        if not stack:
            steps_left[0] = budget
            return None
        pc, at, slots, last = stack.pop()
        if at != last:
            stack.append((pc, at + (1 if at < last else -1), slots, last))
    steps_left[0] = budget
    return at, slots


def _rare(
    step: Instruction, text: str, pc: int, at: int, marks: Slots, left: list[int]
) -> tuple[int, int, Slots] | None:
    """One of the less common steps: where it goes on, or None if it fails."""
    kind, a, b = step
    if kind == POSITION:
        return (pc + 1, at, marks) if _stands(a, b, text, at) else None
    if kind == LOOKAROUND:
        wanted, width = b
        found = match_at(a, text, at - width, marks, left) if at >= width else None
        if (found is not None) is not wanted:
            return None
        return pc + 1, at, found[1] if found else marks
    if kind == ATOMIC:
        found = match_at(a, text, at, marks, left)
        return (pc + 1, *found) if found else None
    if kind == SAVE:
        return pc + 1, at, (*marks[:a], at, *marks[a + 1 :])
    if kind == LOOP:
        return (pc + 1 if marks[b] == at else a), at, marks
    start, stop = (marks[slot] for slot in a)
    if kind == IF_GROUP:
        return (b if stop is None else pc + 1), at, marks
    if start is None or stop is None:
        return None
    was, now = text[start:stop], text[at : at + stop - start]
    same = was.lower() == now.lower() if b else was == now
    return (pc + 1, at + len(was), marks) if same else None


def _stands(where: Any, lines: bool, text: str, at: int) -> bool:
    left, right = text[max(at - 1, 0) : at], text[at : at + 1]
    if where is ops.AT_BEGINNING_STRING:
        return not left
    if where is ops.AT_BEGINNING:
        return not left or (lines and left == "\n")
    if where is ops.AT_END_STRING:
        return not right
    if where is ops.AT_END:
        return not right or (right == "\n" and (lines or at + 1 == len(text)))
    word = [char.isalnum() or char == "_" for char in (left, right)]
    return bool(text) and (word[0] != word[1]) is (where is ops.AT_BOUNDARY)


def _code(items: Any, flags: int, plan: _Plan) -> Code:
    """Steps for a sequence; places in them are counted from the sequence's first step."""
    code: Code = []
    for op, value in items:
        more = _steps(op, value, flags, plan)
        code += _moved(more, len(code)) if code else more
        if len(code) > MAX_PROGRAM_STEPS:
            raise StepLimitExceeded
    return code


def _moved(code: Code, by: int) -> Code:
    moved: Code = []
    for kind, a, b in code:
        if kind == SPLIT:
            moved.append((kind, a + by, b + by))
        elif kind in (JUMP, LOOP):
            moved.append((kind, a + by, b))
        else:
            moved.append((kind, a, b + by if kind == IF_GROUP else b))
    return moved


def _steps(op: Any, value: Any, flags: int, plan: _Plan) -> Code:
    if op in SINGLE_CHAR_OPS:
        return [(CHAR, _chars(op, value, flags, plan), None)]
    if op in REPEAT_OPS:
        return _repeat(op, value, flags, plan)
    if op is ops.BRANCH:
        return _choice([_code(branch, flags, plan) for branch in value[1]])
    if op is ops.SUBPATTERN:
        group, added, removed, body = value
        code = _code(body, (flags | added) & ~removed, plan)
        if (group, "to") not in plan.slots:
            return code
        first, last = _ends(group, plan)
        return [(SAVE, first, None), *_moved(code, 1), (SAVE, last, None)]
    if op is ops.AT:
        return [(POSITION, value, bool(flags & re.MULTILINE))]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        width = value[1].getwidth()[0] if value[0] < 0 else 0
        return [(LOOKAROUND, _code(value[1], flags, plan), (op is ops.ASSERT, width))]
    if op is ops.ATOMIC_GROUP:
        return [(ATOMIC, _code(value, flags, plan), None)]
    if op is ops.GROUPREF:
        return [(BACKREFERENCE, _ends(value, plan), bool(flags & IGNORE_CASE))]
    if op is ops.GROUPREF_EXISTS:
        group, yes, no = value
        both = _choice([_code(yes, flags, plan), _code(no or (), flags, plan)])
        return [(IF_GROUP, _ends(group, plan), both[0][2]), *both[1:]]
    return [(CHAR, frozenset(), None)]


def _ends(group: int, plan: _Plan) -> tuple[int, int]:
    return plan.slots[group, "from"], plan.slots[group, "to"]


def _choice(branches: list[Code]) -> Code:
    code = branches[-1]
    for branch in reversed(branches[:-1]):
        other = len(branch) + 2
        code = [(SPLIT, 1, other), *_moved(branch, 1), (JUMP, other + len(code), None), *_moved(code, other)]
    return code


def _repeat(op: Any, value: Any, flags: int, plan: _Plan) -> Code:
    least, most, body = value
    lazy = op is ops.MIN_REPEAT
    if len(body) == 1 and body[0][0] in SINGLE_CHAR_OPS:
        single, what = body[0]
        code: Code = [(CHAR_RUN, _chars(single, what, flags, plan), (least, most, lazy))]
    else:
        once = _code(body, flags, plan)
        if len(once) * (most if most <= MAX_UNROLLED else min(least, MAX_UNROLLED)) > MAX_PROGRAM_STEPS:
            raise StepLimitExceeded
        width = body.getwidth()[0]
        if most <= MAX_UNROLLED:
            code = _joined([once] * least)
            rest: Code = []
            for _ in range(most - least):
                rest = _optional([*once, *_moved(rest, len(once))], lazy)
        elif least and width:
            code = _joined([once] * (min(least, MAX_UNROLLED) - 1))
            rest = [*once, (SPLIT, len(once) + 1, 0) if lazy else (SPLIT, 0, len(once) + 1)]
        else:
            code = _joined([once] * min(least, MAX_UNROLLED))
            rest = _loop(once, lazy, width, plan)
        code += _moved(rest, len(code))
    return [(ATOMIC, code, None)] if op is ops.POSSESSIVE_REPEAT else code


def _joined(codes: list[Code]) -> Code:
    whole: Code = []
    for code in codes:
        whole += _moved(code, len(whole))
    return whole


def _optional(code: Code, lazy: bool) -> Code:
    out = len(code) + 1
    return [(SPLIT, out, 1) if lazy else (SPLIT, 1, out), *_moved(code, 1)]


def _loop(once: Code, lazy: bool, width: int, plan: _Plan) -> Code:
    """An endless repeat; if its body can match nothing, a turn that got nowhere is the last."""
    if width:
        return _optional([*once, (JUMP, -1, None)], lazy)
    slot = plan.slots.setdefault(("loop", len(plan.slots)), len(plan.slots))
    return _optional([(SAVE, slot, None), *_moved(once, 1), (LOOP, -1, slot)], lazy)


def _chars(op: Any, value: Any, flags: int, plan: _Plan) -> frozenset[str]:
    key = (op, value if isinstance(value, int) else id(value), flags & (IGNORE_CASE | re.DOTALL))
    if key not in plan.chars:
        plan.chars[key] = frozenset(char for char in plan.alphabet if can_match_char(op, value, char, flags))
    return plan.chars[key]
