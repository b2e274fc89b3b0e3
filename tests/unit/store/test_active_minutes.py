"""Active minutes leave out pauses."""

from __future__ import annotations

import pytest

from hardwon.store.sessions import count_active_minutes


@pytest.mark.parametrize(
    ("times", "minutes"),
    [
        ([], 0),
        ([100.0], 0),
        ([0, 60, 180], 3),
        ([180, 0, 60], 3),
        ([0, 60, 60 + 8 * 3600, 120 + 8 * 3600], 2),
        ([0, 300, 601], 5),
    ],
)
def test_pauses_do_not_count(times: list[float], minutes: float) -> None:
    assert count_active_minutes(times) == minutes
