"""Claude Code transcripts in the format of that program, written one call at a time."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

_numbers = itertools.count(1)

UNKNOWN = "error: unknown option `--colour'\nusage: git log [<options>]"
TAG = """I will remember that.

#lesson
tool: Bash
trigger: git stash
problem: git stash only stashes tracked files, so untracked ones were left behind
solution: use git stash -u to take untracked files along
tags: tool:git, severity:data-loss
#/lesson
"""


class TranscriptWriter:
    """Collects the lines of one session and writes them where Claude Code would."""

    def __init__(self, home: str, *, session: str = "", project: str = "/home/dev/kite") -> None:
        self.session = session or f"session-{next(_numbers)}"
        self.project = project
        self.path = os.path.join(home, ".claude", "projects", project.replace("/", "-"), f"{self.session}.jsonl")
        self.lines: list[dict[str, Any]] = []

    def _add_line(self, kind: str, message: dict[str, Any], **more: Any) -> str:
        number = next(_numbers)
        line = {
            "parentUuid": None,
            "isSidechain": False,
            "cwd": self.project,
            "sessionId": self.session,
            "version": "2.1.325",
            "type": kind,
            "message": message,
            "uuid": f"u-{number:06d}",
            "timestamp": f"2026-11-01T10:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        }
        self.lines.append({**line, **more})
        return str(line["uuid"])

    def person(self, text: str) -> TranscriptWriter:
        self._add_line("user", {"role": "user", "content": text})
        return self

    def agent(self, text: str) -> TranscriptWriter:
        self._add_line("assistant", {"role": "assistant", "content": [{"type": "text", "text": text}]})
        return self

    def call(self, tool: str, tool_input: dict[str, Any]) -> str:
        call_id = f"toolu_{next(_numbers):06d}"
        use = {"type": "tool_use", "id": call_id, "name": tool, "input": tool_input}
        self._add_line("assistant", {"role": "assistant", "content": [use]})
        return call_id

    def result(self, call_id: str, text: str, *, failed: bool = False) -> TranscriptWriter:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
        self._add_line("user", {"role": "user", "content": [block]})
        return self

    def fails(self, command: str, text: str) -> TranscriptWriter:
        return self.result(self.call("Bash", {"command": command}), f"Exit code 1\n{text}", failed=True)

    def works(self, command: str, text: str = "done") -> TranscriptWriter:
        return self.result(self.call("Bash", {"command": command}), text)

    def mistake(self) -> TranscriptWriter:
        """Add the mistake that most stories use: an option that git does not know, and its right spelling."""
        self.fails("git log --colour=always", UNKNOWN)
        self.agent("The problem is that git spells it the American way.")
        return self.works("git log --color=always")

    def text(self) -> bytes:
        return "".join(json.dumps(line) + "\n" for line in self.lines).encode()

    def write(self, *, upto: int | None = None) -> str:
        """Write the session, or its first lines; return the path."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in self.lines[:upto])
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.path
