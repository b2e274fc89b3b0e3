"""Tokens as the agents' own transcripts count them: what the model was given, what it wrote.

A message's usage is told several times: with each of its blocks, or again when more of it is known. So what was counted
for the latest messages is kept, and what is told again takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hardwon.agents.transcript_json import forget_oldest, shorten_id

UsageCounter = dict[str, Any]  # as it is stored with a reader's state
_TOTAL_NAMES = ("in", "out", "cached")
_MAX_LATEST = 8  # messages that may be told again


class TokenUsage(NamedTuple):
    """Tokens in, those read from or written to a cache included; tokens out; and how many of those in were cached."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


def create_counter(state: object = None) -> UsageCounter:
    """Return a counter that goes on from a stored one."""
    stored = state if isinstance(state, dict) else {}
    latest = stored.get("latest")
    return {
        **{name: _read_count(stored.get(name)) for name in _TOTAL_NAMES},
        "latest": dict(latest) if isinstance(latest, dict) else {},
        "seen": bool(stored.get("seen")),
    }


def count_usage(counter: UsageCounter, message: str, usage: TokenUsage) -> None:
    """Count what a message took, in place of what was counted for it before."""
    previous = counter["latest"].pop(shorten_id(message), (0, 0, 0)) if message else (0, 0, 0)
    for name, old_count, new_count in zip(_TOTAL_NAMES, previous, usage, strict=True):
        counter[name] += new_count - old_count
    if message:
        counter["latest"][shorten_id(message)] = list(usage)
        forget_oldest(counter["latest"], _MAX_LATEST)
    counter["seen"] = True


def get_total_usage(counter: Mapping[str, Any]) -> TokenUsage | None:
    """Return all that was counted, None if the transcript tells of no tokens."""
    if not counter.get("seen"):
        return None
    return TokenUsage(*(_read_count(counter.get(name)) for name in _TOTAL_NAMES))


def parse_claude_code_usage(usage: Mapping[str, Any]) -> TokenUsage:
    cached = _read_count(usage.get("cache_read_input_tokens"))
    written_to_cache = _read_count(usage.get("cache_creation_input_tokens"))
    tokens_in = _read_count(usage.get("input_tokens")) + cached + written_to_cache
    return TokenUsage(tokens_in, _read_count(usage.get("output_tokens")), cached)


def parse_codex_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Codex counts what was cached among the input, and reasoning among the output."""
    cached = _read_count(usage.get("cached_input_tokens"))
    return TokenUsage(_read_count(usage.get("input_tokens")), _read_count(usage.get("output_tokens")), cached)


def parse_gemini_usage(usage: Mapping[str, Any]) -> TokenUsage:
    tokens_out = _read_count(usage.get("output")) + _read_count(usage.get("thoughts"))
    return TokenUsage(_read_count(usage.get("input")), tokens_out, _read_count(usage.get("cached")))


def parse_opencode_usage(usage: Mapping[str, Any]) -> TokenUsage:
    cache = usage.get("cache")
    cache = cache if isinstance(cache, dict) else {}
    cached = _read_count(cache.get("read"))
    tokens_in = _read_count(usage.get("input")) + cached + _read_count(cache.get("write"))
    return TokenUsage(tokens_in, _read_count(usage.get("output")) + _read_count(usage.get("reasoning")), cached)


def _read_count(value: object) -> int:
    """Return a count; what is no number, or out of all bounds, counts nothing."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return value if isinstance(value, int) and is_count else 0
