"""A real agent at work, once: its process in a network of its own, a scripted model on the other side."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import loopback
from .model_server import SUMMARY, ModelServer, Request, Script, Wire

PATIENCE = 180  # seconds for a session that takes two to eight, on a machine with much else to do
Line = Mapping[str, Any]


@dataclass(frozen=True)
class HookRun:
    """One run of one hook, as the CLI reports it."""

    event: str  # PreToolUse, SessionStart, …
    exit_code: int
    outcome: str  # success, error or cancelled
    stdout: str
    stderr: str


@dataclass(frozen=True)
class ToolResult:
    text: str
    refused: bool


@dataclass(frozen=True)
class Session:
    """What one run of the CLI did, seen from both of its sides."""

    exit_code: int
    requests: tuple[Request, ...]
    lines: tuple[Line, ...]
    stderr: str
    id: str  # as the CLI calls it, and the transcript it writes
    results: tuple[ToolResult, ...]
    said: tuple[str, ...] = ()  # the answer to each prompt
    hooks: tuple[HookRun, ...] = ()  # where the CLI tells of them

    @property
    def turns(self) -> tuple[Request, ...]:
        """The main conversation, without sub-agents and what the CLI asks on the side."""
        return tuple(request for request in self.requests if request.kind == "main")

    def turns_with(self, token: str) -> list[int]:
        return [number for number, turn in enumerate(self.turns) if token in turn]


@dataclass(frozen=True)
class Talk:
    """What a session is given, whichever agent has it: where it works, and what its model will say."""

    script: Script
    prompts: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    own_network: bool
    sub: Script = ()
    summary: str = SUMMARY
    resume: str = ""  # an earlier session
    more: Sequence[str] = ()  # what else the CLI is given


def run(
    talk: Talk, command: Sequence[str], wire: Wire, exchange: Callable[[subprocess.Popen[str]], Iterable[Line]]
) -> tuple[int, tuple[Request, ...], tuple[Line, ...], str]:
    """Exit code, what the model was asked, what `exchange` read, standard error."""
    network = "own" if talk.own_network else "shared"
    ours, theirs = socket.socketpair()
    with ours, theirs, open(talk.cwd.parent / "stderr.txt", "w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", loopback.__file__, network, str(theirs.fileno()), *command],
            cwd=talk.cwd,
            env=dict(talk.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        with process, _killed_after(PATIENCE, process):
            server = ModelServer(_listener(ours), wire, talk.script, talk.sub, talk.summary)
            try:
                lines = tuple(exchange(process))
                process.wait()
            finally:
                server.close()
        stderr.seek(0)
        return process.returncode, tuple(server.requests), lines, stderr.read()


@contextlib.contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends the process and its children when the time is up, or when the test gives up on it."""

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    watchdog = threading.Timer(seconds, end)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()
        if process.returncode is None:
            end()


def _listener(door: socket.socket) -> socket.socket:
    _, handles, _, _ = socket.recv_fds(door, 16, 1)
    assert handles, "the launcher ended before it listened; stderr.txt in the house says why"
    return socket.socket(fileno=handles[0])


@dataclass(frozen=True)
class Resident:
    """An agent as a house has it: what it is called, its files as the person left them, how it is talked to."""

    name: str
    settings: str  # the file in the person's home that hardwon writes to
    furnish: Callable[[Path], None]  # in the house's folder
    environment: Callable[[Path], dict[str, str]]  # beyond what every program gets
    converse: Callable[[Path, Talk], Session]  # by its program
