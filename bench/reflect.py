"""Measure what reflecting costs without a model: `make bench-reflect`; `QUICK=1 make bench-reflect` for a short run.

Reads real transcripts beside this checkout (../shared/corpus), or made-up ones where there are none. Each is read
completely, searched for every kind of finding, and drafted, and its evidence is checked. It fails when a bar is missed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from statistics import median

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import build_draft, render_draft
from hardwon.handoff.findings import detect_findings
from hardwon.store.reflections import ReflectionContext

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tests.support.draft_evidence import is_quote_in_source, list_statements

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
SESSIONS = 20 if QUICK else 60
MOST_SECONDS, MOST_MEDIAN = 15.0, 1.0
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "corpus")


def list_transcripts(folder: str) -> list[str]:
    """Return transcripts of every size, without those of sub-agents."""
    paths = sorted(
        os.path.join(folder_path, name)
        for folder_path, _, names in os.walk(CORPUS)
        for name in names
        if name.endswith((".json", ".jsonl")) and name != "gold.jsonl" and os.path.basename(folder_path) != "subagents"
    )
    return paths[:: max(len(paths) // SESSIONS, 1)][:SESSIONS] or [
        write_made_up_transcript(folder, number) for number in range(5)
    ]


def write_made_up_transcript(folder: str, number: int) -> str:
    """Write a session of a few hundred calls as Claude Code does; return its path."""
    path = os.path.join(folder, f"made-up-{number}.jsonl")
    rows: list[tuple[str, object]] = [
        ("user", "Add the part and see that its tests pass, but do not touch the others.")
    ]
    for position in range(200 * (number + 1)):
        call = {
            "type": "tool_use",
            "id": f"t{position}",
            "name": "Bash",
            "input": {"command": f"pytest -q part_{position}.py"},
        }
        is_failure = position % 7 == 3
        text = "E   AssertionError: assert 1 == 2\n1 failed in 0.1s" if is_failure else "3 passed in 0.1s"
        tool_result = {"type": "tool_result", "tool_use_id": f"t{position}", "content": text, "is_error": is_failure}
        rows += [("assistant", [call]), ("user", [tool_result])]
    rows.append(("assistant", [{"type": "text", "text": "The part is there. Next: its documentation."}]))
    with open(path, "w") as file:
        for position, (kind, content) in enumerate(rows):
            at = f"2026-03-04T{9 + position // 3600:02d}:{position // 60 % 60:02d}:{position % 60:02d}.000Z"
            line = {"parentUuid": None, "isSidechain": False, "sessionId": f"made-up-{number}", "cwd": "/home/dev/part"}
            message = {"role": kind, "content": content}
            file.write(
                json.dumps({**line, "type": kind, "uuid": f"u{position}", "timestamp": at, "message": message}) + "\n"
            )
    return path


def measure_transcript(path: str) -> tuple[float, int, int]:
    """Return the seconds, the number of quotes checked, and how many are not in their source."""
    began = time.perf_counter()
    story = transcript_story.read_story(path)
    draft = build_draft(story, detect_findings(story, ReflectionContext()))
    render_draft(draft)
    seconds = time.perf_counter() - began
    evidence = [item for statement in list_statements(draft) for item in statement.evidence]
    return seconds, len(evidence), sum(not is_quote_in_source(item) for item in evidence)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        rows = [(path, *measure_transcript(path)) for path in list_transcripts(folder)]
    seconds = sorted(took for _, took, _, _ in rows)
    followed, missing = sum(row[2] for row in rows), sum(row[3] for row in rows)
    slowest = max(rows, key=lambda row: row[1])
    figures = {"sessions": len(rows), "median": median(seconds), "most": seconds[-1], "all": sum(seconds)}
    print(f"{len(rows)} sessions: {median(seconds):.3f} s each by the median, {sum(seconds):.1f} s together")
    print(f"the slowest took {slowest[1]:.2f} s: {os.path.basename(slowest[0])}")
    print(f"{followed} pieces of evidence were followed, {missing} are not there\n")
    faults = [
        *([f"the median is {median(seconds):.2f} s, may be {MOST_MEDIAN}"] if median(seconds) > MOST_MEDIAN else []),
        *([f"the slowest took {seconds[-1]:.1f} s, may take {MOST_SECONDS}"] if seconds[-1] > MOST_SECONDS else []),
        *([f"{missing} quotes are not where they are said to be"] if missing else []),
    ]
    print("\n".join(["not as it should be:", *faults]) if faults else "all within what reflecting may cost")
    print(
        json.dumps({**{name: round(value, 3) for name, value in figures.items()}, "followed": followed, "quick": QUICK})
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
