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
    return find_syntax_fault(source, flags) or _slow(parse_regex(source, flags))


def find_syntax_fault(source: str, flags: int = 0) -> str | None:
    """Why this pattern cannot be used, short of trying how slow it can be: quick enough for a whole manifest."""
    wrong = _size(source) or _classes(source) or _syntax(source, flags)
    if wrong:
        return wrong
    tree = parse_regex(source, flags)
    return _dialect(source, tree) or _shape(tree)


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


def _size(source: str) -> str | None:
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


def _classes(source: str) -> str | None:
    """Classes that the two engines, or a later Python, read differently; `re` itself at most warns of them."""
    for found in _TOKEN.finditer(source):
        text, at = found[0], found.start() + 1
        if text[0] != "[":
            continue
        if posix := re.search(r"\[:[^\]]*:\]", text):
            return f"column {at}: {posix[0]} is not a class in Python's re: write \\w, \\d, \\s or a range such as a-z"
        if source.startswith("[", at):
            return f"column {at}: [[ may begin a nested class in a later Python: write [\\["
        if doubled := re.search(r"(?<!\\)(--|&&|~~|\|\|)", text[1:-1].replace("\\\\", "")):
            return (
                f"column {at}: {doubled[0]} in a class may join classes in a later Python: write \\{doubled[0][0]} once"
            )
        if text.startswith("[^") and re.search(r"(?i)\\([dsw]).*(?-i:(?!\1))\\\1", text, re.DOTALL):
            return f"column {at}: {text} can match nothing: write (?!)"
    return None


_INSTEAD = (
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


def _syntax(source: str, flags: int) -> str | None:
    try:
        re.compile(source, flags)
    except re.error as error:
        where = f"column {error.pos + 1}: " if error.pos is not None else ""
        hint = next((f": {hint}" for said, hint in _INSTEAD if re.search(said, error.msg)), "")
        return f"{where}{error.msg}{hint}"
    except RecursionError:
        return "groups are nested too deeply"
    except (OverflowError, ValueError) as error:
        return str(error)
    return None


# Where `regex` skips blanks and `re` does not, or the other way round.
_VERBOSE_TRAP = re.compile(
    r"(?<!\\)\{[\d,]*[\s#][^}]*\}?|\\\d+(?:\s|#.*\n)+\d|[\x1c-\x1f\x85]|[^\x00-\x7f](?<=\s)|\\\n"
)


def _dialect(source: str, tree: Any) -> str | None:
    """What `re` accepts and the worker's engine refuses or reads as something else."""
    verbose = tree.state.flags & re.VERBOSE or re.search(r"\(\?[a-z]*x", source)
    if verbose and (trap := _VERBOSE_TRAP.search(source)):
        return f"column {trap.start() + 1}: verbose mode is unclear about the blanks in {trap[0]!r}: leave them out"
    for found in _TOKEN.finditer(source):
        text, at = found[0], found.start() + 1
        if text == "{" and (fuzzy := re.compile(r"\{\d*[deis<][^}]*\}?").match(source, at - 1)):
            return f"column {at}: {fuzzy[0]} means near matches to some engines: write \\{{ for the brace itself"
        if text.startswith("(?") and re.match(r"\(\?[a-z]*([aut][a-z]*(?:-[a-z]*)?:|t)", text):
            return f"column {at}: the flags a, u and t cannot stand here: put (?a) first"
    return None


def _shape(tree: Any) -> str | None:
    for op, value in walk_parts(tree):
        if op is ops.POSSESSIVE_REPEAT and any(
            kind is ops.SUBPATTERN and inside[0] for kind, inside in walk_parts(value[2])
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
_COMMON = "a0 -_A!\n\0"


def _slow(tree: Any) -> str | None:
    """Whether some text makes the number of steps grow too fast, as a sentence that shows the text."""
    try:
        return _worst(tree)
    except StepLimitExceeded:
        return "its repeats multiply to too many steps: write smaller numbers, or fewer repeats inside repeats"


def _worst(tree: Any) -> str | None:
    if not any(op in REPEAT_OPS for op, _ in walk_parts(tree)):
        return None
    alphabet = _alphabet(tree)
    engine = compile_program(tree, alphabet)
    pick = _picker(tree, alphabet)
    ahead = "".join(_samples(value[1], pick)[0] for op, value in walk_parts(tree) if op is ops.ASSERT)
    spent = 0
    for before, pump in _attacks(tree, pick):
        for after in _endings(engine, before + pump * 8, ahead):
            power, taken = _power(engine, before, pump, after)
            if power > (CUBIC_LIMIT if any(map(str.isalnum, pump)) else QUARTIC_LIMIT):
                return (
                    f"too slow on a text such as {before + pump * 3 + '…'!r}: two repeats can divide the same "
                    "characters between them in too many ways; let each match different ones"
                )
            spent += taken
            if spent > MAX_STEPS:
                return None
    return None


def _power(engine: Program, before: str, pump: str, after: str) -> tuple[float, int]:
    """By which power of the number of pumps the steps of a search grow, and the steps taken to know it."""

    def cost(turns: int, most: int = STEP_LIMIT) -> int:
        return count_steps(engine, before + pump * turns + after, most)

    turns = max(PUMP_COUNT // len(pump), 6)
    fewer = cost(turns)
    if fewer < turns**3 // 7:
        return 0.0, fewer
    while fewer == STEP_LIMIT and turns > 5:
        turns //= 2
        fewer = cost(turns)
    if fewer == STEP_LIMIT:
        # a long pattern takes many steps for each character, an explosive one even more
        fewer = cost(turns, MAX_STEPS // 4)
    more = cost(2 * turns, min(16 * fewer, MAX_STEPS)) if fewer < MAX_STEPS // 4 else MAX_STEPS
    return inf if more == MAX_STEPS else log2(more / fewer), more + fewer


def _endings(engine: Program, text: str, ahead: str) -> set[str]:
    """What to put after the pumps so that a match that began at the start fails late."""
    failing = (after for after in ("\0", "\n\n", "a", "-") if not _matches(engine, text + after))
    return {next(failing, "\0"), ahead or "\0"}


def _matches(engine: Program, text: str) -> bool:
    try:
        return match_at(engine.code, text, 0, engine.initial_slots, [STEP_LIMIT // 10]) is not None
    except StepLimitExceeded:
        return False


def _attacks(tree: Any, pick: PickChars) -> list[tuple[str, str]]:
    """Texts to begin with and texts to repeat, one pair for each way to keep a repeat busy."""
    optional = sum(op in REPEAT_OPS and value[1] < MIN_PUMPED_REPEATS for op, value in walk_parts(tree))
    attacks: dict[tuple[str, str], None] = {}
    for before, body in _loops(tree, "", pick, least=MIN_PUMPED_REPEATS if optional < MIN_PUMPED_REPEATS else 1):
        pumps = [text for text in _samples(body, pick) if text]
        if len(body) > 1 or body[0][0] not in SINGLE_CHAR_OPS:
            chars = dict.fromkeys(
                char for part in walk_parts(body) if part[0] in SINGLE_CHAR_OPS for char in pick(*part)[:2]
            )
            pumps += chars
            pumps += [a + b for words in (pumps[:4], list(chars)[:4]) for a, b in combinations(words, 2)]
        for pump in pumps:
            attacks[before, pump[: (pump + pump).find(pump, 1)]] = None
    return list(attacks)


def _loops(items: Any, before: str, pick: PickChars, least: int) -> Iterator[tuple[str, Any]]:
    for op, value in items:
        if op in REPEAT_OPS and value[1] >= least:
            yield before, value[2]
        for inside in list_child_sequences(op, value):
            yield from _loops(inside, before, pick, least)
        before += _sample(op, value, pick)[0]


def _samples(items: Any, pick: PickChars) -> list[str]:
    """A few texts a sequence matches: the plainest, then each that differs from it in one part."""
    choices = [_sample(op, value, pick) for op, value in items]
    plain = [choice[0] for choice in choices]
    texts = ["".join(plain)]
    for others in zip_longest(*(choice[1:] for choice in choices)):
        texts += ["".join([*plain[:i], other, *plain[i + 1 :]]) for i, other in enumerate(others) if other]
    return [text[:100] for text in dict.fromkeys(texts)][:8]


def _sample(op: Any, value: Any, pick: PickChars) -> list[str]:
    if op in SINGLE_CHAR_OPS:
        return pick(op, value)
    if op in REPEAT_OPS:
        body = [text * min(max(value[0], 1), 100) for text in _samples(value[2], pick)]
        return body if value[0] else ["", *body]
    if op is ops.ASSERT_NOT or (op is ops.ASSERT and value[0] > 0):
        return [""]
    rounds = zip_longest(*(_samples(inside, pick) for inside in list_child_sequences(op, value)))
    return [text for texts in rounds for text in texts if text is not None][:8] or [""]


def _alphabet(tree: Any) -> list[str]:
    named = {chr(code) for op, value in walk_parts(tree) for code in _codes(op, value)}
    return [*_COMMON, *sorted(named.difference(_COMMON))]


def _codes(op: Any, value: Any) -> list[int]:
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        return [value]
    if op is ops.RANGE:
        return list(value)
    if op is ops.IN:
        return [code for kind, inside in value for code in _codes(kind, inside)]
    return []


def _picker(tree: Any, alphabet: list[str]) -> PickChars:
    """A choice of unlike characters for a single-character part, first those that most other parts match too."""
    singles = {repr(part): part for part in walk_parts(tree) if part[0] in SINGLE_CHAR_OPS}
    taken = {key: [can_match_char(op, value, char) for char in alphabet] for key, (op, value) in singles.items()}
    takers = {char: tuple(row[place] for row in taken.values()) for place, char in enumerate(alphabet)}
    ranked = sorted(alphabet, key=lambda char: -sum(takers[char]))
    picks: dict[str, list[str]] = {}
    for place, key in enumerate(taken):
        unlike = {takers[char]: char for char in reversed(ranked) if takers[char][place]}
        picks[key] = list(unlike.values())[:-4:-1] or ["a"]
    return lambda op, value: picks[repr((op, value))]
