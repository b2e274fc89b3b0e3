"""Private parts and our own injected text are removed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.privacy.private_tags import (
    MAX_TAGS,
    TAG_NAMES,
    WITHHELD_TEXT,
    is_wholly_private,
    strip_private,
    strip_private_deep,
)
from hardwon.text import fence

MARK = "swordfish"
LARGE = 5_000_000
PIECES = [
    "<private>",
    "</private>",
    "<hardwon-context>",
    "</hardwon-context>",
    "<PRIVATE x>",
    "< private >",
    "<pri",
    "vate>",
]
PIECES += ["\\u003cprivate\\u003e", "<\\/private>", "private", "<", ">", "/", "\\", " ", "a", "é", "\udc80", "\0", "\n"]


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("a <private>x</private> b", "a  b"),
        ("a <PRIVATE>x</Private> b", "a  b"),
        ('a <private reason="mine">x</private > b', "a  b"),
        ("a < private >x< / private > b", "a  b"),
        ("a <private\nx</private> b", "a  b"),
        ("a <hardwon-context>x</hardwon-context> b", "a  b"),
        ("a <claude-mem-context>x</claude-mem-context> b", "a  b"),
        ("a <private>x <private>y</private> z</private> b", "a  b"),
        ("a <private>x <hardwon-context>y</hardwon-context> z</private> b", "a  b"),
        ("a <private>x<hardwon-context>y</private>z</hardwon-context> b", "a  b"),
        ("a <private>x<hardwon-context>y</private>z", "a "),
        ("a <private>x", "a "),
        ("a <private", "a "),
        ("a <private/>x", "a "),
        ("a </private> b", "a  b"),
        ("a</private><private>x</private>b", "ab"),
        ("<private>x</private></private>b", "b"),
        ("a <private>x</privat> b", "a "),
        ("a <private>x</private b", "a "),
        ("a <pri<private>x</private>vate>y</private> b", "a "),
        (r"a \u003cprivate\u003ex\u003c/private\u003e b", "a  b"),
        (r"a \u003Cprivate>x<\/private> b", "a  b"),
        (r"a \\u003cprivate\\u003ex\\u003c\\/private\\u003e b", "a  b"),
        (r"a \x3cprivate>x\x3c\u002fprivate\x3e b", "a  b"),
    ],
)
def test_private_parts_are_removed(text: str, expected_text: str) -> None:
    assert strip_private(text) == expected_text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "private int x; List<String> y;",
        "if (count < private_count) {",
        "x = a < private and b",
        "<private-key>x</private-key>",
        "<privateer>x</privateer>",
        "&lt;private&gt; is how it is shown",
        "/private/var/folders",
        "1 < 2 > 1 </b>",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert strip_private(text) is text


def test_our_own_fence_is_removed_completely() -> None:
    inside = fence.fence_text(f"{MARK} {fence.FENCE_CLOSE} <private> {fence.FENCE_OPEN} {MARK}")
    assert MARK not in strip_private(f"before {inside} after")
    assert strip_private(f"before {fence.fence_text(MARK)} after") == "before  after"


def test_a_text_with_too_many_tags_is_withheld() -> None:
    pair = "<private>x</private>"
    assert strip_private(f"a{pair * (MAX_TAGS // 2)}b") == "ab"
    assert strip_private(f"a{pair * (MAX_TAGS // 2)}b</private>") == WITHHELD_TEXT


@pytest.mark.parametrize(
    "piece",
    [
        "<private>",
        "</private>",
        "<private>x</private>",
        "<private ",
        "</private",
        "<pri",
        "< private",
        "private\\",
        "<\\/",
    ],
)
def test_large_hostile_text_is_stripped_in_linear_time(piece: str) -> None:
    text = piece * (LARGE // len(piece))
    assert MARK not in strip_private(f"{text} <private>{MARK}</private>")


@given(st.text(), st.sampled_from(TAG_NAMES), st.text())
def test_marked_text_never_survives(prefix: str, kind: str, suffix: str) -> None:
    stripped = strip_private(f"{prefix}<{kind}>{MARK}</{kind}>{suffix}")
    assert MARK not in stripped
    assert strip_private(json.dumps(f"<{kind}>{MARK}</{kind}>")) == '""'


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_stripping_again_changes_nothing(text: str) -> None:
    assert strip_private(strip_private(text)) == strip_private(text)


@given(st.text(alphabet=st.characters()))
def test_any_text_without_a_tag_is_left_alone(text: str) -> None:
    assert strip_private(text) == text


@pytest.mark.parametrize(
    ("prompt", "private"),
    [
        ("<private>x</private>", True),
        (" \n<private>x</private>\t<private>y", True),
        ("<private>x" * (MAX_TAGS + 1), True),
        ("", False),
        ("  \n", False),
        ("<private>x</private> do it", False),
        ("do it", False),
    ],
)
def test_a_prompt_with_only_private_parts_is_private(prompt: str, private: bool) -> None:
    assert is_wholly_private(prompt) is private


def test_every_string_and_key_of_a_value_is_stripped_by_itself() -> None:
    value = {"a<private>k</private>": ["x<private>y", "z</private>", 1, None, True, {"b": ("<private>c",)}]}
    assert strip_private_deep(value) == {"a": ["x", "z", 1, None, True, {"b": [""]}]}


def test_a_value_nested_a_hundred_thousand_deep_is_stripped() -> None:
    value: Any = f"<private>{MARK}"
    for _ in range(100_000):
        value = [value]
    stripped = strip_private_deep(value)
    while isinstance(stripped, list):
        stripped = stripped[0]
    assert stripped == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_value_without_tags_stays_equal(value: Any) -> None:
    assert strip_private_deep(value) == value


@given(st.lists(st.sampled_from(["list", "key", "value"]), max_size=30))
def test_marked_text_in_any_nesting_does_not_survive(path: list[str]) -> None:
    value: Any = f"a <private>{MARK}</private>"
    for step in path:
        inner = json.dumps(value)
        value = {"list": [1, value], "key": {inner: 1}, "value": {"k": value}}[step]
    assert MARK not in json.dumps(strip_private_deep(value))


def test_ordinary_text_is_stripped_and_redacted_without_loading_re() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from hardwon.privacy.private_tags import strip_private_deep\nfrom hardwon.privacy.redaction import redact_value\n"
        "from hardwon.privacy.truncation import trim_value\n"
        "payload = {'cwd': '/home/dev/project', 'usage': {'input_tokens': 3}, 'command': 'private int x; git log',\n"
        " 'tool_use_id': 'toolu_01A09q90qw90lq917835lq9', 'out': 'commit 9fceb02d0ae598e95dc970b74767f19372d61af8'}\n"
        "assert trim_value(redact_value(strip_private_deep(payload)), 9000, 9000) == payload\n"
        "print([name for name in ('re', 'json', 'enum', 'typing', 'dataclasses') if name in sys.modules])"
    )
    root = __file__.rpartition("/tests/")[0] + "/src"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
