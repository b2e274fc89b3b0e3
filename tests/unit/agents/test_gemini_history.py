"""Gemini CLI's chats, in lines or in one document, are parsed into steps."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from hardwon.agents.gemini.transcript import Reader, find_transcript_folders, is_transcript_path
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import fence_text
from tests.support.transcript_reading import (
    find_recording,
    list_corpus_files,
    read_history_lines,
    read_lines,
    read_steps,
    summarize_steps,
)

HEADER = {"sessionId": "s1", "projectHash": "p", "startTime": "t", "kind": "main"}


def parse_steps(lines: list[bytes], reader: Reader | None = None) -> list[Step]:
    return read_steps(reader or Reader(), lines)


def encode_lines(*wires: object) -> list[bytes]:
    return [json.dumps(wire).encode() + b"\n" for wire in wires]


def build_message(message_id: str, kind: str, content: object = "", **fields: object) -> dict[str, Any]:
    return {"id": message_id, "timestamp": "2026-11-15T20:00:00Z", "type": kind, "content": content, **fields}


def build_call(
    name: str, args: object, status: str = "success", call_id: str = "c", **response: object
) -> dict[str, Any]:
    result = [{"functionResponse": {"id": call_id, "name": name, "response": response}}]
    return {"id": call_id, "name": name, "args": args, "status": status, "result": result, "timestamp": "t"}


def parse_outcome(status: str = "success", name: str = "run_shell_command", **response: str) -> tuple[str, bool, str]:
    call = build_call(name, {"command": "x"}, status, **response)
    _, result_step = parse_steps(encode_lines(build_message("m", "gemini", toolCalls=[call])))
    return result_step.text, result_step.failed, result_step.refused


@pytest.mark.parametrize(
    ("status", "response", "expected"),
    [
        (
            "success",
            {"output": "<untrusted_context>\nOutput: hi\nProcess Group PGID: 7\n</untrusted_context>"},
            ("hi", False, ""),
        ),
        (
            "success",
            {"output": "<untrusted_context>\nOutput: no\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>"},
            ("no\nExit Code: 3", True, ""),
        ),
        (
            "success",
            {
                "output": "Command: x\nDirectory: (root)\nOutput: hi\nError: (none)\nExit Code: 0\nSignal: 0\nBackground PIDs: (none)"
            },
            ("hi\nExit Code: 0", False, ""),
        ),
        (
            "success",
            {"output": "Command: x\nDirectory: (root)\nOutput: (empty)\nError: no\nExit Code: 1\nSignal: 0"},
            ("(empty)\nError: no\nExit Code: 1", True, ""),
        ),
        (
            "success",
            {"output": "Output: no\nExit Code: 3\n\n<hook_context>a note</hook_context>"},
            ("no\nExit Code: 3", True, ""),
        ),
        ("error", {"error": "File not found: a.txt"}, ("File not found: a.txt", True, "")),
        (
            "error",
            {"error": "Tool execution blocked: not on Fridays"},
            ("Tool execution blocked: not on Fridays", False, ""),
        ),
        ("error", {"error": f"Tool execution blocked: {fence_text('Blocked by hardwon. No.')}"}, ("", False, "")),
        (
            "cancelled",
            {"error": "[Operation Cancelled] Reason: User did not allow tool call"},
            ("[Operation Cancelled] Reason: User did not allow tool call", False, " "),
        ),
        ("completed", {"output": "hi"}, ("hi", False, "")),
    ],
)
def test_the_outcome_of_a_call_is_read_in_every_form(
    status: str, response: dict[str, str], expected: tuple[str, bool, str]
) -> None:
    assert parse_outcome(status, **response) == expected


@pytest.mark.parametrize("reason", ["not on Fridays", fence_text("Blocked by hardwon. No.")])
def test_a_call_that_a_hook_denied_did_not_run(reason: str) -> None:
    call = build_call("run_shell_command", {"command": "x"}, "error", error=f"Tool execution blocked: {reason}")
    _, result_step = parse_steps(encode_lines(build_message("m", "gemini", toolCalls=[call])))
    assert (result_step.denied, result_step.failed) == (True, False)


def test_an_exit_code_in_a_file_that_was_read_is_no_failure() -> None:
    assert parse_outcome(name="read_file", output="Exit Code: 3") == ("Exit Code: 3", False, "")


@pytest.mark.parametrize(
    ("name", "args", "extra_fields", "expected"),
    [
        ("run_shell_command", {"command": "git stash"}, {}, ("Bash", "git stash")),
        ("replace", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, {}, ("Edit", "a.py", "y")),
        ("write_file", {"file_path": "a.py", "content": "y"}, {}, ("Write", "a.py", "y")),
        ("read_file", {"absolute_path": "/a.py"}, {}, ("Read", "/a.py")),
        ("search_file_content", {"pattern": "x"}, {}, ("Grep", "x")),
        ("google_web_search", {"query": "x"}, {}, ("WebSearch", "x")),
        ("mcp_memory_search_lessons", {"query": "x"}, {}, ("mcp__memory__search_lessons", "x\nparameters: query")),
        (
            "mcp_my_notes_search",
            {"query": "x"},
            {"displayName": "search (my_notes MCP Server)"},
            ("mcp__my_notes__search", "x\nparameters: query"),
        ),
        ("update_topic", {"title": "x"}, {}, ("update_topic",)),
    ],
)
def test_a_call_is_named_as_in_claude_code(
    name: str, args: object, extra_fields: dict[str, str], expected: tuple[str, ...]
) -> None:
    call = {**build_call(name, args, "executing"), **extra_fields}
    assert summarize_steps(parse_steps(encode_lines(build_message("m", "gemini", toolCalls=[call])))) == [
        ("call", 1, *expected)
    ]


def test_a_message_written_again_gives_its_steps_once() -> None:
    text_message = build_message("m", "gemini", "Let me look.")
    unfinished_message = {**text_message, "toolCalls": [build_call("read_file", {"file_path": "a"}, "executing")]}
    finished_message = {**text_message, "toolCalls": [build_call("read_file", {"file_path": "a"}, output="hi")]}
    patch = {"$set": {"messages": [finished_message]}}
    parsed_steps = parse_steps(
        encode_lines(
            HEADER,
            text_message,
            unfinished_message,
            finished_message,
            {"$set": {"lastUpdated": "t"}},
            patch,
            {"$rewindTo": "m"},
        )
    )
    assert summarize_steps(parsed_steps) == [
        ("agent", 2, "Let me look."),
        ("call", 3, "Read", "a"),
        ("result", 4, "hi"),
    ]


def test_changed_text_is_a_step_with_the_same_id() -> None:
    first, last = parse_steps(
        encode_lines(build_message("m", "gemini", "Let me"), build_message("m", "gemini", "Let me look."))
    )
    assert (first.id, first.text, last.text) == (last.id, "Let me", "Let me look.")


@pytest.mark.parametrize(
    "content",
    [
        "System: Please continue.",
        [{"text": "<session_context>\nThis is the Gemini CLI."}],
        [{"text": "<hook_context>a note</hook_context>"}],
        [{"functionResponse": {"name": "x", "response": {"output": "hi"}}}],
        fence_text("a lesson"),
    ],
)
def test_text_of_the_program_is_no_step(content: object) -> None:
    lines = encode_lines(
        build_message("m", "user", content),
        build_message("i", "info", "Request cancelled."),
        build_message("e", "error", "429"),
    )
    assert parse_steps(lines) == []


def test_a_persons_prompt_is_found_among_context_of_hooks() -> None:
    parts = [
        {"text": "<hook_context>&lt;hardwon-context&gt;</hook_context>\n\nDo things"},
        {"text": "<hook_context>x</hook_context>"},
    ]
    assert summarize_steps(parse_steps(encode_lines(build_message("m", "user", parts)))) == [("person", 1, "Do things")]


def test_messages_repeated_by_a_resumed_session_give_no_steps_twice() -> None:
    calls = [build_call("read_file", {"file_path": "a"}, output="hi")]
    messages = [build_message(f"m{number}", "gemini", f"look at {number}", toolCalls=calls) for number in range(50)]
    repeated_messages = {"$set": {"messages": messages}}
    assert (
        len(
            parse_steps(
                encode_lines(*messages, repeated_messages, repeated_messages, build_message("n", "user", "go on"))
            )
        )
        == 50 * 3 + 1
    )


def test_a_subagents_prompt_is_no_step() -> None:
    header = {**HEADER, "kind": "subagent"}
    parsed_steps = parse_steps(
        encode_lines(header, build_message("m", "user", "look at a.py"), build_message("n", "gemini", "done"))
    )
    assert [(step.kind, step.subagent_id) for step in parsed_steps] == [("agent", "s1")]


def test_a_subagents_chat_that_0_1_0_began_to_read_is_still_its_own() -> None:
    reader = Reader({"session": "s1", "agent": "s1"})
    [step] = reader.read_line(2, encode_lines(build_message("n", "gemini", "done"))[0])
    assert step.subagent_id == "s1"


def test_the_lines_of_a_document_are_found() -> None:
    calls = [build_call("run_shell_command", {"command": "ls"}, output="a\nb\nExit Code: 2")]
    messages = [build_message("m", "user", "do\nit"), build_message("n", "gemini", "done", toolCalls=calls)]
    document = json.dumps({**HEADER, "messages": messages}, indent=2).encode()
    lines = document.splitlines(keepends=True)
    parsed_steps = parse_steps([document])
    assert parse_steps([b"\xef\xbb\xbf" + document]) == parsed_steps
    assert [step.kind for step in parsed_steps] == ["person", "agent", "call", "result"]
    marks = (b'"content": "do', b'"content": "done"', b'"id": "c"', b'"output": "a')
    assert [step.line for step in parsed_steps] == [
        next(n for n, line in enumerate(lines, 1) if mark in line) for mark in marks
    ]


def test_invalid_lines_are_counted_or_ignored() -> None:
    reader = Reader()
    odd_lines = [
        b"{half",
        b"",
        b'"text"',
        b'{"$set":7}',
        b'{"id":3}',
        b"[" * 9999,
        *encode_lines({"messages": [1, {"id": "x"}]}),
    ]
    odd_lines += encode_lines(
        build_message("m", "gemini", 5, toolCalls=[1, {"status": "success"}, {"id": "c", "args": [], "result": 5}])
    )
    parsed_steps = parse_steps([*odd_lines, *encode_lines(build_message("z", "user", "go on"))], reader)
    assert (reader.malformed, parsed_steps[-1].text) == (2, "go on")


def test_a_recorded_chat_becomes_the_expected_steps() -> None:
    parsed_steps = parse_steps(read_lines(find_recording("gemini", "session-2026-11-15T20-29-49419973.jsonl")))
    missing = "ls: cannot access '/nonexistent-dir': No such file or directory\nExit Code: 3"
    assert summarize_steps(parsed_steps)[:10] == [
        ("person", 3, "Look at notes"),
        ("agent", 5, "Let me look."),
        ("call", 7, "Read", "notes.txt"),
        ("result", 7, "hello from notes"),
        ("call", 12, "Bash", "echo hi-from-shell"),
        ("result", 12, "hi-from-shell"),
        ("call", 17, "Bash", "ls /nonexistent-dir; exit 3"),
        ("result", 17, missing, True),
        ("call", 22, "Write", "new.txt", "hi there\n"),
        (
            "result",
            22,
            "Successfully created and wrote to new file: /home/dev/project/new.txt. Here is the updated code:\nhi there",
        ),
    ]
    assert summarize_steps(parsed_steps)[-3:] == [
        ("call", 47, "Read", "missing.txt"),
        ("result", 47, "File not found: /home/dev/project/missing.txt", True),
        ("agent", 50, "All done."),
    ]
    assert {(step.cwd, step.session) for step in parsed_steps} == {
        ("/home/dev/project", "49419973-8004-4120-bd9c-21ca2f310941")
    }


RAN = [("call", 7, "Bash", "echo hello-x"), ("result", 7, "hello-x"), ("agent", 10, "done")]
DENIED = "Tool execution blocked: bash: line 1: nosuchcmd-xyz: command not found"
SHORT: dict[str, list[tuple[Any, ...]]] = {
    **dict.fromkeys(("32-1730cdf1", "32-5554c8cb", "32-ab826951", "32-b5f5ce75", "32-b9ac8305", "33-6f2b4ca2"), RAN),
    "32-2705dc84": [RAN[0], ("result", 7, DENIED, True), RAN[2]],  # its hook is missing, which it takes for a denial
    "33-5db5f483": [("agent", 5, "hi")],
}


@pytest.mark.parametrize("name", SHORT)
def test_recorded_chats_of_one_call_become_the_expected_steps(name: str) -> None:
    parsed_steps = parse_steps(read_lines(find_recording("gemini", f"session-2026-11-15T20-{name}.jsonl")))
    assert summarize_steps(parsed_steps) == [("person", 3, "x"), *SHORT[name]]


def test_where_chats_are() -> None:
    assert find_transcript_folders({}, "/home/dev") == ["/home/dev/.gemini/tmp"]
    assert is_transcript_path("/home/dev/.gemini/tmp/project/chats/session-2026-11-15T20-29-49419973.jsonl")
    assert is_transcript_path("/home/dev/.gemini/tmp/0123/chats/session-2026-01-10T02-08-faff42ab.json")
    assert not is_transcript_path("/home/dev/.gemini/tmp/project/logs.json")


# INDEX.tsv counts `System: Please continue.`, which the program sends itself when the model stopped half-way.
NOT_A_PERSON = 1


def test_every_real_chat_is_read_and_the_counts_agree() -> None:
    parsed_counts: Counter[str] = Counter()
    index_counts: Counter[str] = Counter()
    for row, path in list_corpus_files("gemini"):
        reader = Reader()
        parsed_steps = parse_steps(read_history_lines("gemini", path), reader)
        assert reader.malformed == int(row["bad_lines"]), row["file"]
        parsed_counts.update(step.kind for step in parsed_steps)
        parsed_counts["failed"] += sum(step.failed for step in parsed_steps)
        index_counts.update({key: int(row[key]) for key in ("tool_calls", "tool_errors", "user_turns")})
    assert (
        (parsed_counts["call"], parsed_counts["failed"])
        == (index_counts["tool_calls"], index_counts["tool_errors"])
        == (12, 0)
    )
    assert parsed_counts["person"] == index_counts["user_turns"] - NOT_A_PERSON
