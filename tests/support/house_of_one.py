"""hardwon as its user has it: the installed commands and the installed hook, in a home of one test."""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from time import monotonic, sleep, time
from typing import Any

import hardwon.cli
from hardwon import paths
from hardwon.fallback import answering, worker_start
from hardwon.types import frozen
from hardwon.worker import lifecycle
from tests.support import agent_stand_in, worker_fork

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
GIT_STASH: dict[str, Any] = {
    "summary": "git stash leaves untracked files behind",
    "problem": "git stash only stashes tracked files; untracked ones stay where they are",
    "solution": "use git stash -u to keep untracked files as well",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b"]},
}
NEEDS_A_PROCESS = ("up", "restart", "demo", "mcp", "view", "logs")
_numbers = itertools.count(1)

# The hook and the worker as they are, but with another clock: `first` is Python that sets it.
OTHER_HOOK = """
import sys, time
first, path = sys.argv[1:3]
exec(first)
sys.argv[:] = sys.argv[2:]
exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__", "__file__": path})
"""
OTHER_WORKER = """
import sys, time
exec(sys.argv[1])
from hardwon.worker.hook_server import main
sys.exit(main(sys.argv[2], tick=float(sys.argv[3])))
"""


def lesson(command: str = "", **changes: Any) -> dict[str, Any]:
    """A sound record, with what the test is about changed."""
    number = next(_numbers)
    record = {
        "summary": f"made-up lesson {number} about {command or 'something'}"[:110],
        "problem": f"cause{number} makes thing{number} fail{number} whenever it{number} is tried{number}",
        "solution": f"way{number} avoids{number} that{number} and works{number} instead{number}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [command]} if command else {},
    }
    return {**record, **changes}


def bash(command: str, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it before a Bash call."""
    return call("Bash", {"command": command, "description": "made up"}, **more)


def call(tool: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/.claude/projects/-home-dev-project/made-up.jsonl",
        "cwd": "/home/dev/project",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": f"toolu_{next(_numbers):06d}",
    }
    return {**payload, **more}


def at_terminal(*words: str, typed: str = "", **env: str) -> str:
    """What a person sees who types this into a terminal of 80 columns, and then no more."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", **env}
    command = [sys.executable, "-m", "hardwon", *words]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, f"{typed}\x04".encode())
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait() == 0, seen.decode()
    return seen.decode().replace("\r\n", "\n")


def prompt(text: str, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it for what the person typed."""
    return happened("UserPromptSubmit", prompt=text, **more)


def used(tool: str, given: dict[str, Any], response: Any, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code sends it after a call that worked."""
    return call(tool, given, **{"hook_event_name": "PostToolUse", "tool_response": response, **more})


def failed(tool: str, given: dict[str, Any], error: str, **more: Any) -> dict[str, Any]:
    return call(tool, given, **{"hook_event_name": "PostToolUseFailure", "error": error, **more})


def happened(event: str, **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/.claude/projects/-home-dev-project/made-up.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
    }
    return {**payload, **more}


@frozen
class Answer:
    """What came back from a hook, by its parts."""

    context: str
    denied: str
    notice: str
    raw: bytes
    blocked: bool = False  # a prompt that does not go on to the model; the notice is the reason


@frozen
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def run_as_process(words: Sequence[str], stdin: str, environment: dict[str, str], cwd: str | None) -> Ran:
    command = [sys.executable, "-m", "hardwon", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, cwd=cwd)
    return Ran(done.returncode, done.stdout, done.stderr)


def run_in_process(words: Sequence[str], stdin: str, environment: dict[str, str], cwd: str | None) -> Ran:
    """Call the program's entry as its interpreter would: arguments, environment, folder, streams, exit code."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    streams = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"), out, err
    kept = sys.argv, dict(os.environ), os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    gc.collect(0)
    gc.disable()  # so that all that the command makes is young, and one cheap collection finds it
    try:
        sys.argv = ["hardwon", *words]
        set_environment(environment)
        os.chdir(cwd or kept[2])
        sys.stdin, sys.stdout, sys.stderr = streams
        code = exit_code_of(hardwon.cli.main)
    finally:
        sys.argv, (sys.stdin, sys.stdout, sys.stderr) = kept[0], kept[3]
        set_environment(kept[1])
        os.chdir(kept[2])
        gc.enable()
    gc.collect(0)  # a command that failed leaves its connection in the traceback
    out.flush()
    err.flush()
    return Ran(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())


def set_environment(environment: dict[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)


def exit_code_of(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001 (printed as the interpreter prints a defect)
        traceback.print_exc()
        return 1
    return 0


class House:
    """Owns a home and whatever processes run for it.

    Hooks are answered in the test's process and workers are forked, unless `with_processes` asks for the installed hook
    and a worker of its own interpreter.
    """

    def __init__(self, home: str, *, with_processes: bool = False) -> None:
        self.home, self.with_processes = home, with_processes
        self._started: list[subprocess.Popen[bytes]] = []

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, "HARDWON_HOME": self.home, **(more or {})}

    def cli(self, *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: str | None = None) -> Ran:
        """Run a command in this process, or in one of its own if it starts others that outlive it."""
        if words[:1] == ("start",) and self.with_processes:
            return self.process(*words, stdin=stdin, env=env, cwd=cwd)
        if words[:1] == ("start",):
            self._fork_worker(env)
        run = run_in_process if words[:1] and words[0] not in NEEDS_A_PROCESS else run_as_process
        return run(words, stdin, self.environment(env), cwd)

    def process(self, *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: str | None = None) -> Ran:
        """Run a command in a process of its own, where that is the point of the test."""
        return run_as_process(words, stdin, self.environment(env), cwd)

    def ok(self, *words: str, **more: Any) -> Ran:
        """Run a command that must succeed."""
        ran = self.cli(*words, **more)
        assert ran.code == 0, f"hardwon {' '.join(words)}\n{ran.out}{ran.err}"
        return ran

    def add(self, record: dict[str, Any]) -> str:
        """Add a lesson as a person would and return its slug."""
        self.ok("lessons", "add", "--json", json.dumps(record))
        with open(os.path.join(self.home, "lessons.json")) as file:
            written: Sequence[dict[str, Any]] = json.load(file)["lessons"]
        return next(str(one["slug"]) for one in written if one["summary"] == record["summary"])

    def _fork_worker(self, env: dict[str, str] | None = None) -> None:
        """Have a worker, unless something stands in the way of it: then the command or hook says what."""
        if not lifecycle.is_lock_held(self.home):
            pid = worker_fork.fork_worker(self.home, self.environment(env))
            wait_for(lambda: lifecycle.read_status(self.home).running or not os.path.exists(f"/proc/{pid}"))

    def _hook_in_process(self, event: str, payload: bytes, host: str) -> bytes:
        """Answer as hook.py does, without a process: ask the worker, else answer from the manifest."""
        has_socket = os.path.lexists(os.path.join(self.home, paths.SOCKET))
        if event == "SessionStart" and not has_socket and worker_start.can_start(self.home, time()):
            self._fork_worker()
        event_id, answer = os.urandom(16).hex(), None
        kept = dict(os.environ)
        try:
            set_environment(self.environment())
            if not os.path.exists(os.path.join(self.home, paths.PAUSES)):
                answer = ask_worker(host, event, self.home, event_id, payload)
            if answer is None:
                answer = answering.answer_event(host, event, self.home, event_id, payload, ask_worker)
        finally:
            set_environment(kept)
        return answer

    def _command(self, event: str, first: str = "", host: str = "claude-code") -> list[str]:
        other = ["-c", OTHER_HOOK, first] if first else []
        return [sys.executable, "-I", "-S", *other, HOOK, host, event, self.home]

    def hook(
        self,
        event: str,
        payload: bytes,
        env: dict[str, str] | None = None,
        host: str = "claude-code",
        first: str = "",
    ) -> bytes:
        """What the installed command prints; its exit code must be 0 whatever it was given. A prompt comes from a
        stand-in for the agent, since it is asked who started the hook."""
        command = self._command(event, first, host)
        if event == "UserPromptSubmit" and not first:
            code, out, err = agent_stand_in.run_hook(command, payload, self.environment(env), host)
            assert (code, err) == (0, b"")
            return out
        if env is None and not first and not self.with_processes:
            return self._hook_in_process(event, payload, host)
        done = subprocess.run(command, input=payload, capture_output=True, env=self.environment(env))
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def ask(self, session: str, payload: dict[str, Any], env: dict[str, str] | None = None) -> Answer:
        wire = {"session_id": session, **payload}
        raw = self.hook(wire["hook_event_name"], json.dumps(wire).encode(), env)
        said = json.loads(raw)
        own = said.get("hookSpecificOutput", {})
        if said.get("decision") == "block":
            return Answer("", "", said["reason"], raw, blocked=True)
        assert own.get("hookEventName", wire["hook_event_name"]) == wire["hook_event_name"]
        denied = own.get("permissionDecisionReason", "") if own.get("permissionDecision") == "deny" else ""
        return Answer(own.get("additionalContext", ""), denied, said.get("systemMessage", ""), raw)

    def ask_at_once(
        self,
        session: str,
        payloads: Sequence[dict[str, Any]],
        meanwhile: threading.Thread | None = None,
        clock: float | None = None,
    ) -> list[bytes]:
        """What hooks print that are asked in the same instant, however slowly they start; with a clock that stands
        still it is the same instant to them as well, however slowly they go on.

        A pipe takes in less than is written to it here, so a write that returns was read: that hook is up, and waits
        for the end of what it is told.
        """
        command = self._command("PreToolUse", "" if clock is None else _stopped(clock))
        hooks = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment())
            for _ in payloads
        ]
        for hook, payload in zip(hooks, payloads, strict=True):
            assert hook.stdin
            hook.stdin.write(json.dumps({"padding": "x" * 200_000, "session_id": session, **payload}).encode())
            hook.stdin.flush()
        if meanwhile:
            meanwhile.start()
        for hook in hooks:
            assert hook.stdin
            hook.stdin.close()
        said = [hook.stdout.read() for hook in hooks if hook.stdout]
        assert [hook.wait() for hook in hooks] == [0] * len(hooks)
        if meanwhile:
            meanwhile.join()
        return said

    def start_with(self, *, clock: float | None = None, tick: float = 10.0) -> None:
        """Start a worker whose clock stands still, or that looks after things so often, and wait until it serves."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        command = [sys.executable, "-c", OTHER_WORKER, "" if clock is None else _stopped(clock), self.home, str(tick)]
        self._started.append(subprocess.Popen(command, env=self.environment(), start_new_session=True))
        wait_for(lambda: bool(lifecycle.read_status(self.home).running))

    def session_start(self, session: str, source: str = "startup", **more: Any) -> Answer:
        return self.ask(
            session, {"hook_event_name": "SessionStart", "source": source, "cwd": "/home/dev/project", **more}
        )

    def status(self) -> dict[str, Any]:
        said: dict[str, Any] = self.ok("status", "--json").json()
        return said

    def deliveries(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = self.ok("deliveries", "--json", "--limit", "10000").json()
        return said

    def stay_cold(self) -> None:
        """No hook starts a worker: too many starts have come to nothing just now."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        with open(os.path.join(self.home, "worker.starts"), "w") as file:
            file.write("." * 8)

    def kill(self) -> None:
        """End the worker as a crash would, and wait until it is gone."""
        os.kill(self.status()["pid"], signal.SIGKILL)
        wait_for(lambda: not lifecycle.is_lock_held(self.home))

    def stop_building(self) -> None:
        """From here on nobody can compile the manifest: what is in force is what there is."""
        lock = os.path.join(self.home, "manifest.lock")
        os.unlink(lock)
        os.mkdir(lock)

    def leave(self) -> None:
        """End the worker and whatever else runs for this home: a start under way, work in the background."""
        lifecycle.stop_worker(self.home)
        while running := running_for(self.home):
            for number in running:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for process in self._started:
            process.wait()

    def stored(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table as they are in the file, with whatever waited in the spool taken in."""
        self.deliveries()
        connection = sqlite3.connect(os.path.join(self.home, "hardwon.db"))
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f"select * from {table} order by id")]
        finally:
            connection.close()


def _load_ask() -> Callable[[str, str, str, str, bytes], bytes | None]:
    """Return hook.py's own function; the rest of the script runs and exits when it is loaded."""
    namespace: dict[str, Any] = {}
    with open(HOOK, encoding="utf-8") as file:
        exec(compile(file.read().partition("\ntry:\n")[0], HOOK, "exec"), namespace)
    ask: Callable[[str, str, str, str, bytes], bytes | None] = namespace["ask"]
    return ask


ask_worker = _load_ask()


def _stopped(clock: float) -> str:
    return f"time.time = lambda: {clock!r}"


def running_for(home: str) -> list[int]:
    """The processes that were started for this home, where the system tells."""
    mark, found = f"\0HARDWON_HOME={home}\0".encode(), []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in b"\0" + file.read():
                        found.append(int(name))
            except OSError:
                pass  # it has ended, or is somebody else's
    return found


def wait_for(what: Callable[[], bool], seconds: float = 300) -> None:
    """Until it is so; the end is far away, since the machine may have much else to do."""
    end = monotonic() + seconds
    while not what():
        assert monotonic() < end, "it did not come about"
        sleep(0.02)
