"""A throwaway machine for bench-prevention: a home with Claude Code's settings, the installed hook, trap repositories.

A session can run in two ways. `run_client` starts the real Claude Code against a model on loopback. `DirectSession`
asks the installed hook, runs the commands itself, and puts the messages together as the client does, which takes
milliseconds instead of seconds; the benchmark proves on a sample that both give the model the same text.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prevention_traps import Trap, build_lesson_file, build_lesson_record, choose_placebo

from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import approve_waiting_changes
from hardwon.lessons import manifest
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.real import claude_code
from tests.real.conversation import Conversation
from tests.real.model_server import Reply, Request, bash

Message = dict[str, Any]

NO_MEMORY, SHAM, START, NOTE = "no memory", "sham", "start", "note"
HOLD, PLACEBO, CROWD, UNINSTALLED = "hold", "placebo", "among fifty", "uninstalled"
ARMS = (NO_MEMORY, SHAM, START, NOTE, HOLD, PLACEBO, CROWD)
ARMS_WITHOUT_HOOK = (NO_MEMORY, CROWD)  # these use settings in which hardwon was never installed
NEAR, FAR = "near", "far"
# A call within 300 ms of a held one counts as made in parallel with it and is held, too. A model takes longer.
THINKING_SECONDS = 0.4
# What hardwon tells agents beside lessons depends on earlier sessions, of which the arms would have different ones.
CONFIG = {
    "askForLessons": False,
    "autoReflect": False,
    "proposeHandoff": False,
    "fileMemory": False,
    "autoScanIntervalHours": -1,
    "apiPort": -1,
}
HARDWON = str(Path(sys.executable).with_name("hardwon"))
NEVER_A_COMMAND = "^never-a-command-7$"
UNRELATED_CALLS = 6
LINES_PER_CALL = 5
UNRELATED_PROMPT = "Read the minutes of the association first, page by page."
UNRELATED_ANSWER = "I have read the minutes."


def build_minutes() -> str:
    """Return a dull text to read between the start of a session and the task."""
    people = ("Agnes", "Bruno", "Carla", "Dmitri", "Edda", "Felix", "Greta")
    topics = ("the summer fair", "the new curtains", "the piano", "the bicycle stands", "the library hours")
    reports = (
        "reports that the offers have come in and that two of them are above what was set aside",
        "asks that the matter be put off until the neighbours have been heard",
        "thanks all who helped and reads out a letter of the district",
    )
    lines = []
    for number in range(UNRELATED_CALLS * LINES_PER_CALL):
        person, topic = people[number % len(people)], topics[number % len(topics)]
        lines.append(f"{number + 1}. On {topic}, {person} {reports[number % len(reports)]}.")
    return "\n".join(lines) + "\n"


def list_unrelated_commands() -> list[str]:
    pages = range(UNRELATED_CALLS)
    return [f"sed -n {page * LINES_PER_CALL + 1},{(page + 1) * LINES_PER_CALL}p MINUTES" for page in pages]


@dataclass(frozen=True, slots=True)
class Case:
    """What distinguishes the text of one session from another's before its first choice."""

    trap: Trap
    arm: str
    distance: str = NEAR
    phrasing: int = 0

    @property
    def prompt(self) -> str:
        return self.trap.prompts[self.phrasing]


@dataclass(frozen=True, slots=True)
class Step:
    """The messages after some choices, and whether each of them ran."""

    messages: Sequence[Message]
    ran: tuple[bool, ...]


class Machine:
    """One home, one worker, and a fresh repository for each session.

    The lessons of all traps and arms are in force at once, each in the folder of its trap and arm only. So hardwon is
    installed once, and no session sees what another left: recorded work is recalled by repository.
    """

    def __init__(self, traps: Sequence[Trap], program: Path | None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hardwon-prevention-"))
        self.program = program
        self._session_numbers = itertools.count(1)
        for name in ("home/.claude", "bare/.claude", "tmp", "bin", "work"):
            (self.root / name).mkdir(parents=True)
        (self.root / "bin" / "hardwon").symlink_to(HARDWON)
        for trap in traps:
            folder = self.root / "stand-ins" / trap.name
            folder.mkdir(parents=True)
            for name, script in trap.build_stand_ins().items():
                (folder / name).write_text(script)
                (folder / name).chmod(0o755)
        self._templates = {trap.name: self._build_repository(trap) for trap in traps}
        self._install(traps)

    def close(self) -> None:
        self.run_hardwon("stop")
        shutil.rmtree(self.root, ignore_errors=True)

    def get_folder(self, trap: Trap, arm: str) -> Path:
        return self.root / "work" / trap.name / arm.replace(" ", "-")

    def build_environment(self, case: Case) -> dict[str, str]:
        environment = {
            "PATH": f"{self.root}/stand-ins/{case.trap.name}:{self.root}/bin:{os.environ['PATH']}",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **claude_code.build_environment(self.root),
        }
        if case.arm in ARMS_WITHOUT_HOOK:
            environment["CLAUDE_CONFIG_DIR"] = str(self.root / "bare" / ".claude")
        return environment

    def run_hardwon(self, *arguments: str) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": str(self.root / "home" / ".claude"),
            "HARDWON_HOME": str(self.root / "hardwon"),
        }
        subprocess.run(
            [HARDWON, *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )

    def _install(self, traps: Sequence[Trap]) -> None:
        home = self.root / "hardwon"
        self.run_hardwon("install", "claude-code", "--yes")
        (home / "config.json").write_text(json.dumps(CONFIG))
        records = [record for trap in traps for record in self._build_records(trap)]
        (home / "lessons.json").write_text(json.dumps({"version": 1, "lessons": records}, indent=1))
        with closing(db.connect(str(home))) as connection:
            _, faults, waiting = manifest.gather_lessons(str(home))
            result = approve_waiting_changes(open_decider(str(home), connection, COMMAND_LINE), waiting)
        if faults or len(waiting) != len(records):
            raise RuntimeError(f"{len(records)} lessons were written, {len(waiting)} read: {faults} {result}")
        self.run_hardwon("start")
        settings = json.loads((self.root / "home" / ".claude" / "settings.json").read_text())
        self._hooks = {
            event: [hook["command"] for entry in entries for hook in entry["hooks"] if "hook.py" in hook["command"]]
            for event, entries in settings["hooks"].items()
        }

    def _build_records(self, trap: Trap) -> list[dict[str, Any]]:
        def build(arm: str, delivery: str, text: Any, pattern: str = "") -> dict[str, Any]:
            folder = str(self.get_folder(trap, arm))
            return build_lesson_record(text, delivery, f"{trap.name}|{arm}", folder, pattern)

        placebo = choose_placebo(trap)
        return [
            build(START, "start", trap.lesson),
            build(NOTE, "note", trap.lesson, trap.pattern),
            build(HOLD, "hold", trap.lesson, trap.pattern),
            build(PLACEBO, "hold", placebo, trap.pattern),
            build(SHAM, "hold", placebo, NEVER_A_COMMAND),
        ]

    def _build_repository(self, trap: Trap) -> Path:
        """Build the repository of a trap once; sessions copy it, so that commits have the same ids everywhere."""
        folder = self.root / "templates" / trap.name / "project"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(f"# {trap.name}\n")
        (folder / "MINUTES").write_text(build_minutes())
        moment = "2026-01-01T00:00:00Z"
        script = f"""
set -e
git init --quiet --initial-branch=main
git config user.name dev
git config user.email dev@example.invalid
git add .
git commit --quiet --message=start
{trap.set_up}
"""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root / "home")}
        environment |= {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        subprocess.run(["/bin/bash", "-c", script], cwd=folder, env=environment, check=True, capture_output=True)
        return folder.parent

    def create_project(self, case: Case) -> Path:
        folder = self.get_folder(case.trap, case.arm) / str(next(self._session_numbers))
        shutil.copytree(self._templates[case.trap.name], folder, symlinks=True)
        if case.arm == CROWD:
            (folder / "project" / "CLAUDE.md").write_text(build_lesson_file(case.trap))
        return folder / "project"

    def ask_hook(self, case: Case, event: str, session: str, project: Path, **fields: object) -> dict[str, Any]:
        """Run the installed hook as Claude Code does, and return its answer."""
        if case.arm in ARMS_WITHOUT_HOOK:
            return {}
        payload = {
            "session_id": session,
            "transcript_path": str(self.root / "home/.claude/projects/none.jsonl"),
            "cwd": str(project),
            "hook_event_name": event,
            "permission_mode": "bypassPermissions",
            **fields,
        }
        answer: dict[str, Any] = {}
        for command in self._hooks.get(event, ()):
            run = subprocess.run(
                ["/bin/sh", "-c", command],
                input=json.dumps(payload),
                capture_output=True,
                text=True,
                cwd=project,
                env=self.build_environment(case),
                timeout=60,
            )
            answer |= json.loads(run.stdout or "{}").get("hookSpecificOutput", {})
        return answer

    def run_client(
        self, case: Case, choose: Callable[[Sequence[Message], int], str | None], *, own_network: bool
    ) -> list[Sequence[Message]]:
        """Run a session of the real client; return the messages at each choice. `choose` gets them and their number."""
        if self.program is None:
            raise RuntimeError("Claude Code is not at hand")
        project = self.create_project(case)
        choice_messages: list[Sequence[Message]] = []
        unrelated = iter(list_unrelated_commands() if case.distance == FAR else ())
        state = {"reads": case.distance == FAR}

        def answer(request: Request) -> Reply:
            if state["reads"]:
                command = next(unrelated, None)
                if command is not None:
                    return bash(command)
                state["reads"] = False
                return Reply(UNRELATED_ANSWER)
            messages = normalize_paths(request.body["messages"], project)
            choice_messages.append(messages)
            choice = choose(messages, len(choice_messages) - 1)
            return bash(choice, delay=THINKING_SECONDS) if choice else Reply("Done.")

        prompts = (UNRELATED_PROMPT, case.prompt) if case.distance == FAR else (case.prompt,)
        conversation = Conversation(answer, prompts, project, self.build_environment(case), own_network)
        session = claude_code.run_session(self.program, conversation)
        if session.exit_code:
            raise RuntimeError(f"Claude Code ended with {session.exit_code}: {session.stderr[-2000:]}")
        return choice_messages


@dataclass
class DirectSession:
    """A session without the client; each sequence of choices is carried out once and remembered."""

    machine: Machine
    case: Case
    _steps: dict[tuple[str, ...], Step] = field(default_factory=dict)
    _opening: list[Message] = field(default_factory=list)
    _path: tuple[str, ...] = ()  # of the open session
    _session: str = ""
    _project: Path = Path()
    _held_at: float = 0.0
    _results: list[tuple[Message, bool]] = field(default_factory=list)

    def follow(self, path: tuple[str, ...]) -> Step:
        """Return what the model reads after these choices."""
        if path not in self._steps:
            if not self._session or self._path != path[: len(self._path)]:
                self._open_session()
            for command in path[len(self._path) :]:
                self._results.append(self._call(command))
            self._path = path
            messages = list(self._opening)
            for command, (result, _) in zip(path, self._results, strict=True):
                messages += [build_call(command), result]
            self._steps[path] = Step(
                normalize_paths(messages, self._project), tuple(has_run for _, has_run in self._results)
            )
        return self._steps[path]

    def _open_session(self) -> None:
        self._session, self._path, self._results, self._held_at = str(uuid.uuid4()), (), [], 0.0
        self._project = self.machine.create_project(self.case)
        if self._opening:
            return  # the hook has no memory of sessions here, so its opening is the same each time
        answer = self.machine.ask_hook(self.case, "SessionStart", self._session, self._project, source="startup")
        blocks = []
        if context := answer.get("additionalContext"):
            blocks.append(build_reminder(f"SessionStart hook additional context: {context}"))
        if self.case.arm == CROWD:
            blocks.append(build_memory_file_block(self._project / "CLAUDE.md"))
        if self.case.distance == NEAR:
            self._opening = [{"role": "user", "content": [*blocks, build_text(self.case.prompt)]}]
            return
        self._opening = [{"role": "user", "content": [*blocks, build_text(UNRELATED_PROMPT)]}]
        for command in list_unrelated_commands():
            self._opening += [build_call(command), self._run(command)]
        self._opening += [
            {"role": "assistant", "content": [build_text(UNRELATED_ANSWER)]},
            {"role": "user", "content": [build_text(self.case.prompt)]},
        ]

    def _call(self, command: str) -> tuple[Message, bool]:
        """Ask the hook about a call and run it unless denied; return the result and whether it ran."""
        time.sleep(max(0.0, self._held_at + THINKING_SECONDS - time.monotonic()))
        tool_input = {"command": command, "description": "as scripted"}
        answer = self.machine.ask_hook(
            self.case,
            "PreToolUse",
            self._session,
            self._project,
            tool_name="Bash",
            tool_input=tool_input,
            tool_use_id=f"toolu_{uuid.uuid4().hex}",
        )
        if answer.get("permissionDecision") == "deny":
            self._held_at = time.monotonic()
            text = f"PreToolUse:Bash hook error: {answer['permissionDecisionReason']}"
            return build_result(text, is_error=True), False
        result = self._run(command)
        if context := answer.get("additionalContext"):
            result["content"].append(build_reminder(f"PreToolUse:Bash hook additional context: {context}"))
        return result, True

    def _run(self, command: str) -> Message:
        if command not in (*self.case.trap.commands, *list_unrelated_commands()):
            # A model that writes freely may ask for anything; only what the trap is about runs on this machine.
            return build_result("Exit code 126\nthis command is not available here", is_error=True)
        run = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self._project,
            env=self.machine.build_environment(self.case),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        if run.returncode:
            return build_result(f"Exit code {run.returncode}\n{run.stdout}".rstrip("\n"), is_error=True)
        return build_result(run.stdout.strip("\n") or "(Bash completed with no output)", is_error=False)


def build_text(text: str) -> Message:
    return {"type": "text", "text": text}


def build_reminder(text: str) -> Message:
    return build_text(f"<system-reminder>\n{text}\n</system-reminder>")


def build_memory_file_block(path: Path) -> Message:
    """Return what Claude Code says about a CLAUDE.md, word for word."""
    return build_reminder(
        "Codebase and user instructions are shown below. Be sure to adhere to these instructions. IMPORTANT: These "
        "instructions OVERRIDE any default behavior and you MUST follow them exactly as written.\n\n"
        f"Contents of {path} (project instructions, checked into the codebase):\n\n{path.read_text().rstrip()}"
    )


def build_call(command: str) -> Message:
    block = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
    return {"role": "assistant", "content": [block]}


def build_result(text: str, *, is_error: bool) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "content": text, "is_error": is_error}]}


def normalize_paths(messages: Sequence[Message], project: Path) -> Sequence[Message]:
    """Replace the session's folder by one that is the same in every session and on every machine."""
    normalized: Sequence[Message] = json.loads(json.dumps(messages).replace(str(project), "/home/dev/project"))
    return normalized
