"""What the product says of sessions by plain code, as JSON: the only place where `meaning.py` touches the product.

Sessions of one folder go into one home in their order, as a person's project fills: each is imported, distilled,
drafted, and then the brief that the next session would open with is read.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from itertools import groupby
from typing import Any

_CITED_LINES = re.compile(r"\s*\(((?:L\d+(?:, )?)+)\)\s*$")
_FINDING_LEAD = re.compile(r"^\*\*[^*]+\*\* → [^:]+: ")
SUMMARY_FIELDS = ("request", "investigated", "learned", "completed", "next_steps")


def describe_sessions(paths: Iterable[str]) -> list[dict[str, Any]]:
    descriptions: list[dict[str, Any]] = []
    for _, folder_paths in groupby(sorted(paths, key=_get_order), key=os.path.dirname):
        with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
            os.chmod(home, 0o700)
            descriptions += _describe_folder(home, list(folder_paths))
    return descriptions


def _get_order(path: str) -> tuple[str, str]:
    """Folder, then the first time that the transcript names."""
    with open(path, "rb") as file:
        first_time = re.search(rb'"(?:timestamp|startTime)": ?"([^"]+)"', file.read(1_000_000))
    return os.path.dirname(path), first_time[1].decode() if first_time else ""


def _describe_folder(home: str, paths: list[str]) -> list[dict[str, Any]]:
    from hardwon import settings
    from hardwon.agents.transcript_steps import identify_agent
    from hardwon.distil.observations import observe_turn
    from hardwon.distil.summaries import summarise_session
    from hardwon.handoff.draft import next_step, render_draft
    from hardwon.handoff.reflection import ReflectionOptions, reflect
    from hardwon.lessons import manifest
    from hardwon.search import brief
    from hardwon.sessions import transcript_import
    from hardwon.store import db, observations, sessions, turns
    from hardwon.text.characters import estimate_tokens

    connection = db.connect(home)
    known_rows: set[int] = set()
    descriptions: list[dict[str, Any]] = []
    for path in paths:
        with open(path, "rb") as file:
            agent = identify_agent(path, file.read(65536))
        transcript_import.import_transcript(home, connection, agent, path, settings.resolve_settings({}))
        listed = sessions.list_sessions(connection, limit=1_000)
        rows = [row["id"] for row in listed if row["id"] not in known_rows]
        known_rows.update(rows)
        titles: list[str] = []
        summary_lines: dict[str, list[str]] = {field: [] for field in SUMMARY_FIELDS}
        for row in sorted(rows):
            for number in turns.list_changed_turns(connection, row):
                turn, fingerprint = turns.read_turn(connection, row, number)
                turns.store_distilled(connection, turn, fingerprint, observe_turn(turn), turns.PLAIN)
            stored = observations.list_for_session(connection, row)
            summary = summarise_session(turns.list_turns(connection, row), stored)
            observations.replace_summary(connection, row, summary)
            titles += [observation.title for observation in stored if observation.title]
            for field in SUMMARY_FIELDS:
                summary_lines[field] += [line for line in getattr(summary, field).split("\n") if line]
        options = ReflectionOptions(queue_folder=os.path.join(home, "queue"))
        result = reflect(connection, home, path, options, agent=agent, now=1.0)
        index = manifest.open_current_index(home, 1.0)
        opening = brief.preview_opening(connection, home, index, result.draft.story.cwd)
        descriptions.append(
            {
                "path": path,
                "topic": result.draft.topic,
                "titles": titles,
                "summary": summary_lines,
                "handoff": parse_page(render_draft(result.draft)),
                "next": next_step(result.draft),
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


def parse_page(page: str) -> list[dict[str, Any]]:
    """The lines of a handoff with their section and the lines of the transcript that they name."""
    lines: list[dict[str, Any]] = []
    section = ""
    for line in page.split("\n"):
        if line.startswith("## "):
            section = line[3:]
        elif section and line.startswith(("- ", "> ")):
            text = line[2:].rstrip().replace("\\<", "<")
            cited = _CITED_LINES.search(text)
            numbers = [int(number) for number in re.findall(r"\d+", cited[1])] if cited else []
            text = _FINDING_LEAD.sub("", _CITED_LINES.sub("", text))
            if not text.startswith("see "):  # it names a section in which the line stands
                lines.append({"section": section, "text": text, "lines": numbers})
    return lines


if __name__ == "__main__":
    json.dump(describe_sessions(json.load(sys.stdin)), sys.stdout)
