"""Gemini CLI: hooks and MCP servers in one settings.json, with times in milliseconds."""

from __future__ import annotations

import json
import os

from hardwon import projects
from hardwon.agents.fields import get_list, get_object
from hardwon.agents.gemini import EVENT_TIMEOUTS, NATIVE_EVENT_NAMES
from hardwon.agents.hook_settings import HookSettings, TrustFinding
from hardwon.agents.settings_files import SERVER_NAME, get_value
from hardwon.paths import read_text


def find_folder() -> str:
    """Return the folder of Gemini CLI; a variable may name another home for it."""
    gemini_home = os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~")
    return os.path.join(gemini_home, ".gemini")


def find_plugin() -> str:
    """Return the folder of hardwon's extension; empty if it is not installed."""
    folder = os.path.join(find_folder(), "extensions", SERVER_NAME)
    return folder if os.path.isdir(folder) else ""


def check_trust(text: str) -> TrustFinding | None:
    """Check that Gemini CLI runs hooks in this project: it does so only in folders that a person trusts."""
    obstacle = find_hook_obstacle(text, projects.find_git_root(os.getcwd()))
    return (None, obstacle, SETTINGS.next_step) if obstacle else None


def find_hook_obstacle(text: str, folder: str) -> str:
    """Return why hooks in these settings do not run in a folder; empty if they do."""
    settings = get_value(text)
    switches = get_object(settings, "hooksConfig")
    if switches.get("enabled") is False or SERVER_NAME in get_list(switches, "disabled"):
        return f"hooksConfig in {SETTINGS.get_settings_path()} switches them off"
    folder_trust = get_object(get_object(settings, "security"), "folderTrust")
    if folder_trust.get("enabled") is False or _is_trusted_folder(folder):
        return ""
    return f"{SETTINGS.title} was not told to trust {folder}"


def _is_trusted_folder(folder: str) -> bool:
    """Return the person's decision for the nearest folder at or above this one."""
    default_path = os.path.join(find_folder(), "trustedFolders.json")
    try:
        trust_path = os.environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or default_path
        trust_levels = json.loads(read_text(trust_path))
    except (OSError, ValueError):
        return False
    if not isinstance(trust_levels, dict):
        return False
    real_folder = os.path.realpath(folder)
    nearest_root, nearest_level = "", ""
    for path, level in trust_levels.items():
        trusted_folder = os.path.dirname(path) if level == "TRUST_PARENT" else path
        root = os.path.realpath(trusted_folder)
        is_above = f"{real_folder}/".startswith(f"{root.rstrip('/')}/")
        if is_above and len(root) >= len(nearest_root):
            nearest_root, nearest_level = root, level
    return nearest_level in ("TRUST_FOLDER", "TRUST_PARENT")


SETTINGS = HookSettings(
    title="Gemini CLI",
    program="gemini",
    minimum_version=(0, 40, 0),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.gemini",
    folder_finder=find_folder,
    server_file_name="settings.json",
    event_names=NATIVE_EVENT_NAMES,
    timeout_unit=1000,
    is_stderr_shown=True,
    hook_fields={"name": SERVER_NAME},  # a person can switch off all hooks of this name in the program
    next_step=(
        "Gemini CLI runs hooks only in folders that you trust: say so when it asks, or type /permissions trust in it"
    ),
    shell_tool="run_shell_command",
    probe_fields={"timestamp": "2026-01-01T00:00:00.000Z"},
    plugin_finder=find_plugin,
    trust_checker=check_trust,
)
