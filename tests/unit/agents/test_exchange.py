"""The fields of a payload are bounded before they are used."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.agents import MAX_ID_LENGTH, MAX_PAYLOAD_BYTES, PATH_MAX, read_event
from hardwon.types import Event

LONG = "/a" * 400_000


def read_claude_event(**wire: Any) -> Event:
    payload = {"session_id": "s1", "cwd": "/home/dev", "hook_event_name": "PreToolUse", "tool_name": "Edit", **wire}
    event = read_event("claude-code", "PreToolUse", json.dumps(payload).encode())
    assert event is not None
    return event


@pytest.mark.parametrize("field", ["file_path", "notebook_path", "path", "glob"])
@pytest.mark.parametrize("path", [LONG, "a/" * 400_000, "ä/" * 400_000, "x" * 800_000, "\ud800" * 800_000])
def test_no_path_is_longer_than_a_file_can_have(field: str, path: str) -> None:
    event = read_claude_event(tool_input={field: path})
    assert 0 < len(os.fsencode(event.path.encode("utf-8", "replace"))) < PATH_MAX
    assert event.input[field] == event.path


def test_a_long_path_keeps_its_folders(own_home: str) -> None:
    event = read_claude_event(tool_input={"file_path": "/home/dev/.hardwon" + LONG})
    assert event.path.startswith("/home/dev/.hardwon/a/a/") and event.path.endswith("/a")


def test_a_long_path_is_normalised_when_that_makes_it_short() -> None:
    assert read_claude_event(tool_input={"file_path": "a/../" * 200_000 + "x/b.py"}).path == "/home/dev/x/b.py"


def test_a_short_path_stays_as_it_was_written() -> None:
    assert read_claude_event(tool_input={"file_path": "../x/./y"}).path == "../x/./y"


@pytest.mark.parametrize("field", ["cwd", "transcript_path"])
def test_folders_and_transcripts_are_bounded_too(field: str) -> None:
    event = read_claude_event(**{field: LONG})
    assert max(len(event.cwd), len(event.transcript)) < PATH_MAX


def test_long_ids_are_cut_and_stay_different() -> None:
    first, second = (read_claude_event(session_id="s" * 600_000 + end).session for end in "ab")
    assert first != second and max(len(first), len(second)) <= MAX_ID_LENGTH


def test_files_of_a_patch_are_bounded_in_length_and_number() -> None:
    heads = f"*** Update File: {LONG}\n@@\n-a\n+b\n" + "*** Update File: b\n@@\n-a\n+b\n" * 3_000
    wire = {"session_id": "s1", "cwd": "/x", "hook_event_name": "PreToolUse", "tool_name": "apply_patch"}
    wire["tool_input"] = {"command": f"*** Begin Patch\n{heads}*** End Patch"}  # type: ignore[assignment]
    event = read_event("codex", "PreToolUse", json.dumps(wire).encode())
    assert event is not None and len(event.parts) == 1_000
    assert all(0 < len(part.path) < PATH_MAX for part in event.parts)


def test_a_payload_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        read_event("claude-code", "PreToolUse", b" " * (MAX_PAYLOAD_BYTES + 1))
