"""A person's machine in a temporary folder: their home, a repository, an agent's settings, hardwon."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any

from .claude_code import CLAUDE_CODE
from .conversation import AgentSetup, Conversation, Session
from .model_server import SUMMARY, Script

Env = Mapping[str, str]

CHECKOUT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 300  # generous, because two agents at once on two cores take their time
HARDWON = (str(Path(sys.executable).with_name("hardwon")),)


_TIMEOUT = re.compile(r'("timeout": |\|\| :",\s+)(\d+)')


class House:
    def __init__(self, root: Path, program: Path, *, own_network: bool, agent_setup: AgentSetup = CLAUDE_CODE) -> None:
        self.root = root
        self.project = root / "project"
        self._own_network = own_network
        self._other_log = root / "other.log"
        for name in ("project", "home", "tmp", "bin"):
            (root / name).mkdir()
        (root / "bin" / "hardwon").symlink_to(HARDWON[0])
        self.set_up_agent(program, agent_setup)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "user.name", "nobody")
        self._git("config", "user.email", "nobody@example.invalid")
        self.change_file("as committed")
        self._git("add", ".")
        self._git("commit", "--quiet", "--message=start")
        self.change_file("changed since")

    def set_up_agent(self, program: Path, agent_setup: AgentSetup) -> None:
        """Write an agent's own settings; sessions are then run with it."""
        self.agent_setup, self._program = agent_setup, program
        self.settings = self.root / "home" / agent_setup.settings
        agent_setup.set_up(self.root)

    @property
    def env(self) -> dict[str, str]:
        """Return the agent's environment: of this machine only the search path, and a made-up key.

        It does not say where hardwon's home is, because an IDE would not either.
        """
        return {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **self.agent_setup.environment(self.root),
        }

    # What the person types

    def hardwon(
        self, *arguments: str, program: Sequence[str] = HARDWON, home: str = "hardwon", ends: Sequence[int] = (0,)
    ) -> str:
        environment = {
            name: self.env[name] for name in ("PATH", "HOME", "LANG", "CLAUDE_CONFIG_DIR") if name in self.env
        }
        run = subprocess.run(
            [*program, *arguments],
            cwd=self.project,
            env=environment | {"HARDWON_HOME": str(self.root / home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode in ends, f"hardwon {' '.join(arguments)}: {run.stdout}{run.stderr}"
        if arguments[0] == "install":
            self._extend_timeouts()
        return run.stdout

    def _extend_timeouts(self) -> None:
        """Multiply the timeouts of the installed hooks by ten.

        Two agents at once on two cores make a hook late now and then, and the agent ignores a late answer. The answer is
        what is tested here; `make bench-hook` measures the time. Codex has time enough.
        """
        file = self.root / "home" / self.agent_setup.settings
        if self.agent_setup.name != "codex" and file.exists():
            text = file.read_text(encoding="utf-8")
            file.write_text(_TIMEOUT.sub(lambda match: f"{match[1]}{int(match[2]) * 10}", text), encoding="utf-8")

    def add(self, delivery: str, solution: str, command: str = "", *more: str) -> None:
        """Add a lesson for a shell command, or for the start of a session."""
        subject = f"what happened after {command or 'the session began'}"
        unlike = " ".join(f"{delivery}{number}" for number in range(12))  # a lesson much like another is refused
        triggers = ("--tool", "Bash", "--command", command) if command else ()
        self.hardwon(
            "lessons",
            "add",
            "--delivery",
            delivery,
            "--summary",
            f"{delivery}: {subject}",
            "--problem",
            f"{subject} cost somebody {unlike}",
            "--solution",
            solution,
            *triggers,
            *more,
        )

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.hardwon("status", "--json"))
        return status

    def kill_worker(self) -> int:
        pid: int | None = self.status()["pid"]
        assert pid, "there is no worker to kill"
        os.kill(pid, signal.SIGKILL)
        return pid

    def session(
        self,
        script: Script,
        *prompts: str,
        sub: Script = (),
        env: Env = MappingProxyType({}),
        summary: str = SUMMARY,
        resume: str = "",
        more: Sequence[str] = (),
    ) -> Session:
        """Run a session of the agent in the project; it must end by itself with exit code 0.

        `resume` is an earlier session, `more` are further arguments of the CLI.
        """
        conversation = Conversation(
            script,
            prompts or ("go on",),
            self.project,
            {**self.env, **env},
            self._own_network,
            sub=sub,
            summary=summary,
            resume=resume,
            more=more,
        )
        session = self.agent_setup.run_session(self._program, conversation)
        assert session.exit_code == 0, f"{session.exit_code}: {session.stderr}\n{session.lines[-1:]}"
        return session

    # What there is to see afterwards

    @property
    def stashes(self) -> int:
        return len(self._git("stash", "list").splitlines())

    @property
    def call_times(self) -> list[float]:
        """Return when the recorded calls were denied or ended, earliest first."""
        with contextlib.closing(sqlite3.connect(self.root / "hardwon" / "hardwon.db")) as database:
            return [at for (at,) in database.execute("select at from events where kind = 'tool' order by at")]

    @property
    def other_hook_runs(self) -> int:
        """Return how often the hook that is not ours was run."""
        log_text = self._other_log.read_text() if self._other_log.exists() else ""
        return len(list(filter(None, log_text.splitlines())))

    @property
    def spooled_events(self) -> int:
        """Return how many events wait in the spool."""
        return len(list(self.root.glob("hardwon/spool/*")))

    @property
    def hook_commands(self) -> list[str]:
        """Return hardwon's commands in the agent's settings."""
        by_event = json.loads(self.settings.read_text())["hooks"].values()
        hooks = [hook for entries in by_event for entry in entries for hook in entry["hooks"]]
        return [hook["command"] for hook in hooks if "hook.py" in hook["command"]]

    def list_processes(self) -> list[str]:
        """Return the processes that have this folder in their command line or environment."""
        folder, processes = str(self.root).encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
            try:
                command = Path("/proc", pid, "cmdline").read_bytes()
                if command and folder in command + Path("/proc", pid, "environ").read_bytes():
                    processes.append(f"{pid} {command.replace(bytes(1), b' ').decode()}")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return processes

    def list_scans(self) -> list[str]:
        return [process for process in self.list_background_processes() if "scan --auto" in process]

    def list_background_processes(self) -> list[str]:
        """Return scans and jobs, which outlive the session and a killed worker."""
        return [
            process
            for process in self.list_processes()
            if "scan --auto" in process or "hardwon.worker.job_process" in process
        ]

    def wait_for_background(self) -> None:
        deadline = monotonic() + WAIT_SECONDS
        while running := self.list_background_processes():
            assert monotonic() < deadline, f"these have not ended within {WAIT_SECONDS} s: {running}"
            sleep(0.05)

    # Inside

    def change_file(self, text: str) -> None:
        (self.project / "file.txt").write_text(text)

    def _git(self, *arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments], cwd=self.project, env=self.env, check=True, capture_output=True, text=True
        )
        return run.stdout


class SeparateInstall:
    """hardwon installed a second time, in a virtual environment of its own, so that it can be deleted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "lib" / "hardwon"
        self.python = root / "venv" / "bin" / "python"
        no_bytecode = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / "src" / "hardwon", self.package, ignore=no_bytecode)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True)
        self._purelib = next((root / "venv").glob("lib/python*/site-packages"))
        (self._purelib / "separate.pth").write_text(f"{self.package.parent}\n{sysconfig.get_path('purelib')}\n")

    @property
    def program(self) -> Sequence[str]:
        return str(self.python), "-m", "hardwon"

    @contextlib.contextmanager
    def hold_background_scans(self) -> Iterator[None]:
        """Make background scans that start meanwhile wait until the end of the block."""
        with open(self.root / "gate", "w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            waits = f"'--auto' in sys.orig_argv and fcntl.flock(open({gate.name!r}), fcntl.LOCK_SH)"
            (self._purelib / "gate.pth").write_text(f"import fcntl, sys; {waits}\n")
            yield
