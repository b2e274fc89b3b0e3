"""A text is found however it is spelled, and what only resembles it is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.text import traces

TEXT = 'the naïve "pelican" of Zanzibar'


@pytest.mark.parametrize(
    "spelled",
    [
        TEXT,
        TEXT.upper(),
        json.dumps(TEXT),
        json.dumps(json.dumps({"a": TEXT})),
        TEXT.replace(" ", "\n"),
        "the-naïve-pelican-of-zanzibar",
        f"before {TEXT} after",
        TEXT[5:],
        TEXT[:-5],
    ],
)
def test_a_text_is_found_however_it_is_spelled(spelled: str) -> None:
    assert traces.has_any_piece(spelled, traces.split_into_pieces(TEXT))


@pytest.mark.parametrize("other", ["", "the naïve one", "a pelican of Zanzibar", "zanzibar", "the pelican"])
def test_a_similar_text_is_not_found(other: str) -> None:
    assert not traces.has_any_piece(other, traces.split_into_pieces(TEXT))


def test_a_long_line_is_searched_for_on_its_own() -> None:
    pieces = traces.split_into_pieces("def f():\n    return the_whole_secret_value\n")
    assert traces.has_any_piece("+    return the_whole_secret_value", pieces)
    assert not traces.has_any_piece("def f(): pass", pieces)


@pytest.mark.parametrize("short", ["", "  ", "a-b", "!!!!!!!"])
def test_a_text_that_is_too_short_is_not_searched_for(short: str) -> None:
    assert traces.split_into_pieces(short) == ()


@given(st.text(min_size=6), st.text(), st.text())
def test_any_text_that_contains_it_is_found_and_has_its_hint(text: str, prefix: str, suffix: str) -> None:
    pieces = traces.split_into_pieces(text)
    full_text = f"{prefix} {text} {suffix}"
    data = json.dumps(full_text, ensure_ascii=False).encode("utf-8", "replace")
    if pieces:
        assert traces.has_any_piece(full_text, pieces)
        if text.isascii() and "\\" not in text:
            hint = traces.build_byte_hints(pieces)
            assert not hint or any(word in data.lower() for word in hint)


@pytest.mark.parametrize(
    "exact_text, text_with_it, text_without_it",
    [
        ("/repo/app", "in /repo/app.", "in /repo/app2"),
        ("/repo/app", '{"cwd":"/repo/app/src"}', '{"cwd":"/repo/app-2"}'),
        ("/repo/app", "/projects/-repo-app/s1.jsonl", "/projects/-repo-app-2/s1.jsonl"),
        ("/repo/naïve", json.dumps("/repo/naïve"), "/mnt/repo/naïve"),
        ("/repo/app", "done\\n/repo/app", "/repo/app.old"),
        ("s1", "/home/dev/s1.jsonl", "s12"),
        ("s1", '["s1"]', "s1-2"),
    ],
)
def test_an_id_or_a_path_is_found_where_it_stands_alone(
    exact_text: str, text_with_it: str, text_without_it: str
) -> None:
    assert (
        traces.has_any_piece(text_with_it, traces.build_exact_pieces(exact_text)),
        traces.has_any_piece(text_without_it, traces.build_exact_pieces(exact_text)),
    ) == (True, False)
