"""opencode's sessions are read where it keeps them: in its database, which it may be writing to, and which stays as it is."""

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
def kept(own_home: str) -> Iterator[OpencodeDatabase]:
    made = OpencodeDatabase(own_home)
    yield made
    made.connection.close()


def steps(path: str) -> list[Step]:
    reader = Reader()
    with transcript_files.open_transcript(path) as opened:
        return [step for lines, _ in opened.portions for line in lines for step in reader.read_line(*line)]


def scan(house: House, *words: str) -> dict[str, Any]:
    said: dict[str, Any] = house.ok("scan", "--json", *words).json()
    return said


def prompts(house: House) -> list[str]:
    return [one["prompt"] for one in house.stored("prompts")]


def test_the_rows_of_the_real_program_say_what_it_exports(own_home: str) -> None:
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
    found = steps(session.path)
    assert [step._replace(line=0) for step in found] == [
        step._replace(line=0) for step in Reader().read_line(1, exported)
    ]
    messages = [message["parts"] for message in json.loads(exported)["messages"]]
    for step in found:
        assert step.id.rpartition(":")[2] in [part["id"] for part in messages[step.line - 1]]


def test_a_mistake_is_found_with_its_session_and_its_message(house: House, kept: OpencodeDatabase) -> None:
    for session in ("ses_1", "ses_2"):
        kept.mistake(kept.session(session))
    assert scan(house)["files"] == 2
    [found] = house.ok("scan", "candidates", "--json").json()["candidates"]
    assert "git log --color=always" in found["solution"] and found["sessionCount"] == 2
    where = {
        (evidence_item["path"], evidence_item["line"], evidence_item["kind"]) for evidence_item in found["evidence"]
    }
    assert {(kept.at("ses_1"), 2, "error"), (kept.at("ses_2"), 2, "error")} < where
    [shown] = house.ok("review", "--json").json()["candidates"]
    assert [step["line"] for step in shown["episodes"][0]["steps"] if step.get("failed")] == [2]


def test_a_session_that_did_not_change_is_not_read_again_and_one_that_did_is_read_on(
    house: House, kept: OpencodeDatabase
) -> None:
    kept.mistake(kept.session("ses_1"))
    kept.person(kept.session("ses_2"), "show me the log")
    kept.call("ses_2", "git log --colour=always", "error: unknown option `--colour'", code=129)
    assert scan(house)["files"] == 2
    assert scan(house)["files"] == 0
    kept.call("ses_2", "git log --color=always", "commit 1")
    kept.agent("ses_2", "There it is.")
    again = scan(house)
    assert again["files"] == 1 and 0 < again["bytes"] < 1500
    assert list(house.ok("scan", "state", "--json").json()["files"]) == [kept.at("ses_1"), kept.at("ses_2")]
    [found] = house.ok("scan", "candidates", "--json").json()["candidates"]
    assert found["sessionCount"] == 2
    assert scan(house, "--full")["files"] == 2
    assert house.ok("scan", "candidates", "--json").json()["candidates"][0]["occurrenceCount"] == 2


def test_what_is_committed_to_the_log_is_read_and_what_is_not_waits(kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), "fly the kite")
    kept.agent("ses_1", "It flies.")
    kept.connection.execute("begin")
    kept.person("ses_1", "land it")
    kept.agent("ses_1", "It has landed.")
    assert os.path.getsize(f"{kept.path}-wal")
    assert [step.text for step in steps(kept.at("ses_1"))] == ["fly the kite", "It flies."]
    kept.connection.execute("commit")
    assert [step.text for step in steps(kept.at("ses_1"))][2:] == ["land it", "It has landed."]


def test_an_answer_that_is_still_being_written_waits(house: House, kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), "fly the kite")
    assert steps(kept.at("ses_1")) == []
    answer = kept.agent("ses_1", "It flies.", finished=False)
    assert [step.kind for step in steps(kept.at("ses_1"))] == ["person"]
    assert scan(house)["files"] == 1
    kept.finish(answer)
    assert [step.line for step in steps(kept.at("ses_1"))] == [1, 2]
    assert scan(house)["files"] == 1


@pytest.mark.parametrize("is_open", [True, False])
def test_nothing_in_its_folder_is_changed(house: House, kept: OpencodeDatabase, is_open: bool) -> None:
    kept.mistake(kept.session("ses_1"))
    if not is_open:
        kept.connection.close()
    folder = os.path.dirname(kept.path)

    def there() -> dict[str, bytes]:
        names = [name for name in os.listdir(folder) if not name.endswith("-shm")]
        return {name: open(os.path.join(folder, name), "rb").read() for name in names}

    names, before = sorted(os.listdir(folder)), there()
    assert scan(house)["files"] == 1
    assert (sorted(os.listdir(folder)), there()) == (names, before)


def lock(kept: OpencodeDatabase) -> None:
    kept.connection.execute("pragma locking_mode = exclusive")
    kept.connection.execute("begin exclusive")
    kept.connection.execute("delete from session")


def corrupt(kept: OpencodeDatabase) -> None:
    kept.connection.close()
    with open(kept.path, "r+b") as file:
        file.write(b"SQLite format 3\0" + b"\xff" * 8000)


def migrate_half(kept: OpencodeDatabase) -> None:
    kept.connection.execute("alter table message rename to message_old")


def rename_column(kept: OpencodeDatabase) -> None:
    kept.connection.execute("alter table session rename column time_updated to changed")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lock, "database is locked"),
        (corrupt, "file is not a database"),
        (migrate_half, "no such table: message"),
        (rename_column, "no such column: time_updated"),
    ],
)
def test_one_that_cannot_be_read_is_named_and_stops_nobody(
    house: House, kept: OpencodeDatabase, own_home: str, spoil: Any, why: str
) -> None:
    kept.mistake(kept.session("ses_1"))
    TranscriptWriter(own_home).mistake().write()
    spoil(kept)
    said = scan(house)
    assert [(fault["path"], why in fault["fault"]) for fault in said["faults"]] == [(kept.path, True)]
    assert house.ok("scan", "candidates", "--all", "--json").json()["candidates"] != []
    assert why in house.ok("import", "transcripts").out
    with pytest.raises(OSError, match=why):
        steps(kept.at("ses_1"))


def test_a_message_that_makes_no_sense_is_passed_over(kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), "fly the kite")
    kept.connection.execute("update part set data = 'half {'")
    kept.connection.execute("insert into message values ('msg_2', 'ses_1', 1, 1, x'ff00')")
    kept.agent("ses_1", "It flies.")
    kept.connection.execute("update message set id = 'msg_3' where data like '%completed%'")
    kept.connection.execute("update part set message_id = 'msg_3' where data like '%flies%'")
    assert [step.text for step in steps(kept.at("ses_1"))] == ["It flies."]


def test_a_sub_agents_session_belongs_to_its_parents_and_is_left_out_if_that_is_private(kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), "fly the kite")
    kept.agent(kept.session("ses_2", parent="ses_1"), "It flies.")
    kept.agent(kept.session("ses_3", parent="ses_2"), "So does its tail.")
    path = kept.at("ses_2", "ses_1")
    assert [one.path for one in database.list_sessions(kept.path)][1:] == [path, kept.at("ses_3", "ses_2")]
    assert [(step.session, step.agent, step.text) for step in steps(path)] == [("ses_1", "ses_2", "It flies.")]
    assert transcript_files.list_subagent_transcripts(kept.at("ses_1")) == [path]
    kept.person("ses_1", "<Private>and nobody may know</Private>")
    assert (steps(path), steps(kept.at("ses_3", "ses_2"))) == ([], [])


def test_what_follows_a_private_prompt_is_not_kept(house: House, kept: OpencodeDatabase) -> None:
    kept.session("ses_1")
    kept.agent("ses_1", "Hello.")
    kept.person("ses_1", "<private>show me the log</private>")
    assert scan(house)["files"] == 1
    kept.call("ses_1", "git log --colour=always", "error: unknown option `--colour'", code=129)
    kept.call("ses_1", "git log --color=always", "commit 1")
    assert scan(house)["files"] == 1
    assert house.stored("calls") == [] and house.stored("signals") == []


def hear(house: House, event: str, **payload: Any) -> None:
    wire = {"sessionID": "ses_1", "directory": "/home/dev/kite", **payload}
    house.hook(event, json.dumps(wire).encode(), host="opencode")


def wait_filled(house: House) -> dict[str, Any]:
    """The session, once the worker has read what its turn's end asked for."""
    wait_for(lambda: any(one["transcript"] and not one["to_fill"] for one in house.stored("sessions")))
    [session] = house.stored("sessions")
    return session


def test_a_session_that_hooks_told_is_filled_and_reflected_on_by_its_id(house: House, kept: OpencodeDatabase) -> None:
    named = kept.person(kept.session("ses_1"), "fly the kite")
    called = kept.call("ses_1", "kite up", "up")
    kept.call("ses_1", "kite higher", "no wind", code=1)
    kept.agent("ses_1", "It flies.")
    kept.agent(kept.session("ses_2", parent="ses_1"), "Nothing here.")
    kept.call("ses_2", "kite tail", "long")
    kept.agent("ses_2", "It is long.")
    house.ok("start")
    hear(house, "UserPromptSubmit", messageID=named, prompt="fly the kite")
    hear(house, "PostToolUse", tool="bash", callID=called, args={"command": "kite up"}, output="up", exit=0)
    hear(house, "Stop", said="It flies.")
    session = wait_filled(house)
    assert (session["session"], session["transcript"], session["prompts"]) == ("ses_1", kept.at("ses_1"), 1)
    events = [one for one in house.stored("events") if one["kind"] == "tool"]
    told = sorted((json.loads(event["input"])["command"], event["outcome"], event["agent"]) for event in events)
    assert told == [("kite higher", "failed", ""), ("kite tail", "fine", "ses_2"), ("kite up", "fine", "")]
    made = house.ok("reflect", "ses_1", "--plain", "--json").json()
    assert made["session"] == "ses_1"


def test_a_session_that_was_deleted_here_does_not_come_back_when_it_goes_on(
    house: House, kept: OpencodeDatabase
) -> None:
    kept.person(kept.session("ses_1"), "fly the kite")
    kept.agent("ses_1", "It flies.")
    house.ok("import", "transcripts")
    assert prompts(house) == ["fly the kite"]
    house.ok("sessions", "delete", "ses_1", "--yes")
    kept.continue_now()
    kept.person("ses_1", "land it")
    kept.agent("ses_1", "It has landed.")
    house.ok("import", "transcripts")
    assert prompts(house) == ["land it"]


def test_what_is_purged_is_named_in_its_session_and_does_not_come_back(house: House, kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), "fly the paper kite")
    kept.agent("ses_1", "It flies.")
    kept.person(kept.session("ses_2"), "fly the other")
    kept.agent("ses_2", "It flies.")
    house.ok("import", "transcripts")
    purged = house.ok("purge", "--text", "paper kite", "--yes", "--json").json()
    assert (purged["transcripts"], purged["left"]) == ([kept.at("ses_1")], [])
    kept.person("ses_1", "land it")
    kept.agent("ses_1", "It has landed.")
    house.ok("import", "transcripts")
    assert sorted(prompts(house)) == ["fly the other", "land it"]


def test_a_session_that_nobody_told_of_is_seen_by_the_idle_clock(kept: OpencodeDatabase, own_home: str) -> None:
    for session in ("ses_1", "ses_2"):
        kept.person(kept.session(session, parent="" if session == "ses_1" else "ses_1"), "fly the kite")
        kept.agent(session, "It flies.")
    now = 1_794_774_952.0 + 3_600
    with closing(db.connect(os.path.join(own_home, ".hardwon"))) as connection:
        found = due_sessions.find_sessions_due_for_reflection(
            connection,
            os.path.join(own_home, ".hardwon"),
            {**VALUES, "autoReflect": True, "reflectMinPrompts": 1},
            os.environ,
            now=now,
            is_denied=lambda cwd: False,
            queue_folder=own_home,
        )
    assert [(one.transcript, one.session) for one in found] == [(kept.at("ses_1"), "ses_1")]


def test_a_quote_stands_in_its_message(kept: OpencodeDatabase) -> None:
    kept.person(kept.session("ses_1"), 'fly the "paper" kite\nand land it')
    kept.agent("ses_1", "It flies.")
    told = transcript_story.read_story(kept.at("ses_1"))
    quoted = transcript_story.quote_step(told, told.steps[0], 'fly the "paper" kite')
    assert (quoted.path, quoted.line, is_quote_in_source(quoted)) == (kept.at("ses_1"), 1, True)


def test_another_channels_database_is_found_and_other_files_are_not(own_home: str) -> None:
    for name, is_one in (("opencode.db", True), ("opencode-dev.db", True), ("opencode.db-wal", False), ("a.db", False)):
        assert database.is_database(os.path.join(own_home, name)) is is_one
    assert (
        transcript_files.find_session_path("opencode", "ses_1")
        == transcript_files.find_session_path("claude-code", "s1")
        == ""
    )
