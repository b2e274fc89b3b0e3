"""Kilo: opencode's plugin and settings, in a folder of its own."""

from __future__ import annotations

from hardwon.agents.opencode.install import PluginSettings

SETTINGS = PluginSettings(
    title="Kilo",
    program="kilo",
    minimum_version=(7, 7, 7),
    folder="kilo",
    project_folder=".kilo",
    server_file_name="kilo.json",
    schema_url="https://app.kilo.ai/config.json",
)
