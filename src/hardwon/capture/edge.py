"""What may be kept of an event, decided before anything is written anywhere, worker up or down.

Private parts are stripped, then secrets replaced, then long text cut. A wholly private prompt is not kept, and neither
is what the agent does about it. Empty files say so to whoever is asked next: one until another prompt, one for good
under the host's name of the prompt, and one for each sub-agent that began in such a turn and may outlast it.
"""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.core.clean import clean
from hardwon.core.fence import outside
from hardwon.core.jsons import loads
from hardwon.core.limits import LARGEST_EVENT, LONGEST_TEXT, SKIP_TOOLS
from hardwon.core.private import is_private, strip_deep
from hardwon.core.redact import redact_deep
from hardwon.core.trim import DEEPEST, trim, trim_deep
from hardwon.paths import safe_name
from hardwon.projects import is_below, touches
from hardwon.words import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hardwon.words import Event

_TOOL = ("PostToolUse", "PostToolUseFailure")
_REMINDER = ("<system-reminder>", "</system-reminder>")


def kept(event: Event, home: str, values: Mapping[str, Any]) -> Event | None:
    """The event as it may be kept, None if it may not be. Asking about a tool call leaves nothing but its delivery."""
    if event.kind == "PreToolUse" or not event.session or _is_denied(event, values):
        return None
    markers = claims.folder(home, event.session, claims.PRIVATE)
    latest = os.path.join(markers, claims.LATEST)
    if event.kind == "UserPromptSubmit":
        said = outside(event.prompt, *_REMINDER)
        if is_private(said) or is_private(event.prompt):
            for name in (claims.LATEST, *_names(event)):
                claims.take(os.path.join(markers, name), event.id, event.at)
            return None
        if said.strip():  # what the host says by itself does not end a private turn
            claims.release(latest)
    names = _names(event)
    if not any(os.path.exists(os.path.join(markers, name)) for name in (claims.LATEST, *names)):
        return _fit(event, values)
    if event.kind == "SubagentStart":
        for name in names:
            claims.take(os.path.join(markers, name), event.id, event.at)
    return None if event.kind in _TOOL else _bare(event)


def limits(home: str, built: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings in force. What a person has left out since the manifest was built stays out at once, also if it
    cannot be built."""
    config = os.path.join(home, paths.CONFIG)
    try:
        if built and os.stat(config).st_mtime_ns <= os.stat(os.path.join(home, paths.INDEX)).st_mtime_ns:
            return built
        with open(config, encoding="utf-8-sig") as file:
            wanted = loads(file.read())
    except (OSError, ValueError):
        return built
    lists = ("skipTools", "denyProjects", "denyPaths")
    wanted = wanted if isinstance(wanted, dict) else {}
    return {**built, **{name: wanted[name] for name in lists if isinstance(wanted.get(name), list)}}


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


def _touches(event: Event, denied: Sequence[str]) -> bool:
    """Whether a call is about a path that is denied, by its own words or in a command."""
    if not denied:
        return False
    named = [event.path, *(part.path for part in event.parts)]
    return touches(denied, event.cwd, event.tool, event.command, event.content, named)
