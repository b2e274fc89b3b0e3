"""May this regular expression guard tool calls? It must mean one thing to two engines, and never be slow.

The worker runs patterns with `regex`, the cold hook with `re`; what the two read differently is refused here, with what
to write instead. Slowness is found by trying: from the parsed pattern come texts that keep its repeats busy and then
fail, and the steps of a search through them are counted while they grow. There is no clock in it, so every machine
decides alike. Growing with the square of the length is ordinary (`a.*b`). Growing with the cube is refused, except on
runs of blanks or signs (`\\s+.*\\s+x`), which no real text holds by the thousand: there the fourth power is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, zip_longest
from math import inf, log2
from typing import Any

from hardwon.lessons.backtracking import (
    REPEAT_OPS,
    SINGLE_CHAR_OPS,
    Program,
    StepLimitExceeded,
    can_match_char,
    compile_program,
    count_steps,
    list_child_sequences,
    match_at,
    ops,
    parse_regex,
    walk_parts,
)

MAX_PATTERN_CHARS = 2000
MAX_NESTING = 40
MIN_PUMPED_REPEATS = 8

PickChars = Callable[[Any, Any], list[str]]


def find_pattern_fault(source: str, flags: int = 0) -> str | None:
    """Why this pattern cannot be used, or None."""
    return find_syntax_fault(source, flags) or _check_speed(parse_regex(source, flags))


def find_syntax_fault(source: str, flags: int = 0) -> str | None:
    """Why this pattern cannot be used, short of trying how slow it can be: quick enough for a whole manifest."""
    fault = _check_size(source) or _check_classes(source) or _check_syntax(source, flags)
    if fault:
        return fault
    tree = parse_regex(source, flags)
    return _check_dialect(source, tree) or _check_shape(tree)


_TOKEN = re.compile(
    r"""
      \\(?:\d+|.)                       # an escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]        # a class
    | \(\?\#(?:\\.|[^)\\])*\)           # a comment
    | \(\?[A-Za-z]*(?:-[A-Za-z]+)?[:)]  # flags
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def _check_size(source: str) -> str | None:
    if not source:
        return "the pattern is empty, so it would match every call"
    if len(source) > MAX_PATTERN_CHARS:
        return f"the pattern has {len(source)} characters; at most {MAX_PATTERN_CHARS} are allowed"
    depth = deepest = 0
    for token in _TOKEN.findall(source):
        if token[0] == "(" and token[-1] != ")":
            depth += 1
        elif token == ")":
            depth -= 1
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        return f"groups are nested {deepest} deep; at most {MAX_NESTING} are allowed"
    return None


def _check_classes(source: str) -> str | None:
    """Classes that the two engines, or a later Python, read differently; `re` itself at most warns of them."""
    for token in _TOKEN.finditer(source):
        text, column = token[0], token.start() + 1
        if text[0] != "[":
            continue
        if posix := re.search(r"\[:[^\]]*:\]", text):
            return (
                f"column {column}: {posix[0]} is not a class in Python's re: write \\w, \\d, \\s or a range such as a-z"
            )
        if source.startswith("[", column):
            return f"column {column}: [[ may begin a nested class in a later Python: write [\\["
        if doubled := re.search(r"(?<!\\)(--|&&|~~|\|\|)", text[1:-1].replace("\\\\", "")):
            return (
                f"column {column}: {doubled[0]} in a class may join classes in a later Python: write "
                f"\\{doubled[0][0]} once"
            )
        if text.startswith("[^") and re.search(r"(?i)\\([dsw]).*(?-i:(?!\1))\\\1", text, re.DOTALL):
            return f"column {column}: {text} can match nothing: write (?!)"
    return None


_SYNTAX_HINTS = (
    (r"bad escape \\[pP]$", r"write \w, \d or list the characters, as in [a-zäöü]"),
    (r"bad escape \\z$", r"write \Z"),
    (r"bad escape \\h$", r"write [ \t]"),
    (r"bad escape \\R$", r"write \r?\n"),
    (r"bad escape \\K$", r"put what stands before it in (?<=…)"),
    (r"bad escape \\[kg]$", r"write (?P=name) or \1"),
    (r"bad escape \\[QE]$", r"write a backslash before each sign"),
    (r"bad escape \\[mM<>]$", r"write \b"),
    (r"bad escape \\c$|incomplete escape \\[xuU]", r"write \x and two digits, or \u and four"),
    (r"bad escape \(end of pattern\)", r"write \\ for a backslash"),
    (r"bad escape", r"without the backslash it stands for itself"),
    (r"unknown extension \?<|unknown extension \?P", r"a named group is (?P<name>…)"),
    (r"unknown extension", r"for the signs themselves write \(\?"),
    (r"global flags not at the start", r"put them first, or write (?i:…) around a part"),
    (r"fixed-width", r"give each lookbehind one length, as in (?:(?<=a)|(?<=bc))"),
    (r"nothing to repeat|multiple repeat", r"write a backslash before a sign that stands for itself, as in \* or \+"),
    (r"min repeat greater", r"write the smaller number first"),
    (r"unterminated character set", r"write \[ for the bracket itself"),
    (r"unterminated subpattern", r"write \( for the parenthesis itself"),
    (r"unbalanced parenthesis", r"write \) for the parenthesis itself"),
    (r"bad character range", r"put the - last, or write \-"),
    (r"invalid group reference", r"groups are counted from 1 by their opening parentheses"),
)


def _check_syntax(source: str, flags: int) -> str | None:
    try:
        re.compile(source, flags)
    except re.error as error:
        location = f"column {error.pos + 1}: " if error.pos is not None else ""
        hint = next(
            (f": {hint}" for message_pattern, hint in _SYNTAX_HINTS if re.search(message_pattern, error.msg)), ""
        )
        return f"{location}{error.msg}{hint}"
    except RecursionError:
        return "groups are nested too deeply"
    except (OverflowError, ValueError) as error:
        return str(error)
    return None


# Where `regex` skips blanks and `re` does not, or the other way round.
_VERBOSE_TRAP = re.compile(
    r"(?<!\\)\{[\d,]*[\s#][^}]*\}?|\\\d+(?:\s|#.*\n)+\d|[\x1c-\x1f\x85]|[^\x00-\x7f](?<=\s)|\\\n"
)


def _check_dialect(source: str, tree: Any) -> str | None:
    """What `re` accepts and the worker's engine refuses or reads as something else."""
    verbose = tree.state.flags & re.VERBOSE or re.search(r"\(\?[a-z]*x", source)
    if verbose and (trap := _VERBOSE_TRAP.search(source)):
        return f"column {trap.start() + 1}: verbose mode is unclear about the blanks in {trap[0]!r}: leave them out"
    for token in _TOKEN.finditer(source):
        text, column = token[0], token.start() + 1
        if text == "{" and (fuzzy := re.compile(r"\{\d*[deis<][^}]*\}?").match(source, column - 1)):
            return f"column {column}: {fuzzy[0]} means near matches to some engines: write \\{{ for the brace itself"
        if text.startswith("(?") and re.match(r"\(\?[a-z]*([aut][a-z]*(?:-[a-z]*)?:|t)", text):
            return f"column {column}: the flags a, u and t cannot stand here: put (?a) first"
    return None


def _check_shape(tree: Any) -> str | None:
    for op, value in walk_parts(tree):
        if op is ops.POSSESSIVE_REPEAT and any(
            kind is ops.SUBPATTERN and child[0] for kind, child in walk_parts(value[2])
        ):
            return "a numbered group inside a possessive repeat can crash Python's re: write (?:…)"
        if op in REPEAT_OPS[:2] and value[1] is ops.MAXREPEAT:
            core = value[2]
            while len(core) == 1 and core[0][0] is ops.SUBPATTERN:
                core = core[0][1][3]
            if len(core) == 1 and core[0][0] in REPEAT_OPS[:2] and core[0][1][1] is ops.MAXREPEAT:
                return "a repeat holds nothing but a repeat, as in (a+)+, which can take forever: write one of them"
    return None


STEP_LIMIT = 5_000
MAX_STEPS = 400_000
PUMP_COUNT = 20
CUBIC_LIMIT, QUARTIC_LIMIT = 2.35, 3.1  # between the powers 2, 3 and 4, as they show on texts this short
_COMMON_CHARS = "a0 -_A!\n\0"


def _check_speed(tree: Any) -> str | None:
    """Whether some text makes the number of steps grow too fast, as a sentence that shows the text."""
    try:
        return _find_worst_case(tree)
    except StepLimitExceeded:
        return "its repeats multiply to too many steps: write smaller numbers, or fewer repeats inside repeats"


def _find_worst_case(tree: Any) -> str | None:
    if not any(op in REPEAT_OPS for op, _ in walk_parts(tree)):
        return None
    alphabet = _build_alphabet(tree)
    program = compile_program(tree, alphabet)
    pick = _build_picker(tree, alphabet)
    lookahead_text = "".join(_list_samples(value[1], pick)[0] for op, value in walk_parts(tree) if op is ops.ASSERT)
    steps_spent = 0
    for prefix, pump in _list_attacks(tree, pick):
        for suffix in _list_endings(program, prefix + pump * 8, lookahead_text):
            power, steps = _estimate_power(program, prefix, pump, suffix)
            if power > (CUBIC_LIMIT if any(map(str.isalnum, pump)) else QUARTIC_LIMIT):
                return (
                    f"too slow on a text such as {prefix + pump * 3 + '…'!r}: two repeats can divide the same "
                    "characters between them in too many ways; let each match different ones"
                )
            steps_spent += steps
            if steps_spent > MAX_STEPS:
                return None
    return None


def _estimate_power(program: Program, prefix: str, pump: str, suffix: str) -> tuple[float, int]:
    """By which power of the number of pumps the steps of a search grow, and the steps taken to know it."""

    def count_cost(turns: int, limit: int = STEP_LIMIT) -> int:
        return count_steps(program, prefix + pump * turns + suffix, limit)

    turns = max(PUMP_COUNT // len(pump), 6)
    short_steps = count_cost(turns)
    if short_steps < turns**3 // 7:
        return 0.0, short_steps
    while short_steps == STEP_LIMIT and turns > 5:
        turns //= 2
        short_steps = count_cost(turns)
    if short_steps == STEP_LIMIT:
        # a long pattern takes many steps for each character, an explosive one even more
        short_steps = count_cost(turns, MAX_STEPS // 4)
    long_steps = count_cost(2 * turns, min(16 * short_steps, MAX_STEPS)) if short_steps < MAX_STEPS // 4 else MAX_STEPS
    return inf if long_steps == MAX_STEPS else log2(long_steps / short_steps), long_steps + short_steps


def _list_endings(program: Program, text: str, lookahead_text: str) -> set[str]:
    """What to put after the pumps so that a match that began at the start fails late."""
    failing_suffixes = (suffix for suffix in ("\0", "\n\n", "a", "-") if not _can_match(program, text + suffix))
    return {next(failing_suffixes, "\0"), lookahead_text or "\0"}


def _can_match(program: Program, text: str) -> bool:
    try:
        return match_at(program.code, text, 0, program.initial_slots, [STEP_LIMIT // 10]) is not None
    except StepLimitExceeded:
        return False


def _list_attacks(tree: Any, pick: PickChars) -> list[tuple[str, str]]:
    """Texts to begin with and texts to repeat, one pair for each way to keep a repeat busy."""
    bounded_repeats = sum(op in REPEAT_OPS and value[1] < MIN_PUMPED_REPEATS for op, value in walk_parts(tree))
    attacks: dict[tuple[str, str], None] = {}
    for prefix, body in _iter_loops(
        tree, "", pick, least=MIN_PUMPED_REPEATS if bounded_repeats < MIN_PUMPED_REPEATS else 1
    ):
        pumps = [text for text in _list_samples(body, pick) if text]
        if len(body) > 1 or body[0][0] not in SINGLE_CHAR_OPS:
            chars = dict.fromkeys(
                char for part in walk_parts(body) if part[0] in SINGLE_CHAR_OPS for char in pick(*part)[:2]
            )
            pumps += chars
            pumps += [a + b for words in (pumps[:4], list(chars)[:4]) for a, b in combinations(words, 2)]
        for pump in pumps:
            attacks[prefix, pump[: (pump + pump).find(pump, 1)]] = None
    return list(attacks)


def _iter_loops(items: Any, prefix: str, pick: PickChars, least: int) -> Iterator[tuple[str, Any]]:
    for op, value in items:
        if op in REPEAT_OPS and value[1] >= least:
            yield prefix, value[2]
        for child in list_child_sequences(op, value):
            yield from _iter_loops(child, prefix, pick, least)
        prefix += _sample_part(op, value, pick)[0]


def _list_samples(items: Any, pick: PickChars) -> list[str]:
    """A few texts a sequence matches: the plainest, then each that differs from it in one part."""
    choices = [_sample_part(op, value, pick) for op, value in items]
    plain = [choice[0] for choice in choices]
    texts = ["".join(plain)]
    for others in zip_longest(*(choice[1:] for choice in choices)):
        texts += ["".join([*plain[:i], other, *plain[i + 1 :]]) for i, other in enumerate(others) if other]
    return [text[:100] for text in dict.fromkeys(texts)][:8]


def _sample_part(op: Any, value: Any, pick: PickChars) -> list[str]:
    if op in SINGLE_CHAR_OPS:
        return pick(op, value)
    if op in REPEAT_OPS:
        body = [text * min(max(value[0], 1), 100) for text in _list_samples(value[2], pick)]
        return body if value[0] else ["", *body]
    if op is ops.ASSERT_NOT or (op is ops.ASSERT and value[0] > 0):
        return [""]
    rounds = zip_longest(*(_list_samples(child, pick) for child in list_child_sequences(op, value)))
    return [text for texts in rounds for text in texts if text is not None][:8] or [""]


def _build_alphabet(tree: Any) -> list[str]:
    pattern_chars = {chr(code) for op, value in walk_parts(tree) for code in _list_char_codes(op, value)}
    return [*_COMMON_CHARS, *sorted(pattern_chars.difference(_COMMON_CHARS))]


def _list_char_codes(op: Any, value: Any) -> list[int]:
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        return [value]
    if op is ops.RANGE:
        return list(value)
    if op is ops.IN:
        return [code for kind, item in value for code in _list_char_codes(kind, item)]
    return []


def _build_picker(tree: Any, alphabet: list[str]) -> PickChars:
    """A choice of unlike characters for a single-character part, first those that most other parts match too."""
    single_parts = {repr(part): part for part in walk_parts(tree) if part[0] in SINGLE_CHAR_OPS}
    matches_by_part = {
        key: [can_match_char(op, value, char) for char in alphabet] for key, (op, value) in single_parts.items()
    }
    matches_by_char = {
        char: tuple(row[index] for row in matches_by_part.values()) for index, char in enumerate(alphabet)
    }
    ranked = sorted(alphabet, key=lambda char: -sum(matches_by_char[char]))
    picks: dict[str, list[str]] = {}
    for index, key in enumerate(matches_by_part):
        distinct_chars = {matches_by_char[char]: char for char in reversed(ranked) if matches_by_char[char][index]}
        picks[key] = list(distinct_chars.values())[:-4:-1] or ["a"]
    return lambda op, value: picks[repr((op, value))]
