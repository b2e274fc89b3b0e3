"""Made-up transcripts as Claude Code writes them, for code that reads a whole session."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION, START = "44444444-aaaa-4bbb-8ccc-000000000004", "2026-03-04T09:00:00"


class Transcript:
    """Collects the lines of one session, each a few seconds after the previous one."""

    def __init__(self, cwd: str = "/home/dev/kite", session: str = SESSION, start: str = START) -> None:
        self.lines: list[str] = []
        self._cwd, self._session = cwd, session
        self.branch = ""  # recorded with each line from now on
        self._at = datetime.fromisoformat(start).replace(tzinfo=UTC)

    def person(self, text: str) -> None:
        self._add("user", {"role": "user", "content": text}, 60)

    def carry_plan(self, plan: str) -> None:
        """Open the session with a plan that was agreed to in an earlier one."""
        message = {"role": "user", "content": f"Implement the following plan:\n\n{plan}"}
        self._add("user", message, 60, planContent=plan)

    def agent(self, text: str) -> None:
        self._add("assistant", {"role": "assistant", "content": [{"type": "text", "text": text}]})

    def call(self, tool: str, tool_input: dict[str, Any], result: str, *, failed: bool = False) -> None:
        name = f"toolu_{len(self.lines):04d}"
        tool_use = {"type": "tool_use", "id": name, "name": tool, "input": tool_input}
        self._add("assistant", {"role": "assistant", "content": [tool_use]})
        tool_result = {
            "type": "tool_result",
            "tool_use_id": name,
            "content": result,
            **({"is_error": True} if failed else {}),
        }
        self._add("user", {"role": "user", "content": [tool_result]})

    def bash(self, command: str, output: str = "", *, code: int = 0) -> None:
        text = f"Exit code {code}\n{output}" if code else output
        self.call("Bash", {"command": command}, text, failed=bool(code))

    def edit(self, path: str, old_text: str, new_text: str) -> None:
        tool_input = {"file_path": f"{self._cwd}/{path}", "old_string": old_text, "new_string": new_text}
        self.call("Edit", tool_input, f"The file {self._cwd}/{path} has been updated.")

    def _add(self, kind: str, message: dict[str, Any], seconds: int = 5, **fields: str) -> None:
        self._at += timedelta(seconds=seconds)
        number = len(self.lines) + 1
        line = {
            "parentUuid": f"u{number - 1}" if number > 1 else None,
            "isSidechain": False,
            "cwd": self._cwd,
            "sessionId": self._session,
            "version": "2.1.100",
            **({"gitBranch": self.branch} if self.branch else {}),
            "type": kind,
            "message": message,
            "uuid": f"{self._session[:8]}-{number}",
            "timestamp": f"{self._at:%Y-%m-%dT%H:%M:%S}.000Z",
            **fields,
        }
        self.lines.append(json.dumps(line, separators=(",", ":")))

    def write(self, folder: Path, name: str = "") -> str:
        path = folder / f"{name or self._session}.jsonl"
        path.write_text("\n".join(self.lines) + "\n")
        return str(path)


def build_launch_session(cwd: str = "/home/dev/kite", session: str = SESSION, start: str = START) -> Transcript:
    """Build a session in which a test is fixed and committed, and something is left to do."""
    transcript = Transcript(cwd, session, start)
    transcript.person("The launch test fails since the string became longer. Can you mend it?")
    transcript.bash(
        "pytest -q tests/test_launch.py", "E   AssertionError: assert 40 == 55\n== 1 failed in 0.31s ==", code=1
    )
    transcript.edit("src/kite/launch.py", "return min(string, 40)", "return string")
    transcript.bash("pytest -q tests/test_launch.py", "12 passed in 0.29s")
    transcript.bash('git commit -am "Let strings be longer"', "[longer 3f2a9c1] Let strings be longer\n 1 file changed")
    transcript.agent(
        "The launch test passes now.\n\n## Next steps\n- Change src/kite/landing.py, which still cuts at 40."
    )
    return transcript
