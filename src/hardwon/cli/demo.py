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
from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS
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
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ")


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
    for ending in END_SIGNALS:
        signal.signal(ending, _leave)
    with _stage(serving=view) as stage:
        echo_indented("", f"A throwaway home in {stage.home}; yours is not touched.")
        for number, (title, play) in enumerate(STEPS, 1):
            click.echo()
            echo_styled(f"{number}. {title}", bold=True)
            play(stage)
            _pause()
        click.echo()
        if view:
            _view(stage)
    click.echo("The throwaway home is gone.")
    click.echo("next      hardwon demo --view     the same, with the viewer in your browser")
    click.echo("          hardwon up              begin with your own; hardwon view shows it")


def _leave(number: int, _: object) -> NoReturn:
    """So that a demo that is told to end still tidies up."""
    raise SystemExit(128 + number)


@contextmanager
def _stage(*, serving: bool) -> Iterator[DemoHome]:
    usual = tempfile.gettempdir()
    within = usual if len(usual) <= MAX_FOLDER_CHARS else "/tmp"
    with tempfile.TemporaryDirectory(prefix="hardwon-", dir=within) as place:
        home, project = os.path.join(place, ".hardwon"), os.path.join(place, "kite")
        os.mkdir(project)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": place, "HARDWON_HOME": home, "TMPDIR": place, "XDG_RUNTIME_DIR": place, "NO_COLOR": "1"}
        stage = DemoHome(home, project, {**kept, **own, "COLUMNS": str(COLUMNS - 2)})
        config = {"autoScanIntervalHours": -1, "lessonProtocol": False, "apiPort": 0 if serving else -1}
        paths.write_private(os.path.join(home, paths.CONFIG), json.dumps(config).encode())
        try:
            yield stage
        finally:
            _end(home)


def _end(home: str) -> None:
    """A worker that is still on its way up would outlive the home; it is waited for."""
    end = monotonic() + TIMEOUT_SECONDS
    while worker_start.read_failed_starts(home)[0] and not lifecycle.is_lock_held(home) and monotonic() < end:
        sleep(0.02)
    lifecycle.stop_worker(home)


def _mistakes(stage: DemoHome) -> None:
    """The earlier sessions, put where Claude Code keeps its transcripts, and what is to be seen of them."""
    folder = os.path.join(stage.environment["HOME"], ".claude", "projects", stage.project.replace("/", "-"))
    for name, days, when in EARLIER_SESSIONS:
        echo_indented("  ", when, dim=True)
        day = datetime.fromtimestamp(clock.now(), UTC) - timedelta(days=days)
        lines = [line.replace("DAYT", f"{day:%Y-%m-%d}T") for line in _lines(stage, name)]
        paths.write_private(os.path.join(folder, f"{name}.jsonl"), "".join(lines).encode())
        for line in lines:
            _step(json.loads(line)["message"]["content"])


def _lines(stage: DemoHome, name: str) -> list[str]:
    with open(os.path.join(SESSIONS_FOLDER, f"{name}.jsonl"), encoding="utf-8") as file:
        return [line.replace("PROJECT", stage.project) for line in file]


def _step(content: Any) -> None:
    """A line of a transcript, if it is somebody's words, a command or its result."""
    if isinstance(content, str):
        _said("person", content)
    elif content[0]["type"] == "tool_use" and "command" in content[0]["input"]:
        _said("agent", f"$ {content[0]['input']['command']}")
    elif content[0].get("is_error"):
        _said("", content[0]["content"].splitlines()[-1], fg="red")


def _said(who: str, text: str, **style: Any) -> None:
    echo_indented(f"  {who:<9}", text, **style)


def _record(stage: DemoHome) -> None:
    _shown("import", "transcripts")(stage)
    _shown("start")(stage)
    _wait_for_distilling(stage)


def _hold(stage: DemoHome) -> None:
    """A scripted agent: each line is what Claude Code would hand to the installed hook."""
    for line in map(json.loads, _lines(stage, "today")):
        if line["say"]:
            _pause()
            echo_indented("  ", line["say"], dim=True)
        _told(stage, line["hook"])
        _answered(line["hook"], _asked(stage, line["hook"]))


def _told(stage: DemoHome, payload: dict[str, Any]) -> None:
    if payload["hook_event_name"] == "UserPromptSubmit":
        _said("person", payload["prompt"])
    elif payload["hook_event_name"] == "PreToolUse":
        given = payload["tool_input"]
        edits = "" if "command" in given else os.path.relpath(given["file_path"], stage.project)
        _said("agent", f"edits {edits}" if edits else f"$ {given['command']}")


def _asked(stage: DemoHome, payload: dict[str, Any]) -> dict[str, Any]:
    event = payload["hook_event_name"]
    if payload.get("tool_use_id", "").endswith("again"):
        sleep(PARALLEL_CALL_SECONDS)  # sooner, it would be taken for a twin of the first
    command = build_hook_command("claude-code", stage.home)(event)
    _, said = _output(["/bin/sh", "-c", command], stage, json.dumps(payload))
    answer: dict[str, Any] = json.loads(said).get("hookSpecificOutput", {})
    return answer


def _answered(payload: dict[str, Any], answer: dict[str, Any]) -> None:
    if reason := answer.get("permissionDecisionReason"):
        _said("hardwon", "denies it, and the agent reads:", fg="yellow")
        _said("", reason, fg="yellow")
    elif payload["hook_event_name"] == "PreToolUse":
        note = answer.get("additionalContext", "")
        _said("hardwon", "lets it run" + (", and tells what it knows of this file:" if note else ""), fg="green")
        if note:
            _said("", note, fg="green")


def _distil(stage: DemoHome) -> None:
    _wait_for_distilling(stage)
    _shown("sessions", "show", "5eed0003")(stage)


def _wait_for_distilling(stage: DemoHome) -> None:
    connection = db.connect(stage.home)
    end = monotonic() + TIMEOUT_SECONDS
    while any(jobs.count_by_state(connection).values()) and monotonic() < end:
        sleep(0.05)
    connection.close()


def _shown(*words: str) -> DemoStep:
    """A command run as a person would, shown with what it prints."""

    def play(stage: DemoHome) -> None:
        echo_styled(f"  $ {shlex.join(['hardwon', *words])}", fg="cyan")
        echo_indented("  ", _ran(stage, *words))

    return play


STEPS: tuple[tuple[str, DemoStep], ...] = (
    ("An agent made the same mistake in two sessions", _mistakes),
    ("hardwon finds it in the agent's transcripts", _shown("scan")),
    ("A person accepts it as a lesson; here the demo plays the person", _shown("accept", "1", *ACCEPT_OPTIONS)),
    ("The two sessions are taken in, and the worker distils them", _record),
    ("The next session: the lesson is there before the mistake", _hold),
    ("The session was recorded, and what it meant is written down", _distil),
    ("Everything can be searched", _shown("search", "limiter", "--kind", "observation")),
    ("This is what the next session here opens with", _shown("brief")),
)


def _ran(stage: DemoHome, *words: str) -> str:
    command = [sys.executable, "-I", "-m", "hardwon", *words]
    code, said = _output(command, stage, stderr=subprocess.STDOUT)
    if code:
        raise UserError(f"hardwon {words[0]} went wrong in the demo: {said.strip()}", "hardwon doctor")
    return said.rstrip()


def _output(command: Sequence[str], stage: DemoHome, given: str = "", stderr: int | None = None) -> tuple[int, str]:
    """How a command ended and what it printed. Whoever ends the demo while one is starting has to wait until we know of
    it: nobody else would end it."""
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    try:
        running = subprocess.Popen(
            command,
            cwd=stage.project,
            env=dict(stage.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, usual),  # noqa: PLW1509 (no threads here)
        )
        with running:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            try:
                said, _ = running.communicate(given)
            except BaseException:
                os.killpg(running.pid, signal.SIGKILL)
                raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return running.returncode, said


def _view(stage: DemoHome) -> None:
    link = _ran(stage, "view", "--print")
    if not webbrowser.open(link):
        click.echo(f"no browser could be opened; open this link, it works once:\n{link}")
    click.prompt("The viewer shows this home until you press Enter", default="", show_default=False, prompt_suffix=" ")


def _pause() -> None:
    if is_interactive():
        sleep(PAUSE_SECONDS)
