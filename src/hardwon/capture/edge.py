"""What may be kept of an event, decided before anything is written anywhere, worker up or down.

Private parts are stripped, then secrets replaced, then long text cut. A wholly private prompt is not kept, and neither
is what the agent does about it. Empty files say so to whoever is asked next: one until another prompt, one for good
under the host's name of the prompt, and one for each sub-agent that began in such a turn and may outlast it.
"""

from __future__ import annotations

import os

from hardwon import claims
from hardwon.core.clean import clean
from hardwon.core.fence import outside
from hardwon.core.limits import LARGEST_EVENT, LONGEST_TEXT, SKIP_TOOLS
from hardwon.core.private import is_private, strip_deep
from hardwon.core.redact import redact_deep
from hardwon.core.trim import DEEPEST, trim, trim_deep
from hardwon.paths import safe_name
from hardwon.words import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hardwon.words import Event

PRIVATE = "private-"
_LATEST = "+latest"
_TOOL = ("PostToolUse", "PostToolUseFailure")
_MARKS = "'\"`=<>()[]{}|&;:,@\0"
_REMINDER = ("<system-reminder>", "</system-reminder>")


def kept(event: Event, home: str, values: Mapping[str, Any]) -> Event | None:
    """The event as it may be kept, None if it may not be. Asking about a tool call leaves nothing but its delivery."""
    if event.kind == "PreToolUse" or not event.session or _is_denied(event, values):
        return None
    markers = claims.folder(home, PRIVATE + event.session)  # its own folder: a session that starts frees its claims
    latest = os.path.join(markers, _LATEST)
    if event.kind == "UserPromptSubmit":
        said = outside(event.prompt, *_REMINDER)
        if is_private(said) or is_private(event.prompt):
            for name in (_LATEST, *_names(event)):
                claims.take(os.path.join(markers, name), event.id, event.at)
            return None
        if said.strip():  # what the host says by itself does not end a private turn
            claims.release(latest)
    names = _names(event)
    if not any(os.path.exists(os.path.join(markers, name)) for name in (_LATEST, *names)):
        return _fit(event, values)
    if event.kind == "SubagentStart":
        for name in names:
            claims.take(os.path.join(markers, name), event.id, event.at)
    return None if event.kind in _TOOL else _bare(event)


def _names(event: Event) -> list[str]:
    """What a private turn is known by besides being the latest: its prompt, and the sub-agents that began in it."""
    return [safe_name(name) for name in (event.prompt_name, event.agent) if name]


def fit(event: Event, values: Mapping[str, Any]) -> Event | None:
    """The same for an event of a transcript, whose private turns its reader knows."""
    return None if not event.session or _is_denied(event, values) else _fit(event, values)


def words(text: str, values: Mapping[str, Any]) -> str:
    """What may be kept of words."""
    return trim(clean(outside(text, *_REMINDER).strip()), int(values.get("maxEventChars", LONGEST_TEXT)))


def _is_denied(event: Event, values: Mapping[str, Any]) -> bool:
    if is_below(event.cwd, values.get("denyProjects", ())):
        return True
    is_tool = event.kind in _TOOL
    return is_tool and (
        event.tool in values.get("skipTools", SKIP_TOOLS) or _touches(event, values.get("denyPaths", ()))
    )


def _bare(event: Event) -> Event:
    """That something happened in a private turn, and nothing of what."""
    return replace(event, prompt="", message="", input=None, response=None, command="", path="", content="", parts=())


def _fit(event: Event, values: Mapping[str, Any]) -> Event:
    most = int(values.get("maxEventChars", LONGEST_TEXT))
    largest = max(LARGEST_EVENT, 2 * most)
    return replace(
        event,
        prompt=words(event.prompt, values),
        message=words(event.message, values),
        input=trim_deep(_cleaned(event.input), most, largest),
        response=trim_deep(_cleaned(event.response), most, largest),
        command=trim(clean(event.command), most),
        path="",
        content="",
        parts=(),
    )


def _cleaned(value: Any) -> Any:
    return redact_deep(strip_deep(_rejoined(value)))


def _rejoined(value: Any, depth: int = 0) -> Any:
    """The value with lists of lines cleaned as one text: a tag, or a key, may open in one line and end in another."""
    if depth > DEEPEST or not value:  # what is deeper is not kept
        return value
    if isinstance(value, dict):
        return {name: _rejoined(inner, depth + 1) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) == 1 or not all(isinstance(line, str) for line in value):
        return [_rejoined(inner, depth + 1) for inner in value]
    text = "\n".join(value)
    after = clean(text)
    return value if after == text else after.split("\n")


def is_below(place: str, folders: Sequence[str]) -> bool:
    """Whether a folder is one of these or lies in one; links and worktrees are seen through."""
    if not place or not folders:
        return False
    from hardwon.projects import places

    wanted = [os.path.realpath(os.path.expanduser(folder)) for folder in folders]
    found = [*places(place), os.path.abspath(place)]
    return any(one == folder or one.startswith(folder.rstrip("/") + "/") for one in found for folder in wanted)


def _touches(event: Event, denied: Sequence[str]) -> bool:
    """Whether a call is about a path that is denied, by its own words or in a command; links are seen through."""
    if not denied:
        return False
    spelled = [os.path.expanduser(path) for path in denied]
    real = [os.path.realpath(path) if path.startswith("/") else path for path in spelled]
    # What a tool of another server calls a path nobody knows, so each of its lines may be one.
    texts = [event.path, *(part.path for part in event.parts)]
    texts += event.content.split("\n") if event.tool.startswith("mcp__") else ()
    for word in filter(None, {*texts, *_words(event.command)}):
        path = os.path.normpath(os.path.join(event.cwd, os.path.expanduser(word)))
        if any(_is_like(path, one) for one in spelled) or any(_is_like(os.path.realpath(path), one) for one in real):
            return True
    return any(path.rstrip("/") in event.command for path in spelled if " " in path)


def _words(command: str) -> set[str]:
    """What may be a path in a command."""
    for mark in _MARKS:
        command = command.replace(mark, " ")
    return {word.replace("$HOME", "~", 1) for word in command.split()}


def _is_like(path: str, denied: str) -> bool:
    """`*.pem` is meant by its end, `/home/dev/key*` by its beginning; any other is a file, or a folder and all below,
    wherever it is if it does not say."""
    if denied.startswith("*"):
        return path.endswith(denied[1:])
    if denied.endswith("*"):
        return path.startswith(denied[:-1])
    if denied.startswith("/"):
        return f"{path}/".startswith(denied.rstrip("/") + "/")
    return f"/{denied.strip('/')}/" in f"{path}/"
