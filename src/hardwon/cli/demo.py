"""demo: one mistake on its way to a lesson, in a throwaway home.

What is shown are the real commands and the real hook, as children that know of no other home. Nobody's agent marks are
among what they are told, so they take the demo for a person; what they approve is gone with the home.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, NoReturn

import click

import hardwon
from hardwon import clock, paths
from hardwon.cli.agents import build_hook_command
from hardwon.cli.output import echo_indented, echo_styled, is_interactive
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.lessons.decision import PARALLEL_CALL_SECONDS
from hardwon.store import db, jobs
from hardwon.types import frozen
from hardwon.worker import lifecycle

COLUMNS = 80
PAUSE_SECONDS = 1.3  # at a terminal, for each step: to read by
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
TIMEOUT_SECONDS = 30.0
MAX_FOLDER_CHARS = 55  # the worker's socket is below it, and the address of a socket ends at 104 bytes
SESSIONS_FOLDER = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "demo")
EARLIER_SESSIONS = (("first", 2, "two days ago:"), ("second", 1, "yesterday:"))
ACCEPT_OPTIONS = ("--delivery", "hold", "--summary", "pytest here: -n, not --parallel")
_PASSED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ")


@frozen
class DemoHome:
    """Where it plays: the home, the project in it, and all that a child is told of the world."""

    home: str
    project: str
    environment: Mapping[str, str]


DemoStep = Callable[[DemoHome], None]


@click.command()
@click.option("--view", is_flag=True, help="open the viewer on it, and end when you press Enter")
def demo(view: bool) -> None:
    """See a mistake found, accepted and held, in a throwaway home.

    No agent is needed. Nothing of yours is read or changed, and nothing is left behind.
    """
    if view and not is_interactive():
        raise UserError("--view waits for Enter, and this is not a terminal", "hardwon demo")
    for end_signal in END_SIGNALS:
        signal.signal(end_signal, _exit_on_signal)
    with _open_demo_home(serving=view) as demo_home:
        echo_indented("", f"A throwaway home in {demo_home.home}; yours is not touched.")
        for number, (title, run_step) in enumerate(STEPS, 1):
            click.echo()
            echo_styled(f"{number}. {title}", bold=True)
            run_step(demo_home)
            _pause_for_reading()
        click.echo()
        if view:
            _open_viewer(demo_home)
    click.echo("The throwaway home is gone.")
    click.echo("next      hardwon demo --view     the same, with the viewer in your browser")
    click.echo("          hardwon up              begin with your own; hardwon view shows it")


def _exit_on_signal(number: int, _: object) -> NoReturn:
    """So that a demo that is told to end still tidies up."""
    raise SystemExit(128 + number)


@contextmanager
def _open_demo_home(*, serving: bool) -> Iterator[DemoHome]:
    temp_folder = tempfile.gettempdir()
    parent_folder = temp_folder if len(temp_folder) <= MAX_FOLDER_CHARS else "/tmp"
    with tempfile.TemporaryDirectory(prefix="hardwon-", dir=parent_folder) as folder:
        home, project = os.path.join(folder, ".hardwon"), os.path.join(folder, "kite")
        os.mkdir(project)
        passed_variables = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        overrides = {"HOME": folder, "HARDWON_HOME": home, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder, "NO_COLOR": "1"}
        demo_home = DemoHome(home, project, {**passed_variables, **overrides, "COLUMNS": str(COLUMNS - 2)})
        config = {"autoScanIntervalHours": -1, "lessonProtocol": False, "apiPort": 0 if serving else -1}
        paths.write_private(os.path.join(home, paths.CONFIG), json.dumps(config).encode())
        try:
            yield demo_home
        finally:
            _stop_worker(home)


def _stop_worker(home: str) -> None:
    """A worker that is still on its way up would outlive the home; it is waited for."""
    deadline = monotonic() + TIMEOUT_SECONDS
    while worker_start.read_failed_starts(home)[0] and not lifecycle.is_lock_held(home) and monotonic() < deadline:
        sleep(0.02)
    lifecycle.stop_worker(home)


def _show_mistakes(demo_home: DemoHome) -> None:
    """The earlier sessions, put where Claude Code keeps its transcripts, and what is to be seen of them."""
    folder = os.path.join(demo_home.environment["HOME"], ".claude", "projects", demo_home.project.replace("/", "-"))
    for name, days, when in EARLIER_SESSIONS:
        echo_indented("  ", when, dim=True)
        day = datetime.fromtimestamp(clock.now(), UTC) - timedelta(days=days)
        lines = [line.replace("DAYT", f"{day:%Y-%m-%d}T") for line in _read_lines(demo_home, name)]
        paths.write_private(os.path.join(folder, f"{name}.jsonl"), "".join(lines).encode())
        for line in lines:
            _print_step(json.loads(line)["message"]["content"])


def _read_lines(demo_home: DemoHome, name: str) -> list[str]:
    with open(os.path.join(SESSIONS_FOLDER, f"{name}.jsonl"), encoding="utf-8") as file:
        return [line.replace("PROJECT", demo_home.project) for line in file]


def _print_step(content: Any) -> None:
    """A line of a transcript, if it is somebody's words, a command or its result."""
    if isinstance(content, str):
        _print_message("person", content)
    elif content[0]["type"] == "tool_use" and "command" in content[0]["input"]:
        _print_message("agent", f"$ {content[0]['input']['command']}")
    elif content[0].get("is_error"):
        _print_message("", content[0]["content"].splitlines()[-1], fg="red")


def _print_message(speaker: str, text: str, **style: Any) -> None:
    echo_indented(f"  {speaker:<9}", text, **style)


def _record_sessions(demo_home: DemoHome) -> None:
    _build_command_step("import", "transcripts")(demo_home)
    _build_command_step("start")(demo_home)
    _wait_for_distilling(demo_home)


def _run_scripted_session(demo_home: DemoHome) -> None:
    """A scripted agent: each line is what Claude Code would hand to the installed hook."""
    for line in map(json.loads, _read_lines(demo_home, "today")):
        if line["say"]:
            _pause_for_reading()
            echo_indented("  ", line["say"], dim=True)
        _print_payload(demo_home, line["hook"])
        _print_answer(line["hook"], _call_hook(demo_home, line["hook"]))


def _print_payload(demo_home: DemoHome, payload: dict[str, Any]) -> None:
    if payload["hook_event_name"] == "UserPromptSubmit":
        _print_message("person", payload["prompt"])
    elif payload["hook_event_name"] == "PreToolUse":
        tool_input = payload["tool_input"]
        edited_path = "" if "command" in tool_input else os.path.relpath(tool_input["file_path"], demo_home.project)
        _print_message("agent", f"edits {edited_path}" if edited_path else f"$ {tool_input['command']}")


def _call_hook(demo_home: DemoHome, payload: dict[str, Any]) -> dict[str, Any]:
    event = payload["hook_event_name"]
    if payload.get("tool_use_id", "").endswith("again"):
        sleep(PARALLEL_CALL_SECONDS)  # sooner, it would be taken for a twin of the first
    command = build_hook_command("claude-code", demo_home.home)(event)
    _, output = _run_command(["/bin/sh", "-c", command], demo_home, json.dumps(payload))
    answer: dict[str, Any] = json.loads(output).get("hookSpecificOutput", {})
    return answer


def _print_answer(payload: dict[str, Any], answer: dict[str, Any]) -> None:
    if reason := answer.get("permissionDecisionReason"):
        _print_message("hardwon", "denies it, and the agent reads:", fg="yellow")
        _print_message("", reason, fg="yellow")
    elif payload["hook_event_name"] == "PreToolUse":
        note = answer.get("additionalContext", "")
        _print_message(
            "hardwon", "lets it run" + (", and tells what it knows of this file:" if note else ""), fg="green"
        )
        if note:
            _print_message("", note, fg="green")


def _show_distilled(demo_home: DemoHome) -> None:
    _wait_for_distilling(demo_home)
    _build_command_step("sessions", "show", "5eed0003")(demo_home)


def _wait_for_distilling(demo_home: DemoHome) -> None:
    connection = db.connect(demo_home.home)
    deadline = monotonic() + TIMEOUT_SECONDS
    while any(jobs.count_by_state(connection).values()) and monotonic() < deadline:
        sleep(0.05)
    connection.close()


def _build_command_step(*arguments: str) -> DemoStep:
    """A command run as a person would, shown with what it prints."""

    def run_step(demo_home: DemoHome) -> None:
        echo_styled(f"  $ {shlex.join(['hardwon', *arguments])}", fg="cyan")
        echo_indented("  ", _run_hardwon(demo_home, *arguments))

    return run_step


STEPS: tuple[tuple[str, DemoStep], ...] = (
    ("An agent made the same mistake in two sessions", _show_mistakes),
    ("hardwon finds it in the agent's transcripts", _build_command_step("scan")),
    (
        "A person accepts it as a lesson; here the demo plays the person",
        _build_command_step("accept", "1", *ACCEPT_OPTIONS),
    ),
    ("The two sessions are taken in, and the worker distils them", _record_sessions),
    ("The next session: the lesson is there before the mistake", _run_scripted_session),
    ("The session was recorded, and what it meant is written down", _show_distilled),
    ("Everything can be searched", _build_command_step("search", "limiter", "--kind", "observation")),
    ("This is what the next session here opens with", _build_command_step("brief")),
)


def _run_hardwon(demo_home: DemoHome, *arguments: str) -> str:
    command = [sys.executable, "-I", "-m", "hardwon", *arguments]
    exit_code, output = _run_command(command, demo_home, stderr=subprocess.STDOUT)
    if exit_code:
        raise UserError(f"hardwon {arguments[0]} went wrong in the demo: {output.strip()}", "hardwon doctor")
    return output.rstrip()


def _run_command(
    command: Sequence[str], demo_home: DemoHome, stdin_text: str = "", stderr: int | None = None
) -> tuple[int, str]:
    """How a command ended and what it printed. Whoever ends the demo while one is starting has to wait until we know of
    it: nobody else would end it."""
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    try:
        process = subprocess.Popen(
            command,
            cwd=demo_home.project,
            env=dict(demo_home.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, old_mask),  # noqa: PLW1509 (no threads here)
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
    return process.returncode, output


def _open_viewer(demo_home: DemoHome) -> None:
    link = _run_hardwon(demo_home, "view", "--print")
    if not webbrowser.open(link):
        click.echo(f"no browser could be opened; open this link, it works once:\n{link}")
    click.prompt("The viewer shows this home until you press Enter", default="", show_default=False, prompt_suffix=" ")


def _pause_for_reading() -> None:
    if is_interactive():
        sleep(PAUSE_SECONDS)
