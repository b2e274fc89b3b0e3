"""A guard's pattern means the same to both engines, and cannot be made to hang."""

from __future__ import annotations

import re
import warnings

import pytest
import regex
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from hardwon.lessons.patterns import find_pattern_fault, find_syntax_fault

ORDINARY = r"""
\bgit\s+stash\b(?!.*(-u|--include-untracked))
\bpytest\b(?!.*(--no-header|-p no:faulthandler|TERM=dumb))
npm (install|i)\b.*--save
rm\s+-[a-z]*r[a-z]*f
docker\s+compose\s+up(?!.*-d)
^\s*cd\s+.*&&
(?i)drop\s+table
kubectl\s+(\S+\s+)*delete
(?:^|&&|;)\s*make\b
curl .*\|\s*(ba)?sh
sed -i(?! '')
git\s+.*\s+push
git\s+push\s+.*\s+--force\b
git.*push.*--force.*origin
docker.*run.*--rm.*-v
(?:\w+=\S*\s+)*npm\s+ci
https?://[^\s/]+/.*\.git
[\w.+-]+@[\w-]+\.[\w.-]+
.*/.*\.py
^(?!.*--dry-run).*\bterraform\s+apply\b
\b(?:pip|pip3)\s+install\b(?!.*(?:-r|--requirement|-e))
\bfind\b.*-exec\s+rm\b.*\{\}
find .* -exec {} \;
(?:^|[;&|]\s*)rm\s+-(?:rf|fr)\s+/(?:\s|$)
\bpython3?\s+-m\s+(?:pytest|unittest)\b
\bgo\s+test\b(?!.*-count=1)
cargo\s+(build|test)(?!.*--locked)
\bgh\s+pr\s+create\b(?!.*--body)
\becho\b.*>\s*/etc/
\bchmod\s+(-R\s+)?777\b
sudo\s+(\S+\s+)*rm\b
\bawk\s+'{print
console\.log\(
import\s+\{[^}]*\}\s+from\s+['"]lodash['"]
(?m)^\s*print\(
\bTODO\b|\bFIXME\b|\bXXX\b
(?s)BEGIN.*PRIVATE KEY
password\s*=\s*["'][^"']+["']
AKIA[0-9A-Z]{16}
\beslint\b.*--fix\b
(?i)\b(select|update|delete)\b.+\bfrom\b.+\bwhere\b
^git commit(?=.*-m)(?!.*Signed-off-by)
\bmake\b(?:\s+-\S+)*\s+install\b
(['"])\w+\1\s*:\s*\1
(?P<quote>['"])secret(?P=quote)
yarn add(?: -D)? [@\w/-]+
\bnode\b\s+--inspect(?:-brk)?(?:=\d+)?
psql\s+.*-c\s+"?(?:DROP|TRUNCATE)
\bssh\s+(?:-\w+\s+\S+\s+)*prod
\.env(?:\.\w+)?$
def\s+\w+\([^)]*\):\s*pass
(?:^|\s)--no-verify(?:\s|$)
\bmysql(?:dump)?\b(?:\s+-\S+)*\s+-p\S+
tar\s+-?[a-z]*x[a-z]*f?\s
aws\s+s3\s+(?:rm|sync)\b.*--(?:recursive|delete)
^(?:[A-Z_]+=\S+\s+)*pnpm\b
cat\s+<<\s*['"]?EOF
\bkill\s+-9\s+\$\(.*\)
(?i:select)\s+\*\s+from
[\s\S]*?\bend\b
(?:.|\n)*end
(?<!sudo )apt-get\s+(?:install|remove)
\bgit\s+(?:-C\s+\S+\s+)?(?:checkout|switch)\b(?:\s+\S+)*\s+main\b
(?x) git \s+ push  # and nothing else
größe|naïve
a++b|(?>c+)d
(a|ab)*c$
""".strip().splitlines()

SLOW = r"""
(a+)+$
(a*)*
(.*)*x
^(\d+)*x
([a-z]+)*=
(a|a)*b
(\w+\s?)*$
(?:a+b?)+c
(x+x+)+y
(a|b|ab)*c
(a|bc|ab|c)*x
(\S+\s*)*delete
(.+,?)+$
(\w*\d*)*!
(foo|fo+)*bar
^(([a-z])+.)+[A-Z]([a-z])+$
(?=(a|a)*b)
foo(?!(?:[a-z]+-?)+!)
foo(?!(?=(?:a|a)*b)c)
(?i)(?:k|K\b|k)*!
\d+\w+\d+\w*!
(.*?,){11}P
(a|aa){40}b+c
(a{1,30}){1,30}b
""".strip().splitlines()

# What `re` reads one way and `regex` another, with a text that shows it.
TWO_READINGS = [
    (r"(?:foo){e<=1}", "fob"),
    (r"(?:foo){i}", "foo"),
    (r"a{2i+2d<4}", "b"),
    (r"printf {s}", "printf {s}"),
    (r"{echo hi", "{echo hi"),
    (r"[[:alpha:]]", "a"),
    (r"x[a[:digit:]]", "x1"),
    (r"[^\s\S]", "a"),
    (r"[^a\W_\w]b", "xb"),
    (r"(?x)a{2 }", "aa"),
    (r"(?x)(a)\1 2", "aa2"),
    ("(?x)a#\\\nb", "ab"),
    ("(?x)a\u00a0b", "ab"),
    (r"(?a)(?u:\w)", "é"),
]

REFUSALS = [
    ("", "the pattern is empty, so it would match every call"),
    ("x" * 2001, "the pattern has 2001 characters; at most 2000 are allowed"),
    ("(a)" * 101, "the pattern has 101 opening parentheses; at most 100 are allowed"),
    ("(?:x" * 40 + ")+" * 40, "repeats are nested 40 deep; at most 8 are allowed"),
    (r"foo\p{L}", r"column 4: bad escape \p: write \w, \d or list the characters, as in [a-zäöü]"),
    (r"(?<name>x)", "column 2: unknown extension ?<n: a named group is (?P<name>…)"),
    (r"\d{2,1}", "column 4: min repeat greater than max repeat: write the smaller number first"),
    (r"rm (-rf", r"column 4: missing ), unterminated subpattern: write \( for the parenthesis itself"),
    (r"rm -rf)", r"column 7: unbalanced parenthesis: write \) for the parenthesis itself"),
    (r"a[bc", r"column 2: unterminated character set: write \[ for the bracket itself"),
    (r"*.py", r"column 1: nothing to repeat: write a backslash before a sign that stands for itself, as in \* or \+"),
    (
        r"(?<=a+)b",
        "look-behind requires fixed-width pattern: give each lookbehind one length, as in (?:(?<=a)|(?<=bc))",
    ),
    (
        r"git (?i)push",
        "column 5: global flags not at the start of the expression: put them first, or write (?i:…) around a part",
    ),
    (r"[z-a]", r"column 2: bad character range z-a: put the - last, or write \-"),
    (r"[[:alpha:]]+", r"column 1: [:alpha:] is not a class in Python's re: write \w, \d, \s or a range such as a-z"),
    (r"x[[]", r"possible nested set at position 2: write \[ for the bracket itself"),
    (r"[;&&]", "possible set intersection at position 2: write the sign once, after a backslash"),
    (r"foo{e<=1}", r"column 4: {e<=1} means near matches to some engines: write \{ for the brace itself"),
    (r"(?:(a)b)*+", "a numbered group inside a possessive repeat can crash Python's re: write (?:…)"),
    (r"(a+)+$", r"(a+)+ or (\w+\s?)*, a repeat in a repeat, can take forever: put something between, as in (\w+\s)*"),
    (
        r"foo (?:a|a)*b",
        "too slow on a text such as 'foo aaa…': two repeats can divide the same characters between them in too many ways; "
        "let each match different ones",
    ),
]


def test_patterns_people_write_are_accepted() -> None:
    for source in ORDINARY:
        assert find_pattern_fault(source) is None, source


def test_patterns_that_can_hang_are_refused() -> None:
    for source in SLOW:
        assert find_pattern_fault(source), source


def test_a_pattern_that_the_two_engines_read_differently_is_refused() -> None:
    for source, text in TWO_READINGS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re_match = re.search(source, text)
        try:
            regex_match = regex.search(source, text, flags=regex.V0)
        except regex.error:
            regex_match = None
        assert (re_match and re_match.span()) != (regex_match and regex_match.span()), source
        assert find_pattern_fault(source), source


def test_a_refusal_has_the_column_and_a_correction() -> None:
    for source, message in REFUSALS:
        assert find_pattern_fault(source) == message, source


@pytest.mark.parametrize("flags", [re.LOCALE, re.ASCII | re.UNICODE])
def test_flags_that_python_refuses_are_a_fault_too(flags: int) -> None:
    assert find_pattern_fault("a", flags)


def test_flags_are_heeded() -> None:
    assert (find_pattern_fault("a #(", re.VERBOSE), find_pattern_fault("a #(")) == (
        None,
        r"column 4: missing ), unterminated subpattern: write \( for the parenthesis itself",
    )


def wrap_in_group(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.sampled_from(
        ["(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?s:", "(?-i:", "(?m-s:", "(?P<n>"]
    )
    branches = st.lists(inside, min_size=1, max_size=3).map("|".join)
    return st.builds(lambda opened, body: f"{opened}{body})", group, branches)


ATOMS = r"""
    a b c A 1 - _ ab é \. . \d \w \s \S \W \D \n \b \B \A \Z ^ $ \x41 \101 \0 \1 \2 (?P=n) (?(1)a|b) { } {} {2} {e} {i<=1}
    [ab] [^a] [a-c1] [^\s-] [\w.] [\d\D] [^\w\W] []a] [a-] [[:alpha:]] [[a] [a&&b] [\b] \p \X (?i) (?x: (?#c)
    """
QUANTIFIERS = st.sampled_from(
    ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "{2}", "{,2}", "{1,}", "{1,2}?", "{0}"]
)
SEQUENCES = st.recursive(
    st.sampled_from(ATOMS.split()),
    lambda inside: st.lists(st.builds(str.__add__, inside | wrap_in_group(inside), QUANTIFIERS), max_size=4).map(
        "".join
    ),
)
PATTERNS = st.builds(
    str.__add__,
    st.sampled_from(["", "", "", "(?i)", "(?m)", "(?s)", "(?ai)", "(?x) "]),
    st.lists(SEQUENCES, min_size=1, max_size=2).map("|".join),
)
FLAGS = st.sampled_from([0, 0, re.IGNORECASE, re.MULTILINE, re.DOTALL, re.ASCII, re.ASCII | re.IGNORECASE, re.VERBOSE])
# The engines disagree on a few characters rather than patterns: \x1c-\x1f are blank only to `re`; superscripts and
# fractions are \w only to `re`, combining marks only to `regex`; and only `re` lets İ and ı match either i.
TEXTS = st.text("abcAB1_ -.{}\n\téÉß", min_size=1, max_size=12)
MANY = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def convert_flags(flags: int) -> int:
    return regex.V0 | sum(int(getattr(regex, name)) for name in "AIMSX" if flags & getattr(re, name))


@MANY
@given(PATTERNS, FLAGS, st.lists(TEXTS, min_size=1, max_size=6))
@example(r"(?i)straße", 0, ["STRASSE", "STRAßE"])
@example(r"(?:(a)|b)*\1", 0, ["aba", "abb"])
@example(r"(?m)^$", 0, ["a\n", "a\n\nb"])
@example(r"(?i:\w)", re.ASCII, ["é", "a"])
def test_accepted_patterns_match_alike_in_both_engines(source: str, flags: int, texts: list[str]) -> None:
    assume(find_syntax_fault(source, flags) is None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        re_pattern = re.compile(source, flags)
    regex_pattern = regex.compile(source, convert_flags(flags))
    for text in texts:
        matches = re_pattern.search(text), regex_pattern.search(text, timeout=5)
        assert [match and match.span() for match in matches] == [matches[0] and matches[0].span()] * 2, text


@MANY
@given(st.text(max_size=40) | st.text(r"ab(|)*+?{}[]\^$.1,", max_size=30), FLAGS)
@example("(" * 1000, 0)
@example("((a{1,4000000000}){1,4000000000})*", 0)
@example("a{99999999999}", 0)
@example(r"(?:^|\b)*", 0)
@example("(?:a|b" * 300 + ")" * 300, 0)
def test_any_text_gets_an_answer(source: str, flags: int) -> None:
    answer = find_pattern_fault(source, flags)
    assert answer is None or (answer and "\n" not in answer.replace(source, ""))
