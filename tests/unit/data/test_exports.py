"""Records are exported in a fixed order and imported once."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.data import exports, imports
from hardwon.data.imports import ImportResult
from hardwon.store import db
from hardwon.store.migrations import LATEST_VERSION
from tests.support.new_store import connect_to_new_store

PROJECT = {"what": "project", "path": "/home/dev/kite", "name": "kite", "remote": "", "at": 1.0}
SESSION: dict[str, Any] = {
    "what": "session",
    "host": "codex",
    "session": "s1",
    "project": "/home/dev/kite",
    "cwd": "/home/dev/kite",
    "transcript": "",
    "first_prompt": "fly",
    "prompts": 2,
    "status": "completed",
    "reason": "other",
    "started_at": 10.0,
    "opened_at": 10.0,
    "last_at": 50.0,
    "ended_at": 50.5,
}
SESSION_KEY = {"host": "codex", "session": "s1"}


def build_prompt(key: str, number: int, at: float, text: str) -> dict[str, Any]:
    return {"what": "prompt", **SESSION_KEY, "key": key, "number": number, "at": at, "prompt": text, "name": ""}


def build_event(key: str, at: float, **fields: Any) -> dict[str, Any]:
    return {
        "what": "event",
        **SESSION_KEY,
        "key": key,
        "kind": "tool",
        "at": at,
        "prompt": 1,
        "agent": "",
        "tool": "Bash",
        "tool_use_id": key,
        "input": '{"command": "ls"}',
        "response": "a\nb",
        "outcome": "fine",
        "signature": "",
        "duration": None,
        "origin": "hook",
        **fields,
    }


OBSERVATION = {
    "what": "observation",
    **SESSION_KEY,
    "key": "o1",
    "at": 20.0,
    "prompt": 1,
    "type": "discovery",
    "title": "wind",
    "subtitle": "",
    "narrative": "it turned",
    "facts": ["north"],
    "concepts": [],
    "files_read": ["a.py"],
    "files_modified": [],
    "events": ["e1"],
    "tokens": 12,
    "times": 1,
    "made": "plain",
}
SUMMARY = {
    "what": "summary",
    **SESSION_KEY,
    "key": "z1",
    "at": 50.0,
    "request": "fly",
    "investigated": "",
    "learned": "wind",
    "completed": "",
    "next_steps": "land",
    "made": "plain",
}
DELIVERY = {
    "what": "delivery",
    "event": "h1",
    "at": 12.0,
    **SESSION_KEY,
    "agent": "",
    "kind": "PreToolUse",
    "tool": "Bash",
    "lesson": "L1",
    "slug": "kite-1",
    "summary": "kites fall",
    "delivery": "note",
}


def build_episode(key: str, signature: str) -> dict[str, Any]:
    return {
        "key": key,
        "tier": 2,
        "signature": signature,
        "host": "codex",
        "path": "/t.jsonl",
        "session": "s1",
        "agent": "",
        "project": "/home/dev/kite",
        "at": "2026-11-01T10:00:00Z",
        "score": 0.5,
        "body": {"problem": "p", "solution": "s", "evidence": []},
        "errors": [f"{key}:e"],
    }


CANDIDATE = {
    "what": "candidate",
    "id": "01C",
    "slug": "kites-fall-ab12",
    "signature": "bash kite",
    "tier": 2,
    "status": "rejected",
    "score": 0.7,
    "parts": {"error": 0.5},
    "occurrences": 1,
    "sessions": ["s1"],
    "projects": ["/home/dev/kite"],
    "record": {"summary": "kites fall", "problem": "p", "solution": "s"},
    "lesson": "",
    "found_at": 5.0,
    "decided_at": 6.0,
    "signals": [build_episode("k1", "bash kite")],
    "judgements": [{"at": 5.5, "reader": "model", "verdict": "none", "body": {"why": "trivial"}, "void": ""}],
}
LOOSE_EPISODE = {"what": "signal", **build_episode("k2", "bash boat")}
ALL: list[dict[str, Any]] = [
    PROJECT,
    SESSION,
    build_prompt("p1", 1, 10.0, "fly"),
    build_prompt("p2", 2, 30.0, "land ✓ \u2028 it"),
    build_event("e1", 11.0),
    build_event("e2", 31.0, prompt=2, duration=4.5),
    OBSERVATION,
    SUMMARY,
    DELIVERY,
    CANDIDATE,
    LOOSE_EPISODE,
]


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


def import_lines(home: str, records: list[dict[str, Any]]) -> ImportResult:
    connection = connect_to_new_store(home)
    try:
        return imports.import_records(connection, enumerate(records, 2), [], is_approved=True)
    finally:
        connection.close()


def export_records(home: str, **filters: Any) -> list[dict[str, Any]]:
    connection = db.connect(home)
    try:
        lines = list(exports.export_lines(connection, home, exported_at=0.0, **filters))
    finally:
        connection.close()
    assert all(line.count("\n") == 1 for line in lines)
    return [json.loads(line) for line in lines[1:]]


def test_every_kind_comes_out_as_it_went_in(home: str) -> None:
    outcome = import_lines(home, ALL)
    assert (outcome.faults, export_records(home)) == ((), ALL)
    assert outcome.imported_counts == {
        "project": 1,
        "session": 1,
        "prompt": 2,
        "event": 2,
        "observation": 1,
        "summary": 1,
        "delivery": 1,
        "signal": 2,
        "candidate": 1,
        "judgement": 1,
    }


def test_importing_again_adds_nothing(home: str) -> None:
    import_lines(home, ALL)
    assert sum(import_lines(home, ALL).imported_counts.values()) == 0
    assert export_records(home) == ALL


def test_the_order_does_not_depend_on_the_order_of_arrival(home: str) -> None:
    inner = ALL[2:8]
    import_lines(home, [PROJECT, SESSION, *reversed(inner), *ALL[8:]])
    assert export_records(home) == ALL


def test_the_header_says_the_format_and_the_schema(home: str) -> None:
    connection = db.connect(home)
    header = json.loads(next(exports.export_lines(connection, home, exported_at=0.0)))
    assert header == {
        "what": "header",
        "format": "hardwon-export",
        "version": 1,
        "schema": db.read_schema_version(connection),
        "at": "1970-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"what": "header"},
        {"what": "judgement"},
        {**PROJECT, "at": "soon"},
        {**PROJECT, "at": True},
        {**PROJECT, "at": float("nan")},
        {**PROJECT, "path": None},
        {**SESSION, "project": "/nowhere"},
        {**SESSION, "host": ""},
        {**SESSION, "prompts": 2**70},
        {**build_prompt("p1", 1, 1.0, "x"), "session": "unheard of"},
        {**CANDIDATE, "signals": ["no signal"]},
        {"what": "lesson", "lesson": "no record"},
    ],
)
def test_an_invalid_record_is_reported_and_changes_nothing(home: str, record: dict[str, Any]) -> None:
    outcome = import_lines(home, [PROJECT, record, DELIVERY])
    assert [number for number, _ in outcome.faults] == [3]
    assert export_records(home) == [PROJECT, DELIVERY]


def test_lone_surrogates_do_not_stop_an_import(home: str) -> None:
    outcome = import_lines(home, [PROJECT, SESSION, build_prompt("p1", 1, 10.0, "half \ud83d a sign")])
    assert outcome.faults == ()
    assert export_records(home)[2]["prompt"] == "half ? a sign"


def test_a_private_prompt_is_dropped_with_its_turn(home: str) -> None:
    secret = build_prompt("p2", 2, 30.0, "<private>my diary</private>")
    hidden = build_event("e2", 31.0, prompt=2)
    import_lines(
        home,
        [
            PROJECT,
            {**SESSION, "first_prompt": "<private>x</private>"},
            build_prompt("p1", 1, 10.0, "fly"),
            secret,
            hidden,
        ],
    )
    records = export_records(home)
    assert [record["what"] for record in records] == ["project", "session", "prompt"]
    assert (records[1]["prompts"], records[1]["first_prompt"]) == (1, "fly")


def test_an_existing_session_gets_missing_records(home: str) -> None:
    stored_session = {**SESSION, "prompts": 1, "started_at": 30.0, "opened_at": 30.0, "first_prompt": "land"}
    import_lines(home, [PROJECT, stored_session, build_prompt("hook", 1, 30.0, "land")])
    import_lines(
        home,
        [
            PROJECT,
            SESSION,
            build_prompt("p1", 1, 10.0, "fly"),
            build_prompt("p2", 2, 31.0, "land"),
            build_event("e1", 40.0),
        ],
    )
    session, *rest = export_records(home)[1:]
    assert (session["started_at"], session["prompts"], session["first_prompt"]) == (10.0, 2, "fly")
    assert [(record["key"], record.get("number", record["prompt"])) for record in rest] == [
        ("p1", 1),
        ("hook", 2),
        ("e1", 2),
    ]


def test_credentials_of_a_remote_are_not_imported(home: str) -> None:
    import_lines(home, [{**PROJECT, "remote": "https://ada:secret@git.example/kite.git"}])
    assert export_records(home)[0]["remote"] == "https://git.example/kite.git"


def test_a_candidate_whose_slug_is_taken_gets_another(home: str) -> None:
    import_lines(home, [CANDIDATE])
    other = {**CANDIDATE, "id": "01D", "signature": "bash boat", "signals": [], "judgements": []}
    import_lines(home, [other])
    slugs = [record["slug"] for record in export_records(home)]
    assert (slugs[0], len(set(slugs))) == ("kites-fall-ab12", 2)


def test_an_export_of_one_project_has_nothing_of_others(home: str) -> None:
    boat = {**PROJECT, "path": "/home/dev/boat", "name": "boat"}
    shared = {
        **CANDIDATE,
        "id": "01D",
        "slug": "shared",
        "signature": "both",
        "projects": ["/home/dev/boat", "/home/dev/kite"],
        "signals": [],
    }
    import_lines(home, [boat, *ALL, shared, {**DELIVERY, "event": "h2", "session": "of the boat"}])
    assert export_records(home, project="/home/dev/kite") == ALL
    assert export_records(home, project="/home/dev/boat") == [boat]


def test_every_kind_of_line_is_documented_with_its_columns() -> None:
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "export.md")) as file:
        page = file.read()
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    for kind in exports.KINDS.keys() - {"judgement"}:
        assert [column.name for column in exports.KINDS[kind].columns if column.name not in rows[kind]] == [], kind
    assert f'"version":{exports.EXPORT_VERSION},"schema":{LATEST_VERSION},' in page
