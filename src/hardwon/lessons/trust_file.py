"""Store which repositories' lessons a person trusts, by the hash of the file."""

from __future__ import annotations

import hashlib
import json
import os

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons.lessons_file import read_plain_file

PROJECT_LESSONS_FILE = os.path.join(".hardwon", "lessons.json")


def get_project_lessons_path(project: str) -> str:
    return os.path.join(project, PROJECT_LESSONS_FILE)


def read_project_lessons(file_path: str) -> bytes:
    """Return a repository's lessons file; UserError if it is too large or not a regular file, which may never end."""
    try:
        return read_plain_file(file_path)
    except FileNotFoundError:
        raise UserError(f"{file_path} cannot be read: no such file", "fix or remove that file") from None


def hash_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_file(file_path: str) -> str:
    """Return the hash of a file; empty if it cannot be read."""
    try:
        return hash_bytes(read_project_lessons(file_path))
    except UserError:
        return ""


def get_trust_path(home: str) -> str:
    return os.path.join(home, paths.TRUSTED_PROJECTS)


def read_trusted_hashes(home: str) -> dict[str, str]:
    """Return the trusted hash of each project."""
    try:
        with open(get_trust_path(home), encoding="utf-8", opener=paths.open_plain_file) as file:
            document = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{get_trust_path(home)} cannot be read: {reason}",
            f"mv {get_trust_path(home)} {get_trust_path(home)}.old; hardwon trust",
        ) from None
    if not isinstance(document, dict):
        return {}
    return {str(project): str(content_hash) for project, content_hash in document.items()}


def write_trusted_hashes(home: str, projects: dict[str, str]) -> None:
    paths.write_private(get_trust_path(home), (json.dumps(projects, indent=2) + "\n").encode())
