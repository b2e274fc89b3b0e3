"""Gemini CLI's payloads become events, and replies have the form it honours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from hardwon.agents.gemini import install, parse_payload, render_reply
from hardwon.agents.gemini.transcript import Reader
from hardwon.text.fence import fence_text
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, distort_json, read_steps

RECORDED = os.path.join(TESTS, "payloads", "gemini", "0.61.0")
NEWER_PAYLOADS = os.path.join(TESTS, "..", "..", "shared", "payloads", "gemini")

NOTES, MISSING = {"file_path": "notes.txt"}, {"file_path": "missing.txt"}
CHANGE = {**NOTES, "instruction": "patch it", "old_string": "hello from notes", "new_string": "hello patched"}
NO_MATCH = {**NOTES, "instruction": "i", "old_string": "nonexistent", "new_string": "y"}
ECHO = {"command": "echo hi-from-shell", "description": "say hi"}
ERRAND = {"subagent_type": "generalist", "prompt": "SUBTASK go"}
NO_OLD = (
    "Could not find an exact match for 'old_string' in 'notes.txt'. If previous edits modified the file or you are"
    " modifying lines outside your recent read window, please use ReadFile to inspect the target lines before retrying"
    " with an exact 'old_string'."
)
CALLS: dict[str, dict[str, Any]] = {
    "glob": {"tool": "Glob", "content": "*.txt", "input": {"pattern": "*.txt"}},
    "grep_search": {"tool": "Grep", "content": "hello", "input": {"pattern": "hello"}},
    "invoke_agent": {"tool": "Task", "content": "generalist\nSUBTASK go", "input": ERRAND},
    "list_directory": {"tool": "LS", "path": ".", "input": {"path": "."}},
    "mcp_memory_search_lessons": {
        "tool": "mcp__memory__search_lessons",
        "content": "pytest\nparameters: query",
        "input": {"query": "pytest"},
    },
    "read_file": {"tool": "Read", "path": "notes.txt", "input": NOTES},
    "replace": {"tool": "Edit", "path": "notes.txt", "content": "hello patched", "input": CHANGE},
    "run_shell_command": {"tool": "Bash", "command": "echo hi-from-shell", "input": ECHO},
    "write_file": {
        "tool": "Write",
        "path": "new.txt",
        "content": "hi there\n",
        "input": {"file_path": "new.txt", "content": "hi there\n"},
    },
}
RESPONSES = {
    "glob": 'Found 2 file(s) matching "*.txt" within /home/dev/project, sorted by modification time (newest first):\n/home/dev/project/notes.txt\n/home/dev/project/new.txt',
    "grep_search": 'Found 1 match for pattern "hello" in the workspace directory:\n---\nFile: notes.txt\nL1: hello patched\nL2- \n---',
    "invoke_agent": 'Subagent \'generalist\' finished.\nTermination Reason: GOAL\nResult:\n{\n  "response": "sub done"\n}',
    "list_directory": "Directory listing for /home/dev/project:\nAGENTS.md (17 bytes)\nGEMINI.md (25 bytes)\nnew.txt (9 bytes)\nnotes.txt (14 bytes)\n\n(1 ignored)",
    "mcp_memory_search_lessons": 'LESSON-FROM-MCP for {"query": "pytest"}',
    "read_file": "hello from notes",
    "replace": "Successfully modified file: /home/dev/project/notes.txt (1 replacements). Here is the updated code:\nhello patched",
    "run_shell_command": "hi-from-shell",
    "write_file": "Successfully created and wrote to new file: /home/dev/project/new.txt. Here is the updated code:\nhi there",
}

# The fields of each payload's event; None if there is no event.
EXPECTED: dict[str, dict[str, Any] | None] = {
    "AfterAgent": {"kind": "Stop", "message": "Let me look.\nAll done."},
    "AfterModel": None,
    **{
        f"AfterTool-{name}": {"kind": "PostToolUse", **call, "response": RESPONSES[name]}
        for name, call in CALLS.items()
    },
    "AfterTool-read_file-missing": {
        "kind": "PostToolUseFailure",
        "failed": True,
        "tool": "Read",
        "path": "missing.txt",
        "input": MISSING,
        "response": "File not found: /home/dev/project/missing.txt",
    },
    "AfterTool-replace-no-match": {
        "kind": "PostToolUseFailure",
        "failed": True,
        "tool": "Edit",
        "path": "notes.txt",
        "content": "y",
        "input": NO_MATCH,
        "response": NO_OLD,
    },
    "AfterTool-run_shell_command-failed": {
        "kind": "PostToolUseFailure",
        "failed": True,
        "tool": "Bash",
        "command": "ls /nope; exit 3",
        "input": {"command": "ls /nope; exit 3", "description": "x"},
        "response": "ls: cannot access '/nope': No such file or directory\nExit Code: 3",
    },
    "AfterTool-run_shell_command-killed": {
        "kind": "PostToolUseFailure",
        "failed": True,
        "tool": "Bash",
        "command": "kill -9 $$",
        "input": {"command": "kill -9 $$", "description": "x"},
        "response": "(empty)\nSignal: 9",
    },
    "BeforeAgent": {"kind": "UserPromptSubmit", "prompt": "Look at notes"},
    "BeforeModel": None,
    **{f"BeforeTool-{name}": {"kind": "PreToolUse", **call} for name, call in CALLS.items()},
    "BeforeToolSelection": None,
    "PreCompress": None,
    "SessionEnd": {"kind": "SessionEnd", "message": "exit"},
    "SessionStart-resume": {"kind": "SessionStart", "source": "resume"},
    "SessionStart-startup": {"kind": "SessionStart", "source": "startup"},
}


def load_payload(name: str, folder: str = RECORDED) -> dict[str, Any]:
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        wire: dict[str, Any] = json.load(file)
    return wire


def parse_event(wire: object) -> Event | None:
    return parse_payload("", json.dumps(wire).encode())


def parse_recorded(name: str, **fields: object) -> Event:
    event = parse_event({**load_payload(name), **fields})
    assert event is not None
    return event


def describe_event(event: Event | None) -> dict[str, Any] | None:
    """Return the fields of an event, without those that every payload has."""
    excluded = {"host", "session", "cwd", "transcript"}
    return (
        None if event is None else {key: value for key, value in vars(event).items() if value and key not in excluded}
    )


def parse_result(text: object, **fields: object) -> Event:
    return parse_recorded("AfterTool-run_shell_command", tool_response={"llmContent": text, **fields})


def test_recorded_payloads_become_the_expected_events() -> None:
    assert {name: describe_event(parse_event(load_payload(name))) for name in EXPECTED} == EXPECTED
    start = parse_recorded("SessionStart-startup")
    assert (start.host, start.session, start.cwd) == (
        "gemini",
        load_payload("SessionStart-startup")["session_id"],
        "/home/dev/project",
    )


def test_every_payload_that_was_recorded_is_in_the_table() -> None:
    assert {name.removesuffix(".json") for name in os.listdir(RECORDED)} == set(EXPECTED)


def test_newer_recorded_payloads_are_parsed_too() -> None:
    if not os.path.isdir(NEWER_PAYLOADS):
        pytest.skip("the recorded payloads are not beside this checkout (../shared/payloads)")
    for folder, _, names in os.walk(NEWER_PAYLOADS):
        for name in (name.removesuffix(".json") for name in names):
            fields = describe_event(parse_event(load_payload(name, folder)))
            assert fields == EXPECTED.get(name, fields), (folder, name)


def test_a_distorted_payload_is_an_event_or_none_or_malformed() -> None:
    generator, event_count = Random(7), 0
    for wire in map(load_payload, EXPECTED):
        for share in (0.03, 0.1, 0.3):
            try:
                event_count += parse_payload("PreToolUse", distort_json(wire, generator, share)) is not None
            except ValueError:
                pass
    assert event_count > 50
    for invalid_payload in (b"", b"{", b"[]", b"7", b"\xff\xfe", b'"text"'):
        with pytest.raises(ValueError):
            parse_payload("PreToolUse", invalid_payload)


@pytest.mark.parametrize(
    ("text", "response", "failed"),
    [
        (
            "<untrusted_context>\nOutput: Exit Code: 7\nProcess Group PGID: 7\n</untrusted_context>",
            "Exit Code: 7",
            False,
        ),
        ("Output: a\nExit Code: 3\nb\nProcess Group PGID: 7", "a\nExit Code: 3\nb", False),
        (
            "Output: no\nError: spawn failed\nExit Code: -1\nBackground PIDs: 8, 9\nProcess Group PGID: 7",
            "no\nError: spawn failed\nExit Code: -1",
            True,
        ),
        (
            [{"text": "Output: no\nExit Code: 3"}, {"text": "\n\n<hook_context>a note</hook_context>"}],
            "no\nExit Code: 3",
            True,
        ),
        (
            "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output.",
            None,
            True,
        ),
        (
            {
                "text": "Output: hi\n\n[System] Tool input parameters (command) were modified by a hook before execution."
            },
            "hi",
            False,
        ),
        ([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}], "", False),
    ],
)
def test_a_failure_is_recognised_from_the_frame_and_not_from_the_output(
    text: object, response: str | None, failed: bool
) -> None:
    event = parse_result(text)
    assert (event.response, event.failed) == (text if response is None else response, failed)
    assert event.kind == ("PostToolUseFailure" if failed else "PostToolUse")


def test_a_command_that_the_person_stopped_was_interrupted() -> None:
    event = parse_result(
        "Command was cancelled by user before it could complete. There was no output before it was cancelled."
    )
    assert (event.kind, event.interrupted) == ("PostToolUseFailure", True)


def test_the_context_names_a_server_with_an_underscore() -> None:
    context = {"server_name": "my_notes", "tool_name": "find_all"}
    event = parse_recorded("BeforeTool-read_file", tool_name="mcp_my_notes_find_all", mcp_context=context)
    assert event.tool == "mcp__my_notes__find_all"
    assert parse_recorded("BeforeTool-read_file", tool_name="mcp_notes_find_all").tool == "mcp__notes__find_all"


def test_arguments_have_the_names_that_all_hosts_share() -> None:
    sent_inputs: dict[str, dict[str, Any]] = {
        "read_file": {"absolute_path": "/a.py", "start_line": 3},
        "grep_search": {"pattern": "x", "dir_path": "src", "include_pattern": "*.py"},
        "replace": {"file_path": "a.py", "old_string": "x", "new_string": "y", "allow_multiple": True},
        "write_todos": {"todos": [{"description": "mend it", "status": "pending"}]},
        "activate_skill": {"name": "review"},
    }
    parsed_inputs = {
        name: parse_recorded("BeforeTool-glob", tool_name=name, tool_input=tool_input).input
        for name, tool_input in sent_inputs.items()
    }
    assert parsed_inputs == {
        "read_file": {"file_path": "/a.py", "offset": 3},
        "grep_search": {"pattern": "x", "path": "src", "glob": "*.py"},
        "replace": {"file_path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True},
        "write_todos": {"todos": [{"content": "mend it", "description": "mend it", "status": "pending"}]},
        "activate_skill": {"skill": "review"},
    }


def test_a_command_runs_in_the_folder_that_it_names() -> None:
    event = parse_recorded("BeforeTool-run_shell_command", tool_input={"command": "ls", "dir_path": "src/../lib"})
    assert (event.cwd, event.path) == ("/home/dev/project/lib", "")


OPENING = "<hook_context>&lt;hardwon-context&gt;\na lesson\n&lt;/hardwon-context&gt;</hook_context>\n\n"
FILE = "\n--- Content from referenced files ---\nContent from @a.md:\n{}\n--- End of content ---"


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        (f"{OPENING}hardwon accept 3", "hardwon accept 3"),
        ("look at @a.md" + FILE.format("#lesson\nmade up\n#/lesson"), "look at @a.md"),
        ("look at @a.md" + FILE.format("--- End of content ---\n#lesson\nmade up\n#/lesson"), "look at @a.md"),
        ("ask @helper\n<system_note>\nThe user has explicitly selected the following agent(s): helper.", "ask @helper"),
        ("&lt;hardwon-context&gt;\na lesson\n&lt;/hardwon-context&gt;\ngo on", "go on"),
        (f"{fence_text('a lesson')}\n\ngo on", "go on"),
    ],
)
def test_text_added_to_a_prompt_is_removed(sent: str, prompt: str) -> None:
    assert parse_recorded("BeforeAgent", prompt=sent).prompt == prompt
    line = json.dumps({"id": "m", "timestamp": "t", "type": "user", "content": [{"text": sent}]}).encode()
    assert [step.text for step in read_steps(Reader(), [line])] == [prompt]


def test_escaped_brackets_are_restored_in_a_reported_lesson() -> None:
    escaped_lesson = "#lesson\nsolution: make 2&gt;&1\n#/lesson"
    line = json.dumps({"id": "m", "timestamp": "t", "type": "gemini", "content": escaped_lesson}).encode()
    assert [step.text for step in read_steps(Reader(), [line])] == ["#lesson\nsolution: make 2>&1\n#/lesson"]
    assert (
        parse_recorded("AfterAgent", prompt_response=escaped_lesson).message == "#lesson\nsolution: make 2>&1\n#/lesson"
    )
    assert parse_recorded("AfterAgent", prompt_response="write &lt;b&gt;").message == "write &lt;b&gt;"


def test_an_answer_without_text_has_no_message() -> None:
    assert parse_recorded("AfterAgent", prompt_response="[no response text]").message == ""


# Who wrote a prompt

ACCEPT = "hardwon accept 3"


def write_log(own_home: str, *typed: str) -> str:
    """Write the log of a session in which this was typed, and return the path of its transcript."""
    folder = os.path.join(own_home, ".gemini", "tmp", "project")
    os.makedirs(os.path.join(folder, "chats"), exist_ok=True)
    log = [{"sessionId": "s1", "messageId": 0, "type": "user", "message": text, "timestamp": "t"} for text in typed]
    other = {"sessionId": "s2", "messageId": 0, "type": "user", "message": "/other", "timestamp": "t"}
    write_file(folder, "logs.json", json.dumps([*log, other], indent=2), 1)
    return os.path.join(folder, "chats", "session-1.jsonl")


@pytest.mark.parametrize(
    ("typed", "source"),
    [
        ((ACCEPT,), ""),
        (("/build",), "command"),
        (("/clear", ACCEPT), ""),
        ((ACCEPT, '/build "it"'), "command"),
        ((), ""),
    ],
)
def test_a_typed_command_is_recognised_from_the_log(own_home: str, typed: tuple[str, ...], source: str) -> None:
    transcript = write_log(own_home, *typed)
    assert parse_recorded("BeforeAgent", session_id="s1", transcript_path=transcript, prompt=ACCEPT).source == source


@pytest.mark.parametrize(
    ("file", "text", "source"),
    [
        ("project/.gemini/commands/build.toml", f'prompt = "{ACCEPT}"', "command"),
        ("project/.gemini/commands/deep/build.toml", f'prompt = """\nBuild.\n{ACCEPT}\n"""', "command"),
        ("project/.gemini/commands/build.toml", 'prompt = "\\u0068ard{{args}}won accept 3"', "command"),
        (".gemini/commands/build.toml", f"prompt = '{ACCEPT}'", "command"),
        (".gemini/extensions/tidy/commands/build.toml", f"prompt = '{ACCEPT}'", "command"),
        ("project/.gemini/commands/build.toml", 'prompt = "Build it"', ""),
        ("project/.gemini/commands/build.toml", f"prompt = {ACCEPT}", ""),
        ("project/.gemini/commands/build.md", f'prompt = "{ACCEPT}"', ""),
    ],
)
def test_without_a_log_a_command_is_recognised_from_its_file(own_home: str, file: str, text: str, source: str) -> None:
    transcript = write_log(own_home)
    path = os.path.join(own_home, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_file(os.path.dirname(path), os.path.basename(path), text, 1)
    wire = {"session_id": "s1", "transcript_path": transcript, "cwd": os.path.join(own_home, "project")}
    assert parse_recorded("BeforeAgent", **wire, prompt=ACCEPT).source == source


@pytest.mark.parametrize("transcript", ["", "/", "a\0b", "\ud800/x/y", None, 7])
def test_a_prompt_without_a_transcript_is_read_all_the_same(transcript: object) -> None:
    event = parse_recorded("BeforeAgent", transcript_path=transcript, prompt=ACCEPT)
    assert (event.prompt, event.source) == (ACCEPT, "")


# A call's id


def build_message_line(message_id: str, **fields: object) -> str:
    return (
        json.dumps(
            {"id": message_id, "timestamp": "t", "type": "gemini", "content": "", **fields}, separators=(",", ":")
        )
        + "\n"
    )


@pytest.fixture
def chat_folder(own_home: str) -> str:
    """Create the folder of a chat whose model asked for a call."""
    folder = os.path.join(own_home, "chats")
    os.makedirs(os.path.join(folder, "s1"))
    write_file(
        folder,
        "session-1.jsonl",
        build_message_line("m0", toolCalls=[]) + build_message_line("m1") + '{"$set":{"lastUpdated":"t"}}\n',
        1,
    )
    return folder


def write_file(folder: str, name: str, text: str, at: int) -> None:
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)
    os.utime(os.path.join(folder, name), (at, at))


def parse_in_chat(chat_folder: str, name: str, **fields: object) -> Event:
    return parse_recorded(name, session_id="s1", transcript_path=os.path.join(chat_folder, "session-1.jsonl"), **fields)


def test_a_call_has_the_same_id_before_it_after_it_and_in_the_transcript(chat_folder: str) -> None:
    call_event, result_event = (
        parse_in_chat(chat_folder, "BeforeTool-run_shell_command"),
        parse_in_chat(chat_folder, "AfterTool-run_shell_command"),
    )
    call = {"id": "c", "name": "run_shell_command", "args": ECHO, "status": "success", "result": []}
    steps = read_steps(Reader(), [build_message_line("m1", toolCalls=[call, {**call, "id": "d"}]).encode()])
    assert call_event.tool_use_id.startswith("m1:") and result_event.tool_use_id == call_event.tool_use_id
    first, again = call_event.tool_use_id, f"{call_event.tool_use_id}:2"
    assert [step.call for step in steps] == [first, first, again, again]


def test_another_call_or_another_message_has_another_id(chat_folder: str) -> None:
    first_id = parse_in_chat(chat_folder, "BeforeTool-run_shell_command").tool_use_id
    assert parse_in_chat(chat_folder, "BeforeTool-read_file").tool_use_id not in ("", first_id)
    write_file(chat_folder, "session-1.jsonl", build_message_line("m2"), 2)
    assert parse_in_chat(chat_folder, "BeforeTool-run_shell_command").tool_use_id not in ("", first_id)


def test_a_message_whose_calls_ended_gives_no_call_id(chat_folder: str) -> None:
    write_file(chat_folder, "session-1.jsonl", build_message_line("m1", toolCalls=[]), 2)
    assert parse_in_chat(chat_folder, "BeforeTool-run_shell_command").tool_use_id == ""


def test_a_transcript_that_is_a_pipe_is_not_waited_for(own_home: str) -> None:
    pipe = os.path.join(own_home, "pipe")
    os.mkfifo(pipe)
    payload_text = json.dumps({**load_payload("BeforeTool-read_file"), "transcript_path": pipe})
    code = "import sys; from hardwon.agents.gemini import parse_payload; print(parse_payload('', sys.stdin.buffer.read()).tool)"
    process = subprocess.run(
        [sys.executable, "-c", code], input=payload_text, capture_output=True, text=True, timeout=30
    )
    assert process.stdout == "Read\n"


def test_the_latest_transcript_tells_which_agent_made_a_call(chat_folder: str) -> None:
    write_file(os.path.join(chat_folder, "s1"), "helper-1.jsonl", build_message_line("n1"), 5)
    subagent_event, main_event = (
        parse_in_chat(chat_folder, "BeforeTool-run_shell_command"),
        parse_in_chat(chat_folder, "AfterTool-invoke_agent"),
    )
    assert (
        subagent_event.subagent_id,
        subagent_event.tool_use_id[:3],
        main_event.subagent_id,
        main_event.tool_use_id[:3],
    ) == (
        "helper-1",
        "n1:",
        "",
        "m1:",
    )
    os.utime(os.path.join(chat_folder, "session-1.jsonl"), (9, 9))
    assert parse_in_chat(chat_folder, "BeforeTool-run_shell_command").subagent_id == ""


# Replies


def render_answer(kind: str, **reply: Any) -> Any:
    return json.loads(render_reply(Event("gemini", kind, "s", "/"), HookReply(**reply)))


def test_a_reply_has_the_form_that_gemini_honours() -> None:
    context = fence_text("a lesson")
    assert render_answer("PreToolUse", deny="no", notice="said") == {
        "decision": "deny",
        "reason": "no",
        "systemMessage": "said",
    }
    for kind, gemini_event in (
        ("SessionStart", "SessionStart"),
        ("UserPromptSubmit", "BeforeAgent"),
        ("PostToolUse", "AfterTool"),
        ("PostToolUseFailure", "AfterTool"),
    ):
        expected_answer = {"hookSpecificOutput": {"hookEventName": gemini_event, "additionalContext": context}}
        assert render_answer(kind, context=context) == expected_answer
    for kind in ("PreToolUse", "Stop", "SessionEnd"):
        assert render_answer(kind, context=context) == {}


def test_the_model_is_told_where_angle_brackets_were_escaped() -> None:
    context = render_answer("PostToolUse", context=fence_text("make 2>&1"))["hookSpecificOutput"]["additionalContext"]
    assert context == fence_text("(&lt; and &gt; stand for angle brackets here.)\nmake 2>&1")


# Where it runs hooks


@pytest.mark.parametrize(
    ("settings", "trusted", "reason"),
    [
        ({}, {}, "was not told to trust"),
        ({}, {"HOME": "TRUST_FOLDER"}, ""),
        ({}, {"HOME/project": "TRUST_PARENT"}, ""),
        ({}, {"HOME": "TRUST_FOLDER", "HOME/project": "DO_NOT_TRUST"}, "was not told to trust"),
        ({}, {"HOME": "TRUST_FOLDER", "HOME/proj": "DO_NOT_TRUST"}, ""),
        ({"security": {"folderTrust": {"enabled": False}}}, {}, ""),
        ({"hooksConfig": {"enabled": False}}, {"HOME": "TRUST_FOLDER"}, "switches them off"),
        ({"hooksConfig": {"disabled": ["hardwon"]}}, {"HOME": "TRUST_FOLDER"}, "switches them off"),
        ({"hooksConfig": [], "security": 7}, {"HOME": "TRUST_FOLDER"}, ""),
        ({}, ["odd"], "was not told to trust"),
    ],
)
def test_hooks_run_where_the_person_trusts_the_folder(
    own_home: str, settings: object, trusted: dict[str, str], reason: str
) -> None:
    os.makedirs(os.path.join(own_home, ".gemini"))
    write_file(
        os.path.join(own_home, ".gemini"), "trustedFolders.json", json.dumps(trusted).replace("HOME", own_home), 1
    )
    obstacle = install.find_hook_obstacle(json.dumps(settings), os.path.join(own_home, "project"))
    assert reason in obstacle and bool(obstacle) == bool(reason)
