"""What is known about a lesson: how often it fired, what followed, and how sure that is.

Three grades, named openly. Counted: what followed the firings, compared with nothing. Compared: with firings of the
same trigger before the lesson was approved, found in history; biased, because models and work change too. Proven:
sessions in which it stayed silent were drawn at random, and the difference is beyond chance.

The test for that bets on the arm, given the outcome, and is valid however often one looks. An arm is drawn with a known
probability, so if the lesson did nothing the outcome would say nothing about it, whatever the base rate does meanwhile:
the test needs no other assumption. The estimate uses only firings that failed: how many of those were silent depends on
the ratio of the two failure rates, and not on the rates themselves. The interval assumes rates that hold still; it is
so wide that drifting ones do no harm (in simulations with rates that fall by nine tenths it misses the truth in less
than 1 % of cases).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from hardwon.efficacy.outcomes import CHANGED, GIVEN_UP, IGNORED, REPEATED_FAILED, REPEATED_FINE, UNKNOWN, VERDICTS
from hardwon.lessons.record import compute_version
from hardwon.store.efficacy import BEFORE, UNCHANGED_STATE, Firing, LessonState, ModelStart
from hardwon.types import Lesson

COUNTED, COMPARED, PROVEN = "counted", "compared", "proven"
_MIN_COMPARED = 3  # firings on each side, below which a comparison says nothing
TOLD_ARMS = ("told", "live")
SILENT_ARMS = ("silent", "shadow")
PROOF_THRESHOLD = 100.0  # an e-value of 100 or more comes up in at most 1 % of lessons that do nothing
_INTERVAL_THRESHOLD = 20.0  # for 95 %
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
    """Return the evidence that telling the lesson lowers the rate of failures; 1 is none.

    It is the mean, over the alternatives, of how much better each explains the arms than chance does.
    """
    alternative_logs = [0.0] * len(_ALTERNATIVES)
    for trial, times in Counter(trials).items():
        for number, (told_rate, silent_rate) in enumerate(_ALTERNATIVES):
            rate = told_rate if trial.is_live else silent_rate
            # The failure rate of a trial whose arm is not known.
            overall_rate = trial.live_probability * told_rate + (1 - trial.live_probability) * silent_rate
            ratio = rate / overall_rate if trial.has_failed else (1 - rate) / (1 - overall_rate)
            alternative_logs[number] += times * log(ratio)
    # The cap is there because `exp` of more than 709 overflows.
    return sum(exp(min(alternative_log, 700.0)) for alternative_log in alternative_logs) / len(alternative_logs)


def compute_prevented_share(trials: Sequence[Trial]) -> PreventedShare | None:
    """Return the share of repeats that telling prevents; None before the first failure."""
    failures = Counter(trial for trial in trials if trial.has_failed)
    if not failures:
        return None
    arm_logs = _compute_arm_logs(failures)
    best = _RATIOS[arm_logs.index(max(arm_logs))]
    # Two ways of computing may disagree, and the interval must contain the estimate.
    ratios = [best, *_list_possible_ratios(trials)]
    low = _to_prevented_percent(max(ratios))
    if compute_e_value(trials) >= PROOF_THRESHOLD:
        low = max(low, 1)  # the test has excluded that it does nothing
    return PreventedShare(_to_prevented_percent(best), low, _to_prevented_percent(min(ratios)))


def _list_possible_ratios(trials: Sequence[Trial]) -> list[float]:
    """Return the ratios of the two failure rates that the trials do not exclude.

    A ratio is possible unless a mixture of all rates explains the firings 20 times better than it can.
    """
    live_count = sum(trial.is_live for trial in trials)
    silent_count = len(trials) - live_count
    live_failures = sum(trial.is_live and trial.has_failed for trial in trials)
    silent_failures = sum(trial.has_failed and not trial.is_live for trial in trials)
    mixture = _compute_mixture_log(live_failures, live_count) + _compute_mixture_log(silent_failures, silent_count)
    possible = []
    for ratio in _RATIOS:
        best_fit = max(
            _compute_log(live_failures, live_count, ratio * base_rate)
            + _compute_log(silent_failures, silent_count, base_rate)
            for base_rate in _BASE_RATES
            if ratio * base_rate <= 1
        )
        if mixture - best_fit < log(_INTERVAL_THRESHOLD):
            possible.append(ratio)
    return possible


def _to_prevented_percent(ratio: float) -> int:
    """Return how many of 100 repeats are prevented at a ratio of the failure rates; negative above 1."""
    return round(100 * (1 - ratio))


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
        ratio for ratio, arm_log in zip(_RATIOS, arm_logs, strict=True) if mixture - arm_log < log(_INTERVAL_THRESHOLD)
    ]
    best = _RATIOS[arm_logs.index(best_log)]
    # `possible` is in rising order of the ratio, so of falling order of what is prevented.
    return PreventedShare(
        estimate=_to_prevented_percent(best),
        low=_to_prevented_percent(possible[-1]),
        high=_to_prevented_percent(possible[0]),
    )


def _compute_mixture_log(failures: int, count: int) -> float:
    """Return the logarithm of the probability of these outcomes, mixed over all rates (Krichevsky and Trofimov)."""
    return lgamma(failures + 0.5) + lgamma(count - failures + 0.5) - lgamma(count + 1) - 2 * lgamma(0.5)


def _compute_log(failures: int, count: int, rate: float) -> float:
    """Return the logarithm of the probability of these outcomes at a failure rate, kept off 0 and 1."""
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


@dataclass(frozen=True, slots=True)
class FiringCounts:
    """Firings by verdict."""

    total: int
    by_verdict: Mapping[str, int]
    changed_fine: int  # of those with the verdict CHANGED, how many worked

    @property
    def judged(self) -> int:
        """Return how many firings have an outcome that can be counted."""
        return self.total - self.by_verdict[""] - self.by_verdict[UNKNOWN] - self.by_verdict[IGNORED]

    @property
    def failed(self) -> int:
        return self.by_verdict[REPEATED_FAILED]

    @property
    def false_alarms(self) -> int:
        return self.by_verdict[REPEATED_FINE]

    @property
    def open(self) -> int:
        return self.by_verdict[""]


@dataclass(frozen=True, slots=True)
class LessonProof:
    """The firings of a lesson as it is written now, by arm, and what they show."""

    lesson: Lesson
    grade: str
    is_measured: bool
    stepped_down_to: str
    silent_share: float
    told_counts: FiringCounts
    silent_counts: FiringCounts
    before_counts: FiringCounts
    trials: tuple[Trial, ...]
    e_value: float
    firings: tuple[Firing, ...]

    def compute_prevented_share(self) -> PreventedShare | None:
        return compute_prevented_share(self.trials)


def build_proof(
    lesson: Lesson,
    firings: Sequence[Firing],
    state: LessonState = UNCHANGED_STATE,
    *,
    model: ModelStart,
    is_measured: bool,
) -> LessonProof:
    """Sum up the firings of one lesson; those of earlier versions are left out, since it was another lesson then."""
    version = compute_version(lesson)
    # Deliveries of 0.1.0 have no version; they are counted, but they are no part of a trial.
    current = [firing for firing in firings if firing.version in ("", version)]
    told_counts = _count_firings(firing for firing in current if firing.arm in TOLD_ARMS)
    before_counts = _count_firings(firing for firing in current if firing.arm == BEFORE)
    trials = build_trials(firing for firing in current if firing.at >= model.began_at)
    e_value = compute_e_value(trials)
    grade = COUNTED
    if e_value >= PROOF_THRESHOLD:
        grade = PROVEN
    elif told_counts.judged >= _MIN_COMPARED and before_counts.judged >= _MIN_COMPARED:
        grade = COMPARED
    return LessonProof(
        lesson=lesson,
        grade=grade,
        is_measured=is_measured,
        stepped_down_to=state.stepped_down_to,
        silent_share=state.silent_share,
        told_counts=told_counts,
        silent_counts=_count_firings(firing for firing in current if firing.arm in SILENT_ARMS),
        before_counts=before_counts,
        trials=tuple(trials),
        e_value=e_value,
        firings=tuple(current),
    )


def _count_firings(firings: Iterable[Firing]) -> FiringCounts:
    """Count firings by their verdict, and apart those after which a changed call ran well."""
    by_verdict = dict.fromkeys(("", *VERDICTS), 0)
    total = changed_fine = 0
    for firing in firings:
        total += 1
        by_verdict[firing.verdict] += 1
        if firing.verdict == CHANGED and firing.ended == "fine":
            changed_fine += 1
    return FiringCounts(total, by_verdict, changed_fine)


def build_trials(firings: Iterable[Firing]) -> list[Trial]:
    """Return the firings whose arm was drawn, one per session.

    What is not known counts against the lesson: as a failure if it was told, as none if it was silent. So missing
    records can hide an effect, but never make one up. A denied call that the agent ran all the same counts by how it
    ended: without these sessions an agent that ignores denials would leave only silent failures to compare.
    """
    trials = []
    sessions = set[tuple[str, str]]()
    for firing in firings:
        is_drawn = firing.arm in ("live", "silent") and firing.verdict != ""
        if not is_drawn or (firing.host, firing.session) in sessions:
            continue
        sessions.add((firing.host, firing.session))
        is_live = firing.arm == "live"
        has_failed = firing.verdict == REPEATED_FAILED
        if firing.verdict == UNKNOWN:
            has_failed = is_live
        elif firing.verdict == IGNORED:
            has_failed = firing.ended == "failed"
        trials.append(Trial(is_live, firing.probability, has_failed))
    return trials


def describe_counts(counts: FiringCounts) -> str:
    """Describe what followed firings in one line: `4 took the fix, 1 went through unchanged and failed`."""
    changed = counts.by_verdict[CHANGED]
    changed_text = f"{changed} changed"
    if changed != counts.changed_fine:
        changed_text += f" ({counts.changed_fine} of them worked)"
    parts = [
        (changed, changed_text),
        (counts.failed, f"{counts.failed} repeated and failed"),
        (counts.false_alarms, f"{counts.false_alarms} repeated and fine"),
        (counts.by_verdict[GIVEN_UP], f"{counts.by_verdict[GIVEN_UP]} given up"),
        (counts.by_verdict[IGNORED], f"{counts.by_verdict[IGNORED]} ran although denied"),
        (counts.by_verdict[UNKNOWN], f"{counts.by_verdict[UNKNOWN]} unknown"),
        (counts.open, f"{counts.open} still open"),
    ]
    return ", ".join(text for count, text in parts if count)


def describe_grade(proof: LessonProof) -> str:
    """Say in one sentence what the firings show, and how sure that is."""
    share = proof.compute_prevented_share()
    if proof.grade == PROVEN and share:
        return f"proven: it prevents {format_share(share)}, by sessions drawn at random"
    if proof.stepped_down_to:
        false_alarms = proof.told_counts.false_alarms
        judged = proof.told_counts.judged
        return f"too many false alarms: {false_alarms} of {judged} calls it was told about ran fine"
    if proof.is_measured:
        if proof.told_counts.judged + proof.silent_counts.judged == 0:
            return "being measured: no firing yet"
        interval = f"; so far it prevents {format_share(share)}" if share else ""
        return f"being measured: not proven yet{interval}"
    if proof.grade == COMPARED:
        return (
            f"compared: {proof.told_counts.failed} of {proof.told_counts.judged} repeated and failed,"
            f" {proof.before_counts.failed} of {proof.before_counts.judged} before"
            " it was approved; biased, because models and work change too"
        )
    if proof.told_counts.total == 0:
        return "not fired yet"
    return "counted: nobody measured whether it helps"


def format_share(share: PreventedShare) -> str:
    """Format a share as `84 of 100 repeats (95 % interval 41 to 97)`."""
    low = "below 0" if share.low < 0 else str(share.low)
    estimate = f"{share.estimate} of 100 repeats" if share.estimate >= 0 else "no repeats"
    return f"{estimate} (95 % interval {low} to {share.high})"
