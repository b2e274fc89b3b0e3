"""Parameters of a request are parsed, or ignored if they are invalid."""

from __future__ import annotations

from hardwon.web.page_request import count_days_since, parse_day_range, parse_number, parse_position


def test_only_whole_numbers_count() -> None:
    for text, number in (("7", 7), ("", None), ("-1", None), ("1.5", None), ("٣", None), ("9" * 16, None)):
        assert parse_number({"n": text}, "n") == number, text


def test_a_position_has_the_expected_number_of_parts() -> None:
    assert parse_position("1763.25-7", 2) == [1763.25, 7]
    for text in ("", "7", "1-2-3", "a-b", "nan-1", "inf-1", "1e99-1", "-1-2"):
        assert parse_position(text, 2) is None, text


def test_days_without_a_date_count_as_not_given() -> None:
    since, until = parse_day_range({"since": "2026-11-01", "until": "2026-11-01"})
    assert (
        since is not None and until is not None and 82_000 < until - since < 90_000
    )  # a day, also with a clock change
    assert parse_day_range({"since": "soon", "until": ""}) == (None, None)


def test_days_are_counted_from_the_first_to_today() -> None:
    now = 1_763_000_000.0
    assert (count_days_since(now, now), count_days_since(now - 3 * 86_400, now)) == (1, 4)
    assert (count_days_since(None, now), count_days_since(now + 86_400 * 9, now)) == (1, 1)
