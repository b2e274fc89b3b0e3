"""One session of a real agent: its process in a network of its own, with a scripted model at the other end."""

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
class Conversation:
    """The input of a session, whichever agent runs it: where it works, and what its model answers."""

    script: Script
    prompts: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    own_network: bool
    sub: Script = ()
    summary: str = SUMMARY
    resume: str = ""  # an earlier session
    more: Sequence[str] = ()  # further arguments of the CLI


def run_agent(
    conversation: Conversation,
    command: Sequence[str],
    wire: Wire,
    exchange: Callable[[subprocess.Popen[str]], Iterable[Line]],
) -> tuple[int, tuple[Request, ...], tuple[Line, ...], str]:
    """Return the exit code, the requests to the model, what `exchange` read, and standard error."""
    network = "own" if conversation.own_network else "shared"
    our_end, their_end = socket.socketpair()
    with our_end, their_end, open(conversation.cwd.parent / "stderr.txt", "w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", loopback.__file__, network, str(their_end.fileno()), *command],
            cwd=conversation.cwd,
            env=dict(conversation.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            pass_fds=[their_end.fileno()],
            start_new_session=True,
        )
        their_end.close()
        with process, _kill_after(PATIENCE, process):
            server = ModelServer(
                _receive_listener(our_end), wire, conversation.script, conversation.sub, conversation.summary
            )
            try:
                lines = tuple(exchange(process))
                process.wait()
            finally:
                server.close()
        stderr.seek(0)
        return process.returncode, tuple(server.requests), lines, stderr.read()


@contextlib.contextmanager
def _kill_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process and its children when the time is up, or when the test gives up."""

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


def _receive_listener(channel: socket.socket) -> socket.socket:
    _, handles, _, _ = socket.recv_fds(channel, 16, 1)
    assert handles, "the launcher ended before it listened; see stderr.txt"
    return socket.socket(fileno=handles[0])


@dataclass(frozen=True)
class AgentSetup:
    """An agent: its name, how to write its settings as a person left them, and how to run a session."""

    name: str
    settings: str  # the file in the person's home that hardwon writes to
    set_up: Callable[[Path], None]  # writes its files below this folder
    environment: Callable[[Path], dict[str, str]]  # beyond what every program gets
    run_session: Callable[[Path, Conversation], Session]  # with its program
