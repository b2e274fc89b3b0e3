"""Read the statements that the notes of a project and a person (CLAUDE.md, AGENTS.md and the like) give an agent."""

from __future__ import annotations

import os

from hardwon.paths import open_plain_file
from hardwon.projects import find_git_root
from hardwon.text.brief_layout import extract_statements

_AGENTS_FILE = "AGENTS.md"
_CLAUDE_FILES = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
_PROJECT_NOTES = {
    "claude-code": _CLAUDE_FILES,
    "codex": (_AGENTS_FILE,),
    "gemini": ("GEMINI.md",),
    "opencode": (_AGENTS_FILE,),
    "copilot": (_AGENTS_FILE, ".github/copilot-instructions.md"),
    "qwen": ("QWEN.md", _AGENTS_FILE),
    **dict.fromkeys(("kilo", "grok", "droid", "vibe", "deepagents", "cursor", "cline"), (_AGENTS_FILE,)),
}
_USER_NOTES = {
    "claude-code": "~/.claude/CLAUDE.md",
    "codex": "~/.codex/AGENTS.md",
    "gemini": "~/.gemini/GEMINI.md",
    "opencode": "~/.config/opencode/AGENTS.md",
    "copilot": "~/.copilot/copilot-instructions.md",
    "qwen": "~/.qwen/QWEN.md",
    "kilo": "~/.config/kilo/AGENTS.md",
    "grok": "~/.grok/AGENTS.md",
    "droid": "~/.factory/AGENTS.md",
    "vibe": "~/.vibe/AGENTS.md",
    "deepagents": "~/.deepagents/AGENTS.md",
    "cursor": "~/.cursor/AGENTS.md",
}
_MAX_NOTES_CHARS = 200_000
# The block written by `hardwon export notes`.
_BEGIN_PREFIX, _END_MARKER = "<!-- hardwon: begin", "<!-- hardwon: end -->"


def read_note_statements(folder: str, agent: str = "") -> frozenset[str]:
    """Return the statements in the notes that this agent reads.

    These are the person's own notes, and those at the project's root and in this folder. Without an agent, the notes of
    Claude Code and AGENTS.md.
    """
    user_notes = _USER_NOTES.get(agent, _USER_NOTES["claude-code"])
    statements = _read_statements(os.path.expanduser(user_notes))
    if not folder:
        return frozenset(statements)
    for notes_folder in {find_git_root(folder), folder}:
        agents_file = os.path.join(notes_folder, _AGENTS_FILE)
        file_names = _PROJECT_NOTES.get(agent, (*_CLAUDE_FILES, _AGENTS_FILE))
        if agent == "opencode" and not os.path.exists(agents_file):
            file_names = ("CLAUDE.md",)  # opencode reads it where there is no AGENTS.md
        folder_statements: set[str] = set()
        for file_name in file_names:
            folder_statements |= _read_statements(os.path.join(notes_folder, file_name))
        if agent == "claude-code":
            # The person's own words in AGENTS.md count in any case, our block only if Claude Code reads that file.
            imports_agents_file = any(map(_is_agents_import, folder_statements))
            folder_statements |= _read_statements(agents_file, include_block=imports_agents_file)
        statements |= folder_statements
    return frozenset(statements)


def _is_agents_import(line: str) -> bool:
    """Return whether the line makes Claude Code read AGENTS.md too: `@AGENTS.md`."""
    return any(word.startswith("@") and _AGENTS_FILE.lower() in word for word in line.split())


def _read_statements(path: str, *, include_block: bool = True) -> set[str]:
    """Return the statements in a file of notes, with or without our block; none if the file cannot be read."""
    try:
        if not os.path.isfile(path):  # reading a named pipe would block
            return set()
        with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
            text = file.read(_MAX_NOTES_CHARS)
    except (OSError, ValueError):
        return set()
    if not include_block:
        before_block, _, rest = text.partition(_BEGIN_PREFIX)
        _, _, after_block = rest.partition(_END_MARKER)
        text = before_block + after_block
    return extract_statements(text)
