"""Which lessons go into one reply: by priority, within the budget, each claimed only if it goes in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons.selection import count_bytes, select_lessons
from hardwon.types import ManifestEntry


def entry(number: int, length: int = 10, summary: str = "short") -> ManifestEntry:
    return ManifestEntry(
        number=number,
        id=f"id{number}",
        slug=f"s{number}",
        summary=summary,
        text="x" * length,
        reason="",
        delivery="note",
        priority=5,
        tools=("Bash",),
        commands=(),
        target="executable",
        globs=(),
        path_regexes=(),
        contents=(),
        unless=(),
        project="",
    )


def chosen(entries: list[ManifestEntry], *, budget: int, most: int = 3, taken: tuple[str, ...] = ()) -> list[str]:
    found = select_lessons(
        entries,
        budget=budget,
        limit=most,
        format_full=lambda one: one.text,
        format_short=lambda one: one.summary,
        separator="\n\n",
        claim_entry=lambda one: one.id not in taken,
    )
    return [f"{one.slug}:{'full' if text == one.text else 'short'}" for one, text in found]


def test_the_first_goes_in_whole_whatever_its_length() -> None:
    assert chosen([entry(1, 9000)], budget=100) == ["s1:full"]


def test_what_does_not_fit_whole_goes_in_by_its_summary_and_then_not_at_all() -> None:
    entries = [entry(1, 80), entry(2, 80), entry(3, 80, summary="long " * 30)]
    assert chosen(entries, budget=100) == ["s1:full", "s2:short"]


def test_no_more_than_the_most_go_in() -> None:
    entries = [entry(number) for number in range(5)]
    assert chosen(entries, budget=1000) == ["s0:full", "s1:full", "s2:full"]
    assert chosen(entries, budget=1000, most=0) == []


def test_one_that_was_given_before_makes_room_for_the_next() -> None:
    assert chosen([entry(1, 80), entry(2, 80)], budget=100, taken=("id1",)) == ["s2:full"]


def test_one_that_is_left_out_for_room_is_not_claimed() -> None:
    claimed: list[str] = []
    select_lessons(
        [entry(1, 80), entry(2, 80, summary="y" * 90)],
        budget=100,
        limit=3,
        format_full=lambda one: one.text,
        format_short=lambda one: one.summary,
        separator="",
        claim_entry=lambda one: claimed.append(one.id) or True,  # type: ignore[func-returns-value]
    )
    assert claimed == ["id1"]


@given(st.lists(st.integers(0, 300), max_size=8), st.integers(0, 800), st.integers(0, 5))
def test_all_but_the_first_keep_to_the_budget(lengths: list[int], budget: int, most: int) -> None:
    found = select_lessons(
        [entry(number, length) for number, length in enumerate(lengths)],
        budget=budget,
        limit=most,
        format_full=lambda one: one.text,
        format_short=lambda one: one.summary,
        separator="\n\n",
        claim_entry=lambda one: True,
    )
    assert len(found) <= most
    if len(found) > 1:
        assert count_bytes("\n\n".join(text for _, text in found)) <= max(budget, count_bytes(found[0][1]))
