"""What a person is told at a session start: lessons that were made quieter, agents that ignore denials, the week."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hardwon.efficacy.outcomes import CHANGED, GIVEN_UP, REPEATED_FAILED, REPEATED_FINE, UNKNOWN, find_agent_version
from hardwon.efficacy.refresh import refresh_ledger
from hardwon.lessons import manifest
from hardwon.store import efficacy
from hardwon.store.db import Connection, transaction
from hardwon.store.efficacy import NOTE, RETIRED, SILENT, Firing, LessonChange

WEEK_SECONDS = 7 * 86_400.0
_WEEKLY = "weekly line shown at"
_STOPPING = ("hold", "block")
MEMORY_PREFIX = "memory "  # before a memory's number, in the place of a lesson's slug


def announce(connection: Connection, home: str, now: float) -> str:
    """Bring the ledger up to date and return what is new since the last session start; often nothing."""
    refresh_ledger(connection, home, now)
    changes = efficacy.list_changes(connection, only_unannounced=True)
    denials = efficacy.list_ignored_denials(connection, only_unannounced=True)
    shown_at = float(efficacy.get_value(connection, _WEEKLY) or 0)
    weekly_line = ""
    if now - shown_at >= WEEK_SECONDS:
        firings = efficacy.list_firings(connection, since=max(shown_at, now - WEEK_SECONDS))
        weekly_line = format_week(firings)
    if not (changes or denials or weekly_line):
        return ""
    if changes:
        # The process that stored a change may have been killed before it built the manifest, or be about to; what is
        # said here must be in force.
        manifest.build(home, now)
    # Of several steps of one lesson only the last matters.
    last_changes = {change.lesson: change for change in changes}
    lines = [format_change(change) for change in last_changes.values()]
    with transaction(connection):
        efficacy.mark_changes_announced(connection, [change.id for change in changes], now)
        for denial in denials:
            denial["version"] = find_agent_version(denial["transcript"])
            efficacy.update_ignored_denial(connection, denial["id"], denial["version"], now)
        if weekly_line:
            efficacy.set_value(connection, _WEEKLY, str(now))
    lines += format_ignored_denials(denials)
    return "\n".join(f"hardwon: {line}" for line in [*lines, weekly_line] if line)


def format_change(change: LessonChange) -> str:
    undo = f"undo: hardwon proof {change.slug} --undo"
    if change.change == NOTE:
        return f"{change.slug} is a note now and no longer holds calls: {change.reason} ({undo})"
    if change.slug.startswith(MEMORY_PREFIX):
        return f"{change.slug}: {change.reason} (retire it: hardwon memory retire {change.slug.split()[-1]})"
    if change.change == RETIRED:
        return f"{change.slug} was retired: {change.reason} (restore: hardwon lessons restore {change.slug})"
    retire = f"retire it: hardwon lessons retire {change.slug}"
    if change.change == SILENT:
        return f"{change.slug} is silent now: {change.reason} ({retire}; {undo})"
    return f"{change.slug} may not be needed: {change.reason} ({retire}; keep it: hardwon proof {change.slug} --undo)"


def format_ignored_denials(denials: Sequence[dict[str, object]]) -> list[str]:
    """Return a line for each agent and version that ran calls which hardwon had denied."""
    counts = Counter(f"{denial['host']} {denial['version']}".rstrip() for denial in denials)
    return [
        f"{name} ran {count} call{'s' * (count != 1)} that hardwon had denied: its holds and blocks do not hold there"
        for name, count in counts.items()
    ]


def format_week(firings: Sequence[Firing]) -> str:
    """Sum up the holds and blocks of a week whose outcome is known; empty if there were none."""
    verdicts = Counter[str]()
    fixed = 0
    for firing in firings:
        if firing.delivery not in _STOPPING or firing.arm not in ("told", "live"):
            continue
        verdicts[firing.verdict] += 1
        fixed += firing.verdict == CHANGED and firing.ended == "fine"
    parts = [
        (fixed, "took the fix"),
        (verdicts[CHANGED] - fixed, "changed and failed"),
        (verdicts[REPEATED_FAILED] + verdicts[REPEATED_FINE], "went through unchanged"),
        (verdicts[GIVEN_UP], "given up"),
        (verdicts[UNKNOWN], "unknown"),
    ]
    held = sum(count for count, _ in parts)
    if held == verdicts[UNKNOWN]:
        return ""
    described = ", ".join(f"{count} {text}" for count, text in parts if count)
    return f"this week held {held} repeat{'s' * (held != 1)}, {described} (hardwon proof)"
