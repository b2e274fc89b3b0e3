"""A turn is distilled again when its stored events change, and its observations are replaced together."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hardwon.data import imports
from hardwon.store import db, events, jobs, observations, retention, sessions, turns
from hardwon.store.events import Report
from hardwon.types import Observation, Summary, Turn, replace
from tests.support.new_store import connect_to_new_store

NOON = 1_790_000_000.0
DAY = 86_400.0


@pytest.fixture
def store(own_home: str) -> db.Connection:
    return connect_to_new_store(os.path.join(own_home, ".hardwon"))


def store_report(store: db.Connection, kind: str, minute: float, **fields: Any) -> None:
    defaults = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "key": f"{kind}-{minute}", "kind": kind}
    with db.transaction(store):
        project = events.find_or_create_project(store, "/home/dev/app", "", NOON)
        events.store_report(store, Report(**{**defaults, "at": NOON + 60 * minute, "project": project, **fields}))


def store_prompt(store: db.Connection, words: str, minute: float, **fields: Any) -> None:
    store_report(store, "UserPromptSubmit", minute, prompt=words, **fields)


def store_call(store: db.Connection, call: str, minute: float, **fields: Any) -> None:
    defaults = {"tool": "Bash", "tool_use_id": call, "input": '{"command": "make"}', "outcome": "fine", "key": call}
    store_report(store, "tool", minute, **{**defaults, "response": f"output of {call}", **fields})


def build_observation(key: str, title: str = "made", **fields: Any) -> Observation:
    return Observation(**{"key": key, "at": NOON, "type": "change", "title": title, **fields})


def distil_turns(store: db.Connection, session: int = 1) -> list[int]:
    """Store one observation per call of each changed turn, and return those turns."""
    changed = turns.list_changed_turns(store, session)
    for number in changed:
        turn, fingerprint = turns.read_turn(store, session, number)
        new_observations = [
            build_observation(
                call.key, f"{call.key} {call.outcome}", at=call.at, events=(call.key,), files_modified=("a.py",)
            )
            for call in turn.calls
        ]
        assert turns.store_distilled(store, turn, fingerprint, new_observations, "plain")
    return changed


def list_titles(store: db.Connection, session: int = 1) -> list[str]:
    return [observation.title for observation in observations.list_for_session(store, session)]


def test_a_turn_has_its_prompt_calls_and_final_message(store: db.Connection) -> None:
    store_call(store, "early", 0)
    store_prompt(store, "mend it", 1)
    store_call(store, "c1", 2, outcome="failed", signature="bash|boom", duration=7.0, subagent_id="a1")
    store_report(store, "Stop", 2.5, response="of a sub-agent", subagent_id="a1")
    store_report(store, "Stop", 3, response="mended")
    turn_zero, first = turns.list_turns(store, 1)
    assert (turn_zero.number, turn_zero.prompt, [call.key for call in turn_zero.calls]) == (0, "", ["early"])
    first_fields = (
        first.number,
        first.agent,
        first.name,
        first.project,
        first.cwd,
        first.prompt,
        first.final_message,
        first.at,
    )
    assert first_fields == (1, "claude-code", "s1", "/home/dev/app", "/home/dev/app", "mend it", "mended", NOON + 60)
    [call] = first.calls
    assert (call.input, call.outcome, call.signature, call.duration, call.subagent_id) == (
        {"command": "make"},
        "failed",
        "bash|boom",
        7.0,
        "a1",
    )
    assert turns.read_turn(store, 1, 1)[0] == first


def test_only_turns_of_which_something_changed_are_distilled_again(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    store_call(store, "c1", 2)
    store_prompt(store, "two", 10)
    store_call(store, "c2", 11, response="", outcome="", origin="transcript")
    assert (distil_turns(store), distil_turns(store)) == ([1, 2], [])
    store_call(store, "c3", 12)
    assert distil_turns(store) == [2]
    store_call(store, "c2", 11, response="it worked", origin="transcript-later", key="again")
    assert distil_turns(store) == [2]
    store_call(store, "c2", 11, outcome="failed", key="hook's word")
    assert distil_turns(store) == [2]
    store_report(store, "Stop", 13, response="done")
    assert distil_turns(store) == [2]
    store_report(store, "SessionEnd", 14, reason="other")
    assert distil_turns(store) == []
    store.execute("delete from jobs")
    turns.enqueue_undistilled(store, NOON)
    assert jobs.list_jobs(store) == []


def test_a_late_prompt_moves_later_observations(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    store_call(store, "c1", 2)
    store_call(store, "c2", 5)
    distil_turns(store)
    store_prompt(store, "between", 3)
    assert distil_turns(store) == [1, 2]
    rows = store.execute("select prompt, title from observations order by prompt").fetchall()
    assert [tuple(row) for row in rows] == [(1, "c1 fine"), (2, "c2 fine")]


def test_observations_of_an_outdated_turn_are_not_stored(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    store_call(store, "c1", 2)
    distil_turns(store)
    slow, old_fingerprint = turns.read_turn(store, 1, 1)
    store_call(store, "c2", 3)
    distil_turns(store)
    assert turns.store_distilled(store, slow, old_fingerprint, [], "plain") is False
    assert list_titles(store) == ["c1 fine", "c2 fine"]


def test_plain_observations_do_not_replace_those_of_a_model(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    turn, fingerprint = turns.read_turn(store, 1, 1)
    assert turns.store_distilled(store, turn, fingerprint, [build_observation("a", "plain words")], "plain")
    assert turns.store_distilled(
        store, turn, fingerprint, [build_observation("a", "better words", made="model")], "model"
    )
    assert turns.store_distilled(store, turn, fingerprint, [build_observation("a", "plain words")], "plain") is False
    assert (list_titles(store), turns.list_changed_turns(store, 1)) == (["better words"], [])


def test_nothing_is_stored_for_a_deleted_session(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    turn, fingerprint = turns.read_turn(store, 1, 1)
    sessions.delete(store, 1)
    assert turns.store_distilled(store, turn, fingerprint, [build_observation("a")], "plain") is False
    assert observations.replace_summary(store, 1, Summary("s", NOON)) is False
    assert turns.read_turn(store, 1, 1) == (Turn(1, 1, 0.0), "")


def list_merged(store: db.Connection) -> list[int]:
    return [observation.id for observation in observations.list_latest_observations(store, 1, 10)]


def test_the_same_observation_of_several_turns_is_listed_once(store: db.Connection) -> None:
    for number in range(1, 4):
        store_prompt(store, f"prompt {number}", number, key=f"p{number}")
        at = NOON + 60 * number
        turn, fingerprint = turns.read_turn(store, 1, number)
        for _ in range(2):
            turns.store_distilled(
                store,
                turn,
                fingerprint,
                [build_observation(f"k{number}", "ran the tests", at=at, files_read=("a.py",))],
                "plain",
            )
    turn, fingerprint = turns.read_turn(store, 1, 3)
    turns.store_distilled(
        store,
        turn,
        fingerprint,
        [build_observation("k3", "ran the tests", at=turn.at, files_read=("a.py",)), build_observation("k4")],
        "plain",
    )
    ids = {row["key"]: row["id"] for row in observations.list_rows_for_session(store, 1)}
    assert list_merged(store) == [ids["k3"], ids["k4"]]
    assert len(observations.list_for_session(store, 1)) == 4
    with db.transaction(store):
        observations.replace_for_turn(store, 1, 3, [])
    assert list_merged(store) == [ids["k2"]]


def test_observations_far_apart_or_about_other_files_are_not_merged(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    first = build_observation("a", "ran", files_read=("a.py",))
    others = [
        replace(first, key="b", at=NOON + 31 * DAY),
        replace(first, key="c", files_read=("b.py",)),
        replace(first, key="d", type="discovery"),
        replace(first, key="e", at=NOON + 32 * DAY, times=2),
    ]
    turn, fingerprint = turns.read_turn(store, 1, 1)
    turns.store_distilled(store, turn, fingerprint, [first, *others], "plain")
    keys = {row["id"]: row["key"] for row in observations.list_rows_for_session(store, 1)}
    assert {keys[observation_id] for observation_id in list_merged(store)} == {"a", "c", "d", "e"}


def test_a_summary_is_refreshed_and_not_repeated(store: db.Connection) -> None:
    store_prompt(store, "one", 1)
    for number in range(3):
        observations.replace_summary(store, 1, Summary("k" if number else "first", NOON, request=f"ask {number}"))
    assert observations.find_summary(store, 1) == Summary("k", NOON, request="ask 2")
    assert store.execute("select count(*) from summaries").fetchone()[0] == 1


def age_store(store: db.Connection, now: float = NOON + 100 * DAY) -> None:
    """Finish distilling, and enforce retention after a long time."""
    store.execute("delete from jobs where kind = 'distil'")
    store_call(store, "new", (now - NOON) / 60, session="s2", key="new")
    store_call(store, "newer", (now - NOON) / 60 - 2000, session="s2", key="newer")
    retention.enforce_limits(store, days=90, max_bytes=1 << 40, now=now, should_continue=lambda: True)


def test_observations_outlive_the_events_of_their_turn(store: db.Connection) -> None:
    store_prompt(store, "long ago", 1)
    store_call(store, "c1", 2)
    store_call(store, "c2", 12 * 24 * 60)
    distil_turns(store)
    age_store(store)
    assert [call.key for call in turns.read_turn(store, 1, 1)[0].calls] == ["c2"]
    assert (turns.list_changed_turns(store, 1), list_titles(store)) == ([], ["c1 fine", "c2 fine"])
    turn, fingerprint = turns.read_turn(store, 1, 1)
    assert turns.store_distilled(store, turn, fingerprint, [], "model") is False


def test_a_session_that_continues_keeps_observations_of_expired_prompts(store: db.Connection) -> None:
    store_prompt(store, "long ago", 1)
    store_call(store, "c1", 2)
    distil_turns(store)
    age_store(store)
    assert store.execute("select count(*) from prompts where session = 1").fetchone()[0] == 0
    store_prompt(store, "and again", 100 * 24 * 60)
    store_call(store, "c9", 100 * 24 * 60 + 1)
    assert distil_turns(store) == [1]
    assert list_titles(store) == ["c1 fine", "c9 fine"]


def test_a_turn_and_a_job_do_not_keep_an_empty_session(store: db.Connection) -> None:
    store_prompt(store, "long ago", 1)
    turn, fingerprint = turns.read_turn(store, 1, 1)
    turns.store_distilled(store, turn, fingerprint, [], "plain")
    jobs.enqueue(store, jobs.REFINE, 1, priority=jobs.LIVE, now=NOON)
    age_store(store)
    tables = {"turns": "session", "jobs": "session", "sessions": "id"}
    row_counts = [
        store.execute(f"select count(*) from {table} where {column} = 1").fetchone()[0]
        for table, column in tables.items()
    ]
    assert row_counts == [0, 0, 0]


def test_imported_observations_are_not_distilled_again(store: db.Connection) -> None:
    session_fields = {"host": "codex", "session": "s9"}
    session = {
        "what": "session",
        **session_fields,
        "project": None,
        "cwd": "",
        "transcript": "",
        "first_prompt": "fly",
        "prompts": 1,
        "status": "completed",
        "reason": "",
        "started_at": 1.0,
        "opened_at": 1.0,
        "last_at": 9.0,
        "ended_at": 9.0,
    }
    prompts = [
        {
            "what": "prompt",
            **session_fields,
            "key": f"p{number}",
            "number": number,
            "at": float(number),
            "prompt": "fly",
            "name": "",
        }
        for number in (1, 2)
    ]
    observation = {
        "what": "observation",
        **session_fields,
        "key": "o1",
        "at": 2.0,
        "prompt": 1,
        "type": "change",
        "title": "better words",
        "subtitle": "",
        "narrative": "",
        "facts": [],
        "concepts": [],
        "files_read": [],
        "files_modified": [],
        "events": [],
        "tokens": 1,
        "times": 1,
        "made": "model",
    }
    imports.import_records(store, enumerate([session, *prompts, observation], 2), [], is_approved=True)
    assert turns.list_changed_turns(store, 1) == [2]
