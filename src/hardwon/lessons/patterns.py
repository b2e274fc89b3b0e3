"""The regular expressions of lessons: check them, find the literals that every match contains, and run them.

A pattern must mean the same to two engines and must not be slow. The worker uses `regex`, the fallback `re`; where they
differ, the pattern is refused with what to write instead. Slow patterns are found by trying them on texts that repeat
what the pattern repeats. Those that escape this are stopped at run time by the worker's timeout and the fallback's
alarm.

The index tries only lessons whose literals occur in a call. For that, each part of a pattern is reduced to its
*spellings*, the case-folded strings it can match, as long as they are few. Spellings of neighbouring parts are joined
to longer runs; a part without spellings ends the run. Missing a lesson that would have matched is the one error not
allowed here, so a run contains only what is certain.

`regex` is imported where it is used: that takes 14 ms, which a command that only lists lessons need not pay.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # Python's own regex parser, which has no stubs
from typing import TYPE_CHECKING, Any

from hardwon.lessons.matching import get_pattern_timeout
from hardwon.text.characters import fold_case
from hardwon.types import Pattern

if TYPE_CHECKING:
    import regex


_MAX_PATTERN_CHARS = 2000
_MAX_PARENTHESES = 100
_MAX_REPEAT_DEPTH = 8  # `regex` takes twice as long to compile for each level
ops: Any = _constants
_REPEAT_OPS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)

# On texts this long, ordinary patterns take milliseconds and those with cubic growth several seconds. Commands do not
# contain hundreds of blanks or signs in a row, so `\s+.*\s+x` passes.
_LETTERS_PUMPED, _SIGNS_PUMPED = 1000, 150
_SEARCH_SECONDS = 0.25  # CPU time of this process, so that a busy machine does not refuse more patterns
_MAX_PUMPS = 30

_MAX_SPELLINGS = 16
_MAX_SPELLING_CHARS = 100
_MIN_LITERAL_CHARS = 2
_MAX_SPELLED_REPEATS = 4
_EMPTY = frozenset({""})

Literals = frozenset[str]
# The spellings of a part, None if many or unknown, and sets of which every match contains one literal each.
Analysis = tuple[Literals | None, list[Literals]]
log = logging.getLogger(__name__)


def _parse_regex(source: str, flags: int = 0) -> Any:
    """Parse a pattern with Python's own regex parser."""
    return _parser.parse(source, flags)


def find_pattern_fault(source: str, flags: int = 0) -> str | None:
    """Return why this pattern cannot be used, or None."""
    return find_syntax_fault(source, flags) or _check_engine(source, flags)


def find_syntax_fault(source: str, flags: int = 0) -> str | None:
    """Return why this pattern cannot be used, without running it: quick enough for a whole manifest."""
    return (
        _check_size(source)
        or _check_classes(source)
        or _check_syntax(source, flags)
        or _check_dialect(source, _parse_regex(source, flags))
    )


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
    if len(source) > _MAX_PATTERN_CHARS:
        return f"the pattern has {len(source)} characters; at most {_MAX_PATTERN_CHARS} are allowed"
    # The compilers and the functions below recurse for each nested group.
    if source.count("(") > _MAX_PARENTHESES:
        return f"the pattern has {source.count('(')} opening parentheses; at most {_MAX_PARENTHESES} are allowed"
    return None


def _check_classes(source: str) -> str | None:
    """Return the fault of a character class that `regex` reads differently from `re`."""
    for token in _TOKEN.finditer(source):
        text = token[0]
        column = token.start() + 1
        if text[0] != "[":
            continue
        if posix := re.search(r"\[:[^\]]*:\]", text):
            hint = "write \\w, \\d, \\s or a range such as a-z"
            return f"column {column}: {posix[0]} is not a class in Python's re: {hint}"
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
    (r"possible nested set", r"write \[ for the bracket itself"),
    (r"possible set", r"write the sign once, after a backslash"),
    (r"invalid group reference", r"groups are counted from 1 by their opening parentheses"),
)


def _check_syntax(source: str, flags: int) -> str | None:
    """Return what is wrong with a pattern's syntax, where, and what was probably meant; None if Python accepts it."""
    position = None
    message = ""
    try:
        with warnings.catch_warnings():
            # Raised for classes that a later Python will read differently.
            warnings.simplefilter("error", FutureWarning)
            _parse_regex(source, flags)  # unlike `re.compile`, it also warns about cached patterns
            re.compile(source, flags)
    except re.error as error:
        position = error.pos
        message = error.msg
    except RecursionError:
        message = "groups are nested too deeply"
    except (OverflowError, ValueError, FutureWarning) as error:
        text = str(error)
        message = text[:1].lower() + text[1:]
    if not message:
        return None
    location = f"column {position + 1}: " if position is not None else ""
    for pattern, hint in _SYNTAX_HINTS:
        if re.search(pattern, message):
            return f"{location}{message}: {hint}"
    return f"{location}{message}"


# Cases where only one of `regex` and `re` skips blanks.
_VERBOSE_TRAP = re.compile(
    r"(?<!\\)\{[\d,]*[\s#][^}]*\}?|\\\d+(?:\s|#.*\n)+\d|[\x1c-\x1f\x85]|[^\x00-\x7f](?<=\s)|\\\n"
)
_FUZZY_COUNT = re.compile(r"\{\d*[deis<][^}]*\}?")  # `{e<3}`, as `regex` has it
_LATE_FLAGS = re.compile(r"\(\?[a-z]*([aut][a-z]*(?:-[a-z]*)?:|t)")


def _check_dialect(source: str, tree: Any) -> str | None:
    """Return what the worker's engine reads differently from `re`, or what crashes or hangs one of them."""
    is_verbose = tree.state.flags & re.VERBOSE or re.search(r"\(\?[a-z]*x", source)
    if is_verbose and (trap := _VERBOSE_TRAP.search(source)):
        return f"column {trap.start() + 1}: verbose mode is unclear about the blanks in {trap[0]!r}: leave them out"
    for token in _TOKEN.finditer(source):
        column = token.start() + 1
        if fuzzy := _FUZZY_COUNT.match(source, token.start()):
            return f"column {column}: {fuzzy[0]} means near matches to some engines: write \\{{ for the brace itself"
        if _LATE_FLAGS.match(token[0]):
            return f"column {column}: the flags a, u and t cannot stand here: put (?a) first"
    depth = _measure_repeat_depth(tree)
    if depth > _MAX_REPEAT_DEPTH:  # `regex` takes twice as long to compile for each level: 5 s for 20
        return f"repeats are nested {depth} deep; at most {_MAX_REPEAT_DEPTH} are allowed"
    for op, value in _walk_parts(tree):
        if op is ops.POSSESSIVE_REPEAT and _has_numbered_group(value[2]):
            return "a numbered group inside a possessive repeat can crash Python's re: write (?:…)"
        if op in _REPEAT_OPS[:2] and value[1] is ops.MAXREPEAT and _is_ambiguous(value[2]):
            return (
                "(a+)+ or (\\w+\\s?)*, a repeat in a repeat, can take forever: put something between, as in (\\w+\\s)*"
            )
    return None


def _has_numbered_group(items: Any) -> bool:
    return any(op is ops.SUBPATTERN and value[0] for op, value in _walk_parts(items))


def _check_engine(source: str, flags: int) -> str | None:
    """Return why the worker's engine rejects the pattern: it does not compile, or a search is too slow."""
    # Slow patterns are found by running them; a static analysis took 1,000 lines.
    import regex

    try:
        compiled = regex.compile(source, convert_flags(flags), cache_pattern=False)
    except (regex.error, ValueError) as error:
        return f"the worker cannot use it: {error}"
    tree = _parse_regex(source, flags)
    whole_text = _sample_text(tree)
    for prefix, pump in list(dict.fromkeys(_iter_pumps(tree, "")))[:_MAX_PUMPS]:
        length = _LETTERS_PUMPED if any(map(str.isalnum, pump)) else _SIGNS_PUMPED
        pumped_text = prefix + pump * (length // len(pump))
        # These endings make a match fail late. They include the whole text because `regex` gives up at once if a
        # literal of the pattern is missing.
        for ending in ("\0", f"\0{whole_text}", f"\n{whole_text}"):
            try:
                compiled.search(pumped_text + ending, timeout=_SEARCH_SECONDS)
            except TimeoutError:
                return (
                    f"too slow on a text such as {prefix + pump * 3 + '…'!r}: two repeats can divide the same "
                    "characters between them in too many ways; let each match different ones"
                )
            except MemoryError:
                return "its repeats take too much memory: write smaller numbers, or fewer repeats inside repeats"
    return None


def _is_ambiguous(body: Any) -> bool:
    """Return whether an endlessly repeated body can match by a single endless repeat.

    `regex` optimises such patterns, so trying them does not show how slow `re` is in the fallback.
    """
    while len(body) == 1:
        op, value = body[0]
        if op is not ops.SUBPATTERN:
            break
        _group, _added_flags, _removed_flags, body = value
    endless_repeats = []
    required_parts = []
    for op, value in body:
        # The value of a repeat is its least and its greatest number, and what it repeats.
        is_optional = op in _REPEAT_OPS and value[0] == 0
        if op in _REPEAT_OPS[:2] and value[1] is ops.MAXREPEAT:
            endless_repeats.append(value)
        if op is not ops.AT and not is_optional:  # an anchor matches no text
            required_parts.append(value)
    if not endless_repeats or len(required_parts) > 1:
        return False
    return all(value in endless_repeats for value in required_parts)


def _list_children(op: Any, value: Any) -> list[Any]:
    """Return the sequences directly inside a part of a pattern."""
    if op is ops.BRANCH:
        return list(value[1])
    if op is ops.GROUPREF_EXISTS:
        return [branch for branch in value[1:] if branch]
    if op is ops.ATOMIC_GROUP:
        return [value]
    if op in (ops.SUBPATTERN, ops.ASSERT, ops.ASSERT_NOT, *_REPEAT_OPS):
        return [value[-1]]
    return []


def _walk_parts(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every part of a sequence, at any depth."""
    for op, value in items:
        yield op, value
        for child in _list_children(op, value):
            yield from _walk_parts(child)


def _measure_repeat_depth(items: Any) -> int:
    depth = 0
    for op, value in items:
        own_depth = 1 if op in _REPEAT_OPS else 0
        for child in _list_children(op, value):
            depth = max(depth, own_depth + _measure_repeat_depth(child))
    return depth


def _iter_pumps(items: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield for each repeat a text that leads up to it and a text that it can match many times."""
    for op, value in items:
        if op in _REPEAT_OPS and value[1] > 1:
            _, _, body = value
            sampled_chars = [_sample_char(*part) for part in _walk_parts(body)]
            chars = list(dict.fromkeys(char for char in sampled_chars if char))
            # The whole body once, each character of it, and all of them together.
            for pump in (_sample_text(body), *chars, "".join(chars)):
                if pump:
                    yield prefix, pump[:_SIGNS_PUMPED]
        for child in _list_children(op, value):
            yield from _iter_pumps(child, prefix)
        prefix += _sample_text([(op, value)])


def _sample_text(items: Any) -> str:
    """Return a text that the sequence matches, as far as its parts tell."""
    parts = []
    for op, value in items:
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            continue
        repeats = min(value[0], _SIGNS_PUMPED) if op in _REPEAT_OPS else 1
        children = _list_children(op, value)  # of alternatives the first one is enough
        inner_text = _sample_text(children[0]) if children else ""
        parts.append((_sample_char(op, value) + inner_text) * repeats)
    return "".join(parts)[:_MAX_PATTERN_CHARS]


_CATEGORY_CHARS = {ops.CATEGORY_DIGIT: "0", ops.CATEGORY_SPACE: " ", ops.CATEGORY_NOT_WORD: "-"}


def _sample_char(op: Any, value: Any) -> str:
    """Return a character that a single-character part matches; empty for other parts."""
    if op is ops.LITERAL:
        return chr(value)
    if op in (ops.ANY, ops.NOT_LITERAL):
        return "a"
    if op is not ops.IN:
        return ""
    kind, item = value[0]
    if kind is ops.LITERAL:
        return chr(item)
    if kind is ops.RANGE:
        return chr(item[0])
    return _CATEGORY_CHARS.get(item, "a")


def find_literal_sets(source: str, flags: int = 0) -> list[Literals]:
    """Return sets of folded literals; every match, folded, contains one literal of each set."""
    tree = _parse_regex(source, flags)
    return _analyze_sequence(tree, bool(tree.state.flags & re.IGNORECASE))[1]


def choose_longest(literal_sets: list[Literals]) -> list[Literals]:
    """Return only the set whose shortest literal is longest; empty if there is none."""
    if not literal_sets:
        return []

    def rate_set(literals: Literals) -> tuple[int, int]:
        shortest = min(map(len, literals))
        return shortest, -len(literals)  # of equals the set with fewer literals

    return [max(literal_sets, key=rate_set)]


def _analyze_sequence(items: Any, ignore_case: bool) -> Analysis:
    """Return all texts that a sequence matches, None for too many, and sets of which each match contains a literal.

    Neighbouring parts with known texts are joined to a run; a part with too many texts ends it.
    """
    literal_sets: list[Literals] = []
    runs = [_EMPTY]
    for op, value in items:
        pieces: list[Literals | None]
        if op in _REPEAT_OPS:
            least, most, body = value
            body_spellings, body_sets = _analyze_sequence(body, ignore_case)
            pieces = [_spell_repeat(body_spellings, least, most)]
            if least > 0:
                literal_sets += choose_longest(body_sets)
                if pieces == [None]:  # a repeat of at least one begins and ends with its body
                    pieces = [body_spellings, None, body_spellings]
        else:
            spellings, inner_sets = _analyze_part(op, value, ignore_case)
            literal_sets += inner_sets
            pieces = [spellings]
        for piece in pieces:
            joined = None
            if piece is not None:
                joined = _join_spellings(runs[-1], piece)
            if joined is None:
                runs.append(piece or _EMPTY)
            else:
                runs[-1] = joined
    for run in runs:
        literals = _drop_redundant(run)
        if literals:
            literal_sets.append(literals)
    spellings = runs[0] if len(runs) == 1 else None
    return spellings, literal_sets


def _analyze_part(op: Any, value: Any, ignore_case: bool) -> Analysis:
    """Analyze one part that is no repeat as `_analyze_sequence` does; None and no sets for a part of another kind.

    `op` and `value` are as Python's own parser of patterns has them.
    """
    if op is ops.LITERAL:
        return _spell_char(value, ignore_case), []
    if op is ops.IN:
        is_plain = all(kind is ops.LITERAL for kind, _ in value)
        if not is_plain:
            return None, []  # it has ranges or classes
        return _merge_spellings(_spell_char(code, ignore_case) for _, code in value), []
    # Anchors and negative lookarounds consume nothing.
    if op in (ops.AT, ops.ASSERT_NOT):
        return _EMPTY, []
    if op is ops.ASSERT:
        _, literal_sets = _analyze_sequence(value[1], ignore_case)
        return _EMPTY, choose_longest(literal_sets)
    if op is ops.SUBPATTERN:
        _, added_flags, removed_flags, body = value
        ignore_case_inside = ignore_case or bool(added_flags & re.IGNORECASE)
        if removed_flags & re.IGNORECASE:
            ignore_case_inside = False
        spellings, literal_sets = _analyze_sequence(body, ignore_case_inside)
        return spellings, choose_longest(literal_sets)
    if op is ops.ATOMIC_GROUP:
        spellings, literal_sets = _analyze_sequence(value, ignore_case)
        return spellings, choose_longest(literal_sets)
    if op is ops.BRANCH:
        branches = [_analyze_sequence(branch, ignore_case) for branch in value[1]]
        combined: set[str] = set()
        for _, literal_sets in branches:
            combined.update(*choose_longest(literal_sets))
        # A branch without literals could match a text that has none of the others.
        is_certain = all(literal_sets for _, literal_sets in branches) and len(combined) <= _MAX_SPELLINGS
        spellings = _merge_spellings(branch_spellings for branch_spellings, _ in branches)
        return spellings, [frozenset(combined)] if is_certain else []
    return None, []


def _spell_char(code: int, ignore_case: bool) -> Literals | None:
    return frozenset({fold_case(chr(code))}) if code < 128 or not ignore_case else None


def _spell_repeat(body: Literals | None, least: int, most: int) -> Literals | None:
    """Return all texts of a repeat; None for too many, or if those of its body are not known."""
    if body is None or most > _MAX_SPELLED_REPEATS:
        return None
    powers: list[Literals | None] = [_EMPTY]
    for _ in range(most):
        last = powers[-1]
        powers.append(_join_spellings(last, body) if last is not None else None)
    return _merge_spellings(powers[least:])


def _merge_spellings(parts: Iterable[Literals | None]) -> Literals | None:
    """Return all texts of several alternatives; None for too many, or if those of one are not known."""
    merged: set[str] = set()
    for part in parts:
        if part is None:
            return None
        merged |= part
    return frozenset(merged) if len(merged) <= _MAX_SPELLINGS else None


def _join_spellings(prefixes: Literals, suffixes: Literals) -> Literals | None:
    """Return every prefix with every suffix; None if that makes too many texts, or too long ones."""
    joined = set[str]()
    for prefix in prefixes:
        for suffix in suffixes:
            joined.add(prefix + suffix)
    if len(joined) > _MAX_SPELLINGS or max(map(len, joined)) > _MAX_SPELLING_CHARS:
        return None
    return frozenset(joined)


def _drop_redundant(literals: Literals) -> Literals | None:
    """Drop literals that contain another one; None if one is too short to be useful."""
    if min(map(len, literals)) < _MIN_LITERAL_CHARS:
        return None
    shortest_words = []
    for word in literals:
        if not any(other in word for other in literals if other != word):
            shortest_words.append(word)
    return frozenset(shortest_words)


class PatternCache:
    """Run patterns under a time limit, and keep them compiled.

    A pattern that timed out on a text is not tried again on texts of that length or longer; on shorter ones it still
    guards.
    """

    def __init__(self) -> None:
        import regex  # noqa: F401 (loaded now, so that no hook waits for it)

        self._compiled: dict[Pattern, regex.Pattern[str] | None] = {}
        self._timeout_lengths: dict[Pattern, int] = {}

    def search(self, pattern: Pattern, text: str) -> bool:
        """Return whether a pattern matches somewhere in a text; a search that takes too long counts as no match.

        After that the pattern is not tried on texts of this length or longer.
        """
        if pattern not in self._compiled:
            self._compiled[pattern] = _compile_pattern(pattern)
        compiled = self._compiled[pattern]
        if compiled is None:
            return False
        timeout_length = self._timeout_lengths.get(pattern)
        if timeout_length is not None and len(text) >= timeout_length:
            return False
        try:
            return compiled.search(text, timeout=get_pattern_timeout(text)) is not None
        except TimeoutError:
            log.warning("pattern %r took too long on %d characters", pattern, len(text))
            self._timeout_lengths[pattern] = len(text)
            return False


def convert_flags(flags: int) -> int:
    """Convert flags of `re` to `regex`, where the bit of `re.ASCII` means VERSION1."""
    import regex

    # VERSION0 is the behaviour of `re`, which the fallback runs the same patterns with.
    ascii_only = regex.ASCII if flags & re.ASCII else 0
    return flags & ~re.ASCII | ascii_only | regex.VERSION0


def _compile_pattern(pattern: Pattern) -> regex.Pattern[str] | None:
    """Compile a pattern for searches with a timeout; None, and a line in the log, if `regex` does not accept it."""
    import regex

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return regex.compile(pattern.source, convert_flags(pattern.flags), cache_pattern=False)
        except (regex.error, ValueError) as error:
            log.warning("pattern %r is left out: %s", pattern, error)
            return None
