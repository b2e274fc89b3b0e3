"""Two hooks of ours on one event, as with a plugin beside the settings: recorded once, answered once, held in both."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.support.house import GIT_STASH, House, bash, happened, lesson, prompt, used

LESSON = """\
#lesson
tool: Bash
trigger: git stash
problem: git stash only stashes tracked files; untracked ones stay where they are
solution: use git stash -u to keep untracked files as well
#/lesson"""


@pytest.fixture(params=["up", "down"])
def one_house(house: House, request: pytest.FixtureRequest) -> House:
    """With the worker up, and with it away."""
    house.ok("lessons", "build")
    if request.param == "up":
        house.ok("start")
    else:
        house.stay_cold()
    return house


def twice(house: House, payload: dict[str, Any], host: str = "claude-code") -> list[dict[str, Any]]:
    """What two hooks say that get the same payload in the same moment; the time that the agent stamps differs."""
    said: list[dict[str, Any]] = []

    def ask(stamp: str) -> None:
        wire = json.dumps({"session_id": "s1", **payload, "timestamp": f"2026-11-15T10:00:00.{stamp}Z"}).encode()
        said.append(json.loads(house.hook(payload["hook_event_name"], wire, host=host).strip() or b"{}"))

    hooks = [threading.Thread(target=ask, args=(stamp,)) for stamp in ("100", "104")]
    for hook in hooks:
        hook.start()
    for hook in hooks:
        hook.join()
    return said


def of_gemini(event: str, **more: Any) -> dict[str, Any]:
    """A payload as Gemini CLI sends it: its calls have no id."""
    chats = "/home/dev/.gemini/tmp/project/chats/session-2026-11-15T10-00-aaaaaaaa.jsonl"
    return {"transcript_path": chats, "cwd": "/home/dev/project", "hook_event_name": event, **more}


def denied(said: list[dict[str, Any]]) -> list[bool]:
    return ["deny" in json.dumps(one) for one in said]


def test_a_call_is_held_in_both_and_delivered_once(one_house: House) -> None:
    one_house.add({**GIT_STASH, "delivery": "hold"})
    assert denied(twice(one_house, bash("git stash"))) == [True, True]
    assert len(one_house.deliveries()) == 1


def test_a_block_denies_in_both_and_each_call_counts_once(one_house: House) -> None:
    one_house.add({**GIT_STASH, "delivery": "block"})
    assert denied([*twice(one_house, bash("git stash")), *twice(one_house, bash("git stash"))]) == [True] * 4
    assert len(one_house.deliveries()) == 2


def test_a_note_is_said_once(one_house: House) -> None:
    one_house.add(GIT_STASH)
    said = twice(one_house, bash("git stash"))
    assert sorted("untracked" in json.dumps(one) for one in said) == [False, True]
    assert len(one_house.deliveries()) == 1


def test_what_opens_a_session_is_said_once_at_every_start(one_house: House) -> None:
    one_house.add(lesson(delivery="start", summary="the cache must be warmed first", triggers={}))
    for source in ("startup", "clear"):
        said = twice(one_house, happened("SessionStart", source=source))
        assert sorted("must be warmed" in json.dumps(one) for one in said) == [False, True]


def test_a_lesson_that_a_person_types_is_taken_once(one_house: House) -> None:
    said = twice(one_house, prompt(LESSON))
    assert sorted(one.get("decision") == "block" for one in said) == [False, True]
    one_house.ok("start")
    one_house.deliveries()
    assert len(one_house.ok("lessons", "list", "--json").json()) == 1


def test_everything_is_recorded_once(one_house: House) -> None:
    response = {"stdout": "fine", "stderr": ""}
    for payload in (
        happened("SessionStart", source="startup"),
        prompt("mend the build"),
        used("Bash", {"command": "make"}, response),
        happened("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="found it"),
        happened("PreCompact", trigger="manual"),
        happened("Stop", last_assistant_message="done"),
        happened("SessionEnd", reason="other"),
    ):
        twice(one_house, payload)
    kinds = [row["kind"] for row in one_house.stored("events")]
    assert sorted(kinds) == sorted(["SessionStart", "tool", "SubagentStop", "PreCompact", "Stop", "SessionEnd"])
    assert [row["prompt"] for row in one_house.stored("prompts")] == ["mend the build"]


def test_calls_without_an_id_are_told_apart_by_what_they_say(one_house: House) -> None:
    def ran(output: str) -> dict[str, Any]:
        given = {"command": "make", "description": "made up"}
        told = {"llmContent": f"Output: {output}\nProcess Group PGID: 4711", "returnDisplay": output}
        return of_gemini("AfterTool", tool_name="run_shell_command", tool_input=given, tool_response=told)

    for payload in (of_gemini("BeforeAgent", prompt="mend the build"), ran("one"), ran("two")):
        twice(one_house, payload, host="gemini")
    assert [row["tool"] for row in one_house.stored("events")] == ["Bash", "Bash"]
    assert len(one_house.stored("prompts")) == 1


def test_a_call_without_an_id_is_held_in_both_and_delivered_once(one_house: House) -> None:
    one_house.add({**GIT_STASH, "delivery": "hold"})
    given = {"command": "git stash", "description": "made up"}
    call = of_gemini("BeforeTool", tool_name="run_shell_command", tool_input=given)
    assert denied(twice(one_house, call, host="gemini")) == [True, True]
    assert len(one_house.deliveries()) == 1
