"""Default limits for stored events, kept apart from `settings.py` so that the hook need not import it."""

from __future__ import annotations

DEFAULT_SKIPPED_TOOLS = ("ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion")
MAX_TEXT_CHARS = 20_000  # of a prompt, or of one text in a tool's input or result
MAX_EVENT_CHARS = 60_000
DUPLICATE_SECONDS = 2.0  # two hooks report the same event within this time, even on a busy machine

# The environment variables in which each model provider looks for its key.
API_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "claude": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
}
