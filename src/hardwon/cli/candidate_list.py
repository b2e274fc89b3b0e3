"""Candidates in a table."""

from __future__ import annotations

from collections.abc import Sequence

from hardwon.cli.output import echo_table
from hardwon.lessons.review_queue import describe_figures, is_proposed_by_agent
from hardwon.store.candidates import Candidate
from hardwon.text.characters import format_count, to_printable_line

MAX_LINE_CHARS = 110


def show_list(proposals: Sequence[Candidate]) -> None:
    """Print candidates in a table; nothing if there are none."""
    if not proposals:
        return
    rows = []
    for candidate in proposals:
        summary = to_printable_line(candidate.record["summary"], MAX_LINE_CHARS)
        solution = to_printable_line(candidate.record["solution"], MAX_LINE_CHARS)
        occurrences = f"{candidate.occurrences}x" if candidate.occurrences > 1 else "once"
        if is_proposed_by_agent(candidate):
            occurrences = "proposed"
        elif len(candidate.sessions) > 1:
            occurrences += f"\n{format_count(len(candidate.sessions), 'session')}"
        description = f"{summary}\n→ {solution}"
        if "repeats" in candidate.parts:
            description += f"\n{describe_figures(candidate.parts)}"
        rows.append([f"L{candidate.number}", f"{candidate.score:.2f}", occurrences, description])
    echo_table(["no", "score", "seen", "mistake, and what worked"], rows)
