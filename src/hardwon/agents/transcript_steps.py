"""Reading what agents wrote down themselves: one module per host, all into the same steps.

A transcript grows while it is read, so a reader takes a line at a time and can be stopped after any of them: what it
must remember is in `state`, which is stored beside the offset. Unknown lines and keys are passed over; a line that is
not JSON is counted as malformed and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

StepKind = Literal["person", "agent", "call", "result", "compacted"]


class Step(NamedTuple):
    """One thing that happened in a session: somebody's words, a tool call, its result."""

    kind: StepKind
    line: int  # counted from 1
    id: str = ""  # the host's own, equal in copies of the session, so that nothing is counted twice
    at: str = ""
    session: str = ""
    agent: str = ""  # a sub-agent's id, empty for the main one
    cwd: str = ""
    call: str = ""  # joins a call and its result; of a person's words the host's name for the prompt
    tool: str = ""  # by Claude Code's name for it
    command: str = ""
    path: str = ""
    content: str = ""
    text: str = ""  # the words, or the result's
    failed: bool = False
    refused: str = ""  # for a result: a person said no, and these were their words (a blank if they gave none)
    denied: bool = False  # for a result: a hook forbade the call, so it did not run and neither passed nor failed


def parse_timestamp(at: str) -> float:
    """A transcript's time in seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        return 0.0


class Reader(Protocol):
    """Owns what one transcript has said so far."""

    malformed: int
    usage: dict[str, Any]  # tokens, counted by `usage.count`

    def __init__(self, state: Mapping[str, Any] | None = None) -> None: ...
    def read_line(self, number: int, line: bytes) -> Iterable[Step]: ...
    def dump_state(self) -> dict[str, Any]: ...


class TranscriptModule(Protocol):
    """What a host's module has."""

    NAME: str
    Reader: type[Reader]

    def find_transcript_folders(self, environment: Mapping[str, str], home: str) -> list[str]: ...
    def is_transcript_path(self, path: str) -> bool: ...  # by its name
    def is_transcript_head(self, head: bytes) -> bool: ...  # by its first bytes, which may be cut anywhere


TRANSCRIPT_MODULES = {
    "claude-code": "hardwon.agents.claude_code.transcript",
    "codex": "hardwon.agents.codex.transcript",
    "gemini": "hardwon.agents.gemini.transcript",
    "opencode": "hardwon.agents.opencode.transcript",
}


def load_transcript_module(name: str) -> TranscriptModule:
    """The module that reads a host's transcripts; KeyError if we do not know the host."""
    module: TranscriptModule = __import__(TRANSCRIPT_MODULES[name], fromlist=["Reader"])
    return module


def identify_agent(path: str, head: bytes) -> str:
    """The host that wrote this transcript, by the file's name and its first bytes; empty if none did."""
    for name in TRANSCRIPT_MODULES:
        module = load_transcript_module(name)
        if module.is_transcript_path(path) and module.is_transcript_head(head):
            return name
    return ""
