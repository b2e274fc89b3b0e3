"""The first loop on the real Claude Code: a person writes a lesson, the agent meets it when it matters."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS

from .conversation import Session
from .house import House, SeparateInstall
from .model_server import Call, Reply, Request, Script, bash

pytestmark = pytest.mark.real

A_MOMENT_LATER = 0.5  # a repeat within 300 ms is a twin of the held call, not a second thought
STASH = r"\bgit stash\b"
ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
DONE = Reply("done")


def record_stashes(house: House, *replies: Reply) -> tuple[Script, list[int]]:
    """Return a script, and a list that gets the number of stashes each time the model is asked."""
    stashes: list[int] = []

    def script(_: Request) -> Reply:
        stashes.append(house.stashes)
        return replies[len(stashes) - 1]

    return script, stashes


def list_refusals(session: Session) -> list[bool]:
    return [result.refused for result in session.results]


def is_silent(session: Session) -> bool:
    """Return whether nothing of hardwon's was shown to the model or the person."""
    messages = [hook.stdout for hook in session.hooks if "systemMessage" in hook.stdout]
    return not messages and not session.turns_with("hardwon-context")


def test_the_agent_reaches_the_scripted_model_and_nothing_else(bare_house: House, own_network: bool) -> None:
    if not own_network:
        pytest.skip("this system gives programs no network of their own")
    session = bare_house.session([bash("cat /proc/net/dev"), DONE])
    interfaces = [line.split(":")[0].strip() for line in session.results[0].text.splitlines() if ":" in line]
    assert (interfaces, session.said, bare_house.other_hook_runs) == (["lo"], ("done",), 1)


def test_a_note_is_in_the_request_after_the_call_and_the_call_ran(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    session = house.session([bash("touch made"), DONE])
    assert session.turns_with(ADVICE) == [1]
    assert (house.project / "made").exists()


def test_a_note_is_given_once_per_session(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    session = house.session([bash("touch made"), bash("touch again"), DONE])
    assert sum(text.count(ADVICE) for text in session.turns[-1].texts) == 1


def test_a_hold_stops_the_first_call_says_why_and_lets_the_repeat_run(house: House) -> None:
    house.add("hold", ADVICE, STASH)
    script, stashes = record_stashes(house, bash("git stash"), bash("git stash", delay=A_MOMENT_LATER), DONE)
    session = house.session(script)
    assert stashes == [0, 0, 1]
    assert list_refusals(session) == [True, False]
    assert session.turns_with(ADVICE) == [1, 2]


def test_two_identical_calls_in_one_message_are_both_held(house: House) -> None:
    """The CLI asks about the second once all hooks have answered about the first.

    On a busy machine that may take longer than calls made in parallel are apart, and then the second one runs.
    """
    house.add("hold", ADVICE, STASH)
    repeat = bash("git stash", delay=A_MOMENT_LATER)
    script, stashes = record_stashes(house, bash("git stash", "git stash"), repeat, DONE)
    session = house.session(script)
    first_at, second_at, *_ = house.call_times
    if second_at - first_at >= PARALLEL_CALL_SECONDS:
        assert list_refusals(session) == [True, False, False]
        return
    assert stashes == [0, 0, 1]
    assert list_refusals(session) == [True, True, False]
    assert [ADVICE in result.text for result in session.results] == [True, True, False]


def test_a_block_never_runs_however_often_it_is_tried(house: House) -> None:
    house.add("block", ADVICE, r"\btouch\b", "--block-reason", "no {command} in this house")
    repeat = bash("touch forbidden", delay=A_MOMENT_LATER)
    session = house.session([bash("touch forbidden"), repeat, repeat, DONE])
    assert list_refusals(session) == [True, True, True]
    assert all("no touch forbidden in this house" in result.text for result in session.results)
    assert session.turns_with("no touch forbidden in this house") == [1, 2, 3]
    assert not (house.project / "forbidden").exists()


@pytest.mark.parametrize("settings", [{"disableAllHooks": True}, {"env": {"HARDWON_OFF": "1"}}], ids=str)
def test_the_agent_does_not_turn_hooks_off_in_the_settings_of_a_project(
    house: House, settings: dict[str, object]
) -> None:
    """Such settings count at once, in the running session."""
    house.add("block", ADVICE, r"\btouch\b")
    text = json.dumps(settings)
    path = house.project / ".claude" / "settings.local.json"
    write = Reply(calls=(Call("Write", {"file_path": str(path), "content": text}),))
    script = [write, bash(f"mkdir -p .claude; echo '{text}' > .claude/settings.local.json"), bash("touch made"), DONE]
    session = house.session(script)
    assert list_refusals(session) == [True, True, True]
    assert not path.exists() and not (house.project / "made").exists()


def test_a_command_of_the_monitor_tool_is_judged(house: House) -> None:
    command = "env -u CLAUDECODE hardwon accept 1"
    session = house.session(
        [Reply(calls=(Call("Monitor", {"command": command, "description": "x", "timeout_ms": 3000}),)), DONE]
    )
    assert list_refusals(session) == [True]


def test_a_start_lesson_is_in_the_first_request_and_again_after_compact(house: House) -> None:
    house.add("start", ADVICE)
    session = house.session([DONE] * 3, "the first prompt", "another", "/compact", "the last prompt")
    assert [request.kind for request in session.requests] == ["main", "main", "compaction", "main"]
    our_context = re.compile("<hardwon-context>.*?</hardwon-context>", re.DOTALL)  # its brief may tell what was asked
    other_texts = [" ".join(our_context.sub("", text) for text in turn.texts) for turn in session.turns]
    turns_kept = [number for number, text in enumerate(other_texts) if "the first prompt" in text]
    assert turns_kept == [0, 1], "compaction left the old conversation in place"
    assert session.turns_with(ADVICE) == [0, 1, 2]


def test_a_sub_agent_is_held_as_its_parent_was(house: House) -> None:
    house.add("hold", ADVICE, STASH)
    errand = {"description": "an errand", "prompt": "tidy up", "run_in_background": False}
    script = [bash("git stash"), Reply(calls=(Call("Agent", errand),)), DONE]
    session = house.session(script, sub=[bash("git stash"), DONE])
    opening, after_the_call = (request for request in session.requests if request.kind == "sub")
    assert (ADVICE in opening, ADVICE in after_the_call, house.stashes) == (False, True, 0)


def test_with_the_worker_killed_in_the_middle_a_block_still_holds(house: House) -> None:
    house.add("block", ADVICE, r"\btouch\b", "--block-reason", "no {command} in this house")
    house.hardwon("start")
    killed: list[int] = []

    def script(_: Request) -> Reply:
        if killed:
            return DONE
        killed.append(house.kill_worker())
        return bash("touch forbidden")

    session = house.session(script)
    hook_runs = [hook for hook in session.hooks if hook.event == "PreToolUse"]
    assert list_refusals(session) == [True], f"the call passed; before it the agent ran these hooks: {hook_runs}"
    assert "no touch forbidden in this house" in session.results[0].text
    assert not (house.project / "forbidden").exists()
    assert not house.status()["running"], "a worker was there, so it was not cold"
    listed = json.loads(house.hardwon("deliveries", "--json"))
    assert [delivery["delivery"] for delivery in listed] == ["block"]


def delete_package(install: SeparateInstall) -> None:
    rename_away(install.package)


def delete_interpreter(install: SeparateInstall) -> None:
    rename_away(install.root)


def rename_away(folder: Path) -> None:
    """Rename a folder in one step, since a worker that runs from it may be writing its cache there."""
    folder.rename(folder.with_name("gone"))


@pytest.mark.parametrize("delete", [delete_package, delete_interpreter])
def test_with_hardwon_deleted_and_its_hooks_left_tools_run_and_prompts_pass(
    bare_house: House, delete: Callable[[SeparateInstall], None]
) -> None:
    install = SeparateInstall(bare_house.root / "separate")
    bare_house.hardwon("install", "claude-code", "--yes", program=install.program)
    bare_house.add("block", ADVICE, r"\btouch\b")
    bare_house.add("start", ADVICE)
    assert list_refusals(bare_house.session([bash("touch before"), DONE])) == [True]

    delete(install)
    commands = [shlex.split(command) for command in bare_house.hook_commands]
    commands = [[word for word in words if "=" not in word] for words in commands]
    assert commands and not any(Path(words[3]).exists() for words in commands)
    assert {Path(words[0]).exists() for words in commands} == {delete is delete_package}

    session = bare_house.session([bash("touch after"), DONE], "a prompt that must arrive")
    assert (list_refusals(session), (bare_house.project / "after").exists()) == ([False], True)
    assert session.turns_with("a prompt that must arrive") == [0, 1]
    assert {(hook.exit_code, hook.outcome) for hook in session.hooks} == {(0, "success")}
    (notice,) = [hook.stdout for hook in session.hooks if hook.stdout]
    assert "hardwon was removed, but its hooks are still in this agent" in notice
    second_session = bare_house.session([bash("touch again"), DONE])
    assert {(hook.exit_code, hook.outcome, hook.stdout) for hook in second_session.hooks} == {(0, "success", "")}
    assert not session.turns_with("can't open file") and not session.turns_with("not found")


@pytest.mark.parametrize("switch", ["pause", "pause --project", "HARDWON_OFF=1"])
def test_paused_nothing_fires_and_unpaused_it_fires_again(house: House, switch: str) -> None:
    house.add("start", ADVICE)
    house.add("block", ADVICE, STASH)
    off = {"HARDWON_OFF": "1"} if switch == "HARDWON_OFF=1" else {}
    if not off:
        house.hardwon(*switch.split())
    paused = house.session([bash("git stash"), DONE], env=off)
    assert (is_silent(paused), list_refusals(paused), house.stashes) == (True, [False], 1)
    assert json.loads(house.hardwon("deliveries", "--json")) == []

    if not off:
        house.hardwon(*switch.replace("pause", "unpause").split())
    awake = house.session([bash("git stash"), DONE])
    assert (awake.turns_with(ADVICE), list_refusals(awake)) == ([0, 1], [True])


def test_after_uninstall_nothing_fires_and_the_settings_have_their_old_bytes(bare_house: House) -> None:
    settings_before = bare_house.settings.read_bytes()
    bare_house.hardwon("install", "claude-code", "--yes")
    bare_house.add("start", ADVICE)
    bare_house.add("block", ADVICE, STASH)
    installed = bare_house.session([bash("git stash"), DONE])
    assert (list_refusals(installed), bare_house.other_hook_runs) == ([True], 1)

    bare_house.hardwon("uninstall", "claude-code", "--yes")
    assert bare_house.settings.read_bytes() == settings_before
    session = bare_house.session([bash("git stash"), DONE])
    assert (is_silent(session), list_refusals(session), bare_house.stashes) == (True, [False], 1)
    assert bare_house.other_hook_runs == 2


def test_the_person_is_shown_what_was_delivered_and_approved(house: House) -> None:
    house.add("start", ADVICE)
    house.add("hold", ADVICE, STASH)
    session = house.session([bash("git stash"), DONE])
    answers = [(hook.event, json.loads(hook.stdout or "{}")) for hook in session.hooks]
    messages = {event: answer["systemMessage"] for event, answer in answers if "systemMessage" in answer}
    assert list(messages) == ["SessionStart", "PreToolUse"]
    assert "It opened with: 1 lesson" in messages["SessionStart"]
    assert "2 approvals" in messages["SessionStart"] and messages["SessionStart"].count("(undo: ") == 2
    assert len(messages["PreToolUse"].splitlines()) == 1 and "hardwon" in messages["PreToolUse"]


def test_what_was_delivered_is_listed_in_order(house: House) -> None:
    house.add("start", ADVICE)
    house.add("note", ADVICE, r"\bls\b")
    house.add("hold", ADVICE, STASH)
    house.add("block", ADVICE, r"\btouch\b")
    house.session([bash("ls"), bash("git stash"), bash("touch forbidden"), DONE])
    listed = json.loads(house.hardwon("deliveries", "--json"))
    assert [delivery["delivery"] for delivery in listed] == ["start", "note", "hold", "block"]


def test_a_lesson_typed_as_a_prompt_holds_in_the_same_session(house: House) -> None:
    house.hardwon("start")
    typed = (
        "#lesson\ntool: Bash\ntrigger: touch\ndelivery: block\n"
        "problem: files made by touch have the wrong owner in this house\n"
        f"solution: {ADVICE}\nblockReason: {ADVICE}\n#/lesson"
    )
    session = house.session([bash("touch forbidden"), DONE], typed, "go on")  # what is typed to us asks no model
    assert list_refusals(session) == [True]
    assert not (house.project / "forbidden").exists()
    assert any("learned, in force as a block" in hook.stdout for hook in session.hooks)


def test_a_block_is_lifted_by_the_person_typing_allow(house: House) -> None:
    house.add("block", ADVICE, r"\btouch\b", "--block-reason", "no {command} in this house")
    slug = json.loads(house.hardwon("lessons", "list", "--json"))[0]["slug"]
    replies = [bash("touch allowed"), DONE, bash("touch allowed"), DONE]
    session = house.session(replies, "make the file", f"hardwon allow {slug}")
    assert list_refusals(session) == [True, False]
    assert (house.project / "allowed").exists()
