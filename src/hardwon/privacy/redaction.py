"""Replace secrets by `[redacted:KIND]` before a text is written anywhere.

A text is a secret if it has the shape of a known key, follows a name that promises a secret (`password=`), or is too
random to be anything else; tested in this order. The shapes and names are data in `secret_rules.txt`. Each rule lists
literals, one of which every secret of its kind contains. They are searched with `str.find`, and a rule's pattern is
tried only there. So a text without literals never needs `re`, and a pattern reads only a bounded part of the text, or
the secret itself.
"""

from __future__ import annotations

from hardwon.privacy.private_tags import map_strings
from hardwon.privacy.randomness import MIN_RANDOM_LENGTH, find_unbroken_runs, is_key_like, is_random
from hardwon.privacy.secret_rules import (
    KEY_NAME_PREFIXES,
    NAME_STEMS,
    NAME_SUFFIXES,
    NAMED_SECRET_RULE,
    PLACEHOLDER_PARTS,
    PLAIN_VALUES,
    RULES,
    SECRET_NAME_PARTS,
    SECRET_NAME_WORDS,
    SENTENCE_WORDS,
    SHORT_ENDINGS,
    STRONG_ENDINGS,
    WEAK_ENDINGS,
    WRAPPING_CALLS,
    SecretRule,
)
from hardwon.text.characters import fold_case

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

MIN_RUN_LENGTH = 15
_MIN_SECRET_CHARS = 8  # shorter text is too short for any rule
_MAX_PASSES = 6  # no known text needs more
_MAX_JUDGED_CHARS = 256  # a longer value is not judged, which bounds the time
_REDACTION_PREFIX = "[redacted:"

# Case-sensitive rules come first, as they are more specific: `token = ghp_…` is a GitHub key, not just a named secret.
_ORDERED_RULES = (
    *[row for row in RULES if "folded" not in row.flags],
    *[row for row in RULES if "folded" in row.flags],
    NAMED_SECRET_RULE,
)

# Where the literals of each rule are searched: in the case-folded text, in its unbroken runs, or in the exact text.
_LITERAL_SCOPES = [
    next((scope for scope in ("folded", "unbroken") if scope in row.flags), "exact") for row in _ORDERED_RULES
]
# By each literal the rules that have it, since several share one.
_LITERALS: dict[str, dict[str, list[int]]] = {"folded": {}, "unbroken": {}, "exact": {}}
for _number, _row in enumerate(_ORDERED_RULES):
    for _literal in _row.literals:
        _LITERALS[_LITERAL_SCOPES[_number]].setdefault(_literal, []).append(_number)
# By a text that they have in common, such as `pass` or `gh`, the literals that are searched only where it is.
_GROUPED_LITERALS: dict[str, dict[str, list[str]]] = {"folded": {}, "unbroken": {}, "exact": {}}
for _literal in sorted(_LITERALS["folded"], key=len):
    _common = next(filter(_literal.__contains__, _GROUPED_LITERALS["folded"]), _literal)
    _GROUPED_LITERALS["folded"].setdefault(_common, []).append(_literal)
for _scope in ("unbroken", "exact"):  # few of these contain another one, but many begin alike
    _by_start: dict[str, list[str]] = {}
    for _literal in _LITERALS[_scope]:
        _by_start.setdefault(_literal[:2], []).append(_literal)
    _GROUPED_LITERALS[_scope] = {
        _start if len(_group) > 1 else _group[0]: _group for _start, _group in _by_start.items()
    }

# How strongly a name promises a secret.
_STRONG, _WEAK = 2, 1
_PROMISES = {
    **{ending + suffix: _WEAK for ending in WEAK_ENDINGS for suffix in NAME_SUFFIXES},
    **{ending + suffix: _STRONG for ending in STRONG_ENDINGS for suffix in NAME_SUFFIXES},
}
_MIN_ID_CHARS = 12
_MIN_COLUMN_GAP = 3  # blanks between a name and its value in the columns that `vault kv get` prints
_LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"
_MAX_NAME_CHARS = 32
_BASE64_GROUP = 4  # characters that encode three bytes
_MIN_BASIC_LENGTH = 8
_NAME_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789_-"
_JOINING_SIGNS = frozenset(':=>(,!|?\n{\\"')

_PATTERNS = {
    # What may stand between a name and its value.
    "join": r"""
        (?P<shut> [\]"'\\`?!*_)}]{0,12} )
        (?:
            (?P<typed> [ \t]{0,4} : [ \t]{0,4} &? [A-Za-z][\w.\ |]{0,30} (?: [<\[] [\w\ ,|.<\[\]>]{0,40} [\]>] )?
                     | [ \t]{1,4} (?: string | str ) ) [ \t]{0,4} = [ \t]{0,4} (?= \\{0,8} ["'`] )
          | (?P<pair> (?: \s | \\{1,8} [nrt] | [,;{] ){1,60} (?: -[ ] )? [\\"']{0,9} (?: value | default ) [\\"']{0,9}
                      [ \t]{0,8} [:=] [ \t]{0,8} )
          | [ \t]{0,8} (?P<block> : ) [ \t]{1,8} [|>] [+-]? [0-9]? [+-]? [ \t]{0,8} (?= [\r\n] | \\{1,8} [nr] )
          | [ \t]{0,8} (?P<quoted_only> \|\| | \?\? | \?: | or\b | , | [!=]={1,2} | \( ) [ \t]{0,8} (?= \\{0,8} ["'`] )
          | [ \t]{0,8} (?P<sign> => | := | [=:>] ) \*{0,2} [ \t]{0,8}
          | [ \t]{0,8} (?P<cell> \| ) [ \t]{0,8}
          | (?P<gap> [ \t]{1,8} )
        )""",
    # A quote with more backslashes than the opening one is part of the value.
    "quoted": r"""
        (?P<call> [A-Za-z_][\w.:]{0,40} \( [ \t]{0,4} )? [fFrRbBuU@$]{0,2} (?P<escape> \\{0,8} ) (?P<quote> ["'`] )
        (?P<value> (?: (?! \\{0,8} (?P=quote) ) [^\r\n] | (?P=escape) \\{1,8} (?P=quote) )*+ )""",
    "bare": r"""(?P<value> [^\s"'`,;<>&|\\)\]}]++ )""",
    "element": r"""(?P<value> [^<\r\n\\]++ ) (?= <\\{0,8}/ )""",
    # On a line of its own a value may contain characters that would end it elsewhere.
    "rest": r"""(?: [^\s"'`\\]++ (?= \s | $ ) )""",
    "block": r"""(?: \r?\n | \\{1,8} [nr] )+? (?P<indent> [ \t]{1,40} )
        (?P<value> [^\r\n\\]++ (?: (?: \r?\n | \\{1,8} n ) (?P=indent) [^\r\n\\]++ )*+ )""",
    "template": r"""\$\{[^}]*\} | \$\([^)]*\) | \{\{.*?\}\} | \{[\w.$!:\[\]()'"\ ]*\} | ^\$\(
        | %[+\#]?[sdvqwxT@] | %\([^)]*\)s? | %[A-Za-z_]+% | \#\{[^}]*\}? | <[^>]*> | \*\*\* | \$[A-Za-z_]\w*""",
    "path_or_url": r"(?:[a-z][a-z0-9+.-]*://|arn:|~|\.{0,2}/|[A-Za-z]:[\\/])|[\w.-]+(?:/[\w.@-]+)+$",
    "code": r"[!*&]*(?P<name>[A-Za-z_$][\w$]*(?:(?:\?\.|!?\.|::|->)[A-Za-z_$][\w$]*)+)(?=$|[(\[{)\],;?!])"
    r"|[!*&]*(?P<called>[A-Za-z_$][\w$:.]*)!?[(\[{]",
    "type": r"[=!*]*(?:(?i:[uif]|u?int|float|bytes|utf|base|sha|md|v|[hre]s|varchar|char|argon|pbkdf)_?[0-9]{1,3}"
    r"(?:_t|Array|ClampedArray)?|\W*)$",
    "humps": r"[A-Z]?[a-z]+|[A-Z]+",
    "words": r"[A-Za-z_-]+[.:!?]*$",
    "number": r"[0-9.,:_/x-]+[a-z%]{0,2}$",
    "run": r"(?P<known>(?i:sha)(?:1|224|256|384|512)[-:=]|[hr]1:|;base64,|/nix/store/|(?:ssh-[a-z0-9]+|nistp\d{3})\ )?"
    r"(?<![A-Za-z0-9+/=_-])(?P<secret>(?P<escaped>(?<=\\)[nrt])?[A-Za-z0-9+/=_-]{32,})",
}
_compiled: dict[str, re.Pattern[str]] = {}


def redact_text(text: str) -> str:
    """Return the text with every secret replaced.

    A replacement may uncover another secret, so passes are repeated until one of them changes nothing.
    """
    if len(text) < _MIN_SECRET_CHARS:
        return text
    for _ in range(_MAX_PASSES):
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def _redact_once(text: str) -> str:
    """Replace what each rule finds, in the order of the rules, and then what looks random."""
    folded_text = fold_case(text)
    unbroken_runs = find_unbroken_runs(text, MIN_RUN_LENGTH)
    redacted = text
    for rule, literals in _find_rules(text, folded_text, unbroken_runs):
        previous = redacted
        spans = _find_spans(rule, literals, redacted, folded_text)
        redacted = _replace_spans(redacted, spans, rule.kind)
        # `is not` compares in no time, and suffices: without spans the very same text comes back.
        if redacted is not previous:
            folded_text = fold_case(redacted)
    if redacted is not text:
        # The default length is longer than the one above: no shorter run is judged by randomness.
        unbroken_runs = find_unbroken_runs(redacted)
    return _redact_random(redacted, unbroken_runs)


def redact_value(value: Any) -> Any:
    """Replace the secrets in the strings and keys of a JSON value, and everything under a key that names a secret."""

    def redact_string(text: str, key: str) -> str:
        return "[redacted:secret]" if text.strip() and is_secret_name(key) else redact_text(text)

    return map_strings(value, redact_string, is_covering_key=is_secret_name)


def is_secret_name(name: str) -> bool:
    """Return whether a name promises a secret, as a whole or by its ending."""
    folded_name = fold_case(name).strip(" :_-")
    if folded_name in ("cookie", "set-cookie"):
        return True
    # The spelling tells where words begin in camel case; it can only be used if the positions are the same.
    spelled_name = name if len(name) == len(folded_name) else folded_name
    for stem in NAME_STEMS:
        position = folded_name.rfind(stem)
        if position >= 0 and _rate_promise(spelled_name, folded_name, position, len(folded_name)):
            return stem != "key" or _is_secret_key_name(folded_name[:position])
    return False


def _is_secret_key_name(lead: str) -> bool:
    """Return whether `key` after this lead is a secret, as in `api_key`; most keys, such as cache keys, are not."""
    return lead.rstrip("_-. ").endswith(KEY_NAME_PREFIXES)


def find_secret_spans(text: str, folded_text: str, unbroken_runs: Collection[str]) -> list[tuple[int, int]]:
    """Return the spans that each rule finds by itself; they may overlap, and random runs are not included."""
    spans: list[tuple[int, int]] = []
    for rule, literals in _find_rules(text, folded_text, unbroken_runs):
        spans += _find_spans(rule, literals, text, folded_text)
    return spans


def _find_rules(text: str, folded_text: str, unbroken_runs: Collection[str]) -> list[tuple[SecretRule, list[str]]]:
    """Return the rules with a literal in the text, in order, each with those literals."""
    haystacks = {"folded": folded_text, "exact": text, "unbroken": "\n".join(unbroken_runs)}
    literals: dict[int, list[str]] = {}  # by the number of the rule
    for scope, haystack in haystacks.items():
        groups = _GROUPED_LITERALS[scope]
        # `filter` with a method runs without Python code for each of the hundreds of literals.
        for common in filter(haystack.__contains__, groups):
            for literal in filter(haystack.__contains__, groups[common]):
                for number in _LITERALS[scope][literal]:
                    literals.setdefault(number, []).append(literal)
    return [(_ORDERED_RULES[number], sorted(literals[number])) for number in sorted(literals)]


def _replace_spans(text: str, spans: Iterable[tuple[int, int]], kind: str) -> str:
    """Return the text with each span replaced; the very same text if there is none, which the caller tests."""
    pieces: list[str] = []
    copied_end = 0
    for start, end in spans:
        pieces += [text[copied_end:start], f"[redacted:{kind}]"]
        copied_end = end
    if not pieces:
        return text
    return "".join([*pieces, text[copied_end:]])


def _find_spans(rule: SecretRule, literals: Sequence[str], text: str, folded_text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a rule's secrets; `literals` are those of its literals that are in the text."""
    if rule is NAMED_SECRET_RULE:
        yield from _find_named_spans(text, folded_text, literals)
        return
    is_folded = "folded" in rule.flags
    haystack = folded_text if is_folded else text
    if not any(map(haystack.__contains__, rule.also_required)):
        return
    scanned_end = 0  # skip spots inside a secret, or a text full of literals would take quadratic time
    for position in _find_spots(rule, literals, haystack):
        if position < scanned_end:
            continue
        match = _compile_pattern(rule.pattern, is_folded).match(text, position)
        if match and _is_secret(rule.flags, match):
            start, scanned_end = match.span(match.lastgroup or 0)
            yield start, scanned_end


def _find_spots(rule: SecretRule, literals: Sequence[str], haystack: str) -> list[int]:
    """Return the positions where a secret of this rule may begin."""
    spots: list[int] = []
    for literal in literals:
        position = haystack.find(literal)
        while position >= 0:
            start = position - rule.lead_length
            if start >= 0 and (rule.not_after is None or _is_word_start(haystack, start, rule.not_after)):
                spots.append(start)
            position = haystack.find(literal, position + 1)
    return sorted(spots)


def _is_word_start(haystack: str, position: int, edge: str) -> bool:
    """Return whether a word may begin here; it also may after an escaped newline or a percent escape."""
    preceding = haystack[position - 1 : position]
    if preceding == "" or (not preceding.isalnum() and preceding not in edge):
        return True
    is_after_escape = haystack[max(position - 2, 0) : position] in ("\\n", "\\r", "\\t")
    is_after_percent_escape = haystack[max(position - 3, 0) : position - 2] == "%"  # `%20`
    return is_after_escape or is_after_percent_escape


def _is_secret(flags: str, match: re.Match[str]) -> bool:
    """Return whether a rule's match is a real secret, not a placeholder."""
    group = match.lastgroup
    value = match[group or 0]
    if value.startswith(_REDACTION_PREFIX):
        return False
    if len(value) <= _MAX_JUDGED_CHARS and _is_stand_in(value, may_be_template=group is not None):
        return False
    if "spoken" in flags:
        return _is_spoken_secret(match, value.rstrip(".,;:!?)*"))
    if "random" in flags or group == "user":
        return is_key_like(value)
    return True


def _is_stand_in(value: str, may_be_template: bool = True) -> bool:
    """Return whether a value stands for a secret: `xxxxxxxx`, `${TOKEN}`, `changeme`.

    `may_be_template` is false where the whole match of a rule is the secret, such as a vendor's key.
    """
    last_chars = set(value[-12:])
    min_variety = 3 if len(value) > 8 else 2
    if len(last_chars) < min_variety:
        return True
    if may_be_template and _is_template(value):
        return True
    return fold_case(value).partition("|")[0].strip(" .:!?") in PLAIN_VALUES


def _is_template(value: str) -> bool:
    """Return whether a value has variables to fill in, and nothing key-like besides them."""
    if not _compile_pattern(_PATTERNS["template"]).search(value):
        return False
    rest = _compile_pattern(_PATTERNS["template"]).sub("", value)
    # With three or more other signs it is not only the text around variables.
    unusual_signs = [char for char in rest if not char.isalnum() and char not in " -_./:@\\\"'"]
    if len(unusual_signs) >= 3:
        return False
    return not any(len(piece) > 5 and is_key_like(piece) for piece in rest.split())


def _is_spoken_secret(match: re.Match[str], value: str) -> bool:
    """Judge a value in a sentence, where a word such as "expired" follows far more often than a secret.

    After a name such as `password` a word with digits in it is enough; after any other the value must look like a key.
    """
    if len(value) < 6 or value[0] in "[{(<":
        return False
    if _has_shape("path_or_url", value) or _has_shape("code", value) or _has_shape("type", value):
        return len(value) > 11 and is_key_like(value)
    is_about_password = fold_case(match[0]).lstrip().startswith(("passw", "passp", "passc", "secret", "pwd"))
    if not is_about_password:
        return len(value) > 7 and is_key_like(value)
    if match["quoted"]:
        return not _is_placeholder(value) and not _is_label(value)
    parts = value.replace("_", "-").replace(".", "-").replace("/", "-").split("-")
    if not all(part.isalnum() for part in parts):
        return True  # words in a sentence have no such signs
    if len(parts) == 1:
        return not value.isalpha()
    # `Zq81vT-Hunter2x`, but not `base64-encoded` or `test-user-2`
    return any(_has_digit(part) and part not in (part.lower(), part.upper()) for part in parts)


class _SecretName:
    """A name that promises a secret; `start` is the position of its stem."""

    __slots__ = ("end", "is_short", "is_specific", "is_upper", "promise", "start")

    def __init__(self, text: str, start: int, end: int, promise: int) -> None:
        preceding = text[start - 1 : start]
        spelled = text[start:end]
        self.start = start
        self.end = end
        self.promise = promise
        self.is_upper = spelled == spelled.upper()  # like an environment variable
        # A specific name says whose key or token it is, like `github_token`; `_find_names` checked the prefix of `key`.
        self.is_specific = preceding.isalnum() or preceding in ("_", "-", ".") or spelled[:3].lower() == "key"
        self.is_short = not self.is_specific and spelled.lower() == "pass"  # also a word in test reports


def _find_named_spans(text: str, folded_text: str, stems: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the secrets that follow a name such as `password`."""
    scanned_end = 0
    for name in _find_names(text, folded_text, stems):
        if name.start < scanned_end:
            continue  # the name is part of the secret before
        span = _find_value(text, name)
        if span:
            _, scanned_end = span
            yield span


def _find_names(text: str, folded_text: str, stems: Sequence[str]) -> list[_SecretName]:
    """Return the names that promise a secret and may have a value after them, in the order of the text."""
    names: list[_SecretName] = []
    for stem in stems:
        length = len(stem)
        position = folded_text.find(stem)
        while position >= 0:
            # The cheapest test first, because `key` is a frequent word.
            if stem != "key" or _is_secret_key_name(folded_text[max(position - 16, 0) : position]):
                stretch = folded_text[position : position + _MAX_NAME_CHARS]
                end = position + len(stretch) - len(stretch.lstrip(_NAME_SIGNS))
                promise = _rate_promise(text, folded_text, position, end)
                if promise and _can_be_joined(folded_text, end):
                    names.append(_SecretName(text, position, end, promise))
            position = folded_text.find(stem, position + length)
    names.sort(key=lambda name: name.start)
    return names


def _rate_promise(text: str, folded_text: str, start: int, end: int) -> int:
    """Return how strongly the name from its stem at `start` to `end` promises a secret: _STRONG, _WEAK or 0."""
    ending = folded_text[start:end]
    promise = _PROMISES.get(ending, 0)
    if not promise:
        ending = ending.replace("_", "").replace("-", "").rstrip("0123456789")
        promise = _PROMISES.get(ending, 0)
        if not promise:
            return 0
    if ending in SHORT_ENDINGS:
        # Within a word it is not a word of its own, as in `compass`.
        if folded_text[start - 1 : start].isalpha() and not text[start].isupper():
            is_after_escape = folded_text[start - 2 : start - 1] == "\\"  # `\\npass`: the letter is the escape's
            return promise if is_after_escape else 0
        if _ends_identifier(folded_text, start):
            return 0
    return promise


def _ends_identifier(folded_text: str, position: int) -> bool:
    """Return whether letters mixed with digits lead up to a position, as in a random id that happens to end with PW."""
    preceding_text = folded_text[max(position - _MAX_NAME_CHARS, 0) : position]
    run = preceding_text[len(preceding_text.rstrip(_LETTERS_AND_DIGITS)) :]
    return len(run) >= _MIN_ID_CHARS and sum(map(str.isdigit, run)) > 1


def _can_be_joined(folded_text: str, end: int) -> bool:
    """Return whether a value may follow the name, by a check that is cheaper than the pattern."""
    following = folded_text[end : end + 16]
    sign = following.lstrip("\"'\\ \t]?!`*_)}")[:1]
    return sign in _JOINING_SIGNS or following[:1] in (" ", "\t", '"', "'", "\\")


def _find_value(text: str, name: _SecretName) -> tuple[int, int] | None:
    """Return the span of the secret after a name; None if there is none."""
    join = _compile_pattern(_PATTERNS["join"]).match(text, name.end)
    if not join or (join["cell"] and not _is_in_table(text, name)):
        return None
    if join["gap"] and _is_variable_name(text, name):
        return None
    if join["block"]:
        block = _compile_pattern(_PATTERNS["block"]).match(text, join.end())
        return block.span("value") if block and _is_block_secret(block["value"]) else None
    quoted = _compile_pattern(_PATTERNS["quoted"]).match(text, join.end())
    if quoted:
        return quoted.span("value") if _is_quoted_secret(text, name, join, quoted) else None
    if join["typed"] or join["quoted_only"]:
        return None
    return _find_bare_value(text, name, join)


def _find_bare_value(text: str, name: _SecretName, join: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the secret without quotes after a name; None if there is none."""
    bare = _compile_pattern(_PATTERNS["element" if join["sign"] == ">" else "bare"]).match(text, join.end())
    if not bare:
        return None
    is_own_line = "**" in join[0] or _is_own_line(text, name)
    start, end = bare.span("value")
    if is_own_line and not join["gap"] and not join["cell"]:
        rest = _compile_pattern(_PATTERNS["rest"]).match(text, join.end())
        if rest and not rest[0].endswith((",", ";")):
            start, end = rest.span()
    if not _is_bare_secret(text, name, join, text[start:end], is_own_line=is_own_line):
        return None
    return start, end


def _is_block_secret(value: str) -> bool:
    """Return whether the indented lines of a YAML block are a secret; long ones are not judged, so they count."""
    if len(value) > _MAX_JUDGED_CHARS:
        return True
    return not value.startswith(_REDACTION_PREFIX) and not _is_placeholder(value)


def _is_in_table(text: str, name: _SecretName) -> bool:
    """Return whether a name is in a row of a Markdown table, whose line may have a diff sign or a number before it."""
    line = _get_line_before(text, name.start, max_chars=120)
    return line.lstrip(" \t+-0123456789\u2192").startswith("|")


def _get_line_before(text: str, position: int, *, max_chars: int) -> str:
    """Return the end of the line that leads up to a position."""
    _, _, line = text[max(position - max_chars, 0) : position].rpartition("\n")
    return line


def _is_variable_name(text: str, name: _SecretName) -> bool:
    """Return whether a dollar precedes the name: `$PWD "…"` is two words of a command."""
    preceding = text[max(name.start - _MAX_NAME_CHARS, 0) : name.start]
    return fold_case(preceding).rstrip(_NAME_SIGNS).endswith("$")


def _is_option(text: str, name: _SecretName) -> bool:
    """Return whether the name is the end of an option such as `--db-password`."""
    preceding = text[max(name.start - 48, 0) : name.start].replace("\n", " ").replace("\t", " ").replace("\\n", " ")
    _, _, word = preceding.rpartition(" ")
    return word.lstrip("\"'`([{").startswith("-")


def _is_own_line(text: str, name: _SecretName) -> bool:
    """Return whether only a dash, a number or a word such as `export` precedes the name on its line."""
    return _get_line_lead(text, name) in ("", "export", "set", "env", "arg", "setenv", "declare", "local")


def _is_set_with_gap(text: str, name: _SecretName) -> bool:
    """Return whether a command precedes the name that sets it to the next word: `ENV`, `setenv`, `npm config set`."""
    lead = _get_line_lead(text, name)
    return lead in ("env", "arg", "setenv") or lead.startswith("set -") or lead.endswith("config set")


def _get_line_lead(text: str, name: _SecretName) -> str:
    """Return the text before a name on its line, without diff and list markers and line numbers."""
    _, _, line = _get_line_before(text, name.start, max_chars=120).rpartition("\\n")
    line = fold_case(line).rstrip("abcdefghijklmnopqrstuvwxyz0123456789_.-:/@")
    return line.strip(" \t+-0123456789\u2192>|*#\"'")


def _is_quoted_secret(text: str, name: _SecretName, join: re.Match[str], quoted: re.Match[str]) -> bool:
    """Judge a value in quotes: a call's argument, a sentence and a label are seldom secrets."""
    value = quoted["value"]
    if value.startswith(_REDACTION_PREFIX) or not value.strip():
        return False
    if len(value) > _MAX_JUDGED_CHARS:
        return " " not in value[:_MAX_JUDGED_CHARS]
    line = _get_line_before(text, name.start, max_chars=_MAX_JUDGED_CHARS)
    if quoted["quote"] not in join["shut"] and line.count(quoted["quote"]) % 2:
        return False  # the quote closes a string that contains the name
    if join["sign"] == ">" or _is_placeholder(value):
        return False
    if name.is_short and (join["gap"] or quoted["quote"] == "`") and not is_key_like(value):
        return False
    if " " in value:
        return _is_secret_sentence(name, value)
    if quoted["call"]:
        # `str("…")` gives back its argument, so the argument is judged like any other value.
        is_wrapped_literal = fold_case(quoted["call"]).rstrip("( \t").endswith(WRAPPING_CALLS)
        if not is_wrapped_literal:
            return len(value) > 5 and is_key_like(value)
    if name.promise == _WEAK:
        if len(value) <= 5:
            return False
        return is_key_like(value) or _is_basic_credentials(value) or _is_mixed_value(name, value)
    if join["quoted_only"] == "," and not name.is_upper and _has_shape("words", value):
        # `put("password", "…")` sets a password; `["password", "email"]` lists names, which are short or identifiers.
        return len(value) > 9 and "_" not in value and not _has_telling_word(value)
    return len(value) > 3 and not _is_label(value)


def _is_mixed_value(name: _SecretName, value: str) -> bool:
    """Return whether a value mixes letters and digits, after a name that says whose token or key it is."""
    if not name.is_specific or len(value) < 8 or not _has_digit(value):
        return False
    return not _has_shape("number", value) and not _has_shape("code", value)


def _is_secret_sentence(name: _SecretName, value: str) -> bool:
    """Judge a quoted value of several words: a passphrase is short and has none of the words that sentences have."""
    words = value.split()
    if any(len(piece) > 15 and is_key_like(piece) for piece in words):
        return True
    if name.promise == _WEAK or len(words) > 8:
        return False
    return SENTENCE_WORDS.isdisjoint(fold_case(value).replace(",", " ").replace(".", " ").split())


def _is_placeholder(value: str) -> bool:
    """Return whether a value is clearly a template, a path or URL, a type or a placeholder."""
    folded_value = fold_case(value)
    if _is_stand_in(value) or _has_shape("type", value) or value.endswith("..."):
        return True
    if any(part in folded_value for part in PLACEHOLDER_PARTS) and not is_key_like(value):
        return True
    if not _has_shape("path_or_url", value):
        return False
    # A key in base64 has slashes, too.
    return "://" in value or not _has_digit(value) or not is_key_like(value)


def _is_code(value: str) -> bool:
    """Return whether a value looks like a call or an attribute, made of readable names."""
    code = _compile_pattern(_PATTERNS["code"]).match(value)
    if not code:
        return False
    name = code["name"] or code["called"]
    if len(name) > 7:
        return not is_key_like(name)
    return name == name.lower() or not _has_digit(name[:-1])


def _is_basic_credentials(value: str) -> bool:
    """Return whether a value is `user:password` in base64, as in Docker's config.json."""
    is_whole = len(value) % _BASE64_GROUP == 0
    if not is_whole or len(value) < _MIN_BASIC_LENGTH:
        return False
    import binascii

    try:
        decoded = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _is_label(value: str) -> bool:
    """Return whether a value is a label: a capitalised word, or an identifier such as `db_password`."""
    if not _has_shape("words", value):
        return False
    if value.istitle() and "-" not in value and "_" not in value:
        return True
    is_compound = value != value.lower() or "_" in value or "-" in value
    return is_compound and _has_telling_word(value)


def _is_identifier(value: str) -> bool:
    """Return whether a value is a variable such as `password2`."""
    stem = value.rstrip("0123456789")
    return stem in PLAIN_VALUES or _is_label(stem)


def _has_telling_word(value: str) -> bool:
    """Return whether a value speaks of a secret instead of being one: `db_password`, `tokenFile`."""
    folded_value = fold_case(value)
    if any(part in folded_value for part in SECRET_NAME_PARTS):
        return True
    return not SECRET_NAME_WORDS.isdisjoint(map(fold_case, _compile_pattern(_PATTERNS["humps"]).findall(value)))


def _is_bare_secret(text: str, name: _SecretName, join: re.Match[str], value: str, *, is_own_line: bool) -> bool:
    """Judge a value without quotes, which may be code such as a variable, a call or a type.

    A value that is too long to be judged counts as a secret. `is_own_line` tells that nothing of weight precedes the
    name on its line.
    """
    if value.startswith(_REDACTION_PREFIX):
        return False
    if len(value) > _MAX_JUDGED_CHARS:
        return True
    if join["gap"] and not _is_option(text, name) and not _is_set_with_gap(text, name):
        is_column = len(join["gap"]) >= _MIN_COLUMN_GAP and is_own_line and name.promise == _STRONG
        return is_column and len(value) > 7 and is_key_like(value) and not _is_placeholder(value)
    if _is_placeholder(value) or value[0] in "[{(:" or sum(map(str.isalnum, value)) < 3:
        return False
    if value[0] == "!" and value[1:].isalpha():
        return False  # a YAML tag
    if _is_code(value):
        return False
    if join["cell"]:
        return _is_secret_in_cell(name, value)
    if name.is_short and name.is_upper and join["sign"] != "=":
        return False  # a test runner's `PASS`
    if name.promise == _WEAK or name.is_short:
        return _is_secret_of_weak_name(name, join, value)
    return _is_secret_of_strong_name(text, name, join, value, is_own_line=is_own_line)


def _is_secret_in_cell(name: _SecretName, value: str) -> bool:
    """Judge a value in a Markdown table: it looks like a key, or is joined by dashes and says nothing of secrets."""
    if len(value) <= 7:
        return False
    if is_key_like(value):
        return True
    return name.promise == _STRONG and "-" in value.strip("-") and not _has_telling_word(value)


def _is_secret_of_weak_name(name: _SecretName, join: re.Match[str], value: str) -> bool:
    """Judge a bare value after `token`, `key` or `auth`, which often have other values, or after a mere `pass`."""
    is_tight = join["sign"] == "=" and " " not in join[0]  # `TOKEN=…`, as shells and .env files have it
    is_number = _has_shape("number", value)
    if name.is_short and is_tight and len(value) > 5 and _has_digit(value):
        return not is_number
    if len(value) > 7 and is_key_like(value):
        return True
    if name.is_short or len(value) < 8 or is_number:
        return False
    return (name.is_upper and is_tight) or _is_mixed_value(name, value)


def _is_secret_of_strong_name(
    text: str, name: _SecretName, join: re.Match[str], value: str, *, is_own_line: bool
) -> bool:
    """Judge a bare value after a name such as `password`: it is a secret unless it is a word that stands for one."""
    if _has_shape("number", value):
        return value.isdigit() and len(value) > 3
    end = join.end() + len(value)
    following = text[end : end + 1]
    is_argument = following in (",", ")", "}", "]", "?", "(")
    if is_argument and _is_identifier(value):
        return False
    if not _has_shape("words", value):
        return True
    if len(value) < 4:
        return False
    if join["gap"] or join["sign"] == ">" or join["pair"]:
        return True
    is_tight = join["sign"] == "=" and "= " not in join[0] and " =" not in join[0]
    if name.is_upper and is_tight:
        return True
    if _has_telling_word(value):
        return False
    if is_argument:
        return False
    if is_tight:
        return True
    is_line_end = following in ("", "\n", "\r", "\\")
    return is_line_end and is_own_line and len(value) > 5 and not value.istitle()


def _redact_random(text: str, unbroken_runs: Sequence[str]) -> str:
    """Replace runs that are too random to be anything but a key; those after a known prefix, such as a hash's, stay."""
    if not any(len(run) >= MIN_RANDOM_LENGTH and is_random(run) for run in unbroken_runs):
        return text

    def replace_run(match: re.Match[str]) -> str:
        escape = match["escaped"] or ""  # the letter of `\n` before the run
        run = match["secret"][len(escape) :]
        if match["known"] or not is_random(run):
            return match[0]
        return f"{escape}[redacted:random]"

    return _compile_pattern(_PATTERNS["run"]).sub(replace_run, text)


def _compile_pattern(pattern: str, is_folded: bool = False) -> re.Pattern[str]:
    """Compile a pattern on first use; one that is searched in folded text ignores case."""
    if pattern not in _compiled:
        import re

        flags = re.VERBOSE | re.ASCII
        if is_folded:
            flags |= re.IGNORECASE
        _compiled[pattern] = re.compile(pattern, flags)
    return _compiled[pattern]


def _has_shape(shape: str, value: str) -> bool:
    """Return whether a value begins like one of the shapes in `_PATTERNS`, such as `number` or `path_or_url`."""
    return bool(_compile_pattern(_PATTERNS[shape]).match(value))
