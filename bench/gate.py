"""What the gate costs: `make bench-gate`.

500 proposals, each with a trigger of its own, are tried on 20,000 recorded calls, as after a scan. It fails above five
seconds of processor time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from hardwon.mining.gate import replay_records
from hardwon.store import db
from hardwon.store.transcripts import Portion, ScannedCall, store_portions
from hardwon.types import ReadPosition

PROPOSALS, CALLS, MOST_SECONDS = 500, 20_000, 5.0
PROGRAMS = ("git", "npm", "cargo", "docker", "kite", "gust", "pytest", "go", "make", "kubectl")
SUBCOMMANDS = ("log", "run", "build", "show", "list")
WORD_LIST = (
    "colour depth width force quiet loud strict loose fast slow wide narrow early late first last only every deep flat"
    " round sharp warm cold fresh stale open closed inner outer left right"
)
WORDS = WORD_LIST.split()
BATCH = 2_000


def make_option(number: int) -> str:
    return f"--{WORDS[number % len(WORDS)]}-{WORDS[number // len(WORDS) % len(WORDS)]}"


def make_call(number: int) -> ScannedCall:
    program = PROGRAMS[number % len(PROGRAMS)]
    subcommand = SUBCOMMANDS[number // len(PROGRAMS) % len(SUBCOMMANDS)]
    options = f"{make_option(number % 997)} --colour=always 'some text {number}'"
    command = f"cd /home/dev/kite && {program} {subcommand} {options} src/file{number}.py 2>&1 | tail -{number % 50}"
    outcome = "failed" if number % 9 == 0 else "fine"
    key, session = f"claude-code:{number}", f"session-{number // 100}"
    return ScannedCall(key, "claude-code", session, "/home/dev/kite", "", "", number, "Bash", command, "", "", outcome)


def make_record(number: int) -> dict[str, object]:
    program, subcommand = PROGRAMS[number % len(PROGRAMS)], SUBCOMMANDS[number % len(SUBCOMMANDS)]
    pattern = rf"\b{program} (?:-[^|;&\n]* )?{subcommand}(?![\w-]) (?:[^|;&\n]* )?{make_option(number)}(?![\w-])"
    triggers = {"toolNames": ["Bash"], "commandPatterns": [pattern]}
    texts = {"summary": "what goes wrong", "problem": "what goes wrong", "solution": "what to do instead"}
    return {**texts, "delivery": "hold", "triggers": triggers, "scope": {"type": "global"}}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        connection = db.connect(home)
        for start in range(0, CALLS, BATCH):
            calls = tuple(make_call(number) for number in range(start, start + BATCH))
            store_portions(connection, [Portion("made-up", "claude-code", ReadPosition(), calls)], 0.0)
        records = {str(number): make_record(number) for number in range(PROPOSALS)}
        began = time.process_time()
        figures = replay_records(connection, records)
        seconds = time.process_time() - began
        connection.close()
    fired = sum(item.failed + item.fine for item in figures.values())
    print(f"{PROPOSALS} proposals, {CALLS} calls, {fired} firings: {seconds:.2f} s")
    print(json.dumps({"seconds": round(seconds, 2), "firings": fired}))
    return int(seconds > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
