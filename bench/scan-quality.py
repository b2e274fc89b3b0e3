"""Measure how well the default list tells lessons from slips: `make bench-scan-quality`.

Hand-judged errors are in `../shared/corpus/gold.jsonl`; other data with CORPUS= and GOLD=. The sessions of each project
are mined together, without a model, and what the product then lists is scored: after merging and ranking, as a person
sees it. A proposal whose evidence touches a row that is not a lesson, or rows of two lessons, is a miss; so is padding,
a further proposal for a lesson that stands higher in the list. Rows with the same trigger are one lesson, met in
several sessions. Rows of low confidence count for nothing. The rows are a sample, so a proposal that touches none
cannot be judged; the precision with all of these as misses is shown beside. In the same run, the floors: every error,
and every error after which the same tool succeeds within five calls. The figure is in-sample: the rules were written
with these rows in view. It fails when precision 0.60 and recall 0.60 are not both reached.

On the default data the recall cannot be reached by the rules as they are. The lessons are counted by the kind that the
product reads from the error. Lessons from code under work, edit anchors and refusals that name no command are
forbidden, because they are wrong far more often than right; an agent that reads the failures may still propose them
(`hardwon review --json`). So the recall on the other kinds is shown as well; it does not decide the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from product import Call, Transcript, find_transcripts, open_workshop, read_calls

from hardwon.mining.episodes import NEVER_LESSONS
from hardwon.shell.failures import classify_failure, find_failure_line

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
GOLD = os.environ.get("GOLD") or os.path.join(CORPUS, "gold.jsonl")
LEAST_PRECISION, LEAST_RECALL = 0.60, 0.60
WITHIN = 5
FORBIDDEN_KINDS = NEVER_LESSONS | {"refused", "silent"}
# Measured for the default data only, by those who judged it.
PUBLISHED = (("similar input and error class (published)", 0.20, 0.54), ("a peer's detector (published)", 0.07, 0.08))

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ProposedLesson:
    """Something that would be proposed, and the judged rows it touches."""

    score: float
    rows: tuple[Row, ...]
    is_padding: bool = False

    @property
    def lesson(self) -> str:
        """The one lesson that all its rows belong to; nothing if it is a miss."""
        if self.is_padding:
            return ""
        names = {get_lesson_name(row) if row["label"] == "lesson" else "" for row in self.rows}
        return names.pop() if len(names) == 1 else ""


@dataclass(frozen=True)
class Measure:
    precision: float
    recall: float
    average: float


def get_lesson_name(row: Row) -> str:
    """Return the name of the lesson a row belongs to; the same lesson may be met in several sessions of a project."""
    if row["label"] == "lesson" and row.get("trigger"):
        return f"{row['repo']}: {row['trigger']}"
    return str(row.get("episode") or f"{row['file']}:{row['line_no']}")


def succeeds_soon(calls: Sequence[Call], line: int) -> bool:
    """Return whether the tool whose result is in this line succeeds within five calls."""
    tool = next((call.tool for call in calls if call.result_line == line), "")
    later = sorted((call for call in calls if call.result_line > line), key=lambda call: call.result_line)
    return any(not call.is_failed and call.tool == tool for call in later[:WITHIN])


def measure_episodes(proposals: Iterable[ProposedLesson], lessons: set[str], threshold: float) -> Measure:
    ranked = [(proposal.score, proposal.lesson) for proposal in proposals]
    return measure_ranking(ranked, lessons, threshold)


def measure_errors(proposals: Iterable[ProposedLesson], rows: Iterable[Row], threshold: float) -> Measure:
    """Each judged error by itself, with the score of the episode it is in."""
    ranked = [
        (proposal.score, f"{row['file']}:{row['line_no']}" if row["label"] == "lesson" else "")
        for proposal in proposals
        for row in proposal.rows
    ]
    lessons = {f"{row['file']}:{row['line_no']}" for row in rows if row["label"] == "lesson"}
    return measure_ranking(ranked, lessons, threshold)


def measure_ranking(ranked: Sequence[tuple[float, str]], lessons: set[str], threshold: float) -> Measure:
    """Precision and recall from the threshold on; average precision over the ranking, equal scores as one step."""
    curve = [
        (score, *compute_precision_and_recall(ranked, lessons, score))
        for score in sorted({score for score, _ in ranked}, reverse=True)
    ]
    average = reached = 0.0
    for _, precision, recall in curve:
        average += (recall - reached) * precision
        reached = recall
    return Measure(*compute_precision_and_recall(ranked, lessons, threshold), average)


def compute_precision_and_recall(
    ranked: Sequence[tuple[float, str]], lessons: set[str], threshold: float
) -> tuple[float, float]:
    listed = [name for score, name in ranked if score >= threshold]
    right = [name for name in listed if name]
    return len(right) / max(len(listed), 1), len(set(right)) / max(len(lessons), 1)


def judge_proposals(
    rows: Sequence[Row],
) -> tuple[list[ProposedLesson], list[ProposedLesson], list[ProposedLesson], int, int]:
    """Return what the list, every error, and soon-cured errors would propose; the calls, and the list's proposals."""
    listed, every, soon = list[ProposedLesson](), list[ProposedLesson](), list[ProposedLesson]()
    calls = proposed = 0
    by_project: dict[str, list[Transcript]] = {}
    for file in sorted({row["file"] for row in rows}):
        judged = {row["line_no"]: row for row in rows if row["file"] == file and row["confidence"] != "low"}
        transcripts = find_transcripts(os.path.join(CORPUS, file))
        by_project.setdefault("/".join(file.split("/")[:2]), []).extend(transcripts)
        file_calls = [call for transcript in transcripts for call in read_calls(transcript)[0]]
        calls += len(file_calls)
        every += [ProposedLesson(1.0, (row,)) for row in judged.values()]
        soon += [ProposedLesson(1.0, (row,)) for line, row in judged.items() if succeeds_soon(file_calls, line)]
    root = os.path.realpath(CORPUS)
    for transcripts in by_project.values():
        with open_workshop() as workshop:
            workshop.mine(transcripts)
            proposals = workshop.list_default()
        proposed += len(proposals)
        judged_rows = {(row["file"], row["line_no"]): row for row in rows if row["confidence"] != "low"}
        for proposal in proposals:
            evidence = [(os.path.relpath(path, root), line) for path, line in proposal.evidence]
            touched = tuple(judged_rows[position] for position in dict.fromkeys(evidence) if position in judged_rows)
            if touched:
                listed.append(ProposedLesson(proposal.score, touched))
    return listed, every, soon, calls, proposed


def count_padding_as_miss(proposals: Sequence[ProposedLesson]) -> list[ProposedLesson]:
    """Return what was found, best first, with every further proposal for the same lesson as a miss."""
    counted: list[ProposedLesson] = []
    seen_lessons: set[str] = set()
    for proposal in sorted(proposals, key=lambda item: -item.score):
        is_padding = proposal.lesson in seen_lessons
        counted.append(ProposedLesson(proposal.score, proposal.rows, is_padding))
        seen_lessons.add(proposal.lesson)
    return counted


def read_kinds(rows: Sequence[Row]) -> dict[str, str]:
    """Return the kind of failure of each lesson, as the product reads it from the lesson's first judged error."""
    kinds: dict[str, str] = {}
    for row in rows:
        if row["label"] != "lesson" or get_lesson_name(row) in kinds:
            continue
        transcripts = find_transcripts(os.path.join(CORPUS, row["file"]))
        calls = [call for transcript in transcripts for call in read_calls(transcript)[0]]
        call = next((call for call in calls if call.result_line == row["line_no"]), None)
        if call:
            line = find_failure_line(call.result, is_shell=bool(call.command))
            kinds[get_lesson_name(row)] = (
                "refused" if call.is_refused else classify_failure(call.result, line, call.command)
            )
    return kinds


def main() -> int:
    if not os.path.exists(GOLD):
        print(f"no judged errors at {GOLD}: nothing to measure")
        return int(bool(os.environ.get("GOLD") or os.environ.get("CORPUS")))
    with open(GOLD, encoding="utf-8") as file:
        rows: list[Row] = [json.loads(line) for line in file if line.strip()]
    counted = [row for row in rows if row["confidence"] != "low"]
    lessons = {get_lesson_name(row) for row in counted if row["label"] == "lesson"}
    listed, every, soon, calls, proposed = judge_proposals(rows)
    listed = count_padding_as_miss(listed)
    print(f"{len(counted)} judged errors, {len(lessons)} lessons, {calls} calls")
    print(f"{proposed} proposals listed, of which {len(listed)} touch a judged error")
    print(f"{'':44} {'per lesson':^26} {'per error':^26}")
    print(f"{'':44} {'P':>8} {'R':>8} {'AP':>8} {'P':>8} {'R':>8} {'AP':>8}")
    floors = (("every error", every), (f"same tool succeeds within {WITHIN}", soon))
    for name, proposals in (("default list", listed), *floors):
        measures = measure_episodes(proposals, lessons, 0.0), measure_errors(proposals, counted, 0.0)
        numbers = [number for measure in measures for number in (measure.precision, measure.recall, measure.average)]
        print(f"{name:44} " + " ".join(f"{number:8.2f}" for number in numbers))
    for name, precision, recall in PUBLISHED if not os.environ.get("GOLD") else ():
        print(f"{name:44} {precision:8.2f} {recall:8.2f}")
    for threshold in (0.4, 0.5, 0.6):
        chosen = measure_episodes(listed, lessons, threshold)
        print(f"  listed from score {threshold} on: P {chosen.precision:.2f} R {chosen.recall:.2f}")
    result = measure_episodes(listed, lessons, 0.0)
    kinds = read_kinds(counted)
    found_lessons = {proposal.lesson for proposal in listed}
    for kind in sorted(set(kinds.values())):
        names = {name for name in lessons if kinds.get(name) == kind}
        note = "never proposed" if kind in FORBIDDEN_KINDS else ""
        print(f"  lessons of kind {kind:12} {len(names & found_lessons)} of {len(names)} found  {note}".rstrip())
    allowed = {name for name in lessons if kinds.get(name) not in FORBIDDEN_KINDS}
    allowed_recall = len(allowed & found_lessons) / max(len(allowed), 1)
    print(f"  recall on the {len(allowed)} lessons of the other kinds: {allowed_recall:.2f}")
    lowest = result.precision * len(listed) / max(proposed, 1)
    print(f"  with every proposal that cannot be judged as a miss: P {lowest:.2f}")
    figures = {"precision": result.precision, "recall": result.recall, "average_precision": result.average}
    print(json.dumps({key: round(n, 3) for key, n in {**figures, "per_1000_calls": 1000 * proposed / calls}.items()}))
    return int(result.precision < LEAST_PRECISION or result.recall < LEAST_RECALL)


if __name__ == "__main__":
    sys.exit(main())
