"""What a browser sends is parsed, or counts as not sent."""

from __future__ import annotations

from hardwon.web.page_request import find_neighbours, parse_day_range, parse_number, parse_position


def test_only_whole_numbers_count() -> None:
    for text, number in (("7", 7), ("", None), ("-1", None), ("1.5", None), ("٣", None), ("9" * 16, None)):
        assert parse_number({"n": text}, "n") == number, text


def test_a_position_has_exactly_so_many_numbers() -> None:
    assert parse_position("1763.25-7", 2) == [1763.25, 7]
    for text in ("", "7", "1-2-3", "a-b", "nan-1", "inf-1", "1e99-1", "-1-2"):
        assert parse_position(text, 2) is None, text


def test_days_without_a_date_count_as_not_given() -> None:
    since, until = parse_day_range({"since": "2026-11-01", "until": "2026-11-01"})
    assert (
        since is not None and until is not None and 82_000 < until - since < 90_000
    )  # a day, also with a clock change
    assert parse_day_range({"since": "soon", "until": ""}) == (None, None)


def test_neighbours_of_the_first_and_last_and_of_none() -> None:
    assert find_neighbours([3, 5, 9], 5) == (3, 9)
    assert find_neighbours([3, 5, 9], 3) == (None, 5)
    assert find_neighbours([3, 5, 9], 9) == (5, None)
    assert find_neighbours([3, 5, 9], 4) == (None, None)
