"""What reflecting wrote is kept with what became of it, and a reflection is told what happened before."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.data import exports, imports
from hardwon.store import db, memories, purge, reflections, retention
from hardwon.store.purge import PurgeTarget
from hardwon.store.reflection_types import Evidence, Finding
from hardwon.store.reflections import DRAFT, MOOT, RATIFIED, Reflection, WrittenFile
from hardwon.types import Memory, replace

KITE = "/home/dev/kite"
DAY = 86_400.0
FOUND = Finding("recurring failures", "it failed", 0.7, "memory", (Evidence("/t.jsonl", 3, "error"),), "feedback")


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return db.connect(home)


def reflection(session: str = "s1", at: float = 100.0, **more: Any) -> Reflection:
    made = Reflection(
        0,
        f"r-{session}-{at}",
        "claude-code",
        session,
        KITE,
        at,
        "plain",
        draft=f"{KITE}/docs/sessions/{session}.md",
        topic="tails",
        resume="bend the tail",
        confidence="M",
        findings=(FOUND,),
        files=(WrittenFile(f"{KITE}/docs/sessions/{session}.md", None, "ab12"),),
        log="/logs/1",
    )
    return replace(made, **more)


def test_a_reflection_comes_back_as_it_was_kept(store: db.Connection) -> None:
    kept = reflections.insert(store, reflection())
    assert kept.id == 1
    assert reflections.get(store, kept.id) == kept
    assert reflections.get(store, 99) is None


def test_they_are_listed_by_status_project_and_session_newest_first(store: db.Connection) -> None:
    first, second, other = (
        reflections.insert(store, one)
        for one in (reflection("s1"), reflection("s2", 200.0), reflection("s3", 150.0, project="/other"))
    )
    reflections.set_status(store, first.id, RATIFIED, 300.0)
    assert [one.session for one in reflections.list_reflections(store)] == ["s2", "s3", "s1"]
    assert [one.session for one in reflections.list_reflections(store, DRAFT, project=KITE)] == ["s2"]
    assert [one.session for one in reflections.list_reflections(store, RATIFIED, DRAFT, limit=1)] == ["s2"]
    assert [one.id for one in reflections.list_reflections(store, session="s3")] == [other.id]
    assert second.id == 2


def test_a_new_draft_of_a_session_makes_the_one_before_moot_and_a_decision_stays(store: db.Connection) -> None:
    first = reflections.insert(store, reflection())
    reflections.insert(store, reflection(at=200.0))
    ratified = reflections.insert(store, reflection("s2"))
    reflections.set_status(store, ratified.id, RATIFIED, 150.0)
    reflections.insert(store, reflection("s2", at=300.0))
    assert [one.status for one in reflections.list_reflections(store, session="s1")] == [DRAFT, MOOT]
    assert [one.status for one in reflections.list_reflections(store, session="s2")] == [DRAFT, RATIFIED]
    again = reflections.get(store, first.id)
    assert again is not None
    assert again.decided_at == 200.0


def test_only_one_of_two_decisions_counts(store: db.Connection) -> None:
    kept = reflections.insert(store, reflection())
    assert reflections.set_status(store, kept.id, RATIFIED, 200.0)
    assert not reflections.set_status(store, kept.id, "discarded", 201.0)
    assert reflections.set_status(store, kept.id, DRAFT, 202.0, expected_status=RATIFIED)


def test_what_it_writes_later_is_noted_with_what_stood_there(store: db.Connection) -> None:
    kept = reflections.insert(store, reflection())
    written = (*kept.files, WrittenFile(f"{KITE}/.claude/memory/MEMORY.md", "old ✓\n", "cd34"))
    reflections.set_files(store, kept.id, written, draft="/new.md")
    again = reflections.get(store, kept.id)
    assert again == replace(kept, files=written, draft="/new.md")
    reflections.set_files(store, kept.id, ())
    assert (reflections.get(store, kept.id) or kept).draft == "/new.md"


def test_whether_people_keep_an_item_is_counted_once_for_each_reflection(store: db.Connection) -> None:
    first, second = (reflections.insert(store, reflection(name)) for name in ("s1", "s2"))
    reflections.record_item_decision(store, first, "assumptions", "kept", 1.0)
    reflections.record_item_decision(store, first, "assumptions", "dropped", 2.0)
    reflections.record_item_decision(store, second, "assumptions", "kept", 3.0)
    reflections.record_item_decision(store, second, "time of day", "dropped", 3.0)
    assert reflections.count_item_decisions(store) == {"assumptions": (1, 1), "time of day": (0, 1)}


def session(name: str, at: float, **more: Any) -> dict[str, Any]:
    return {
        "what": "session",
        "host": "claude-code",
        "session": name,
        "project": KITE,
        "cwd": KITE,
        "transcript": "",
        "first_prompt": f"ask {name}",
        "prompts": 1,
        "status": "completed",
        "reason": "",
        "started_at": at,
        "opened_at": at,
        "last_at": at + 500,
        "ended_at": at + 500,
        **more,
    }


def call(name: str, number: int, at: float, command: str, **more: Any) -> dict[str, Any]:
    return {
        "what": "event",
        "host": "claude-code",
        "session": name,
        "key": f"{name}.{number}",
        "kind": "tool",
        "at": at,
        "prompt": 1,
        "agent": "",
        "tool": "Bash",
        "tool_use_id": f"{name}.{number}",
        "input": json.dumps({"command": command}),
        "response": "x" * 400,
        "outcome": "fine",
        "signature": "",
        "duration": None,
        "origin": "hook",
        **more,
    }


def observed(name: str, at: float, *files: str) -> dict[str, Any]:
    return {
        "what": "observation",
        "host": "claude-code",
        "session": name,
        "key": f"o.{name}",
        "at": at,
        "prompt": 1,
        "type": "feature",
        "title": "t",
        "subtitle": "",
        "narrative": "",
        "facts": [],
        "concepts": [],
        "files_read": [],
        "files_modified": list(files),
        "events": [],
        "tokens": 1,
        "times": 1,
        "made": "plain",
    }


@pytest.fixture
def lived(store: db.Connection) -> db.Connection:
    """Three sessions of a project, the second with a failure that came twice, and one of another project."""
    failed = {"outcome": "failed", "signature": "kite interface unknown"}
    records = [
        {"what": "project", "path": KITE, "name": "kite", "remote": "", "at": 1.0},
        {"what": "project", "path": "/other", "name": "other", "remote": "", "at": 1.0},
        session("s1", 1_000.0),
        call("s1", 1, 1_010.0, "make check"),
        session("s2", 2_000.0),
        call("s2", 1, 2_000.0, "kite fly", **failed),
        call("s2", 2, 2_060.0, "kite fly", **failed),
        call("s2", 3, 9_000.0, "cd src && git commit -m x"),
        observed("s2", 2_100.0, "src/a.py", "src/b.py"),
        session("s3", 20_000.0),
        call("s3", 1, 20_010.0, "ls"),
        session("x1", 1_500.0, project="/other", cwd="/other"),
    ]
    outcome = imports.import_records(store, enumerate(records, 2), [], is_approved=True)
    assert outcome.faults == ()
    return store


def test_a_reflection_is_told_of_the_sessions_before_newest_first(lived: db.Connection) -> None:
    past = reflections.read_context(lived, KITE, 99_999.0, agent="claude-code", session="s3")
    assert [one.session for one in past.sessions] == ["s2", "s1"]
    second = past.sessions[0]
    assert second.failures == {"kite interface unknown": 2}
    assert second.commands == {"kite fly": 2, "git commit": 1}


def test_a_session_in_the_middle_is_not_told_of_what_came_later(lived: db.Connection) -> None:
    past = reflections.read_context(lived, KITE, 99_999.0, agent="claude-code", session="s2")
    assert [one.session for one in past.sessions] == ["s1"]


def test_a_session_nobody_recorded_has_a_past(lived: db.Connection) -> None:
    past = reflections.read_context(lived, KITE, 99_999.0, agent="codex", session="unknown")
    assert [one.session for one in past.sessions] == ["s3", "s2", "s1"]
    assert reflections.read_context(lived, "/nowhere", 99_999.0).sessions == ()


def test_it_is_told_of_open_and_ratified_handoffs_and_of_memories_in_force(lived: db.Connection) -> None:
    for name, status in (("s1", RATIFIED), ("s2", "discarded"), ("s3", DRAFT)):
        kept = reflections.insert(lived, reflection(name, at=3_000.0))
        if status != DRAFT:
            reflections.set_status(lived, kept.id, status, 3_001.0)
    memory = Memory(0, "m1", "user", "prefers tabs", "", "", "active", "person", (), "", 1.0)
    memories.insert_memory(lived, memory)
    memories.insert_memory(lived, replace(memory, key="m2", status="candidate"))
    past = reflections.read_context(lived, KITE, 99_999.0, agent="claude-code", session="s3")
    assert [(handoff.session, handoff.resume) for handoff in past.handoffs] == [("s1", "bend the tail")]
    assert past.memories == (("user", "prefers tabs"),)


def given(store: db.Connection, home: str, **narrowed: Any) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in exports.export_lines(store, home, exported_at=0.0, **narrowed)]
    return [one for one in lines if one["what"] in ("reflection", "kept")]


def test_they_go_out_and_come_in_once_without_what_they_wrote_over(
    store: db.Connection, home: str, own_home: str
) -> None:
    kept = reflections.insert(store, reflection())
    reflections.record_item_decision(store, kept, "assumptions", "kept", 1.0)
    lines = given(store, home)
    assert [one["what"] for one in lines] == ["reflection", "kept"]
    assert "files" not in lines[0]
    other = db.connect(os.path.join(own_home, "other"))
    for taken in (2, 0):
        outcome = imports.import_records(other, enumerate(lines, 2), [], is_approved=True)
        assert (outcome.faults, sum(outcome.imported_counts.values())) == ((), taken)
    assert reflections.list_reflections(other) == [replace(kept, files=(), log="")]
    assert reflections.count_item_decisions(other) == {"assumptions": (1, 0)}


def test_one_project_goes_out_alone(store: db.Connection, home: str) -> None:
    reflections.insert(store, reflection("s1"))
    reflections.insert(store, reflection("s2", project="/other"))
    assert [one["session"] for one in given(store, home, project=KITE)] == ["s1"]


def test_what_nobody_approved_comes_in_moot_and_names_no_file(store: db.Connection, home: str, own_home: str) -> None:
    kept = reflections.insert(store, reflection())
    reflections.set_status(store, kept.id, RATIFIED, 200.0)
    other = db.connect(os.path.join(own_home, "other"))
    imports.import_records(other, enumerate(given(store, home), 2), [], is_approved=False)
    (found,) = reflections.list_reflections(other)
    assert (found.status, found.draft, found.resume) == (MOOT, "", "bend the tail")


def test_findings_that_are_no_findings_are_left_out(store: db.Connection, home: str) -> None:
    kept = reflections.insert(store, reflection())
    (line,) = given(store, home)
    strange = line | {"key": "r2", "session": "s9", "findings": [{"item": "x"}, 3, *line["findings"]]}
    assert imports.import_records(store, [(2, strange)], [], is_approved=True).faults == ()
    (found,) = reflections.list_reflections(store, session="s9")
    assert found.findings == kept.findings


@pytest.mark.parametrize(
    ("aim", "left"),
    [
        (PurgeTarget(session="s1"), ["s2"]),
        (PurgeTarget(project=KITE), ["s2"]),
        (PurgeTarget(older_than=150.0), ["s2"]),
        (PurgeTarget(text_pieces=("bend the tail",)), ["s2"]),
    ],
    ids=["session", "project", "time", "text"],
)
def test_a_purge_takes_them_out(store: db.Connection, aim: PurgeTarget, left: list[str]) -> None:
    reflections.insert(store, reflection("s1"))
    reflections.insert(store, reflection("s2", 200.0, project="/other", resume="other"))
    purge.purge_target(store, aim, [], 300.0)
    assert [one.session for one in reflections.list_reflections(store)] == left


def test_after_a_year_what_was_dropped_is_forgotten_and_what_was_ratified_stays(lived: db.Connection) -> None:
    first, second = (reflections.insert(lived, reflection(name)) for name in ("s1", "s2"))
    reflections.set_status(lived, first.id, RATIFIED, 101.0)
    reflections.set_status(lived, second.id, "discarded", 101.0)
    reflections.record_item_decision(lived, first, "assumptions", "kept", 101.0)
    now = retention.LEDGER_DAYS * DAY + 50_000
    for number, at in enumerate((now - 1.5 * DAY, now)):
        records = [session(f"late{number}", at), call(f"late{number}", 1, at, "ls")]
        imports.import_records(lived, enumerate(records, 2), [], is_approved=True)
    retention.enforce_limits(lived, days=1_000, max_bytes=10**12, now=now + 1, should_continue=lambda: True)
    assert [one.session for one in reflections.list_reflections(lived)] == ["s1"]
    assert reflections.count_item_decisions(lived) == {}
