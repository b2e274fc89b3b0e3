"""Whether what is said of sessions without a model is true and useful: `make bench-meaning`.

Real sessions (../shared/corpus, or CORPUS=folder) that were labelled by hand (bench/meaning_labels.jsonl, or
LABELS=file) are imported, distilled, drafted and briefed; beside it the same by 0.1.0, unpacked from the history.

A label has topics and the outcome, each with terms that a right line would hold (two of a topic's, one of the
outcome's), the stated next steps and the person's lasting statements, with their lines in the transcript.

supported     of the lines of summaries and handoffs, those that a checker confirms which reads the transcript itself
useful_kept   of 0.1.0's supported lines that hold a labelled term, those whose content is still said
topic         the handoff's topic is one of the labelled, and at least half of them are told
next_found    of the sessions that state a next step, those where a summary or handoff has it
next_wrong    of all sessions, those where the step that the handoff names first is none of the labelled

SHOW=1 prints the lines that are not supported and every miss.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from statistics import median
from typing import Any

from meaning_checker import Checker, read_transcript, to_words

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
LABELS = os.environ.get("LABELS") or os.path.join(HERE, "meaning_labels.jsonl")
SHOW = os.environ.get("SHOW", "0") not in ("", "0")
COMMIT_OF_010 = "bc3702b"
CACHE = os.path.join(ROOT, ".cache", "meaning")
BARS = {
    "supported": 0.98,
    "useful_kept": 0.8,
    "topic": 0.7,
    "outcome": 0.7,
    "next_found": 0.85,
    "statements_precision": 0.85,
    "statements_recall": 0.7,
}
LIMITS = {"next_wrong": 0.05, "brief_tokens": 1_200}
MIN_SHARED = 0.6  # of the words of a line of 0.1.0, from which on another line says the same
_KINDS = {"request": "asked", "completed": "done", "next_steps": "next", "investigated": "looked", "learned": "learned"}
_LOOKUP = re.compile(r"^(?:Read|Searched for|Looked up|Sub-agents?|Ran|Used|Look at)\b")
_ASKED = re.compile(r"^(?:Asked|Then asked|Last asked)\b")
_STEP = re.compile(r"^(?:First|Then|Next)\b")
_HASH = re.compile(r"\b[0-9a-f]{7,12}\b")
_COMMON_WORDS = "the a an and or of to in for on is are was be it this that with as by not no do does from at i we you"
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True)
class Line:
    """A line of a summary or a handoff, and what the checker says of it."""

    text: str
    kind: str
    part: str
    fault: str = ""

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(to_words(self.text).split()) - _COMMON


@dataclass(frozen=True)
class Session:
    """What was said of a session, beside its label."""

    label: dict[str, Any]
    told: dict[str, Any]
    lines: tuple[Line, ...]

    @cached_property
    def terms(self) -> frozenset[str]:
        topic_terms = [term for topic in self.label["topics"] for term in topic["terms"]]
        next_terms = [term for step in self.label["next"] for term in step["terms"]]
        return frozenset([*topic_terms, *self.label["outcome_terms"], *next_terms])

    @property
    def useful_lines(self) -> list[Line]:
        """Supported lines that hold a labelled term, each content once."""
        useful: list[Line] = []
        for line in self.lines:
            if line.fault or _LOOKUP.match(line.text) or line.part == "Findings":
                continue
            if _count_terms(line.text, self.terms) and not any(_is_same_content(line, other) for other in useful):
                useful.append(line)
        return useful

    def is_topic_right(self) -> bool:
        topic_lines = [self.told["topic"], *self.told["summary"]["request"]]
        topic_lines += [line.text for line in self.lines if line.part == "Summary" and not line.fault]
        right = [
            topic
            for topic in self.label["topics"]
            if any(_count_terms(line, topic["terms"]) >= 2 for line in topic_lines)
        ]
        is_headline_right = any(_count_terms(self.told["topic"], topic["terms"]) >= 2 for topic in self.label["topics"])
        return is_headline_right and 2 * len(right) >= len(self.label["topics"])

    def is_outcome_right(self) -> bool:
        parts = ("completed", "learned", "Summary", "Decisions", "Open ends")
        outcome_lines = [
            line.text for line in self.lines if line.part in parts and not line.fault and not _ASKED.match(line.text)
        ]
        return any(_count_terms(line, self.label["outcome_terms"]) for line in outcome_lines)

    @property
    def next_lines(self) -> list[str]:
        steps = [
            line.text
            for line in self.lines
            if line.part in ("next_steps", "Open ends") or (line.part == "Resume Prompt" and _STEP.match(line.text))
        ]
        return [*([self.told["next"]] if self.told["next"] else []), *steps]

    def is_labelled_step(self, line: str) -> bool:
        return any(_count_terms(line, step["terms"]) >= min(2, len(step["terms"])) for step in self.label["next"])

    @property
    def matched_statements(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Each proposed statement with the label it is, None if it is none."""
        waiting = list(self.label["statements"])
        matches: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
        for proposed in self.told["statements"]:
            labels = [label for label in waiting if self._is_same_statement(proposed, label)]
            if labels:
                waiting.remove(labels[0])
            matches.append((proposed, labels[0] if labels else None))
        return matches

    def _is_same_statement(self, proposed: dict[str, Any], label: dict[str, Any]) -> bool:
        words = frozenset(to_words(proposed["text"]).split()) - _COMMON
        label_words = frozenset(to_words(label["words"]).split()) - _COMMON
        stems = {word[:5] for word in words} & {word[:5] for word in label_words}
        is_document = self.label["file"].endswith(".json")
        return (is_document or label["line"] in proposed["lines"]) and len(stems) >= 2


def _count_terms(line: str, terms: Iterable[str]) -> int:
    """How many of the terms a line holds."""
    lower = line.lower()
    return sum(term.lower() in lower for term in terms)


def _is_same_content(line: Line, other: Line) -> bool:
    return bool(line.words) and len(line.words & other.words) >= MIN_SHARED * len(line.words)


def read_labels() -> list[dict[str, Any]]:
    with open(LABELS) as file:
        labels = [json.loads(row) for row in file if row.strip()]
    return [label for label in labels if os.path.exists(os.path.join(CORPUS, label["file"]))]


def run_product(paths: Sequence[str], program: str, source: str) -> list[dict[str, Any]]:
    """What a version says; in a process of its own, with the sources that it has."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((source, HERE))}
    command = [sys.executable, os.path.join(HERE, program)]
    run = subprocess.run(command, input=json.dumps(paths).encode(), env=environment, stdout=subprocess.PIPE, check=True)
    sessions: list[dict[str, Any]] = json.loads(run.stdout)
    return sessions


def run_010(paths: Sequence[str]) -> list[dict[str, Any]] | None:
    """What 0.1.0 says, kept in .cache; None where the history does not have it."""
    adapter = os.path.join(HERE, "meaning_product_010.py")
    with open(adapter, "rb") as file:
        name = sha256(file.read() + "\n".join(paths).encode()).hexdigest()[:16]
    cache_path = os.path.join(CACHE, f"{name}.json")
    if os.path.exists(cache_path):
        with open(cache_path) as file:
            sessions: list[dict[str, Any]] = json.load(file)
        return sessions
    archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT_OF_010, "src"], capture_output=True)
    if archive.returncode:
        return None
    source = os.path.join(CACHE, "0.1.0")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(source, filter="data")
    sessions = run_product(paths, adapter, os.path.join(source, "src"))
    with open(cache_path, "w") as file:
        json.dump(sessions, file)
    return sessions


def check_sessions(
    labels: Sequence[dict[str, Any]], descriptions: Iterable[dict[str, Any]], checkers: dict[str, Checker]
) -> list[Session]:
    by_path = {os.path.realpath(entry["path"]): entry for entry in descriptions}
    sessions: list[Session] = []
    for label in labels:
        path = os.path.realpath(os.path.join(CORPUS, label["file"]))
        entry = by_path[path]
        sessions.append(Session(label, entry, tuple(_check_lines(entry, checkers[path]))))
    return sessions


def _check_lines(description: dict[str, Any], checker: Checker) -> Iterator[Line]:
    for name, texts in description["summary"].items():
        for text in texts:
            yield Line(text, _KINDS[name], name, checker.find_fault(text, _KINDS[name]))
    for row in description["handoff"]:
        section = row["section"]
        if section in ("Memories to approve", "Lessons to consider"):
            continue  # measured as statements, and by bench/scan-quality.py
        kind = "asked" if _ASKED.match(row["text"]) else "done" if section == "Summary" else "next"
        fault = checker.find_fault(row["text"], kind, row["lines"]) if row["lines"] else "it names no line"
        if fault == "no statement of finished work" and not checker.find_fault(row["text"], "learned", row["lines"]):
            fault = ""  # the part also tells causes
        yield Line(row["text"], kind, section, fault)


def measure(sessions: Sequence[Session]) -> dict[str, float]:
    lines = [line for session in sessions for line in session.lines]
    with_step = [session for session in sessions if session.label["next"]]
    with_right_step = [session for session in with_step if any(map(session.is_labelled_step, session.next_lines))]
    with_wrong_step = [s for s in sessions if s.told["next"] and not s.is_labelled_step(s.told["next"])]
    summary_wrong = [
        session
        for session in sessions
        if session.told["summary"]["next_steps"]
        and not any(map(session.is_labelled_step, session.told["summary"]["next_steps"]))
    ]
    matches = [match for session in sessions for match in session.matched_statements]
    true_matches = sum(label is not None for _, label in matches)
    labelled = sum(len(session.label["statements"]) for session in sessions)
    return {
        "supported": sum(not line.fault for line in lines) / max(len(lines), 1),
        "lines": len(lines) / len(sessions),
        "topic": sum(session.is_topic_right() for session in sessions) / len(sessions),
        "outcome": sum(session.is_outcome_right() for session in sessions) / len(sessions),
        "next_found": len(with_right_step) / max(len(with_step), 1),
        "next_wrong": len(with_wrong_step) / len(sessions),
        "summary_next_wrong": len(summary_wrong) / len(sessions),
        "statements_precision": true_matches / max(len(matches), 1),
        "statements_recall": true_matches / max(labelled, 1),
        "titles": sum(len(session.told["titles"]) for session in sessions) / len(sessions),
        "brief_tokens": median(session.told["brief_tokens"] for session in sessions),
    }


def measure_kept(old_sessions: Sequence[Session], new_sessions: Sequence[Session]) -> float:
    """The share of the useful lines of before whose content is still said."""
    useful_count = kept_count = 0
    for old, new in zip(old_sessions, new_sessions, strict=True):
        texts = [line for line in new.lines if not line.fault]
        texts += [Line(title, "", "title") for title in new.told["titles"]]
        for line in old.useful_lines:
            hashes = _HASH.findall(line.text)
            has_hashes = bool(hashes) and all(any(name in other.text for other in texts) for name in hashes)
            is_kept = has_hashes or any(_is_same_content(line, other) for other in texts)
            useful_count += 1
            kept_count += is_kept
            if SHOW and not is_kept:
                print(f"lost         {old.label['file'][-24:]} [{line.part}] {line.text}")
    return kept_count / max(useful_count, 1)


def show_faults(sessions: Sequence[Session]) -> None:
    for session in sessions:
        name = session.label["file"][-24:]
        for line in session.lines:
            if line.fault:
                print(f"unsupported  {name} [{line.part}] {line.fault}: {line.text}")
        if not session.is_topic_right():
            print(f"topic        {name} {session.told['topic']} | {session.label['topics']}")
        if not session.is_outcome_right():
            print(f"outcome      {name} {session.label['outcome_words']} | {session.label['outcome_terms']}")
        if session.label["next"] and not any(map(session.is_labelled_step, session.next_lines)):
            print(f"next missed  {name} {session.label['next']} | {session.next_lines[:3]}")
        if session.told["next"] and not session.is_labelled_step(session.told["next"]):
            print(f"next wrong   {name} {session.told['next']} | {[step['words'] for step in session.label['next']]}")
        matches = session.matched_statements
        for proposed, label in matches:
            if label is None:
                print(f"no statement {name} {proposed}")
        for label in session.label["statements"]:
            if not any(match is label for _, match in matches):
                print(f"not proposed {name} {label}")
    reasons = Counter(line.fault.partition(":")[0] for session in sessions for line in session.lines if line.fault)
    print(f"\n{dict(reasons.most_common())}\n")


def main() -> int:
    if not os.path.isdir(CORPUS):
        print(f"no sessions to measure on: {CORPUS} is not there (CORPUS=folder LABELS=file take others)")
        return 0
    labels = read_labels()
    if not labels:
        print(f"none of the sessions that {LABELS} labels is in {CORPUS}")
        return 0
    paths = [os.path.realpath(os.path.join(CORPUS, label["file"])) for label in labels]
    checkers = {path: Checker(read_transcript(path)) for path in paths}
    sessions = check_sessions(labels, run_product(paths, "meaning_product.py", os.path.join(ROOT, "src")), checkers)
    figures = measure(sessions)
    os.makedirs(CACHE, exist_ok=True)
    old_descriptions = run_010(paths)
    old_sessions = check_sessions(labels, old_descriptions, checkers) if old_descriptions else None
    figures_before = measure(old_sessions) if old_sessions else {}
    if old_sessions:
        figures["useful_kept"] = measure_kept(old_sessions, sessions)
        figures_before["useful_kept"] = 1.0
    if SHOW:
        show_faults(sessions)
    print(f"{len(sessions)} sessions{'':17}now    0.1.0   bar")
    faults = []
    for name, value in figures.items():
        bar = BARS.get(name, LIMITS.get(name))
        is_missed = (name in BARS and value < BARS[name]) or (name in LIMITS and value > LIMITS[name])
        faults += [name] if is_missed else []
        old_value = f"{figures_before[name]:8.3f}" if name in figures_before else f"{'':8}"
        print(f"{name:22}{value:10.3f}{old_value}   {bar if bar is not None else ''}{' missed' if is_missed else ''}")
    names = ("supported", "next_found", "next_wrong", "statements_precision", "statements_recall", "brief_tokens")
    print(json.dumps({name: round(figures[name], 3) for name in names}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
