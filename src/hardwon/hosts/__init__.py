"""The agents hardwon knows: one module each, with the same few names.

`read` turns a hook's payload into an Event, None if it is of no interest, ValueError if it is malformed; `write` turns
a Reply into the bytes the agent expects. Both are on the hook's path and import nothing that costs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from hardwon.words import Event, Reply

    class Host(Protocol):
        NAME: str
        TITLE: str
        PROGRAM: str
        EVENTS: dict[str, int]

        def read(self, kind: str, payload: bytes) -> Event | None: ...
        def write(self, event: Event, reply: Reply) -> bytes: ...
        def settings_file(self, *, project: str = "") -> str: ...
        def install(self, text: str, command: Callable[[str], str]) -> tuple[str, list[list[str]]]: ...
        def uninstall(self, text: str, made: list[list[str]], ours: Callable[[str], bool]) -> str: ...
        def installed(self, text: str, ours: Callable[[str], bool]) -> dict[str, list[str]]: ...


MODULES = {"claude-code": "hardwon.hosts.claude_code"}


def host(name: str) -> Host:
    """The module for a host; KeyError if we do not know it."""
    module: Host = __import__(MODULES[name], fromlist=["read"])
    return module
