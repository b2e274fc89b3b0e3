"""The agents hardwon knows: one package each, whose modules have the same few names.

`agents.NAME.payload` is on the hook's path and imports nothing that costs: `read` turns a hook's payload into an
Event, None if it is of no interest, ValueError if it is malformed; `write` turns a Reply into the bytes the agent
expects. `agents.NAME.install` puts our hooks and our MCP server into the agent's files, and takes them out again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from hardwon.types import Event, HookReply

    CommandPredicate = Callable[[str], bool]
    CreatedPaths = list[list[str]]

    class PayloadModule(Protocol):
        NAME: str
        EVENT_TIMEOUTS: dict[str, int]  # by our name of each, the seconds it may take

        def parse_payload(self, kind: str, payload: bytes) -> Event | None: ...
        def render_reply(self, event: Event, reply: HookReply) -> bytes: ...

    class InstallModule(Protocol):
        TITLE: str
        PROGRAM: str
        MINIMUM_VERSION: tuple[int, ...]  # the oldest version on which a hold was seen to hold
        EMPTY_SETTINGS: str  # what a settings file of its own begins as
        PROBE_PAYLOAD: dict[str, Any]  # a payload of a harmless call, as the agent would send it
        NEXT_STEP: str  # what a person does once the hooks are in, if anything is left to do

        def get_settings_path(self, *, project: str = "") -> str: ...
        def add_hooks(self, text: str, build_command: Callable[[str], str]) -> tuple[str, CreatedPaths]: ...
        def remove_hooks(self, text: str, created_paths: CreatedPaths, is_hardwon_hook: CommandPredicate) -> str: ...
        def find_hooks(self, text: str, is_hardwon_hook: CommandPredicate) -> dict[str, list[str]]: ...
        def get_mcp_path(self) -> str: ...
        def add_mcp_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]: ...
        def remove_mcp_server(self, text: str, created_paths: CreatedPaths) -> str: ...
        def find_mcp_command(self, text: str) -> list[str]: ...


AGENT_PACKAGES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}


def load_payload_module(name: str) -> PayloadModule:
    """How an agent speaks; KeyError if we do not know it."""
    module: PayloadModule = __import__(f"hardwon.agents.{AGENT_PACKAGES[name]}.payload", fromlist=["read"])
    return module


def load_install_module(name: str) -> InstallModule:
    """How an agent is set up."""
    module: InstallModule = __import__(f"hardwon.agents.{AGENT_PACKAGES[name]}.install", fromlist=["install"])
    return module
