"""Who is asking: a person at a terminal, or an agent that runs our commands. An agent may propose, never approve."""

from __future__ import annotations

from collections.abc import Mapping

# What agents set for the commands they run. People set CODEX_HOME, CODEX_API_KEY and the like for themselves.
MARKS = (
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT", "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI", "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_BY_BUN",
)  # fmt: skip


def agent(environment: Mapping[str, str]) -> str:
    """The variable by which an agent shows, or nothing for a person."""
    return next((name for name in MARKS if environment.get(name)), "")
