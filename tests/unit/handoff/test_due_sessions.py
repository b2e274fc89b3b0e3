"""Sessions that were left are found, recorded or not, and each is reflected on once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hardwon import settings
from hardwon.handoff import reflection, transcript_story
from hardwon.handoff.due_sessions import DueTranscript, find_sessions_due_for_reflection
from hardwon.privacy import event_filter
from hardwon.sessions import transcript_import
from hardwon.store import db
from hardwon.types import Event
from tests.support.made_up_transcripts import SESSION, Transcript, build_launch_session

ENDED = 1_772_614_900.0  # soon after the last line of what `launch` tells
MINUTE = 60.0
VALUES: dict[str, Any] = {
    **settings.resolve_settings({}),
    "autoReflect": True,
    "idleMinutes": 15,
    "reflectMinPrompts": 2,
}


class Desk:
    """Owns a home with a folder of transcripts as Claude Code keeps it."""

    def __init__(self, top: Path) -> None:
        self.home, self.folder = str(top / ".hardwon"), top / ".claude" / "projects" / "-home-dev-kite"
        self.folder.mkdir(parents=True)
        self.connection = db.connect(self.home)
        self.environment = {"CLAUDE_CONFIG_DIR": str(top / ".claude")}

    def write(self, told: Transcript) -> str:
        path = told.write(self.folder)
        os.utime(path, (ENDED, ENDED))
        return path

    def left(self, now: float, *denied: str, **values: Any) -> list[DueTranscript]:
        said = {**VALUES, **values}
        return find_sessions_due_for_reflection(
            self.connection,
            self.home,
            said,
            self.environment,
            now=now,
            is_denied=lambda cwd: cwd in denied,
            queue_folder=os.path.join(self.home, "queue"),
        )


@pytest.fixture
def desk(own_home: str) -> Desk:
    return Desk(Path(own_home))


def long() -> Transcript:
    told = build_launch_session()
    told.person("Now the landing, in the same way.")
    told.agent("It cuts no more.")
    return told


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_session_that_was_left_is_found_after_a_while_and_once(desk: Desk, is_recorded: bool) -> None:
    path = desk.write(long())
    if is_recorded:
        transcript_import.import_transcript(desk.home, desk.connection, "claude-code", path, VALUES)
    assert desk.left(ENDED) == []
    (found,) = desk.left(ENDED + 20 * MINUTE)
    assert (found.transcript, found.agent, found.due.reason, found.due.can_use_model) == (
        path,
        "claude-code",
        "idle",
        False,
    )
    reflection.reflect(desk.connection, desk.home, found.transcript, agent=found.agent, now=ENDED + 20 * MINUTE)
    assert desk.left(ENDED + 60 * MINUTE) == []


def test_what_is_denied_short_old_or_turned_off_is_left_alone(desk: Desk) -> None:
    desk.write(long())
    later = ENDED + 20 * MINUTE
    assert desk.left(later, "/home/dev/kite") == []
    assert desk.left(later, autoReflect=False) == []
    assert len(desk.left(later, reflectMinPrompts=9)) == 1  # one prompt is enough where a file was changed
    assert desk.left(ENDED + 100 * 60 * MINUTE) == []
    assert len(desk.left(later)) == 1


def test_a_question_and_its_answer_are_too_short(desk: Desk) -> None:
    told = Transcript()
    told.person("What does the bell tower weigh?")
    told.agent("It weighs nine tons.")
    desk.write(told)
    assert desk.left(ENDED + 20 * MINUTE) == []


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_session_whose_last_prompt_was_private_is_left_alone_until_the_next(desk: Desk, is_recorded: bool) -> None:
    said, told = "<private>who buys us</private>", long()
    told.person(said)
    told.agent("Nobody.")
    later = ENDED + 20 * MINUTE
    if is_recorded:
        transcript_import.import_transcript(desk.home, desk.connection, "claude-code", desk.write(told), VALUES)
        _heard(desk, said)
    else:
        desk.write(told)
    assert desk.left(later) == []
    told.person("Thank you.")
    told.agent("Glad to help.")
    desk.write(told)
    if is_recorded:
        _heard(desk, "Thank you.")
    assert [one.session for one in desk.left(later)] == [SESSION]


def _heard(desk: Desk, prompt: str) -> None:
    event_filter.filter_hook_event(
        Event("claude-code", "UserPromptSubmit", SESSION, "/", id="e1", at=ENDED, prompt=prompt), desk.home, {}
    )


@pytest.mark.parametrize(
    ("command", "is_left_alone"),
    [
        ('git commit -m "Handoff: the landing"', True),
        ("git add -A && git commit -m \"$(cat <<'EOF'\nHandoff: the landing\n\nIt cuts no more.\nEOF\n)\"", True),
        ("git commit --message='docs(kite): session handoff'", True),
        ('git commit -am "session: handoff"', True),
        ("git commit -m \"$(cat <<'EOF'\nMend the handoff page\nEOF\n)\"", False),
    ],
)
def test_what_its_person_handed_off_by_a_commit_is_left_alone(desk: Desk, command: str, is_left_alone: bool) -> None:
    told = long()
    told.bash(command, "[main 1234567] As it was said")
    told.agent("Committed.")
    desk.write(told)
    assert (desk.left(ENDED + 20 * MINUTE) == []) is is_left_alone


@pytest.mark.parametrize("command", ["handoff", "kite:handoff", "review"])
def test_what_its_person_handed_off_by_a_command_is_left_alone(desk: Desk, command: str) -> None:
    told = long()
    told.person(f"<command-message>{command}</command-message>\n<command-name>/{command}</command-name>")
    told.agent("It is written down.")
    desk.write(told)
    assert len(desk.left(ENDED + 20 * MINUTE)) == (command == "review")


def test_a_sub_agents_transcript_is_no_session(desk: Desk) -> None:
    folder = desk.folder / "44444444" / "subagents"
    folder.mkdir(parents=True)
    path = long().write(folder, "agent-1")
    os.utime(path, (ENDED, ENDED))
    assert desk.left(ENDED + 20 * MINUTE) == []


@pytest.mark.parametrize("is_subagent", [True, False])
def test_the_work_of_a_sub_agent_of_codex_is_no_session_that_was_left(desk: Desk, is_subagent: bool) -> None:
    parent, thread = "019f5500-0feb-79c0-a61c-f45ef5610725", "019f5500-c2a3-7ab3-b156-31d8a92b0204"
    meta: dict[str, Any] = {"id": thread, "cwd": "/home/dev/kite", "source": "cli"}
    if is_subagent:
        meta |= {"source": {"subagent": {"thread_spawn": {"parent_thread_id": parent}}}, "session_id": parent}
    call = {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command": ["make", "tail"]}'}
    items: list[dict[str, Any]] = [call, {"type": "function_call_output", "call_id": "c1", "output": "ok"}]
    for prompt, answer in (("Sew the tail of the kite.", "The tail is sewn."), ("Now the string.", "It is tied.")):
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]},
        ]
    lines = [{"type": "session_meta", "payload": meta}, *({"type": "response_item", "payload": item} for item in items)]
    folder = Path(desk.home).parent / ".codex" / "sessions"
    folder.mkdir(parents=True)
    path = folder / f"rollout-2026-03-04T09-00-00-{thread}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-03-04T09:00:00Z", **line}) + "\n" for line in lines))
    os.utime(path, (ENDED, ENDED))
    desk.environment["CODEX_HOME"] = str(folder.parent)
    assert len(desk.left(ENDED + 20 * MINUTE)) == (0 if is_subagent else 1)
    story = transcript_story.read_story(str(path), "codex")
    assert (story.session, story.is_subagent) == (thread, is_subagent)
