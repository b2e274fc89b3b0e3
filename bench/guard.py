"""A guard beside a catastrophic pattern: `make bench-guard`.

Hand-edited files are not vetted, so a pattern that could take forever can stand beside a block. The block must deny all
the same, with the worker there and away, within 1.5 s; the baseline in the same run is the block alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from time import perf_counter

import hardwon

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
MOST_SECONDS = 1.5
EVIL = ("", "(a|a)*b", r"(?:\w|a\w)*\s$", "(.|a)*x", "(?:a|aa)+c", r"(?:a+){2,9}b")  # what a build lets through
TEXT = "git stash " + "a" * 5000 + "!"


def build_record(number: int, pattern: str, reason: str) -> dict[str, object]:
    return {
        "id": f"id{number}",
        "slug": f"slug{number}",
        "summary": f"made-up lesson number {number}",
        "problem": f"what goes wrong the {number}th time",
        "solution": f"what to do the {number}th time instead",
        "delivery": "block",
        "blockReason": reason,
        "priority": 10 - number,
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [pattern]},
    }


def measure_denial(home: str, session: str) -> float:
    call = {"session_id": session, "cwd": "/", "tool_name": "Bash", "tool_input": {"command": TEXT}, "tool_use_id": "t"}
    begun = perf_counter()
    command = [sys.executable, "-I", "-S", HOOK, "claude-code", "PreToolUse", home]
    run = subprocess.run(command, input=json.dumps(call).encode(), capture_output=True)
    seconds = perf_counter() - begun
    assert b"the guard" in run.stdout, (session, run.stdout)
    return seconds


def main() -> int:
    slowest = 0.0
    print(f"{'beside the guard':<20} {'worker up':>12} {'worker down':>12}")
    for pattern in EVIL:
        with tempfile.TemporaryDirectory() as home:
            os.chmod(home, 0o700)
            lessons = [build_record(0, pattern, "never reached")] if pattern else []
            with open(os.path.join(home, "lessons.json"), "w") as file:
                json.dump({"lessons": [*lessons, build_record(1, r"\bgit stash\b", "the guard")]}, file)
            environment = {**os.environ, "HARDWON_HOME": home}

            def run_hardwon(*words: str, environment: dict[str, str] = environment) -> None:
                subprocess.run([sys.executable, "-m", "hardwon", *words], env=environment, capture_output=True)

            run_hardwon("lessons", "build")
            down = max(measure_denial(home, f"down{number}") for number in range(5))
            run_hardwon("start")
            up = max(measure_denial(home, f"up{number}") for number in range(5))
            run_hardwon("stop")
            slowest = max(slowest, up, down)
            print(f"{pattern or 'nothing':<20} {up * 1e3:>9.0f} ms {down * 1e3:>9.0f} ms")
            print(json.dumps({"case": pattern, "up_ms": round(up * 1e3), "down_ms": round(down * 1e3)}))
    print("all denied in time" if slowest <= MOST_SECONDS else "too slow")
    return int(slowest > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
