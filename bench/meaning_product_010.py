# mypy: ignore-errors
"""The same as `meaning_product.py` with the modules of 0.1.0, which `meaning.py` unpacks from the history."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import meaning_product
from meaning_product import SUMMARY_FIELDS, describe_sessions, parse_page


def _describe_folder(home: str, paths: list[str]) -> list[dict[str, Any]]:
    from hardwon import settings
    from hardwon.capture import fill
    from hardwon.core.tokens import estimate as estimate_tokens
    from hardwon.distil.observe import observe
    from hardwon.distil.reflect.draft import markdown
    from hardwon.distil.reflect.run import reflect
    from hardwon.distil.summarise import summarise
    from hardwon.hosts.history import host_of
    from hardwon.recall import brief, manifest
    from hardwon.store import db, observations, sessions, turns

    connection = db.connect(home)
    known_rows: set[int] = set()
    descriptions: list[dict[str, Any]] = []
    for path in paths:
        with open(path, "rb") as file:
            agent = host_of(path, file.read(65536))
        fill.read(home, connection, agent, path, settings.resolve({}))
        rows = [row["id"] for row in sessions.listed(connection, limit=1_000) if row["id"] not in known_rows]
        known_rows.update(rows)
        titles: list[str] = []
        summary_lines: dict[str, list[str]] = {field: [] for field in SUMMARY_FIELDS}
        for row in sorted(rows):
            for number in turns.changed(connection, row):
                turn, fingerprint = turns.read(connection, row, number)
                turns.keep(connection, turn, fingerprint, observe(turn), turns.PLAIN)
            stored = observations.of_session(connection, row)
            summary = summarise(turns.session_turns(connection, row), stored)
            observations.put_summary(connection, row, summary)
            titles += [observation.title for observation in stored if observation.title]
            for field in SUMMARY_FIELDS:
                summary_lines[field] += [line for line in getattr(summary, field).split("\n") if line]
        result = reflect(connection, home, path, host=agent, now=1.0, queued_in=os.path.join(home, "queue"))
        opening = brief.shown(connection, home, manifest.ensure(home, 1.0), result.draft.story.cwd)
        open_ends = [ending.text for ending in result.draft.open]
        descriptions.append(
            {
                "path": path,
                "topic": result.draft.topic,
                "titles": titles,
                "summary": summary_lines,
                "handoff": parse_page(markdown(result.draft)),
                "next": open_ends[0] if open_ends else "",
                "statements": [
                    {"type": memory.type, "text": memory.text, "lines": [source.line for source in memory.evidence]}
                    for memory in result.draft.memories
                ],
                "brief_tokens": estimate_tokens(opening.text),
                "brief": opening.text,
            }
        )
    connection.close()
    return descriptions


if __name__ == "__main__":
    meaning_product._describe_folder = _describe_folder
    json.dump(describe_sessions(json.load(sys.stdin)), sys.stdout)
