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
        for child in list_child_sequences(op, value):
            yield from walk_parts(child)


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
        return negated != any(can_match_char(kind, item, char, flags) for kind, item in value[negated:])
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
    code = _compile_sequence(tree, tree.state.flags, plan)
    return Program(code, (None,) * len(plan.slots))


def count_steps(program: Program, text: str, limit: int) -> int:
    """The steps a search through the text takes; `most` if it takes as many or more."""
    steps_left = [limit]
    try:
        for start in range(len(text) + 1):
            if match_at(program.code, text, start, program.initial_slots, steps_left):
                break
    except StepLimitExceeded:
        return limit
    return limit - steps_left[0]


def match_at(code: Code, text: str, pos: int, slots: Slots, steps_left: list[int]) -> tuple[int, Slots] | None:
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
            if pos < size and text[pos] in a:
                pos, pc = pos + 1, pc + 1
                continue
        elif kind == CHAR_RUN:
            least, most, lazy = b
            far, limit = pos, size if most > size else min(size, pos + most)
            while far < limit and text[far] in a:
                far += 1
            near, pc = pos + least, pc + 1
            if far >= near:
                pos, last = (near, far) if lazy else (far, near)
                if pos != last:
                    stack.append((pc, pos + (1 if lazy else -1), slots, last))
                continue
        elif kind == SPLIT:
            stack.append((b, pos, slots, pos))
            pc = a
            continue
        elif kind == JUMP:
            pc = a
            continue
        else:
            steps_left[0] = budget
            next_state = _run_rare_step((kind, a, b), text, pc, pos, slots, steps_left)
            budget = steps_left[0]
            if next_state:
                pc, pos, slots = next_state
                continue
        if not stack:
            steps_left[0] = budget
            return None
        pc, pos, slots, last = stack.pop()
        if pos != last:
            stack.append((pc, pos + (1 if pos < last else -1), slots, last))
    steps_left[0] = budget
    return pos, slots


def _run_rare_step(
    instruction: Instruction, text: str, pc: int, pos: int, slots: Slots, steps_left: list[int]
) -> tuple[int, int, Slots] | None:
    """One of the less common steps: where it goes on, or None if it fails."""
    kind, a, b = instruction
    if kind == POSITION:
        return (pc + 1, pos, slots) if _is_at_anchor(a, b, text, pos) else None
    if kind == LOOKAROUND:
        should_match, width = b
        inner_match = match_at(a, text, pos - width, slots, steps_left) if pos >= width else None
        if (inner_match is not None) is not should_match:
            return None
        return pc + 1, pos, inner_match[1] if inner_match else slots
    if kind == ATOMIC:
        inner_match = match_at(a, text, pos, slots, steps_left)
        return (pc + 1, *inner_match) if inner_match else None
    if kind == SAVE:
        return pc + 1, pos, (*slots[:a], pos, *slots[a + 1 :])
    if kind == LOOP:
        return (pc + 1 if slots[b] == pos else a), pos, slots
    start, stop = (slots[slot] for slot in a)
    if kind == IF_GROUP:
        return (b if stop is None else pc + 1), pos, slots
    if start is None or stop is None:
        return None
    captured, current = text[start:stop], text[pos : pos + stop - start]
    is_same = captured.lower() == current.lower() if b else captured == current
    return (pc + 1, pos + len(captured), slots) if is_same else None


def _is_at_anchor(anchor: Any, multiline: bool, text: str, pos: int) -> bool:
    previous, following = text[max(pos - 1, 0) : pos], text[pos : pos + 1]
    if anchor is ops.AT_BEGINNING_STRING:
        return not previous
    if anchor is ops.AT_BEGINNING:
        return not previous or (multiline and previous == "\n")
    if anchor is ops.AT_END_STRING:
        return not following
    if anchor is ops.AT_END:
        return not following or (following == "\n" and (multiline or pos + 1 == len(text)))
    is_word = [char.isalnum() or char == "_" for char in (previous, following)]
    return bool(text) and (is_word[0] != is_word[1]) is (anchor is ops.AT_BOUNDARY)


def _compile_sequence(items: Any, flags: int, plan: _Plan) -> Code:
    """Steps for a sequence; places in them are counted from the sequence's first step."""
    code: Code = []
    for op, value in items:
        part_code = _compile_part(op, value, flags, plan)
        code += _shift_targets(part_code, len(code)) if code else part_code
        if len(code) > MAX_PROGRAM_STEPS:
            raise StepLimitExceeded
    return code


def _shift_targets(code: Code, offset: int) -> Code:
    shifted: Code = []
    for kind, a, b in code:
        if kind == SPLIT:
            shifted.append((kind, a + offset, b + offset))
        elif kind in (JUMP, LOOP):
            shifted.append((kind, a + offset, b))
        else:
            shifted.append((kind, a, b + offset if kind == IF_GROUP else b))
    return shifted


def _compile_part(op: Any, value: Any, flags: int, plan: _Plan) -> Code:
    if op in SINGLE_CHAR_OPS:
        return [(CHAR, _find_matching_chars(op, value, flags, plan), None)]
    if op in REPEAT_OPS:
        return _compile_repeat(op, value, flags, plan)
    if op is ops.BRANCH:
        return _compile_branches([_compile_sequence(branch, flags, plan) for branch in value[1]])
    if op is ops.SUBPATTERN:
        group, added, removed, body = value
        code = _compile_sequence(body, (flags | added) & ~removed, plan)
        if (group, "to") not in plan.slots:
            return code
        first, last = _get_group_slots(group, plan)
        return [(SAVE, first, None), *_shift_targets(code, 1), (SAVE, last, None)]
    if op is ops.AT:
        return [(POSITION, value, bool(flags & re.MULTILINE))]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        width = value[1].getwidth()[0] if value[0] < 0 else 0
        return [(LOOKAROUND, _compile_sequence(value[1], flags, plan), (op is ops.ASSERT, width))]
    if op is ops.ATOMIC_GROUP:
        return [(ATOMIC, _compile_sequence(value, flags, plan), None)]
    if op is ops.GROUPREF:
        return [(BACKREFERENCE, _get_group_slots(value, plan), bool(flags & IGNORE_CASE))]
    if op is ops.GROUPREF_EXISTS:
        group, yes, no = value
        choice = _compile_branches([_compile_sequence(yes, flags, plan), _compile_sequence(no or (), flags, plan)])
        return [(IF_GROUP, _get_group_slots(group, plan), choice[0][2]), *choice[1:]]
    return [(CHAR, frozenset(), None)]


def _get_group_slots(group: int, plan: _Plan) -> tuple[int, int]:
    return plan.slots[group, "from"], plan.slots[group, "to"]


def _compile_branches(branches: list[Code]) -> Code:
    code = branches[-1]
    for branch in reversed(branches[:-1]):
        other_start = len(branch) + 2
        code = [
            (SPLIT, 1, other_start),
            *_shift_targets(branch, 1),
            (JUMP, other_start + len(code), None),
            *_shift_targets(code, other_start),
        ]
    return code


def _compile_repeat(op: Any, value: Any, flags: int, plan: _Plan) -> Code:
    least, most, body = value
    lazy = op is ops.MIN_REPEAT
    if len(body) == 1 and body[0][0] in SINGLE_CHAR_OPS:
        single_op, single_value = body[0]
        code: Code = [(CHAR_RUN, _find_matching_chars(single_op, single_value, flags, plan), (least, most, lazy))]
    else:
        body_code = _compile_sequence(body, flags, plan)
        if len(body_code) * (most if most <= MAX_UNROLLED else min(least, MAX_UNROLLED)) > MAX_PROGRAM_STEPS:
            raise StepLimitExceeded
        width = body.getwidth()[0]
        if most <= MAX_UNROLLED:
            code = _join_codes([body_code] * least)
            rest: Code = []
            for _ in range(most - least):
                rest = _make_optional([*body_code, *_shift_targets(rest, len(body_code))], lazy)
        elif least and width:
            code = _join_codes([body_code] * (min(least, MAX_UNROLLED) - 1))
            rest = [*body_code, (SPLIT, len(body_code) + 1, 0) if lazy else (SPLIT, 0, len(body_code) + 1)]
        else:
            code = _join_codes([body_code] * min(least, MAX_UNROLLED))
            rest = _compile_loop(body_code, lazy, width, plan)
        code += _shift_targets(rest, len(code))
    return [(ATOMIC, code, None)] if op is ops.POSSESSIVE_REPEAT else code


def _join_codes(codes: list[Code]) -> Code:
    joined: Code = []
    for code in codes:
        joined += _shift_targets(code, len(joined))
    return joined


def _make_optional(code: Code, lazy: bool) -> Code:
    exit_index = len(code) + 1
    return [(SPLIT, exit_index, 1) if lazy else (SPLIT, 1, exit_index), *_shift_targets(code, 1)]


def _compile_loop(body_code: Code, lazy: bool, width: int, plan: _Plan) -> Code:
    """An endless repeat; if its body can match nothing, a turn that got nowhere is the last."""
    if width:
        return _make_optional([*body_code, (JUMP, -1, None)], lazy)
    slot = plan.slots.setdefault(("loop", len(plan.slots)), len(plan.slots))
    return _make_optional([(SAVE, slot, None), *_shift_targets(body_code, 1), (LOOP, -1, slot)], lazy)


def _find_matching_chars(op: Any, value: Any, flags: int, plan: _Plan) -> frozenset[str]:
    key = (op, value if isinstance(value, int) else id(value), flags & (IGNORE_CASE | re.DOTALL))
    if key not in plan.chars:
        plan.chars[key] = frozenset(char for char in plan.alphabet if can_match_char(op, value, char, flags))
    return plan.chars[key]
