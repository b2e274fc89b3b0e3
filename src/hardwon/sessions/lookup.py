"""Find a recorded session or its transcript by name, and list its steps in order."""

from __future__ import annotations

import os
from typing import Any

from hardwon import projects
from hardwon.agents import transcript_files
from hardwon.errors import UserError
from hardwon.store.db import Connection
from hardwon.store.efficacy import list_told
from hardwon.store.observations import list_rows_for_session
from hardwon.store.sessions import find_by_name, list_events, list_prompt_rows, list_sessions

MAX_SHOWN = 5  # sessions named in an error


def find_session(connection: Connection, name: str) -> dict[str, Any]:
    """Return the session that a person named by its id, its number, or how its id begins; UserError if none or many."""
    # An empty name begins every session's id.
    matches = find_by_name(connection, name) if name.strip() else []
    if len(matches) == 1:
        return matches[0]
    if not matches:
        fix = "hardwon sessions list"
        if latest := _format_titles(list_sessions(connection, limit=MAX_SHOWN)):
            fix += f"   (latest: {latest})"
        raise UserError(f"there is no session {name!r}", fix)
    titles = _format_titles(matches[:MAX_SHOWN])
    if len(matches) > MAX_SHOWN:
        titles += f" and {len(matches) - MAX_SHOWN} more"
    raise UserError(f"{len(matches)} sessions begin with {name!r}: {titles}", "give more of the id")


def _format_titles(records: list[dict[str, Any]]) -> str:
    """Return the agents' ids and our numbers of sessions, for a message."""
    return ", ".join(f"{session['session']} (number {session['id']})" for session in records)


def find_transcript(connection: Connection, name: str) -> tuple[str, str]:
    """Return the path of a transcript and its agent, empty where only the path is known; UserError if there is none.

    The name is a path or a session's; without one it is the latest session of the current folder.
    """
    if name and transcript_files.exists(os.path.realpath(name)):
        return name, ""
    if name:
        matches = find_by_name(connection, name)
        if len(matches) > 1:
            raise UserError(f"{len(matches)} sessions begin with {name!r}", "give more of the id")
    else:
        matches = list_sessions(connection, limit=1, project=projects.find_project_path(os.getcwd()))
    if not matches:
        message = "no session of this folder is recorded"
        if name:
            message = f"there is no session or file {name!r}"
        raise UserError(message, "hardwon sessions list   (or give the path of a transcript)")
    host = matches[0]["host"]
    session = matches[0]["session"]
    path = matches[0]["transcript"] or transcript_files.find_session_path(host, session)
    if not path:
        raise UserError(f"no transcript is known for session {session}", "give the path of it")
    return path, host


def list_steps(connection: Connection, session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a session's prompts, deliveries, events and observations in order of time."""
    rows_by_kind = {
        "prompt": list_prompt_rows(connection, session["id"]),
        "delivery": list_told(connection, session["host"], session["session"]),
        "event": list_events(connection, session["id"]),
        "observation": list_rows_for_session(connection, session["id"]),
    }
    steps: list[dict[str, Any]] = []
    for kind, rows in rows_by_kind.items():
        steps += [{"what": kind, **row} for row in rows]
    # A stable sort: at equal times the kinds stay in the order above.
    return sorted(steps, key=lambda step: float(step["at"]))
