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
from hardwon.agents import MODULES, setup_of
from hardwon.agents.codex import hook_trust

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
FRONT_DOOR = "front-door"
HOOKED = "hooked"


def is_ours(command: str) -> bool:
    return "/hardwon/hook.py" in command


def ledger(home: str) -> dict[str, Any]:
    """What we did to which settings file, so that it can be undone to the letter."""
    try:
        with open(os.path.join(home, paths.INSTALLED), encoding="utf-8", opener=paths.plain_file) as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def places(home: str) -> list[tuple[str, str]]:
    """Every agent with each settings file of it that may hold our hooks."""
    usual = [(name, os.path.realpath(setup_of(name).settings_file())) for name in MODULES]
    noted = [(str(kept["host"]), path) for path, kept in ledger(home).items() if kept.get("host") in MODULES]
    return list(dict.fromkeys([*usual, *noted]))


def tell(home: str) -> None:
    """Write both files anew, by what the settings files say now: a person may have edited them since."""
    _keep(os.path.join(home, FRONT_DOOR), [sys.executable, HOOK])
    hooked = [(name, path) for name, path in places(home) if _has_hooks(name, path)]
    for name in MODULES:
        _keep(os.path.join(home, HOOKED, name), [path for host, path in hooked if host == name])


def _has_hooks(name: str, path: str) -> bool:
    try:
        with open(path, encoding="utf-8", opener=paths.plain_file) as file:
            text = file.read()
        return bool(setup_of(name).installed(text, is_ours)) and (name != "codex" or _runs_them(path, text))
    except (OSError, ValueError):
        return False


def _runs_them(path: str, text: str) -> bool:
    """Whether Codex trusts all of our hooks in this file, by the config beside it."""
    usual = setup_of("codex").settings_file()
    named = usual if os.path.realpath(usual) == path else path
    with open(os.path.join(os.path.dirname(named), "config.toml"), encoding="utf-8", opener=paths.plain_file) as file:
        config = file.read()
    trusted = not hook_trust.distrusted(config, hook_trust.hooks(named, text, is_ours))
    return trusted and not hook_trust.switched_off(config)


def _keep(path: str, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb", opener=paths.plain_file) as file:
            if file.read() == content:
                return
    except OSError:
        pass
    paths.write_private(path, content)
