"""Measure what recording costs: `make bench-capture`; `QUICK=1 make bench-capture` for a short run.

Three questions. Does an agent that asks about a tool call wait longer while others report 200 events a second to the
worker? How many events a second does the worker record, next to a bare socket server in the same run? Does its memory
stay small after 100,000 events? Blocks alternate, so that noise of the machine affects both sides of each ratio.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from hook import LESSONS, build_environment, build_hook_case, is_silent, open_homes
from measure import compute_p95, run_case

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
PER_SECOND = 200
BLOCKS = 4 if QUICK else 10
ASKS = 25  # in each block
EVENTS = 10_000 if QUICK else 100_000
BURST = 500 if QUICK else 1_500
LINES = 4  # hooks that talk to the worker at the same time
WARM_UP = 20

# An ask while others report events, as a ratio of p95s; the worker's rate, as a share of the bare server's; and its
# memory.
LIMITS = {"ask_x_idle": 3.0, "rate_x_bare": 0.08, "rss_mb": 90.0}


@dataclass(frozen=True)
class Figures:
    """All that was measured; times in milliseconds."""

    ask_idle_p95: float
    ask_told_p95: float
    straight_idle_p95: float
    straight_told_p95: float
    told_per_second: float
    rate: float
    bare_rate: float
    events: int
    rss_mb: float

    @property
    def ratios(self) -> dict[str, float]:
        return {
            "ask_x_idle": self.ask_told_p95 / self.ask_idle_p95,
            "rate_x_bare": self.rate / self.bare_rate,
            "rss_mb": self.rss_mb,
        }

    @property
    def faults(self) -> list[str]:
        faults = []
        for name, limit in LIMITS.items():
            value, least = self.ratios[name], name == "rate_x_bare"
            if value < limit if least else value > limit:
                faults.append(f"{name} is {value:.2f}, may be {'no less' if least else 'no more'} than {limit}")
        if self.told_per_second < 0.9 * PER_SECOND:
            faults.append(f"only {self.told_per_second:.0f} events a second were told, of {PER_SECOND}")
        return faults


def build_tell(number: int) -> bytes:
    """Return the message of a hook after a call, with an output of typical length."""
    session = f"bench-session-{number // 400}"
    output = "\n".join(
        f"src/module_{number % 97}/part_{line}.py:{line}: ok, nothing to mend here" for line in range(25)
    )
    wire = {
        "session_id": session,
        "transcript_path": f"/home/dev/.claude/projects/-home-dev-project/{session}.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"ruff check src/module_{number % 97}", "description": "Look for faults"},
        "tool_response": {"stdout": output, "stderr": "", "interrupted": False},
        "tool_use_id": f"toolu_{number:09d}",
        "duration_ms": 40 + number % 50,
    }
    return f"hardwon 1 claude-code PostToolUse {number:032x}\n".encode() + json.dumps(wire).encode()


def build_ask(number: int) -> bytes:
    tool_input = {"command": "git status", "description": "See what changed"}
    wire = {"session_id": f"asking-{number}", "cwd": "/home/dev/project", "hook_event_name": "PreToolUse"}
    payload = {**wire, "tool_name": "Bash", "tool_input": tool_input, "tool_use_id": f"toolu_ask{number}"}
    return f"hardwon 1 claude-code PreToolUse {number:032x}\n".encode() + json.dumps(payload).encode()


def exchange(address: str, message: bytes) -> bytes:
    """Send a message and return the answer, as hook.py does."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(address)
        line.sendall(message)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


def measure_burst(address: str, messages: Sequence[bytes]) -> float:
    """Return messages per second with several hooks at once; exit if one message is not acknowledged."""
    queue, unacknowledged = iter(messages), list[bytes]()
    lock = threading.Lock()

    def talk() -> None:
        while True:
            with lock:
                message = next(queue, None)
            if message is None:
                return
            if not exchange(address, message).endswith(b"\n"):
                unacknowledged.append(message)

    threads = [threading.Thread(target=talk) for _ in range(LINES)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if unacknowledged:
        raise SystemExit(f"error: {len(unacknowledged)} of {len(messages)} messages were not acknowledged")
    return len(messages) / seconds


async def serve_bare(address: str) -> None:
    """Serve the least that any answer costs: read to the end, send two bytes and a newline."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 18):
            pass
        writer.write(b"{}\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(talk, path=address, backlog=512)
    print("serving", flush=True)
    await server.serve_forever()


def keep_telling(address: str, first: int) -> None:
    """Report PER_SECOND events a second until killed; print the actual number every second."""
    began, number = time.perf_counter(), 0
    while True:
        exchange(address, build_tell(first + number))
        number += 1
        ahead = began + number / PER_SECOND - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if number % PER_SECOND == 0:
            print(number / (time.perf_counter() - began), flush=True)


@contextmanager
def start_part(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run this file as a child process with other arguments; kill it when the block ends."""
    command = [sys.executable, os.path.abspath(__file__), *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def measure_ask_times(home: str, address: str, first: int) -> list[tuple[float, float]]:
    """Return, for several asks, the milliseconds through the hook and straight over the socket."""
    case, times = build_hook_case("ask", home, "git status", is_silent), []
    for number in range(first, first + ASKS):
        sample = run_case(case, number, build_environment(home))
        if not sample.right:
            raise SystemExit("error: a hook did not answer as it should")
        began = time.perf_counter()
        exchange(address, build_ask(number))
        times.append((sample.wall, (time.perf_counter() - began) * 1000))
    return times


def measure_asks(home: str, address: str) -> dict[str, float]:
    """Measure blocks of asks in turn, with the worker idle and while events are reported."""
    idle, busy, rates = list[tuple[float, float]](), list[tuple[float, float]](), list[float]()
    measure_ask_times(home, address, 0)
    for block in range(BLOCKS):
        idle += measure_ask_times(home, address, (2 * block + 1) * ASKS)
        with start_part("--tell", address, str(10_000_000 + block * 100_000)) as telling:
            assert telling.stdout
            telling.stdout.readline()
            busy += measure_ask_times(home, address, (2 * block + 2) * ASKS)
            rates.append(float(telling.stdout.readline()))
    return {
        "ask_idle_p95": compute_p95([through_hook for through_hook, _ in idle]),
        "ask_told_p95": compute_p95([through_hook for through_hook, _ in busy]),
        "straight_idle_p95": compute_p95([straight for _, straight in idle]),
        "straight_told_p95": compute_p95([straight for _, straight in busy]),
        "told_per_second": median(rates),
    }


def measure_rate(address: str, top: str) -> dict[str, float]:
    """Measure bursts in turn at the worker and at the bare server."""
    bare = os.path.join(top, "bare.sock")
    rates: dict[str, list[float]] = {address: [], bare: []}
    with start_part("--bare", bare) as serving:
        assert serving.stdout
        serving.stdout.readline()
        for block in range(BLOCKS):
            for target in (address, bare):
                first = 20_000_000 + block * BURST
                rates[target].append(measure_burst(target, [build_tell(first + number) for number in range(BURST)]))
    return {"rate": median(rates[address]), "bare_rate": median(rates[bare])}


def read_memory_mb(home: str) -> float:
    with open(os.path.join(home, "worker.json")) as file:
        pid = json.load(file)["pid"]
    with open(f"/proc/{pid}/status") as file:
        rss_line = next(line for line in file if line.startswith("VmRSS"))
    return int(rss_line.split()[1]) / 1024


def measure_all() -> Figures:
    with open_homes(LESSONS, "spread") as (home, _, _), tempfile.TemporaryDirectory() as top:
        address = os.readlink(os.path.join(home, "socket"))
        measure_burst(address, [build_tell(number) for number in range(WARM_UP)])
        asks = measure_asks(home, address)
        rates = measure_rate(address, top)
        burst_events = BLOCKS * BURST
        for first in range(30_000_000, 30_000_000 + EVENTS - burst_events, 1000):
            measure_burst(address, [build_tell(first + number) for number in range(1000)])
        return Figures(**asks, **rates, events=EVENTS, rss_mb=read_memory_mb(home))


def print_figures(figures: Figures) -> None:
    print(
        f"an ask, through the hook   p95 {figures.ask_idle_p95:6.1f} ms idle, {figures.ask_told_p95:6.1f} ms while "
        f"{figures.told_per_second:.0f} events a second are told"
    )
    print(
        f"an ask, straight           p95 {figures.straight_idle_p95:6.2f} ms idle, {figures.straight_told_p95:6.2f} ms"
    )
    print(f"events a second            {figures.rate:.0f}; a bare server answers {figures.bare_rate:.0f}")
    print(f"memory                     {figures.rss_mb:.0f} MB after {figures.events:,} events\n")
    print(
        "\n".join(["not as it should be:", *figures.faults]) if figures.faults else "all within what recording may cost"
    )
    rounded = {name: round(value, 3) for name, value in {**asdict(figures), **figures.ratios}.items()}
    print(json.dumps({**rounded, "limits": LIMITS, "quick": QUICK}))


def main() -> int:
    if sys.argv[1:2] == ["--bare"]:
        asyncio.run(serve_bare(sys.argv[2]))
    elif sys.argv[1:2] == ["--tell"]:
        keep_telling(sys.argv[2], int(sys.argv[3]))
    else:
        figures = measure_all()
        print_figures(figures)
        return 1 if figures.faults else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
