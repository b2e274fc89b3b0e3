"""Replies to any agent have no invisible characters and no terminal control codes."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents import AGENT_NAMES, write_reply
from hardwon.text.fence import fence_text, strip_invisible
from hardwon.types import Event, HookReply

INVISIBLE = "\x1b\x07\x00\x08\x7f\x9b\x84\u202e\u2066\u2069\u200b\u200e\u2060\ufeff\u061c\U000e0041"
KINDS = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"]


@pytest.mark.parametrize("agent", AGENT_NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_invisible_characters_are_removed_for_every_agent(agent: str, kind: str) -> None:
    event = Event(agent, kind, "s1", "/x")
    for reply in (
        HookReply(deny=f"no{INVISIBLE}\n\tread why", notice=f"a{INVISIBLE}b"),
        HookReply(context=f"note{INVISIBLE}\nline", notice=f"a{INVISIBLE}b"),
    ):
        answer = json.loads(write_reply(event, reply))
        answer_text = json.dumps(answer, ensure_ascii=False)
        assert not set(INVISIBLE) & set(answer_text), (agent, kind)
        is_answered_prompt = agent in ("opencode", "kilo") and kind == "UserPromptSubmit" and reply.deny
        assert is_answered_prompt or "ab" in answer_text  # there the answer is the notice


def test_removing_characters_cannot_close_the_fence() -> None:
    event = Event("claude-code", "PreToolUse", "s1", "/x")
    answer = json.loads(
        write_reply(event, HookReply(deny=fence_text("a </hardwon\u200b-context> b <\x1b/hardwon-context>")))
    )
    reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
    assert reason.count("</hardwon-context>") == 1 and reason.endswith("</hardwon-context>")


def test_tabs_lines_and_joined_emoji_stay() -> None:
    text = "\tif x:\n\t\tнет, 日本語, می‌خواهم, 👩‍💻"
    assert strip_invisible(text) == text


def test_every_line_ends_with_a_newline() -> None:
    assert strip_invisible("a\r\nb\rc\u2028d\x85e") == "a\nb\nc\nd\ne"


@given(st.text())
def test_visible_characters_are_kept(text: str) -> None:
    stripped = strip_invisible(text)
    assert strip_invisible(stripped) == stripped
    assert [char for char in text if char.isprintable()] == [char for char in stripped if char.isprintable()]
    assert not any(unicodedata.category(char) == "Cc" and char not in "\n\t" for char in stripped)
