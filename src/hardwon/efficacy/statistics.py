"""Decide from randomised firings whether a lesson prevents the repeat; valid however often one looks.

The test bets on the arm, given the outcome. An arm is drawn with a known probability, so if the lesson did nothing the
outcome would say nothing about it, whatever the base rate does meanwhile: the test needs no other assumption. The
estimate uses only firings that failed: how many of those were silent depends on the ratio of the two failure rates, and
not on the rates themselves. The interval assumes rates that hold still; it is so wide that drifting ones do no harm (in
simulations with rates that fall by nine tenths it misses the truth in less than 1 % of cases).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

PROOF_THRESHOLD = 100.0  # an e-value of 100 or more comes up in at most 1 % of lessons that do nothing
INTERVAL_THRESHOLD = 20.0  # for 95 %
# Alternatives that the test mixes: failure rates told and not told, the first smaller.
_RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
_ALTERNATIVES = [(told_rate, silent_rate) for told_rate in _RATES for silent_rate in _RATES if told_rate < silent_rate]
# Ratios of the failure rate told to that not told; the last stands for all above.
_RATIOS = [0.005, *(step / 50 for step in range(1, 101))]
_BASE_RATES = [step / 50 for step in range(1, 50)]
_MIN_RATE, _MAX_RATE = 0.001, 0.999


@dataclass(frozen=True, slots=True)
class Trial:
    """A firing with a drawn arm: whether the agent was told, with which probability, and whether it failed again."""

    is_live: bool
    live_probability: float
    has_failed: bool


@dataclass(frozen=True, slots=True)
class PreventedShare:
    """How many of 100 repeats the lesson prevents, with the bounds of a 95 % interval; negative if it does harm."""

    estimate: int
    low: int
    high: int


def compute_e_value(trials: Sequence[Trial]) -> float:
    """Return the evidence that telling the lesson lowers the rate of failures; 1 is none."""
    logs = [0.0] * len(_ALTERNATIVES)
    for trial, times in Counter(trials).items():
        for number, (told_rate, silent_rate) in enumerate(_ALTERNATIVES):
            rate = told_rate if trial.is_live else silent_rate
            overall = trial.live_probability * told_rate + (1 - trial.live_probability) * silent_rate
            ratio = rate / overall if trial.has_failed else (1 - rate) / (1 - overall)
            logs[number] += times * log(ratio)
    return sum(exp(min(value, 700.0)) for value in logs) / len(logs)  # exp of more overflows


def compute_prevented_share(trials: Sequence[Trial]) -> PreventedShare | None:
    """Return the share of repeats that telling prevents; None before the first failure."""
    failures = Counter(trial for trial in trials if trial.has_failed)
    if not failures:
        return None
    live_count = sum(trial.is_live for trial in trials)
    live_failures = sum(trial.is_live for trial in failures.elements())
    silent_count, silent_failures = len(trials) - live_count, failures.total() - live_failures
    # A ratio is possible unless a mixture of all rates explains the firings 20 times better than it can.
    mixture = _compute_mixture_log(live_failures, live_count) + _compute_mixture_log(silent_failures, silent_count)
    possible = []
    for ratio in _RATIOS:
        fits = [
            _compute_log(live_failures, live_count, ratio * base_rate)
            + _compute_log(silent_failures, silent_count, base_rate)
            for base_rate in _BASE_RATES
            if ratio * base_rate <= 1
        ]
        if mixture - max(fits) < log(INTERVAL_THRESHOLD):
            possible.append(ratio)
    arm_logs = _compute_arm_logs(failures)
    best = _RATIOS[arm_logs.index(max(arm_logs))]
    lowest, highest = (possible[0], possible[-1]) if possible else (best, best)
    low = round(100 * (1 - max(highest, best)))
    if compute_e_value(trials) >= PROOF_THRESHOLD:
        low = max(low, 1)  # the test has excluded that it does nothing
    return PreventedShare(round(100 * (1 - best)), low, round(100 * (1 - min(lowest, best))))


def compute_pooled_share(trials: Sequence[Trial]) -> PreventedShare | None:
    """Return the share of repeats prevented over several lessons; None before the first failure.

    Lessons differ in how often the mistake is made and in how often they are silent, so comparing the failure rates of
    the two arms would find an effect where there is none. The arms of the failures alone depend on neither.
    """
    failures = Counter(trial for trial in trials if trial.has_failed)
    if not failures:
        return None
    arm_logs = _compute_arm_logs(failures)
    best_log = max(arm_logs)
    mixture = best_log + log(sum(exp(arm_log - best_log) for arm_log in arm_logs) / len(arm_logs))
    possible = [
        ratio for ratio, arm_log in zip(_RATIOS, arm_logs, strict=True) if mixture - arm_log < log(INTERVAL_THRESHOLD)
    ]
    best = _RATIOS[arm_logs.index(best_log)]
    return PreventedShare(round(100 * (1 - best)), round(100 * (1 - possible[-1])), round(100 * (1 - possible[0])))


def _compute_mixture_log(failures: int, count: int) -> float:
    """Return the logarithm of the probability of these outcomes, mixed over all rates (Krichevsky and Trofimov)."""
    return lgamma(failures + 0.5) + lgamma(count - failures + 0.5) - lgamma(count + 1) - 2 * lgamma(0.5)


def _compute_log(failures: int, count: int, rate: float) -> float:
    rate = min(max(rate, _MIN_RATE), _MAX_RATE)
    return failures * log(rate) + (count - failures) * log(1 - rate)


def _compute_arm_logs(failures: Counter[Trial]) -> list[float]:
    """Return, for each ratio of the two rates, the logarithm of the probability of these arms among failures."""
    arm_logs = []
    for ratio in _RATIOS:
        total = 0.0
        for trial, times in failures.items():
            live_weight = trial.live_probability * ratio
            silent_weight = 1 - trial.live_probability
            arm_weight = live_weight if trial.is_live else silent_weight
            total += times * log(arm_weight / (live_weight + silent_weight))
        arm_logs.append(total)
    return arm_logs
