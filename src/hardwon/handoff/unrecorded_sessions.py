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
    changed = _find_changed_transcripts(environment, now - MAX_AGE_SECONDS)
    transcripts = sorted(changed, key=lambda transcript: -transcript.modified_at)[:MAX_TRANSCRIPTS]
    if not transcripts:
        return []
    recorded_paths = {os.path.realpath(path) for path in sessions.list_transcript_paths(connection)}
    reflection_times = reflections.read_reflection_times(connection)
    unrecorded = list[UnrecordedTranscript]()
    for transcript in transcripts:
        name = os.path.basename(transcript.path)
        is_reflected = any(session in name and at >= transcript.modified_at for session, at in reflection_times.items())
        if os.path.realpath(transcript.path) not in recorded_paths and not is_reflected:
            unrecorded.append(transcript)
    return unrecorded


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
