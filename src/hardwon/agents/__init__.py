"""The registry of agents, and the exchange with their hooks: bounded events in, visible replies out.

Each agent is a package of the same form. The package itself reads hook events and writes replies; it is on the hook's
path, so it imports nothing slow. Its settings files are a table there (`SETTINGS`), or a module `install` if they need
code. `transcript` reads its own record of a session. To add an agent, add a package and its name to AGENT_NAMES;
docs/agents.md names the few tables elsewhere that list what only some agents do.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.text.fence import strip_invisible
from hardwon.types import HookReply, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any, Protocol

    from hardwon.types import Event

    class AgentModule(Protocol):
        EVENT_TIMEOUTS: dict[str, int]  # the seconds each hook may take, by our name of the event

        # None if the event is of no interest, ValueError if the payload is malformed.
        def parse_payload(self, kind: str, payload: bytes) -> Event | None: ...
        def render_reply(self, event: Event, reply: HookReply) -> bytes: ...


AGENT_NAMES = (
    "claude-code",
    "codex",
    "gemini",
    "opencode",
    "copilot",
    "qwen",
    "kilo",
    "grok",
    "droid",
    "vibe",
    "deepagents",
    "cursor",
    "cline",
)
# Hooks are all that is read of the others: their own files lack the calls, the folder or the times.
TRANSCRIPT_AGENTS = tuple(name for name in AGENT_NAMES if name not in ("vibe", "deepagents", "cursor"))
# A tool's result of this size is cut to 20,000 characters anyway, and parsing more would outlast the hook's time.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
PATH_MAX = 4096  # bytes, with the NUL at the end; no file has a longer name
MAX_ID_LENGTH = 512
_MAX_PARTS = 1_000  # calls in one, such as the files of a patch; each takes about 0.15 ms to judge
_ID_FIELDS = ("session", "subagent_id", "source", "tool", "tool_use_id", "prompt_name")
# The names of path arguments in the tools of all agents.
_PATH_FIELDS = (
    "file_path",
    "notebook_path",
    "path",
    "glob",
    "filePath",
    "dirPath",
    "dir_path",
    "absolute_path",
    "directory",
    "cwd",
    "target_file",
)


def get_package(agent: str) -> str:
    """Return the name of an agent's package; KeyError if hardwon does not know the agent."""
    # The name may come from a command line and becomes part of an import.
    if agent not in AGENT_NAMES:
        raise KeyError(agent)
    return f"hardwon.agents.{agent.replace('-', '_')}"


def load_agent(agent: str) -> AgentModule:
    """Return the package that talks with an agent's hooks; KeyError if hardwon does not know the agent."""
    package: AgentModule = __import__(get_package(agent), fromlist=["parse_payload"])
    return package


def read_event(agent: str, kind: str, payload: bytes) -> Event | None:
    """Read a hook's payload into an event with bounded ids and paths.

    None if it is of no interest, ValueError if it is malformed or too large.
    """
    # Checked before parsing: a payload of this size alone would use up the time that the agent gives a hook.
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload has {len(payload):,} bytes, more than {MAX_PAYLOAD_BYTES:,}")
    event = load_agent(agent).parse_payload(kind, payload)
    if event is None:
        return None
    return bound_event(event)


def write_reply(event: Event, reply: HookReply) -> bytes:
    """Return the hook's output for the event's agent, without characters that hide text or control a terminal."""
    visible_reply = HookReply(
        strip_invisible(reply.deny), strip_invisible(reply.context), strip_invisible(reply.notice), reply.deliveries
    )
    return load_agent(event.host).render_reply(event, visible_reply)


def bound_event(event: Event) -> Event:
    """Return the event with no id above MAX_ID_LENGTH and no path above PATH_MAX.

    Some of our work grows with the square of a path's length: a path of 800 kB once stalled every hook.
    """
    bounded: dict[str, Any] = {name: _shorten_id(getattr(event, name)) for name in _ID_FIELDS}
    folder = shorten_path(event.cwd)
    bounded["cwd"] = folder
    bounded["transcript"] = shorten_path(event.transcript)
    bounded["path"] = shorten_path(event.path, folder)
    if isinstance(event.input, dict):
        tool_input = dict(event.input)
        for name in _PATH_FIELDS:
            if isinstance(tool_input.get(name), str):
                tool_input[name] = shorten_path(tool_input[name], folder)
        bounded["input"] = tool_input
    # A call of several files has a part for each. One may be a copy of the event from before it got its parts, so no
    # part has parts of its own.
    bounded["parts"] = tuple([bound_event(part) for part in event.parts[:_MAX_PARTS]])
    return replace(event, **bounded)


def shorten_path(path: str, folder: str = "/") -> str:
    """Return the path; cut one that is too long after the last folder that fits.

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
    """Return whether a path has fewer bytes than PATH_MAX; a character has at most four, so most need no counting."""
    return len(path) < PATH_MAX // 4 or len(path.encode("utf-8", "replace")) < PATH_MAX


def _shorten_id(text: str) -> str:
    """Return an id that is not too long as it is, else its beginning and its hash, which keeps two of them apart."""
    if len(text) <= MAX_ID_LENGTH:
        return text
    from hashlib import sha256

    return f"{text[:100]}…{sha256(text.encode('utf-8', 'replace')).hexdigest()}"
