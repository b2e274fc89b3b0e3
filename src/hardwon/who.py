"""Who is asking: a person at a terminal, or an agent that runs our commands. An agent may propose, never approve."""

from __future__ import annotations

from collections.abc import Mapping

_MARKS = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT")
_PREFIXES = ("CODEX_",)
_SETTINGS = frozenset(["CODEX_HOME"])  # people set this one for themselves


def agent(environment: Mapping[str, str]) -> str:
    """The variable by which an agent shows, or nothing for a person."""
    for name, value in environment.items():
        if value and (name in _MARKS or (name.startswith(_PREFIXES) and name not in _SETTINGS)):
            return name
    return ""
