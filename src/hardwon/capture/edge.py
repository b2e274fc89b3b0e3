"""What may be kept of an event, decided before anything is written anywhere, worker up or down.

Private parts are stripped, then secrets replaced, then long text cut. A wholly private prompt is not kept, and neither
is what the agent does about it: a file in the session's folder says so to whoever is asked next, until another prompt.
"""

from __future__ import annotations

import os

from hardwon import claims
from hardwon.core.clean import clean
from hardwon.core.fence import outside
from hardwon.core.limits import LARGEST_EVENT, LONGEST_TEXT, SKIP_TOOLS
from hardwon.core.private import is_private, strip_deep
from hardwon.core.redact import redact_deep
from hardwon.core.trim import trim, trim_deep
from hardwon.words import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hardwon.words import Event

PRIVATE = "private"
_TOOL = ("PostToolUse", "PostToolUseFailure")
_REMINDER = ("<system-reminder>", "</system-reminder>")


def kept(event: Event, home: str, values: Mapping[str, Any]) -> Event | None:
    """The event as it may be kept, None if it may not be. Asking about a tool call leaves nothing but its delivery."""
    if event.kind == "PreToolUse" or not event.session or _is_denied(event, values):
        return None
    marker = os.path.join(claims.folder(home, event.session), PRIVATE)
    if event.kind == "UserPromptSubmit":
        if is_private(event.prompt):
            claims.take(marker, event.id, event.at)
            return None
        claims.release(marker)
    if os.path.exists(marker):
        return None if event.kind in _TOOL else _bare(event)
    return _fit(event, values)


def fit(event: Event, values: Mapping[str, Any]) -> Event | None:
    """The same for an event of a transcript, whose private turns its reader knows."""
    return None if not event.session or _is_denied(event, values) else _fit(event, values)


def words(text: str, values: Mapping[str, Any]) -> str:
    """What may be kept of words."""
    return trim(clean(outside(text, *_REMINDER).strip()), int(values.get("maxEventChars", LONGEST_TEXT)))


def _is_denied(event: Event, values: Mapping[str, Any]) -> bool:
    if _is_below(event.cwd, values.get("denyProjects", ())):
        return True
    is_tool = event.kind in _TOOL
    return is_tool and (
        event.tool in values.get("skipTools", SKIP_TOOLS) or _touches(event, values.get("denyPaths", ()))
    )


def _bare(event: Event) -> Event:
    """That something happened in a private turn, and nothing of what."""
    return replace(event, prompt="", message="", input=None, response=None, command="", path="", content="")


def _fit(event: Event, values: Mapping[str, Any]) -> Event:
    most = int(values.get("maxEventChars", LONGEST_TEXT))
    largest = max(LARGEST_EVENT, 2 * most)
    return replace(
        event,
        prompt=words(event.prompt, values),
        message=words(event.message, values),
        input=trim_deep(redact_deep(strip_deep(event.input)), most, largest),
        response=trim_deep(redact_deep(strip_deep(event.response)), most, largest),
        command=trim(clean(event.command), most),
        content="",
    )


def _is_below(place: str, folders: Sequence[str]) -> bool:
    """Whether a folder is one of these or lies in one; links and worktrees are seen through."""
    if not place or not folders:
        return False
    from hardwon.projects import places

    wanted = [os.path.realpath(os.path.expanduser(folder)) for folder in folders]
    found = [*places(place), os.path.abspath(place)]
    return any(one == folder or one.startswith(folder.rstrip("/") + "/") for one in found for folder in wanted)


def _touches(event: Event, denied: Sequence[str]) -> bool:
    """Whether a call is about a path that is denied, by its own words or in a command."""
    for path in denied:
        spelled = os.path.expanduser(path)
        if event.path and _is_like(os.path.normpath(os.path.join(event.cwd, event.path)), spelled):
            return True
        words = event.command.replace("'", " ").replace('"', " ").replace("=", " ").split() if event.command else ()
        if any(_is_like(word, path) or _is_like(os.path.expanduser(word), spelled) for word in words):
            return True
    return False


def _is_like(path: str, denied: str) -> bool:
    """`*.pem` is meant by its end, `/home/dev/key*` by its beginning; any other is a file, or a folder and all below."""
    if denied.startswith("*"):
        return path.endswith(denied[1:])
    if denied.endswith("*"):
        return path.startswith(denied[:-1])
    return (
        path == denied
        or path.startswith(denied.rstrip("/") + "/")
        or ("/" not in denied and os.path.basename(path) == denied)
    )
