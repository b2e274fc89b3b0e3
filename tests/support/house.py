"""hardwon as its user has it, commands and hooks, in the home of one test."""

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
from time import monotonic, sleep, time, tzset
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
NEEDS_A_PROCESS = ("restart", "demo", "mcp", "logs")
NEEDS_A_WORKER = ("start", "up")
_numbers = itertools.count(1)

# The hook and the worker with another clock: `first` is Python code that sets it.
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
    """Return a valid lesson record with some fields changed."""
    number = next(_numbers)
    record = {
        "summary": f"made-up lesson {number} about {command or 'something'}"[:110],
        "problem": f"cause{number} makes thing{number} fail{number} whenever it{number} is tried{number}",
        "solution": f"way{number} avoids{number} that{number} and works{number} instead{number}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [command]} if command else {},
    }
    return {**record, **changes}


def bash(command: str, **more: Any) -> dict[str, Any]:
    """Return the payload that Claude Code sends before a Bash call."""
    return call("Bash", {"command": command, "description": "made up"}, **more)


def call(tool: str, tool_input: dict[str, Any], **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/transcripts/made-up.jsonl",
        "cwd": "/home/dev/project",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": f"toolu_{next(_numbers):06d}",
    }
    return {**payload, **more}


def run_at_terminal(*words: str, typed: str = "", **env: str) -> str:
    """Run a command at a terminal of 80 columns, type this and end-of-file, and return what the terminal shows."""
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
    """Return the payload that Claude Code sends for a typed prompt."""
    return happened("UserPromptSubmit", prompt=text, **more)


def used(tool: str, tool_input: dict[str, Any], response: Any, **more: Any) -> dict[str, Any]:
    """Return the payload that Claude Code sends after a call that succeeded."""
    return call(tool, tool_input, **{"hook_event_name": "PostToolUse", "tool_response": response, **more})


def failed(tool: str, tool_input: dict[str, Any], error: str, **more: Any) -> dict[str, Any]:
    return call(tool, tool_input, **{"hook_event_name": "PostToolUseFailure", "error": error, **more})


def happened(event: str, **more: Any) -> dict[str, Any]:
    payload = {
        "transcript_path": "/home/dev/transcripts/made-up.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
    }
    return {**payload, **more}


@frozen
class Answer:
    """The parts of a hook's answer."""

    context: str
    denied: str
    notice: str
    raw: bytes
    blocked: bool = False  # a prompt that does not go on to the model; the notice is the reason


@frozen
class CommandResult:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def run_as_process(words: Sequence[str], stdin: str, environment: dict[str, str], cwd: str | None) -> CommandResult:
    command = [sys.executable, "-m", "hardwon", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, cwd=cwd)
    return CommandResult(done.returncode, done.stdout, done.stderr)


def run_in_process(words: Sequence[str], stdin: str, environment: dict[str, str], cwd: str | None) -> CommandResult:
    """Call the program's entry as its interpreter would: arguments, environment, folder, streams, exit code."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    streams = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"), out, err
    saved = sys.argv, dict(os.environ), os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    gc.collect(0)
    gc.disable()  # so that all that the command makes is young, and one cheap collection finds it
    try:
        sys.argv = ["hardwon", *words]
        set_environment(environment)
        os.chdir(cwd or saved[2])
        sys.stdin, sys.stdout, sys.stderr = streams
        code = run_to_exit_code(hardwon.cli.main)
    finally:
        sys.argv, (sys.stdin, sys.stdout, sys.stderr) = saved[0], saved[3]
        set_environment(saved[1])
        os.chdir(saved[2])
        gc.enable()
    gc.collect(0)  # a command that failed leaves its connection in the traceback
    out.flush()
    err.flush()
    return CommandResult(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())


def set_environment(environment: dict[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    tzset()  # a new interpreter would read the time zone of its environment


def run_to_exit_code(main: Callable[[], None]) -> int:
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

    def cli(
        self, *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: str | None = None
    ) -> CommandResult:
        """Run a command in this process, or in one of its own if it starts others that outlive it."""
        command = words[0] if words else ""
        needs_worker = command in NEEDS_A_WORKER or words == ("view", "--print")
        if needs_worker and not self.with_processes:
            self._fork_worker(env)
        elif needs_worker or command in (*NEEDS_A_PROCESS, "view", ""):
            return run_as_process(words, stdin, self.environment(env), cwd)
        return run_in_process(words, stdin, self.environment(env), cwd)

    def process(
        self, *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: str | None = None
    ) -> CommandResult:
        """Run a command in a process of its own, where that is the point of the test."""
        return run_as_process(words, stdin, self.environment(env), cwd)

    def ok(self, *words: str, **more: Any) -> CommandResult:
        """Run a command that must succeed."""
        ran = self.cli(*words, **more)
        assert ran.code == 0, f"hardwon {' '.join(words)}\n{ran.out}{ran.err}"
        return ran

    def add(self, record: dict[str, Any]) -> str:
        """Add a lesson as a person would and return its slug."""
        self.ok("lessons", "add", "--json", json.dumps(record))
        with open(os.path.join(self.home, "lessons.json")) as file:
            records: Sequence[dict[str, Any]] = json.load(file)["lessons"]
        return next(str(stored["slug"]) for stored in records if stored["summary"] == record["summary"])

    def _fork_worker(self, env: dict[str, str] | None = None) -> None:
        """Start a worker unless one is running; if it cannot start, the command or hook reports why."""
        if not lifecycle.is_lock_held(self.home):
            pid = worker_fork.fork_worker(self.home, self.environment(env))
            wait_for(lambda: lifecycle.read_status(self.home).running or not os.path.exists(f"/proc/{pid}"))

    def _hook_in_process(self, event: str, payload: bytes, host: str, env: dict[str, str] | None) -> bytes:
        """Answer as hook.py does, without a process: ask the worker, else answer from the manifest."""
        has_socket = os.path.lexists(os.path.join(self.home, paths.SOCKET))
        if event == "SessionStart" and not has_socket and worker_start.can_start(self.home, time()):
            self._fork_worker(env)
        event_id, answer = os.urandom(16).hex(), None
        saved_environment = dict(os.environ)
        try:
            set_environment(self.environment(env))
            if not os.path.exists(os.path.join(self.home, paths.PAUSES)):
                answer = ask_worker(host, event, self.home, event_id, payload)
            if answer is None:
                answer = answering.answer_event(host, event, self.home, event_id, payload, ask_worker)
        finally:
            set_environment(saved_environment)
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
        """Return what the installed command prints; its exit code must be 0 whatever it is given.

        A prompt that may be a decision comes from a stand-in for the agent, because the worker asks who started the hook.
        """
        command = self._command(event, first, host)
        if event == "UserPromptSubmit" and not first and (self.with_processes or may_decide(payload)):
            code, out, err = agent_stand_in.run_hook(command, payload, self.environment(env), host)
            assert (code, err) == (0, b"")
            return out
        is_switched_off = "HARDWON_OFF" in (env or {})  # which the script itself reads
        if not first and not self.with_processes and not is_switched_off:
            return self._hook_in_process(event, payload, host, env)
        done = subprocess.run(command, input=payload, capture_output=True, env=self.environment(env))
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def ask(self, session: str, payload: dict[str, Any], env: dict[str, str] | None = None) -> Answer:
        wire = {"session_id": session, **payload}
        raw = self.hook(wire["hook_event_name"], json.dumps(wire).encode(), env)
        reply = json.loads(raw.strip() or b"{}")  # Claude Code gets text and no JSON before a compaction
        hook_output = reply.get("hookSpecificOutput", {})
        if reply.get("decision") == "block":
            return Answer("", "", reply["reason"], raw, blocked=True)
        assert hook_output.get("hookEventName", wire["hook_event_name"]) == wire["hook_event_name"]
        denied = (
            hook_output.get("permissionDecisionReason", "") if hook_output.get("permissionDecision") == "deny" else ""
        )
        return Answer(hook_output.get("additionalContext", ""), denied, reply.get("systemMessage", ""), raw)

    def ask_at_once(
        self,
        session: str,
        payloads: Sequence[dict[str, Any]],
        meanwhile: threading.Thread | None = None,
        clock: float | None = None,
    ) -> list[bytes]:
        """Return what hooks print that run at the same moment, however slowly they start.

        With a stopped clock it is the same moment to them as well, however slowly they go on.

        A pipe holds less than is written to it here, so a write that returns was read: that hook is running, and waits
        for the end of its input.
        """
        command = self._command("PreToolUse", "" if clock is None else _stop_clock(clock))
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
        outputs = [hook.stdout.read() for hook in hooks if hook.stdout]
        assert [hook.wait() for hook in hooks] == [0] * len(hooks)
        if meanwhile:
            meanwhile.join()
        return outputs

    def start_with(self, *, clock: float | None = None, tick: float = 10.0) -> None:
        """Start a worker with a stopped clock, or with another tick of its housekeeping, and wait until it serves."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        command = [
            sys.executable,
            "-c",
            OTHER_WORKER,
            "" if clock is None else _stop_clock(clock),
            self.home,
            str(tick),
        ]
        self._started.append(subprocess.Popen(command, env=self.environment(), start_new_session=True))
        wait_for(lambda: bool(lifecycle.read_status(self.home).running))

    def session_start(self, session: str, source: str = "startup", **more: Any) -> Answer:
        return self.ask(
            session, {"hook_event_name": "SessionStart", "source": source, "cwd": "/home/dev/project", **more}
        )

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.ok("status", "--json").json()
        return status

    def deliveries(self) -> list[dict[str, Any]]:
        deliveries: list[dict[str, Any]] = self.ok("deliveries", "--json", "--limit", "10000").json()
        return deliveries

    def stay_cold(self, at: float | None = None) -> None:
        """Keep hooks from starting a worker, as after too many failed starts, the last of them now or at this time."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        path = os.path.join(self.home, "worker.starts")
        with open(path, "w") as file:
            file.write("." * 8)
        if at is not None:
            os.utime(path, (at, at))

    def kill(self) -> None:
        """End the worker as a crash would, and wait until it is gone."""
        os.kill(self.status()["pid"], signal.SIGKILL)
        wait_for(lambda: not lifecycle.is_lock_held(self.home))

    def stop_building(self) -> None:
        """Make every later compilation of the manifest fail."""
        lock = os.path.join(self.home, "manifest.lock")
        os.unlink(lock)
        os.mkdir(lock)

    def leave(self) -> None:
        """End the worker and everything else that runs for this home, such as jobs."""
        lifecycle.stop_worker(self.home)
        while pids := find_processes_of(self.home):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for process in self._started:
            process.wait()

    def stored(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, after importing the spool."""
        self.deliveries()
        connection = sqlite3.connect(os.path.join(self.home, "hardwon.db"))
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f"select * from {table} order by id")]
        finally:
            connection.close()


def may_decide(payload: bytes) -> bool:
    """Return whether a prompt may be meant for hardwon; one that says none of these words goes to the agent."""
    text = payload.lower()
    return any(word in text for word in (b"hardwon", b"lesson", b"remember"))


def _load_ask() -> Callable[[str, str, str, str, bytes], bytes | None]:
    """Return hook.py's own function; the rest of the script runs and exits when it is loaded.

    It waits for the worker longer than the half second of an installed hook: on a busy machine a story would otherwise
    be answered by the fallback now and then.
    """
    namespace: dict[str, Any] = {}
    limit = "SECONDS.get(event, 0.25)"
    with open(HOOK, encoding="utf-8") as file:
        functions = file.read().partition("\ntry:\n")[0]
    assert limit in functions
    exec(compile(functions.replace(limit, "60.0"), HOOK, "exec"), namespace)
    ask: Callable[[str, str, str, str, bytes], bytes | None] = namespace["ask"]
    return ask


ask_worker = _load_ask()


def _stop_clock(clock: float) -> str:
    return f"time.time = lambda: {clock!r}"


def find_processes_of(home: str) -> list[int]:
    """Return the ids of the processes that were started for this home, where the system tells."""
    home_variable, pids = f"\0HARDWON_HOME={home}\0".encode(), []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if home_variable in b"\0" + file.read():
                        pids.append(int(name))
            except OSError:
                pass  # it has ended, or is somebody else's
    return pids


def wait_for(is_met: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until a condition holds; the limit is generous, because the machine may be busy."""
    end = monotonic() + seconds
    while not is_met():
        assert monotonic() < end, f"not met within {seconds:.0f} seconds"
        sleep(0.02)
