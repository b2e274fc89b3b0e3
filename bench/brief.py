"""What it costs to open a session with a brief, and to touch a file with a past: `make bench-brief`.

The hook is run as an installed one is, with the worker up and thousands of observations in one project, beside an
empty interpreter and beside the same hook where nothing is known, in the same run. It fails when a brief takes longer
than a person notices, or when calls that have no past pay for those that have.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hook import HOOK, PROGRAM, PYTHON, environment, run_hardwon, start
from measure import Case, Cost, interleaved

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OBSERVATIONS = 5_000
WARM_UP = 5
MOST_MS = 300.0  # of a brief, 95 of 100
EMPTY_START, EMPTY_CALL = "a start, nothing known", "a Bash call"
FULL_START, NO_PAST, PAST = "a start, the brief", "a Read, no past", "a Read, a past"
MOST_RATIO = 1.25  # of a file without a past to a call without a file


def payload(event: str, **more: object) -> Callable[[int], bytes]:
    """What Claude Code says; every call comes from a session of its own."""

    def said(number: int) -> bytes:
        wire = {"session_id": str(uuid.uuid4()), "hook_event_name": event, "tool_use_id": f"toolu_{number}", **more}
        return json.dumps(wire).encode()

    return said


def cases(home: str, known: str, unknown: str) -> list[Case]:
    def hook(name: str, event: str, right: Callable[[bytes], bool], **more: object) -> Case:
        run = (sys.executable, "-I", "-S", HOOK, "claude-code", event, home)
        return Case(name, run, payload(event, **more), right)

    def silent(answer: bytes) -> bool:
        return answer == b"{}"

    opening: dict[str, object] = {"source": "startup"}
    files = {"tool_name": "Read", "cwd": known}
    return [
        Case(PYTHON, (sys.executable, "-I", "-S", "-c", "pass")),
        hook(EMPTY_START, "SessionStart", lambda answer: b"#/lesson" in answer, cwd=unknown, **opening),
        hook(FULL_START, "SessionStart", lambda answer: b"last session, " in answer, cwd=known, **opening),
        hook(EMPTY_CALL, "PreToolUse", silent, cwd=known, tool_name="Bash", tool_input={"command": "ls -l"}),
        hook(NO_PAST, "PreToolUse", silent, tool_input={"file_path": "src/none.py"}, **files),
        hook(PAST, "PreToolUse", lambda a: b"Recalled" in a, tool_input={"file_path": "src/part0/module0.py"}, **files),
    ]


@contextmanager
def house(count: int) -> Iterator[tuple[str, str, str]]:
    """A home with a worker, and two projects: one with so many observations, one with none."""
    sys.path.insert(0, ROOT)
    from tests.support.distilled_store import DistilledStore

    top = tempfile.mkdtemp(prefix="hardwon-bench-")
    home, known, unknown = (os.path.join(top, name) for name in ("home", "known", "unknown"))
    try:
        for folder in (known, unknown):
            os.makedirs(os.path.join(folder, ".git"))
        run_hardwon(home, "config", "set", "--", "autoScanIntervalHours", "-1")
        remembered = DistilledStore(home, known)
        remembered.many(count)
        remembered.close()
        start(home, 0)
        yield home, known, unknown
    finally:
        subprocess.run([PROGRAM, "stop"], env=environment(home), capture_output=True)
        shutil.rmtree(top)


def faults(costs: dict[str, Cost]) -> list[str]:
    wrong = [f"{name}: {cost.wrong} wrong answers" for name, cost in costs.items() if cost.wrong]
    if costs[FULL_START].wall_p95 > MOST_MS:
        wrong.append(f"{FULL_START}: {costs[FULL_START].wall_p95:.0f} ms, may be {MOST_MS:.0f}")
    ratio = costs[NO_PAST].wall / costs[EMPTY_CALL].wall
    if ratio > MOST_RATIO:
        wrong.append(f"{NO_PAST}: {ratio:.2f} x {EMPTY_CALL}, may be {MOST_RATIO}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="What a brief costs from the hook.")
    parser.add_argument("--rounds", type=int, default=60, help="runs of each case (60)")
    parser.add_argument("--observations", type=int, default=OBSERVATIONS, help=f"in the project ({OBSERVATIONS})")
    asked = parser.parse_args()
    with house(asked.observations) as (home, known, unknown):
        costs = interleaved(
            cases(home, known, unknown), rounds=asked.rounds, warm_up=WARM_UP, environment=environment(home)
        )
    empty = costs[PYTHON]
    print(f"{asked.observations} observations, {asked.rounds} rounds\n")
    print(f"{'case':25}{'cpu ms':>8}{'wall ms':>9}{'p95':>7}{'x python':>10}")
    for name, cost in costs.items():
        print(f"{name:25}{cost.cpu:8.1f}{cost.wall:9.1f}{cost.wall_p95:7.1f}{cost.wall / empty.wall:10.2f}")
    wrong = faults(costs)
    brief = costs[FULL_START]
    said = {
        "wall_ms": brief.wall,
        "wall_p95_ms": brief.wall_p95,
        "x_nothing_known": brief.wall / costs[EMPTY_START].wall,
    }
    said["file_x_no_file"] = costs[NO_PAST].wall / costs[EMPTY_CALL].wall
    print("".join(f"\n{fault}" for fault in wrong))
    print(json.dumps({"observations": asked.observations, **{name: round(value, 3) for name, value in said.items()}}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
