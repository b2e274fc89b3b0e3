"""What agents hand to us and what we hand back, whichever agent it is: the bounds of the one, the form of the other.

Some of our work grows with the square of a path's length, and a payload may have any size, so it is bounded here before
any work is done with it. No file can have a name above PATH_MAX, so cutting there loses nothing; an id that is cut
keeps its hash, so that two of them stay apart. Nothing in a reply may hide, or steer a terminal.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.agents import load_payload_module as host_named
from hardwon.text.fence import strip_invisible
from hardwon.types import HookReply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hardwon.types import Event

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
PATH_MAX = 4096  # bytes, with the NUL at the end
MAX_ID_LENGTH = 512
MAX_PARTS = 1_000  # calls in one, such as the files of a patch; each takes about 0.15 ms to judge
_ID_FIELDS = ("session", "agent", "source", "tool", "tool_use_id", "prompt_name")
_PATH_FIELDS = (
    "file_path",
    "notebook_path",
    "path",
    "glob",
    "filePath",
    "dir_path",
    "absolute_path",
    "directory",
    "cwd",
)


def read_event(agent: str, kind: str, payload: bytes) -> Event | None:
    """Read a hook's payload into an event with bounded ids and paths.

    None if it is of no interest, ValueError if it is malformed or too large.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload has {len(payload):,} bytes, more than {MAX_PAYLOAD_BYTES:,}")
    event = host_named(agent).parse_payload(kind, payload)
    return None if event is None else bound_event(event)


def write_reply(event: Event, reply: HookReply) -> bytes:
    """Return what the hook prints for the event's agent."""
    visible_reply = HookReply(
        strip_invisible(reply.deny), strip_invisible(reply.context), strip_invisible(reply.notice), reply.deliveries
    )
    return host_named(event.host).render_reply(event, visible_reply)


def bound_event(event: Event) -> Event:
    """Return the event with no id above LONGEST_ID and no path above PATH_MAX."""
    bounded: dict[str, Any] = {name: _shorten_id(getattr(event, name)) for name in _ID_FIELDS}
    bounded["cwd"] = folder = shorten_path(event.cwd)
    bounded["transcript"] = shorten_path(event.transcript)
    bounded["path"] = shorten_path(event.path, folder)
    bounded["input"] = _bound_path_fields(event.input, folder)
    # A part may be the event itself, which has no parts yet.
    bounded["parts"] = tuple([bound_event(part) for part in event.parts[:MAX_PARTS]])
    return replace(event, **bounded)


def shorten_path(path: str, folder: str = "/") -> str:
    """Return the path, or of a longer one the folders that still fit.

    An agent may resolve `a/../a/../…` before it opens the file, so the path is resolved before it is cut.
    """
    if _is_short(path):
        return path
    resolved = normpath(join(folder, path))
    if _is_short(resolved):
        return resolved
    head = resolved.encode("utf-8", "replace")[: PATH_MAX - 1].decode("utf-8", "ignore")
    return head.rpartition("/")[0] or head


def _is_short(path: str) -> bool:
    return len(path) < PATH_MAX // 4 or len(path.encode("utf-8", "replace")) < PATH_MAX


def _shorten_id(text: str) -> str:
    if len(text) <= MAX_ID_LENGTH:
        return text
    from hashlib import sha256

    return f"{text[:100]}…{sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _bound_path_fields(tool_input: Any, folder: str) -> Any:
    if not isinstance(tool_input, dict):
        return tool_input
    long_fields = [
        name for name in _PATH_FIELDS if isinstance(tool_input.get(name), str) and not _is_short(tool_input[name])
    ]
    return (
        {**tool_input, **{name: shorten_path(tool_input[name], folder) for name in long_fields}}
        if long_fields
        else tool_input
    )
