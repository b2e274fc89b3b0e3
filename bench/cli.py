"""Measure how long a person or an agent waits for a command: `make bench-cli`.

Each command runs in a home with imported sessions, beside an empty interpreter in the same run; the result is the CPU
time as a multiple of the empty interpreter's. For MCP it is the time until `initialize` is answered, for the plugin
what it adds to the installed hooks at the start of a session. It fails when a command exceeds its bar.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from measure import Case, measure_interleaved

from hardwon.cli.demo import EARLIER_SESSIONS, SESSIONS_FOLDER

PROGRAM = os.path.join(os.path.dirname(sys.executable), "hardwon")
EMPTY = "empty python"
SESSIONS = 60
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
# The command, and how many empty interpreters it may cost.
BARS: Mapping[str, float] = {
    "--help": 6,
    "status": 12,
    "lessons list": 12,
    "memory list": 12,
    "handoff list": 12,
    "sessions list": 12,
    "scan candidates": 12,
    "jobs list": 12,
    "config": 12,
    "search limiter": 25,
    "mcp": 30,
}
# What the plugin runs when a session starts; it sees that the hooks are installed, and says nothing.
PLUGIN, PLUGIN_BAR = "plugin's hook", 4.0
PLUGIN_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "plugins/hardwon/door.sh")


def write_transcripts(folder: str) -> None:
    """Write the demo's earlier sessions many times, as sessions of their own."""
    os.makedirs(folder)
    for number in range(SESSIONS):
        name = EARLIER_SESSIONS[number % len(EARLIER_SESSIONS)][0]
        with open(os.path.join(SESSIONS_FOLDER, f"{name}.jsonl"), encoding="utf-8") as file:
            text = file.read().replace("DAYT", "2026-11-01T").replace("PROJECT", "/home/dev/kite")
        session = json.loads(text.split("\n", 1)[0])["sessionId"]
        copy = f"{session[:-4]}{number:04d}"
        with open(os.path.join(folder, f"{copy}.jsonl"), "w", encoding="utf-8") as file:
            file.write(text.replace(session, copy))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "HARDWON_HOME": os.path.join(home, ".hardwon"), "PATH": os.environ["PATH"]}
        write_transcripts(os.path.join(home, ".claude", "projects", "-home-dev-kite"))
        for words in (["scan"], ["import", "transcripts"], ["rebuild"], ["install", "claude-code", "--yes"]):
            subprocess.run([PROGRAM, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
        cases = [Case(EMPTY, (sys.executable, "-c", ""))]
        for command in BARS:
            words = [*command.split(), *(["--all"] if command.startswith("search") else [])]
            cases.append(Case(command, (PROGRAM, *words), give_request, has_answer))
        cases.append(Case(PLUGIN, ("/bin/sh", PLUGIN_SCRIPT, "claude-code", "SessionStart"), give_request))
        costs = measure_interleaved(cases, rounds=options.rounds, warm_up=2, environment=environment)
    empty = costs[EMPTY]
    print(f"{'command':<18}{'CPU ms':>8}{'wall ms':>9}{'x empty':>9}{'bar':>6}")
    print(f"{EMPTY:<18}{empty.cpu:>8.0f}{empty.wall:>9.0f}")
    faults = []
    ratios = {}
    for command, bar in {**BARS, PLUGIN: PLUGIN_BAR}.items():
        cost = costs[command]
        ratio = ratios[command] = round(cost.cpu / empty.cpu, 2)
        print(f"{command:<18}{cost.cpu:>8.0f}{cost.wall:>9.0f}{ratio:>9.1f}{bar:>6.0f}")
        if cost.wrong or ratio > bar:
            faults.append(f"{command}: {ratio:.1f} x an empty interpreter, may be {bar:.0f}; {cost.wrong} failed")
    print(json.dumps({"timesAnEmptyInterpreter": ratios}))
    if faults:
        sys.exit("\n".join(faults))


def give_request(number: int) -> bytes:
    """Return what an agent sends first; commands other than `mcp` do not read it."""
    return json.dumps(INITIALIZE).encode() + b"\n"


def has_answer(output: bytes) -> bool:
    return bool(output)


if __name__ == "__main__":
    main()
