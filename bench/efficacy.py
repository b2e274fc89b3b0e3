"""Check whether the proof can be trusted: `make bench-efficacy`; `QUICK=1 make bench-efficacy` for a tenth of the runs.

Simulated users with known effects work through the real store: their sessions draw their arms, their calls are stored
as hooks report them, and the ledger is brought up to date after every firing. Then an agent that runs denied calls, and
honest ones over the corpus of real transcripts (`../shared/corpus`, or CORPUS=folder). The last line is JSON; it fails
below the bars.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median

import staleness

from hardwon import settings
from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import add_lesson, measure_lesson
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.efficacy.delivery_changes import build_proofs, update_deliveries
from hardwon.efficacy.proof import PROVEN, LessonProof
from hardwon.lessons.delivery import draw_fraction
from hardwon.lessons.manifest import compile_entries
from hardwon.sessions import ingest, transcript_import
from hardwon.store import db, efficacy
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.db import Connection, transaction
from hardwon.store.efficacy import MEASURED, UNCHANGED_STATE, LessonState
from hardwon.store.events import insert_deliveries, store_report
from hardwon.types import Delivery, Event, Lesson, ManifestEntry
from hardwon.worker.hook_responder import HookResponder

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
RUNS = 100 if QUICK else 1_000
LESSONS_PER_HOME = 50  # that are simulated side by side
FIRINGS = 60
STRONG_FIRINGS = 80  # long enough that nearly every strong effect is proven
LOOKS = (2, 5, 10, 20, 40, 60)  # firings after which the interval is compared with the truth
NULL_RATES = (0.3, 0.5, 0.9)
CORPUS = os.environ.get("CORPUS") or os.path.join(os.path.dirname(__file__), "..", "..", "shared", "corpus")
CORPUS_AGENTS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini"}
ERROR = "Exit code 2\nerror: unrecognized subcommand 'fly'"
START = 1_790_000_000.0
LIMITS = {"false_proven": 0.01, "median_firings": 22, "quiet_after": 5, "stepped_down": 0.01, "missed": 0.05}


@dataclass(frozen=True)
class User:
    """How often the mistake is made untold and told, whether that drifts, and how often a held call was right."""

    untold: float
    told: float
    drift: Callable[[int], float] = lambda number: 1.0
    false_alarms: float = 0.0
    is_measured: bool = True

    @property
    def prevented_share(self) -> float:
        return 100 * (1 - self.told / self.untold)


@dataclass
class Run:
    """What one simulated lesson came to."""

    user: User
    firings: int = 0
    proven_after: int | None = None
    silent_after: int | None = None
    stepped_down_after: int | None = None
    missed_looks: list[int] = field(default_factory=list)
    last: LessonProof | None = field(default=None, repr=False)


def simulate(user: User, runs: int, firings: int, seed: int) -> list[Run]:
    """Simulate lessons for one kind of user, in homes of several lessons each, looking after every firing."""
    results: list[Run] = []
    chance = random.Random(seed)
    while len(results) < runs:
        count = min(LESSONS_PER_HOME, runs - len(results))
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as home:
            results += simulate_home(home, user, count, firings, chance)
    return results


def simulate_home(home: str, user: User, count: int, firings: int, chance: random.Random) -> list[Run]:
    with closing(db.connect(home)) as connection:
        decider = open_decider(home, connection, COMMAND_LINE)
        lessons = [add_lesson(decider, build_record(number)) for number in range(count)]
        if user.is_measured:
            for lesson in lessons[1:]:
                with transaction(connection):
                    efficacy.add_change(
                        connection, lesson.id, lesson.slug, MEASURED, reason="", path=COMMAND_LINE, now=START
                    )
            measure_lesson(decider, lessons[0])  # builds the manifest, which takes long, once
        secret = chance.randbytes(32).hex()  # so that every run of the benchmark draws the same arms
        runs = {lesson.id: Run(user) for lesson in lessons}
        now = START
        for number in range(firings):
            states = efficacy.list_lesson_states(connection)
            with transaction(connection):
                for lesson in lessons:
                    state = states.get(lesson.id, UNCHANGED_STATE)
                    store_firing(connection, lesson, state, user, number, secret, chance, now)
            now += 86_400
            update_deliveries(connection, home, now)
            states = efficacy.list_lesson_states(connection)
            for proof in build_proofs(connection, home):
                update_run(runs[proof.lesson.id], proof, states.get(proof.lesson.id, UNCHANGED_STATE), number + 1)
        return list(runs.values())


def update_run(run: Run, proof: LessonProof, state: LessonState, firings: int) -> None:
    run.firings, run.last = firings, proof
    if proof.grade == PROVEN and run.proven_after is None:
        run.proven_after = firings
    if state.stepped_down_to and run.stepped_down_after is None:
        run.stepped_down_after = firings
    if state.stepped_down_to == "silent" and run.silent_after is None:
        run.silent_after = firings
    if run.user.is_measured and firings in LOOKS:
        share = proof.compute_prevented_share()
        if share and not share.low <= run.user.prevented_share <= share.high:
            run.missed_looks.append(firings)


def build_record(number: int) -> dict[str, object]:
    return {
        "summary": f"kite{number} has no command fly in this version",
        "problem": f"kite{number} fly is not a command of kite{number} and fails{number} every{number} time{number}",
        "solution": f"run kite{number} launch instead{number}, which does{number} the same{number}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [rf"\bkite{number} fly\b"]},
        "delivery": "hold",
    }


_entries: dict[tuple[str, LessonState], ManifestEntry] = {}


def compile_lesson(lesson: Lesson, state: LessonState) -> ManifestEntry:
    """Return a lesson's entry in the manifest; compiled once, since it fires many times."""
    key = (lesson.id, state)
    if key not in _entries:
        (_entries[key],) = compile_entries([lesson], {lesson.id: state})
    return _entries[key]


def store_firing(
    connection: Connection,
    lesson: Lesson,
    state: LessonState,
    user: User,
    number: int,
    secret: str,
    chance: random.Random,
    now: float,
) -> None:
    """Store one session in which the trigger fires once: the firing, the calls, the end."""
    entry = compile_lesson(lesson, state)
    program = entry.commands[0].source.split()[0].removeprefix("\\b")
    session = f"{program}-{number}"
    # A lesson's id is made at random; its program stands for it, so that every run draws the same arms.
    is_silent = draw_fraction(secret, session, program) < entry.silent_share
    arm = ("silent" if is_silent else "live") if 0 < entry.silent_share < 1 else "shadow" if is_silent else "told"
    delivery = Delivery(
        f"{session}:call0", now, "claude-code", session, "", "PreToolUse", "Bash", lesson.id, lesson.slug,
        lesson.summary, entry.delivery, entry.version, arm, 1 - entry.silent_share,
    )  # fmt: skip
    insert_deliveries(connection, [delivery])
    is_held = entry.delivery == "hold" and not is_silent
    would_fail = chance.random() < (user.untold if is_silent else user.told) * user.drift(number)
    is_right = chance.random() < user.false_alarms
    calls = [("call0", f"{program} fly", is_held, would_fail and not is_right)]
    if is_held and (would_fail or is_right):
        calls.append(("call1", f"{program} fly", False, would_fail and not is_right))
    elif is_held:
        calls.append(("call1", f"{program} launch", False, False))
    for position, (call_id, command, is_denied, has_failed) in enumerate(calls):
        event = Event(
            "claude-code",
            "PreToolUse" if is_denied else "PostToolUseFailure" if has_failed else "PostToolUse",
            session,
            "/home/dev/kite",
            id=f"{session}-{call_id}",
            at=now + position,
            tool="Bash",
            tool_use_id=call_id,
            command=command,
            input={"command": command},
            response=ERROR if has_failed else "done",
            failed=has_failed,
            denied=is_denied,
        )
        store_report(connection, ingest.build_report(event, None))
    end = Event("claude-code", "SessionEnd", session, "/home/dev/kite", id=f"{session}-end", at=now + 10)
    store_report(connection, ingest.build_report(end, None))


def count_lies_found(count: int) -> tuple[int, int]:
    """Run denied calls all the same; return how many alarms came up, and how many for calls that were not run."""
    with tempfile.TemporaryDirectory() as home, closing(db.connect(home)) as connection:
        add_lesson(open_decider(home, connection, COMMAND_LINE), build_record(1))
        responder = HookResponder(home, connection)
        for number in range(count):
            payload = {
                "session_id": f"s{number}",
                "cwd": "/home/dev/kite",
                "tool_name": "Bash",
                "tool_input": {"command": "kite1 fly"},
                "tool_use_id": f"toolu_{number}",
            }
            answer = send_event(responder, "PreToolUse", payload)
            assert b'"deny"' in answer, answer
            send_event(responder, "PostToolUse", {**payload, "tool_response": {"stdout": "up it goes"}})
        honest = {"session_id": "honest", "cwd": "/", "tool_name": "Bash", "tool_input": {"command": "kite1 fly"}}
        send_event(responder, "PreToolUse", {**honest, "tool_use_id": "toolu_x"})
        alarms = efficacy.list_ignored_denials(connection)
        return len([alarm for alarm in alarms if alarm["session"] != "honest"]), len(alarms)


def send_event(responder: HookResponder, kind: str, payload: Mapping[str, object]) -> bytes:
    body = json.dumps({"hook_event_name": kind, **payload}).encode()
    return responder.answer(f"hardwon 1 claude-code {kind} {os.urandom(16).hex()}\n".encode() + body)


def count_corpus_alarms() -> tuple[int, int, int] | None:
    """Import every transcript, then let honest agents make its commands anew under a hold; return calls and alarms.

    A held call is made again under another id, as agents do. None if there is no corpus.
    """
    paths = [
        (agent, os.path.join(folder_path, name))
        for folder, agent in CORPUS_AGENTS.items()
        for folder_path, _, names in sorted(os.walk(os.path.join(CORPUS, folder)))
        for name in sorted(names)
    ]
    if not paths:
        return None
    with tempfile.TemporaryDirectory() as home, closing(db.connect(home)) as connection:
        values = settings.resolve_settings({})
        for agent, path in paths[:: 10 if QUICK else 1]:
            transcript_import.import_transcript(home, connection, agent, path, values)
        for number, word in enumerate(("git", "npm", "python", "ls", "grep", "cd")):
            record = {**build_record(number), "summary": f"a hold on the word {word} for a benchmark"}
            record["triggers"] = {"toolNames": ["Bash"], "commandPatterns": [rf"\b{word}\b"]}
            add_lesson(open_decider(home, connection, COMMAND_LINE), record)
        responder = HookResponder(home, connection)
        calls = denied_calls = 0
        for session, command in iter_commands(paths[:: 50 if QUICK else 10]):
            calls += 1
            payload: dict[str, object] = {
                "session_id": session,
                "cwd": "/home/dev/project",
                "tool_name": "Bash",
                "tool_input": {"command": command},
                "tool_use_id": f"toolu_{calls}",
            }
            if b'"deny"' in send_event(responder, "PreToolUse", payload):
                denied_calls += 1
                continue
            send_event(responder, "PostToolUse", {**payload, "tool_response": {"stdout": ""}})
        print(f"corpus: {calls} commands made anew, {denied_calls} denied")
        return calls, denied_calls, len(efficacy.list_ignored_denials(connection))


def iter_commands(paths: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for number, (agent, path) in enumerate(paths):
        reader = load_transcript_module(agent).Reader()
        with open(path, "rb") as file:
            for line_number, line in enumerate(file, 1):
                for step in reader.read_line(line_number, line):
                    if step.kind == "call" and step.tool == "Bash":
                        yield f"corpus{number}", step.command


def measure_effects() -> tuple[dict[str, object], list[str]]:
    """Simulate known effects; return the figures and what is below its bar."""
    figures: dict[str, object] = {}
    faults: list[str] = []

    def drift_down(number: int) -> float:
        return 1.0 - 0.5 * number / STRONG_FIRINGS

    def drift_up(number: int) -> float:
        return 0.5 + 0.5 * number / STRONG_FIRINGS

    nulls = []
    for seed, rate in enumerate(NULL_RATES):
        nulls += simulate(User(rate, rate), RUNS // 5, FIRINGS, seed=seed)
    nulls += simulate(User(0.9, 0.9, drift_down), RUNS // 5, FIRINGS, seed=9)
    nulls += simulate(User(0.9, 0.9, drift_up), RUNS // 5, FIRINGS, seed=10)
    false_proven = sum(run.proven_after is not None for run in nulls) / len(nulls)
    figures["false_proven"] = round(false_proven, 4)
    effects = {
        "half": (User(0.8, 0.4), FIRINGS),
        "half, falling": (User(0.8, 0.4, drift_down), FIRINGS),
        "strong": (User(0.9, 0.1), STRONG_FIRINGS),
        "strong, falling": (User(0.9, 0.1, drift_down), STRONG_FIRINGS),
        "strong, rising": (User(0.9, 0.1, drift_up), STRONG_FIRINGS),
    }
    all_runs = {"none": nulls}
    all_runs |= {name: simulate(user, RUNS // 8, firings, seed=len(name)) for name, (user, firings) in effects.items()}
    for name, runs in all_runs.items():
        true_share, firings = runs[0].user.prevented_share, runs[0].firings
        all_shares = [run.last.compute_prevented_share() for run in runs if run.last]
        shares = [share for share in all_shares if share]
        # At any of the looks: an interval that holds at all times must hold at each of them.
        missed = sum(bool(run.missed_looks) for run in runs) / len(runs)
        estimate = median(share.estimate for share in shares)
        proven = sorted(run.proven_after or firings + 1 for run in runs)
        print(
            f"{name:18} true {true_share:.0f} of 100, median estimate {estimate:.0f},"
            f" runs whose interval ever misses it {missed:.1%},"
            f" proven {sum(run.proven_after is not None for run in runs) / len(runs):.0%},"
            f" median firings to proof {median(proven):.0f}"
        )
        figures[name] = {"true": round(true_share), "estimate": estimate, "missed": round(missed, 3)}
        # Of the dozen runs of a quick one, a single miss is more than the limit.
        if missed > max(LIMITS["missed"], 1 / len(runs)) or abs(estimate - true_share) > 12:
            faults.append(f"{name}: {estimate} for {true_share:.0f}, {missed:.1%} of intervals miss it")
        if name == "strong":
            figures["median_firings"] = median(proven)
            if median(proven) > LIMITS["median_firings"]:
                faults.append(f"median of {median(proven)} firings to a proof")
    few = simulate(User(0.9, 0.1), RUNS // 20, 2, seed=5)
    if any(run.proven_after for run in few):
        faults.append("two firings were enough for a proof")
    if false_proven > LIMITS["false_proven"]:
        faults.append(f"{false_proven:.2%} of lessons without effect proven")
    return figures, faults


def main() -> int:
    figures, faults = measure_effects()
    noisy = simulate(User(0.0, 0.0, false_alarms=1.0, is_measured=False), 50, 6, seed=11)
    quiet_after = max(run.silent_after or FIRINGS for run in noisy)
    quiet = simulate(User(0.0, 0.0, false_alarms=0.02, is_measured=False), RUNS, FIRINGS, seed=12)
    stepped_down = sum(run.stepped_down_after is not None for run in quiet) / len(quiet)
    stale_cases = list(staleness.run_cases())
    stale_wrong = [name for name, expected, actual in stale_cases if actual != expected]
    faults += [f"told wrongly about changed code: {name}" for name in stale_wrong]
    lies, alarms = count_lies_found(100)
    corpus = count_corpus_alarms()
    if corpus is None:
        print(f"no corpus of transcripts at {CORPUS}: honest agents were not tried")
    figures |= {
        "quiet_after": quiet_after,
        "stepped_down": round(stepped_down, 4),
        "lies_found": lies,
        "stale": f"{len(stale_cases) - len(stale_wrong)} of {len(stale_cases)}",
        "corpus_alarms": corpus[2] if corpus else None,
    }
    if quiet_after > LIMITS["quiet_after"]:
        faults.append(f"a noisy lesson was quiet after {quiet_after} firings")
    if stepped_down > LIMITS["stepped_down"]:
        faults.append(f"{stepped_down:.2%} of lessons with 2 % false alarms stepped down")
    if lies != 100 or alarms != lies:
        faults.append(f"{lies} of 100 ignored denials found, {alarms - lies} false")
    if corpus and corpus[2]:
        faults.append(f"{corpus[2]} false alarms over the corpus")
    for fault in faults:
        print(f"below the bar: {fault}", file=sys.stderr)
    print(json.dumps({"runs": RUNS, **figures}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
