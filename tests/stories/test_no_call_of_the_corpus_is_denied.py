"""No call of a real session concerned hardwon, so none may be denied."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hardwon.agents import AGENT_NAMES
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.agents.transcript_steps import Step, load_transcript_module
from hardwon.self_protection.commands import judge_call
from hardwon.types import Event
from tests.support.transcript_reading import CORPUS

FOLDERS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini"}
ABOVE_PEOPLE = ("/Users/", "/home/")


@pytest.fixture
def home(own_home: str) -> str:
    """The home of a person who has hardwon's hooks in the settings of every agent."""
    home = os.path.join(own_home, ".hardwon")
    os.makedirs(home)
    for name in AGENT_NAMES:
        settings = load_settings(name)
        text, _ = settings.add_hooks(settings.empty_settings, build_hook_command(name, home))
        os.makedirs(os.path.dirname(settings.get_settings_path()), exist_ok=True)
        with open(settings.get_settings_path(), "w") as file:
            file.write(text)
    return home


def read_calls(folder: str) -> Iterator[tuple[str, Step]]:
    top = os.path.join(CORPUS, folder)
    if not os.path.isdir(top):
        pytest.skip("the corpus of real transcripts is not beside this checkout (../shared/corpus)")
    for folder_path, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            reader = load_transcript_module(FOLDERS[folder]).Reader()
            with open(os.path.join(folder_path, name), "rb") as file:
                for number, line in enumerate(file, 1):
                    steps = reader.read_line(number, line)
                    yield from ((f"{folder_path}/{name}:{number}", step) for step in steps if step.kind == "call")


def find_person(cwd: str) -> str:
    """Return the own folder of the person who works in this one."""
    for above in ABOVE_PEOPLE:
        if cwd.startswith(above):
            return above + cwd.removeprefix(above).partition("/")[0]
    return "/root"


def to_event(step: Step, person: str) -> Event:
    """Return the call as the same person's on this machine, whose own folder is `person`."""
    recorded_person = find_person(step.cwd)

    def move(text: str) -> str:
        return text.replace(recorded_person, person)

    path, content = move(step.path), move(step.content)
    tool_input = {"file_path": path, "path": path, "old_string": "", "new_string": content, "command": step.command}
    if step.tool == "Write":
        tool_input = {"file_path": path, "content": content}
    return Event(
        "claude-code",
        "PreToolUse",
        "s",
        move(step.cwd),
        tool=step.tool,
        command=move(step.command),
        path=path,
        content=content,
        input=tool_input,
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_call_of_a_real_session_is_denied(home: str, own_home: str, folder: str) -> None:
    denied, count = [], 0
    for location, step in read_calls(folder):
        count += 1
        if reason := judge_call(to_event(step, own_home), home):
            denied.append(f"{location}: {step.tool} {step.command[:300] or step.path}: {reason[:200]}")
    assert count > 100 or folder == "gemini"
    assert denied == []
