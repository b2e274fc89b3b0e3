"""Find recent transcripts that no hook reported: of agents without hooks, or from days without them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hardwon.agents import transcript_files
from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES, load_transcript_module
from hardwon.handoff.idle_sessions import MAX_AGE_SECONDS
from hardwon.store import reflections, sessions
from hardwon.store.db import Connection

MAX_TRANSCRIPTS = 500  # only the latest are looked at
_SUBAGENT_MARKS = ("/subagents/", "/agent-")


class UnrecordedTranscript(NamedTuple):
    """A transcript that changed after its last reflection."""

    agent: str
    path: str
    modified_at: float


def find_unrecorded_transcripts(
    connection: Connection, environment: Mapping[str, str], now: float
) -> list[UnrecordedTranscript]:
    """Return the unrecorded transcripts that changed since their last reflection, latest first."""
    transcripts = sorted(
        _find_changed_transcripts(environment, now - MAX_AGE_SECONDS), key=lambda one: -one.modified_at
    )[:MAX_TRANSCRIPTS]
    recorded_paths = (
        {os.path.realpath(path) for path in sessions.list_transcript_paths(connection)} if transcripts else set()
    )
    read_times = reflections.read_reflection_times(connection) if transcripts else {}
    return [
        one
        for one in transcripts
        if os.path.realpath(one.path) not in recorded_paths
        and not any(name in os.path.basename(one.path) and at >= one.modified_at for name, at in read_times.items())
    ]


def _find_changed_transcripts(environment: Mapping[str, str], since: float) -> Iterator[UnrecordedTranscript]:
    for agent in TRANSCRIPT_MODULES:
        for top in load_transcript_module(agent).find_transcript_folders(environment, os.path.expanduser("~")):
            for folder, _, names in os.walk(top):
                for name in names:
                    yield from _list_changed_sessions(os.path.join(folder, name), agent, since)


def _list_changed_sessions(path: str, agent: str, since: float) -> Iterator[UnrecordedTranscript]:
    """Yield the sessions in a transcript file that changed since this time, without sub-agents."""
    try:
        entries = (
            transcript_files.list_sessions(path, os.stat(path))
            if transcript_files.is_agent_transcript_path(path, agent)
            else ()
        )
    except OSError:
        return
    for session_path, stat in entries:
        if stat.st_mtime > since and not any(part in session_path for part in _SUBAGENT_MARKS):
            yield UnrecordedTranscript(agent, session_path, stat.st_mtime)
