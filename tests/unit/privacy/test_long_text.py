"""A long text is cut before secrets are looked for, and nothing private or secret comes through the cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.privacy import event_filter
from hardwon.privacy.truncation import MARGIN_CHARS, MAX_NODES, MAX_STRIPPED_CHARS, clean_long_text, prune_value
from hardwon.types import Event

MAX_CHARS = 3_000
KEY = "ghp_" + "A1b2C3d4E5f6G7h8" * 2 + "J9k0"
LINE = "2026-11-16 12:00:00 the harbour is calm and the boats are in\n"
LONG = LINE * 1_000
PEM = (
    "-----BEGIN RSA PRIVATE"
    + " KEY-----\n"
    + "MIIabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXY+\n" * 40
)
NEEDLE = "zimtwaffel"


def filter_response(response: Any) -> Any:
    event = Event("claude-code", "PostToolUse", "s1", "/x", id="e1", at=1.0, tool="Bash", response=response)
    filtered = event_filter.filter_transcript_event(event, {"maxEventChars": MAX_CHARS})
    assert filtered is not None
    return filtered.response


def test_a_long_text_keeps_head_and_tail_and_says_what_was_cut() -> None:
    text = clean_long_text("begin " + LONG + " the end", MAX_CHARS)
    head, _, tail = text.partition("\n[… ")
    number, _, tail = tail.partition(" characters cut …]\n")
    assert head.startswith("begin ") and tail.endswith(" the end") and len(text) <= MAX_CHARS
    assert int(number.replace(",", "")) == len("begin " + LONG + " the end") - len(head) - len(tail)


@given(st.integers(0, len(LONG)))
def test_a_key_anywhere_leaves_nothing_of_itself(at: int) -> None:
    text = f"{LONG[:at]} {KEY} {LONG[at:]}"
    assert not find_pieces(KEY[4:], clean_long_text(text, MAX_CHARS))


@pytest.mark.parametrize("cut", ["head", "tail", "head margin", "tail margin"])
def test_a_key_across_a_cut_leaves_nothing_of_itself(cut: str) -> None:
    cut_position = {
        "head": MAX_CHARS - MAX_CHARS // 3,
        "head margin": MAX_CHARS - MAX_CHARS // 3 + MARGIN_CHARS,
        "tail": len(LONG) - MAX_CHARS // 3,
        "tail margin": len(LONG) - MAX_CHARS // 3 - MARGIN_CHARS,
    }[cut]
    for start in range(cut_position - len(KEY) - 1, cut_position + 1):
        text = f"{LONG[:start]} {KEY} {LONG[start:]}"
        for cleaned in (
            clean_long_text(text, MAX_CHARS),
            filter_response({"stdout": text})["stdout"],
            "\n".join(filter_response(text.split("\n"))),
        ):
            assert not find_pieces(KEY[4:], cleaned), start


def find_pieces(secret: str, text: str) -> list[str]:
    return [secret[at : at + 6] for at in range(len(secret) - 5) if secret[at : at + 6] in text]


@given(st.integers(0, len(LONG)))
def test_a_private_key_of_many_lines_leaves_nothing_of_itself(at: int) -> None:
    text = LONG[:at] + PEM + "-----END RSA PRIVATE" + " KEY-----\n" + LONG[at:]
    assert "MIIabc" not in clean_long_text(text, MAX_CHARS)


@given(st.integers(0, len(LONG)), st.integers(0, len(LONG)))
def test_a_private_part_that_opens_anywhere_hides_what_is_in_it(start: int, length: int) -> None:
    inner = (f"{NEEDLE} " * 10_000)[: max(length, 20)]
    text = f"{LONG[:start]}<private>{inner}</private>{LONG[start:]}"
    assert NEEDLE[:5] not in clean_long_text(text, MAX_CHARS)
    assert NEEDLE[:5] not in str(filter_response({"stdout": text}))


def test_the_end_of_a_very_long_text_with_tags_is_dropped() -> None:
    text = f"{LINE * 800}<private>{'x ' * (MAX_STRIPPED_CHARS // 2)}{NEEDLE}</private>{NEEDLE}"
    cleaned = clean_long_text(text, MAX_CHARS)
    assert NEEDLE not in cleaned and cleaned.startswith(LINE)


def test_a_large_value_is_cut_to_its_first_items_and_says_how_many_are_gone() -> None:
    blocks = [{"type": "text", "text": f"line {number}"} for number in range(60_000)]
    pruned = prune_value(blocks, MAX_CHARS)
    assert pruned[0] == blocks[0] and len(pruned) < MAX_NODES
    assert pruned[-1] == f"[… {60_000 - len(pruned) + 1:,} items left out …]"
    filtered = filter_response(blocks)
    assert filtered[-1] == f"[… {60_000 - len(filtered) + 1:,} items left out …]"
    keys = filter_response({f"key {number}": 1 for number in range(100_000)})
    assert keys["…"] == f"[… {100_000 - len(keys) + 1:,} keys left out …]"


def test_values_beside_a_long_text_stay() -> None:
    filtered = filter_response({"stdout": LONG * 3, "stderr": "it failed", "interrupted": False})
    assert (
        filtered["stderr"] == "it failed"
        and filtered["interrupted"] is False
        and "characters cut" in filtered["stdout"]
    )


def test_a_long_key_and_values_of_secret_names_are_removed() -> None:
    filtered = str(filter_response({"k" * 5_000: 1, "password": f"{NEEDLE} " * 10_000}))
    assert NEEDLE not in filtered and "kkk" not in filtered and "5,000 characters" in filtered


@given(
    st.recursive(
        st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)
    )
)
def test_a_small_value_is_not_changed(value: Any) -> None:
    assert prune_value(value, MAX_CHARS) == value
