"""The real Claude Code CLI in a home of its own, talking to a scripted model and to nobody else."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import loopback
from .model_server import SUMMARY, ModelServer, Request, Script

PATIENCE = 90  # seconds for a session that takes two
MODEL = "claude-sonnet-4-5"  # the default differs between versions


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
    lines: tuple[Mapping[str, Any], ...]
    stderr: str

    @property
    def id(self) -> str:
        """As the CLI calls it, and the transcript it writes."""
        return next(str(line["session_id"]) for line in self.lines if "session_id" in line)

    @property
    def turns(self) -> tuple[Request, ...]:
        """The main conversation, without sub-agents and what the CLI asks on the side."""
        return tuple(request for request in self.requests if request.kind == "main")

    def turns_with(self, token: str) -> list[int]:
        return [number for number, turn in enumerate(self.turns) if token in turn]

    @property
    def hooks(self) -> tuple[HookRun, ...]:
        return tuple(_hook_run(line) for line in self.lines if line.get("subtype") == "hook_response")

    @property
    def results(self) -> tuple[ToolResult, ...]:
        by_line = (_tool_results(line) for line in self.lines if line["type"] == "user")
        return tuple(itertools.chain.from_iterable(by_line))

    @property
    def said(self) -> tuple[str, ...]:
        """The answer to each prompt."""
        return tuple(str(line.get("result")) for line in self.lines if line["type"] == "result")


def environment(home: Path, config: Path, temporary: Path) -> dict[str, str]:
    """All the CLI gets to see: nothing of this machine but the search path, and a key that opens nothing."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "CLAUDE_CONFIG_DIR": str(config),
        "CLAUDE_CODE_TMPDIR": str(temporary),
        "ANTHROPIC_API_KEY": "made-up-and-local",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",  # else it refuses to skip permissions as root
    }


def converse(
    program: Path,
    prompts: Sequence[str],
    script: Script,
    sub: Script = (),
    *,
    cwd: Path,
    env: Mapping[str, str],
    own_network: bool,
    summary: str = SUMMARY,
    resume: str = "",
    more: Sequence[str] = (),
) -> Session:
    """One session in one process: each prompt is typed when the answer to the one before is there."""
    asked = [
        str(program), "--print", "--verbose",
        "--input-format", "stream-json", "--output-format", "stream-json", "--include-hook-events",
        "--permission-mode", "bypassPermissions", "--model", MODEL,
        *(("--resume", resume) if resume else ()), *more,
    ]  # fmt: skip
    network = "own" if own_network else "shared"
    ours, theirs = socket.socketpair()
    with ours, theirs, open(cwd.parent / "stderr.txt", "w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", loopback.__file__, network, str(theirs.fileno()), *asked],
            cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
        theirs.close()
        with process, _killed_after(PATIENCE, process):
            server = ModelServer(_listener(ours), script, sub, summary)
            try:
                lines = tuple(_exchange(process, prompts))
                process.wait()
            finally:
                server.close()
        stderr.seek(0)
        return Session(process.returncode, tuple(server.requests), lines, stderr.read())


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


def _exchange(process: subprocess.Popen[str], prompts: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """What the CLI prints, to its end. Prompts sent before a `result` would be merged into one."""
    assert process.stdin and process.stdout
    waiting = [*prompts[1:]]
    _type(process, prompts[0])
    for text in process.stdout:
        line = json.loads(text)
        yield line
        if line["type"] == "result":
            if waiting:
                _type(process, waiting.pop(0))
            else:
                process.stdin.close()


def _type(process: subprocess.Popen[str], prompt: str) -> None:
    assert process.stdin
    message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
    process.stdin.flush()


def _hook_run(line: Mapping[str, Any]) -> HookRun:
    return HookRun(
        event=line["hook_event"],
        exit_code=line.get("exit_code", -1),
        outcome=line["outcome"],
        stdout=line["stdout"],
        stderr=line["stderr"],
    )


def _tool_results(line: Mapping[str, Any]) -> Iterator[ToolResult]:
    content = line["message"]["content"]
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_result":
            told = block["content"]
            text = told if isinstance(told, str) else "\n".join(part.get("text", "") for part in told)
            yield ToolResult(text, bool(block.get("is_error")))
