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


def time_of_day(hours: int, minutes: int = 0) -> float:
    return hours * HOUR + minutes * MINUTE


def build_activity(number: int = 1, *prompt_times: float, **fields: Any) -> SessionActivity:
    prompt_times = prompt_times or (NINE, NINE + 5 * MINUTE)
    return SessionActivity(**{"id": number, "last_event_at": max(prompt_times), "prompt_times": prompt_times, **fields})


def test_a_session_is_due_fifteen_minutes_after_anything_happened_in_it() -> None:
    session = build_activity(last_event_at=NINE + 10 * MINUTE)
    assert select_due_sessions([session], NINE + 25 * MINUTE - 1, VALUES) == []
    assert select_due_sessions([session], NINE + 25 * MINUTE, VALUES) == [DueSession(1, "idle", NINE + 25 * MINUTE)]


def test_the_idle_limit_grows_with_hours_of_work() -> None:
    def minutes(hours: int) -> float:
        prompt_times = tuple(NINE + half * HOUR / 2 for half in range(2 * hours + 1))
        return compute_idle_limit(build_activity(1, *prompt_times), VALUES) / MINUTE

    assert [minutes(hours) for hours in (0, 1, 4, 7, 10, 40)] == [15, 15, 30, 45, 60, 60]


def test_a_night_between_two_prompts_does_not_count_as_work() -> None:
    assert compute_idle_limit(build_activity(1, NINE, NINE + 24 * HOUR), VALUES) == 15 * MINUTE


def test_the_idle_limit_grows_with_each_reflection() -> None:
    minutes = [compute_idle_limit(build_activity(reflection_count=count), VALUES) / MINUTE for count in range(4)]
    assert minutes == [15, 30, 60, 60]


def test_the_idle_limit_is_longer_while_the_agent_works() -> None:
    assert compute_idle_limit(build_activity(is_under_way=True), VALUES) == 60 * MINUTE


def test_an_ended_session_is_due_at_once_unless_it_was_reopened() -> None:
    ended = build_activity(ended_at=NINE + 6 * MINUTE, is_under_way=True)
    assert select_due_sessions([ended], NINE + 6 * MINUTE, VALUES) == [DueSession(1, "ended", NINE + 6 * MINUTE)]
    again = build_activity(1, *ended.prompt_times, NINE + 7 * MINUTE, ended_at=ended.ended_at)
    assert find_due_time(again, VALUES) == (NINE + 22 * MINUTE, "idle")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"is_private": True}, "it is private"),
        ({"is_denied": True}, "nothing is recorded in its folder"),
        ({"handed_off_at": time_of_day(9, 6)}, "it was handed off"),
        ({"handed_off_at": time_of_day(9, 1)}, "it was handed off"),
        ({"reflected_until": time_of_day(9, 5)}, "it was reflected on, and nothing was asked since"),
        ({"prompt_times": (NINE,)}, "it is too short"),
        ({"prompt_times": (), "last_event_at": NINE}, "nothing was asked in it"),
    ],
)
def test_a_skipped_session_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    session = build_activity(**fields)
    assert find_skip_reason(session, VALUES) == reason
    assert select_due_sessions([session, replace(session, ended_at=NINE + HOUR)], NINE + 2 * HOUR, VALUES) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_times": (NINE,), "queued_count": 1},
        {"prompt_times": (NINE,), "call_count": MIN_CALLS},
        {"handed_off_at": time_of_day(8)},
        {"reflected_until": time_of_day(9, 1)},
    ],
    ids=["said something to remember", "much was done", "handed off before two prompts", "went on after a reflection"],
)
def test_a_session_worth_a_draft_is_due(fields: dict[str, Any]) -> None:
    assert [
        due_session.reason for due_session in select_due_sessions([build_activity(**fields)], NINE + HOUR, VALUES)
    ] == ["idle"]


def test_reflection_can_be_turned_off_or_limited_to_ended_sessions() -> None:
    sessions = [build_activity(1), build_activity(2, ended_at=time_of_day(9, 10))]
    assert select_due_sessions(sessions, time_of_day(10), {**VALUES, "autoReflect": False}) == []
    assert [
        due_session.id for due_session in select_due_sessions(sessions, time_of_day(10), {**VALUES, "idleMinutes": 0})
    ] == [2]


def test_a_session_idle_for_too_long_is_not_due() -> None:
    assert select_due_sessions([build_activity()], build_activity().last_event_at + MAX_AGE_SECONDS, VALUES) == []
    assert (
        len(select_due_sessions([build_activity()], build_activity().last_event_at + MAX_AGE_SECONDS - 1, VALUES)) == 1
    )


def test_a_model_may_reflect_on_twenty_sessions_a_day() -> None:
    sessions = [build_activity(number, time_of_day(9), time_of_day(9, number % 7)) for number in range(30)]
    due_sessions = select_due_sessions(sessions, time_of_day(10), {**VALUES, "llm.provider": "claude"})
    assert sorted(due_session.id for due_session in due_sessions) == list(range(30))
    assert [due_session.can_use_model for due_session in due_sessions] == [True] * 20 + [False] * 10
    assert (
        sum(
            due_session.can_use_model
            for due_session in select_due_sessions(
                sessions, time_of_day(10), {**VALUES, "llm.provider": "claude"}, model_reflections_today=15
            )
        )
        == 5
    )
    assert (
        sum(
            due_session.can_use_model
            for due_session in select_due_sessions(
                sessions, time_of_day(10), {**VALUES, "llm.provider": "claude"}, model_reflections_today=99
            )
        )
        == 0
    )
    assert not any(due_session.can_use_model for due_session in select_due_sessions(sessions, time_of_day(10), VALUES))


DAY = (
    # what happens to eight sessions: hour, minute, session, action
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


def apply_action(session: SessionActivity, now: float, action: str) -> SessionActivity:
    if action in ("private", "denied"):
        return replace(session, **{f"is_{action}": True}, prompt_times=(*session.prompt_times, now), last_event_at=now)
    changes: dict[str, dict[str, Any]] = {
        "prompt": {"prompt_times": (*session.prompt_times, now), "is_under_way": True},
        "stop": {"is_under_way": False},
        "end": {"ended_at": now},
        "handoff": {"prompt_times": (*session.prompt_times, now), "handed_off_at": now, "is_under_way": False},
    }
    return replace(session, last_event_at=now, **changes[action])


def test_eight_sessions_of_a_day_are_reflected_on_once_and_in_time() -> None:
    sessions = {number: SessionActivity(number, 0.0, ()) for number in range(1, 9)}
    fired: list[tuple[int, str, float]] = []
    for minute in range(8 * 60, 24 * 60):
        now = minute * MINUTE
        for hours, minutes, number, action in DAY:
            if time_of_day(hours, minutes) == now:
                sessions[number] = apply_action(sessions[number], now, action)
        for due_session in select_due_sessions(sessions.values(), now, VALUES):
            fired.append((due_session.id, due_session.reason, now))
            sessions[due_session.id] = replace(
                sessions[due_session.id],
                reflected_until=now,
                reflection_count=sessions[due_session.id].reflection_count + 1,
            )
    assert fired == [
        (2, "ended", time_of_day(9, 12)),
        (1, "idle", time_of_day(9, 21)),
        (7, "idle", time_of_day(9, 50)),
        (7, "idle", time_of_day(12, 21)),
        (8, "idle", time_of_day(13, 17)),
        (8, "ended", time_of_day(15, 2)),
        (7, "idle", time_of_day(17, 35)),
    ]


def test_a_timer_every_ten_minutes_finds_a_session_slightly_later() -> None:
    session, fired = build_activity(), list[float]()
    for minute in range(9 * 60, 12 * 60, 10):
        for _ in select_due_sessions([session], minute * MINUTE, VALUES):
            fired.append(minute * MINUTE)
            session = replace(session, reflected_until=minute * MINUTE)
    assert fired == [time_of_day(9, 20)]
