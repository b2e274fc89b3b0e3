"""Reflections are stored with their status, and a new one gets the context of earlier sessions."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.data import exports, imports
from hardwon.store import db, memories, purge, reflections, retention
from hardwon.store.purge import PurgeTarget
from hardwon.store.reflections import DRAFT, MOOT, RATIFIED, Evidence, Finding, Reflection, WrittenFile
from hardwon.types import Memory, replace
from tests.support.new_store import connect_to_new_store

KITE = "/home/dev/kite"
DAY = 86_400.0
FINDING = Finding("recurring failures", "it failed", 0.7, "memory", (Evidence("/t.jsonl", 3, "error"),), "feedback")


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def store(home: str) -> db.Connection:
    return connect_to_new_store(home)


def build_reflection(session: str = "s1", at: float = 100.0, **changes: Any) -> Reflection:
    base = Reflection(
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
        findings=(FINDING,),
        files=(WrittenFile(f"{KITE}/docs/sessions/{session}.md", None, "ab12"),),
        log="/logs/1",
    )
    return replace(base, **changes)


def test_a_reflection_is_read_back_as_stored(store: db.Connection) -> None:
    stored = reflections.insert(store, build_reflection())
    assert stored.id == 1
    assert reflections.get(store, stored.id) == stored
    assert reflections.get(store, 99) is None


def test_reflections_are_listed_by_status_project_and_session_newest_first(store: db.Connection) -> None:
    first, second, other_project = (
        reflections.insert(store, record)
        for record in (
            build_reflection("s1"),
            build_reflection("s2", 200.0),
            build_reflection("s3", 150.0, project="/other"),
        )
    )
    reflections.set_status(store, first.id, RATIFIED, 300.0)
    assert [record.session for record in reflections.list_reflections(store)] == ["s2", "s3", "s1"]
    assert [record.session for record in reflections.list_reflections(store, DRAFT, project=KITE)] == ["s2"]
    assert [record.session for record in reflections.list_reflections(store, RATIFIED, DRAFT, limit=1)] == ["s2"]
    assert [record.id for record in reflections.list_reflections(store, session="s3")] == [other_project.id]
    assert second.id == 2


def test_a_new_draft_of_a_session_makes_the_one_before_moot_and_a_decision_stays(store: db.Connection) -> None:
    first = reflections.insert(store, build_reflection())
    reflections.insert(store, build_reflection(at=200.0))
    ratified = reflections.insert(store, build_reflection("s2"))
    reflections.set_status(store, ratified.id, RATIFIED, 150.0)
    reflections.insert(store, build_reflection("s2", at=300.0))
    assert [record.status for record in reflections.list_reflections(store, session="s1")] == [DRAFT, MOOT]
    assert [record.status for record in reflections.list_reflections(store, session="s2")] == [DRAFT, RATIFIED]
    reread = reflections.get(store, first.id)
    assert reread is not None
    assert reread.decided_at == 200.0


def test_only_one_of_two_decisions_counts(store: db.Connection) -> None:
    stored = reflections.insert(store, build_reflection())
    assert reflections.set_status(store, stored.id, RATIFIED, 200.0)
    assert not reflections.set_status(store, stored.id, "discarded", 201.0)
    assert reflections.set_status(store, stored.id, DRAFT, 202.0, expected_status=RATIFIED)


def test_files_written_later_are_stored_with_their_previous_content(store: db.Connection) -> None:
    stored = reflections.insert(store, build_reflection())
    written = (*stored.files, WrittenFile(f"{KITE}/.claude/memory/MEMORY.md", "old ✓\n", "cd34"))
    reflections.set_files(store, stored.id, written, draft="/new.md")
    reread = reflections.get(store, stored.id)
    assert reread == replace(stored, files=written, draft="/new.md")
    reflections.set_files(store, stored.id, ())
    assert (reflections.get(store, stored.id) or stored).draft == "/new.md"


def test_decisions_about_an_item_are_counted_once_per_reflection(store: db.Connection) -> None:
    first, second = (reflections.insert(store, build_reflection(name)) for name in ("s1", "s2"))
    reflections.record_item_decision(store, first, "assumptions", "kept", 1.0)
    reflections.record_item_decision(store, first, "assumptions", "dropped", 2.0)
    reflections.record_item_decision(store, second, "assumptions", "kept", 3.0)
    reflections.record_item_decision(store, second, "time of day", "dropped", 3.0)
    assert reflections.count_item_decisions(store) == {"assumptions": (1, 1), "time of day": (0, 1)}


def build_session(name: str, at: float, **fields: Any) -> dict[str, Any]:
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
        **fields,
    }


def build_call(name: str, number: int, at: float, command: str, **fields: Any) -> dict[str, Any]:
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
        **fields,
    }


def build_observation(name: str, at: float, *files: str) -> dict[str, Any]:
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
def recorded_store(store: db.Connection) -> db.Connection:
    """Import three sessions of a project, the second with a repeated failure, and one of another project."""
    failed = {"outcome": "failed", "signature": "kite interface unknown"}
    records = [
        {"what": "project", "path": KITE, "name": "kite", "remote": "", "at": 1.0},
        {"what": "project", "path": "/other", "name": "other", "remote": "", "at": 1.0},
        build_session("s1", 1_000.0),
        build_call("s1", 1, 1_010.0, "make check"),
        build_session("s2", 2_000.0),
        build_call("s2", 1, 2_000.0, "kite fly", **failed),
        build_call("s2", 2, 2_060.0, "kite fly", **failed),
        build_call("s2", 3, 9_000.0, "cd src && git commit -m x"),
        build_observation("s2", 2_100.0, "src/a.py", "src/b.py"),
        build_session("s3", 20_000.0),
        build_call("s3", 1, 20_010.0, "ls"),
        build_session("x1", 1_500.0, project="/other", cwd="/other"),
    ]
    outcome = imports.import_records(store, enumerate(records, 2), [], is_approved=True)
    assert outcome.faults == ()
    return store


def test_the_context_has_earlier_sessions_newest_first(recorded_store: db.Connection) -> None:
    context = reflections.read_context(recorded_store, KITE, 99_999.0, agent="claude-code", session="s3")
    assert [past_session.session for past_session in context.sessions] == ["s2", "s1"]
    second = context.sessions[0]
    assert second.failures == {"kite interface unknown": 2}
    assert second.commands == {"kite fly": 2, "git commit": 1}


def test_the_context_has_no_later_sessions(recorded_store: db.Connection) -> None:
    context = reflections.read_context(recorded_store, KITE, 99_999.0, agent="claude-code", session="s2")
    assert [past_session.session for past_session in context.sessions] == ["s1"]


def test_an_unrecorded_session_has_a_context(recorded_store: db.Connection) -> None:
    context = reflections.read_context(recorded_store, KITE, 99_999.0, agent="codex", session="unknown")
    assert [past_session.session for past_session in context.sessions] == ["s3", "s2", "s1"]
    assert reflections.read_context(recorded_store, "/nowhere", 99_999.0).sessions == ()


def test_the_context_has_ratified_handoffs_and_active_memories(recorded_store: db.Connection) -> None:
    for name, status in (("s1", RATIFIED), ("s2", "discarded"), ("s3", DRAFT)):
        stored = reflections.insert(recorded_store, build_reflection(name, at=3_000.0))
        if status != DRAFT:
            reflections.set_status(recorded_store, stored.id, status, 3_001.0)
    memory = Memory(0, "m1", "user", "prefers tabs", "", "", "active", "person", (), "", 1.0)
    memories.insert_memory(recorded_store, memory)
    memories.insert_memory(recorded_store, replace(memory, key="m2", status="candidate"))
    context = reflections.read_context(recorded_store, KITE, 99_999.0, agent="claude-code", session="s3")
    assert [(handoff.session, handoff.resume) for handoff in context.handoffs] == [("s1", "bend the tail")]
    assert context.memories == (("user", "prefers tabs"),)


def export_reflections(store: db.Connection, home: str, **filters: Any) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in exports.export_lines(store, home, exported_at=0.0, **filters)]
    return [line for line in lines if line["what"] in ("reflection", "kept")]


def test_reflections_are_exported_and_imported_once_without_their_files(
    store: db.Connection, home: str, own_home: str
) -> None:
    stored = reflections.insert(store, build_reflection())
    reflections.record_item_decision(store, stored, "assumptions", "kept", 1.0)
    lines = export_reflections(store, home)
    assert [line["what"] for line in lines] == ["reflection", "kept"]
    assert "files" not in lines[0]
    other = db.connect(os.path.join(own_home, "other"))
    for expected_count in (2, 0):
        outcome = imports.import_records(other, enumerate(lines, 2), [], is_approved=True)
        assert (outcome.faults, sum(outcome.imported_counts.values())) == ((), expected_count)
    assert reflections.list_reflections(other) == [replace(stored, files=(), log="")]
    assert reflections.count_item_decisions(other) == {"assumptions": (1, 0)}


def test_one_project_can_be_exported_alone(store: db.Connection, home: str) -> None:
    reflections.insert(store, build_reflection("s1"))
    reflections.insert(store, build_reflection("s2", project="/other"))
    assert [line["session"] for line in export_reflections(store, home, project=KITE)] == ["s1"]


def test_an_unapproved_import_is_moot_and_names_no_file(store: db.Connection, home: str, own_home: str) -> None:
    stored = reflections.insert(store, build_reflection())
    reflections.set_status(store, stored.id, RATIFIED, 200.0)
    other = db.connect(os.path.join(own_home, "other"))
    imports.import_records(other, enumerate(export_reflections(store, home), 2), [], is_approved=False)
    (imported,) = reflections.list_reflections(other)
    assert (imported.status, imported.draft, imported.resume) == (MOOT, "", "bend the tail")


def test_invalid_findings_are_left_out(store: db.Connection, home: str) -> None:
    stored = reflections.insert(store, build_reflection())
    (line,) = export_reflections(store, home)
    strange = line | {"key": "r2", "session": "s9", "findings": [{"item": "x"}, 3, *line["findings"]]}
    assert imports.import_records(store, [(2, strange)], [], is_approved=True).faults == ()
    (imported,) = reflections.list_reflections(store, session="s9")
    assert imported.findings == stored.findings


@pytest.mark.parametrize(
    ("target", "remaining_sessions"),
    [
        (PurgeTarget(session="s1"), ["s2"]),
        (PurgeTarget(project=KITE), ["s2"]),
        (PurgeTarget(older_than=150.0), ["s2"]),
        (PurgeTarget(text_pieces=("bend the tail",)), ["s2"]),
    ],
    ids=["session", "project", "time", "text"],
)
def test_a_purge_removes_reflections(store: db.Connection, target: PurgeTarget, remaining_sessions: list[str]) -> None:
    reflections.insert(store, build_reflection("s1"))
    reflections.insert(store, build_reflection("s2", 200.0, project="/other", resume="other"))
    purge.purge_target(store, target, [], 300.0)
    assert [record.session for record in reflections.list_reflections(store)] == remaining_sessions


def test_after_a_year_only_ratified_reflections_are_kept(recorded_store: db.Connection) -> None:
    first, second = (reflections.insert(recorded_store, build_reflection(name)) for name in ("s1", "s2"))
    reflections.set_status(recorded_store, first.id, RATIFIED, 101.0)
    reflections.set_status(recorded_store, second.id, "discarded", 101.0)
    reflections.record_item_decision(recorded_store, first, "assumptions", "kept", 101.0)
    now = retention.LEDGER_DAYS * DAY + 50_000
    for number, at in enumerate((now - 1.5 * DAY, now)):
        records = [build_session(f"late{number}", at), build_call(f"late{number}", 1, at, "ls")]
        imports.import_records(recorded_store, enumerate(records, 2), [], is_approved=True)
    retention.enforce_limits(recorded_store, days=1_000, max_bytes=10**12, now=now + 1, should_continue=lambda: True)
    assert [record.session for record in reflections.list_reflections(recorded_store)] == ["s1"]
    assert reflections.count_item_decisions(recorded_store) == {}
