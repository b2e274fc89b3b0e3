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
def house_up_or_down(house: House, request: pytest.FixtureRequest) -> House:
    """The house with the worker up, and with it down."""
    house.ok("lessons", "build")
    if request.param == "up":
        house.ok("start")
    else:
        house.stay_cold()
    return house


def ask_twice(house: House, payload: dict[str, Any], host: str = "claude-code") -> list[dict[str, Any]]:
    """Return the answers of two hooks that get the same payload at once; only the agent's timestamp differs."""
    answers: list[dict[str, Any]] = []

    def ask(stamp: str) -> None:
        wire = json.dumps({"session_id": "s1", **payload, "timestamp": f"2026-11-15T10:00:00.{stamp}Z"}).encode()
        answers.append(json.loads(house.hook(payload["hook_event_name"], wire, host=host).strip() or b"{}"))

    hooks = [threading.Thread(target=ask, args=(stamp,)) for stamp in ("100", "104")]
    for hook in hooks:
        hook.start()
    for hook in hooks:
        hook.join()
    return answers


def build_gemini_payload(event: str, **more: Any) -> dict[str, Any]:
    """Return a payload as Gemini CLI sends it: its calls have no id."""
    chats = "/home/dev/.gemini/tmp/project/chats/session-2026-11-15T10-00-aaaaaaaa.jsonl"
    return {"transcript_path": chats, "cwd": "/home/dev/project", "hook_event_name": event, **more}


def list_denials(answers: list[dict[str, Any]]) -> list[bool]:
    return ["deny" in json.dumps(answer) for answer in answers]


def test_a_call_is_held_in_both_and_delivered_once(house_up_or_down: House) -> None:
    house_up_or_down.add({**GIT_STASH, "delivery": "hold"})
    assert list_denials(ask_twice(house_up_or_down, bash("git stash"))) == [True, True]
    assert len(house_up_or_down.deliveries()) == 1


def test_a_block_denies_in_both_and_each_call_counts_once(house_up_or_down: House) -> None:
    house_up_or_down.add({**GIT_STASH, "delivery": "block"})
    assert (
        list_denials([*ask_twice(house_up_or_down, bash("git stash")), *ask_twice(house_up_or_down, bash("git stash"))])
        == [True] * 4
    )
    assert len(house_up_or_down.deliveries()) == 2


def test_a_note_is_said_once(house_up_or_down: House) -> None:
    house_up_or_down.add(GIT_STASH)
    answers = ask_twice(house_up_or_down, bash("git stash"))
    assert sorted("untracked" in json.dumps(answer) for answer in answers) == [False, True]
    assert len(house_up_or_down.deliveries()) == 1


def test_what_opens_a_session_is_said_once_at_every_start(house_up_or_down: House) -> None:
    house_up_or_down.add(lesson(delivery="start", summary="the cache must be warmed first", triggers={}))
    for source in ("startup", "clear"):
        answers = ask_twice(house_up_or_down, happened("SessionStart", source=source))
        assert sorted("must be warmed" in json.dumps(answer) for answer in answers) == [False, True]


def test_a_lesson_that_a_person_types_is_taken_once(house_up_or_down: House) -> None:
    answers = ask_twice(house_up_or_down, prompt(LESSON))
    assert sorted(answer.get("decision") == "block" for answer in answers) == [False, True]
    house_up_or_down.ok("start")
    house_up_or_down.deliveries()
    assert len(house_up_or_down.ok("lessons", "list", "--json").json()) == 1


def test_everything_is_recorded_once(house_up_or_down: House) -> None:
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
        ask_twice(house_up_or_down, payload)
    kinds = [row["kind"] for row in house_up_or_down.stored("events")]
    assert sorted(kinds) == sorted(["SessionStart", "tool", "SubagentStop", "PreCompact", "Stop", "SessionEnd"])
    assert [row["prompt"] for row in house_up_or_down.stored("prompts")] == ["mend the build"]


def test_calls_without_an_id_are_told_apart_by_what_they_say(house_up_or_down: House) -> None:
    def ran(output: str) -> dict[str, Any]:
        tool_input = {"command": "make", "description": "made up"}
        tool_response = {"llmContent": f"Output: {output}\nProcess Group PGID: 4711", "returnDisplay": output}
        return build_gemini_payload(
            "AfterTool", tool_name="run_shell_command", tool_input=tool_input, tool_response=tool_response
        )

    for payload in (build_gemini_payload("BeforeAgent", prompt="mend the build"), ran("one"), ran("two")):
        ask_twice(house_up_or_down, payload, host="gemini")
    assert [row["tool"] for row in house_up_or_down.stored("events")] == ["Bash", "Bash"]
    assert len(house_up_or_down.stored("prompts")) == 1


def test_a_call_without_an_id_is_held_in_both_and_delivered_once(house_up_or_down: House) -> None:
    house_up_or_down.add({**GIT_STASH, "delivery": "hold"})
    tool_input = {"command": "git stash", "description": "made up"}
    call = build_gemini_payload("BeforeTool", tool_name="run_shell_command", tool_input=tool_input)
    assert list_denials(ask_twice(house_up_or_down, call, host="gemini")) == [True, True]
    assert len(house_up_or_down.deliveries()) == 1
