"""opencode's sessions are read from its database, which it may be writing to and which stays unchanged."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hardwon import settings
from hardwon.agents import transcript_files
from hardwon.agents.opencode import database
from hardwon.agents.opencode.transcript import Reader
from hardwon.agents.transcript_steps import Step
from hardwon.handoff import due_sessions, transcript_story
from hardwon.store import db
from tests.support.claude_transcript import TranscriptWriter
from tests.support.draft_evidence import is_quote_in_source
from tests.support.house import House, wait_for
from tests.support.opencode_database import OpencodeDatabase
from tests.support.transcript_reading import TESTS

RECORDED = os.path.join(TESTS, "transcripts", "opencode")
VALUES = settings.resolve_settings({})


@pytest.fixture
def opencode(own_home: str) -> Iterator[OpencodeDatabase]:
    opencode_database = OpencodeDatabase(own_home)
    yield opencode_database
    opencode_database.connection.close()


def read_session_steps(path: str) -> list[Step]:
    reader = Reader()
    with transcript_files.open_transcript(path) as opened:
        return [step for lines, _ in opened.portions for line in lines for step in reader.read_line(*line)]


def run_scan(house: House, *options: str) -> dict[str, Any]:
    scan_result: dict[str, Any] = house.ok("scan", "--json", *options).json()
    return scan_result


def list_prompts(house: House) -> list[str]:
    return [row["prompt"] for row in house.stored("prompts")]


def test_recorded_rows_give_the_same_steps_as_an_export(own_home: str) -> None:
    path = os.path.join(own_home, "opencode.db")
    with open(os.path.join(TESTS, "payloads", "opencode", "database_rows.json"), encoding="utf-8") as file:
        dump = json.load(file)
    with closing(sqlite3.connect(path)) as connection:
        for name in ("session", "message", "part"):
            columns = list(dump[name][0])
            connection.execute(f"create table {name} ({', '.join(columns)})")
            rows = [[row[column] for column in columns] for row in dump[name]]
            connection.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", rows)
        connection.commit()
    with open(os.path.join(RECORDED, "export.json"), "rb") as file:
        exported = file.read()
    [session] = database.list_sessions(path)
    session_steps = read_session_steps(session.path)
    assert [step._replace(line=0) for step in session_steps] == [
        step._replace(line=0) for step in Reader().read_line(1, exported)
    ]
    messages = [message["parts"] for message in json.loads(exported)["messages"]]
    for step in session_steps:
        assert step.id.rpartition(":")[2] in [part["id"] for part in messages[step.line - 1]]


def test_a_mistake_is_found_with_its_session_and_its_message(house: House, opencode: OpencodeDatabase) -> None:
    for session in ("ses_1", "ses_2"):
        opencode.mistake(opencode.session(session))
    assert run_scan(house)["files"] == 2
    [candidate] = house.ok("scan", "candidates", "--json").json()["candidates"]
    assert "git log --color=always" in candidate["solution"] and candidate["sessionCount"] == 2
    evidence_places = {
        (evidence_item["path"], evidence_item["line"], evidence_item["kind"]) for evidence_item in candidate["evidence"]
    }
    assert {(opencode.at("ses_1"), 2, "error"), (opencode.at("ses_2"), 2, "error")} < evidence_places
    [reviewed_candidate] = house.ok("review", "--json").json()["candidates"]
    assert [step["line"] for step in reviewed_candidate["episodes"][0]["steps"] if step.get("failed")] == [2]


def test_only_a_session_that_changed_is_read_again_from_where_it_ended(
    house: House, opencode: OpencodeDatabase
) -> None:
    opencode.mistake(opencode.session("ses_1"))
    opencode.person(opencode.session("ses_2"), "show me the log")
    opencode.call("ses_2", "git log --colour=always", "error: unknown option `--colour'", code=129)
    assert run_scan(house)["files"] == 2
    assert run_scan(house)["files"] == 0
    opencode.call("ses_2", "git log --color=always", "commit 1")
    opencode.agent("ses_2", "There it is.")
    second_scan = run_scan(house)
    assert second_scan["files"] == 1 and 0 < second_scan["bytes"] < 1500
    assert list(house.ok("scan", "state", "--json").json()["files"]) == [opencode.at("ses_1"), opencode.at("ses_2")]
    [candidate] = house.ok("scan", "candidates", "--json").json()["candidates"]
    assert candidate["sessionCount"] == 2
    assert run_scan(house, "--full")["files"] == 2
    assert house.ok("scan", "candidates", "--json").json()["candidates"][0]["occurrenceCount"] == 2


def test_only_committed_messages_are_read(opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the kite")
    opencode.agent("ses_1", "It flies.")
    opencode.connection.execute("begin")
    opencode.person("ses_1", "land it")
    opencode.agent("ses_1", "It has landed.")
    assert os.path.getsize(f"{opencode.path}-wal")
    assert [step.text for step in read_session_steps(opencode.at("ses_1"))] == ["fly the kite", "It flies."]
    opencode.connection.execute("commit")
    assert [step.text for step in read_session_steps(opencode.at("ses_1"))][2:] == ["land it", "It has landed."]


def test_an_answer_that_is_still_being_written_waits(house: House, opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the kite")
    assert read_session_steps(opencode.at("ses_1")) == []
    answer = opencode.agent("ses_1", "It flies.", finished=False)
    assert [step.kind for step in read_session_steps(opencode.at("ses_1"))] == ["person"]
    assert run_scan(house)["files"] == 1
    opencode.finish(answer)
    assert [step.line for step in read_session_steps(opencode.at("ses_1"))] == [1, 2]
    assert run_scan(house)["files"] == 1


@pytest.mark.parametrize("is_open", [True, False])
def test_scanning_changes_nothing_in_opencodes_folder(house: House, opencode: OpencodeDatabase, is_open: bool) -> None:
    opencode.mistake(opencode.session("ses_1"))
    if not is_open:
        opencode.connection.close()
    folder = os.path.dirname(opencode.path)

    def read_files() -> dict[str, bytes]:
        names = [name for name in os.listdir(folder) if not name.endswith("-shm")]
        return {name: open(os.path.join(folder, name), "rb").read() for name in names}

    names, contents_before = sorted(os.listdir(folder)), read_files()
    assert run_scan(house)["files"] == 1
    assert (sorted(os.listdir(folder)), read_files()) == (names, contents_before)


def lock_database(opencode: OpencodeDatabase) -> None:
    opencode.connection.execute("pragma locking_mode = exclusive")
    opencode.connection.execute("begin exclusive")
    opencode.connection.execute("delete from session")


def corrupt_database(opencode: OpencodeDatabase) -> None:
    opencode.connection.close()
    with open(opencode.path, "r+b") as file:
        file.write(b"SQLite format 3\0" + b"\xff" * 8000)


def migrate_half(opencode: OpencodeDatabase) -> None:
    opencode.connection.execute("alter table message rename to message_old")


def rename_column(opencode: OpencodeDatabase) -> None:
    opencode.connection.execute("alter table session rename column time_updated to changed")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lock_database, "database is locked"),
        (corrupt_database, "file is not a database"),
        (migrate_half, "no such table: message"),
        (rename_column, "no such column: time_updated"),
    ],
)
def test_an_unreadable_database_is_reported_and_the_scan_continues(
    house: House, opencode: OpencodeDatabase, own_home: str, spoil: Any, reason: str
) -> None:
    opencode.mistake(opencode.session("ses_1"))
    TranscriptWriter(own_home).mistake().write()
    spoil(opencode)
    scan_result = run_scan(house)
    assert [(fault["path"], reason in fault["fault"]) for fault in scan_result["faults"]] == [(opencode.path, True)]
    assert house.ok("scan", "candidates", "--all", "--json").json()["candidates"] != []
    assert reason in house.ok("import", "transcripts").out
    with pytest.raises(OSError, match=reason):
        read_session_steps(opencode.at("ses_1"))


def test_an_invalid_message_is_ignored(opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the kite")
    opencode.connection.execute("update part set data = 'half {'")
    opencode.connection.execute("insert into message values ('msg_2', 'ses_1', 1, 1, x'ff00')")
    opencode.agent("ses_1", "It flies.")
    opencode.connection.execute("update message set id = 'msg_3' where data like '%completed%'")
    opencode.connection.execute("update part set message_id = 'msg_3' where data like '%flies%'")
    assert [step.text for step in read_session_steps(opencode.at("ses_1"))] == ["It flies."]


def test_a_subagents_session_belongs_to_its_parent_and_shares_its_privacy(opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the kite")
    opencode.agent(opencode.session("ses_2", parent="ses_1"), "It flies.")
    opencode.agent(opencode.session("ses_3", parent="ses_2"), "So does its tail.")
    path = opencode.at("ses_2", "ses_1")
    assert [session.path for session in database.list_sessions(opencode.path)][1:] == [
        path,
        opencode.at("ses_3", "ses_2"),
    ]
    assert [(step.session, step.subagent_id, step.text) for step in read_session_steps(path)] == [
        ("ses_1", "ses_2", "It flies.")
    ]
    assert transcript_files.list_subagent_transcripts(opencode.at("ses_1")) == [path]
    opencode.person("ses_1", "<Private>and nobody may know</Private>")
    assert (read_session_steps(path), read_session_steps(opencode.at("ses_3", "ses_2"))) == ([], [])


def test_calls_after_a_private_prompt_are_not_stored(house: House, opencode: OpencodeDatabase) -> None:
    opencode.session("ses_1")
    opencode.agent("ses_1", "Hello.")
    opencode.person("ses_1", "<private>show me the log</private>")
    assert run_scan(house)["files"] == 1
    opencode.call("ses_1", "git log --colour=always", "error: unknown option `--colour'", code=129)
    opencode.call("ses_1", "git log --color=always", "commit 1")
    assert run_scan(house)["files"] == 1
    assert house.stored("calls") == [] and house.stored("signals") == []


def send_hook(house: House, event: str, **payload: Any) -> None:
    wire = {"sessionID": "ses_1", "directory": "/home/dev/kite", **payload}
    house.hook(event, json.dumps(wire).encode(), host="opencode")


def wait_for_filled_session(house: House) -> dict[str, Any]:
    """Wait until the worker has read the session's transcript, and return the session."""
    wait_for(lambda: any(row["transcript"] and not row["to_fill"] for row in house.stored("sessions")))
    [session] = house.stored("sessions")
    return session


def test_a_session_recorded_by_hooks_is_filled_and_reflected_on_by_its_id(
    house: House, opencode: OpencodeDatabase
) -> None:
    message_id = opencode.person(opencode.session("ses_1"), "fly the kite")
    call_id = opencode.call("ses_1", "kite up", "up")
    opencode.call("ses_1", "kite higher", "no wind", code=1)
    opencode.agent("ses_1", "It flies.")
    opencode.agent(opencode.session("ses_2", parent="ses_1"), "Nothing here.")
    opencode.call("ses_2", "kite tail", "long")
    opencode.agent("ses_2", "It is long.")
    house.ok("start")
    send_hook(house, "UserPromptSubmit", messageID=message_id, prompt="fly the kite")
    send_hook(house, "PostToolUse", tool="bash", callID=call_id, args={"command": "kite up"}, output="up", exit=0)
    send_hook(house, "Stop", said="It flies.")
    session = wait_for_filled_session(house)
    assert (session["session"], session["transcript"], session["prompts"]) == ("ses_1", opencode.at("ses_1"), 1)
    events = [event for event in house.stored("events") if event["kind"] == "tool"]
    recorded_calls = sorted(
        (json.loads(event["input"])["command"], event["outcome"], event["agent"]) for event in events
    )
    assert recorded_calls == [("kite higher", "failed", ""), ("kite tail", "fine", "ses_2"), ("kite up", "fine", "")]
    reflection = house.ok("reflect", "ses_1", "--plain", "--json").json()
    assert reflection["session"] == "ses_1"


def test_a_deleted_session_does_not_come_back_when_it_continues(house: House, opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the kite")
    opencode.agent("ses_1", "It flies.")
    house.ok("import", "transcripts")
    assert list_prompts(house) == ["fly the kite"]
    house.ok("sessions", "delete", "ses_1", "--yes")
    opencode.continue_now()
    opencode.person("ses_1", "land it")
    opencode.agent("ses_1", "It has landed.")
    house.ok("import", "transcripts")
    assert list_prompts(house) == ["land it"]


def test_purged_text_is_reported_by_session_and_does_not_come_back(house: House, opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), "fly the paper kite")
    opencode.agent("ses_1", "It flies.")
    opencode.person(opencode.session("ses_2"), "fly the other")
    opencode.agent("ses_2", "It flies.")
    house.ok("import", "transcripts")
    purged = house.ok("purge", "--text", "paper kite", "--yes", "--json").json()
    assert (purged["transcripts"], purged["left"]) == ([opencode.at("ses_1")], [])
    opencode.person("ses_1", "land it")
    opencode.agent("ses_1", "It has landed.")
    house.ok("import", "transcripts")
    assert sorted(list_prompts(house)) == ["fly the other", "land it"]


def test_a_session_without_hooks_is_due_for_reflection(opencode: OpencodeDatabase, own_home: str) -> None:
    for session in ("ses_1", "ses_2"):
        opencode.person(opencode.session(session, parent="" if session == "ses_1" else "ses_1"), "fly the kite")
        opencode.agent(session, "It flies.")
    now = 1_794_774_952.0 + 3_600
    with closing(db.connect(os.path.join(own_home, ".hardwon"))) as connection:
        due = due_sessions.find_sessions_due_for_reflection(
            connection,
            os.path.join(own_home, ".hardwon"),
            {**VALUES, "autoReflect": True, "reflectMinPrompts": 1},
            os.environ,
            now=now,
            is_denied=lambda cwd: False,
            queue_folder=own_home,
        )
    assert [(due_session.transcript, due_session.session) for due_session in due] == [(opencode.at("ses_1"), "ses_1")]


def test_a_quote_is_found_in_its_message(opencode: OpencodeDatabase) -> None:
    opencode.person(opencode.session("ses_1"), 'fly the "paper" kite\nand land it')
    opencode.agent("ses_1", "It flies.")
    story = transcript_story.read_story(opencode.at("ses_1"))
    evidence = transcript_story.quote_step(story, story.steps[0], 'fly the "paper" kite')
    assert (evidence.path, evidence.line, is_quote_in_source(evidence)) == (opencode.at("ses_1"), 1, True)


def test_another_channels_database_is_found_and_other_files_are_not(own_home: str) -> None:
    for name, is_database in (
        ("opencode.db", True),
        ("opencode-dev.db", True),
        ("opencode.db-wal", False),
        ("a.db", False),
    ):
        assert database.is_database(os.path.join(own_home, name)) is is_database
    assert (
        transcript_files.find_session_path("opencode", "ses_1")
        == transcript_files.find_session_path("claude-code", "s1")
        == ""
    )
