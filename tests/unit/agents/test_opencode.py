"""The payloads of opencode's plugin become events."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest

from hardwon.agents.opencode import EVENT_TIMEOUTS, HANDLED_MESSAGE, parse_payload, render_reply
from hardwon.agents.opencode.transcript import Reader
from hardwon.text.fence import fence_text
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, distort_json, read_steps

RECORDED = os.path.join(TESTS, "payloads", "opencode", "1.18.33")
NEWER_PAYLOADS = os.path.join(TESTS, "..", "..", "shared", "payloads", "opencode", "1.18.33")

NEW, NONE = "/home/dev/project/new.txt", "/home/dev/project/none.txt"
ECHO = {"command": "echo one", "description": "x"}
WRITE = {"file_path": NEW, "content": "hi\n"}
EDIT = {"file_path": NEW, "old_string": "hi", "new_string": "ho"}
ERRAND = {"description": "e", "prompt": "do it", "subagent_type": "general"}
CALLS: dict[str, dict[str, Any]] = {
    "bash": {"tool": "Bash", "tool_use_id": "call_0_0", "command": "echo one", "input": ECHO},
    "edit": {"tool": "Edit", "tool_use_id": "call_4_0", "path": NEW, "content": "ho", "input": EDIT},
    "read": {"tool": "Read", "tool_use_id": "call_2_0", "path": NONE, "input": {"file_path": NONE}},
    "task": {"tool": "Task", "tool_use_id": "call_6_0", "content": "general\ndo it", "input": ERRAND},
    "write": {"tool": "Write", "tool_use_id": "call_3_0", "path": NEW, "content": "hi\n", "input": WRITE},
}
SUB = {
    "subagent_id": "ses_e1c78fd0affeW4FpSNe8K6YdCc",
    "tool": "Bash",
    "tool_use_id": "call_7_0",
    "command": "echo sub",
    "input": {"command": "echo sub", "description": "x"},
}
LS = {
    "cwd": "/tmp",
    "tool": "Bash",
    "tool_use_id": "call_1_0",
    "command": "ls nowhere; exit 3",
    "input": {"command": "ls nowhere; exit 3", "description": "x", "workdir": "/tmp"},
}
SUB_RESULT = (
    '<task id="ses_e1c78fd0affeW4FpSNe8K6YdCc" state="completed">\n<task_result>\nsub done\n</task_result>\n</task>'
)
RESPONSES = {
    "bash": "one\n",
    "edit": "Edit applied successfully.",
    "task": SUB_RESULT,
    "write": "Wrote file successfully.",
}
NOTES = {"tool": "Read", "tool_use_id": "call_0_0"}

# The fields of each payload's event. Names with a number are raw arguments of a plugin's hooks.
EXPECTED: dict[str, dict[str, Any] | None] = {
    **{f"PreToolUse-{name}": {"kind": "PreToolUse", **call} for name, call in CALLS.items()},
    **{
        f"PostToolUse-{name}": {"kind": "PostToolUse", **CALLS[name], "response": response}
        for name, response in RESPONSES.items()
    },
    "PreToolUse-bash-elsewhere": {"kind": "PreToolUse", **LS},
    "PreToolUse-bash-of-sub-agent": {"kind": "PreToolUse", **SUB},
    "PostToolUse-bash-of-sub-agent": {"kind": "PostToolUse", **SUB, "response": "sub\n"},
    "PostToolUse-bash-failed": {
        "kind": "PostToolUseFailure",
        **LS,
        "failed": True,
        "response": "ls: cannot access 'nowhere': No such file or directory\n",
    },
    "PostToolUseFailure-read": {
        "kind": "PostToolUseFailure",
        **CALLS["read"],
        "failed": True,
        "response": f"File not found: {NONE}",
    },
    "SessionStart": {"kind": "SessionStart", "source": "startup"},
    "SessionEnd": {"kind": "SessionEnd", "message": "exit"},
    "Stop": {"kind": "Stop", "message": "all done"},
    "SubagentStart": {
        "kind": "SubagentStart",
        "subagent_id": SUB["subagent_id"],
        "source": "startup",
        "message": "general",
    },
    "SubagentStop": {"kind": "SubagentStop", "subagent_id": SUB["subagent_id"], "message": "sub done"},
    "UserPromptSubmit": {
        "kind": "UserPromptSubmit",
        "prompt": "hello there",
        "prompt_name": "msg_1e3868398001VHZ9Dd2A3OP8w4",
    },
    "0001_init": None,
    "0002_event.session.created": {"kind": "SessionStart"},
    "0004_chat.message": {"kind": "UserPromptSubmit", "cwd": ""},
    "0007_system.transform": None,
    "0008_chat.params": None,
    "0010_messages.transform": None,
    "0064_tool.execute.before": {"kind": "PreToolUse", "cwd": "", **NOTES},
    "0065_tool.execute.after": {
        "kind": "PostToolUse",
        "cwd": "",
        **NOTES,
        "path": "/home/dev/project/notes.txt",
        "input": {"file_path": "/home/dev/project/notes.txt"},
    },
    "0073_shell.env": None,
}
KINDS = {
    "event.session.created": "SessionStart",
    "chat.message": "UserPromptSubmit",
    "tool.execute.before": "PreToolUse",
    "tool.execute.after": "PostToolUse",
}


def get_kind(name: str) -> str:
    return KINDS.get(name.partition("_")[2], name.partition("-")[0])


def load_payload(name: str, folder: str = RECORDED) -> dict[str, Any]:
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        wire: dict[str, Any] = json.load(file)
    return wire


def parse_recorded(name: str, **fields: object) -> Event | None:
    return parse_payload(get_kind(name), json.dumps({**load_payload(name), **fields}).encode())


def parse_existing_event(name: str, **fields: object) -> Event:
    event = parse_recorded(name, **fields)
    assert event is not None
    return event


def describe_event(event: Event | None) -> dict[str, Any] | None:
    """Return the fields of an event, without those that every payload has."""
    if event is None:
        return None
    fields = {key: value for key, value in vars(event).items() if value and key not in ("host", "session", "cwd")}
    return fields if event.cwd == "/home/dev/project" else {**fields, "cwd": event.cwd}


def test_recorded_payloads_become_the_expected_events() -> None:
    assert {name: describe_event(parse_recorded(name)) for name in EXPECTED} == EXPECTED
    main_stop, subagent_stop = parse_existing_event("Stop"), parse_existing_event("SubagentStop")
    assert (main_stop.host, main_stop.session) == ("opencode", "ses_e1c797fceffeJEERjZme7BiYy7")
    assert subagent_stop.session == main_stop.session


def test_every_payload_that_was_recorded_is_in_the_table() -> None:
    names = {*os.listdir(RECORDED), *(os.listdir(NEWER_PAYLOADS) if os.path.isdir(NEWER_PAYLOADS) else ())}
    assert {name.removesuffix(".json") for name in names} == set(EXPECTED)


def test_a_distorted_payload_is_an_event_or_none_or_malformed() -> None:
    generator, event_count = Random(7), 0
    for name in EXPECTED:
        for share in (0.03, 0.1, 0.3):
            for kind in EVENT_TIMEOUTS:
                try:
                    event_count += parse_payload(kind, distort_json(load_payload(name), generator, share)) is not None
                except ValueError:
                    pass
    assert event_count > 500
    for invalid_payload in (b"", b"{", b"[]", b"7", b"\xff\xfe", b'"text"'):
        with pytest.raises(ValueError):
            parse_payload("PreToolUse", invalid_payload)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"output": f"hi\n{fence_text('a note')}"}, ("PostToolUse", "hi\n", False)),
        ({"output": "killed", "exit": 137}, ("PostToolUseFailure", "killed", False)),
        (
            {
                "output": None,
                "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
            },
            ("PostToolUse", "a\nb", False),
        ),
        (
            {"output": None, "content": [{"type": "text", "text": "no"}], "isError": True},
            ("PostToolUseFailure", "no", False),
        ),
        ({"error": "Tool execution aborted"}, ("PostToolUseFailure", "Tool execution aborted", True)),
    ],
)
def test_the_outcome_of_a_call_is_read_in_every_form(fields: dict[str, Any], expected: tuple[str, str, bool]) -> None:
    event = parse_existing_event("PostToolUse-bash", **fields)
    assert (event.kind, event.response, event.interrupted) == expected
    assert event.failed is (event.kind == "PostToolUseFailure")


@pytest.mark.parametrize(
    "error",
    [fence_text("Held once by hardwon: read why"), "The user rejected permission to use this specific tool call."],
)
def test_a_call_that_we_or_the_person_refused_did_not_fail(error: str) -> None:
    assert parse_recorded("PostToolUseFailure-read", error=error) is None


PATCH = "*** Begin Patch\n*** Add File: a.py\n+one\n*** Update File: b.py\n@@\n-two\n+three\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "tool_input"),
    [
        ("bash", {"command": "git stash", "workdir": "src"}),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y", "replaceAll": True}),
        ("multiedit", {"filePath": "a.py", "edits": [{"oldString": "x", "newString": "y"}]}),
        ("apply_patch", {"patchText": PATCH}),
        ("grep", {"pattern": "x", "path": "src", "include": "*.py"}),
        ("webfetch", {"url": "https://example.invalid", "format": "text"}),
        ("memory_search_lessons", {"query": "x"}),
        ("plan_exit", {}),
    ],
)
def test_a_hook_and_an_export_describe_a_call_alike(name: str, tool_input: dict[str, Any]) -> None:
    part = {"type": "tool", "tool": name, "callID": "call_0_0", "state": {"status": "running", "input": tool_input}}
    info = {"id": "ses_e1c797fceffeJEERjZme7BiYy7", "directory": "/home/dev/project"}
    document = {"info": info, "messages": [{"info": {"role": "assistant"}, "parts": [part]}]}
    [step] = read_steps(Reader(), [json.dumps(document).encode()])
    live = parse_existing_event("PreToolUse-bash", tool=name, args=tool_input)
    assert (step.tool, step.command, step.path, step.content) == (live.tool, live.command, live.path, live.content)
    assert (step.session, step.cwd, step.call) == (live.session, live.cwd, live.tool_use_id)


def test_a_patch_is_one_call_with_a_part_for_each_file() -> None:
    event = parse_existing_event("PreToolUse-bash", tool="apply_patch", args={"patchText": PATCH})
    assert (event.tool, event.path, event.content) == ("Write", "a.py", "one\nthree")
    assert [(part.tool, part.path, part.content) for part in event.parts] == [
        ("Write", "a.py", "one"),
        ("Edit", "b.py", "three"),
    ]


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        ('"hardwon allow git-stash"', "hardwon allow git-stash"),
        ('"say \\"no\\" twice"', 'say "no" twice'),
        ('"one" and "two"', '"one" and "two"'),
        ('"word"', '"word"'),
        ('"', '"'),
    ],
)
def test_the_quotes_that_the_program_puts_around_an_argument_are_not_the_persons(sent: str, prompt: str) -> None:
    assert parse_existing_event("UserPromptSubmit", prompt=sent).prompt == prompt


def test_an_answer_has_only_the_parts_of_the_reply() -> None:
    event = parse_existing_event("PreToolUse-bash")
    assert render_reply(event, HookReply()) == b"{}"
    assert json.loads(render_reply(event, HookReply(deny="why", notice="held"))) == {"deny": "why", "notice": "held"}
    assert json.loads(render_reply(event, HookReply(context="caf\u00e9"))) == {"context": "caf\u00e9"}


def test_the_model_is_told_that_hardwon_answered_a_prompt() -> None:
    answer = json.loads(render_reply(Event("opencode", "UserPromptSubmit", "s", "/"), HookReply(deny="in force")))
    assert answer == {"context": fence_text(HANDLED_MESSAGE), "notice": "in force"}
