"""`light_json` behaves as the standard `json`: same values, same refusals, same text."""

from __future__ import annotations

import enum
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.text import light_json

any_text = st.text(st.characters())  # lone surrogates included
scalars = st.none() | st.booleans() | st.integers() | st.floats() | any_text
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=20,
)
# Texts that are nearly JSON: JSON with parts removed, added or repeated.
fragments = st.sampled_from(
    [*'{}[],:"\\/ \t\r\n-+.eE01', "null", "true", "NaN", "-Infinity", "\\u", "\\ud800", "\ufeff"]
)
nearly = st.lists(fragments | plain.map(json.dumps), max_size=8).map("".join)
cut = st.tuples(plain.map(json.dumps), st.integers(0, 40)).map(
    lambda text_and_cut: text_and_cut[0][: -text_and_cut[1] or None]
)


def describe_outcome(load: Callable[[str], Any], text: str) -> str:
    """Return the repr of the value, so that 1, 1.0 and True differ and NaN equals itself, or "refused"."""
    try:
        return repr(load(text))
    except ValueError:
        return "refused"


def load_standard(text: str) -> Any:
    """Load with the standard module, accepting raw control characters as ours does: agents write them."""
    return json.loads(text, strict=False)


@given(nearly | cut | st.text())
@example("")
@example(" \n")
@example("\ufeff{}")
@example('{"a":1,"a":2}')
@example("[NaN,Infinity,-Infinity]")
@example('"\\ud800"')
@example('"\\ud83d\\ude00"')
@example('"tab\there"')
@example("1 2")
@example("{} x")
@example("[1,]")
@example("\u00a01")
@example("01")
@example("1e999")
@example("-")
@example("1" * 4000)
@example("1" * 5000)
def test_every_text_is_read_or_refused_as_by_the_standard_module(text: str) -> None:
    assert describe_outcome(light_json.loads, text) == describe_outcome(load_standard, text)


@given(plain, st.sampled_from([None, 0, 2]), st.booleans())
def test_output_of_the_standard_module_is_read_back(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(light_json.loads(text)) == repr(value)


@given(plain)
@example([math.nan, math.inf, -math.inf])
@example({"a": {"b": [True, False, None, -0.0, 1e300, 10**40]}})
def test_output_equals_that_of_the_standard_module(value: object) -> None:
    assert light_json.dumps(value) == json.dumps(value, separators=(",", ":"))


@given(plain)
def test_output_is_ascii_and_can_be_read_by_both(value: object) -> None:
    text = light_json.dumps(value)
    assert text.isascii()
    assert repr(json.loads(text)) == repr(light_json.loads(text)) == repr(value)


def test_tuples_are_written_as_lists_and_keys_that_are_not_text_are_refused() -> None:
    assert light_json.dumps((1, (2,))) == "[1,[2]]"
    for key in (1, 1.5, True, None):
        with pytest.raises(TypeError):
            light_json.dumps({key: "a"})


def test_numbers_of_a_class_of_their_own_are_written_as_numbers() -> None:
    class Level(enum.IntEnum):
        HIGH = 7

    assert light_json.dumps([Level.HIGH]) == "[7]"


def test_a_text_of_a_class_of_its_own_is_written_as_text() -> None:
    class Kind(enum.StrEnum):
        NOTE = "note"

    assert light_json.dumps({"kind": Kind.NOTE, Kind.NOTE: 1}) == '{"kind":"note","note":1}'


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {"a": {"b": object()}}, {(1, 2): "a"}])
def test_a_value_that_json_lacks_is_refused(value: object) -> None:
    for dumps in (json.dumps, light_json.dumps):
        with pytest.raises(TypeError):
            dumps(value)


@pytest.mark.parametrize("text", ["[" * 200_000, "[" * 200_000 + "]" * 200_000, '{"a":' * 200_000])
def test_nesting_too_deep_is_an_error_as_any_other(text: str) -> None:
    with pytest.raises(ValueError):
        light_json.loads(text)


def test_writing_a_deeply_nested_value_is_an_error_not_a_crash() -> None:
    value: list[object] = []
    for _ in range(200_000):
        value = [value]
    for dumps in (json.dumps, light_json.dumps):
        with pytest.raises((RecursionError, ValueError)):
            dumps(value)


def test_hundreds_of_nested_lists_are_read() -> None:
    text = "[" * 400 + "]" * 400
    assert light_json.dumps(light_json.loads(text)) == text


def test_the_error_says_line_and_column() -> None:
    with pytest.raises(ValueError, match=r"line 2 column 9"):
        light_json.loads('{"a": 1,\n "b": 2 "c": 3}')


def test_reading_a_good_text_does_not_import_json() -> None:
    code = (
        "import sys\nfrom hardwon.text import light_json\nlight_json.loads(light_json.dumps({'a': [1, 2.5, None, 'x']}))\n"
        "print({'json', 're'} & set(sys.modules))"
    )
    assert run_code(code) == "set()"


def test_an_interpreter_without_the_c_scanner_reads_and_writes_the_same() -> None:
    code = (
        "import sys\nsys.modules['_json'] = None\nfrom hardwon.text import light_json\n"
        'value = light_json.loads(\'{"a": [1, 2.5, null, "\\\\u00e9", NaN]}\')\nprint(light_json.dumps(value))'
    )
    assert run_code(code) == '{"a":[1,2.5,null,"\\u00e9",NaN]}'


def run_code(code: str) -> str:
    """Return what a fresh interpreter, started like a hook's, prints."""
    source = light_json.__file__.removesuffix("hardwon/text/light_json.py")
    start = f"import sys; sys.path.insert(0, {source!r})\n"
    process = subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()
