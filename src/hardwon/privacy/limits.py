"""What is kept of an event unless a setting says otherwise. The cold hook has no time to read the settings' table."""

from __future__ import annotations

DEFAULT_SKIPPED_TOOLS = ("ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion")
MAX_TEXT_CHARS = 20_000  # characters of a prompt, or of one text in what a tool was given or gave back
MAX_EVENT_CHARS = 60_000
DUPLICATE_SECONDS = 2.0  # within which two hooks of ours tell of one event, on a busy machine

# The variables in which each provider of models looks for its key.
API_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "claude": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
}
