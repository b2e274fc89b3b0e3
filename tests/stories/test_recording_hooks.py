"""The recorder keeps what an agent hands to a hook, so that somebody can add the agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

from click.testing import CliRunner

from hardwon.cli import hardwon


def record_hook(folder: Path, event: str, payload: str) -> str:
    result = CliRunner().invoke(hardwon, ["dev", "record-hooks", str(folder), event], input=payload)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def test_every_payload_is_kept_and_nothing_is_answered(tmp_path: Path) -> None:
    payload = json.dumps({"tool_name": "Bash", "cwd": os.path.expanduser("~/project")})
    assert {record_hook(tmp_path, "PreToolUse", payload) for _ in range(2)} == {"{}"}
    assert record_hook(tmp_path, "Stop", "no JSON") == "{}"
    assert sorted(os.listdir(tmp_path)) == ["PreToolUse-Bash-2.json", "PreToolUse-Bash.json", "Stop.json"]
    assert json.loads((tmp_path / "PreToolUse-Bash.json").read_text())["cwd"] == "/home/dev/project"
