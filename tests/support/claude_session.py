"""Made-up transcripts as Claude Code writes them, built step by step and read back as a story."""

from __future__ import annotations

import json
import os
from itertools import count
from typing import Any

from hardwon.handoff import transcript_story
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflections import Finding, ReflectionContext
from tests.support.draft_evidence import is_quote_in_source

ROOT = "/home/dev/kite"
START = "2026-05-12T10:00:00+00:00"


class ClaudeSession:
    """Owns a transcript that grows line by line; `at` is the time of the next lines."""

    def __init__(self, folder: os.PathLike[str], root: str = ROOT) -> None:
        self.root = root
        self.path = os.path.join(folder, "5e551011.jsonl")
        self.at = START
        self._numbers = count(1)
        self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115

    def _write_line(self, kind: str, content: Any) -> None:
        number = next(self._numbers)
        line = {
            "type": kind,
            "uuid": f"u{number}",
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": "5e551011",
            "cwd": self.root,
            "timestamp": self.at,
            "message": {"role": kind, "content": content},
        }
        self._file.write(json.dumps(line) + "\n")

    def person(self, words: str) -> None:
        self._write_line("user", words)

    def agent(self, words: str) -> None:
        self._write_line("assistant", [{"type": "text", "text": words}])

    def call(self, tool: str, tool_input: dict[str, Any], result: str = "ok", *, failed: bool = False) -> None:
        number = next(self._numbers)
        self._write_line("assistant", [{"type": "tool_use", "id": f"t{number}", "name": tool, "input": tool_input}])
        tool_result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result, "is_error": failed}
        self._write_line("user", [tool_result])

    def bash(self, command: str, result: str = "ok", *, failed: bool = False) -> None:
        self.call("Bash", {"command": command}, result, failed=failed)

    def edit(self, path: str, new_text: str = "wind = 2") -> None:
        tool_input = {"file_path": f"{self.root}/{path}", "old_string": "wind = 1", "new_string": new_text}
        self.call("Edit", tool_input, "The file has been updated.")

    def read_story(self) -> Story:
        self._file.close()
        return transcript_story.read_story(self.path, "claude-code")

    def detect(self, detect: Any, past: ReflectionContext | None = None, **more: Any) -> list[Finding]:
        """Return what a detector finds, after checking every quote against its source."""
        findings = list(detect(self.read_story(), past or ReflectionContext(), **more))
        assert all(finding.evidence and 0 <= finding.score <= 1 for finding in findings)
        assert [
            evidence for finding in findings for evidence in finding.evidence if not is_quote_in_source(evidence)
        ] == []
        return findings
