"""A patch of Codex is one call about several files, and a fork of its sessions repeats what was said before."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from hardwon.store import db
from tests.support.house import House, lesson

PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
-one
+two
*** Add File: {path}
+{text}
*** End Patch"""


def ask_about_patch(house: House, path: str, text: str = "x") -> str:
    """Return why Codex is denied a patch whose second file is this one, or nothing."""
    payload = {
        "session_id": "s1",
        "cwd": "/home/dev/project",
        "hook_event_name": "PreToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": PATCH.format(path=path, text=text)},
        "tool_use_id": "call_1",
    }
    answer = json.loads(house.hook("PreToolUse", json.dumps(payload).encode(), host="codex"))
    reason: str = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
    return reason


@pytest.mark.parametrize("warm", [True, False])
def test_the_second_file_of_a_patch_is_held_as_if_it_were_alone(house: House, warm: bool) -> None:
    house.add(lesson(triggers={"toolNames": ["Write"], "pathPatterns": ["**/*.lock"]}, delivery="hold"))
    if warm:
        house.ok("start")
    else:
        house.stay_cold()
    assert ask_about_patch(house, "docs/any.txt") == ""
    assert "Held once by hardwon" in ask_about_patch(house, "deep/yarn.lock")


def test_a_patch_does_not_write_to_hardwons_own_files_by_the_way(house: House) -> None:
    house.add(lesson("anything"))
    house.stay_cold()
    assert "Blocked by hardwon" in ask_about_patch(house, os.path.join(house.home, "lessons.json"))


@pytest.mark.parametrize("is_parent_imported", [False, True])
def test_a_forks_copy_of_its_parent_keeps_the_answer_of_every_prompt(
    house: House, tmp_path: Path, is_parent_imported: bool
) -> None:
    parent, fork = "019d7d08-0000-7000-8000-000000000001", "019d7e30-0000-7000-8000-000000000002"

    def build_line(kind: str, at: str, **payload: object) -> str:
        return json.dumps({"timestamp": at, "type": kind, "payload": payload})

    def build_lines(times: list[str]) -> list[str]:
        lines = [build_line("session_meta", times[0], id=parent, cwd="/home/dev/kite")]
        for number, at in enumerate(times):
            turn_id = f"019d7d0{8 + number}-1000-7000-8000-000000000003"
            lines.append(build_line("event_msg", at, type="task_started", turn_id=turn_id))
            for role, text in (("user", f"fix part {number}"), ("assistant", f"Part {number} is fixed.")):
                content = [{"type": "text", "text": text}]
                lines.append(build_line("response_item", at, type="message", role=role, content=content))
        return lines

    copied_at = "2026-04-11T20:16:20.378Z"  # every copied line has the time of the copying
    opening = build_line("session_meta", copied_at, id=fork, forked_from_id=parent, cwd="/home/dev/kite")
    if is_parent_imported:
        # By their ids the turns began at 14:52:53 and 14:53:59.
        times = ["2026-04-11T14:53:10.000Z", "2026-04-11T14:54:10.000Z"]
        (tmp_path / f"rollout-{parent}.jsonl").write_text("\n".join(build_lines(times)) + "\n")
        house.ok("import", "transcripts", "--path", str(tmp_path))
    (tmp_path / f"rollout-{fork}.jsonl").write_text("\n".join([opening, *build_lines([copied_at] * 2)]) + "\n")
    house.ok("import", "transcripts", "--path", str(tmp_path))
    with closing(db.connect(house.home)) as connection:
        answers = connection.execute("select prompt, response from events where kind = 'Stop' order by at").fetchall()
        prompts = connection.execute("select number, prompt from prompts order by number").fetchall()
    assert [tuple(row) for row in prompts] == [(1, "fix part 0"), (2, "fix part 1")]
    assert [tuple(row) for row in answers] == [(1, "Part 0 is fixed."), (2, "Part 1 is fixed.")]
