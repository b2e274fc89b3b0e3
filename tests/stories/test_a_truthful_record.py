"""What is remembered of a session is what happened in it: calls that ran, words of people, results as text."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from hardwon import settings
from hardwon.handoff import transcript_story
from hardwon.handoff.draft import build_draft, render_draft
from hardwon.lessons import delivery_outcomes
from hardwon.sessions import transcript_import
from hardwon.store import db, jobs, retention, sessions, views
from hardwon.web import lessons as lesson_pages
from hardwon.web import render
from hardwon.web.access_control import BrowserSession
from hardwon.web.page_request import PageRequest
from hardwon.worker import job_process
from hardwon.worker.hook_responder import HookResponder
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash, failed, happened, lesson, prompt, used

PARALLEL = {"command": "pytest --parallel 4 tests"}
INSTEAD = {"command": "pytest -n 2 tests"}
SESSION = "5e551017-0000-4000-8000-0000000000aa"


class Memory:
    """Answers hooks in this process, and reads what is stored afterwards."""

    def __init__(self, house: House, connection: db.Connection) -> None:
        self.house, self.connection = house, connection
        self._desk = HookResponder(house.home, connection)
        self._ids = (f"hook-{number}" for number in count(1))

    def answer_hooks(self, *payloads: dict[str, Any], session: str = SESSION) -> list[dict[str, Any]]:
        """Send payloads to the hook responder; return the answers."""
        answers = []
        for payload in payloads:
            event = payload["hook_event_name"]
            head = f"hardwon 1 claude-code {event} {next(self._ids)}\n".encode()
            answers.append(
                json.loads(self._desk.answer(head + json.dumps({"session_id": session, **payload}).encode()))
            )
        return answers

    def import_transcript(self, transcript: TranscriptWriter) -> None:
        transcript_import.import_transcript(
            self.house.home, self.connection, "claude-code", transcript.write(), settings.resolve_settings({})
        )

    def distil(self) -> None:
        self.connection.execute("update jobs set due_at = 0")
        job_process.run_due_jobs(self.house.home, self.connection, jobs.DISTIL, settings.resolve_settings({}))

    def query_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(sql)]

    def read_distilled_text(self) -> str:
        """Distil the session; return the text of all observations and summaries."""
        self.distil()
        rows = self.query_rows("select title, subtitle, narrative, facts from observations")
        rows += self.query_rows("select request, investigated, learned, completed, next_steps from summaries")
        return json.dumps(rows, ensure_ascii=False)


@pytest.fixture
def memory(house: House) -> Iterator[Memory]:
    os.makedirs(house.home, mode=0o700, exist_ok=True)
    with closing(db.connect(house.home)) as connection:
        yield Memory(house, connection)


def list_calls(memory: Memory) -> list[tuple[Any, ...]]:
    return memory.query_rows(
        "select json_extract(input, '$.command'), outcome from events where kind = 'tool' order by at"
    )


def hold_call(memory: Memory, transcript: TranscriptWriter | None = None) -> None:
    """Have a call of the agent held, and then the call that the lesson proposes run."""
    memory.house.add(lesson(r"\bpytest\b.*--parallel", delivery="hold"))
    [prompt_answer, answer] = memory.answer_hooks(
        prompt("run the tests"), bash(PARALLEL["command"], tool_use_id="toolu_held")
    )
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny", prompt_answer
    if transcript:
        transcript.person("run the tests")
        use = {"type": "tool_use", "id": "toolu_held", "name": "Bash", "input": PARALLEL}
        transcript._add_line("assistant", {"role": "assistant", "content": [use]})
        reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
        transcript.result("toolu_held", f"PreToolUse:Bash hook error: {reason}", failed=True)
    memory.answer_hooks(
        used("Bash", INSTEAD, {"stdout": "12 passed in 0.31s", "stderr": "", "interrupted": False}),
        happened("Stop", last_assistant_message="All tests pass with two workers."),
    )


@pytest.mark.parametrize("has_transcript", [False, True])
def test_a_held_call_is_never_said_to_have_passed(memory: Memory, own_home: str, has_transcript: bool) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION) if has_transcript else None
    hold_call(memory, transcript)
    if transcript:
        memory.import_transcript(transcript)
    assert list_calls(memory) == [(PARALLEL["command"], "denied"), (INSTEAD["command"], "fine")]
    distilled_text = memory.read_distilled_text()
    assert "`pytest -n 2 tests` (12 passed" in distilled_text
    assert "--parallel" not in distilled_text


def test_a_held_call_that_the_agent_ran_all_the_same_ended_as_it_ran(memory: Memory) -> None:
    memory.house.add(lesson(r"\bpytest\b.*--parallel", delivery="hold"))
    error = "Exit code 4\nERROR: unrecognized arguments: --parallel"
    memory.answer_hooks(
        prompt("run the tests"),
        bash(PARALLEL["command"], tool_use_id="toolu_held"),
        failed("Bash", PARALLEL, error, tool_use_id="toolu_held"),
        happened("Stop", last_assistant_message="They fail."),
    )
    assert list_calls(memory) == [(PARALLEL["command"], "failed")]
    assert "unrecognized arguments: --parallel" in memory.read_distilled_text()


def test_a_call_that_is_held_while_the_worker_is_away_is_recorded_as_denied(memory: Memory) -> None:
    memory.house.add(lesson(r"\bpytest\b.*--parallel", delivery="hold"))
    memory.house.stay_cold()
    assert memory.house.ask(SESSION, bash(PARALLEL["command"])).denied
    memory.house.deliveries()  # takes in the spool
    assert list_calls(memory) == [(PARALLEL["command"], "denied")]


def test_a_result_is_stored_and_found_as_text(memory: Memory) -> None:
    response = {"stdout": "first line\nGALE_FORCE is set\nlast line", "stderr": "", "interrupted": False}
    memory.answer_hooks(
        prompt("look at the wind"),
        used("Bash", {"command": "printenv"}, response),
        happened("Stop", last_assistant_message="Done."),
    )
    assert memory.query_rows("select response from events where kind = 'tool'") == [(response["stdout"],)]
    memory.distil()
    [(words,)] = memory.query_rows("select words from documents where kind = 'E' and words like '%last%'")
    assert "gale" in words.split() and "ngale" not in words


def test_a_row_that_was_stored_as_json_is_read_as_text(memory: Memory) -> None:
    memory.answer_hooks(prompt("run the tests"), used("Bash", INSTEAD, {"stdout": "x"}), happened("Stop"))
    stored = json.dumps({"stdout": "collected\nGALE_FORCE\n3 passed in 0.1s", "stderr": "", "interrupted": False})
    memory.connection.execute("update events set response = ? where kind = 'tool'", (stored,))
    assert "`pytest -n 2 tests` (3 passed)" in memory.read_distilled_text()
    [(words,)] = memory.query_rows("select words from documents where kind = 'E' and words like '%pass%'")
    assert "ngale" not in words


@pytest.mark.parametrize(
    ("tool", "tool_input", "response"),
    [
        ("Bash", {"command": "kite fly 2>&1"}, {"stdout": "Error: no wind", "stderr": ""}),
        (
            "Bash",
            {"command": "node migrate.js"},
            {"stdout": "", "stderr": "Error: connect ECONNREFUSED 127.0.0.1:5432"},
        ),
        ("Bash", {"command": "kite fly"}, {"stdout": "down", "stderr": "", "exitCode": 3}),
        ("mcp__kite__fly", {"high": True}, [{"type": "text", "text": "Error: no wind"}]),
        ("mcp__kite__fly", {"high": True}, {"content": [{"type": "text", "text": "no wind"}], "isError": True}),
    ],
)
def test_a_success_that_says_it_failed_is_recorded_as_a_failure(
    memory: Memory, tool: str, tool_input: dict[str, Any], response: Any
) -> None:
    memory.answer_hooks(prompt("fly"), used(tool, tool_input, response))
    [(outcome, signature)] = memory.query_rows("select outcome, signature from events where kind = 'tool'")
    assert outcome == "failed" and signature


def test_a_command_that_was_broken_off_neither_passed_nor_failed(memory: Memory) -> None:
    broken_off = {"stdout": "collected 9 items", "stderr": "", "interrupted": True}
    memory.answer_hooks(prompt("run the tests"), used("Bash", INSTEAD, broken_off), happened("Stop"))
    assert list_calls(memory) == [(INSTEAD["command"], "interrupted")]
    assert "pass" not in memory.read_distilled_text()


NOTIFICATION = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n</task-notification>"


def test_hardwon_does_not_remember_what_was_typed_to_it(memory: Memory) -> None:
    memory.answer_hooks(
        prompt("mend the token test"),
        used("Bash", INSTEAD, {"stdout": "12 passed in 0.31s"}),
        happened("Stop", last_assistant_message="The token test passes."),
        prompt("/lessons:manage"),
        used("Bash", {"command": "hardwon lessons list"}, {"stdout": "1  git-stash  hold"}),
        happened("Stop", last_assistant_message="One is proposed. Type hardwon accept N."),
        prompt("hardwon accept 1"),
        happened("Stop", last_assistant_message="I cannot do that for you."),
        prompt(NOTIFICATION),
        happened("Stop", last_assistant_message="The background task is done."),
    )
    assert memory.query_rows("select prompt from prompts") == [("mend the token test",)]
    distilled_text = memory.read_distilled_text()
    assert not [
        word for word in ("lessons", "accept", "proposed", "I cannot", "task-notification") if word in distilled_text
    ]
    assert "12 passed" in distilled_text


def test_a_transcript_tells_no_more_of_hardwon_than_hooks_do(memory: Memory, own_home: str) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION)
    transcript.person("mend the token test").agent("The token test passes.")
    transcript.person("<command-message>manage</command-message>\n<command-name>/lessons:manage</command-name>")
    transcript.result(transcript.call("Bash", {"command": "hardwon lessons list"}), "1  git-stash  hold")
    transcript.agent("One is proposed. Type hardwon accept N.")
    transcript.person("hardwon accept 1").agent("I cannot do that for you.")
    transcript.person(NOTIFICATION)
    memory.import_transcript(transcript)
    assert memory.query_rows("select prompt from prompts") == [("mend the token test",)]
    assert memory.query_rows("select response from events where kind = 'Stop'") == [("The token test passes.",)]


def test_a_handoff_says_nothing_of_what_was_typed_to_hardwon(memory: Memory, own_home: str) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION)
    transcript.person("mend the token test")
    transcript.result(transcript.call("Bash", INSTEAD), "12 passed in 0.31s")
    transcript.agent("The token test passes.")
    transcript.person("hardwon accept 1").agent("I cannot do that for you.")
    transcript.person(NOTIFICATION).agent("The background task is done.")
    transcript.person("hardwon approve 77").agent("There is no 77.")
    page = render_draft(build_draft(transcript_story.read_story(transcript.write())))
    assert "mend the token test" in page
    assert not [words for words in ("accept 1", "approve 77", "task-notification", "no 77") if words in page]


@pytest.mark.parametrize("typed", ["/lessons:review", "hardwon approve 1", "hardwon handoff", NOTIFICATION])
def test_a_session_in_which_only_hardwon_was_spoken_to_leaves_nothing(memory: Memory, typed: str) -> None:
    memory.answer_hooks(
        {"hook_event_name": "SessionStart", "source": "startup", "cwd": "/home/dev/project"},
        prompt(typed),
        used("Bash", {"command": "hardwon review --json"}, {"stdout": "[]"}),
        happened("Stop", last_assistant_message="Nothing waits."),
        happened("SessionEnd", reason="other"),
    )
    assert memory.read_distilled_text() == "[]"
    assert sessions.list_sessions(memory.connection, limit=10) == []
    assert retention.read_store_totals(memory.connection).sessions == 0
    assert views.list_session_page(memory.connection, limit=10) == []


def test_a_session_without_a_prompt_and_a_call_goes_once_it_is_over(memory: Memory) -> None:
    start = {"hook_event_name": "SessionStart", "source": "startup", "cwd": "/home/dev/project"}
    memory.answer_hooks(start, happened("SessionEnd", reason="other"), session="looked-in")
    memory.answer_hooks(start, session="just-opened")
    memory.answer_hooks(start, prompt("mend it"), happened("SessionEnd", reason="other"), session="worked")
    assert [session["session"] for session in sessions.list_sessions(memory.connection, limit=10)] == ["worked"]
    memory.connection.execute("update sessions set to_fill = 0")
    now = time.time()
    assert sessions.delete_empty_sessions(memory.connection, now) == 0
    assert sessions.delete_empty_sessions(memory.connection, now + 2 * sessions.ENDED_GRACE_SECONDS) == 1
    assert memory.query_rows("select session from sessions order by session") == [("just-opened",), ("worked",)]
    assert sessions.delete_empty_sessions(memory.connection, now + 2 * sessions.ABANDONED_SECONDS) == 1
    assert memory.query_rows("select session from sessions") == [("worked",)]


@pytest.mark.parametrize(
    "answer",
    [
        "Noted: I will keep that in mind.",
        "Understood. I'll keep it in mind for the next tasks.",
        "Got it, I will use that from now on. I'll remember the port.",
    ],
)
def test_an_answer_that_only_takes_note_decides_nothing(memory: Memory, answer: str) -> None:
    memory.answer_hooks(prompt("remember that staging has no auth"), happened("Stop", last_assistant_message=answer))
    memory.distil()
    decision_rows = memory.query_rows("select title from observations where type = 'decision'")
    assert [title for (title,) in decision_rows if "mind" in title or "remember" in title] == []


def test_an_answer_that_settles_something_is_a_decision(memory: Memory) -> None:
    answer = "I'll keep the old endpoint, because two clients still call it."
    memory.answer_hooks(prompt("may the old endpoint go?"), happened("Stop", last_assistant_message=answer))
    memory.distil()
    assert memory.query_rows("select type from observations") == [("decision",)]


def list_calls_after_hold(memory: Memory, *then: dict[str, Any]) -> list[dict[str, Any]]:
    """A held call with the calls that followed it, as the deliveries of the lesson tell them."""
    memory.house.add(lesson(r"\bpytest\b.*--parallel", delivery="hold"))
    memory.answer_hooks(prompt("run the tests"), bash(PARALLEL["command"]), *then)
    return views.list_lesson_deliveries(memory.connection, limit=10)


def test_a_hold_shows_the_call_that_came_instead_and_how_it_ended(memory: Memory) -> None:
    looked = used("Bash", {"command": "ls tests"}, {"stdout": "test_a.py"})
    [delivery] = list_calls_after_hold(memory, looked, used("Bash", INSTEAD, {"stdout": "12 passed"}))
    followed = delivery_outcomes.find_delivery_outcome(memory.connection, delivery)
    assert followed.call and followed.instead
    assert (json.loads(followed.call["input"])["command"], followed.call["outcome"]) == (PARALLEL["command"], "denied")
    assert (json.loads(followed.instead["input"])["command"], followed.instead["outcome"]) == (
        INSTEAD["command"],
        "fine",
    )
    output = memory.house.ok("lessons", "show", delivery["slug"]).out
    assert "pytest --parallel 4 tests (denied) -> pytest -n 2 tests (passed)" in output


def test_the_page_of_a_lesson_shows_the_call_that_came_instead(memory: Memory, own_home: str) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION)
    hold_call(memory, transcript)
    [delivery] = views.list_lesson_deliveries(memory.connection, limit=10)
    for line in transcript.lines:
        line["timestamp"] = datetime.fromtimestamp(delivery["at"] + 0.0001, UTC).isoformat()
    memory.import_transcript(transcript)  # the agent writes the denied call down right after the hold
    ask = PageRequest(
        memory.house.home, memory.connection, BrowserSession(""), time.time(), {"slug": delivery["slug"]}, {}, {}
    )
    around = {"stamp": "", "places": (), "here": "/lessons", "form": "", "said": "", "paused": False, "version": ""}
    answer = lesson_pages.show_lesson(ask)
    page = render.create_environment().get_template(answer.template).render({**around, **answer.values})
    table = page.partition("What happened after each")[2]
    assert 'pytest -n 2 tests</code> <span class="out fine">' in table
    assert 'pytest --parallel 4 tests</code> <span class="out">denied' in table


def test_a_hold_after_which_the_same_call_was_made_shows_how_that_ended(memory: Memory) -> None:
    [delivery] = list_calls_after_hold(
        memory, failed("Bash", PARALLEL, "Exit code 4\nunrecognized arguments: --parallel")
    )
    followed = delivery_outcomes.find_delivery_outcome(memory.connection, delivery)
    assert followed.instead and followed.instead["outcome"] == "failed"


def test_a_hold_after_which_nothing_came_says_so(memory: Memory) -> None:
    [delivery] = list_calls_after_hold(memory)
    followed = delivery_outcomes.find_delivery_outcome(memory.connection, delivery)
    assert followed.call and followed.instead is None
    assert "no call came instead" in memory.house.ok("lessons", "show", delivery["slug"]).out


def test_tokens_are_those_of_the_transcript_and_are_counted_once(memory: Memory, own_home: str) -> None:
    used_up = {"input_tokens": 10, "cache_read_input_tokens": 500, "output_tokens": 40}
    transcript = TranscriptWriter(own_home, session=SESSION)
    transcript.person("mend it").agent("Done.")
    transcript.lines[-1]["message"] |= {"id": "msg_1", "usage": used_up}
    memory.import_transcript(transcript)
    memory.import_transcript(transcript)
    transcript.agent("One more thing.")
    transcript.lines[-1]["message"] |= {"id": "msg_2", "usage": used_up}
    memory.import_transcript(transcript)
    story = transcript_story.read_story(transcript.path)
    assert "tokens: 1100\ntokens_out: 80\n" in render_draft(build_draft(story))
    assert (story.usage, story.active_minutes < 5) == ((1020, 80, 1000), True)
    assert memory.query_rows("select tokens_in, tokens_out, tokens_cached from sessions") == [(1020, 80, 1000)]


def test_a_transcript_without_tokens_has_no_guess_in_their_place(memory: Memory, own_home: str) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION)
    transcript.person("mend it").agent("Done.")
    memory.import_transcript(transcript)
    assert memory.query_rows("select tokens_in, tokens_out from sessions") == [(None, None)]
    assert "tokens" not in render_draft(build_draft(transcript_story.read_story(transcript.path)))


def test_minutes_of_a_draft_leave_the_night_out(own_home: str) -> None:
    transcript = TranscriptWriter(own_home, session=SESSION)
    transcript.person("mend it").agent("Done.").person("and the other one").agent("Done as well.")
    clock = ("2026-11-01T22:00:00Z", "2026-11-01T22:02:00Z", "2026-11-02T08:00:00Z", "2026-11-02T08:01:00Z")
    for line, at in zip(transcript.lines, clock, strict=True):
        line["timestamp"] = at
    assert "minutes: 3\n" in render_draft(build_draft(transcript_story.read_story(transcript.write())))
