"""What an agent said between its calls. Hooks do not report it, so the page of a session reads its transcript."""

from __future__ import annotations

import os
from typing import Any

from hardwon import settings
from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.transcript_files import PrivateTurnTracker, build_step_exclusion, denied_or_deleted
from hardwon.agents.transcript_steps import load_transcript_module, parse_timestamp
from hardwon.errors import UserError
from hardwon.privacy.cleaning import clean_text
from hardwon.store.db import Connection
from hardwon.store.deletions import read_tombstones

MAX_TRANSCRIPT_BYTES = 10_000_000  # which take about a quarter of a second to read


def read_agent_words(
    home: str, connection: Connection, session: dict[str, Any], since: float, until: float
) -> list[dict[str, Any]]:
    """Return the main agent's messages from its transcript as steps of the timeline, without what is never recorded.

    Empty if there is no transcript any more, or if it is too long to be read for a page.
    """
    path, agent = session["transcript"], session["host"]
    if agent not in TRANSCRIPT_AGENTS or not path or not transcript_files.is_agent_transcript_path(path, agent):
        return []
    try:
        if os.path.getsize(path) > MAX_TRANSCRIPT_BYTES:
            return []
        values = settings.resolve_settings(settings.read_config(home))
        is_excluded = denied_or_deleted(build_step_exclusion(home, values), read_tombstones(connection))
        reader, private_turns = load_transcript_module(agent).Reader(), PrivateTurnTracker(path)
        words: list[dict[str, Any]] = []
        with transcript_files.open_transcript(path) as (_, _, portions):
            for lines, _ in portions:
                for number, line in lines:
                    for step in reader.read_line(number, line):
                        is_hidden = private_turns.should_hide(step) or step.agent or step.session != session["session"]
                        if step.kind != "agent" or is_hidden or not step.text.strip():
                            continue
                        at = parse_timestamp(step.at)
                        if since <= at <= until and not is_excluded(step):
                            words.append({"what": "words", "id": number, "at": at, "text": clean_text(step.text)})
        return words
    except (OSError, UserError):
        return []
