"""Store which repositories' lessons a person has trusted, by the hash of the file and not by its name."""

from __future__ import annotations

import hashlib
import json
import os
import stat

from hardwon import paths
from hardwon.errors import UserError
from hardwon.lessons.lessons_file import MAX_FILE_BYTES

PROJECT_LESSONS_FILE = os.path.join(".hardwon", "lessons.json")


def get_project_lessons_path(project: str) -> str:
    return os.path.join(project, PROJECT_LESSONS_FILE)


def read_project_lessons(file_path: str) -> bytes:
    """Return a repository's file; UserError if it is too large, or not a plain file, which may never end."""
    try:
        descriptor = os.open(file_path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            file_stat = os.fstat(descriptor)
            if not stat.S_ISREG(file_stat.st_mode):
                raise UserError(f"{file_path} is not a plain file", "put a file of lessons there")
            if file_stat.st_size > MAX_FILE_BYTES:
                raise UserError(
                    f"{file_path} has {file_stat.st_size >> 20} MB, more than {MAX_FILE_BYTES >> 20}", "split it"
                )
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise UserError(f"{file_path} cannot be read: {error.strerror}", "fix or remove that file") from None


def hash_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_file(file_path: str) -> str:
    """Return the hash of a file; nothing if it cannot be read."""
    try:
        return hash_bytes(read_project_lessons(file_path))
    except UserError:
        return ""


def get_trust_path(home: str) -> str:
    return os.path.join(home, paths.TRUSTED_PROJECTS)


def read_trusted_hashes(home: str) -> dict[str, str]:
    """Return the hash that was trusted for each project."""
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
    return (
        {str(project): str(content_hash) for project, content_hash in document.items()}
        if isinstance(document, dict)
        else {}
    )


def write_trusted_hashes(home: str, projects: dict[str, str]) -> None:
    paths.write_private(get_trust_path(home), (json.dumps(projects, indent=2) + "\n").encode())
