"""Kilo: opencode's plugin and settings, in a folder of its own."""

from __future__ import annotations

from hardwon.agents.opencode.install import build_settings

SETTINGS = build_settings("Kilo", "kilo", (7, 7, 7), "https://app.kilo.ai/config.json")
