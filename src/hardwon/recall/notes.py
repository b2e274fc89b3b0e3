"""What a project's own notes tell every agent already: CLAUDE.md, AGENTS.md and the like."""

from __future__ import annotations

import os

from hardwon.core.brief import normal
from hardwon.projects import root

NAMES = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md")
LONGEST = 200_000


def said_in(folder: str) -> frozenset[str]:
    """The lines of the notes at the top of the project and in this folder, as `normal` leaves them."""
    lines: set[str] = set()
    for place in {root(folder), folder} if folder else ():
        for name in NAMES:
            path = os.path.join(place, name)
            try:
                if os.path.isfile(path):  # to read a pipe would be to wait for somebody
                    with open(path, encoding="utf-8", errors="replace") as file:
                        lines.update(map(normal, file.read(LONGEST).splitlines()))
            except (OSError, ValueError):
                continue
    return frozenset(lines)
