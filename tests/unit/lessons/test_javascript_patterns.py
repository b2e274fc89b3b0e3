"""A pattern of JavaScript, said in Python's re, finds what it found in JavaScript: node itself is asked."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons import record
from hardwon.lessons.javascript_patterns import UntranslatablePattern, translate_pattern

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed, and it is what the patterns are tried on")

ASK = """
const asked = JSON.parse(require('fs').readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(asked.map(([source, flags, texts]) => {
  let found;
  try { found = new RegExp(source, flags.replace('g', '')); } catch { return null; }
  return texts.map(text => {
    found.lastIndex = 0;
    const match = found.exec(text);
    return match ? [[...text.slice(0, match.index)].length, match[0]] : null;
  });
})));
"""

COMMANDS = [
    "",
    "git stash",
    "git  stash -u",
    "GIT STASH",
    "pytest tests/",
    "pytest --no-header tests/",
    "cd x && pytest",
    "npm install --save-dev 'a b'",
    'echo "hi" > out.txt',
    "rm -rf / --no-preserve-root",
    "a\nb",
    "foo\nbar\n",
    "foo\n",
    "foo\r\nbar",
    "x{2} y{,3} z{",
    "xx",
    "/srv/tests/test_auth.py",
    "/srv/tests/TEST_X.PY",
    "src/[id]/page.tsx",
    "aa bb ab",
    "'quoted' \"too\"",
    "éa É straße",
    "k s ſ K",
    "٣ 3",
    "a-b_c",
    "]",
    "\\",
    "^$.|?*+()[]{}",
    "\x00\x01\x08",
    "p{L}",
    "😀 smile",
    "u{61}",
    "\t tab\v\f",
    "--a&&b||c~~d",
    "café au lait",
    "abcabc",
    "b",
    "e",
    "docker run -it x",
]

SAME = [
    (r"\bpytest\b(?!.*(--no-header|-p no:faulthandler|TERM=dumb))", ""),
    (r"mock\.patch\(|@patch\(", ""),
    (r"test.*\.py$", "i"),
    (r"test.*\.py$", ""),
    (r"\bgit\s+stash(?!\s+-u|\s+pop|\s+list)", ""),
    (r"^git", ""),
    (r"stash$", ""),
    (r"foo$", ""),
    (r"foo$", "m"),
    (r"^bar", ""),
    (r"^bar", "m"),
    (r"^bar$", "gm"),
    (r"bar\s*$", ""),
    (r"^$", ""),
    (r"^$", "m"),
    (r"a.b", ""),
    (r"a.b", "s"),
    (r"a[^]b", ""),
    (r"[]", ""),
    (r"a|[]", ""),
    (r"\d", ""),
    (r"\D+", ""),
    (r"\w+", ""),
    (r"[\W]", ""),
    (r"\W\w", ""),
    (r"\bk\b", "i"),
    (r"[k-s]", "i"),
    (r"[éÉ]", ""),
    (r"é a", ""),
    (r"“|😀", "i"),
    ("É", "i"),
    ("[aé]a", "i"),
    ("[^é]+", "i"),
    ("[éÉ]", "i"),
    ("straße", "i"),
    (r"[^\x00-\x7f]", ""),
    (r"café\b", ""),
    (r"\/srv\/tests", ""),
    (r"\-\-no\-header", ""),
    (r"\"hi\"", ""),
    (r"\'quoted\'", ""),
    (r"\#|\@|\!|\%|\&\&", ""),
    (r"\e", ""),
    (r"\p{L}", ""),
    (r"x{2}", ""),
    (r"y{,3}", ""),
    (r"z{", ""),
    (r"x{2}\}", ""),
    (r"{", ""),
    (r"}", ""),
    (r"]", ""),
    (r"x\{2}", ""),
    (r"a{1,2}?b", ""),
    (r"a{0,}b", ""),
    (r"(?<first>a)b?\k<first>", ""),
    (r"(?<q>['\"]).*?\k<q>", ""),
    (r"(['\"])[^'\"]*\1", ""),
    (r"(a)(b)\2\1", ""),
    (r"\k<x>", ""),
    (r"(abc)\1", ""),
    (r"(a|b)\1", ""),
    (r"\x61\u0062", ""),
    (r"\u{61}", "u"),
    (r"\u{61}", ""),
    (r"\u{1F600}", "u"),
    (r"\uD83D\uDE00", ""),
    (r"\uD83D\uDE00", "u"),
    (r"\xg", ""),
    (r"\u12", ""),
    (r"\cA", ""),
    (r"\0", ""),
    (r"\01", ""),
    (r"\1", ""),
    (r"\10", ""),
    (r"\8", ""),
    (r"(a)\18", ""),
    (r"[\b]", ""),
    (r"[\B]", ""),
    (r"[\0-\x08]", ""),
    (r"[\w-]+", ""),
    (r"[\w-z]+", ""),
    (r"[a\-z]", ""),
    (r"[+--]", ""),
    (r"[--a]", ""),
    (r"[&&]", ""),
    (r"[||]", ""),
    (r"[~~]+", ""),
    (r"[[]id]", ""),
    (r"[[id]+\]", ""),
    (r"[\]]", ""),
    (r"[^\]]", ""),
    (r"[\^a]", ""),
    (r"[a^]", ""),
    (r"[$.|?*+()]+", ""),
    (r"[^\s\S]", ""),
    (r"[\s\S]$", ""),
    (r"[^\d\D]|b", ""),
    (r"\\", ""),
    (r"[\\]", ""),
    (r"(?<=git )stash", ""),
    (r"(?<!-)-u", ""),
    (r"(?<=\bgit\s)", ""),
    (r"(?=.*tests)(?=.*pytest)", ""),
    (r"(?!)", ""),
    (r"(?:)", ""),
    (r"a||b", ""),
    (r"()", ""),
    (r"(?:a|b)+?c", ""),
    (r"\bdocker\s+run\b.*\s-it?\b", ""),
    (r"rm\s+-(?:rf|fr)\b", ""),
    (r"git", "y"),
    (r"stash", "y"),
    (r"git|stash", "gd"),
    (r"GIT\sSTASH", "iu"),
    (r"\.", "u"),
    (r"\-", ""),
    (r"[\-]", "u"),
    (r"\$\.\|", "u"),
    (r"\t\stab", ""),
    (r"\v\f", ""),
    (
        r"a\
b",
        "",
    ),
    ("a\nb", ""),
    (r"\Bb", ""),
    (r"\s", ""),
    (r"\S+\s\S+", ""),
    (r"[\s-]", ""),
    (r"[\d-x]+", ""),
    (r"x*", ""),
    (r"(?:(a)b)\1", ""),
    (r"(?:x(a))?b", ""),
    (r"((a)b)\2", ""),
    (r"[\cA]", ""),
    (r"[\1]", ""),
    (r"[é-ü]", ""),
    (r"K", "i"),
]

REFUSED = [
    (r"(?<=a+)b", "", "lookbehind"),
    (r"(?<!a|bc)d", "", "one length"),
    (r"\p{L}", "u", "list the characters"),
    (r"[\p{L}]", "u", "list the characters"),
    (r"[a--b]", "v", "flag v"),
    (r"a", "x", "leave out 'x'"),
    (r"a", "ii", "'i'"),
    (r"(a)?\1", "", "need not have matched"),
    (r"(a)|\1", "", "need not"),
    (r"(?:(a)|b)\1", "", "need not"),
    (r"(?!(a))\1", "", "need not"),
    (r"\1(a)", "", "need not"),
    (r"(a\1)", "", "need not"),
    (r"(a){0,2}\1", "", "need not"),
    (r"(?:(?<n>a)|b)*\k<n>", "", "need not"),
    (r"(?<=(a)\1)", "", "need not"),
    (r"(?P<n>a)", "", "(?P"),
    (r"(?i)a", "", "no group (?i"),
    (r"(?>a)", "", "no group"),
    (r"(?#c)", "", "no group"),
    (r"a*+", "", "nothing to repeat"),
    (r"a{2}{3}", "", "nothing to repeat"),
    (r"*a", "", "nothing to repeat"),
    (r"^*", "", "nothing"),
    (r"\b+", "", "nothing"),
    (r"(?=a)*", "", "nothing to repeat"),
    (r"(a", "", "not closed"),
    (r"a)", "", "nothing is open"),
    (r"[a", "", "not closed"),
    ("a\\", "", "backslash"),
    (r"[b-a]", "", "backwards"),
    (r"[\w-a]", "u", "a class"),
    (r"\e", "u", r"\e"),
    (r"{", "u", "lone {"),
    (r"\uD83D", "", "no character"),
    (r"\u{110000}", "u", "no character"),
    (r"\c1", "", r"\c"),
    (r"\1", "u", r"\1"),
    (r"(?<$x>a)", "", "cannot name"),
    (r"(?<n>a)\k<m>", "", "(?P=m)"),
    (r"[à-ü]", "i", "both cases"),
    (r"a{99999999999}", "", "refuses it"),
    ("(" * 5000 + ")" * 5000, "", "refuses it"),
    (r"a{3,2}", "", "refuses it"),
    (r"(?<n>a)|(?<n>b)", "", "refuses it"),
]


def ask(patterns: list[tuple[str, str]], texts: list[str]) -> list[list[Any] | None]:
    """What node finds: for each pattern None if it refuses it, else for each text None, or index and match."""
    assert NODE
    asked = json.dumps([[source, flags, texts] for source, flags in patterns])
    run = subprocess.run([NODE, "-e", ASK], input=asked, capture_output=True, text=True, check=True)
    answers: list[list[Any] | None] = json.loads(run.stdout)
    return answers


def found(source: str, letters: str, texts: list[str]) -> list[Any]:
    """What re finds, after making sure that the worker's engine finds the same."""
    pattern = record.parse_pattern({"source": source, "flags": letters})
    assert pattern
    matches = [re.search(pattern.source, text, pattern.flags) for text in texts]
    worker = pattern.flags & ~re.ASCII | regex.ASCII * bool(pattern.flags & re.ASCII)  # its number is another there
    others = [regex.search(pattern.source, text, worker | regex.VERSION0) for text in texts]
    answers = [match and [match.start(), match[0]] for match in matches]
    assert answers == [match and [match.start(), match[0]] for match in others], source
    return answers


def differences(patterns: list[tuple[str, str]], texts: list[str]) -> list[Any]:
    """Where node and the translation disagree; `.` and a carriage return are known to."""
    wrong: list[Any] = []
    for (source, flags), wanted in zip(patterns, ask(patterns, texts), strict=True):
        python = translate_pattern(source, flags)
        got = found(*python, texts)
        if wanted is None:
            wrong.append((source, flags, python, "refused by node"))
            continue
        for text, theirs, ours in zip(texts, wanted, got, strict=True):
            if not same(text, theirs, ours) and not ("." in source and "\r" in text):
                wrong.append((source, flags, python, text, theirs, ours))
    return wrong


def same(text: str, wanted: Any, got: Any) -> bool:
    """Equal index and match; of a match in a text with pairs only the index, since JavaScript may find half of one."""
    halves = max(text, default="") > "\uffff"
    return bool(wanted[:1] == got[:1] if halves and wanted and got else wanted == got)


@needs_node
def test_a_translation_finds_what_javascript_finds() -> None:
    assert len(SAME) >= 80
    assert differences(SAME, COMMANDS) == []


@pytest.mark.parametrize(("source", "flags", "why"), REFUSED)
def test_what_python_cannot_say_is_refused_with_a_sentence(source: str, flags: str, why: str) -> None:
    with pytest.raises(UntranslatablePattern) as refusal:
        translate_pattern(source, flags)
    assert why in str(refusal.value)


PIECES = [
    *"abk1.^$|*+?{}[]()-,/ ",
    r"\d",
    r"\w",
    r"\s",
    r"\b",
    r"\B",
    r"\-",
    r"\.",
    r"\\",
    r"\n",
    r"\1",
    r"\k<n>",
    "(?:",
    "(?=",
    ")",
    "(?!",
    "(?<=",
    "(?<n>",
    "(a|b)",
    "(?:a)",
    "(a)?",
    "(k",
    "[^",
    "[a-",
    r"[\w",
    "{2}",
    "{1,2}",
    "{,2}",
    r"\x61",
    r"\u0062",
    r"\cA",
    r"\0",
    "é",
    "&&",
    r"\e",
]


@needs_node
def test_whatever_is_translated_means_the_same(seed: int = 1) -> None:
    dice = random.Random(seed)
    kept: list[tuple[str, str]] = []
    while len(kept) < 2000:
        pattern = "".join(dice.choices(PIECES, k=dice.randint(1, 8))), dice.choice(["", "i", "m", "s", "u", "im"])
        try:
            translate_pattern(*pattern)
            kept.append(pattern)
        except UntranslatablePattern as refusal:
            assert str(refusal)
    texts = [
        "a",
        "b",
        "ab",
        "aab",
        "a1 k",
        "-a,b-",
        "a\nb",
        "a\r\nb",
        "É a",
        "A&&B",
        "{}[]()",
        "a.b",
        "2{2}",
        "\x00\x01",
    ]
    assert differences(kept, texts) == []


@given(st.text(max_size=30), st.sampled_from(["", "i", "u", "s", "iu", "ms"]))
def test_any_text_is_translated_or_refused(source: str, flags: str) -> None:
    try:
        python, letters = translate_pattern(source, flags)
    except UntranslatablePattern:
        return
    assert re.compile(python) and set(letters) <= set("isa")


def test_a_plain_pattern_stays_as_it_was_written() -> None:
    assert translate_pattern(r"mock\.patch\(|@patch\(") == (r"mock\.patch\(|@patch\(", "")
    assert translate_pattern(r"\bgit\s+stash\b") == (r"\bgit\s+stash\b", "a")
    assert translate_pattern(r"test.*\.py$", "i") == (r"test.*\.py\Z", "ia")


def test_modifiers_of_a_group_are_kept_where_python_has_them() -> None:
    """Node 20 does not know them yet, so it cannot be asked."""
    for source, flags, text, matches in [
        ("(?i:git) stash", "", "GIT stash", True),
        ("(?i:git) stash", "", "git STASH", False),
        ("(?-i:git) stash", "i", "git STASH", True),
        ("(?-i:git) stash", "i", "GIT stash", False),
        ("(?m:^b)", "", "a\rb", True),
        ("(?s-m:a.b$)", "m", "a\nb", True),
        ("(?s-m:a.b$)", "m", "a\nb\n", False),
        ("(?i:é)", "", "É", True),
    ]:
        assert bool(found(*translate_pattern(source, flags), [text])[0]) is matches, source
