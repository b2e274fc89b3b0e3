"""What notes tell an agent already, the project's and the person's: CLAUDE.md, AGENTS.md and the like. Each agent reads
its own."""

from __future__ import annotations

import os

from hardwon.paths import open_plain_file
from hardwon.projects import find_git_root
from hardwon.text.brief_layout import extract_statements

AGENTS_FILE = "AGENTS.md"
CLAUDE_FILES = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
PROJECT_NOTES = {
    "claude-code": CLAUDE_FILES,
    "codex": (AGENTS_FILE,),
    "gemini": ("GEMINI.md",),
    "opencode": (AGENTS_FILE,),
}
USER_NOTES = {
    "claude-code": "~/.claude/CLAUDE.md",
    "codex": "~/.codex/AGENTS.md",
    "gemini": "~/.gemini/GEMINI.md",
    "opencode": "~/.config/opencode/AGENTS.md",
}
MAX_NOTES_CHARS = 200_000
_BEGINS, _ENDS = "<!-- hardwon: begin", "<!-- hardwon: end -->"  # the block of `hardwon export notes`


def read_note_statements(folder: str, agent: str = "") -> frozenset[str]:
    """What the notes say that this agent reads, the person's own and those at the top of the project and in this
    folder, as `normal` leaves it; with no agent named, Claude Code's files and AGENTS.md."""
    lines = _lines(os.path.expanduser(USER_NOTES.get(agent, USER_NOTES["claude-code"])))
    for place in {find_git_root(folder), folder} if folder else ():
        names = PROJECT_NOTES.get(agent, (*CLAUDE_FILES, AGENTS_FILE))
        if agent == "opencode" and not os.path.exists(os.path.join(place, AGENTS_FILE)):
            names = CLAUDE_FILES[:1]
        found = {line for name in names for line in _lines(os.path.join(place, name))}
        if agent == "claude-code":  # what we wrote into a file that it may not read does not count as said to it
            found.update(_lines(os.path.join(place, AGENTS_FILE), with_ours=any(map(_takes_in, found))))
        lines |= found
    return frozenset(lines)


def _takes_in(line: str) -> bool:
    """Whether the line has Claude Code read AGENTS.md as well: `@AGENTS.md`."""
    return any(word.startswith("@") and AGENTS_FILE.lower() in word for word in line.split())


def _lines(path: str, *, with_ours: bool = True) -> set[str]:
    try:
        if os.path.isfile(path):  # to read a pipe would be to wait for somebody
            with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
                text = file.read(MAX_NOTES_CHARS)
            head, begins, ours = ("", "", "") if with_ours else text.partition(_BEGINS)
            return extract_statements(head + ours.partition(_ENDS)[2] if begins else text)
    except (OSError, ValueError):
        pass
    return set()
