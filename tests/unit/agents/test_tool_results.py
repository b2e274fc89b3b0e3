"""A tool's result is text, whichever agent reports it and in whichever shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.tool_results import get_result_exit_code, get_result_text, get_stored_result_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PATCH = [{"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" a", "-b", "+c"]}]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, ""),
        ("as it is\n", "as it is\n"),
        ({"stdout": "one\nDB_PASSWORD", "stderr": "two", "interrupted": False}, "one\nDB_PASSWORD\ntwo"),
        ({"stdout": "", "stderr": "", "interrupted": False, "isImage": False}, ""),
        ({"stdout": "no", "stderr": "", "exitCode": 3}, "Exit code 3\nno"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}, {"type": "text", "text": "a"}], "[image]\na"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}], "inside"),
        ({"content": [{"type": "text", "text": "from MCP"}], "isError": False}, "from MCP"),
        ({"type": "text", "file": {"filePath": "/a.py", "content": "x = 1\n", "numLines": 1}}, "x = 1\n"),
        ({"type": "image", "file": {"base64": "aGVsbG8=", "type": "image/png"}}, "[image]"),
        ({"filenames": ["a.py", "b.py"], "numFiles": 2, "durationMs": 3}, "a.py\nb.py"),
        ({"mode": "content", "filenames": [], "content": "a.py:1:x", "numLines": 1}, "a.py:1:x"),
        ({"bytes": 9, "code": 200, "codeText": "OK", "result": "the page", "url": "https://x.invalid"}, "the page"),
        (
            {"type": "create", "filePath": "/a.py", "content": "x", "structuredPatch": []},
            "File created successfully at: /a.py",
        ),
        (
            {"filePath": "/a.py", "oldString": "b", "newString": "c", "originalFile": "…", "structuredPatch": PATCH},
            "The file /a.py has been updated.\n@@ -3,2 +3,2 @@\n a\n-b\n+c",
        ),
        (
            {
                "status": "completed",
                "prompt": "find x",
                "agentId": "ac1",
                "content": [{"type": "text", "text": "found"}],
            },
            "found\nagentId: ac1",
        ),
        ({"task": {"id": "1", "subject": "Do A"}}, "task.id: 1\ntask.subject: Do A"),
        ({"llmContent": "Found 2 files", "returnDisplay": {"summary": "2"}}, "Found 2 files"),
        ({"llmContent": "", "error": {"message": "File not found: a", "type": "x"}}, "File not found: a"),
        ({"success": True, "updated": ["a", "b"]}, "success: true\nupdated: a\nupdated: b"),
    ],
)
def test_a_result_of_any_shape_is_text(result: Any, text: str) -> None:
    assert get_result_text(result) == text


@given(JSON)
def test_any_json_value_gives_text_and_an_exit_code(result: Any) -> None:
    assert isinstance(get_result_text(result), str)
    assert isinstance(get_stored_result_text(json.dumps(result)), str)
    assert isinstance(get_result_exit_code(result), int)


@pytest.mark.parametrize(
    "stored",
    [
        "plain text",
        '{"name": "kite", "version": "1.0.0"}',
        '{"content": "a file that a program printed"}',
        "[1, 2, 3]",
        '["a", "b"]',
        "{ not json",
        "[" * 100_000,
    ],
)
def test_json_that_a_program_printed_stays_as_it_was_printed(stored: str) -> None:
    assert get_stored_result_text(stored) == stored


def test_a_row_that_holds_the_json_of_a_hook_is_read_as_text() -> None:
    hook_result = {"stdout": "one\nDB_PASSWORD", "stderr": "", "interrupted": False}
    assert get_stored_result_text(json.dumps(hook_result)) == "one\nDB_PASSWORD"
    assert get_stored_result_text(json.dumps([{"type": "text", "text": "a\nb"}])) == "a\nb"
    assert get_stored_result_text(json.dumps("a\nb")) == "a\nb"


@pytest.mark.parametrize(
    ("result", "code"),
    [({"exitCode": 2}, 2), ({"code": 404, "result": "x"}, 0), ({"stdout": "", "code": 1}, 1), ([], 0)],
)
def test_an_exit_code_is_distinguished_from_a_pages_status(result: Any, code: int) -> None:
    assert get_result_exit_code(result) == code
