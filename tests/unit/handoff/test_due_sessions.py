"""Idle sessions are found, recorded or not, and each is reflected on once."""

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
from hardwon.types import Event
from tests.support.made_up_transcripts import SESSION, Transcript, build_launch_session
from tests.support.new_store import connect_to_new_store

ENDED = 1_772_614_900.0  # soon after the last line of the launch session
MINUTE = 60.0
VALUES: dict[str, Any] = {
    **settings.resolve_settings({}),
    "autoReflect": True,
    "idleMinutes": 15,
    "reflectMinPrompts": 2,
}


class TranscriptHome:
    """A home with a folder of transcripts as Claude Code keeps it."""

    def __init__(self, top: Path) -> None:
        self.home, self.folder = str(top / ".hardwon"), top / ".claude" / "projects" / "-home-dev-kite"
        self.folder.mkdir(parents=True)
        self.connection = connect_to_new_store(self.home)
        self.environment = {"CLAUDE_CONFIG_DIR": str(top / ".claude")}

    def write(self, transcript: Transcript) -> str:
        path = transcript.write(self.folder)
        os.utime(path, (ENDED, ENDED))
        return path

    def find_due(self, now: float, *denied: str, **values: Any) -> list[DueTranscript]:
        resolved = {**VALUES, **values}
        return find_sessions_due_for_reflection(
            self.connection,
            self.home,
            resolved,
            self.environment,
            now=now,
            is_denied=lambda cwd: cwd in denied,
            queue_folder=os.path.join(self.home, "queue"),
        )


@pytest.fixture
def transcript_home(own_home: str) -> TranscriptHome:
    return TranscriptHome(Path(own_home))


def build_long_session() -> Transcript:
    transcript = build_launch_session()
    transcript.person("Now the landing, in the same way.")
    transcript.agent("It cuts no more.")
    return transcript


@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_idle_session_is_due_after_a_while_and_only_once(transcript_home: TranscriptHome, is_recorded: bool) -> None:
    path = transcript_home.write(build_long_session())
    if is_recorded:
        transcript_import.import_transcript(
            transcript_home.home, transcript_home.connection, "claude-code", path, VALUES
        )
    assert transcript_home.find_due(ENDED) == []
    (due_transcript,) = transcript_home.find_due(ENDED + 20 * MINUTE)
    assert (
        due_transcript.transcript,
        due_transcript.agent,
        due_transcript.due.reason,
        due_transcript.due.can_use_model,
    ) == (
        path,
        "claude-code",
        "idle",
        False,
    )
    reflection.reflect(
        transcript_home.connection,
        transcript_home.home,
        due_transcript.transcript,
        reflection.ReflectionOptions(),
        agent=due_transcript.agent,
        now=ENDED + 20 * MINUTE,
    )
    assert transcript_home.find_due(ENDED + 60 * MINUTE) == []


def test_a_denied_or_old_session_is_not_due_nor_any_when_turned_off(transcript_home: TranscriptHome) -> None:
    transcript_home.write(build_long_session())
    later = ENDED + 20 * MINUTE
    assert transcript_home.find_due(later, "/home/dev/kite") == []
    assert transcript_home.find_due(later, autoReflect=False) == []
    assert (
        len(transcript_home.find_due(later, reflectMinPrompts=9)) == 1
    )  # one prompt is enough where a file was changed
    assert transcript_home.find_due(ENDED + 100 * 60 * MINUTE) == []
    assert len(transcript_home.find_due(later)) == 1


def test_a_question_and_its_answer_are_too_short(transcript_home: TranscriptHome) -> None:
    transcript = Transcript()
    transcript.person("What does the bell tower weigh?")
    transcript.agent("It weighs nine tons.")
    transcript_home.write(transcript)
    assert transcript_home.find_due(ENDED + 20 * MINUTE) == []


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_session_is_not_due_after_a_private_prompt_until_the_next_prompt(
    transcript_home: TranscriptHome, is_recorded: bool
) -> None:
    private_prompt, transcript = "<private>who buys us</private>", build_long_session()
    transcript.person(private_prompt)
    transcript.agent("Nobody.")
    later = ENDED + 20 * MINUTE
    if is_recorded:
        transcript_import.import_transcript(
            transcript_home.home, transcript_home.connection, "claude-code", transcript_home.write(transcript), VALUES
        )
        record_prompt(transcript_home, private_prompt)
    else:
        transcript_home.write(transcript)
    assert transcript_home.find_due(later) == []
    transcript.person("Thank you.")
    transcript.agent("Glad to help.")
    transcript_home.write(transcript)
    if is_recorded:
        record_prompt(transcript_home, "Thank you.")
    assert [due_transcript.session for due_transcript in transcript_home.find_due(later)] == [SESSION]


def record_prompt(transcript_home: TranscriptHome, prompt: str) -> None:
    event_filter.filter_hook_event(
        Event("claude-code", "UserPromptSubmit", SESSION, "/", id="e1", at=ENDED, prompt=prompt),
        transcript_home.home,
        {},
    )


@pytest.mark.parametrize(
    ("command", "is_handed_off"),
    [
        ('git commit -m "Handoff: the landing"', True),
        ("git add -A && git commit -m \"$(cat <<'EOF'\nHandoff: the landing\n\nIt cuts no more.\nEOF\n)\"", True),
        ("git commit --message='docs(kite): session handoff'", True),
        ('git commit -am "session: handoff"', True),
        ("git commit -m \"$(cat <<'EOF'\nMend the handoff page\nEOF\n)\"", False),
    ],
)
def test_a_session_handed_off_by_a_commit_is_not_due(
    transcript_home: TranscriptHome, command: str, is_handed_off: bool
) -> None:
    transcript = build_long_session()
    transcript.bash(command, "[main 1234567] As it was said")
    transcript.agent("Committed.")
    transcript_home.write(transcript)
    assert (transcript_home.find_due(ENDED + 20 * MINUTE) == []) is is_handed_off


@pytest.mark.parametrize("command", ["handoff", "kite:handoff", "review"])
def test_a_session_handed_off_by_a_command_is_not_due(transcript_home: TranscriptHome, command: str) -> None:
    transcript = build_long_session()
    transcript.person(f"<command-message>{command}</command-message>\n<command-name>/{command}</command-name>")
    transcript.agent("It is written down.")
    transcript_home.write(transcript)
    assert len(transcript_home.find_due(ENDED + 20 * MINUTE)) == (command == "review")


def test_a_subagents_transcript_is_not_due(transcript_home: TranscriptHome) -> None:
    folder = transcript_home.folder / "44444444" / "subagents"
    folder.mkdir(parents=True)
    path = build_long_session().write(folder, "agent-1")
    os.utime(path, (ENDED, ENDED))
    assert transcript_home.find_due(ENDED + 20 * MINUTE) == []


@pytest.mark.parametrize("is_subagent", [True, False])
def test_a_subagent_thread_of_codex_is_not_due(transcript_home: TranscriptHome, is_subagent: bool) -> None:
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
    folder = Path(transcript_home.home).parent / ".codex" / "sessions"
    folder.mkdir(parents=True)
    path = folder / f"rollout-2026-03-04T09-00-00-{thread}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-03-04T09:00:00Z", **line}) + "\n" for line in lines))
    os.utime(path, (ENDED, ENDED))
    transcript_home.environment["CODEX_HOME"] = str(folder.parent)
    assert len(transcript_home.find_due(ENDED + 20 * MINUTE)) == (0 if is_subagent else 1)
    story = transcript_story.read_story(str(path), "codex")
    assert (story.session, story.is_subagent) == (thread, is_subagent)
