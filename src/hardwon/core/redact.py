"""Secrets are replaced by `[redacted:KIND]` before a text is written anywhere.

Three questions, in this order: does it have the shape of a known key (the table), does it stand after the name of a
secret (`password=`), is it too random to be anything else. Each row names the literals a secret of its kind must hold;
they are looked for with `str.find`, and a pattern is tried only where one stands. So a text without them never needs
`re`, and no pattern walks through a text by itself: after a literal it reads a bounded stretch, or what it replaces.
"""

from __future__ import annotations

from hardwon.core import prefixes
from hardwon.core.fold import fold
from hardwon.core.private import mapped
from hardwon.core.randomness import is_key, is_random, runs, wordiness
from hardwon.words import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Sequence
    from typing import Any

SHORTEST = 15
_PASSES = 6  # a replacement may uncover another secret; more rounds than this nobody has seen
_PLAUSIBLE = 256  # a longer value is a secret without being looked at
_TAIL, _HEX = "A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6" + "S7t8U9v0W1x2Y3z4", "0f1e2d3c4b5a6978" * 4

# After a strong name any value is a secret, after a weak one only what looks like a key.
_STRONG = ("password", "passwd", "passphrase", "pwd", "secret", "_pass")
_WEAK = (
    *("token", "api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "secret_key", "secretkey"),
    *("secret-key", "private_key", "privatekey", "private-key", "encryption_key", "signing_key", "auth_key"),
    *("credential", "credentials", "authorization", "_auth"),
)
_NAMES = (*_STRONG, *_WEAK)
# The value of a name: quoted, where a quote with more backslashes than the first is inside; or bare.
_VALUE = r"""
    (?P<shut> [\]"'\\`?!]{0,10} )
    (?: [ \t]{0,8} (?P<sep> => | := | (?: [!=]={1,2} | \( ) (?= [ \t]{0,8} \\{0,8} ["'`] ) | [=:>] ) [ \t]{0,8}
      | (?P<gap> [ \t]{1,8} ) )
    (?: [fFrRbBuU@$]{0,2} (?P<escape> \\{0,8} ) (?P<quote> ["'`] )
        (?P<inner> (?: (?! \\{0,8} (?P=quote) ) [^\r\n] | (?P=escape) \\{1,8} (?P=quote) )*+ )
      | (?P<bare> [^\s"'`,;<>&|\\)\]}]++ ) )
"""
_PLAIN = (
    "str string int integer number bool boolean bytes any unknown never void null nil none undefined true false yes no "
    "on off text varchar char uuid float double object array list dict map optional option options required date self "
    "result auto var let const secretstr secret password passwd pass passphrase token key apikey user admin root test "
    "foo bar baz enabled disabled hidden masked empty missing invalid valid changeme basic bearer credentials postgres "
    "this unset default value new await is or and flag to in was for with must the a an as from not if when argument "
    "parameter instead of env file path prompt stdin expected unexpected failed wrong incorrect"
)
_PLAIN_WORDS = frozenset(_PLAIN.split())
_STAND_INS = ("xxxx", "....", "****", "your-", "your_", "your ", "placeholder", "example", "redacted", "dummy", "…")
_SHAPES = {
    "template": r".*?(?:\$\{|\$\(|\{\{|\$[A-Za-z_]|\{[\w.$!:\[\]()'\" ]*\}|%[sdv@(]|%[A-Za-z_]+%|\#\{|<[^>]*>|\*\*\*)",
    "place": r"(?:[a-z][a-z0-9+.-]*://|arn:|~|\.{0,2}/)|[\w.-]+(?:/[\w.@-]+)+$",
    "code": r"[!*]*[A-Za-z_$][\w$]*(?:(?:\?\.|!?\.|::|->)[A-Za-z_$][\w$]*)+|[!*]*[A-Za-z_$][\w$:]*[(\[{]",
    "type": r"[=!*]*(?:(?:[uif]|u?int|float|bytes|utf|base|sha|md|v|[hre]s|varchar|char|argon|pbkdf)_?[0-9]{1,3}|\W*)$",
    "words": r"[=!*]*[A-Za-z_-]+[.:!?]*$",
    "number": r"[0-9.,:_/x-]+[a-z%]{0,2}$",
    "run": r"(?P<known>(?i:sha)(?:1|224|256|384|512)[-:=]|h1:|;base64,|/nix/store/|(?:ssh-[a-z0-9]+|nistp[0-9]{3})\ )?"
    r"(?<![A-Za-z0-9+/=_-])(?P<secret>(?P<escaped>(?<=\\)[nrt])?[A-Za-z0-9+/=_-]{32,})",
}
_compiled: dict[str, re.Pattern[str]] = {}


@word
class Secret:
    """One kind, with one of its literals at the start; an example is the text before the secret, and the secret."""

    name: str
    literals: tuple[str, ...]
    pattern: str
    examples: tuple[tuple[str, str], ...]
    # folded: in any case; assigned: before a colon or the like; random, named, said: how it is judged; unbroken: all
    # of what the pattern takes is one stretch as in `runs`, no shorter than SHORTEST
    how: str = ""
    edge: str | None = None  # besides letters and digits, what may not stand before it
    beside: tuple[str, ...] = ("",)  # one of these has to be in the text too


def _keys(*keys: str) -> tuple[tuple[str, str], ...]:
    return tuple([("", key) for key in keys])


# Examples are put together here, so that no scanner takes this file for a leak. In a pattern `\w` is ASCII.
SECRETS = (
    Secret(
        "private-key",
        ("-----BEGIN",),
        r"-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY[A-Z ]{0,10}-----[ \t]{0,4}"
        r"(?=(?:[\r\n]|\\{1,8}[nr])[^A-Za-z]{0,24}(?:[A-Za-z0-9+/=]{16}|Proc-|Version|Comment)|[A-Za-z0-9+/]{16})"
        r"[^-]*+(?:-(?!----END)[^-]*+)*+(?:-----END[^-\n]{0,60}-----)?",
        _keys(
            f"-----BEGIN RSA PRIVATE{' '}KEY-----\nMII{_TAIL}\n{_TAIL}\n-----END RSA PRIVATE{' '}KEY-----",
            f"-----BEGIN OPENSSH PRIVATE{' '}KEY-----\nb3Bl{_TAIL}\n{_TAIL[:20]}",
        ),
    ),
    Secret("anthropic", ("sk-ant-",), r"sk-ant-[\w-]{16,}", _keys("sk-ant-" + "api03-" + _TAIL), "unbroken"),
    Secret(
        "openai",
        ("sk-",),
        r"sk-(?:(?:proj|svcacct|admin|None|or-v1|lf)-)?(?P<secret>[\w-]{20,})",
        _keys("sk-" + _TAIL, "sk-" + "proj-" + _TAIL),
        *("random unbroken", "_.-"),
    ),
    Secret(
        "github",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"),
        r"(?:gh[posur]_[A-Za-z0-9]{20,}|github_pat_\w{22,})",
        _keys("ghp_" + _TAIL[:36], "ghs_" + _TAIL[:36], "github_pat_" + _TAIL[:22] + "_" + _TAIL),
        "unbroken",
    ),
    Secret(
        "aws-id", ("AKIA", "ASIA"), r"A[A-Z0-9]{19}(?![A-Za-z0-9])", _keys("AKIA" + "J7Q2M4X9T1Z8B6C3"), "unbroken", ""
    ),
    Secret("google-oauth", ("ya29.",), r"ya29\.[\w-]{20,}", _keys("ya29." + "a0" + _TAIL)),
    Secret(
        "slack", ("xox", "xapp-"), r"x(?:ox[a-z]|app)-[\w-]{10,}", _keys("xoxb-" + "123456-" + _TAIL), "unbroken", ""
    ),
    Secret(
        "webhook",
        ("hooks.slack.com/", "/api/webhooks/"),
        r"(?:hooks\.slack\.com/[a-z]{1,20}|/api/webhooks)/(?P<secret>[A-Za-z0-9/_-]{20,})",
        (("https://hooks.slack.com/services/", "T0A1B2C3D/B0A1B2C3D/" + _TAIL[:24]),),
    ),
    Secret(
        "stripe",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})",
        _keys("sk_live_" + _TAIL[:24], "rk_live_" + _TAIL[:24], "whsec_" + _TAIL[:32]),
        *("unbroken", ""),
    ),
    Secret("twilio", ("SK",), r"SK[0-9a-f]{32}(?![A-Za-z0-9])", _keys("SK" + _HEX[:32]), "unbroken", ""),
    Secret("sendgrid", ("SG.",), r"SG\.[\w-]{16,64}\.[\w-]{16,}", _keys(f"SG.{_TAIL[:22]}.{_TAIL[:43]}"), edge=""),
    Secret("mailgun", ("key-",), r"key-[0-9a-f]{32}(?![A-Za-z0-9])", _keys("key-" + _HEX[:32]), "unbroken", "_.-"),
    Secret(
        *("prefixed", prefixes.beginnings(prefixes.UNBROKEN), prefixes.pattern(prefixes.UNBROKEN)),
        *(_keys(*prefixes.samples(prefixes.UNBROKEN)), "random unbroken", "_.-"),
    ),
    Secret(
        *("prefixed-dotted", prefixes.beginnings(prefixes.DOTTED), prefixes.pattern(prefixes.DOTTED)),
        *(_keys(*prefixes.samples(prefixes.DOTTED)), "random", "_.-"),
    ),
    Secret(
        "azure",
        ("accountkey=", "sharedaccesskey=", "sig="),
        r"[a-z]+=(?P<secret>[A-Za-z0-9+/%=]{30,})",
        (("AccountKey=", _TAIL + _TAIL[:38] + "=="), ("&sig=", _TAIL[:40] + "%3D")),
        *("folded", ""),
    ),
    Secret(
        *("jwt", ("eyJ",), r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{10,}"),
        *(_keys("eyJ" + _TAIL + ".eyJ" + _TAIL + "." + _TAIL), "", "_-"),
    ),
    Secret(
        "url-password",
        ("://",),
        r"://(?:[^\s/:@\[\"'<>\\]{0,200}:(?P<secret>[^\s/\"'<>\\]{1,300})@|(?P<user>[\w-]{20,200})@)",
        (("postgres://ada:", "hunt-er2!" + "@db.local"), ("https://", _TAIL[:40] + "@git.local")),
        beside=("@",),
    ),
    Secret(
        "authorization",
        ("authorization",),
        r"authorization[\"'\\]{0,10}\s{0,4}[:=,]\s{0,4}[\"'`\\]{0,10}"
        r"(?:basic|bearer|token|digest|apikey|negotiate)\s{1,4}(?P<secret>[^\s\"'`\\,]{4,})",
        (("Authorization: Basic ", "dXNlcjpwYXNz"), ("Authorization: Bearer ", "plainopaque1")),
        "folded assigned",
    ),
    Secret(
        "bearer",
        ("bearer",),
        r"bearer(?:\s|%20|\+){1,4}(?P<secret>[A-Za-z0-9._~+/=-]{12,})",
        (("Bearer ", _TAIL[:24]),),
        *("folded random", "_"),
    ),
    Secret(
        "cookie",
        ("cookie",),
        r"cookie[\"'\\]{0,10}\s{0,4}:\s{0,4}[\"'\\]{0,10}"
        r"(?P<secret>[^\s=;,:\"'{}()\\]{1,100}=[^\s;\"'\\]{1,4096}+(?:;[^\r\n\"'\\]*+)?)",
        (("Cookie: ", "sid=" + _TAIL[:12] + "; theme=dark"), ("Set-Cookie: ", "sid=" + _TAIL[:12] + "; Path=/")),
        *("folded assigned", None, ("=",)),
    ),
    Secret(
        "login",
        ("mysql", "mariadb", "sshpass", "curl", "login ", "identified by", "password '", 'password "'),
        r"(?:(?:mysql|mariadb)[a-z]{0,8}(?:\s{1,8}(?!(?-i:-p)\S|[|;&])\S+){0,40}+\s{1,8}(?-i:-p)['\"]?(?P<db>[^\s\"'\\]+)"
        r"|sshpass\s{1,4}-p\s{0,4}['\"]?(?P<ssh>[^\s\"'\\]+)"
        r"|curl(?:\s{1,8}(?!-u|--user|[|;&])\S+){0,40}+\s{1,8}-[-user]+[\s=]{0,4}['\"]?[^\s:'\"]{1,100}:(?P<curl>[^\s\"'\\]+)"
        r"|login\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<netrc>[^\s\"'\\]+)"
        r"|login(?:[ \t]{1,8}(?!(?-i:-p)\s|[|;&])\S+){0,40}+[ \t]{1,8}(?-i:-p)"
        r"[ \t]{1,4}['\"]?(?![0-9]{1,5}\b)(?P<registry>[^\s\"'\\]+)"
        r"|(?:identified\ by|password)\s{1,4}['\"](?P<sql>[^\s\"'\\]+)(?=['\"]))",
        (("mysql -u root -p", "hunt-er2"), ("curl -u ada:", "hunt-er2"), ("machine h login ada password ", "hunt-er2")),
        "folded",
        beside=(" -p", " -u", "--user", "password", " by"),
    ),
    Secret(
        "said",
        ("password", "passphrase", "passcode", "secret", "token", "api key"),
        r"(?:pass(?:word|phrase|code)|secret|token|api\ key)(?:[ ][\w'-]{1,30}){0,5}?[ ]is:?[ ]\\{0,8}[\"'`]?"
        r"(?P<secret>[^\s\"'`\\]{6,})",
        (("the db password is ", "S3cr3t!pass" + "99"), ("the API key for the harbour is: ", _TAIL[:20])),
        "folded said",
        beside=(" is ", " is: "),
    ),
    Secret(
        "secret",
        _NAMES,
        "(?:" + "|".join(sorted(_NAMES, key=len, reverse=True)) + ")" + _VALUE,
        (("password=", "hunter2"), ('"api_key": "', _TAIL[:20]), ("aws_secret_access_key=", _TAIL[:40])),
        "folded assigned named",
    ),
)
# What is spelled in one way comes first.
ROWS = tuple(sorted(SECRETS, key=lambda row: "folded" in row.how))


def redact(text: str, rows: Sequence[Secret] = ROWS) -> str:
    """The text with every secret replaced; `rows` are those of which it may hold a literal."""
    for _ in range(_PASSES if len(text) > 7 else 0):
        after = text
        for row in _rows_in(text, rows):
            after = _without(row, after)
        after = _without_random(after)
        if after == text:
            break
        text, rows = after, ROWS
    return text


def _rows_in(text: str, rows: Sequence[Secret]) -> list[Secret]:
    """The rows of which a literal stands in the text: one look at each literal, and for most texts no more."""
    low, unbroken = fold(text), "\n".join(runs(text, SHORTEST))

    def place(row: Secret) -> str:
        return low if "folded" in row.how else unbroken if "unbroken" in row.how else text

    return [row for row in rows if any(map(place(row).__contains__, row.literals))]


def redact_deep(value: Any) -> Any:
    """A JSON value with the secrets in its strings and keys replaced, and all that is under the name of a secret."""

    def change(text: str, key: str) -> str:
        return "[redacted:secret]" if text.strip() and _is_name(key) else redact(text)

    return mapped(value, change, covers=_is_name)


def _is_name(key: str) -> bool:
    low = fold(key).strip(" :_-")
    return low.endswith((*_NAMES, "passwords", "secrets")) or low in ("auth", "cookie", "set-cookie")


def _without(row: Secret, text: str) -> str:
    low = fold(text) if "folded" in row.how else text
    if not any(map(low.__contains__, row.literals)) or not any(map(low.__contains__, row.beside)):
        return text
    kept, start = [], 0
    for at in _spots(row, low):
        found = _pattern(row.name, row.pattern, "folded" in row.how).match(text, at) if at >= start else None
        if found and _judge(row.how, found):
            group = found.lastgroup or 0
            kept += [text[start : found.start(group)], f"[redacted:{row.name}]"]
            start = found.end(group)
    return "".join([*kept, text[start:]]) if kept else text


def _spots(row: Secret, low: str) -> list[int]:
    """Where a literal of the row stands as it has to."""
    spots: list[int] = []
    for literal in row.literals:
        at = low.find(literal)
        while at >= 0:
            begins = row.edge is None or _begins(low, at, row.edge)
            if begins and ("assigned" not in row.how or _is_assigned(low, at, at + len(literal))):
                spots.append(at)
            at = low.find(literal, at + 1)
    return sorted(spots)


def _begins(low: str, at: int, edge: str) -> bool:
    """A key begins where no word goes on, or after an escaped newline or a percent escape."""
    before = low[at - 1 : at]
    if not before.isalnum() and (not before or before not in edge):
        return True
    return low[max(at - 2, 0) : at] in ("\\n", "\\r", "\\t") or low[max(at - 3, 0) : at - 2] == "%"


def _is_assigned(low: str, at: int, end: int) -> bool:
    after = low[end : end + 16]
    if after[:1].isalnum() or after[:1] in ("", "_", "-", "."):
        return False
    if after.lstrip("\"'\\ \t]?!`")[:1] in (":", "=", ">", "(", ",", "!"):
        return True
    return after[0].isspace() and low[max(at - 48, 0) : at].rpartition(" ")[2].startswith("--")


def _pattern(name: str, pattern: str, folded: bool = False) -> re.Pattern[str]:
    if name not in _compiled:
        import re

        _compiled[name] = re.compile(pattern, re.VERBOSE | re.ASCII | (re.IGNORECASE if folded else 0))
    return _compiled[name]


def _is(shape: str, value: str) -> bool:
    return bool(_pattern(shape, _SHAPES[shape]).match(value))


def _judge(how: str, found: re.Match[str]) -> bool:
    """Whether what the pattern found is a secret, and no stand-in for one."""
    group, value = found.lastgroup, found[found.lastgroup or 0]
    if "named" in how:
        return _judge_named(found, value)
    if value.startswith("[redacted:") or (len(value) <= _PLAUSIBLE and _is_stand_in(value, bool(group))):
        return False
    if "said" in how:
        return _judge_said(value.rstrip(".,;:!?)*"), fold(found[0]).startswith(("pass", "secret")))
    return ("random" not in how and group != "user") or is_key(value)


def _is_stand_in(value: str, may_be_template: bool = True) -> bool:
    if len(set(value[-12:])) < (3 if len(value) > 8 else 2) or (may_be_template and _is("template", value)):
        return True
    return fold(value).partition("|")[0].strip(" .:!?") in _PLAIN_WORDS


def _judge_named(found: re.Match[str], value: str) -> bool:
    strong, text = fold(found[0]).startswith(_STRONG), found.string
    if found["gap"] and not text[max(found.start() - 48, 0) : found.start()].rpartition(" ")[2].startswith("--"):
        return False
    if found["sep"] == ">" and not (found["quote"] is None and text.startswith(("</", "<\\/"), found.end())):
        return False
    if len(value) > _PLAUSIBLE:
        return True
    low = fold(value)
    placed = _is("place", value) and ("://" in value or wordiness(value) > 0.5)
    if placed or _is_stand_in(value) or any(each in low for each in _STAND_INS) or _is("type", value):
        return False
    if found["quote"] is None:
        return _judge_bare(found, value, strong)
    line = text[max(found.start() - _PLAUSIBLE, 0) : found.start()].rpartition("\n")[2]
    if found["quote"] not in found["shut"] and line.count(found["quote"]) % 2:
        return False  # the quote closes a string that the name is in
    if not strong:
        return any(len(piece) > (15 if " " in value else 5) and is_key(piece) for piece in value.split())
    if _is("words", value) and (value[0].isupper() or any(name in low for name in _STRONG)):
        return False
    prose = " " in value and (value[0].isupper() or value[-1] in ".?!:,")
    return not prose or any(c.isdigit() for c in value)


def _judge_said(value: str, strong: bool) -> bool:
    """In a sentence a word follows, "expired" or "base64-encoded", far more often than a secret."""
    if len(value) < 6 or value[0] in "[{(<" or _is("place", value) or _is("code", value) or _is("type", value):
        return False
    if not strong:
        return len(value) > 7 and is_key(value)
    parts = value.replace("_", "-").replace(".", "-").replace("/", "-").split("-")
    return len(parts) == 1 != value.isalpha() or not all(part.isalnum() for part in parts)


def _judge_bare(found: re.Match[str], value: str, strong: bool) -> bool:
    """Without quotes it may be code: a variable, a call, a type."""
    if value[0] in "[{(:" or _is("code", value):
        return False
    if not strong:
        return len(value) > 7 and is_key(value)
    if _is("number", value):
        return value.isdigit() and len(value) > 3
    if any(name in fold(value) for name in _STRONG):
        return False
    if not _is("words", value):
        return True
    if found["gap"] or found[0][:2].isupper() or found["sep"] == ">":
        return found["sep"] != ":" and len(value) > 3
    before = found.string[max(found.start() - 48, 0) : found.start()].rpartition("\n")[2]
    tight = found["sep"] == "=" and "= " not in found[0]
    above = before.rstrip("abcdefghijklmnopqrstuvwxyz._-") if tight else before.strip(" -")
    if above:  # not a line of its own, but it may be a part of a query or of a connection string
        return tight and above[-1] in "?&;"
    ends = found.string[found.end() : found.end() + 1] in ("", "\n", "\r")
    return ends and (tight or found["sep"] == ":") and value.isalpha() and value.islower() and len(value) > 5


def _without_random(text: str) -> str:
    if not any(map(is_random, runs(text))):
        return text

    def replaced(found: re.Match[str]) -> str:
        run = found["secret"][len(found["escaped"] or "") :]
        return found[0] if found["known"] or not is_random(run) else f"{found['escaped'] or ''}[redacted:random]"

    return _pattern("run", _SHAPES["run"]).sub(replaced, text)
