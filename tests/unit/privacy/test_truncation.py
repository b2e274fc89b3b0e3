"""Trimmed values have a note and never exceed their bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.privacy.truncation import MAX_DEPTH, prune_value, trim_text, trim_value
from hardwon.text.light_json import dumps

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=40,
)


def test_a_long_text_keeps_head_and_tail_and_says_what_was_cut() -> None:
    text = "h" * 10_000 + "t" * 10_000
    short = trim_text(text, 1_000)
    head, cut_note, tail = short.split("\n")
    assert cut_note == f"[… {len(text) - len(head) - len(tail):,} characters cut …]"
    assert (set(head), set(tail)) == ({"h"}, {"t"})
    assert abs(len(head) - 2 * len(tail)) < 4
    assert 990 < len(short) <= 1_000


@pytest.mark.parametrize("limit", [-1, 0, 1, 5, 25])
def test_a_bound_too_small_for_the_note_gives_the_beginning(limit: int) -> None:
    assert trim_text("a" * 1_000, limit) == "a" * max(limit, 0)


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_trimmed_text_never_exceeds_its_bound(text: str, limit: int) -> None:
    short = trim_text(text, limit)
    assert len(short) <= limit
    assert (short == text) is (len(text) <= limit)
    assert trim_text(short, limit) == short


def test_a_value_that_fits_is_unchanged() -> None:
    value = {"a": [1, 2.5, None, True, "é"], "b": {"c": ""}}
    assert trim_value(value, 100, 1_000) == value


def test_one_long_string_does_not_starve_the_rest() -> None:
    short = trim_value({"first": "x" * 50_000, "then": "y" * 50_000, "last": [1, "z"]}, 40_000, 5_000)
    assert short["last"] == [1, "z"]
    assert all("characters cut" in short[key] and len(short[key]) > 1_000 for key in ("first", "then"))
    assert len(dumps(short)) <= 5_000


def test_items_and_keys_that_are_left_out_are_counted() -> None:
    short = trim_value(list(range(100_000)), 100, 1_000)
    assert short[:3] == [0, 1, 2]
    assert short[-1] == f"[… {100_000 - len(short) + 1:,} items left out …]"
    keys = trim_value({f"key {number}": number for number in range(10_000)}, 100, 1_000)
    assert keys["key 0"] == 0
    assert keys["…"] == f"[… {10_000 - len(keys) + 1:,} keys left out …]"


def test_a_value_nested_too_deep_is_left_out() -> None:
    value: Any = ["end"]
    for _ in range(100_000):
        value = [value]
    short = prune_value(value, 1_000)
    depth = 0
    while isinstance(short, list):
        short, depth = short[0], depth + 1
    assert (depth, short) == (MAX_DEPTH, "[… left out: nested too deep …]")


def test_a_value_of_which_nothing_fits_says_so() -> None:
    assert trim_value({"a" * 70: {"b" * 70: ["c" * 70]}}, 100, 60) == "[left out: too large]"


@given(JSON, st.integers(1, 80), st.integers(2, 300))
def test_a_trimmed_value_never_exceeds_its_bounds(value: Any, max_string: int, max_total: int) -> None:
    short = trim_value(value, max_string, max_total)
    assert len(dumps(short)) <= max_total


def test_a_large_value_is_trimmed_in_linear_time() -> None:
    wide = [{"id": number, "text": "é" * 20} for number in range(100_000)]
    assert len(dumps(trim_value(wide, 1_000, 20_000))) <= 20_000
    assert len(trim_value("x" * 5_000_000, 20_000, 100_000)) <= 20_000
