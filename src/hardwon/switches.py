"""The off switches. `hook.py` reads HARDWON_OFF itself; a pause is one small file that everybody can look at.

One line per pause: the time it ends (0: until lifted), a blank, and the project's real path or `*`.
"""

from __future__ import annotations

import os

from hardwon import paths
from hardwon.core.match import in_scope
from hardwon.projects import places

EVERYWHERE = "*"


def pauses(home: str) -> list[tuple[float, str]]:
    """The pauses in the file, ended ones too; lines that make no sense are passed over."""
    try:
        with open(os.path.join(home, paths.PAUSED), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        until, _, where = line.partition(" ")
        try:
            found.append((float(until), where))
        except ValueError:
            continue
    return found


def in_force(home: str, now: float) -> list[tuple[float, str]]:
    return [(until, where) for until, where in pauses(home) if until == 0 or until > now]


def paused(home: str, cwd: str, now: float) -> bool:
    """Whether hardwon is to keep quiet in this folder."""
    current = in_force(home, now)
    if not current:
        return False
    everywhere = any(where == EVERYWHERE for _, where in current)
    return everywhere or any(in_scope(where, places(cwd)) for _, where in current)


def write(home: str, wanted: list[tuple[float, str]]) -> None:
    """Exactly these pauses; with none the file goes, so that the hook's warm path is taken again."""
    path = os.path.join(home, paths.PAUSED)
    if wanted:
        lines = "".join(f"{until:.0f} {where}\n" for until, where in wanted)
        paths.write_private(path, lines.encode("utf-8", "surrogateescape"))
    elif os.path.exists(path):
        os.unlink(path)


def forget_ended(home: str, now: float) -> None:
    """Take pauses that are over out of the file: while it is there, hooks look into it first, which costs."""
    current = in_force(home, now)
    if current != pauses(home) or (not current and os.path.exists(os.path.join(home, paths.PAUSED))):
        write(home, current)
