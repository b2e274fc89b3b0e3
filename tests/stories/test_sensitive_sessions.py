"""A session that its person tagged is neither observed, summarised nor handed off; prompts are still recorded."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from hardwon import clock, settings
from hardwon.handoff.due_sessions import find_sessions_due_for_reflection
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.sessions import ingest
from hardwon.store import db, jobs, sessions
from hardwon.types import Event
from hardwon.worker import job_process
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House
from tests.support.made_up_transcripts import build_launch_session


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("draft the settlement #private", ["#private"], True),
        ("#Private: draft the settlement", ["#private"], True),
        ("##private is a heading", ["#private"], False),
        ("the #privateer sails", ["#private"], False),
        ("make it private", ["#private"], False),
        ("the Divorce settlement", ["divorce"], True),
        ("divorced from reality", ["divorce"], False),
        ("anything", [], False),
        ("anything", ["", " "], False),
    ],
)
def test_a_tag_or_word_counts_as_a_word_of_its_own(text: str, words: list[str], expected: bool) -> None:
    assert has_sensitive_word([text], words) is expected


def report_session(connection: db.Connection, transcript: str, *prompts: str) -> None:
    at = clock.now() - 3600
    events: list[dict[str, Any]] = []
    for number, text in enumerate(prompts):
        events.append({"kind": "UserPromptSubmit", "prompt": text})
        tool_input = {"file_path": f"/home/dev/kite/part{number}.py", "old_string": "a", "new_string": "b"}
        events.append({"kind": "PostToolUse", "tool": "Edit", "input": tool_input, "tool_use_id": f"t{number}"})
        events.append({"kind": "Stop", "message": "The settlement is drafted."})
    events.append({"kind": "SessionEnd"})
    for number, event in enumerate(events):
        kind = event.pop("kind")
        stored_event = Event("claude-code", kind, "s1", "/home/dev/kite", id=f"e{number}", at=at + number, **event)
        ingest.commit_event(connection, stored_event)
    connection.execute("update sessions set transcript = ?", (transcript,))


@pytest.mark.parametrize(
    ("first_prompt", "config", "is_sensitive"),
    [
        ("write the settlement #confidential", {}, True),
        ("the divorce settlement, please", {"sensitiveWords": ["divorce"]}, True),
        ("the divorce settlement, please", {}, False),
    ],
)
def test_nothing_is_made_of_a_session_with_a_sensitive_word(
    house: House, own_home: str, tmp_path: Any, first_prompt: str, config: dict[str, Any], is_sensitive: bool
) -> None:
    values = settings.resolve_settings(config)
    transcript = build_launch_session(session="s1").write(tmp_path)
    with closing(db.connect(house.home)) as connection:
        sessions.record_set_up_time(connection, 0.0)
        report_session(connection, transcript, "start the day", first_prompt, "and the second page")
        job_process.run_due_jobs(house.home, connection, jobs.DISTIL, values, read_clock=time.time)
        counts = {
            table: connection.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("prompts", "observations", "summaries", "jobs")
        }
        due = find_sessions_due_for_reflection(
            connection, house.home, values, {}, now=clock.now(), is_denied=lambda cwd: False
        )
    assert counts["prompts"] == 3 and counts["jobs"] == 0
    assert (counts["observations"] == counts["summaries"] == 0) is is_sensitive
    assert (due == []) is is_sensitive


def test_what_was_made_before_the_tag_came_goes(house: House, tmp_path: Any) -> None:
    values = settings.resolve_settings({})
    transcript = build_launch_session(session="s1").write(tmp_path)
    with closing(db.connect(house.home)) as connection:
        report_session(connection, transcript, "write the settlement")
        job_process.run_due_jobs(house.home, connection, jobs.DISTIL, values, read_clock=time.time)
        assert connection.execute("select count(*) from summaries").fetchone()[0] == 1
        late = Event("claude-code", "UserPromptSubmit", "s1", "/home/dev/kite", id="late", prompt="this is #private")
        ingest.commit_event(connection, late)
        job_process.run_due_jobs(house.home, connection, jobs.DISTIL, values, read_clock=lambda: time.time() + 3600)
        assert connection.execute("select count(*) from summaries").fetchone()[0] == 0
        assert connection.execute("select count(*) from observations").fetchone()[0] == 0


def test_a_sensitive_session_is_not_drafted_on_demand_either(house: House, tmp_path: Any) -> None:
    transcript = TranscriptWriter(str(tmp_path), project=str(tmp_path))
    transcript.person("move the kite to pnpm #private").mistake().write()
    refused = house.cli("reflect", str(transcript.path))
    assert refused.code == 1 and "is marked as sensitive" in refused.err
    assert house.ok("handoff", "list", "--json").json() == []
