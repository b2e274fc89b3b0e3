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

    from hardwon.types import Event, Reply

    Ours = Callable[[str], bool]
    Made = list[list[str]]

    class Host(Protocol):
        NAME: str
        EVENTS: dict[str, int]  # by our name of each, the seconds it may take

        def read(self, kind: str, payload: bytes) -> Event | None: ...
        def write(self, event: Event, reply: Reply) -> bytes: ...

    class Setup(Protocol):
        TITLE: str
        PROGRAM: str
        LEAST: tuple[int, ...]  # the oldest version on which a hold was seen to hold
        EMPTY: str  # what a settings file of its own begins as
        PROBE: dict[str, Any]  # a payload of a harmless call, as the agent would send it
        THEN: str  # what a person does once the hooks are in, if anything is left to do

        def settings_file(self, *, project: str = "") -> str: ...
        def install(self, text: str, command: Callable[[str], str]) -> tuple[str, Made]: ...
        def uninstall(self, text: str, made: Made, ours: Ours) -> str: ...
        def installed(self, text: str, ours: Ours) -> dict[str, list[str]]: ...
        def mcp_file(self) -> str: ...
        def add_mcp(self, text: str, words: Sequence[str]) -> tuple[str, Made]: ...
        def remove_mcp(self, text: str, made: Made) -> str: ...
        def mcp(self, text: str) -> list[str]: ...


MODULES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}


def host(name: str) -> Host:
    """How an agent speaks; KeyError if we do not know it."""
    module: Host = __import__(f"hardwon.agents.{MODULES[name]}.payload", fromlist=["read"])
    return module


def setup_of(name: str) -> Setup:
    """How an agent is set up."""
    module: Setup = __import__(f"hardwon.agents.{MODULES[name]}.install", fromlist=["install"])
    return module
