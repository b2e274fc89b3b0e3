"""Tokens are those that the transcript counts, each message once, however often it tells of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardwon.agents.transcript_steps import TokenUsage, get_total_usage, load_transcript_module

CLAUDE = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7}


def said(id: str, used: object, uuid: str) -> dict[str, Any]:
    message = {"id": id, "role": "assistant", "content": [{"type": "text", "text": "x"}], "usage": used}
    return {"type": "assistant", "uuid": uuid, "sessionId": "s", "message": message}


def counted(last: dict[str, int], total: int) -> dict[str, Any]:
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def answered(id: str, tokens: object, **more: object) -> dict[str, Any]:
    return {"id": id, "timestamp": "t", "type": "gemini", "content": "x", "tokens": tokens, **more}


CODEX = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 5, "reasoning_output_tokens": 2}
GEMINI = {"input": 40, "output": 4, "cached": 30, "thoughts": 1, "total": 45}
OPENCODE = {"input": 8, "output": 3, "reasoning": 1, "cache": {"read": 20, "write": 2}}
EXPORT = {
    "info": {"id": "ses_1"},
    "messages": [{"info": {"id": f"m{number}", "role": "assistant", "tokens": OPENCODE}} for number in range(2)],
}
TOLD = {
    "claude-code": (
        [said("m1", {**CLAUDE, "output_tokens": 1}, "a"), said("m1", CLAUDE, "b"), said("m2", CLAUDE, "c")],
        TokenUsage(226, 14, 200),
    ),
    "codex": ([counted(CODEX, 55), counted(CODEX, 55), counted(CODEX, 110)], TokenUsage(100, 10, 40)),
    "gemini": (
        [answered("m1", GEMINI), answered("m1", GEMINI, toolCalls=[]), answered("m2", GEMINI)],
        TokenUsage(80, 10, 60),
    ),
    "opencode": ([EXPORT], TokenUsage(60, 8, 40)),
}


@pytest.mark.parametrize("host", TOLD)
def test_each_message_is_counted_once_also_when_reading_stops_in_between(host: str) -> None:
    lines, expected = TOLD[host]
    reader = load_transcript_module(host).Reader()
    for number, line in enumerate(lines, 1):
        list(reader.read_line(number, json.dumps(line).encode()))
        reader = load_transcript_module(host).Reader(json.loads(json.dumps(vars(reader))))
    assert get_total_usage(reader.usage) == expected


@pytest.mark.parametrize("host", TOLD)
def test_a_transcript_that_tells_of_no_tokens_has_none(host: str) -> None:
    assert get_total_usage(load_transcript_module(host).Reader().usage) is None


@pytest.mark.parametrize(
    "used", [None, 7, [], {"output_tokens": "many"}, {"output_tokens": -5}, {"output_tokens": 1e9}]
)
def test_what_is_no_count_counts_nothing(used: object) -> None:
    reader = load_transcript_module("claude-code").Reader()
    list(reader.read_line(1, json.dumps(said("m1", used, "a")).encode()))
    assert (get_total_usage(reader.usage) or TokenUsage()) == TokenUsage()
