"""demo: one mistake on its way to a lesson, in a throwaway home.

It runs the real commands and the real hook as child processes that know no other home. The children have no agent's
environment variables, so they take the demo for a person; what they approve is gone with the home.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, NoReturn

import click

import hardwon
from hardwon import clock, paths
from hardwon.agents.installation import build_hook_command
from hardwon.cli.output import echo_indented, echo_styled
from hardwon.errors import UserError
from hardwon.fallback.worker_start import read_failed_starts
from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS
from hardwon.store import db
from hardwon.store.jobs import count_by_state
from hardwon.worker import lifecycle

_TIMEOUT_SECONDS = 30.0
_MAX_FOLDER_CHARS = 55  # the worker's socket is below it, and the address of a socket ends at 104 bytes
SESSIONS_FOLDER = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "demo")
EARLIER_SESSIONS = (("first", 2, "two days ago:"), ("second", 1, "yesterday:"))
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PASSED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ")


@click.command()
def demo() -> None:
    """See a mistake found, accepted and held, in a throwaway home.

    No agent is needed. Nothing of yours is read or changed, and nothing is left behind.
    """
    for end_signal in _END_SIGNALS:
        signal.signal(end_signal, _exit_on_signal)
    with _open_demo() as demo_home:
        echo_indented("", f"A throwaway home in {demo_home.home}; yours is not touched.")
        demo_home.run()
    click.echo("The throwaway home is gone.")
    click.echo("next      hardwon up              begin with your own; hardwon view shows it")


def _exit_on_signal(number: int, _: object) -> NoReturn:
    """End by an exception, so that the throwaway home is removed."""
    raise SystemExit(128 + number)


@contextmanager
def _open_demo() -> Iterator[_Demo]:
    """Yield a home of its own in a temporary folder; on leaving, its worker is stopped and all of it is deleted."""
    temp_folder = tempfile.gettempdir()
    parent_folder = temp_folder if len(temp_folder) <= _MAX_FOLDER_CHARS else "/tmp"
    with tempfile.TemporaryDirectory(prefix="hardwon-", dir=parent_folder) as folder:
        home = os.path.join(folder, ".hardwon")
        project = os.path.join(folder, "kite")
        os.mkdir(project)
        # Nothing else may run during the demo: no background scan, no protocol text, no API.
        config = {"autoScanIntervalHours": -1, "lessonProtocol": False, "apiPort": -1}
        paths.write_private(os.path.join(home, paths.CONFIG), json.dumps(config).encode())
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        environment |= {"HOME": folder, "HARDWON_HOME": home, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder}
        try:
            yield _Demo(home, project, {**environment, "NO_COLOR": "1", "COLUMNS": "78"})
        finally:
            # A worker that is still starting would outlive the home.
            _wait_while(lambda: bool(read_failed_starts(home)[0]) and not lifecycle.is_lock_held(home))
            lifecycle.stop_worker(home)


def _wait_while(condition: Callable[[], bool]) -> None:
    """Wait until the condition is false, but not for ever."""
    deadline = monotonic() + _TIMEOUT_SECONDS
    while condition() and monotonic() < deadline:
        sleep(0.02)


@dataclass(frozen=True, slots=True)
class _Demo:
    home: str
    project: str
    environment: dict[str, str]

    def run(self) -> None:
        """Tell the story, step by step."""
        _print_title("1. An agent made the same mistake in two sessions")
        self._show_earlier_sessions()
        _print_title("2. hardwon finds it in the agent's transcripts")
        self._run_command("scan")
        _print_title("3. A person accepts it as a lesson; here the demo plays the person")
        self._run_command("accept", "1", "--delivery", "hold", "--summary", "pytest here: -n, not --parallel")
        _print_title("4. The two sessions are imported, and the worker distils them")
        self._run_command("import", "transcripts")
        self._run_command("start")
        self._wait_for_distilling()
        _print_title("5. The next session: the lesson is there before the mistake")
        self._run_scripted_session()
        _print_title("6. The session was recorded, and what it meant is written down")
        self._wait_for_distilling()
        self._run_command("sessions", "show", "5eed0003")
        _print_title("7. Everything can be searched")
        self._run_command("search", "limiter", "--kind", "observation")
        _print_title("8. This is what the next session here opens with")
        self._run_command("brief")
        click.echo()

    def _show_earlier_sessions(self) -> None:
        """Put two transcripts where Claude Code keeps them, and show what happened in them."""
        folder = os.path.join(os.path.dirname(self.home), ".claude", "projects", self.project.replace("/", "-"))
        for name, days, when in EARLIER_SESSIONS:
            echo_indented("  ", when, dim=True)
            day = datetime.fromtimestamp(clock.now(), UTC) - timedelta(days=days)
            # The times in these files are like `DAYT09:12:00Z`: a placeholder for the date, then the usual `T`.
            lines = [line.replace("DAYT", f"{day:%Y-%m-%d}T") for line in self._read_lines(name)]
            paths.write_private(os.path.join(folder, f"{name}.jsonl"), "".join(lines).encode())
            for line in lines:
                content = json.loads(line)["message"]["content"]
                if isinstance(content, str):
                    _print_message("person", content)
                elif content[0]["type"] == "tool_use" and "command" in content[0]["input"]:
                    _print_message("agent", f"$ {content[0]['input']['command']}")
                elif content[0].get("is_error"):
                    _print_message(speaker="", text=content[0]["content"].splitlines()[-1], fg="red")

    def _read_lines(self, name: str) -> list[str]:
        """Return the lines of a session that comes with hardwon, with this demo's project in them."""
        with open(os.path.join(SESSIONS_FOLDER, f"{name}.jsonl"), encoding="utf-8") as file:
            return [line.replace("PROJECT", self.project) for line in file]

    def _run_scripted_session(self) -> None:
        """Play an agent: each line is what Claude Code would hand to the installed hook."""
        for line in map(json.loads, self._read_lines("today")):
            payload = line["hook"]
            event = payload["hook_event_name"]
            if line["say"]:
                echo_indented("  ", line["say"], dim=True)
            if event == "UserPromptSubmit":
                _print_message("person", payload["prompt"])
            elif event == "PreToolUse":
                tool_input = payload["tool_input"]
                if "command" in tool_input:
                    _print_message("agent", f"$ {tool_input['command']}")
                else:
                    _print_message("agent", f"edits {os.path.relpath(tool_input['file_path'], self.project)}")
            if payload.get("tool_use_id", "").endswith("again"):
                sleep(PARALLEL_CALL_SECONDS)  # sooner, it would count as a parallel call
            command = build_hook_command("claude-code", self.home)(event)
            output = self._run_process(["/bin/sh", "-c", command], json.dumps(payload))
            _print_answer(event, json.loads(output).get("hookSpecificOutput", {}))

    def _wait_for_distilling(self) -> None:
        with db.open(self.home) as connection:
            _wait_while(lambda: any(count_by_state(connection).values()))

    def _run_command(self, *arguments: str) -> None:
        """Show a command and what it prints."""
        command_line = shlex.join(["hardwon", *arguments])
        echo_styled(f"  $ {command_line}", fg="cyan")
        output = self._run_process([sys.executable, "-I", "-m", "hardwon", *arguments])
        echo_indented("  ", output.rstrip())

    def _run_process(self, command: Sequence[str], stdin_text: str = "") -> str:
        """Run a command and return what it prints; UserError if it fails."""
        # Block signals until the child's id is known, or a child that is just starting would be left running.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)
        try:
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, old_mask),  # noqa: PLW1509 (no threads)
            )
            with process:
                signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
                try:
                    output, _ = process.communicate(stdin_text)
                except BaseException:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        if process.returncode:
            raise UserError(f"a command failed in the demo: {output.strip()}", "hardwon doctor")
        return output


def _print_title(title: str) -> None:
    click.echo()
    echo_styled(title, bold=True)


def _print_answer(event: str, answer: dict[str, Any]) -> None:
    """Say what hardwon answered a hook, if the person should see it."""
    reason = answer.get("permissionDecisionReason")
    note = answer.get("additionalContext")
    if reason:
        _print_message("hardwon", "denies it, and the agent reads:", fg="yellow")
        _print_message(speaker="", text=reason, fg="yellow")
    elif event == "PreToolUse" and note:
        _print_message("hardwon", "lets it run, and tells what it knows of this file:", fg="green")
        _print_message(speaker="", text=note, fg="green")
    elif event == "PreToolUse":
        _print_message("hardwon", "lets it run", fg="green")


def _print_message(speaker: str, text: str, **style: Any) -> None:
    echo_indented(f"  {speaker:<9}", text, **style)
