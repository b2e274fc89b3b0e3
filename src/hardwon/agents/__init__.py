"""The registry of agents, and the exchange with their hooks: bounded events in, visible replies out.

Each agent is a package whose modules have the same names: `payload` (hook events and replies; on the hook's path, so it
imports nothing slow), `transcript` (its own record of a session), `install` (its settings files) and, where its tools
have names of their own, `tools`. To add an agent, add such a package and a line to AGENT_PACKAGES.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.text.fence import strip_invisible
from hardwon.types import HookReply, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from hardwon.types import Event

    TrustFinding = tuple[bool | None, str, str]  # whether hooks run (None: not here), what was found, the fix
    CreatedPaths = list[list[str]]  # the containers that an edit of a settings file had to create

    class PayloadModule(Protocol):
        EVENT_TIMEOUTS: dict[str, int]  # the seconds each hook may take, by our name of the event

        # None if the event is of no interest, ValueError if the payload is malformed.
        def parse_payload(self, kind: str, payload: bytes) -> Event | None: ...
        def render_reply(self, event: Event, reply: HookReply) -> bytes: ...

    class AgentSettings(Protocol):
        """Where an agent has its settings, and how hooks and the MCP server stand in them."""

        @property
        def title(self) -> str: ...
        @property
        def program(self) -> str: ...
        @property
        def minimum_version(self) -> tuple[int, ...]: ...  # the oldest version on which a hold was seen to work
        @property
        def empty_settings(self) -> str: ...  # what a new settings file begins as
        @property
        def next_step(self) -> str: ...  # what a person still has to do after installing
        @property
        def probe_payload(self) -> dict[str, Any]: ...  # a payload of a harmless call, as the agent would send it
        @property
        def files(self) -> Sequence[AgentSettings]: ...  # one for each settings file with hooks; most agents have one
        def get_settings_path(self, *, project: str = "") -> str: ...
        def add_hooks(self, text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]: ...
        def remove_hooks(self, text: str, created_paths: CreatedPaths) -> str: ...
        def find_hooks(self, text: str) -> dict[str, list[str]]: ...  # our commands, by the agent's name of the event
        def runs_hooks(self, path: str, text: str) -> bool: ...
        def find_plugin(self) -> str: ...  # the path that shows the agent has hardwon's plugin; empty if it has not
        def check_trust(self, text: str) -> TrustFinding | None: ...  # for agents that do not run every hook
        def get_mcp_path(self) -> str: ...
        def add_mcp_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]: ...
        def remove_mcp_server(self, text: str, created_paths: CreatedPaths) -> str: ...
        def find_mcp_command(self, text: str) -> list[str]: ...


AGENT_PACKAGES = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "copilot": "copilot",
    "qwen": "qwen",
    "kilo": "kilo",
    "grok": "grok",
    "droid": "droid",
    "vibe": "vibe",
    "deepagents": "deepagents",
    "cursor": "cursor",
    "cline": "cline",
}
# Hooks are all that is read of the others: their own files lack the calls, the folder or the times.
TRANSCRIPT_AGENTS = tuple(name for name in AGENT_PACKAGES if name not in ("vibe", "deepagents", "cursor"))
# A tool's result of this size is cut to 20,000 characters anyway, and parsing more would outlast the hook's time.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
PATH_MAX = 4096  # bytes, with the NUL at the end; no file has a longer name
MAX_ID_LENGTH = 512
MAX_PARTS = 1_000  # calls in one, such as the files of a patch; each takes about 0.15 ms to judge
_ID_FIELDS = ("session", "agent", "source", "tool", "tool_use_id", "prompt_name")
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


class SettingsError(ValueError):
    """A settings file cannot be read or edited; the message says where and why."""


def load_payload_module(agent: str) -> PayloadModule:
    """Return the module that talks with an agent's hooks; KeyError if hardwon does not know the agent."""
    module: PayloadModule = __import__(f"hardwon.agents.{AGENT_PACKAGES[agent]}.payload", fromlist=["payload"])
    return module


def load_settings(agent: str) -> AgentSettings:
    """Return where an agent has its settings, and how they are edited."""
    settings: AgentSettings = __import__(
        f"hardwon.agents.{AGENT_PACKAGES[agent]}.install", fromlist=["install"]
    ).SETTINGS
    return settings


def read_event(agent: str, kind: str, payload: bytes) -> Event | None:
    """Read a hook's payload into an event with bounded ids and paths.

    None if it is of no interest, ValueError if it is malformed or too large.
    """
    # Checked before parsing: a payload of this size alone would use up the time that the agent gives a hook.
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload has {len(payload):,} bytes, more than {MAX_PAYLOAD_BYTES:,}")
    event = load_payload_module(agent).parse_payload(kind, payload)
    return None if event is None else bound_event(event)


def write_reply(event: Event, reply: HookReply) -> bytes:
    """Return the hook's output for the event's agent, without characters that hide text or control a terminal."""
    visible_reply = HookReply(
        strip_invisible(reply.deny), strip_invisible(reply.context), strip_invisible(reply.notice), reply.deliveries
    )
    return load_payload_module(event.host).render_reply(event, visible_reply)


def bound_event(event: Event) -> Event:
    """Return the event with no id above MAX_ID_LENGTH and no path above PATH_MAX.

    Some of our work grows with the square of a path's length: a path of 800 kB once stalled every hook.
    """
    bounded: dict[str, Any] = {name: _shorten_id(getattr(event, name)) for name in _ID_FIELDS}
    bounded["cwd"] = folder = shorten_path(event.cwd)
    bounded["transcript"] = shorten_path(event.transcript)
    bounded["path"] = shorten_path(event.path, folder)
    if isinstance(event.input, dict):
        tool_input = dict(event.input)
        for name in _PATH_FIELDS:
            if isinstance(tool_input.get(name), str):
                tool_input[name] = shorten_path(tool_input[name], folder)
        bounded["input"] = tool_input
    # A part may be the event itself, which has no parts yet.
    bounded["parts"] = tuple([bound_event(part) for part in event.parts[:MAX_PARTS]])
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
    return len(path) < PATH_MAX // 4 or len(path.encode("utf-8", "replace")) < PATH_MAX


def _shorten_id(text: str) -> str:
    if len(text) <= MAX_ID_LENGTH:
        return text
    from hashlib import sha256

    # The hash keeps two long ids apart.
    return f"{text[:100]}…{sha256(text.encode('utf-8', 'replace')).hexdigest()}"
