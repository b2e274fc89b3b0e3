"""Recognise by its shape which agent sent a hook's payload.

Agents run the hooks of others: Grok those in Claude Code's settings, VS Code and Cursor if a person says so, Copilot
those of a trusted repository. Each has its own fields and reads another reply, so an answer meant for one may deny a
call in the next, or be dropped by it. A payload that shows another sender gets no answer at this entry.

Only marks that the named agent alone writes count. A payload without any is taken for the entry's own: an agent that
moves its folder or adds a field must not lose its guards.
"""

from __future__ import annotations

from hardwon.agents.fields import get_first_text, get_text

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any

# Seen on Grok 1.0, Cline 3.0, Mistral Vibe 3.0 and in Cursor's documentation. The first match counts, and Grok writes
# every field under two names, so it comes before Copilot, which has some of them.
_FIELD_MARKS = {
    "hookEventName": "grok",
    "taskId": "cline",
    "cursor_version": "cursor",
    "parent_session_id": "vibe",
    "tool_status": "vibe",
    "sessionID": "opencode",
    "callID": "opencode",
    "submitted_prompt": "qwen",
    "tool_call_id": "qwen",
    "llm_request": "gemini",
    "prompt_response": "gemini",
    "session_duration_ms": "droid",
    "CLAUDE_ENV_FILE": "droid",
    "sessionId": "copilot",
    "tool_result": "copilot",
    "initial_prompt": "copilot",
}
# Where each agent keeps its transcripts, in its folder's usual place.
_TRANSCRIPT_MARKS = {
    "/rollout-": "codex",
    "/.claude/projects/": "claude-code",
    "/.gemini/tmp/": "gemini",
    "/chats/session-": "gemini",
    "/.qwen/": "qwen",
    "/.copilot/": "copilot",
    "/GitHub.copilot-chat/": "copilot",
    "/.grok/": "grok",
    "/.factory/": "droid",
    "/.deepagents/": "deepagents",
    "/.vibe/": "vibe",
    "/.cline/": "cline",
}
_GEMINI_EVENTS = ("BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "BeforeModel", "AfterModel", "PreCompress")


def find_sender(wire: dict[str, Any]) -> str:
    """Return the agent that this payload's shape shows; empty if it shows none."""
    # The folder is the surest mark: any agent may take over a field of another.
    transcript = get_first_text(wire, "transcript_path", "transcriptPath")
    for mark, agent in _TRANSCRIPT_MARKS.items():
        if mark in transcript:
            return agent
    for field, agent in _FIELD_MARKS.items():
        if field in wire:
            return agent
    event = get_text(wire, "hook_event_name")
    if event in _GEMINI_EVENTS or event.startswith("BeforeToolSelection"):
        return "gemini"
    if "__vscode-" in get_text(wire, "tool_use_id"):
        return "copilot"
    # Copilot CLI names no transcript at a call, but a time, which Claude Code and Codex leave out.
    if event and "timestamp" in wire and "transcript_path" not in wire:
        return "copilot"
    # An event of opencode's bus; its plugin is the only sender without an event's name in our spelling.
    if "properties" in wire or "ctx_keys" in wire or "serverUrl" in wire:
        return "opencode"
    return ""


def is_foreign(wire: dict[str, Any], agents: tuple[str, ...]) -> bool:
    """Return whether another agent than these sent the payload."""
    sender = find_sender(wire)
    return bool(sender) and sender not in agents
