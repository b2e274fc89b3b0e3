from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hardwon.handoff.idle_sessions import (
    HOUR,
    MAX_AGE_SECONDS,
    MIN_CALLS,
    MINUTE,
    DueSession,
    SessionActivity,
    compute_idle_limit,
    find_due_time,
    find_skip_reason,
    select_due_sessions,
)
from hardwon.types import replace

VALUES: Mapping[str, Any] = {
    "autoReflect": True,
    "idleMinutes": 15,
    "reflectMinPrompts": 2,
    "caps.reflectionsPerDay": 20,
    "llm.provider": "none",
}
NINE = 9 * HOUR


def at(hours: int, minutes: int = 0) -> float:
    return hours * HOUR + minutes * MINUTE


def quiet(id: int = 1, *prompted: float, **known: Any) -> SessionActivity:
    prompted = prompted or (NINE, NINE + 5 * MINUTE)
    return SessionActivity(**{"id": id, "last_event_at": max(prompted), "prompt_times": prompted, **known})


def test_a_session_is_due_fifteen_minutes_after_anything_happened_in_it() -> None:
    session = quiet(last_event_at=NINE + 10 * MINUTE)
    assert select_due_sessions([session], NINE + 25 * MINUTE - 1, VALUES) == []
    assert select_due_sessions([session], NINE + 25 * MINUTE, VALUES) == [DueSession(1, "idle", NINE + 25 * MINUTE)]


def test_the_longer_somebody_worked_the_longer_a_break_may_be() -> None:
    def minutes(hours: int) -> float:
        worked = tuple(NINE + half * HOUR / 2 for half in range(2 * hours + 1))
        return compute_idle_limit(quiet(1, *worked), VALUES) / MINUTE

    assert [minutes(hours) for hours in (0, 1, 4, 7, 10, 40)] == [15, 15, 30, 45, 60, 60]


def test_a_night_between_two_prompts_is_no_work() -> None:
    assert compute_idle_limit(quiet(1, NINE, NINE + 24 * HOUR), VALUES) == 15 * MINUTE


def test_who_comes_back_after_a_reflection_may_take_longer_breaks() -> None:
    minutes = [compute_idle_limit(quiet(reflection_count=count), VALUES) / MINUTE for count in range(4)]
    assert minutes == [15, 30, 60, 60]


def test_an_agent_that_has_not_answered_may_take_longer() -> None:
    assert compute_idle_limit(quiet(is_under_way=True), VALUES) == 60 * MINUTE


def test_a_session_that_ended_is_due_at_once_and_not_when_it_was_opened_again() -> None:
    ended = quiet(ended_at=NINE + 6 * MINUTE, is_under_way=True)
    assert select_due_sessions([ended], NINE + 6 * MINUTE, VALUES) == [DueSession(1, "ended", NINE + 6 * MINUTE)]
    again = quiet(1, *ended.prompt_times, NINE + 7 * MINUTE, ended_at=ended.ended_at)
    assert find_due_time(again, VALUES) == (NINE + 22 * MINUTE, "idle")


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"is_private": True}, "it is private"),
        ({"is_denied": True}, "nothing is recorded in its folder"),
        ({"handed_off_at": at(9, 6)}, "it was handed off"),
        ({"handed_off_at": at(9, 1)}, "it was handed off"),
        ({"reflected_until": at(9, 5)}, "it was reflected on, and nothing was asked since"),
        ({"prompt_times": (NINE,)}, "it is too short"),
        ({"prompt_times": (), "last_event_at": NINE}, "nothing was asked in it"),
    ],
)
def test_what_is_left_alone_says_why(known: dict[str, Any], why: str) -> None:
    session = quiet(**known)
    assert find_skip_reason(session, VALUES) == why
    assert select_due_sessions([session, replace(session, ended_at=NINE + HOUR)], NINE + 2 * HOUR, VALUES) == []


@pytest.mark.parametrize(
    "known",
    [
        {"prompt_times": (NINE,), "queued_count": 1},
        {"prompt_times": (NINE,), "call_count": MIN_CALLS},
        {"handed_off_at": at(8)},
        {"reflected_until": at(9, 1)},
    ],
    ids=["said something to remember", "much was done", "handed off before two prompts", "went on after a reflection"],
)
def test_what_is_worth_a_draft_is_due(known: dict[str, Any]) -> None:
    assert [one.reason for one in select_due_sessions([quiet(**known)], NINE + HOUR, VALUES)] == ["idle"]


def test_it_can_be_turned_off_and_left_to_ends() -> None:
    sessions = [quiet(1), quiet(2, ended_at=at(9, 10))]
    assert select_due_sessions(sessions, at(10), {**VALUES, "autoReflect": False}) == []
    assert [one.id for one in select_due_sessions(sessions, at(10), {**VALUES, "idleMinutes": 0})] == [2]


def test_what_was_left_long_ago_stays_left() -> None:
    assert select_due_sessions([quiet()], quiet().last_event_at + MAX_AGE_SECONDS, VALUES) == []
    assert len(select_due_sessions([quiet()], quiet().last_event_at + MAX_AGE_SECONDS - 1, VALUES)) == 1


def test_of_thirty_that_are_due_a_model_may_have_twenty_and_plain_code_has_the_rest() -> None:
    sessions = [quiet(number, at(9), at(9, number % 7)) for number in range(30)]
    found = select_due_sessions(sessions, at(10), {**VALUES, "llm.provider": "claude"})
    assert sorted(one.id for one in found) == list(range(30))
    assert [one.can_use_model for one in found] == [True] * 20 + [False] * 10
    assert (
        sum(
            one.can_use_model
            for one in select_due_sessions(
                sessions, at(10), {**VALUES, "llm.provider": "claude"}, model_reflections_today=15
            )
        )
        == 5
    )
    assert (
        sum(
            one.can_use_model
            for one in select_due_sessions(
                sessions, at(10), {**VALUES, "llm.provider": "claude"}, model_reflections_today=99
            )
        )
        == 0
    )
    assert not any(one.can_use_model for one in select_due_sessions(sessions, at(10), VALUES))


DAY = (
    # what happens to eight sessions: the hour, the minute, the session, what
    (9, 0, 1, "prompt"),
    (9, 5, 1, "prompt"),
    (9, 6, 1, "stop"),
    (9, 0, 2, "prompt"),
    (9, 10, 2, "prompt"),
    (9, 11, 2, "stop"),
    (9, 12, 2, "end"),
    (9, 20, 3, "prompt"),
    (9, 25, 3, "prompt"),
    (9, 30, 3, "handoff"),
    (10, 0, 4, "prompt"),
    (10, 1, 4, "stop"),
    (10, 0, 5, "private"),
    (10, 5, 5, "prompt"),
    (10, 9, 5, "end"),
    (10, 0, 6, "denied"),
    (10, 5, 6, "prompt"),
    (10, 9, 6, "stop"),
    # open all day, something every half hour, and an hour and a half for lunch
    *((9 + half // 2, 30 * (half % 2), 7, "prompt") for half in range(16) if half not in (6, 7)),
    *((9 + half // 2, 30 * (half % 2) + 5, 7, "stop") for half in range(16) if half not in (6, 7)),
    (13, 0, 8, "prompt"),
    (13, 1, 8, "prompt"),
    (13, 2, 8, "stop"),
    (15, 0, 8, "prompt"),
    (15, 1, 8, "stop"),
    (15, 2, 8, "end"),
)


def happen(session: SessionActivity, now: float, what: str) -> SessionActivity:
    if what in ("private", "denied"):
        return replace(session, **{f"is_{what}": True}, prompt_times=(*session.prompt_times, now), last_event_at=now)
    every: dict[str, dict[str, Any]] = {
        "prompt": {"prompt_times": (*session.prompt_times, now), "is_under_way": True},
        "stop": {"is_under_way": False},
        "end": {"ended_at": now},
        "handoff": {"prompt_times": (*session.prompt_times, now), "handed_off_at": now, "is_under_way": False},
    }
    return replace(session, last_event_at=now, **every[what])


def test_on_a_day_of_eight_sessions_the_right_ones_are_reflected_on_once_and_in_time() -> None:
    sessions = {number: SessionActivity(number, 0.0, ()) for number in range(1, 9)}
    fired: list[tuple[int, str, float]] = []
    for minute in range(8 * 60, 24 * 60):
        now = minute * MINUTE
        for hours, minutes, number, what in DAY:
            if at(hours, minutes) == now:
                sessions[number] = happen(sessions[number], now, what)
        for one in select_due_sessions(sessions.values(), now, VALUES):
            fired.append((one.id, one.reason, now))
            sessions[one.id] = replace(
                sessions[one.id], reflected_until=now, reflection_count=sessions[one.id].reflection_count + 1
            )
    assert fired == [
        (2, "ended", at(9, 12)),
        (1, "idle", at(9, 21)),
        (7, "idle", at(9, 50)),
        (7, "idle", at(12, 21)),
        (8, "idle", at(13, 17)),
        (8, "ended", at(15, 2)),
        (7, "idle", at(17, 35)),
    ]


def test_a_timer_every_ten_minutes_finds_the_same_a_little_later() -> None:
    session, fired = quiet(), list[float]()
    for minute in range(9 * 60, 12 * 60, 10):
        for _ in select_due_sessions([session], minute * MINUTE, VALUES):
            fired.append(minute * MINUTE)
            session = replace(session, reflected_until=minute * MINUTE)
    assert fired == [at(9, 20)]
