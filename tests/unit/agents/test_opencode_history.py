"""opencode's exports become the steps that were taken in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardwon.agents.opencode.transcript import Reader, find_transcript_folders, is_transcript_path
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import fence_text
from tests.support.transcript_reading import find_recording, read_lines, summarize_steps


def exported(name: str) -> bytes:
    return b"".join(read_lines(find_recording("opencode", name)))


def export(*messages: object, **info: object) -> bytes:
    about = {"id": "ses_1", "directory": "/home/dev/project", **info}
    return json.dumps({"info": about, "messages": messages}).encode()


def message(role: str, *parts: dict[str, Any], **more: object) -> dict[str, Any]:
    numbered = [{"id": f"prt_{number}", **part} for number, part in enumerate(parts)]
    return {"info": {"id": "msg_1", "role": role, "time": {"created": 1794774953155}, **more}, "parts": numbered}


def text(words: str, **more: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def tool(name: str, given: object, **state: object) -> dict[str, Any]:
    return {"type": "tool", "tool": name, "callID": "call_1", "state": {"input": given, **state}}


def steps(document: bytes) -> list[Step]:
    return list(Reader().read_line(1, document))


def test_what_the_real_program_exported() -> None:
    found = steps(exported("export.json"))
    assert summarize_steps(found)[4:12] == [
        ("call", 251, "Bash", "ls /nope; exit 3"),
        ("result", 258, "ls: cannot access '/nope': No such file or directory", True),
        ("call", 337, "Bash", "rm -rf build"),
        ("result", 344, "DENY-REASON lesson", True),
        ("call", 417, "Bash", "echo rewritten $MEM_SHELL_ENV"),
        ("result", 424, "rewritten 1"),
        ("call", 503, "Write", "/home/dev/project/new.txt", "hi\n"),
        ("result", 510, "Wrote file successfully."),
    ]
    assert [step.text for step in found if step.kind in ("person", "agent")] == [
        "Look at notes",
        "Looking.",
        "All done.",
    ]
    assert {(step.session, step.cwd) for step in found} == {("ses_e1f1394eaffeDBVpn6wTvHyEma", "/home/dev/project")}
    assert found[0].at == "2026-11-15T20:35:53.155Z"


def test_every_line_named_is_where_the_words_are() -> None:
    document = exported("export.json")
    lines = document.decode().splitlines()
    for step in steps(document):
        shown = lines[step.line - 1]
        assert "callID" in shown if step.kind == "call" else json.dumps(step.text[:40])[1:-1] in shown


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
def test_how_a_call_ended(state: dict[str, Any], expected: tuple[str, bool, str]) -> None:
    _, found = steps(export(message("assistant", tool("bash", {"command": "x"}, **state))))
    assert (found.text, found.failed, found.refused) == expected
    assert found.denied is ("Held once by hardwon" in state.get("error", ""))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("bash", {"command": "git stash"}, ("Bash", "git stash")),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y"}, ("Edit", "a.py", "y")),
        ("read", {"filePath": "a.py"}, ("Read", "a.py")),
        ("grep", {"pattern": "x", "path": "src"}, ("Grep", "src", "x")),
        ("memory_search_lessons", {"query": "x"}, ("mcp__memory__search_lessons", "x\nparameters: query")),
        ("invalid", {"tool": "x"}, ("invalid",)),
    ],
)
def test_a_call_is_named_as_in_claude_code(name: str, given: object, expected: tuple[str, ...]) -> None:
    assert summarize_steps(steps(export(message("assistant", tool(name, given, status="running"))))) == [
        ("call", 1, *expected)
    ]


def test_parts_without_an_id_are_told_apart() -> None:
    document = export({"info": {"id": "msg_1"}, "parts": [tool("bash", {}), tool("bash", {})]})
    assert [step.id for step in steps(document)] == ["call:msg_1.0", "call:msg_1.1"]


def test_what_the_program_writes_is_nobodys_words() -> None:
    parts = [
        text("a note", synthetic=True),
        text("hidden", ignored=True),
        text(fence_text("a lesson")),
        {"type": "compaction"},
    ]
    assert summarize_steps(steps(export(message("user", *parts)))) == [("compacted", 1)]
    assert steps(export(message("assistant", text("a summary"), summary=True))) == []


def test_what_a_sub_agent_is_told_is_nobodys_words() -> None:
    found = steps(export(message("user", text("look")), message("assistant", text("done")), parentID="ses_0"))
    assert [(step.kind, step.session, step.agent) for step in found] == [("agent", "ses_0", "ses_1")]


def test_documents_that_make_no_sense_are_counted_or_passed_over() -> None:
    reader = Reader()
    odd = [
        b"",
        b"{half",
        b"[]",
        b"{}",
        b'{"messages":7}',
        b'{"messages":[{"parts":[1,{"type":"tool"},{"type":"text"}]}]}',
    ]
    found = [step for document in odd for step in reader.read_line(1, document)]
    assert (reader.malformed, [step.kind for step in found]) == (1, ["call"])
    assert Reader(json.loads(json.dumps(vars(reader)))).malformed == 1


def test_where_exports_are_and_what_is_left_alone() -> None:
    assert find_transcript_folders({}, "/home/dev") == ["/home/dev/.local/share/opencode"]
    assert find_transcript_folders({"XDG_DATA_HOME": "/d"}, "/home/dev") == ["/d/opencode"]
    assert is_transcript_path("/d/opencode/ses_e1f1394eaffe.json") and is_transcript_path("/d/opencode/export.json")
    for other in ("auth.json", "storage/session/p/ses_1.json", "storage/part/m/prt_1.json", "opencode.db"):
        assert not is_transcript_path(f"/d/opencode/{other}")
