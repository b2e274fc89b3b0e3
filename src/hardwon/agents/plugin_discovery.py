"""How a plugin finds us, and how it knows that it is not needed.

A plugin is a few files in an agent's own folder, without a path to us. Its shell script reads two files of our home,
which costs it no process: `front-door` has the interpreter and the hook, a line each, and `hooked/HOST` has the
settings files of that agent that run our hooks by themselves, as far as could be seen when it was written.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import hardwon
from hardwon import paths
from hardwon.agents import AGENT_PACKAGES, load_install_module
from hardwon.agents.codex import hook_trust

HOOK_PATH = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
HOOK_LOCATION_FILE = "front-door"
HOOKED_SETTINGS_FOLDER = "hooked"


def is_hardwon_hook(command: str) -> bool:
    return "/hardwon/hook.py" in command


def read_install_ledger(home: str) -> dict[str, Any]:
    """What we did to which settings file, so that it can be undone to the letter."""
    try:
        with open(os.path.join(home, paths.INSTALL_LEDGER), encoding="utf-8", opener=paths.open_plain_file) as file:
            ledger = json.load(file)
        return ledger if isinstance(ledger, dict) else {}
    except (OSError, ValueError):
        return {}


def list_settings_files(home: str) -> list[tuple[str, str]]:
    """Every agent with each settings file of it that may hold our hooks."""
    default_files = [(name, os.path.realpath(load_install_module(name).get_settings_path())) for name in AGENT_PACKAGES]
    ledger_files = [
        (str(entry["host"]), path)
        for path, entry in read_install_ledger(home).items()
        if entry.get("host") in AGENT_PACKAGES
    ]
    return list(dict.fromkeys([*default_files, *ledger_files]))


def write_discovery_files(home: str) -> None:
    """Write both files anew, by what the settings files say now: a person may have edited them since."""
    _write_if_changed(os.path.join(home, HOOK_LOCATION_FILE), [sys.executable, HOOK_PATH])
    hooked_files = [(name, path) for name, path in list_settings_files(home) if _has_hooks(name, path)]
    for name in AGENT_PACKAGES:
        _write_if_changed(
            os.path.join(home, HOOKED_SETTINGS_FOLDER, name), [path for agent, path in hooked_files if agent == name]
        )


def _has_hooks(name: str, path: str) -> bool:
    try:
        with open(path, encoding="utf-8", opener=paths.open_plain_file) as file:
            text = file.read()
        return bool(load_install_module(name).find_hooks(text, is_hardwon_hook)) and (
            name != "codex" or _has_trusted_hooks(path, text)
        )
    except (OSError, ValueError):
        return False


def _has_trusted_hooks(path: str, text: str) -> bool:
    """Whether Codex trusts all of our hooks in this file, by the config beside it."""
    default_path = load_install_module("codex").get_settings_path()
    settings_path = default_path if os.path.realpath(default_path) == path else path
    with open(
        os.path.join(os.path.dirname(settings_path), "config.toml"), encoding="utf-8", opener=paths.open_plain_file
    ) as file:
        config = file.read()
    is_trusted = not hook_trust.find_distrusted_hooks(
        config, hook_trust.list_hooks(settings_path, text, is_hardwon_hook)
    )
    return is_trusted and not hook_trust.has_hooks_disabled(config)


def _write_if_changed(path: str, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb", opener=paths.open_plain_file) as file:
            if file.read() == content:
                return
    except OSError:
        pass
    paths.write_private(path, content)
