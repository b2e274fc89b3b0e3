"""Project and date filters of a query, and an up-to-date store for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import Any

from hardwon import projects
from hardwon.errors import UserError
from hardwon.search import indexing
from hardwon.store import db, documents
from hardwon.store.db import Connection

ALL_PROJECTS = "*"
REFRESH_SECONDS = 2.0  # spent on updating the index before a query
_DAYS_PER_UNIT = {"d": 1, "w": 7}
SpoolDrainer = Callable[[str, Connection, Callable[[str, str], str]], object]
PromptHandler = Callable[[str, str, str], str]


@contextmanager
def open_store(home: str, drain: SpoolDrainer, handle_prompt: PromptHandler) -> Iterator[Connection]:
    """Open the home's database, import the spool, and bring the index up to date as far as time allows.

    Each query has its own connection, because queries run in parallel and the database may have been restored.
    """
    with db.open(home) as connection:
        drain(home, connection, lambda prompt, cwd: handle_prompt(home, prompt, cwd))
        deadline = monotonic() + REFRESH_SECONDS
        indexing.refresh_index(connection, home, model=None, should_continue=lambda: monotonic() < deadline)
        yield connection


def resolve_project(
    connection: Connection, project: str, folder: str, fix: str = f'project="{ALL_PROJECTS}" asks for every one'
) -> str:
    """Return the path or name of the requested project, by default that of the folder; empty for all."""
    if project == ALL_PROJECTS:
        return ""
    if "\0" in project:
        raise UserError("a project's name or path has no NUL character", fix)
    if not project:
        return projects.find_project_path(os.path.realpath(folder))
    is_path = os.sep in project or project in (".", "..")
    resolved_project = (
        projects.find_project_path(os.path.abspath(os.path.join(folder, project))) if is_path else project
    )
    if not documents.find_project_numbers(connection, resolved_project):
        raise UserError(f"nothing is known of a project {project[:200]!r}", fix)
    return resolved_project


def is_in_project(project: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record belongs to the project or applies everywhere."""
    record_project = str(record["project"])
    return (
        not project
        or project in (record_project, os.path.basename(record_project))
        or (not record_project and not record["session"])
    )


def parse_time(text: str, now: float) -> float:
    """Return a date, or so many days or weeks ago, as a time; 0 for none."""
    if not text:
        return 0.0
    if text[:-1].isascii() and text[:-1].isdigit() and text[-1:] in _DAYS_PER_UNIT:
        return now - int(text[:-1][:6]) * _DAYS_PER_UNIT[text[-1]] * 86_400.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(f"{text[:40]!r} is not a date", "write 2026-11-01, or 7d or 2w for so long ago") from None
