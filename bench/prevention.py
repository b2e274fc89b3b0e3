"""Whether a lesson prevents the repeat: `make bench-prevention`, `POLICY=scripted make bench-prevention` in CI.

Trap repositories, the installed hook, the real Claude Code, and a model behind a server on loopback. POLICY is

- `tiny` (default): SmolLM2-135M, fetched once with pip and run in NumPy,
- `scripted`: heeds a text that it really received with a stated probability; the benchmark must recover that effect,
- `remote`: any model with MODEL_URL (OpenAI-compatible), MODEL_NAME and MODEL_KEY.

Most sessions ask the hook and put the messages together without the client; on a sample the real client's are compared
with them. The trap is the unit: intervals are bootstrapped over traps, p values come from sign flips. The last line is
JSON; it fails below the bars. The tiny model takes as many traps as fit into ten minutes, judged by the first of them;
`TRAPS=8` takes fewer.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

# One thread for each process: more only wait for each other, and sums come out the same on every machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from prevention_machine import (
    ARMS,
    CROWD,
    FAR,
    HOLD,
    NEAR,
    NO_MEMORY,
    NOTE,
    PLACEBO,
    SHAM,
    START,
    UNINSTALLED,
    Case,
    DirectSession,
    Machine,
)
from prevention_policies import POLICIES, Policy, ScriptedPolicy, Turn, build_turns
from prevention_traps import OTHER_COMMANDS, TRAPS, Trap

from tests.real import agents, loopback

CLAUDE_CODE = agents.describe_claude_code("2.1.325")
SEED = "1"
MAX_RUN_CALLS = 2  # in a session; a held call does not count, or else any hold would leave less room for mistakes
MIN_UNAIDED = 0.4  # a trap in which the wrong command is rarer unaided measures nothing
MIN_TRAPS = 8
FAR_ARMS = (SHAM, START, HOLD, PLACEBO)
RERUN_ARMS = (NO_MEMORY, START, HOLD, PLACEBO)
PROCESSES = 2
BARS = {"placebo_minus_sham": 0.10, "hold_minus_placebo": -0.15}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to run with a policy."""

    traps: int
    runs: int  # of each trap, arm and distance
    phrasings: int  # of each task, near the start; one when far
    seconds: float  # for everything but fetching; traps that do not fit are left out
    far_arms: tuple[str, ...] = FAR_ARMS


# The scripted policy needs sessions for its interval and not many traps; the tiny model needs traps, and its time goes
# with the number of different texts that it has to read.
PLANS = {
    "scripted": Plan(MIN_TRAPS, 16, 1, 110, (START, HOLD)),
    "tiny": Plan(len(TRAPS), 20, 1, 570),
    "remote": Plan(len(TRAPS), 10, 2, float("inf")),
}
RERUN_SHARE = 0.6  # of the time for a trap, which its rerun takes: four of eleven cells, on a new machine


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one session."""

    trap: str
    arm: str
    distance: str
    number: int
    asked: tuple[str, ...]
    ran: tuple[bool, ...]
    has_failed: bool  # the failing command ran
    is_done: bool


@dataclass
class Report:
    """What one process measured on its share of the traps."""

    outcomes: list[Outcome] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    compared_prompts: int = 0
    differing_prompts: list[str] = field(default_factory=list)
    rerun_sessions: int = 0
    differing_reruns: list[str] = field(default_factory=list)
    name: str = ""


class Bench:
    """A machine and a policy, with the direct sessions that were carried out on it."""

    def __init__(self, traps: Sequence[Trap], policy: Policy, program: Path | None = None) -> None:
        self.machine = Machine(traps, program)
        self.policy = policy
        self._sessions: dict[Case, DirectSession] = {}

    def open_session(self, case: Case) -> DirectSession:
        return self._sessions.setdefault(case, DirectSession(self.machine, case))

    def run_sessions(self, trap: Trap, arm: str, distance: str, plan: Plan) -> list[Outcome]:
        phrasings = plan.phrasings if distance == NEAR else 1
        return [self._run_session(Case(trap, arm, distance, number % phrasings), number) for number in range(plan.runs)]

    def _run_session(self, case: Case, number: int) -> Outcome:
        session, trap = self.open_session(case), case.trap
        path: tuple[str, ...] = ()
        step = session.follow(path)
        while sum(step.ran) < MAX_RUN_CALLS:
            seed = f"{SEED}|{trap.name}|{case.arm}|{case.distance}|{number}|{len(path)}"
            path += (self.policy.choose(build_turns(step.messages), trap, seed),)
            step = session.follow(path)
            if path[-1] == trap.right and step.ran[-1]:
                break
        commands_run = [command for command, has_run in zip(path, step.ran, strict=True) if has_run]
        return Outcome(
            trap.name,
            case.arm,
            case.distance,
            number,
            path,
            step.ran,
            has_failed=trap.wrong in commands_run,
            is_done=trap.right in commands_run,
        )

    def find_hold_fault(self, trap: Trap) -> str:
        """Return why the hold of a trap does not work, or an empty string."""
        session = self.open_session(Case(trap, HOLD))
        step = session.follow((trap.wrong,))
        if step.ran[0] or trap.lesson.solution not in str(step.messages[-1]):
            return "the hold does not fire"
        if not session.follow((trap.right,)).ran[0]:
            return "the working command is held, too"
        return ""

    def list_direct_prompts(self, case: Case, path: tuple[str, ...]) -> list[list[Turn]]:
        session = self.open_session(case)
        return [build_turns(session.follow(path[:length]).messages) for length in range(len(path))]

    def list_client_prompts(self, case: Case, path: tuple[str, ...], *, own_network: bool) -> list[list[Turn]]:
        """Return what the real client sends before each of these choices."""
        messages_seen = self.machine.run_client(
            case, lambda messages, number: path[number] if number < len(path) else None, own_network=own_network
        )
        return [build_turns(messages) for messages in messages_seen[: len(path)]]


def run_share(policy_name: str, traps: Sequence[Trap], program: Path, is_first: bool, deadline: float) -> Report:
    """Measure a share of the traps; the first share also uninstalls hardwon in the end."""
    policy, plan, report = POLICIES[policy_name](), PLANS[policy_name], Report()
    report.name = policy.name
    bench = Bench(traps, policy, program)
    try:
        # The client first: sessions through it report what ran, and the direct ones must not depend on that.
        compare_with_client(bench, traps, report, is_first)
        begun_at = time.monotonic()
        good_traps = iter_good_traps(bench, traps, plan, report)
        first_trap = next(good_traps, None)
        if first_trap is None:
            return report
        run_cells(bench, [first_trap], plan, report)
        trap_seconds = time.monotonic() - begun_at
        # The next traps are quicker, because the model has read how their arms begin.
        seconds_left = deadline - time.monotonic() - RERUN_SHARE * trap_seconds
        fitting = max(int(min(seconds_left / trap_seconds, len(traps))), MIN_TRAPS // PROCESSES - 1)
        run_cells(bench, list(itertools.islice(good_traps, fitting)), plan, report)
        if is_first:
            compare_uninstalled(bench, traps[0], report)
    finally:
        bench.machine.close()
    if policy.is_repeatable:
        repeat_sessions(policy_name, first_trap, plan, report)
    return report


def run_cells(bench: Bench, traps: Sequence[Trap], plan: Plan, report: Report) -> None:
    """Run the sessions of every arm and distance.

    Arm by arm, because sessions of an arm begin alike and the tiny model keeps what it has read of the beginning.
    """
    cells = [(SHAM, NEAR), (HOLD, NEAR), (PLACEBO, NEAR), (NOTE, NEAR), (START, NEAR)]
    cells += [(arm, FAR) for arm in plan.far_arms]
    for arm, distance in [*cells, (CROWD, NEAR)]:
        for trap in traps:
            report.outcomes += bench.run_sessions(trap, arm, distance, plan)
        rates = compute_rates(report.outcomes, arm, distance)
        message = f"{arm}, {distance}: failed in {rates.mean():.0%} on {len(rates)} traps"
        print(time.strftime("%H:%M:%S"), message, file=sys.stderr, flush=True)


def iter_good_traps(bench: Bench, traps: Sequence[Trap], plan: Plan, report: Report) -> Iterator[Trap]:
    """Yield the traps whose hold fires and whose wrong command is usual unaided; record why the others are dropped."""
    for trap in traps:
        fault = bench.find_hold_fault(trap)
        outcomes = bench.run_sessions(trap, NO_MEMORY, NEAR, plan)
        unaided = sum(outcome.has_failed for outcome in outcomes) / len(outcomes)
        if not fault and unaided < MIN_UNAIDED:
            fault = f"the wrong command ran in {unaided:.0%} of runs unaided"
        if fault:
            report.dropped[trap.name] = fault
        else:
            report.outcomes += outcomes
            yield trap


def compare_with_client(bench: Bench, traps: Sequence[Trap], report: Report, is_first: bool) -> None:
    """Compare the texts of direct sessions with those of the real client, for every arm, near and far, on a sample."""
    cases = [*((arm, NEAR) for arm in ARMS), *((arm, FAR) for arm in FAR_ARMS)]
    # Each share takes every other case, and a trap for each.
    sample = list(itertools.islice(cases, 0 if is_first else 1, None, PROCESSES))
    for (arm, distance), trap in zip(sample, itertools.cycle(traps)):
        path = (trap.wrong, OTHER_COMMANDS[0], trap.wrong, trap.right)
        compare_prompts(bench, Case(trap, arm, distance), Case(trap, arm, distance), path, report)


def compare_uninstalled(bench: Bench, trap: Trap, report: Report) -> None:
    """Uninstall hardwon and check that the client sends what it sent where hardwon never was."""
    bench.machine.run_hardwon("uninstall", "claude-code", "--yes")
    path = (trap.wrong, trap.wrong, trap.right)
    compare_prompts(bench, Case(trap, UNINSTALLED), Case(trap, NO_MEMORY), path, report)


def compare_prompts(bench: Bench, client_case: Case, direct_case: Case, path: tuple[str, ...], report: Report) -> None:
    own_network = not loopback.find_refusal()
    client = bench.list_client_prompts(client_case, path, own_network=own_network)
    direct = bench.list_direct_prompts(direct_case, path)
    report.compared_prompts += len(direct)
    for number, prompt in enumerate(direct):
        if number >= len(client) or client[number] != prompt:
            sent = client[number][-1] if number < len(client) else "nothing"
            choice_label = f"{client_case.trap.name}, {client_case.arm}, {client_case.distance}, choice {number + 1}"
            report.differing_prompts.append(f"{choice_label}: the client sent {sent!r}, rebuilt {prompt[-1]!r}")


def repeat_sessions(policy_name: str, trap: Trap, plan: Plan, report: Report) -> None:
    """Run a trap again from nothing, on a new machine and with a policy that remembers nothing."""
    bench = Bench([trap], POLICIES[policy_name]())
    try:
        for arm in RERUN_ARMS:
            first = [row for row in report.outcomes if (row.trap, row.arm, row.distance) == (trap.name, arm, NEAR)]
            for first_outcome, second_outcome in zip(first, bench.run_sessions(trap, arm, NEAR, plan), strict=False):
                report.rerun_sessions += 1
                if first_outcome != second_outcome:
                    report.differing_reruns.append(f"{first_outcome} and then {second_outcome}")
    finally:
        bench.machine.close()


# Statistics


@dataclass(frozen=True, slots=True)
class Difference:
    mean: float
    low: float
    high: float
    p_value: float


def compute_rates(outcomes: Sequence[Outcome], arm: str, distance: str, attribute: str = "has_failed") -> np.ndarray:
    """Return the mean of each trap, in the order of their names."""
    values: dict[str, list[float]] = {}
    for row in outcomes:
        if (row.arm, row.distance) == (arm, distance):
            value = len(row.asked) if attribute == "calls" else getattr(row, attribute)
            values.setdefault(row.trap, []).append(float(value))
    return np.array([np.mean(values[trap]) for trap in sorted(values)])


def compare_rates(first: np.ndarray, second: np.ndarray) -> Difference:
    """Return the mean difference over traps, its 95 % bootstrap interval, and the p value of sign flips."""
    generator = np.random.default_rng(1)
    differences = first - second
    count = len(differences)
    if count <= 14:
        signs = np.array(list(itertools.product((1, -1), repeat=count)))
    else:
        signs = generator.choice((1, -1), (20_000, count))
    flipped = np.abs(signs @ differences) / count
    draws = differences[generator.integers(0, count, (10_000, count))].mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    mean = float(differences.mean())
    return Difference(mean, float(low), float(high), float((flipped >= abs(mean) - 1e-12).mean()))


def compute_known_difference(policy: ScriptedPolicy, traps: Sequence[Trap]) -> float:
    """Return hold minus placebo as the stated rates have it."""
    differences = [
        policy.expect_failure(trap, is_told=False, is_held=True, teaches=True, calls=MAX_RUN_CALLS)
        - policy.expect_failure(trap, is_told=False, is_held=True, teaches=False, calls=MAX_RUN_CALLS)
        for trap in traps
    ]
    return sum(differences) / len(differences)


# What is printed


def format_points(difference: Difference) -> str:
    mean, low, high = (round(100 * value) for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+d} ({low:+d} to {high:+d}) | {difference.p_value:.3f}"


def print_tables(outcomes: Sequence[Outcome]) -> None:
    print("| arm | failing command ran | task done | calls used |\n|---|---|---|---|")
    far_arms = [arm for arm in FAR_ARMS if any((row.arm, row.distance) == (arm, FAR) for row in outcomes)]
    for arm, distance in [*((arm, NEAR) for arm in ARMS), *((arm, FAR) for arm in far_arms)]:
        failed_share, done_share, calls = (
            compute_rates(outcomes, arm, distance, attribute).mean() for attribute in ("has_failed", "is_done", "calls")
        )
        name = arm if distance == NEAR else f"{arm}, six calls later"
        print(f"| {name} | {failed_share:.0%} | {done_share:.0%} | {calls:.1f} |")
    print("\n| difference, failing command ran | points (95 % over traps) | p |\n|---|---|---|")
    pairs = [(HOLD, PLACEBO), (PLACEBO, SHAM), (SHAM, NO_MEMORY), (HOLD, NO_MEMORY), (HOLD, START), (HOLD, CROWD)]
    pairs += [(NOTE, SHAM)]
    for first, second in pairs:
        points = format_points(compare_cells(outcomes, first, second, NEAR))
        print(f"| {first} - {second} | {points} |")
    for first, second in ((HOLD, PLACEBO), (HOLD, START), (START, SHAM), (PLACEBO, SHAM)):
        if first in far_arms and second in far_arms:
            points = format_points(compare_cells(outcomes, first, second, FAR))
            print(f"| {first} - {second}, six calls later | {points} |")
    print()


def compare_cells(outcomes: Sequence[Outcome], first: str, second: str, distance: str) -> Difference:
    return compare_rates(compute_rates(outcomes, first, distance), compute_rates(outcomes, second, distance))


def judge_report(policy_name: str, report: Report) -> list[str]:
    """Return the bars that were missed."""
    outcomes, missed = report.outcomes, []
    trap_names = sorted({row.trap for row in outcomes})
    if report.differing_prompts:
        missed.append(f"{len(report.differing_prompts)} of {report.compared_prompts} prompts differ from the client's")
    if report.differing_reruns:
        missed.append(f"{len(report.differing_reruns)} of {report.rerun_sessions} rerun sessions differ")
    if len(trap_names) < MIN_TRAPS:
        missed.append(f"{len(trap_names)} traps passed the gates, at least {MIN_TRAPS} are needed")
    placebo = compare_cells(outcomes, PLACEBO, SHAM, NEAR)
    if abs(placebo.mean) > BARS["placebo_minus_sham"]:
        missed.append(f"placebo minus sham is {placebo.mean:+.2f}")
    hold = compare_cells(outcomes, HOLD, PLACEBO, NEAR)
    if hold.mean > BARS["hold_minus_placebo"] or hold.high >= 0:
        missed.append(f"hold minus placebo is {hold.mean:+.2f} ({hold.low:+.2f} to {hold.high:+.2f})")
    if policy_name == "scripted":
        known_effect = compute_known_difference(ScriptedPolicy(), [trap for trap in TRAPS if trap.name in trap_names])
        print(f"known effect: hold minus placebo {known_effect:+.3f}, measured {hold.mean:+.3f}")
        if not hold.low <= known_effect <= hold.high:
            missed.append(f"the known effect {known_effect:+.2f} is outside of {hold.low:+.2f} to {hold.high:+.2f}")
    else:
        # The scripted policy heeds a text wherever it stands, so distance is nothing to it.
        far = compare_cells(outcomes, HOLD, START, FAR)
        if far.mean >= 0:
            missed.append(f"hold minus start is {far.mean:+.2f} far from the start")
    return missed


def merge_reports(reports: Sequence[Report]) -> Report:
    merged = Report(name=reports[0].name)
    for report in reports:
        merged.outcomes += report.outcomes
        merged.dropped |= report.dropped
        merged.compared_prompts += report.compared_prompts
        merged.differing_prompts += report.differing_prompts
        merged.rerun_sessions += report.rerun_sessions
        merged.differing_reruns += report.differing_reruns
    return merged


def find_client() -> Path:
    try:
        return agents.find_program(CLAUDE_CODE)
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        sys.exit(f"error: {error}\nfix: the benchmark compares its prompts with the real client's and needs npm once")


def main() -> None:
    policy_name = os.environ.get("POLICY") or "tiny"
    if policy_name not in PLANS:
        sys.exit(f"error: POLICY is {policy_name!r}\nfix: choose {', '.join(PLANS)}")
    program, begun_at = find_client(), time.monotonic()
    plan = PLANS[policy_name]
    traps = TRAPS[: int(os.environ.get("TRAPS") or plan.traps)]
    shares = [traps[number::PROCESSES] for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork")) as pool:
        futures = [
            pool.submit(run_share, policy_name, share, program, number == 0, begun_at + plan.seconds)
            for number, share in enumerate(shares)
        ]
        report = merge_reports([future.result() for future in futures])
    for name, reason in report.dropped.items():
        print(f"dropped {name}: {reason}")
    trap_count = len({row.trap for row in report.outcomes})
    print(
        f"{report.name}: {len(report.outcomes)} sessions on {trap_count} traps in {time.monotonic() - begun_at:.0f} s"
    )
    identical = report.compared_prompts - len(report.differing_prompts)
    print(f"prompts identical to those of {CLAUDE_CODE}: {identical} of {report.compared_prompts}")
    print(f"rerun equal: {report.rerun_sessions - len(report.differing_reruns)} of {report.rerun_sessions} sessions\n")
    for line in [*report.differing_prompts[:3], *report.differing_reruns[:3]]:
        print(line)
    print_tables(report.outcomes)
    missed = judge_report(policy_name, report)
    for line in missed:
        print(f"missed: {line}")
    hold = compare_cells(report.outcomes, HOLD, PLACEBO, NEAR)
    rates = {arm: round(float(compute_rates(report.outcomes, arm, NEAR).mean()), 3) for arm in ARMS}
    summary = {
        "model": report.name,
        "traps": trap_count,
        "no_memory": rates[NO_MEMORY],
        "hold": rates[HOLD],
        "placebo": rates[PLACEBO],
        "sham": rates[SHAM],
        "difference": round(hold.mean, 3),
        "interval": [round(hold.low, 3), round(hold.high, 3)],
    }
    print(json.dumps(summary))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
