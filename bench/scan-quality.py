"""How well plain rules tell lessons from slips: `make bench-scan-quality`.

Hand-judged errors are in `../shared/corpus/gold.jsonl`; other data with CORPUS= and GOLD=. Rules alone, one session
at a time: no model, and no knowledge of what recurs. An episode from THRESHOLD on is a candidate. One that touches a
row which is not a lesson, or the rows of two lessons, is a miss; rows of low confidence count for nothing; a candidate
that touches no judged row cannot be judged. Beside it, in the same run, the floors: every error, and every error after
which the same tool succeeds within five calls. It fails when precision 0.40 and recall 0.60 are not both reached.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hardwon.distil.signals import THRESHOLD, episodes
from hardwon.hosts.history import MODULES, Step
from hardwon.transcript import host_of, is_whole

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
GOLD = os.environ.get("GOLD") or os.path.join(CORPUS, "gold.jsonl")
LEAST_PRECISION, LEAST_RECALL = 0.40, 0.60
WITHIN = 5
# Measured for the default data only, by those who judged it.
PUBLISHED = (("similar input and error class (published)", 0.20, 0.54), ("a peer's detector (published)", 0.07, 0.08))

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """Something that would be proposed, and the judged rows it touches."""

    score: float
    rows: tuple[Row, ...]

    @property
    def lesson(self) -> str:
        """The one lesson that all its rows belong to; nothing if it is a miss."""
        names = {name_of(row) if row["label"] == "lesson" else "" for row in self.rows}
        return names.pop() if len(names) == 1 else ""


@dataclass(frozen=True)
class Measure:
    precision: float
    recall: float
    average: float


def name_of(row: Row) -> str:
    return str(row.get("episode") or f"{row['file']}:{row['line_no']}")


def read(file: str) -> list[Step]:
    path = os.path.join(CORPUS, file)
    reader = import_module(MODULES[host_of(path)]).Reader()
    with open(path, "rb") as transcript:
        lines = [transcript.read()] if is_whole(file) else list(transcript)
    return [step for number, line in enumerate(lines, 1) for step in reader.read(number, line)]


def succeeds_soon(steps: Sequence[Step], line: int) -> bool:
    """Whether the tool whose result is in this line succeeds within five calls."""
    tools = {step.call: step.tool for step in steps if step.kind == "call"}
    tool = next((tools.get(step.call, "") for step in steps if step.line == line and step.kind == "result"), "")
    later = [step for step in steps if step.kind == "result" and step.line > line][:WITHIN]
    return any(not step.failed and tools.get(step.call) == tool for step in later)


def by_episode(found: Iterable[Found], lessons: set[str], threshold: float) -> Measure:
    ranked = [(each.score, each.lesson) for each in found]
    return measured(ranked, lessons, threshold)


def by_error(found: Iterable[Found], rows: Iterable[Row], threshold: float) -> Measure:
    """Each judged error by itself, with the score of the episode it is in."""
    ranked = [
        (each.score, f"{row['file']}:{row['line_no']}" if row["label"] == "lesson" else "")
        for each in found
        for row in each.rows
    ]
    lessons = {f"{row['file']}:{row['line_no']}" for row in rows if row["label"] == "lesson"}
    return measured(ranked, lessons, threshold)


def measured(ranked: Sequence[tuple[float, str]], lessons: set[str], threshold: float) -> Measure:
    """Precision and recall from the threshold on; average precision over the ranking, equal scores as one step."""
    curve = [(score, *at(ranked, lessons, score)) for score in sorted({score for score, _ in ranked}, reverse=True)]
    average = reached = 0.0
    for _, precision, recall in curve:
        average += (recall - reached) * precision
        reached = recall
    return Measure(*at(ranked, lessons, threshold), average)


def at(ranked: Sequence[tuple[float, str]], lessons: set[str], threshold: float) -> tuple[float, float]:
    kept = [name for score, name in ranked if score >= threshold]
    right = [name for name in kept if name]
    return len(right) / max(len(kept), 1), len(set(right)) / max(len(lessons), 1)


def judge(rows: Sequence[Row]) -> tuple[list[Found], list[Found], list[Found], int, int]:
    """What the rules, every error, and soon-cured errors would propose; the calls, and the rules' proposals."""
    ours, every, soon = list[Found](), list[Found](), list[Found]()
    calls = proposed = 0
    for file in sorted({row["file"] for row in rows}):
        steps = read(file)
        judged = {row["line_no"]: row for row in rows if row["file"] == file and row["confidence"] != "low"}
        calls += sum(step.kind == "call" for step in steps)
        for episode in episodes(steps):
            proposed += episode.score >= THRESHOLD
            touched = tuple(judged[error.line] for error in episode.errors if error.line in judged)
            ours += [Found(episode.score, touched)] if touched else []
        every += [Found(1.0, (row,)) for row in judged.values()]
        soon += [Found(1.0, (row,)) for line, row in judged.items() if succeeds_soon(steps, line)]
    return ours, every, soon, calls, proposed


def main() -> int:
    if not os.path.exists(GOLD):
        print(f"no judged errors at {GOLD}: nothing to measure")
        return int(bool(os.environ.get("GOLD") or os.environ.get("CORPUS")))
    with open(GOLD, encoding="utf-8") as file:
        rows: list[Row] = [json.loads(line) for line in file if line.strip()]
    counted = [row for row in rows if row["confidence"] != "low"]
    lessons = {name_of(row) for row in counted if row["label"] == "lesson"}
    ours, every, soon, calls, proposed = judge(rows)
    print(f"{len(counted)} judged errors, {len(lessons)} lessons, {calls} calls; proposed from score {THRESHOLD} on")
    print(f"{'':44} {'per episode':^26} {'per error':^26}")
    print(f"{'':44} {'P':>8} {'R':>8} {'AP':>8} {'P':>8} {'R':>8} {'AP':>8}")
    for name, found in (("rules", ours), ("every error", every), (f"same tool succeeds within {WITHIN}", soon)):
        both = by_episode(found, lessons, THRESHOLD), by_error(found, counted, THRESHOLD)
        numbers = [number for each in both for number in (each.precision, each.recall, each.average)]
        print(f"{name:44} " + " ".join(f"{number:8.2f}" for number in numbers))
    for name, precision, recall in PUBLISHED if not os.environ.get("GOLD") else ():
        print(f"{name:44} {precision:8.2f} {recall:8.2f}")
    for threshold in (0.3, 0.4, 0.5, 0.6):
        chosen = by_episode(ours, lessons, threshold)
        print(f"  rules from {threshold} on: P {chosen.precision:.2f} R {chosen.recall:.2f}")
    result = by_episode(ours, lessons, THRESHOLD)
    shown = {"precision": result.precision, "recall": result.recall, "average_precision": result.average}
    print(json.dumps({key: round(n, 3) for key, n in {**shown, "per_1000_calls": 1000 * proposed / calls}.items()}))
    return int(result.precision < LEAST_PRECISION or result.recall < LEAST_RECALL)


if __name__ == "__main__":
    sys.exit(main())
