"""What an agent may not do to hardwon itself, whatever its environment says: approve, lift a guard, edit our files.

A determined agent has other ways (it runs programs of its own choice); this stops the plain ones and says who may.
"""

from __future__ import annotations

from hardwon.core.match import EDITS, OURSELVES, SHELL
from hardwon.core.shell import simple_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.words import Event

_APPROVING = {
    "pause": (), "trust": (), "uninstall": (), "accept": (), "reject": (), "allow": (), "config": ("set",),
    "scan": ("promote",),
    "lessons": ("edit", "retire", "restore", "import"),
}  # fmt: skip
_HOOK = "hardwon/hook.py"
_LONGEST = 20_000


def forbidden(event: Event, home: str) -> str:
    """Why this call is a person's to make, or nothing."""
    if event.tool in EDITS and _is_below(event.path, home):
        return f"The files in {home} are a person's to edit; propose a lesson with: hardwon lessons add"
    if event.tool != SHELL or OURSELVES not in event.command or len(event.command) > _LONGEST:
        return ""
    for one in simple_commands(event.command):
        if one.program != OURSELVES:
            if _HOOK in one.code:
                return "hardwon's hook is run by the agent program, never by a command"
            continue
        words = one.code.split()
        start = next((place for place, word in enumerate(words) if word.rpartition("/")[2] == OURSELVES), 0)
        given = words[start + 1 :]
        if _approves(given):
            typed = " ".join([OURSELVES, *given])
            return f"This is for a person to decide. Ask them to type it in their own terminal: {typed}"
    return ""


def _approves(given: list[str]) -> bool:
    verb, *more = [word for word in given if not word.startswith("-")] or [""]
    if verb not in _APPROVING or (verb == "trust" and "--list" in given):
        return False
    if verb == "scan" and "--yes" in given:
        return True
    return not _APPROVING[verb] or bool(more and more[0] in _APPROVING[verb])


def _is_below(path: str, home: str) -> bool:
    return path.startswith(home.rstrip("/") + "/")
