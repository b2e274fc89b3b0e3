"""Which repositories' lessons a person has trusted, and in which state: a file's hash, not its name."""

from __future__ import annotations

import hashlib
import json
import os

from hardwon import paths
from hardwon.errors import UserError

FILE = os.path.join(".hardwon", "lessons.json")
TRUSTED = "trusted.json"


def lessons_of(project: str) -> str:
    return os.path.join(project, FILE)


def fingerprint(file_path: str) -> str:
    """The hash of a file as it stands; nothing if it cannot be read."""
    try:
        with open(file_path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def path(home: str) -> str:
    return os.path.join(home, TRUSTED)


def trusted(home: str) -> dict[str, str]:
    """The hash that was trusted for each project."""
    try:
        with open(path(home), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as wrong:
        raise UserError(f"{path(home)} cannot be read: {wrong}", "remove it, then: hardwon trust") from None
    return {str(project): str(hash) for project, hash in found.items()} if isinstance(found, dict) else {}


def keep(home: str, projects: dict[str, str]) -> None:
    paths.write_private(path(home), (json.dumps(projects, indent=2) + "\n").encode())
