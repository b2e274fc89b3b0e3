"""What notes tell an agent already, the project's and the person's: CLAUDE.md, AGENTS.md and the like. Each agent reads
its own."""

from __future__ import annotations

import os

from hardwon.paths import plain_file
from hardwon.projects import root
from hardwon.text.brief_layout import sayings

AGENTS = "AGENTS.md"
CLAUDE = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
READ_BY = {"claude-code": CLAUDE, "codex": (AGENTS,), "gemini": ("GEMINI.md",), "opencode": (AGENTS,)}
OWN = {
    "claude-code": "~/.claude/CLAUDE.md",
    "codex": "~/.codex/AGENTS.md",
    "gemini": "~/.gemini/GEMINI.md",
    "opencode": "~/.config/opencode/AGENTS.md",
}
LONGEST = 200_000
_BEGINS, _ENDS = "<!-- hardwon: begin", "<!-- hardwon: end -->"  # the block of `hardwon export notes`


def said_in(folder: str, host: str = "") -> frozenset[str]:
    """What the notes say that this agent reads, the person's own and those at the top of the project and in this
    folder, as `normal` leaves it; with no agent named, Claude Code's files and AGENTS.md."""
    lines = _lines(os.path.expanduser(OWN.get(host, OWN["claude-code"])))
    for place in {root(folder), folder} if folder else ():
        names = READ_BY.get(host, (*CLAUDE, AGENTS))
        if host == "opencode" and not os.path.exists(os.path.join(place, AGENTS)):
            names = CLAUDE[:1]
        found = {line for name in names for line in _lines(os.path.join(place, name))}
        if host == "claude-code":  # what we wrote into a file that it may not read does not count as said to it
            found.update(_lines(os.path.join(place, AGENTS), with_ours=any(map(_takes_in, found))))
        lines |= found
    return frozenset(lines)


def _takes_in(line: str) -> bool:
    """Whether the line has Claude Code read AGENTS.md as well: `@AGENTS.md`."""
    return any(word.startswith("@") and AGENTS.lower() in word for word in line.split())


def _lines(path: str, *, with_ours: bool = True) -> set[str]:
    try:
        if os.path.isfile(path):  # to read a pipe would be to wait for somebody
            with open(path, encoding="utf-8", errors="replace", opener=plain_file) as file:
                text = file.read(LONGEST)
            head, begins, ours = ("", "", "") if with_ours else text.partition(_BEGINS)
            return sayings(head + ours.partition(_ENDS)[2] if begins else text)
    except (OSError, ValueError):
        pass
    return set()
