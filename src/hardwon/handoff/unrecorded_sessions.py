"""Transcripts of the last days that no hook told of: the sessions of hosts without hooks, and of days without them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hardwon.agents import transcript_files
from hardwon.agents.transcript_steps import MODULES, history
from hardwon.handoff.idle_sessions import OLDEST
from hardwon.store import reflections, sessions
from hardwon.store.db import Connection

MOST = 500  # that are looked at, the latest first
_BY_AGENTS = ("/subagents/", "/agent-")


class Unheard(NamedTuple):
    """A transcript that changed after it was last reflected on."""

    host: str
    path: str
    changed: float


def unheard(connection: Connection, environment: Mapping[str, str], now: float) -> list[Unheard]:
    """The latest first."""
    found = sorted(_changed(environment, now - OLDEST), key=lambda one: -one.changed)[:MOST]
    known = {os.path.realpath(path) for path in sessions.transcripts(connection)} if found else set()
    read = reflections.read_until(connection) if found else {}
    return [
        one
        for one in found
        if os.path.realpath(one.path) not in known
        and not any(name in os.path.basename(one.path) and at >= one.changed for name, at in read.items())
    ]


def _changed(environment: Mapping[str, str], since: float) -> Iterator[Unheard]:
    for host in MODULES:
        for top in history(host).folders(environment, os.path.expanduser("~")):
            for folder, _, names in os.walk(top):
                for name in names:
                    yield from _held(os.path.join(folder, name), host, since)


def _held(path: str, host: str, since: float) -> Iterator[Unheard]:
    """The sessions in a file that changed since."""
    try:
        every = transcript_files.sessions(path, os.stat(path)) if transcript_files.is_named(path, host) else ()
    except OSError:
        return
    for one, stat in every:
        if stat.st_mtime > since and not any(part in one for part in _BY_AGENTS):
            yield Unheard(host, one, stat.st_mtime)
