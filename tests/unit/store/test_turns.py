"""A turn is distilled again when something else is stored of it, and what was made of it is replaced whole."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hardwon.data import imports
from hardwon.store import db, jobs, observations, reports, retention, sessions, turns
from hardwon.store.reports import Report
from hardwon.types import Observation, Summary, Turn, replace

NOON = 1_790_000_000.0
DAY = 86_400.0


@pytest.fixture
def store(own_home: str) -> db.Connection:
    return db.connect(os.path.join(own_home, ".hardwon"))


def tell(store: db.Connection, kind: str, minute: float, **more: Any) -> None:
    told = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "key": f"{kind}-{minute}", "kind": kind}
    with db.transaction(store):
        project = reports.find_or_create_project(store, "/home/dev/app", "", NOON)
        reports.store_report(store, Report(**{**told, "at": NOON + 60 * minute, "project": project, **more}))


def typed(store: db.Connection, words: str, minute: float, **more: Any) -> None:
    tell(store, "UserPromptSubmit", minute, prompt=words, **more)


def ran(store: db.Connection, call: str, minute: float, **more: Any) -> None:
    given = {"tool": "Bash", "tool_use_id": call, "input": '{"command": "make"}', "outcome": "fine", "key": call}
    tell(store, "tool", minute, **{**given, "response": f"output of {call}", **more})


def seen(key: str, title: str = "made", **more: Any) -> Observation:
    return Observation(**{"key": key, "at": NOON, "type": "change", "title": title, **more})


def distil(store: db.Connection, session: int = 1) -> list[int]:
    """One observation for each call of each turn that changed; gives those."""
    changed = turns.list_changed_turns(store, session)
    for number in changed:
        turn, print = turns.read_turn(store, session, number)
        made = [
            seen(call.key, f"{call.key} {call.outcome}", at=call.at, events=(call.key,), files_modified=("a.py",))
            for call in turn.calls
        ]
        assert turns.store_distilled(store, turn, print, made, "plain")
    return changed


def titles(store: db.Connection, session: int = 1) -> list[str]:
    return [one.title for one in observations.list_for_session(store, session)]


def test_a_turn_is_what_was_asked_done_and_said(store: db.Connection) -> None:
    ran(store, "early", 0)
    typed(store, "mend it", 1)
    ran(store, "c1", 2, outcome="failed", signature="bash|boom", duration=7.0, subagent="a1")
    tell(store, "Stop", 2.5, response="of a sub-agent", subagent="a1")
    tell(store, "Stop", 3, response="mended")
    before, first = turns.list_turns(store, 1)
    assert (before.number, before.prompt, [call.key for call in before.calls]) == (0, "", ["early"])
    named = (
        first.number,
        first.agent,
        first.name,
        first.project,
        first.cwd,
        first.prompt,
        first.final_message,
        first.at,
    )
    assert named == (1, "claude-code", "s1", "/home/dev/app", "/home/dev/app", "mend it", "mended", NOON + 60)
    [call] = first.calls
    assert (call.input, call.outcome, call.signature, call.duration, call.agent) == (
        {"command": "make"},
        "failed",
        "bash|boom",
        7.0,
        "a1",
    )
    assert turns.read_turn(store, 1, 1)[0] == first


def test_only_turns_of_which_something_changed_are_distilled_again(store: db.Connection) -> None:
    typed(store, "one", 1)
    ran(store, "c1", 2)
    typed(store, "two", 10)
    ran(store, "c2", 11, response="", outcome="", origin="transcript")
    assert (distil(store), distil(store)) == ([1, 2], [])
    ran(store, "c3", 12)
    assert distil(store) == [2]
    ran(store, "c2", 11, response="it worked", origin="transcript-later", key="again")
    assert distil(store) == [2]
    ran(store, "c2", 11, outcome="failed", key="hook's word")
    assert distil(store) == [2]
    tell(store, "Stop", 13, response="done")
    assert distil(store) == [2]
    tell(store, "SessionEnd", 14, reason="other")
    assert distil(store) == []
    store.execute("delete from jobs")
    turns.enqueue_undistilled(store, NOON)
    assert jobs.list_jobs(store) == []


def test_a_prompt_that_comes_late_moves_what_is_known(store: db.Connection) -> None:
    typed(store, "one", 1)
    ran(store, "c1", 2)
    ran(store, "c2", 5)
    distil(store)
    typed(store, "between", 3)
    assert distil(store) == [1, 2]
    rows = store.execute("select prompt, title from observations order by prompt").fetchall()
    assert [tuple(row) for row in rows] == [(1, "c1 fine"), (2, "c2 fine")]


def test_what_somebody_slow_made_of_less_does_not_replace_more(store: db.Connection) -> None:
    typed(store, "one", 1)
    ran(store, "c1", 2)
    distil(store)
    slow, old_print = turns.read_turn(store, 1, 1)
    ran(store, "c2", 3)
    distil(store)
    assert turns.store_distilled(store, slow, old_print, [], "plain") is False
    assert titles(store) == ["c1 fine", "c2 fine"]


def test_what_a_model_made_is_not_made_plain_again_by_the_same(store: db.Connection) -> None:
    typed(store, "one", 1)
    turn, print = turns.read_turn(store, 1, 1)
    assert turns.store_distilled(store, turn, print, [seen("a", "plain words")], "plain")
    assert turns.store_distilled(store, turn, print, [seen("a", "better words", made="model")], "model")
    assert turns.store_distilled(store, turn, print, [seen("a", "plain words")], "plain") is False
    assert (titles(store), turns.list_changed_turns(store, 1)) == (["better words"], [])


def test_a_session_that_is_gone_takes_nothing_more(store: db.Connection) -> None:
    typed(store, "one", 1)
    turn, print = turns.read_turn(store, 1, 1)
    sessions.delete(store, 1)
    assert turns.store_distilled(store, turn, print, [seen("a")], "plain") is False
    assert observations.replace_summary(store, 1, Summary("s", NOON)) is False
    assert turns.read_turn(store, 1, 1) == (Turn(1, 1, 0.0), "")


def list_merged(store: db.Connection) -> list[int]:
    return [observation.id for observation in observations.list_latest_observations(store, 1, 10)]


def test_the_same_said_in_several_turns_is_told_once(store: db.Connection) -> None:
    for number in range(1, 4):
        typed(store, f"prompt {number}", number, key=f"p{number}")
        at = NOON + 60 * number
        turn, print = turns.read_turn(store, 1, number)
        for _ in range(2):
            turns.store_distilled(
                store, turn, print, [seen(f"k{number}", "ran the tests", at=at, files_read=("a.py",))], "plain"
            )
    turn, print = turns.read_turn(store, 1, 3)
    turns.store_distilled(
        store, turn, print, [seen("k3", "ran the tests", at=turn.at, files_read=("a.py",)), seen("k4")], "plain"
    )
    ids = {row["key"]: row["id"] for row in observations.list_rows_for_session(store, 1)}
    assert list_merged(store) == [ids["k3"], ids["k4"]]
    assert len(observations.list_for_session(store, 1)) == 4
    with db.transaction(store):
        observations.replace_for_turn(store, 1, 3, [])
    assert list_merged(store) == [ids["k2"]]


def test_long_ago_or_about_other_files_is_not_the_same(store: db.Connection) -> None:
    typed(store, "one", 1)
    first = seen("a", "ran", files_read=("a.py",))
    others = [
        replace(first, key="b", at=NOON + 31 * DAY),
        replace(first, key="c", files_read=("b.py",)),
        replace(first, key="d", type="discovery"),
        replace(first, key="e", at=NOON + 32 * DAY, times=2),
    ]
    turn, print = turns.read_turn(store, 1, 1)
    turns.store_distilled(store, turn, print, [first, *others], "plain")
    keys = {row["id"]: row["key"] for row in observations.list_rows_for_session(store, 1)}
    assert {keys[id] for id in list_merged(store)} == {"a", "c", "d", "e"}


def test_a_summary_is_refreshed_and_not_repeated(store: db.Connection) -> None:
    typed(store, "one", 1)
    for number in range(3):
        observations.replace_summary(store, 1, Summary("k" if number else "first", NOON, request=f"ask {number}"))
    assert observations.find_summary(store, 1) == Summary("k", NOON, request="ask 2")
    assert store.execute("select count(*) from summaries").fetchone()[0] == 1


def age(store: db.Connection, now: float = NOON + 100 * DAY) -> None:
    """Everything was distilled, and much time has passed."""
    store.execute("delete from jobs where kind = 'distil'")
    ran(store, "new", (now - NOON) / 60, session="s2", key="new")
    ran(store, "newer", (now - NOON) / 60 - 2000, session="s2", key="newer")
    retention.enforce_limits(store, days=90, max_bytes=1 << 40, now=now, should_continue=lambda: True)


def test_what_is_known_of_a_turn_outlives_its_events(store: db.Connection) -> None:
    typed(store, "long ago", 1)
    ran(store, "c1", 2)
    ran(store, "c2", 12 * 24 * 60)
    distil(store)
    age(store)
    assert [call.key for call in turns.read_turn(store, 1, 1)[0].calls] == ["c2"]
    assert (turns.list_changed_turns(store, 1), titles(store)) == ([], ["c1 fine", "c2 fine"])
    turn, print = turns.read_turn(store, 1, 1)
    assert turns.store_distilled(store, turn, print, [], "model") is False


def test_a_session_that_goes_on_after_its_prompts_are_gone_keeps_what_was_known(store: db.Connection) -> None:
    typed(store, "long ago", 1)
    ran(store, "c1", 2)
    distil(store)
    age(store)
    assert store.execute("select count(*) from prompts where session = 1").fetchone()[0] == 0
    typed(store, "and again", 100 * 24 * 60)
    ran(store, "c9", 100 * 24 * 60 + 1)
    assert distil(store) == [1]
    assert titles(store) == ["c1 fine", "c9 fine"]


def test_a_turn_and_a_job_do_not_keep_an_empty_session(store: db.Connection) -> None:
    typed(store, "long ago", 1)
    turn, print = turns.read_turn(store, 1, 1)
    turns.store_distilled(store, turn, print, [], "plain")
    jobs.enqueue(store, jobs.REFINE, 1, priority=jobs.LIVE, now=NOON)
    age(store)
    tables = {"turns": "session", "jobs": "session", "sessions": "id"}
    left = [
        store.execute(f"select count(*) from {table} where {column} = 1").fetchone()[0]
        for table, column in tables.items()
    ]
    assert left == [0, 0, 0]


def test_imported_observations_are_not_made_anew(store: db.Connection) -> None:
    of = {"host": "codex", "session": "s9"}
    session = {
        "what": "session",
        **of,
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
            **of,
            "key": f"p{number}",
            "number": number,
            "at": float(number),
            "prompt": "fly",
            "name": "",
        }
        for number in (1, 2)
    ]
    observed = {
        "what": "observation",
        **of,
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
    imports.import_records(store, enumerate([session, *prompts, observed], 2), [], is_approved=True)
    assert turns.list_changed_turns(store, 1) == [2]
