"""A patch of Codex is one call about several files, and each of them is looked at."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.house import House, lesson

PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
-one
+two
*** Add File: {path}
+{text}
*** End Patch"""


def patched(house: House, path: str, text: str = "x") -> str:
    """What Codex is answered when it is about to apply a patch whose second file this is."""
    payload = {
        "session_id": "s1",
        "cwd": "/home/dev/project",
        "hook_event_name": "PreToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": PATCH.format(path=path, text=text)},
        "tool_use_id": "call_1",
    }
    answer = json.loads(house.hook("PreToolUse", json.dumps(payload).encode(), host="codex"))
    said: str = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
    return said


@pytest.mark.parametrize("warm", [True, False])
def test_the_second_file_of_a_patch_is_held_as_if_it_were_alone(house: House, warm: bool) -> None:
    house.add(lesson(triggers={"toolNames": ["Write"], "pathPatterns": ["**/*.lock"]}, delivery="hold"))
    if warm:
        house.ok("start")
    else:
        house.stay_cold()
    assert patched(house, "docs/any.txt") == ""
    assert "Held once by hardwon" in patched(house, "deep/yarn.lock")


def test_a_patch_does_not_write_to_hardwons_own_files_by_the_way(house: House) -> None:
    house.add(lesson("anything"))
    house.stay_cold()
    assert "Blocked by hardwon" in patched(house, os.path.join(house.home, "lessons.json"))
