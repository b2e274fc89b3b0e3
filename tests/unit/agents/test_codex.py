"""Codex's payloads become events, and replies have exactly the form it accepts."""

from __future__ import annotations

import json
import os
import shutil
from random import Random
from typing import Any

import pytest

from hardwon.agents import load_agent
from hardwon.agents.codex import EVENT_TIMEOUTS, parse_payload, render_reply
from hardwon.privacy import event_filter
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, distort_json, find_recording

RECORDED = os.path.join(TESTS, "payloads", "codex")
NEWER_PAYLOADS = os.path.join(TESTS, "..", "..", "shared", "payloads", "codex")
AGENT = "01a1e0e2-dbcf-7e61-a15d-3c699ebd3b61"
DIRECT, LEGACY = "gpt-5.5-direct-tools.jsonl", "v0.125.0-legacy-format.jsonl"

CAT = {"tool": "Bash", "command": "cat notes.txt", "input": {"command": "cat notes.txt"}}
IN_SUB = {
    "subagent_id": AGENT,
    "tool": "Bash",
    "command": "echo in-sub",
    "input": {"command": "echo in-sub"},
    "message": "default",
}
ONE_FILE = {
    "tool": "Write",
    "path": "new.txt",
    "content": "hi there",
    "input": {"file_path": "new.txt", "content": "hi there"},
}
BOTH = "hi there\nhello from patched notes"
TWO_FILES = {"tool": "Write", "path": "new.txt", "content": BOTH, "input": {"file_path": "new.txt", "content": BOTH}}
SEARCH = {"tool": "mcp__memory__search_lessons", "content": "pytest\nparameters: query", "input": {"query": "pytest"}}
SEARCH_RESPONSE = {"content": [{"type": "text", "text": 'LESSON-FROM-MCP for {"query": "pytest"}'}]}
SPAWN = {"tool": "Task", "content": "SUBTASK-ONLY please", "input": {"prompt": "SUBTASK-ONLY please"}}
SPAWNED = '{"agent_id":"01a1e0e2-dbcf-7e61-a15d-3c699ebd3b61","nickname":"Linnaeus"}'
IMAGE = "/home/dev/project/none.png"
WRITTEN = "Success. Updated the following files:\nA new.txt\n"

# The fields of each payload's event besides its kind, the first part of the name; None if there is no event.
OLD: dict[str, dict[str, Any] | None] = {
    "PostToolUse-Bash": {**CAT, "response": "hello from notes\n"},
    "PostToolUse-apply_patch": {**ONE_FILE, "response": WRITTEN},
    "PreToolUse-Bash": CAT,
    "PreToolUse-apply_patch": ONE_FILE,
    "SessionStart-startup": {"source": "startup"},
    "Stop": {"message": "All done."},
    "UserPromptSubmit": {"prompt": "Do things"},
}
NEW: dict[str, dict[str, Any] | None] = {
    **OLD,
    "PostCompact": None,
    "PostModelRequest": None,
    "PostToolUse-Bash-2": {**IN_SUB, "response": "in-sub\n"},
    "PostToolUse-apply_patch": {**TWO_FILES, "response": WRITTEN + "M notes.txt\n"},
    "PostToolUse-mcp__memory__search_lessons": {**SEARCH, "response": SEARCH_RESPONSE},
    "PostToolUse-spawn_agent": {**SPAWN, "response": SPAWNED},
    "PreCompact": {"message": "auto"},
    "PreModelRequest": None,
    "PreToolUse-Bash-2": IN_SUB,
    "PreToolUse-apply_patch": TWO_FILES,
    "PreToolUse-mcp__memory__search_lessons": SEARCH,
    "PreToolUse-multi_agent_v1wait_agent": {"tool": "wait_agent", "input": {"targets": ["x"], "timeout_ms": 10000}},
    "PreToolUse-spawn_agent": SPAWN,
    "PreToolUse-view_image": {"tool": "Read", "path": IMAGE, "input": {"file_path": IMAGE}},
    "SessionEnd": {"message": "other"},
    "SessionStart-compact": {"source": "compact"},
    "SessionStart-resume": {"source": "resume"},
    "SubagentStart": {"subagent_id": AGENT, "message": "default"},
    "SubagentStop": {"subagent_id": AGENT, "message": "sub done"},
    "UserPromptSubmit": {"prompt": "Look at notes.txt"},
    "UserPromptSubmit-2": None,
}
EXPECTED = {"0.125.0": OLD, "0.130.0": OLD, "0.135.0": OLD, "0.166.0": NEW}


def load_payload(version: str, name: str) -> dict[str, Any]:
    with open(os.path.join(RECORDED, version, f"{name}.json"), encoding="utf-8") as file:
        wire: dict[str, Any] = json.load(file)
    return wire


def parse_event(wire: object) -> Event | None:
    return parse_payload("PreToolUse", json.dumps(wire).encode())


def parse_existing_event(wire: object) -> Event:
    event = parse_event(wire)
    assert event is not None
    return event


def describe_event(event: Event | None) -> dict[str, Any] | None:
    """Return the fields of an event, without its kind and what every payload has."""
    excluded = {"host", "kind", "session", "cwd", "transcript", "tool_use_id", "parts"}
    if event is None:
        return None
    return {key: value for key, value in vars(event).items() if value and key not in excluded}


def build_patch_payload(*lines: str) -> dict[str, Any]:
    patch_text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    return {**load_payload("0.166.0", "PreToolUse-apply_patch"), "tool_input": {"command": patch_text}}


def list_changes(wire: object) -> list[tuple[str, str, str]]:
    return [(part.tool, part.path, part.content) for part in parse_existing_event(wire).parts]


def build_ended_call(rollout: str, call: str, response: object = "", **fields: object) -> dict[str, Any]:
    wire = {**load_payload("0.166.0", "PostToolUse-Bash"), "transcript_path": rollout}
    return {**wire, "tool_use_id": call, "tool_response": response, **fields}


@pytest.mark.parametrize("version", EXPECTED)
def test_recorded_payloads_become_the_expected_events(version: str) -> None:
    for name, expected in EXPECTED[version].items():
        wire = load_payload(version, name)
        event = parse_event(wire)
        assert describe_event(event) == expected, name
        if event:
            assert (event.kind, event.session) == (name.partition("-")[0], wire["session_id"]), name
            assert (event.cwd, event.tool_use_id) == ("/home/dev/project", wire.get("tool_use_id", "")), name


def test_every_payload_that_was_recorded_is_in_the_table() -> None:
    recorded_names = {
        version: {name[:-5] for name in os.listdir(os.path.join(RECORDED, version))} for version in EXPECTED
    }
    assert recorded_names == {version: set(table) for version, table in EXPECTED.items()}


def test_newer_recorded_payloads_are_parsed_too() -> None:
    if not os.path.isdir(NEWER_PAYLOADS):
        pytest.skip("the recorded payloads are not beside this checkout (../shared/payloads)")
    for folder, _, names in os.walk(NEWER_PAYLOADS):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                event = parse_payload("PreToolUse", file.read())
            expected_events = EXPECTED.get(os.path.basename(folder), {})
            assert name[:-5] not in expected_events or describe_event(event) == expected_events[name[:-5]], (
                os.path.join(folder, name)
            )


def test_a_patch_is_one_call_with_a_part_for_each_file() -> None:
    wire = build_patch_payload(
        "*** Add File: a.py",
        "+one",
        "+two",
        "*** Update File: b.py",
        "@@",
        " as it was",
        "-old",
        "+new",
        "*** Delete File: c.py",
        "*** Update File: d.py",
        "*** Move to: e.py",
        "@@",
        "+moved",
        "*** End of File",
    )
    assert list_changes(wire) == [
        ("Write", "a.py", "one\ntwo"),
        ("Edit", "b.py", "new"),
        ("Edit", "c.py", ""),
        ("Edit", "d.py", "moved"),
        ("Write", "e.py", "moved"),
    ]
    event = parse_existing_event(wire)
    assert event.parts[1].input == {"file_path": "b.py", "old_string": "old", "new_string": "new"}
    assert {(part.session, part.cwd, part.tool_use_id, part.kind) for part in event.parts} == {
        (event.session, event.cwd, event.tool_use_id, event.kind)
    }


def test_a_sloppy_patch_is_parsed_as_codex_does() -> None:
    wire = build_patch_payload("  *** Update File: a.py  \r", "@@\r", "+x\u2028y\r", "", "*** Update File:b.py")
    assert list_changes(wire) == [("Edit", "a.py", "x\u2028y")]
    assert list_changes({**wire, "tool_input": {"command": "nothing at all"}}) == []


def test_a_patch_that_touches_a_private_file_among_others_is_not_kept() -> None:
    wire = {
        **build_patch_payload("*** Add File: a.py", "+x", "*** Update File: keys/own.pem", "@@", "+y"),
        "hook_event_name": "PostToolUse",
    }
    assert event_filter.filter_transcript_event(parse_existing_event(wire), {"denyPaths": ["*.pem"]}) is None
    assert event_filter.filter_transcript_event(parse_existing_event(wire), {"denyPaths": ["*.key"]}) is not None


def test_a_patch_in_a_shell_command_has_a_part_for_each() -> None:
    line = "apply_patch <<'E'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nE\ngit stash"
    wire = {**load_payload("0.166.0", "PreToolUse-Bash"), "tool_input": {"command": line}}
    event = parse_existing_event(wire)
    assert (event.tool, event.command) == ("Bash", line)
    assert [(part.tool, part.command, part.path) for part in event.parts] == [("Bash", line, ""), ("Write", "", "a.py")]


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("applypatch <<E", "a.py"),
        ("cd src && apply_patch <<'E'", "src/a.py"),
        ("  cd 'my src/'&&applypatch <<E", "my src/a.py"),
        ("cd src && cd my\\ lib && apply_patch <<E", "src/my lib/a.py"),
        ("cd /srv && apply_patch <<E", "/srv/a.py"),
        ("make && apply_patch <<E", None),
        ("cat <<E", None),
    ],
)
def test_a_patch_after_a_change_of_folder_is_seen_where_it_is_made(start: str, path: str | None) -> None:
    lines = "*** Begin Patch\n*** Update File: a.py\n*** Move to: /b.py\n@@\n+x && y\n*** End Patch\nE"
    wire = {**load_payload("0.166.0", "PreToolUse-Bash"), "tool_input": {"command": f"{start}\n{lines}"}}
    paths_and_contents = [(part.path, part.content) for part in parse_existing_event(wire).parts[1:]]
    assert paths_and_contents == ([] if path is None else [(path, "x && y"), ("/b.py", "x && y")])
    word_list_payload = {**wire, "tool_input": {"command": ["bash", "-lc", f"{start}\n{lines}"]}}
    assert [part.path for part in parse_existing_event(word_list_payload).parts[1:]] == [
        patched_path for patched_path, _ in paths_and_contents
    ]


def test_a_command_given_as_words_is_the_line_a_shell_would_see() -> None:
    wire = load_payload("0.166.0", "PreToolUse-Bash")
    for arguments, line in [
        (["bash", "-lc", "git stash"], "git stash"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
    ]:
        assert parse_existing_event({**wire, "tool_input": {"command": arguments}}).command == line


def test_a_subagents_prompt_is_no_prompt_of_a_person() -> None:
    prompt_payload = load_payload("0.166.0", "UserPromptSubmit")
    assert parse_existing_event(prompt_payload).prompt == "Look at notes.txt"
    assert parse_event({**prompt_payload, "agent_id": AGENT, "prompt": "hardwon accept 1"}) is None


def test_a_subagents_rollout_is_not_the_sessions() -> None:
    assert parse_existing_event(load_payload("0.166.0", "PreToolUse-Bash-2")).transcript == ""
    assert parse_existing_event(load_payload("0.166.0", "SubagentStart")).transcript == ""
    stop = load_payload("0.166.0", "SubagentStop")
    assert parse_existing_event(stop).transcript == stop["transcript_path"] != stop["agent_transcript_path"]


def test_a_failed_command_is_recognised_from_the_end_of_the_rollout() -> None:
    rollout, output = (
        find_recording("codex", DIRECT),
        "ls: cannot access '/nonexistent-dir': No such file or directory\n",
    )
    failed_event = parse_existing_event(build_ended_call(rollout, "call_1_0", output))
    assert (failed_event.kind, failed_event.failed, failed_event.response) == ("PostToolUseFailure", True, output)
    succeeded_event = parse_existing_event(build_ended_call(rollout, "call_0_1", "hello from notes\n"))
    assert (succeeded_event.kind, succeeded_event.failed, succeeded_event.response) == (
        "PostToolUse",
        False,
        "hello from notes\n",
    )


def test_a_failure_without_output_has_its_exit_code() -> None:
    assert (
        parse_existing_event(build_ended_call(find_recording("codex", DIRECT), "call_1_0")).response
        == "Process exited with code 3"
    )


def test_a_call_without_its_end_in_the_rollout_gives_no_event() -> None:
    rollout = find_recording("codex", LEGACY)
    assert parse_event(build_ended_call(rollout, "call_2_0", "ls: cannot access '/nope'")) is None
    subagent_event = parse_existing_event(build_ended_call(rollout, "call_2_0", "x", agent_id=AGENT))
    assert (subagent_event.kind, subagent_event.response) == ("PostToolUse", "x")


@pytest.mark.parametrize("rollout", [None, "", "/nowhere/rollout.jsonl", "/", "/dev/null", "a\0b", 7, "LEGACY", "PIPE"])
def test_without_a_rollout_that_has_the_call_the_response_is_unchanged(rollout: Any, tmp_path: Any) -> None:
    if rollout == "PIPE":
        os.mkfifo(tmp_path / "pipe")
    rollout = {"LEGACY": find_recording("codex", LEGACY), "PIPE": str(tmp_path / "pipe")}.get(rollout, rollout)
    event = parse_existing_event(build_ended_call(rollout, "call_unheard_of", "words"))
    assert (event.kind, event.failed, event.response) == ("PostToolUse", False, "words")


def test_only_the_end_of_a_long_rollout_is_read(tmp_path: Any) -> None:
    path = str(tmp_path / "rollout.jsonl")
    shutil.copy(find_recording("codex", DIRECT), path)
    with open(path, "ab") as file:
        file.write(b"{half a line\n" + b" " * 300_000)
    event = parse_existing_event(build_ended_call(path, "call_1_0", "words"))
    assert (event.kind, event.response) == ("PostToolUse", "words")
    with open(find_recording("codex", DIRECT), "rb") as file:
        lines = file.read()
    with open(path, "ab") as file:
        file.write(b"\n" + lines)
    assert parse_existing_event(build_ended_call(path, "call_1_0")).failed


def test_a_patch_or_a_server_that_failed_says_so_in_its_answer() -> None:
    patch_payload = load_payload("0.166.0", "PostToolUse-apply_patch")
    event = parse_existing_event(
        {**patch_payload, "tool_response": "Exit code: 1\nWall time: 0 seconds\nOutput:\nno such line\n"}
    )
    assert (event.kind, event.response) == ("PostToolUseFailure", "no such line\n")
    mcp_payload = load_payload("0.166.0", "PostToolUse-mcp__memory__search_lessons")
    assert parse_existing_event({**mcp_payload, "tool_response": {"content": [], "isError": True}}).failed


def test_invalid_payloads_are_refused_or_ignored() -> None:
    for invalid_payload in (b"", b"{", b"[]", b'"text"', b"\xff", b"nul"):
        with pytest.raises(ValueError):
            parse_payload("PreToolUse", invalid_payload)
    assert parse_event({"hook_event_name": "Interrupt"}) is None
    for version, table in EXPECTED.items():
        for name in table:
            for seed in range(20):
                try:
                    parse_payload("PreToolUse", distort_json(load_payload(version, name), Random(seed), share=0.15))
                except ValueError:
                    pass


# The fields Codex accepts for each event; it drops an answer with any other field.
COMMON = {"systemMessage"}
OWN = {"hookEventName", "additionalContext"}
DENY = {"hookEventName", "permissionDecision", "permissionDecisionReason"}
TAKES = {
    "SessionStart": OWN,
    "UserPromptSubmit": OWN,
    "PostToolUse": OWN,
    "SubagentStart": OWN,
    "PreToolUse": OWN,
    "SubagentStop": set(),
    "PreCompact": set(),
    "Stop": set(),
    "SessionEnd": set(),
}


@pytest.mark.parametrize("kind", [*EVENT_TIMEOUTS, "PostToolUseFailure"])
def test_an_answer_has_only_fields_that_codex_knows(kind: str) -> None:
    event = Event("codex", kind, "s", "/home/dev")
    name = "PostToolUse" if kind == "PostToolUseFailure" else kind
    assert json.loads(render_reply(event, HookReply())) == {}
    for reply in (HookReply(context="words"), HookReply(deny="why"), HookReply("why", "words", "a line")):
        answer = json.loads(render_reply(event, reply))
        hook_output = answer.pop("hookSpecificOutput", {})
        blocked = {"decision", "reason"} if reply.deny and name == "UserPromptSubmit" else set()
        assert set(answer) <= COMMON | blocked
        denied = bool(reply.deny) and name == "PreToolUse"
        assert set(hook_output) in (set(), DENY if denied else TAKES[name])
        assert hook_output.get("hookEventName", name) == name


def test_a_prompt_that_hardwon_answers_is_blocked() -> None:
    answer = json.loads(render_reply(Event("codex", "UserPromptSubmit", "s", "/"), HookReply("in force")))
    assert answer == {"decision": "block", "reason": "in force"}


def test_a_denial_is_sent_without_context() -> None:
    answer = json.loads(render_reply(Event("codex", "PreToolUse", "s", "/"), HookReply("use -u", "a note", "held")))
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "use -u",
        },
        "systemMessage": "held",
    }


def test_codex_is_a_registered_agent() -> None:
    assert load_agent("codex").EVENT_TIMEOUTS is EVENT_TIMEOUTS
