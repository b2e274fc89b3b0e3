"""Token usage counts each message of a transcript once, however often it is repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardwon.agents.transcript_steps import TokenUsage, get_total_usage, load_transcript_module

CLAUDE = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7}


def build_claude_line(message_id: str, usage: object, uuid: str) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "content": [{"type": "text", "text": "x"}], "usage": usage}
    return {"type": "assistant", "uuid": uuid, "sessionId": "s", "message": message}


def build_codex_line(last: dict[str, int], total: int) -> dict[str, Any]:
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def build_gemini_line(message_id: str, tokens: object, **fields: object) -> dict[str, Any]:
    return {"id": message_id, "timestamp": "t", "type": "gemini", "content": "x", "tokens": tokens, **fields}


CODEX = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 5, "reasoning_output_tokens": 2}
GEMINI = {"input": 40, "output": 4, "cached": 30, "thoughts": 1, "total": 45}
OPENCODE = {"input": 8, "output": 3, "reasoning": 1, "cache": {"read": 20, "write": 2}}
EXPORT = {
    "info": {"id": "ses_1"},
    "messages": [{"info": {"id": f"m{number}", "role": "assistant", "tokens": OPENCODE}} for number in range(2)],
}
TRANSCRIPTS = {
    "claude-code": (
        [
            build_claude_line("m1", {**CLAUDE, "output_tokens": 1}, "a"),
            build_claude_line("m1", CLAUDE, "b"),
            build_claude_line("m2", CLAUDE, "c"),
        ],
        TokenUsage(226, 14, 200),
    ),
    "codex": (
        [build_codex_line(CODEX, 55), build_codex_line(CODEX, 55), build_codex_line(CODEX, 110)],
        TokenUsage(100, 10, 40),
    ),
    "gemini": (
        [
            build_gemini_line("m1", GEMINI),
            build_gemini_line("m1", GEMINI, toolCalls=[]),
            build_gemini_line("m2", GEMINI),
        ],
        TokenUsage(80, 10, 60),
    ),
    "opencode": ([EXPORT], TokenUsage(60, 8, 40)),
}


@pytest.mark.parametrize("host", TRANSCRIPTS)
def test_each_message_is_counted_once_even_when_reading_is_resumed(host: str) -> None:
    lines, expected = TRANSCRIPTS[host]
    reader = load_transcript_module(host).Reader()
    for number, line in enumerate(lines, 1):
        list(reader.read_line(number, json.dumps(line).encode()))
        reader = load_transcript_module(host).Reader(json.loads(json.dumps(vars(reader))))
    assert get_total_usage(reader.usage) == expected


@pytest.mark.parametrize("host", TRANSCRIPTS)
def test_a_transcript_without_token_counts_has_no_usage(host: str) -> None:
    assert get_total_usage(load_transcript_module(host).Reader().usage) is None


@pytest.mark.parametrize(
    "usage", [None, 7, [], {"output_tokens": "many"}, {"output_tokens": -5}, {"output_tokens": 1e9}]
)
def test_an_invalid_count_counts_nothing(usage: object) -> None:
    reader = load_transcript_module("claude-code").Reader()
    list(reader.read_line(1, json.dumps(build_claude_line("m1", usage, "a")).encode()))
    assert (get_total_usage(reader.usage) or TokenUsage()) == TokenUsage()
