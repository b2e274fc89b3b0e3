"""The rim around deciding: the index file, the claim files, the folders. Light enough for the cold hook."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.core.decide import on_call, on_start
from hardwon.core.index import Index
from hardwon.words import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hardwon.core.match import Search
    from hardwon.words import Entry, Event, Reply

TWIN_SECONDS = 0.3  # calls of one message come within it; a model that has read the reason comes later


def open_index(home: str) -> Index:
    """The compiled manifest; OSError if there is none, ValueError if it is not one."""
    with open(os.path.join(home, paths.INDEX), "rb") as file:
        content = file.read()
    try:
        return Index(content)
    except (EOFError, KeyError, TypeError) as broken:
        raise ValueError(f"a broken index: {broken}") from None


def reply_to(event: Event, index: Index, home: str, *, search: Search, seconds: Callable[[], float]) -> Reply:
    """What to say to this event, with the claims taken that saying it needs."""
    place = os.path.realpath(event.cwd) if event.cwd else ""
    if event.kind == "SessionStart":
        free_claims(event, index, home)
        return on_start(event, index, places=[place], claim=_once(event, home))
    if event.kind == "PreToolUse":
        return on_call(
            event,
            index,
            root=project_root(event.cwd),
            places=[place],
            search=search,
            claim=_once(event, home),
            hold=_held(event, home),
            seconds=seconds,
        )
    return NOTHING


def free_claims(event: Event, index: Index, home: str) -> None:
    """A new context has been told nothing; a compacted one has forgotten, so what matters most comes again."""
    if event.source in ("startup", "clear"):
        claims.wipe(home, event.session, lambda lesson: True)
    elif event.source == "compact":
        threshold = index.settings["compactionReinjectionThreshold"]
        entries = map(index.entry, range(len(index)))
        again = {paths.safe_name(e.id) for e in entries if e.delivery == "start" or e.priority >= threshold}
        claims.wipe(home, event.session, again.__contains__)


def project_root(cwd: str) -> str:
    """The nearest folder above that git knows, else the folder itself."""
    folder = cwd
    while folder not in ("", "/"):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder = os.path.dirname(folder)
    return cwd


def _path(event: Event, home: str, entry: Entry) -> str:
    return os.path.join(claims.folder(home, event.session), claims.name(event.agent, entry.id))


def _once(event: Event, home: str) -> Callable[[Entry], bool]:
    """Once per session. The token is the hook's own, so that it may ask again when its worker died on it."""
    return lambda entry: claims.take(_path(event, home, entry), event.id, event.at) is None


def _held(event: Event, home: str) -> Callable[[Entry], bool]:
    """Held until the model can have read why: the call itself whenever it is asked about again, and its twins."""

    def hold(entry: Entry) -> bool:
        path, token = _path(event, home, entry), event.tool_use_id or event.id
        taken = claims.take(path, token, event.at)
        if taken is None:
            return True
        if not 0 <= event.at - taken < TWIN_SECONDS:
            return False
        claims.join(path, token)
        return True

    return hold
