"""What reflecting costs without a model: `make bench-reflect`; `QUICK=1 make bench-reflect` for a short run.

Real transcripts are read where they lie beside this checkout (../shared/corpus), else made-up ones: each is read whole,
looked through for everything on the menu, drafted, and its evidence followed. It fails when a bar is missed.
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
from hardwon.store.reflection_types import EMPTY_CONTEXT

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tests.support.draft_evidence import is_quote_in_source, list_statements

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
SESSIONS = 20 if QUICK else 60
MOST_SECONDS, MOST_MEDIAN = 15.0, 1.0
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "corpus")


def transcripts(folder: str) -> list[str]:
    """Sessions of every size, sub-agents aside."""
    found = sorted(
        os.path.join(place, name)
        for place, _, names in os.walk(CORPUS)
        for name in names
        if name.endswith((".json", ".jsonl")) and name != "gold.jsonl" and os.path.basename(place) != "subagents"
    )
    return found[:: max(len(found) // SESSIONS, 1)][:SESSIONS] or [made_up(folder, number) for number in range(5)]


def made_up(folder: str, number: int) -> str:
    """A session of a few hundred calls as Claude Code writes it."""
    path = os.path.join(folder, f"made-up-{number}.jsonl")
    rows: list[tuple[str, object]] = [
        ("user", "Add the part and see that its tests pass, but do not touch the others.")
    ]
    for place in range(200 * (number + 1)):
        call = {
            "type": "tool_use",
            "id": f"t{place}",
            "name": "Bash",
            "input": {"command": f"pytest -q part_{place}.py"},
        }
        bad = place % 7 == 3
        text = "E   AssertionError: assert 1 == 2\n1 failed in 0.1s" if bad else "3 passed in 0.1s"
        came = {"type": "tool_result", "tool_use_id": f"t{place}", "content": text, "is_error": bad}
        rows += [("assistant", [call]), ("user", [came])]
    rows.append(("assistant", [{"type": "text", "text": "The part is there. Next: its documentation."}]))
    with open(path, "w") as file:
        for place, (kind, content) in enumerate(rows):
            at = f"2026-03-04T{9 + place // 3600:02d}:{place // 60 % 60:02d}:{place % 60:02d}.000Z"
            line = {"parentUuid": None, "isSidechain": False, "sessionId": f"made-up-{number}", "cwd": "/home/dev/part"}
            message = {"role": kind, "content": content}
            file.write(
                json.dumps({**line, "type": kind, "uuid": f"u{place}", "timestamp": at, "message": message}) + "\n"
            )
    return path


def once(path: str) -> tuple[float, int, int]:
    """Seconds, evidence that was followed, and of it what is not there."""
    began = time.perf_counter()
    told = transcript_story.read_story(path)
    made = build_draft(told, detect_findings(told, EMPTY_CONTEXT))
    render_draft(made)
    took = time.perf_counter() - began
    evidence = [each for one in list_statements(made) for each in one.evidence]
    return took, len(evidence), sum(not is_quote_in_source(each) for each in evidence)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        rows = [(path, *once(path)) for path in transcripts(folder)]
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
