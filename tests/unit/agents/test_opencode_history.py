"""opencode's exports are parsed into steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardwon.agents.opencode.transcript import Reader, find_transcript_folders, is_transcript_path
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import fence_text
from tests.support.transcript_reading import find_recording, read_lines, summarize_steps


def read_export(name: str) -> bytes:
    return b"".join(read_lines(find_recording("opencode", name)))


def build_export(*messages: object, **info: object) -> bytes:
    session_info = {"id": "ses_1", "directory": "/home/dev/project", **info}
    return json.dumps({"info": session_info, "messages": messages}).encode()


def build_message(role: str, *parts: dict[str, Any], **fields: object) -> dict[str, Any]:
    numbered = [{"id": f"prt_{number}", **part} for number, part in enumerate(parts)]
    return {"info": {"id": "msg_1", "role": role, "time": {"created": 1794774953155}, **fields}, "parts": numbered}


def build_text_part(words: str, **fields: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def build_tool_part(name: str, tool_input: object, **state: object) -> dict[str, Any]:
    return {"type": "tool", "tool": name, "callID": "call_1", "state": {"input": tool_input, **state}}


def parse_steps(document: bytes) -> list[Step]:
    return list(Reader().read_line(1, document))


def test_a_recorded_export_becomes_the_expected_steps() -> None:
    parsed_steps = parse_steps(read_export("export.json"))
    assert summarize_steps(parsed_steps)[4:12] == [
        ("call", 251, "Bash", "ls /nope; exit 3"),
        ("result", 258, "ls: cannot access '/nope': No such file or directory", True),
        ("call", 337, "Bash", "rm -rf build"),
        ("result", 344, "DENY-REASON lesson", True),
        ("call", 417, "Bash", "echo rewritten $MEM_SHELL_ENV"),
        ("result", 424, "rewritten 1"),
        ("call", 503, "Write", "/home/dev/project/new.txt", "hi\n"),
        ("result", 510, "Wrote file successfully."),
    ]
    assert [step.text for step in parsed_steps if step.kind in ("person", "agent")] == [
        "Look at notes",
        "Looking.",
        "All done.",
    ]
    assert {(step.session, step.cwd) for step in parsed_steps} == {
        ("ses_e1f1394eaffeDBVpn6wTvHyEma", "/home/dev/project")
    }
    assert parsed_steps[0].at == "2026-11-15T20:35:53.155Z"


def test_the_line_of_a_step_contains_its_text() -> None:
    document = read_export("export.json")
    lines = document.decode().splitlines()
    for step in parse_steps(document):
        source_line = lines[step.line - 1]
        assert "callID" in source_line if step.kind == "call" else json.dumps(step.text[:40])[1:-1] in source_line


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"status": "completed", "output": "hi\n", "metadata": {"exit": 0}}, ("hi", False, "")),
        ({"status": "completed", "output": "no", "metadata": {"exit": 3}}, ("no", True, "")),
        ({"status": "completed", "output": f"no\n{fence_text('a note')}", "metadata": {"exit": 3}}, ("no", True, "")),
        ({"status": "error", "error": "File not found: a"}, ("File not found: a", True, "")),
        ({"status": "error", "error": fence_text("Held once by hardwon: read why")}, ("", False, "")),
        (
            {"status": "error", "error": f"Error: {fence_text('Held once by hardwon: read why')}"},
            ("Error: ", False, ""),
        ),
        ({"status": "error", "error": "Tool execution aborted"}, ("Tool execution aborted", False, " ")),
        (
            {"status": "error", "error": "The user rejected permission to use this specific tool call."},
            ("The user rejected permission to use this specific tool call.", False, " "),
        ),
        (
            {
                "status": "error",
                "error": "The user rejected permission to use this specific tool call with the following feedback: use uv",
            },
            (
                "The user rejected permission to use this specific tool call with the following feedback: use uv",
                False,
                "use uv",
            ),
        ),
    ],
)
def test_the_outcome_of_a_call_is_read_in_every_form(state: dict[str, Any], expected: tuple[str, bool, str]) -> None:
    _, result_step = parse_steps(
        build_export(build_message("assistant", build_tool_part("bash", {"command": "x"}, **state)))
    )
    assert (result_step.text, result_step.failed, result_step.refused) == expected
    assert result_step.denied is ("Held once by hardwon" in state.get("error", ""))


@pytest.mark.parametrize(
    ("name", "tool_input", "expected"),
    [
        ("bash", {"command": "git stash"}, ("Bash", "git stash")),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y"}, ("Edit", "a.py", "y")),
        ("read", {"filePath": "a.py"}, ("Read", "a.py")),
        ("grep", {"pattern": "x", "path": "src"}, ("Grep", "src", "x")),
        ("memory_search_lessons", {"query": "x"}, ("mcp__memory__search_lessons", "x\nparameters: query")),
        ("invalid", {"tool": "x"}, ("invalid",)),
    ],
)
def test_a_call_is_named_as_in_claude_code(name: str, tool_input: object, expected: tuple[str, ...]) -> None:
    assert summarize_steps(
        parse_steps(build_export(build_message("assistant", build_tool_part(name, tool_input, status="running"))))
    ) == [("call", 1, *expected)]


def test_parts_without_an_id_have_different_step_ids() -> None:
    document = build_export(
        {"info": {"id": "msg_1"}, "parts": [build_tool_part("bash", {}), build_tool_part("bash", {})]}
    )
    assert [step.id for step in parse_steps(document)] == ["call:msg_1.0", "call:msg_1.1"]


def test_text_of_the_program_is_no_step() -> None:
    parts = [
        build_text_part("a note", synthetic=True),
        build_text_part("hidden", ignored=True),
        build_text_part(fence_text("a lesson")),
        {"type": "compaction"},
    ]
    assert summarize_steps(parse_steps(build_export(build_message("user", *parts)))) == [("compacted", 1)]
    assert parse_steps(build_export(build_message("assistant", build_text_part("a summary"), summary=True))) == []


def test_a_subagents_prompt_is_no_step() -> None:
    parsed_steps = parse_steps(
        build_export(
            build_message("user", build_text_part("look")),
            build_message("assistant", build_text_part("done")),
            parentID="ses_0",
        )
    )
    assert [(step.kind, step.session, step.subagent_id) for step in parsed_steps] == [("agent", "ses_0", "ses_1")]


def test_invalid_documents_are_counted_or_ignored() -> None:
    reader = Reader()
    odd_documents = [
        b"",
        b"{half",
        b"[]",
        b"{}",
        b'{"messages":7}',
        b'{"messages":[{"parts":[1,{"type":"tool"},{"type":"text"}]}]}',
    ]
    parsed_steps = [step for document in odd_documents for step in reader.read_line(1, document)]
    assert (reader.malformed, [step.kind for step in parsed_steps]) == (1, ["call"])
    assert Reader(json.loads(json.dumps(vars(reader)))).malformed == 1


def test_exports_are_found_and_other_files_are_ignored() -> None:
    assert find_transcript_folders({}, "/home/dev") == ["/home/dev/.local/share/opencode"]
    assert find_transcript_folders({"XDG_DATA_HOME": "/d"}, "/home/dev") == ["/d/opencode"]
    assert is_transcript_path("/d/opencode/ses_e1f1394eaffe.json") and is_transcript_path("/d/opencode/export.json")
    for other in ("auth.json", "storage/session/p/ses_1.json", "storage/part/m/prt_1.json", "opencode.db"):
        assert not is_transcript_path(f"/d/opencode/{other}")
