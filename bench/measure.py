"""Measure what commands cost next to each other, in one run.

Milliseconds differ between machines, and no machine is ever idle. So every round runs every case once, in shuffled
order, and the ratio of medians is reported: noise affects all cases alike.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Case:
    """A command, its standard input at the nth run, and a check of its answer."""

    name: str
    command: tuple[str, ...]
    payload: Callable[[int], bytes] = lambda number: b""
    right: Callable[[bytes], bool] = lambda answer: True
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sample:
    cpu: float
    wall: float
    right: bool


@dataclass(frozen=True)
class Cost:
    """Medians and 95th percentiles in milliseconds, and the number of wrong answers."""

    cpu: float
    cpu_p95: float
    wall: float
    wall_p95: float
    wrong: int


def run_case(case: Case, number: int, environment: Mapping[str, str]) -> Sample:
    """Spawn the command, wait for its end, and read its CPU time (user and system) from the kernel."""
    question, answer = os.pipe(), os.pipe()
    os.write(question[1], case.payload(number))
    os.close(question[1])
    files = [
        (os.POSIX_SPAWN_DUP2, question[0], 0),
        (os.POSIX_SPAWN_DUP2, answer[1], 1),
        *((os.POSIX_SPAWN_CLOSE, end) for end in (question[0], *answer)),
    ]
    full_environment = {**environment, **dict(case.environment)}
    began = time.perf_counter()
    child = os.posix_spawn(case.command[0], case.command, full_environment, file_actions=files)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - began
    os.close(question[0])
    os.close(answer[1])
    with open(answer[0], "rb") as output:
        right = case.right(output.read()) and status == 0
    return Sample((usage.ru_utime + usage.ru_stime) * 1000, wall * 1000, right)


def measure_interleaved(
    cases: Sequence[Case], *, rounds: int, warm_up: int, environment: Mapping[str, str]
) -> dict[str, Cost]:
    """Return the cost of every case by name; each round has another order, the same in every run."""
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    order, shuffle = list(cases), random.Random(1).shuffle
    for number in range(-warm_up, rounds):
        shuffle(order)
        for case in order:
            sample = run_case(case, number + warm_up, environment)
            if number >= 0:
                samples[case.name].append(sample)
    return {name: compute_cost(case_samples) for name, case_samples in samples.items()}


def compute_cost(samples: Sequence[Sample]) -> Cost:
    cpu, wall = [sample.cpu for sample in samples], [sample.wall for sample in samples]
    wrong = sum(not sample.right for sample in samples)
    return Cost(median(cpu), compute_p95(cpu), median(wall), compute_p95(wall), wrong)


def compute_p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
