"""Whether mistakes are held before they happen again: `make bench-repeats`.

A project's sessions are put in the order of time. Before each session everything that had ended is mined, and the
proposals are accepted; then every call of the session goes through the matcher that ships. Three policies run side by
side: what the product puts in its default list, with the trigger and delivery it proposes; every proposal with the
delivery that 0.1.0 would have proposed; and every proposal of which at least half of the recorded firings failed, as a
hold.

What counts as a repeat stands in `repeats.jsonl`: pointers into `../shared/corpus`, found with the rule of 0.1.0 and
judged by hand. `CORPUS=` takes other data of the same layout (agent/project/transcripts); there, and with REPEATS=rule,
the rule in `repeat_rule.py` says what a repeat is. All firings and all repeats that were not held go to a file.

The last line is JSON, for the default list. It fails below these bars: a third of the repeats held, 0.78 of the firings
right, at most 0.8 calls per 1,000 that went fine and were told something, at most 0.1 of the blocks wrong; on other
data half of the wrong options, subcommands and names held, 0.60 and 1.0.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from product import (
    Call,
    Firing,
    Guard,
    Proposal,
    Transcript,
    Trigger,
    Workshop,
    compile_trigger,
    find_transcripts,
    open_workshop,
    read_calls,
)
from repeat_rule import describe_failure, has_hidden_failure, is_cancelled

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_CORPUS = os.path.join(ROOT, "..", "shared", "corpus")
JUDGED_LIST = os.path.join(ROOT, "bench", "repeats.jsonl")
OUTPUT = os.path.join(ROOT, ".cache", "bench-repeats")

SHIPPED, OLD, GATED = "as shipped", "0.1.0's policy", "gate"
GATE = 0.5
OLD_HOLD_PRIORITY = 7  # from this priority on 0.1.0 proposed a hold
BY_NAME = ("wrong-option", "wrong-subcommand", "wrong-name")
BOOTSTRAPS = 2_000
LONGEST_SHOWN = 400

FAILED, FINE, NOT_RUN = "failed", "fine", "not run"  # outcomes of calls
RIGHT, OTHER_FAILURE = "right", "other failure"  # verdicts on firings, beside FINE and NOT_RUN


@dataclass(frozen=True, slots=True)
class Bars:
    """What must be reached; `kinds` are the kinds of repeats of which `held` counts, empty for all."""

    held: float
    precision: float
    false_per_1000: float
    wrong_blocks: float
    kinds: tuple[str, ...] = ()


CORPUS_BARS = Bars(1 / 3, 0.78, 0.8, 0.1)
OTHER_BARS = Bars(0.5, 0.60, 1.0, 0.1, BY_NAME)


@dataclass(slots=True, eq=False)
class Session:
    """A transcript with those of its sub-agents; calls that were copied from an older session are left out."""

    name: str
    transcripts: list[Transcript]
    first: str
    last: str
    calls: list[Call] = field(default_factory=list)
    copied_calls: list[Call] = field(default_factory=list)

    @property
    def first_new(self) -> str:
        """Return when its first call of its own was made; a resumed session begins with an older one's lines."""
        return min((call.at for call in self.calls if call.at), default=self.first)


@dataclass(frozen=True, slots=True)
class Project:
    """The sessions of one repository in the order of time, whatever agent wrote them."""

    name: str
    sessions: tuple[Session, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """What is known about a call: its outcome, by which mistake it failed, and whether that is a counted repeat."""

    outcome: str
    recorded_outcome: str  # as the frozen rule reads it, without what was judged by hand
    cause: str = ""
    kind: str = ""
    is_repeat: bool = False


@dataclass(slots=True)
class Tally:
    """What one policy came to in one project."""

    calls: int = 0
    repeats: Counter[str] = field(default_factory=Counter)  # by kind
    covered: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    right: int = 0
    other_failure: int = 0
    fine: int = 0
    not_run: int = 0
    fine_calls_told: int = 0
    denials: int = 0
    wrong_denials: int = 0
    blocks: int = 0
    wrong_blocks: int = 0
    lessons: int = 0
    missed: Counter[str] = field(default_factory=Counter)  # by reason

    def add(self, other: Tally) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def precision(self) -> float:
        return divide(self.right, self.right + self.other_failure + self.fine)

    @property
    def false_per_1000(self) -> float:
        return 1000 * divide(self.fine_calls_told, self.calls)

    def held_share(self, kinds: Sequence[str] = ()) -> float:
        return divide(count_kinds(self.held, kinds), count_kinds(self.repeats, kinds))


def divide(part: float, total: float) -> float:
    return part / total if total else 0.0


def count_kinds(counts: Mapping[str, int], kinds: Sequence[str]) -> int:
    return sum(count for kind, count in counts.items() if not kinds or kind in kinds)


def read_projects(corpus: str) -> list[Project]:
    """Read every transcript of a corpus; sessions without a time cannot be put in order and are left out."""
    root = os.path.realpath(corpus)
    by_project: dict[str, dict[str, list[Transcript]]] = defaultdict(lambda: defaultdict(list))
    for transcript in find_transcripts(root):
        folders = os.path.relpath(transcript.path, root).split(os.sep)
        session = transcript.path.split("/subagents/")[0].removesuffix(".jsonl")
        if len(folders) > 2:
            by_project[folders[1]][session].append(transcript)
    return [Project(name, order_sessions(by_project[name])) for name in sorted(by_project)]


def order_sessions(transcripts: Mapping[str, list[Transcript]]) -> tuple[Session, ...]:
    sessions: list[Session] = []
    for name, parts in transcripts.items():
        calls: list[Call] = []
        times: list[str] = []
        for part in parts:
            part_calls, first, last = read_calls(part)
            calls += part_calls
            times += [time for time in (first, last) if time]
        sessions.append(Session(name, parts, min(times, default=""), max(times, default=""), calls))
    sessions.sort(key=lambda session: session.first)
    keep_first_copies(sessions)
    return tuple(session for session in sessions if session.first)


def keep_first_copies(sessions: Iterable[Session]) -> None:
    """Leave calls out that an older session has: a resumed session's file begins with copies."""
    seen_keys: set[str] = set()
    for session in sessions:
        own_calls = [call for call in session.calls if call.key not in seen_keys]
        session.copied_calls = [call for call in session.calls if call.key in seen_keys]
        session.calls = sorted(own_calls, key=lambda call: call.at)
        seen_keys.update(call.key for call in own_calls)


def find_ended(project: Project, session: Session) -> list[Session]:
    """Return the sessions that had ended before this one did anything of its own."""
    start = session.first_new
    return [other for other in project.sessions if other is not session and other.last <= start]


def read_outcome(call: Call) -> str:
    if call.is_refused:
        return NOT_RUN
    if call.is_failed:
        return NOT_RUN if is_cancelled(call.tool, call.result) else FAILED
    return FAILED if has_hidden_failure(call.tool, call.command, call.result) else FINE


def label_by_rule(project: Project) -> dict[str, Label]:
    """Label calls by the frozen rule: a repeat is a failure met in an ended session, first in its own."""
    causes: dict[str, tuple[str, str]] = {}
    outcomes: dict[str, str] = {}
    for session in project.sessions:
        for call in session.calls:
            outcomes[call.key] = read_outcome(call)
            if outcomes[call.key] == FAILED:
                failure = describe_failure(call.tool, call.command, call.result)
                causes[call.key] = failure.signature, failure.kind
    labels: dict[str, Label] = {}
    for session in project.sessions:
        earlier_calls = [call.key for other in find_ended(project, session) for call in other.calls]
        known_causes = {causes[key][0] for key in earlier_calls if key in causes}
        met: set[str] = set()
        for call in session.calls:
            outcome = outcomes[call.key]
            cause, kind = causes.get(call.key, ("", ""))
            is_repeat = bool(cause) and cause in known_causes and cause not in met
            met.add(cause)
            labels[call.key] = Label(outcome, outcome, cause, kind, is_repeat)
    return labels


def label_by_list(project: Project, rows: Iterable[Mapping[str, Any]], corpus: str) -> dict[str, Label]:
    """Label calls by the judged list; a call that is not in it has no known cause."""
    pointed: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for row in rows:
        if row["project"] == project.name and row["mistake"]:
            pointed[(row["file"], row["call"], row["line"])] = row
    labels: dict[str, Label] = {}
    root = os.path.realpath(corpus)
    used: set[tuple[str, str, int]] = set()
    for session in project.sessions:
        for call in session.calls:
            pointer = (os.path.relpath(call.path, root), call.call_id, call.line)
            recorded_outcome = read_outcome(call)
            judged = pointed.get(pointer)
            if judged is None:
                labels[call.key] = Label(recorded_outcome, recorded_outcome)
                continue
            used.add(pointer)
            labels[call.key] = Label(FAILED, recorded_outcome, judged["cause"], judged["kind"], judged["first"])
    if missing := pointed.keys() - used:
        raise SystemExit(f"error: {JUDGED_LIST} points to calls that are not there: {sorted(missing)[:3]}")
    return labels


@dataclass(slots=True)
class Accepted:
    """A proposal that was accepted, and the mistakes that its evidence shows."""

    proposal: Proposal
    causes: frozenset[str]


class Trials:
    """How the triggers of proposals fare on the recorded calls, counted on as sessions end."""

    def __init__(self, labels: Mapping[str, Label]) -> None:
        self._labels = labels
        self._calls: list[Call] = []
        self._triggers: dict[str, Trigger | None] = {}
        self._counts: dict[str, tuple[int, int, int]] = {}  # calls tried, fired and failed, fired and fine

    def record(self, calls: Iterable[Call]) -> None:
        self._calls += calls

    def find_trigger(self, proposal: Proposal) -> Trigger | None:
        key = self._key(proposal)
        if key not in self._triggers:
            self._triggers[key] = compile_trigger(proposal)
        return self._triggers[key]

    def count(self, proposal: Proposal) -> tuple[int, int]:
        """Return on how many recorded calls that failed, and that went fine, the trigger fires."""
        trigger = self.find_trigger(proposal)
        if trigger is None:
            return 0, 0
        key = self._key(proposal)
        tried, failed, fine = self._counts.get(key, (0, 0, 0))
        for call in self._calls[tried:]:
            if trigger.matches(call):
                outcome = self._labels[call.key].recorded_outcome
                failed += outcome == FAILED
                fine += outcome == FINE
        self._counts[key] = len(self._calls), failed, fine
        return failed, fine

    def passes_gate(self, proposal: Proposal) -> bool:
        failed, fine = self.count(proposal)
        return failed + fine > 0 and failed / (failed + fine) >= GATE

    @staticmethod
    def _key(proposal: Proposal) -> str:
        return json.dumps([proposal.record.get("triggers"), proposal.record.get("unless")], sort_keys=True)


def propose_old_delivery(proposal: Proposal) -> str:
    """Return what 0.1.0 proposed: a hold for a shell command of high priority, else a note."""
    triggers = proposal.record.get("triggers") or {}
    priority = proposal.record.get("priority", 0)
    is_command = bool(triggers.get("commandPatterns")) and "Bash" in triggers.get("toolNames", ())
    return "hold" if is_command and priority >= OLD_HOLD_PRIORITY else "note"


def judge_firing(label: Label, causes: frozenset[str]) -> str:
    """Return what a lesson about these mistakes was worth on a call: right only where it failed by one of them."""
    if label.outcome == FINE:
        return FINE
    if label.outcome != FAILED:
        return NOT_RUN
    return RIGHT if label.cause and label.cause in causes else OTHER_FAILURE


class Replay:
    """One project under one policy."""

    def __init__(self, project: Project, labels: Mapping[str, Label], policy: str, log: TextIO) -> None:
        self._project = project
        self._labels = labels
        self._policy = policy
        self._log = log
        self._trials = Trials(labels)
        self._accepted: dict[str, Accepted] = {}
        self._proposals: dict[str, tuple[Proposal, frozenset[str]]] = {}  # every one that was ever listed
        self._refusals: dict[str, str] = {}
        self._evidence_causes = self._index_evidence()
        self.tally = Tally()

    def _index_evidence(self) -> dict[tuple[str, int], set[str]]:
        """Return the mistakes by the path and line of the failed result, copies of it included."""
        causes: dict[tuple[str, int], set[str]] = defaultdict(set)
        for session in self._project.sessions:
            for call in (*session.calls, *session.copied_calls):
                label = self._labels.get(call.key)
                if label is not None and label.cause:
                    causes[(call.path, call.result_line)].add(label.cause)
        return causes

    def run(self) -> Tally:
        waiting = sorted(self._project.sessions, key=lambda session: session.last)
        with open_workshop() as workshop:
            guard = workshop.open_guard()
            for session in self._project.sessions:
                ended = find_ended(self._project, session)
                due = [other for other in waiting if other in ended]
                if due:
                    waiting = [other for other in waiting if other not in due]
                    workshop.mine([transcript for other in due for transcript in other.transcripts])
                    self._trials.record(call for other in due for call in other.calls)
                    guard = self._decide(workshop)
                if ended:
                    self._replay_session(session, guard)
        self.tally.lessons = len(self._accepted)
        return self.tally

    def _decide(self, workshop: Workshop) -> Guard:
        """Accept what the policy accepts, and give the matcher with what is in force."""
        if self._policy == GATED:
            for lesson_id, accepted in list(self._accepted.items()):
                if not self._trials.passes_gate(accepted.proposal):
                    workshop.retire(lesson_id)
                    self._refusals[accepted.proposal.id] = "fell below the gate"
                    del self._accepted[lesson_id]
        for proposal in workshop.list_all():
            self._note_proposal(proposal)
        for proposal in workshop.list_default() if self._policy == SHIPPED else workshop.list_all():
            delivery = ""
            if self._policy == OLD:
                delivery = propose_old_delivery(proposal)
            elif self._policy == GATED:
                delivery = "hold"
                if not self._trials.passes_gate(proposal):
                    self._refusals[proposal.id] = "below the gate"
                    continue
            lesson_id, refusal = workshop.accept(proposal, delivery)
            if refusal:
                self._refusals[proposal.id] = f"refused: {refusal}"
                continue
            self._refusals.pop(proposal.id, None)
            _, causes = self._proposals[proposal.id]
            self._accepted[lesson_id] = Accepted(proposal, causes)
        return workshop.open_guard()

    def _note_proposal(self, proposal: Proposal) -> None:
        cause_sets = [self._evidence_causes.get(line_place, set()) for line_place in proposal.evidence]
        self._proposals[proposal.id] = proposal, frozenset(cause for causes in cause_sets for cause in causes)

    def _replay_session(self, session: Session, guard: Guard) -> None:
        delivered: set[tuple[str, str, str]] = set()
        for call in session.calls:
            label = self._labels[call.key]
            firings = guard.ask(call, delivered)
            verdicts = [judge_firing(label, self._find_causes(firing)) for firing in firings]
            self.tally.calls += 1
            for firing, verdict in zip(firings, verdicts, strict=True):
                self._count_firing(session, call, label, firing, verdict)
            self.tally.fine_calls_told += bool(firings) and label.outcome == FINE
            if label.is_repeat:
                pairs = zip(firings, verdicts, strict=True)
                self._count_repeat(session, call, label, [firing for firing, verdict in pairs if verdict == RIGHT])

    def _find_causes(self, firing: Firing) -> frozenset[str]:
        accepted = self._accepted.get(firing.lesson)
        return accepted.causes if accepted else frozenset()

    def _count_firing(self, session: Session, call: Call, label: Label, firing: Firing, verdict: str) -> None:
        tally = self.tally
        tally.right += verdict == RIGHT
        tally.other_failure += verdict == OTHER_FAILURE
        tally.fine += verdict == FINE
        tally.not_run += verdict == NOT_RUN
        tally.denials += firing.is_denial
        tally.wrong_denials += firing.is_denial and verdict == FINE
        tally.blocks += firing.delivery == "block"
        tally.wrong_blocks += firing.delivery == "block" and verdict == FINE
        accepted = self._accepted.get(firing.lesson)
        record = accepted.proposal.record if accepted else {}
        lesson = {name: record.get(name) for name in ("problem", "solution", "triggers")}
        self._write(session, call, label, verdict=verdict, delivery=firing.delivery, lesson=lesson)

    def _count_repeat(self, session: Session, call: Call, label: Label, right_firings: Sequence[Firing]) -> None:
        tally = self.tally
        tally.repeats[label.kind] += 1
        tally.covered[label.kind] += bool(right_firings)
        if any(firing.is_denial for firing in right_firings):
            tally.held[label.kind] += 1
            return
        reason = self._explain_miss(call, label, right_firings)
        tally.missed[reason] += 1
        self._write(session, call, label, verdict="not held", reason=reason)

    def _explain_miss(self, call: Call, label: Label, right_firings: Sequence[Firing]) -> str:
        """Return why a repeat was not held."""
        if right_firings:
            return "noted, not held"
        for accepted in self._accepted.values():
            if label.cause in accepted.causes:
                trigger = self._trials.find_trigger(accepted.proposal)
                is_match = trigger is not None and trigger.matches(call)
                return "told before in this session" if is_match else "the accepted trigger does not match"
        for proposal, causes in self._proposals.values():
            if label.cause in causes:
                return self._refusals.get(proposal.id, "proposed, not in the default list")
        return "no proposal"

    def _write(self, session: Session, call: Call, label: Label, **more: object) -> None:
        row = {
            "policy": self._policy,
            "project": self._project.name,
            "session": os.path.basename(session.name),
            "file": call.path,
            "line": call.line,
            "tool": call.tool,
            "call": (call.command or call.file or call.content)[:LONGEST_SHOWN],
            "result": call.result[:LONGEST_SHOWN] if label.outcome == FAILED else "",
            "outcome": label.outcome,
            "cause": label.cause,
            "kind": label.kind,
            **more,
        }
        self._log.write(json.dumps(row, ensure_ascii=False) + "\n")


def bootstrap(tallies: Sequence[Tally], measure: Callable[[Tally], float]) -> tuple[float, float]:
    """Return the 95 % interval of a measure over projects drawn with replacement."""
    draw = random.Random(1)
    values: list[float] = []
    for _ in range(BOOTSTRAPS):
        total = Tally()
        for tally in draw.choices(tallies, k=len(tallies)):
            total.add(tally)
        values.append(measure(total))
    values.sort()
    return values[int(0.025 * BOOTSTRAPS)], values[int(0.975 * BOOTSTRAPS) - 1]


def print_table(results: Mapping[str, Sequence[Tally]]) -> None:
    totals = {policy: add_up(tallies) for policy, tallies in results.items()}
    print(f"{'':34}" + "".join(f"{policy:>24}" for policy in totals))
    rows: list[tuple[str, Callable[[Tally], str]]] = [
        ("lessons accepted", lambda tally: str(tally.lessons)),
        ("repeats", lambda tally: str(tally.repeats.total())),
        ("covered (any delivery)", lambda tally: str(tally.covered.total())),
        ("held before they ran", lambda tally: str(tally.held.total())),
        ("firings right", lambda tally: str(tally.right)),
        ("  on another failure", lambda tally: str(tally.other_failure)),
        ("  on a call that went fine", lambda tally: str(tally.fine)),
        ("  on a call that did not run", lambda tally: str(tally.not_run)),
        ("blocks wrong", lambda tally: f"{tally.wrong_blocks} of {tally.blocks}"),
        ("holds and blocks wrong", lambda tally: f"{tally.wrong_denials} of {tally.denials}"),
    ]
    for name, show in rows:
        print(f"{name:34}" + "".join(f"{show(total):>24}" for total in totals.values()))
    measures: list[tuple[str, Callable[[Tally], float]]] = [
        ("share of repeats held", Tally.held_share),
        ("share of firings right", lambda tally: tally.precision),
        ("false per 1,000 calls", lambda tally: tally.false_per_1000),
    ]
    for name, measure in measures:
        cells = []
        for policy, tallies in results.items():
            low, high = bootstrap(tallies, measure)
            cells.append(f"{measure(totals[policy]):.2f} [{low:.2f}, {high:.2f}]")
        print(f"{name:34}" + "".join(f"{cell:>24}" for cell in cells))
    print("\nby kind: held / covered / repeats")
    for kind in sorted({kind for total in totals.values() for kind in total.repeats}):
        cells = [f"{total.held[kind]} / {total.covered[kind]} / {total.repeats[kind]}" for total in totals.values()]
        print(f"  {kind:32}" + "".join(f"{cell:>24}" for cell in cells))
    print("\nrepeats that were not held, by reason")
    for reason in sorted({reason for total in totals.values() for reason in total.missed}):
        short_reason = reason if len(reason) <= 60 else f"{reason[:59]}…"
        print(f"  {short_reason:62}" + "".join(f"{total.missed[reason]:>18}" for total in totals.values()))


def add_up(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def read_judged_list() -> list[dict[str, Any]]:
    with open(JUDGED_LIST, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def describe_list(rows: Sequence[Mapping[str, Any]]) -> str:
    listed = [row for row in rows if row["first"]]
    by_rule = [row for row in listed if row["source"] == "0.1.0"]
    same = sum(row["mistake"] for row in by_rule)
    by_hand = len(listed) - len(by_rule)
    return (
        f"judged list: of {len(by_rule)} repeats by the rule of 0.1.0 {same} are the same mistake again; "
        f"{by_hand} more found by hand; {same + by_hand} count"
    )


def main() -> int:
    corpus = os.environ.get("CORPUS") or DEFAULT_CORPUS
    if not os.path.isdir(corpus):
        print(f"no transcripts at {corpus}: nothing to measure")
        return int(bool(os.environ.get("CORPUS")))
    rows = read_judged_list()
    is_judged = all(os.path.exists(os.path.join(corpus, row["file"])) for row in rows)
    bars = CORPUS_BARS if is_judged else OTHER_BARS
    is_by_rule = not is_judged or os.environ.get("REPEATS") == "rule"
    projects = [project for project in read_projects(corpus) if len(project.sessions) > 1]
    if not projects:
        print(f"no project at {corpus} has two sessions with a time: nothing to measure")
        return 1
    os.makedirs(OUTPUT, exist_ok=True)
    log_path = os.path.join(OUTPUT, "firings.jsonl")
    results: dict[str, list[Tally]] = {SHIPPED: [], OLD: [], GATED: []}
    with open(log_path, "w", encoding="utf-8") as log:
        for project in projects:
            labels = label_by_rule(project) if is_by_rule else label_by_list(project, rows, corpus)
            for policy, tallies in results.items():
                tallies.append(Replay(project, labels, policy, log).run())
    total = add_up(results[SHIPPED])
    print(f"{len(projects)} projects, {total.calls} calls after the first session that ended")
    print("repeats by the rule of 0.1.0" if is_by_rule else describe_list(rows), end="\n\n")
    print_table(results)
    print(f"\nfirings and missed repeats, to be read: {log_path}")
    held_share = total.held_share(bars.kinds)
    wrong_blocks = divide(total.wrong_blocks, total.blocks)
    summary = {
        "repeats": total.repeats.total(),
        "held": total.held.total(),
        "precision": round(total.precision, 3),
        "false_per_1000": round(total.false_per_1000, 2),
        "wrong_blocks": round(wrong_blocks, 3),
    }
    print(json.dumps(summary))
    is_reached = (
        held_share >= bars.held
        and total.precision >= bars.precision
        and total.false_per_1000 <= bars.false_per_1000
        and wrong_blocks <= bars.wrong_blocks
    )
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
