"""What a command costs, next to other commands, in one run.

A millisecond on one machine says little on another, and a machine is never quiet. So every round runs every
case once, in a shuffled order, and what is reported is the ratio of medians: noise falls on all cases alike.
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
    """A command, what it is given on stdin at its nth run, and how its answer is known to be right."""

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
    """Medians and 95th percentiles, in milliseconds, and how many answers were not what they had to be."""

    cpu: float
    cpu_p95: float
    wall: float
    wall_p95: float
    wrong: int


def once(case: Case, number: int, environment: Mapping[str, str]) -> Sample:
    """Spawn the command, wait for its end, and read its CPU time (user and system) from the kernel."""
    question, answer = os.pipe(), os.pipe()
    os.write(question[1], case.payload(number))
    os.close(question[1])
    files = [
        (os.POSIX_SPAWN_DUP2, question[0], 0),
        (os.POSIX_SPAWN_DUP2, answer[1], 1),
        *((os.POSIX_SPAWN_CLOSE, end) for end in (question[0], *answer)),
    ]
    everything = {**environment, **dict(case.environment)}
    began = time.perf_counter()
    child = os.posix_spawn(case.command[0], case.command, everything, file_actions=files)
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - began
    os.close(question[0])
    os.close(answer[1])
    with open(answer[0], "rb") as said:
        right = case.right(said.read()) and status == 0
    return Sample((used.ru_utime + used.ru_stime) * 1000, wall * 1000, right)


def interleaved(cases: Sequence[Case], *, rounds: int, warm_up: int, environment: Mapping[str, str]) -> dict[str, Cost]:
    """Every case's cost, by name. The order is shuffled anew in each round, always the same way."""
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    order, shuffle = list(cases), random.Random(1).shuffle
    for number in range(-warm_up, rounds):
        shuffle(order)
        for case in order:
            sample = once(case, number + warm_up, environment)
            if number >= 0:
                samples[case.name].append(sample)
    return {name: cost(each) for name, each in samples.items()}


def cost(samples: Sequence[Sample]) -> Cost:
    cpu, wall = [sample.cpu for sample in samples], [sample.wall for sample in samples]
    wrong = sum(not sample.right for sample in samples)
    return Cost(median(cpu), p95(cpu), median(wall), p95(wall), wrong)


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
