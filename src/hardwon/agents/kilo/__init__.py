"""Kilo: opencode's plugins, with the same hooks and payloads."""

from __future__ import annotations

from hardwon.agents.opencode import EVENT_TIMEOUTS, parse_plugin_payload, render_reply
from hardwon.types import Event

__all__ = ["EVENT_TIMEOUTS", "parse_payload", "render_reply"]


def parse_payload(kind: str, payload: bytes) -> Event | None:
    return parse_plugin_payload("kilo", kind, payload)
