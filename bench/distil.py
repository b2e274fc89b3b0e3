"""What distilling without a model costs: `make bench-distil`; `QUICK=1 make bench-distil` for a short run.

One long session of made-up turns is recorded, then distilled: turns read from the store, observed, kept, summed up.
Both are timed in CPU seconds in the same round, several rounds in turn, and told as a ratio: events distilled per
second over events recorded per second. How long after the end of a turn its summary is there is timed through the
real hook and worker. It fails when a bar is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median
from typing import Any

from hook import HOOK

from hardwon.distil.observations import observe_turn
from hardwon.distil.summaries import summarise_session
from hardwon.store import db, events, observations, sessions, turns
from hardwon.store.events import Report
from hardwon.text.characters import estimate_tokens

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
EVENTS = 1_000 if QUICK else 5_000
ROUNDS = 3 if QUICK else 5
PER_TURN, BATCH = 50, 100
LEAST_RATIO, MOST_SHARE, MOST_SECONDS = 0.2, 0.1, 3.0
STOPS, MOST_AFTER_STOP, GIVEN_UP = 5, 5.0, 60.0  # turns that end, seconds until a summary begins, until nobody waits
CWD = "/home/dev/project"
OUTPUT = "\n".join(f"src/module_{line}/part.py:{line}: ok, nothing to mend here" for line in range(35))


def build_call(number: int) -> tuple[str, dict[str, str], object, str]:
    """Tool, input, response and outcome of the nth call, in the mix of an ordinary day."""
    path = f"{CWD}/src/module_{number % 97}/part.py"
    calls: tuple[tuple[str, dict[str, str], object, str], ...] = (
        ("Read", {"file_path": path}, OUTPUT, "fine"),
        ("Bash", {"command": f"cd {CWD} && grep -rn 'part_{number}' src | head -20"}, OUTPUT, "fine"),
        (
            "Edit",
            {"file_path": path, "old_string": "a = 1", "new_string": f"def part_{number}():\n    return 1"},
            {"filePath": path, "structuredPatch": [{"newStart": number % 300 + 1, "lines": ["-a = 1", "+b"]}]},
            "fine",
        ),
        (
            "Bash",
            {"command": f"pytest -q tests/test_{number % 9}.py 2>&1 | tail -30"},
            {"stdout": f"{OUTPUT}\n{number // 10 % 2} failed, {number % 50} passed in 0.41s", "stderr": ""},
            "fine",
        ),
        ("Grep", {"pattern": f"class Part{number}", "path": "src"}, OUTPUT, "fine"),
        ("Edit", {"file_path": path, "old_string": "b", "new_string": "c"}, {"filePath": path}, "fine"),
        (
            "Bash",
            {"command": f"pytest -q tests/test_{number % 9}.py"},
            {"stdout": f"{OUTPUT}\n{number % 50 + 1} passed in 0.40s", "stderr": ""},
            "fine",
        ),
        ("Bash", {"command": f"deploy part-{number}"}, "Exit code 2\nerror: unknown part", _choose_outcome(number)),
        ("Bash", {"command": f"ls -la src/module_{number % 97}"}, {"stdout": OUTPUT, "stderr": ""}, "fine"),
        (
            "Bash",
            {"command": f'git add -A && git commit -m "Part {number}"'},
            {"stdout": f"[main {number:07x}] Part {number}\n 2 files changed, 9 insertions(+)", "stderr": ""},
            "fine",
        ),
    )
    return calls[number % len(calls)]


def _choose_outcome(number: int) -> str:
    return "failed" if number % 50 == 7 else "fine"


def build_reports() -> Iterator[Report]:
    for number in range(EVENTS):
        common: dict[str, Any] = {"host": "claude-code", "session": "bench", "at": 1000.0 + number, "cwd": CWD}
        if number % PER_TURN == 0:
            prompt = f"Add part {number} and see that its tests pass"
            yield Report(key=f"p{number}", kind="UserPromptSubmit", prompt=prompt, **common)
        tool, tool_input, response, outcome = build_call(number)
        text = response if isinstance(response, str) else json.dumps(response)
        yield Report(
            key=f"e{number}",
            kind="tool",
            tool=tool,
            tool_use_id=f"t{number}",
            input=json.dumps(tool_input),
            response=text,
            outcome=outcome,
            **common,
        )


def record_events(connection: db.Connection) -> None:
    reports_left = build_reports()
    while batch := list(islice(reports_left, BATCH)):
        with db.transaction(connection):
            for report in batch:
                events.store_report(connection, report)


def distil_session(connection: db.Connection, session: int) -> None:
    for number in turns.list_changed_turns(connection, session):
        turn, fingerprint = turns.read_turn(connection, session, number)
        turns.store_distilled(connection, turn, fingerprint, observe_turn(turn), turns.PLAIN)
    stored = observations.list_for_session(connection, session)
    observations.replace_summary(connection, session, summarise_session(turns.list_turns(connection, session), stored))


def measure_cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def run_round() -> tuple[float, float, float, float]:
    """CPU seconds to record, to distil, and of these for the words alone; the share of tokens that is left."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        connection = db.connect(home)
        recorded = measure_cpu_seconds(lambda: record_events(connection))
        (session,) = sessions.list_sessions(connection, limit=2)
        distilled = measure_cpu_seconds(lambda: distil_session(connection, session["id"]))
        session_turns = turns.list_turns(connection, session["id"])
        observing = measure_cpu_seconds(lambda: [observe_turn(turn) for turn in session_turns])
        observed = observations.list_for_session(connection, session["id"])
        event_tokens = sum(
            estimate_tokens(json.dumps(call.input) + call.response) for turn in session_turns for call in turn.calls
        )
        observation_tokens = sum(
            estimate_tokens(
                "".join((observation.title, observation.subtitle, observation.narrative, *observation.facts))
            )
            for observation in observed
        )
        connection.close()
    return recorded, distilled, observing, observation_tokens / event_tokens


def measure_after_stop() -> float:
    """The longest time from a Stop, told by the hook, until the session's summary is stored."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        home = os.path.join(folder, "home")
        environment = {**os.environ, "HOME": folder, "HARDWON_HOME": home}
        command = [sys.executable, "-m", "hardwon"]
        subprocess.run([*command, "start"], env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            connection = db.connect(home)
            return max(_measure_stop(connection, environment, f"s{number}") for number in range(STOPS))
        finally:
            subprocess.run([*command, "stop"], env=environment, check=True, stdout=subprocess.DEVNULL)


def _measure_stop(connection: db.Connection, environment: dict[str, str], session: str) -> float:
    def tell(kind: str, **more: object) -> None:
        payload = json.dumps({"hook_event_name": kind, "session_id": session, "cwd": CWD, **more}).encode()
        words = [sys.executable, "-I", "-S", HOOK, "claude-code", kind, environment["HARDWON_HOME"]]
        subprocess.run(words, input=payload, env=environment, check=True, stdout=subprocess.DEVNULL)

    tell("UserPromptSubmit", prompt="mend the parts")
    for number in range(20):
        tool, tool_input, response, _ = build_call(number)
        tell(
            "PostToolUse",
            tool_name=tool,
            tool_input=tool_input,
            tool_response=response,
            tool_use_id=f"{session}-{number}",
        )
    tell("Stop", last_assistant_message="all parts are mended")
    began = time.monotonic()
    summary_query = (
        "select 1 from summaries join sessions on sessions.id = summaries.session where sessions.session = ?"
    )
    while not connection.execute(summary_query, (session,)).fetchone():
        if time.monotonic() - began > GIVEN_UP:
            break
        time.sleep(0.02)
    return time.monotonic() - began


def main() -> int:
    rounds = [run_round() for _ in range(ROUNDS)]
    recorded, distilled, observing, share = (median(column) for column in zip(*rounds, strict=True))
    ratio, summary_delay = recorded / distilled, measure_after_stop()
    print(f"recorded    {EVENTS / recorded:8.0f} events a second")
    print(f"distilled   {EVENTS / distilled:8.0f} events a second, {ratio:.2f} x")
    print(f"observed    {EVENTS / observing:8.0f} events a second, without the store")
    print(f"observations are {100 * share:.1f} % of the tokens of their events")
    print(f"a summary is there {summary_delay:.2f} s after Stop, the longest of {STOPS}\n")
    faults = [
        *([f"distilling is {ratio:.2f} x recording, may be no less than {LEAST_RATIO}"] if ratio < LEAST_RATIO else []),
        *([f"observations are {share:.2f} of their events, may be {MOST_SHARE}"] if share > MOST_SHARE else []),
        *([f"{EVENTS} events took {distilled:.1f} s, may take {MOST_SECONDS}"] if distilled > MOST_SECONDS else []),
        *(
            [f"a summary came {summary_delay:.1f} s after Stop, may take {MOST_AFTER_STOP}"]
            if summary_delay > MOST_AFTER_STOP
            else []
        ),
    ]
    print("\n".join(["not as it should be:", *faults]) if faults else "all within what distilling may cost")
    figures = {"recorded": EVENTS / recorded, "distilled": EVENTS / distilled, "observed": EVENTS / observing}
    rounded_figures = {**figures, "ratio": ratio, "share": share, "after_stop": summary_delay}
    print(json.dumps({**{name: round(value, 3) for name, value in rounded_figures.items()}, "quick": QUICK}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
