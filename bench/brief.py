"""Measure what it costs to open a session with a brief, and to touch a file with recorded history: `make bench-brief`.

The hook runs as installed, with the worker up and thousands of observations in one project. In the same run it is
compared with an empty interpreter and with the same hook in a project without records. It fails when a brief takes
longer than a person notices, or when calls without recorded history become slower because of those that have it.
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

from hook import HOOK, PROGRAM, PYTHON, build_environment, run_hardwon, start_worker
from measure import Case, Cost, measure_interleaved

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OBSERVATIONS = 5_000
WARM_UP = 5
MOST_MS = 300.0  # of a brief, 95 of 100
EMPTY_START, EMPTY_CALL = "a start, nothing known", "a Bash call"
FULL_START, NO_PAST, PAST = "a start, the brief", "a Read, no past", "a Read, a past"
MOST_RATIO = 1.25  # of a file without a past to a call without a file


def build_payload(event: str, **more: object) -> Callable[[int], bytes]:
    """Return a function that builds Claude Code's payload for the nth call, each in a new session."""

    def build(number: int) -> bytes:
        wire = {"session_id": str(uuid.uuid4()), "hook_event_name": event, "tool_use_id": f"toolu_{number}", **more}
        return json.dumps(wire).encode()

    return build


def build_cases(home: str, known_project: str, unknown_project: str) -> list[Case]:
    def build_hook_case(name: str, event: str, right: Callable[[bytes], bool], **more: object) -> Case:
        run = (sys.executable, "-I", "-S", HOOK, "claude-code", event, home)
        return Case(name, run, build_payload(event, **more), right)

    def is_silent(answer: bytes) -> bool:
        return answer == b"{}"

    opening: dict[str, object] = {"source": "startup"}
    files = {"tool_name": "Read", "cwd": known_project}
    return [
        Case(PYTHON, (sys.executable, "-I", "-S", "-c", "pass")),
        build_hook_case(
            EMPTY_START, "SessionStart", lambda answer: b"#/lesson" in answer, cwd=unknown_project, **opening
        ),
        build_hook_case(
            FULL_START, "SessionStart", lambda answer: b"last session, " in answer, cwd=known_project, **opening
        ),
        build_hook_case(
            EMPTY_CALL, "PreToolUse", is_silent, cwd=known_project, tool_name="Bash", tool_input={"command": "ls -l"}
        ),
        build_hook_case(NO_PAST, "PreToolUse", is_silent, tool_input={"file_path": "src/none.py"}, **files),
        build_hook_case(
            PAST, "PreToolUse", lambda a: b"Recalled" in a, tool_input={"file_path": "src/part0/module0.py"}, **files
        ),
    ]


@contextmanager
def open_house(count: int) -> Iterator[tuple[str, str, str]]:
    """Yield a home with a running worker, a project with this many observations, and a project with none."""
    sys.path.insert(0, ROOT)
    from tests.support.distilled_store import DistilledStore

    top = tempfile.mkdtemp(prefix="hardwon-bench-")
    home, known_project, unknown_project = (os.path.join(top, name) for name in ("home", "known", "unknown"))
    try:
        for folder in (known_project, unknown_project):
            os.makedirs(os.path.join(folder, ".git"))
        run_hardwon(home, "config", "set", "--", "autoScanIntervalHours", "-1")
        store = DistilledStore(home, known_project)
        store.observe_many(count)
        store.close()
        start_worker(home, 0)
        yield home, known_project, unknown_project
    finally:
        subprocess.run([PROGRAM, "stop"], env=build_environment(home), capture_output=True)
        shutil.rmtree(top)


def find_faults(costs: dict[str, Cost]) -> list[str]:
    faults = [f"{name}: {cost.wrong} wrong answers" for name, cost in costs.items() if cost.wrong]
    if costs[FULL_START].wall_p95 > MOST_MS:
        faults.append(f"{FULL_START}: {costs[FULL_START].wall_p95:.0f} ms, may be {MOST_MS:.0f}")
    ratio = costs[NO_PAST].wall / costs[EMPTY_CALL].wall
    if ratio > MOST_RATIO:
        faults.append(f"{NO_PAST}: {ratio:.2f} x {EMPTY_CALL}, may be {MOST_RATIO}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description="What a brief costs from the hook.")
    parser.add_argument("--rounds", type=int, default=60, help="runs of each case (60)")
    parser.add_argument("--observations", type=int, default=OBSERVATIONS, help=f"in the project ({OBSERVATIONS})")
    options = parser.parse_args()
    with open_house(options.observations) as (home, known_project, unknown_project):
        costs = measure_interleaved(
            build_cases(home, known_project, unknown_project),
            rounds=options.rounds,
            warm_up=WARM_UP,
            environment=build_environment(home),
        )
    empty = costs[PYTHON]
    print(f"{options.observations} observations, {options.rounds} rounds\n")
    print(f"{'case':25}{'cpu ms':>8}{'wall ms':>9}{'p95':>7}{'x python':>10}")
    for name, cost in costs.items():
        print(f"{name:25}{cost.cpu:8.1f}{cost.wall:9.1f}{cost.wall_p95:7.1f}{cost.wall / empty.wall:10.2f}")
    faults = find_faults(costs)
    brief = costs[FULL_START]
    figures = {
        "wall_ms": brief.wall,
        "wall_p95_ms": brief.wall_p95,
        "x_nothing_known": brief.wall / costs[EMPTY_START].wall,
    }
    figures["file_x_no_file"] = costs[NO_PAST].wall / costs[EMPTY_CALL].wall
    print("".join(f"\n{fault}" for fault in faults))
    print(
        json.dumps({"observations": options.observations, **{name: round(value, 3) for name, value in figures.items()}})
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
