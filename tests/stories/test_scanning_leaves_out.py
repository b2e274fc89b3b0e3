"""What a person said is not to be recorded is not mined from a transcript either, by itself or when asked for."""

from __future__ import annotations

import glob
import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hardwon import claims
from tests.stories.test_privacy import PLANTED, find_traces
from tests.support.claude_transcript import TAG, UNKNOWN, TranscriptWriter
from tests.support.house import House

APP = "/home/dev/app"


def build_transcript(own_home: str, project: str) -> TranscriptWriter:
    """Return a transcript with a mistake, a lesson and a file that all contain the planted text."""
    transcript = TranscriptWriter(own_home, project=project).person(f"run it for {PLANTED}")
    transcript.fails(f"{PLANTED} log --colour=always", f"{UNKNOWN} {PLANTED}").works(f"{PLANTED} log --color=always")
    transcript.agent(TAG.replace("so untracked ones", f"so {PLANTED} and untracked ones"))
    transcript.call("Write", {"file_path": f"{project}/a", "content": PLANTED})
    return transcript


@pytest.mark.parametrize("flags", [(), ("--full",), ("--auto",), ("--path",)])
def test_nothing_is_mined_in_a_denied_project(house: House, own_home: str, flags: tuple[str, ...]) -> None:
    house.ok("config", "set", "denyProjects", json.dumps([APP]))
    path = build_transcript(own_home, f"{APP}/below").write()
    house.ok("scan", *flags, *([path] if flags == ("--path",) else []))
    assert (house.stored("calls"), house.stored("signals"), find_traces(house, PLANTED)) == ([], [], [])
    TranscriptWriter(own_home, project=f"{APP}2").mistake().write()
    house.ok("scan")
    assert {row["cwd"] for row in house.stored("calls")} == {f"{APP}2"}


def test_nothing_is_mined_of_a_session_part_of_which_was_paused(house: House, own_home: str) -> None:
    transcript = build_transcript(own_home, APP)
    transcript.write()
    house.ok("status")
    claims.mark_paused(house.home, transcript.session, time.time())
    other_transcript = TranscriptWriter(own_home, project=APP).mistake()
    other_transcript.write()
    house.ok("scan")
    assert find_traces(house, PLANTED) == []
    assert {row["session"] for row in house.stored("calls")} == {other_transcript.session}


def test_a_dry_run_knows_what_was_paused_too(house: House, own_home: str) -> None:
    transcript = build_transcript(own_home, APP)
    transcript.write()
    claims.mark_paused(house.home, transcript.session, time.time())
    assert house.ok("scan", "--dry-run", "--json").json()["candidates"] == []


def test_no_call_about_a_denied_path_is_mined(house: House, own_home: str) -> None:
    house.ok("config", "set", "denyPaths", '["vault"]')
    transcript = TranscriptWriter(own_home, project=APP)
    transcript.fails(f"cat vault/a --colour {PLANTED}", f"{UNKNOWN} {PLANTED}").works(f"cat vault/a --color {PLANTED}")
    transcript.call("Write", {"file_path": f"{APP}/vault/b", "content": PLANTED})
    transcript.call("mcp__files__write", {"any": f"{APP}/vault/b", "words": PLANTED})
    transcript.mistake().write()
    house.ok("scan")
    assert find_traces(house, PLANTED) == []
    assert [row["command"] for row in house.stored("calls")] == ["git log --colour=always", "git log --color=always"]


def write_rollout(
    own_home: str, day: str, thread_id: str, lines: list[tuple[str, dict[str, Any]]], **more: Any
) -> None:
    folder = os.path.join(own_home, ".codex", "sessions", "2026", "11", day)
    os.makedirs(folder, exist_ok=True)
    meta = {"id": thread_id, "cwd": APP, "originator": "codex_cli_rs", "cli_version": "0.125.0", **more}
    with open(os.path.join(folder, f"rollout-2026-11-{day}T10-00-00-{thread_id}.jsonl"), "w", encoding="utf-8") as file:
        for kind, payload in [("session_meta", meta), *lines]:
            file.write(json.dumps({"timestamp": f"2026-11-{day}T10:00:00Z", "type": kind, "payload": payload}) + "\n")


def build_codex_call(command: str, call: str, code: int = 0, text: str = "") -> list[tuple[str, dict[str, Any]]]:
    call_fields = {"name": "exec_command", "arguments": json.dumps({"cmd": command}), "call_id": call}
    output = f"Wall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{text}"
    return [
        ("response_item", {"type": "function_call", **call_fields}),
        ("response_item", {"type": "function_call_output", "call_id": call, "output": output}),
    ]


@pytest.mark.parametrize("reading", [("scan",), ("import", "transcripts")])
def test_a_command_under_way_in_a_denied_project_is_not_remembered_until_it_ends(
    house: House, own_home: str, reading: tuple[str, ...]
) -> None:
    house.ok("config", "set", "denyProjects", json.dumps([APP]))
    write_rollout(own_home, "01", "t1", build_codex_call(f"deploy {PLANTED}", "c1")[:1])
    assert "1 transcript" in house.ok(*reading).out
    assert find_traces(house, PLANTED) == []


@pytest.mark.parametrize("reading", [("scan",), ("import", "transcripts")])
def test_a_command_under_way_in_a_private_turn_is_not_remembered_until_it_ends(
    house: House, own_home: str, reading: tuple[str, ...]
) -> None:
    prompt = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<private>deploy</private>"}],
    }
    write_rollout(own_home, "01", "t1", [("response_item", prompt), *build_codex_call(f"deploy {PLANTED}", "c1")[:1]])
    house.ok(*reading)
    assert find_traces(house, PLANTED) == []


WRONG, RIGHT = f"{PLANTED} log --colour=always", f"{PLANTED} log --color=always"


def write_claude_subagent(own_home: str, prompt: str, folder_pattern: str) -> None:
    parent = TranscriptWriter(own_home, project=APP).person(prompt).works("ls").person("now the rest").works("ls")
    subagent_transcript = (
        TranscriptWriter(own_home, session=parent.session, project=APP).fails(WRONG, UNKNOWN).works(RIGHT)
    )
    for line in subagent_transcript.lines:
        line.update(isSidechain=True, agentId="a1")
    subagent_transcript.path = os.path.join(
        os.path.dirname(parent.write()), folder_pattern.format(parent.session), "agent-a1.jsonl"
    )
    subagent_transcript.write()


def write_codex_subagent(own_home: str, prompt: str, **source: Any) -> None:
    prompt_item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
    next_item = {**prompt_item, "content": [{"type": "input_text", "text": "now the rest"}]}
    write_rollout(
        own_home,
        "01",
        "t1",
        [("response_item", prompt_item), *build_codex_call("ls", "c0"), ("response_item", next_item)],
    )
    write_rollout(
        own_home, "02", "t2", build_codex_call(WRONG, "c1", 2, UNKNOWN) + build_codex_call(RIGHT, "c2"), **source
    )


def write_opencode_subagent(own_home: str, prompt: str) -> None:
    folder = os.path.join(own_home, ".local", "share", "opencode")
    os.makedirs(folder)
    prompt_parts = [{"type": "text", "id": f"prt_{text}", "text": text} for text in (prompt, "now the rest")]
    shell = {"type": "tool", "tool": "bash", "callID": "c1", "id": "prt_1"}
    wrong = {"status": "error", "input": {"command": WRONG}, "error": UNKNOWN}
    right = {"status": "completed", "input": {"command": RIGHT}, "output": "done"}
    calls = [{**shell, "state": wrong}, {**shell, "callID": "c2", "id": "prt_2", "state": right}]
    for session_id, parent, role, parts in (
        ("ses_p", "", "user", prompt_parts),
        ("ses_c", "ses_p", "assistant", calls),
    ):
        info = {"id": session_id, "directory": APP, **({"parentID": parent} if parent else {})}
        messages = [{"info": {"id": f"msg_{part['id']}", "role": role}, "parts": [part]} for part in parts]
        with open(os.path.join(folder, f"{session_id}.json"), "w", encoding="utf-8") as file:
            json.dump({"info": info, "messages": messages}, file)


SPAWNS: list[Callable[[str, str], None]] = [
    partial(write_claude_subagent, folder_pattern="{}/subagents"),
    partial(write_claude_subagent, folder_pattern=""),
    partial(write_codex_subagent, source={"subagent": {"thread_spawn": {"parent_thread_id": "t1"}}}),
    partial(write_codex_subagent, source={"subagent": "review"}, parent_thread_id="t1"),
    write_opencode_subagent,
]


@pytest.mark.parametrize("spawn", SPAWNS)
def test_nothing_is_taken_of_sub_agents_of_a_session_with_a_private_prompt(
    house: House, own_home: str, spawn: Callable[[str, str], None]
) -> None:
    spawn(own_home, f"<private>look for {PLANTED}</private>")
    house.ok("scan")
    house.ok("import", "transcripts")
    assert find_traces(house, PLANTED) == []


@pytest.mark.parametrize("spawn", SPAWNS)
def test_sub_agents_of_other_sessions_are_mined_and_imported(
    house: House, own_home: str, spawn: Callable[[str, str], None]
) -> None:
    spawn(own_home, "look around")
    house.ok("scan")
    house.ok("import", "transcripts")
    assert {WRONG, RIGHT} <= {row["command"] for row in house.stored("calls")}
    assert {WRONG, RIGHT} <= {json.loads(row["input"] or "{}").get("command") for row in house.stored("events")}


def test_a_sub_agent_whose_session_nobody_can_ask_is_not_mined_and_stops_nothing(house: House, own_home: str) -> None:
    write_claude_subagent(own_home, "look around", "{}/subagents")
    [folder] = glob.glob(os.path.join(own_home, ".claude", "projects", "*"))
    [parent] = glob.glob(os.path.join(folder, "*.jsonl"))
    os.remove(parent)
    os.makedirs(parent)
    other_transcript = TranscriptWriter(own_home, session="z-other").mistake()
    other_transcript.write()
    assert len(house.ok("scan", "--json").json()["candidates"]) == 1
    assert {row["session"] for row in house.stored("calls")} == {other_transcript.session}


def test_a_reader_is_shown_nothing_that_is_private_or_denied(house: House, own_home: str) -> None:
    transcript = (
        TranscriptWriter(own_home, project=APP).person(f"<private>look for {PLANTED}</private>").works(f"ls {PLANTED}")
    )
    transcript.person("the log").mistake().works(f"cat vault/{PLANTED}", f"it holds {PLANTED}")
    transcript.person(f"<private>and {PLANTED}</private>").agent(f"{PLANTED} it is").write()
    house.ok("scan")
    house.ok("config", "set", "denyPaths", '["vault"]')
    result = house.ok("review", "--json")
    assert ("--colour=always" in result.out, PLANTED in result.out) == (True, False)
    judged = [{"candidate": 1, "verdict": "trivial", "quotes": [f"it holds {PLANTED}"]}]
    assert "void" in house.ok("review", "--judge", "-", stdin=json.dumps(judged)).out


def test_a_private_part_of_what_is_said_is_not_mined(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).person("the log").fails("git log --colour=always", UNKNOWN)
    transcript.agent(f"<private>Well. The problem is that {PLANTED} is wrong. So.</private>").works(
        "git log --color=always"
    )
    transcript.agent(f"<private>Noted.\n{TAG.replace('so untracked ones', f'so {PLANTED}')}</private>")
    transcript.fails("git tag --colour", UNKNOWN).person(f"<private>No.\nuse {PLANTED}</private> never do that").write()
    house.ok("scan")
    assert (len(house.stored("signals")), find_traces(house, PLANTED)) == (2, [])
