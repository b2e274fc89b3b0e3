"""Gemini CLI's payloads become events in the words all hosts share, and replies take the form it honours."""

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
BESIDE = os.path.join(TESTS, "..", "..", "shared", "payloads", "gemini")

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

# What each payload says; None if it is of no interest.
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


def payload(name: str, folder: str = RECORDED) -> dict[str, Any]:
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def event(wire: object) -> Event | None:
    return parse_payload("", json.dumps(wire).encode())


def happened(name: str, **more: object) -> Event:
    found = event({**payload(name), **more})
    assert found is not None
    return found


def told(found: Event | None) -> dict[str, Any] | None:
    """What an event says, without what every payload has."""
    left_out = {"host", "session", "cwd", "transcript"}
    return (
        None if found is None else {key: value for key, value in vars(found).items() if value and key not in left_out}
    )


def ended(text: object, **more: object) -> Event:
    return happened("AfterTool-run_shell_command", tool_response={"llmContent": text, **more})


def test_what_the_real_program_sent_is_told_in_the_words_all_hosts_share() -> None:
    assert {name: told(event(payload(name))) for name in EXPECTED} == EXPECTED
    start = happened("SessionStart-startup")
    assert (start.host, start.session, start.cwd) == (
        "gemini",
        payload("SessionStart-startup")["session_id"],
        "/home/dev/project",
    )


def test_every_payload_that_was_recorded_is_in_the_table() -> None:
    assert {name.removesuffix(".json") for name in os.listdir(RECORDED)} == set(EXPECTED)


def test_what_was_recorded_since_is_read_too() -> None:
    if not os.path.isdir(BESIDE):
        pytest.skip("the recorded payloads are not beside this checkout (../shared/payloads)")
    for folder, _, names in os.walk(BESIDE):
        for name in (name.removesuffix(".json") for name in names):
            found = told(event(payload(name, folder)))
            assert found == EXPECTED.get(name, found), (folder, name)


def test_whatever_comes_it_is_an_event_or_none_or_malformed() -> None:
    chance, read_well = Random(7), 0
    for wire in map(payload, EXPECTED):
        for share in (0.03, 0.1, 0.3):
            try:
                read_well += parse_payload("PreToolUse", distort_json(wire, chance, share)) is not None
            except ValueError:
                pass
    assert read_well > 50
    for broken in (b"", b"{", b"[]", b"7", b"\xff\xfe", b'"text"'):
        with pytest.raises(ValueError):
            parse_payload("PreToolUse", broken)


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
def test_a_failure_is_told_by_the_frame_and_not_by_what_a_command_wrote(
    text: object, response: str | None, failed: bool
) -> None:
    found = ended(text)
    assert (found.response, found.failed) == (text if response is None else response, failed)
    assert found.kind == ("PostToolUseFailure" if failed else "PostToolUse")


def test_a_command_that_the_person_stopped_was_interrupted() -> None:
    found = ended(
        "Command was cancelled by user before it could complete. There was no output before it was cancelled."
    )
    assert (found.kind, found.interrupted) == ("PostToolUseFailure", True)


def test_a_server_with_an_underscore_in_its_name_is_known_by_its_context() -> None:
    context = {"server_name": "my_notes", "tool_name": "find_all"}
    named = happened("BeforeTool-read_file", tool_name="mcp_my_notes_find_all", mcp_context=context)
    assert named.tool == "mcp__my_notes__find_all"
    assert happened("BeforeTool-read_file", tool_name="mcp_notes_find_all").tool == "mcp__notes__find_all"


def test_arguments_have_the_names_that_all_hosts_share() -> None:
    sent: dict[str, dict[str, Any]] = {
        "read_file": {"absolute_path": "/a.py", "start_line": 3},
        "grep_search": {"pattern": "x", "dir_path": "src", "include_pattern": "*.py"},
        "replace": {"file_path": "a.py", "old_string": "x", "new_string": "y", "allow_multiple": True},
        "write_todos": {"todos": [{"description": "mend it", "status": "pending"}]},
        "activate_skill": {"name": "review"},
    }
    found = {name: happened("BeforeTool-glob", tool_name=name, tool_input=given).input for name, given in sent.items()}
    assert found == {
        "read_file": {"file_path": "/a.py", "offset": 3},
        "grep_search": {"pattern": "x", "path": "src", "glob": "*.py"},
        "replace": {"file_path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True},
        "write_todos": {"todos": [{"content": "mend it", "description": "mend it", "status": "pending"}]},
        "activate_skill": {"skill": "review"},
    }


def test_a_command_happens_in_the_folder_that_it_names() -> None:
    found = happened("BeforeTool-run_shell_command", tool_input={"command": "ls", "dir_path": "src/../lib"})
    assert (found.cwd, found.path) == ("/home/dev/project/lib", "")


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
def test_of_a_prompt_only_what_the_person_wrote_is_theirs(sent: str, prompt: str) -> None:
    assert happened("BeforeAgent", prompt=sent).prompt == prompt
    line = json.dumps({"id": "m", "timestamp": "t", "type": "user", "content": [{"text": sent}]}).encode()
    assert [step.text for step in read_steps(Reader(), [line])] == [prompt]


def test_a_lesson_the_model_reports_has_its_brackets_back() -> None:
    said = "#lesson\nsolution: make 2&gt;&1\n#/lesson"
    line = json.dumps({"id": "m", "timestamp": "t", "type": "gemini", "content": said}).encode()
    assert [step.text for step in read_steps(Reader(), [line])] == ["#lesson\nsolution: make 2>&1\n#/lesson"]
    assert happened("AfterAgent", prompt_response=said).message == "#lesson\nsolution: make 2>&1\n#/lesson"
    assert happened("AfterAgent", prompt_response="write &lt;b&gt;").message == "write &lt;b&gt;"


def test_an_answer_without_words_has_none() -> None:
    assert happened("AfterAgent", prompt_response="[no response text]").message == ""


# Whose words a prompt is

ACCEPT = "hardwon accept 3"


def typed_in(own_home: str, *typed: str) -> str:
    """The transcript of a session in which this was typed, as the program's log has it."""
    folder = os.path.join(own_home, ".gemini", "tmp", "project")
    os.makedirs(os.path.join(folder, "chats"), exist_ok=True)
    log = [{"sessionId": "s1", "messageId": 0, "type": "user", "message": text, "timestamp": "t"} for text in typed]
    other = {"sessionId": "s2", "messageId": 0, "type": "user", "message": "/other", "timestamp": "t"}
    written(folder, "logs.json", json.dumps([*log, other], indent=2), 1)
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
def test_a_command_that_was_typed_is_known_by_the_log(own_home: str, typed: tuple[str, ...], source: str) -> None:
    transcript = typed_in(own_home, *typed)
    assert happened("BeforeAgent", session_id="s1", transcript_path=transcript, prompt=ACCEPT).source == source


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
def test_without_a_log_a_commands_text_is_known_by_its_file(own_home: str, file: str, text: str, source: str) -> None:
    transcript = typed_in(own_home)
    path = os.path.join(own_home, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    written(os.path.dirname(path), os.path.basename(path), text, 1)
    wire = {"session_id": "s1", "transcript_path": transcript, "cwd": os.path.join(own_home, "project")}
    assert happened("BeforeAgent", **wire, prompt=ACCEPT).source == source


@pytest.mark.parametrize("transcript", ["", "/", "a\0b", "\ud800/x/y", None, 7])
def test_a_prompt_without_a_transcript_is_read_all_the_same(transcript: object) -> None:
    found = happened("BeforeAgent", transcript_path=transcript, prompt=ACCEPT)
    assert (found.prompt, found.source) == (ACCEPT, "")


# A call's id


def message(id: str, **more: object) -> str:
    return (
        json.dumps({"id": id, "timestamp": "t", "type": "gemini", "content": "", **more}, separators=(",", ":")) + "\n"
    )


@pytest.fixture
def chats(own_home: str) -> str:
    """The folder of a chat whose model has asked for something."""
    folder = os.path.join(own_home, "chats")
    os.makedirs(os.path.join(folder, "s1"))
    written(
        folder, "session-1.jsonl", message("m0", toolCalls=[]) + message("m1") + '{"$set":{"lastUpdated":"t"}}\n', 1
    )
    return folder


def written(folder: str, name: str, text: str, at: int) -> None:
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)
    os.utime(os.path.join(folder, name), (at, at))


def in_chat(chats: str, name: str, **more: object) -> Event:
    return happened(name, session_id="s1", transcript_path=os.path.join(chats, "session-1.jsonl"), **more)


def test_a_call_has_the_same_id_before_it_after_it_and_in_the_transcript(chats: str) -> None:
    before, after = in_chat(chats, "BeforeTool-run_shell_command"), in_chat(chats, "AfterTool-run_shell_command")
    call = {"id": "c", "name": "run_shell_command", "args": ECHO, "status": "success", "result": []}
    steps = read_steps(Reader(), [message("m1", toolCalls=[call, {**call, "id": "d"}]).encode()])
    assert before.tool_use_id.startswith("m1:") and after.tool_use_id == before.tool_use_id
    first, again = before.tool_use_id, f"{before.tool_use_id}:2"
    assert [step.call for step in steps] == [first, first, again, again]


def test_another_call_or_another_message_has_another_id(chats: str) -> None:
    before = in_chat(chats, "BeforeTool-run_shell_command").tool_use_id
    assert in_chat(chats, "BeforeTool-read_file").tool_use_id not in ("", before)
    written(chats, "session-1.jsonl", message("m2"), 2)
    assert in_chat(chats, "BeforeTool-run_shell_command").tool_use_id not in ("", before)


def test_a_message_whose_calls_are_over_makes_none(chats: str) -> None:
    written(chats, "session-1.jsonl", message("m1", toolCalls=[]), 2)
    assert in_chat(chats, "BeforeTool-run_shell_command").tool_use_id == ""


def test_a_transcript_that_is_a_pipe_is_not_waited_for(own_home: str) -> None:
    pipe = os.path.join(own_home, "pipe")
    os.mkfifo(pipe)
    asked = json.dumps({**payload("BeforeTool-read_file"), "transcript_path": pipe})
    code = "import sys; from hardwon.agents.gemini import parse_payload; print(parse_payload('', sys.stdin.buffer.read()).tool)"
    done = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, timeout=30)
    assert done.stdout == "Read\n"


def test_a_sub_agents_call_is_told_by_the_transcript_that_was_written_last(chats: str) -> None:
    written(os.path.join(chats, "s1"), "helper-1.jsonl", message("n1"), 5)
    inside, errand = in_chat(chats, "BeforeTool-run_shell_command"), in_chat(chats, "AfterTool-invoke_agent")
    assert (inside.agent, inside.tool_use_id[:3], errand.agent, errand.tool_use_id[:3]) == (
        "helper-1",
        "n1:",
        "",
        "m1:",
    )
    os.utime(os.path.join(chats, "session-1.jsonl"), (9, 9))
    assert in_chat(chats, "BeforeTool-run_shell_command").agent == ""


# Replies


def replied(kind: str, **reply: Any) -> Any:
    return json.loads(render_reply(Event("gemini", kind, "s", "/"), HookReply(**reply)))


def test_a_reply_takes_the_form_that_is_honoured() -> None:
    context = fence_text("a lesson")
    assert replied("PreToolUse", deny="no", notice="said") == {
        "decision": "deny",
        "reason": "no",
        "systemMessage": "said",
    }
    for kind, theirs in (
        ("SessionStart", "SessionStart"),
        ("UserPromptSubmit", "BeforeAgent"),
        ("PostToolUse", "AfterTool"),
        ("PostToolUseFailure", "AfterTool"),
    ):
        said = {"hookSpecificOutput": {"hookEventName": theirs, "additionalContext": context}}
        assert replied(kind, context=context) == said
    for kind in ("PreToolUse", "Stop", "SessionEnd"):
        assert replied(kind, context=context) == {}


def test_the_model_is_told_where_angle_brackets_were_escaped() -> None:
    said = replied("PostToolUse", context=fence_text("make 2>&1"))["hookSpecificOutput"]["additionalContext"]
    assert said == fence_text("(&lt; and &gt; stand for angle brackets here.)\nmake 2>&1")


# Where it runs hooks


@pytest.mark.parametrize(
    ("settings", "trusted", "why"),
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
    own_home: str, settings: object, trusted: dict[str, str], why: str
) -> None:
    os.makedirs(os.path.join(own_home, ".gemini"))
    written(os.path.join(own_home, ".gemini"), "trustedFolders.json", json.dumps(trusted).replace("HOME", own_home), 1)
    found = install.find_hook_obstacle(json.dumps(settings), os.path.join(own_home, "project"))
    assert why in found and bool(found) == bool(why)
