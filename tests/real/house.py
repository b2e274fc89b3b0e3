"""A person's machine in a temporary folder: their home, a repository, an agent's settings, hardwon."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any

from .claude_code import CLAUDE_CODE
from .conversation import Resident, Session, Talk
from .model_server import SUMMARY, Script

Env = Mapping[str, str]

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 30
HARDWON = (str(Path(sys.executable).with_name("hardwon")),)


_BUDGET = re.compile(r'("timeout": |\|\| :",\s+)(\d+)')


class House:
    def __init__(self, root: Path, program: Path, *, own_network: bool, resident: Resident = CLAUDE_CODE) -> None:
        self.root = root
        self.project = root / "project"
        self.resident = resident
        self.settings = root / "home" / resident.settings
        self._program = program
        self._own_network = own_network
        self._other_log = root / "other.log"
        for name in ("project", "home", "tmp", "bin"):
            (root / name).mkdir()
        (root / "bin" / "hardwon").symlink_to(HARDWON[0])
        resident.furnish(root)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "user.name", "nobody")
        self._git("config", "user.email", "nobody@example.invalid")
        self._change("as committed")
        self._git("add", ".")
        self._git("commit", "--quiet", "--message=start")
        self._change("changed since")

    @property
    def env(self) -> dict[str, str]:
        """All the agent gets to see: nothing of this machine but the search path, and a key that opens nothing. It
        does not know where hardwon's home is: an IDE would not either."""
        return {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **self.resident.environment(self.root),
        }

    # What the person types

    def hardwon(
        self, *arguments: str, program: Sequence[str] = HARDWON, home: str = "hardwon", ends: Sequence[int] = (0,)
    ) -> str:
        told = {name: self.env[name] for name in ("PATH", "HOME", "LANG", "CLAUDE_CONFIG_DIR") if name in self.env}
        done = subprocess.run(
            [*program, *arguments],
            cwd=self.project,
            env=told | {"HARDWON_HOME": str(self.root / home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode in ends, f"hardwon {' '.join(arguments)}: {done.stdout}{done.stderr}"
        if arguments[0] == "install":
            self._be_patient()
        return done.stdout

    def _be_patient(self) -> None:
        """Two agents at once on two cores make a hook late now and then, and what comes late the agent does not hear.
        What it would have heard is what is tested here; `make bench-hook` measures the time. Codex has time enough."""
        file = self.root / "home" / self.resident.settings
        if self.resident.name != "codex" and file.exists():
            text = file.read_text(encoding="utf-8")
            file.write_text(_BUDGET.sub(lambda found: f"{found[1]}{int(found[2]) * 10}", text), encoding="utf-8")

    def add(self, delivery: str, solution: str, command: str = "", *more: str) -> None:
        """A lesson for a shell command, or for the start of a session."""
        about = f"what happened after {command or 'the session began'}"
        unlike = " ".join(f"{delivery}{number}" for number in range(12))  # a lesson much like another is refused
        triggers = ("--tool", "Bash", "--command", command) if command else ()
        self.hardwon(
            "lessons",
            "add",
            "--delivery",
            delivery,
            "--summary",
            f"{delivery}: {about}",
            "--problem",
            f"{about} cost somebody {unlike}",
            "--solution",
            solution,
            *triggers,
            *more,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.hardwon("status", "--json"))
        return found

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
        """The agent at work in the project, once; it must end by itself and well. `resume` is an earlier session, `more`
        what else the CLI is given."""
        talk = Talk(
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
        session = self.resident.converse(self._program, talk)
        assert session.exit_code == 0, f"{session.exit_code}: {session.stderr}\n{session.lines[-1:]}"
        return session

    # What there is to see afterwards

    @property
    def stashes(self) -> int:
        return len(self._git("stash", "list").splitlines())

    @property
    def other_hook_runs(self) -> int:
        """How often somebody else's hook was run."""
        written = self._other_log.read_text() if self._other_log.exists() else ""
        return len(list(filter(None, written.splitlines())))

    @property
    def spooled(self) -> int:
        """How many deliveries were made without the worker and still wait for it."""
        return len(list(self.root.glob("hardwon/spool/*")))

    @property
    def hook_commands(self) -> list[str]:
        """hardwon's own lines in the agent's settings."""
        by_event = json.loads(self.settings.read_text())["hooks"].values()
        hooks = [hook for entries in by_event for entry in entries for hook in entry["hooks"]]
        return [hook["command"] for hook in hooks if "hook.py" in hook["command"]]

    def processes(self) -> list[str]:
        """What still runs and knows this folder, by its command line or its environment."""
        mark, found = str(self.root).encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
            try:
                command = Path("/proc", pid, "cmdline").read_bytes()
                if command and mark in command + Path("/proc", pid, "environ").read_bytes():
                    found.append(f"{pid} {command.replace(bytes(1), b' ').decode()}")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def scans(self) -> list[str]:
        return [one for one in self.in_the_background() if "scan --auto" in one]

    def in_the_background(self) -> list[str]:
        """Scans and fillings are processes of their own: they outlive the session, and a worker that was killed."""
        return [one for one in self.processes() if "scan --auto" in one or "hardwon.worker.job_process" in one]

    def wait_for_background(self) -> None:
        deadline = monotonic() + PATIENCE
        while left := self.in_the_background():
            assert monotonic() < deadline, f"these have not ended within {PATIENCE} s: {left}"
            sleep(0.05)

    # Inside

    def _change(self, text: str) -> None:
        (self.project / "file.txt").write_text(text)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.project, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout


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
    def background_scans_held(self) -> Iterator[None]:
        """A scan in the background that starts meanwhile waits before its first line, and goes on afterwards."""
        with open(self.root / "gate", "w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            waits = f"'--auto' in sys.orig_argv and fcntl.flock(open({gate.name!r}), fcntl.LOCK_SH)"
            (self._purelib / "gate.pth").write_text(f"import fcntl, sys; {waits}\n")
            yield
