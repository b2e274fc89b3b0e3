"""What recording costs: `make bench-capture`; `QUICK=1 make bench-capture` for a short run.

Three questions. Does an agent that asks about a tool call wait longer while others tell the worker 200 events a second?
How many events a second does the worker take in, next to a bare socket server in the same run? And does it stay small
after 100,000 of them? Blocks alternate, so that the machine's noise falls on both sides of each ratio.
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

from hook import LESSONS, environment, hook, silent
from hook import homes as homes_with
from measure import once, p95

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
PER_SECOND = 200
BLOCKS = 4 if QUICK else 10
ASKS = 25  # in each block
EVENTS = 10_000 if QUICK else 100_000
BURST = 500 if QUICK else 1_500
LINES = 4  # hooks that talk to the worker at the same time
WARM_UP = 20

# An ask while others tell, as a ratio of p95s; what the worker takes in, as a share of what a bare server does; and
# its memory.
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
        wrong = []
        for name, limit in LIMITS.items():
            value, least = self.ratios[name], name == "rate_x_bare"
            if value < limit if least else value > limit:
                wrong.append(f"{name} is {value:.2f}, may be {'no less' if least else 'no more'} than {limit}")
        if self.told_per_second < 0.9 * PER_SECOND:
            wrong.append(f"only {self.told_per_second:.0f} events a second were told, of {PER_SECOND}")
        return wrong


def tell(number: int) -> bytes:
    """The message of a hook after a call, with an output of the usual length."""
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


def ask(number: int) -> bytes:
    given = {"command": "git status", "description": "See what changed"}
    wire = {"session_id": f"asking-{number}", "cwd": "/home/dev/project", "hook_event_name": "PreToolUse"}
    whole = {**wire, "tool_name": "Bash", "tool_input": given, "tool_use_id": f"toolu_ask{number}"}
    return f"hardwon 1 claude-code PreToolUse {number:032x}\n".encode() + json.dumps(whole).encode()


def said(address: str, message: bytes) -> bytes:
    """One message and its answer, as hook.py does it."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(address)
        line.sendall(message)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


def burst(address: str, messages: Sequence[bytes]) -> float:
    """Messages per second when several hooks talk at once; SystemExit if one is not acknowledged."""
    waiting, refused = iter(messages), list[bytes]()
    lock = threading.Lock()

    def talk() -> None:
        while True:
            with lock:
                message = next(waiting, None)
            if message is None:
                return
            if not said(address, message).endswith(b"\n"):
                refused.append(message)

    talking = [threading.Thread(target=talk) for _ in range(LINES)]
    began = time.perf_counter()
    for one in talking:
        one.start()
    for one in talking:
        one.join()
    took = time.perf_counter() - began
    if refused:
        raise SystemExit(f"error: {len(refused)} of {len(messages)} messages were not acknowledged")
    return len(messages) / took


async def serve_bare(address: str) -> None:
    """What any answer costs: read to the end, say two bytes and a newline."""

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
    """Tell so many events a second until killed; each second a line with how many it really was."""
    began, number = time.perf_counter(), 0
    while True:
        said(address, tell(first + number))
        number += 1
        ahead = began + number / PER_SECOND - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if number % PER_SECOND == 0:
            print(number / (time.perf_counter() - began), flush=True)


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    """This file again, in another part; it is ended with the block."""
    command = [sys.executable, os.path.abspath(__file__), *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def asked(home: str, address: str, first: int) -> list[tuple[float, float]]:
    """What an agent waits for the hook, and what an ask straight over the socket takes, a few times each."""
    case, waited = hook("ask", home, "git status", silent), []
    for number in range(first, first + ASKS):
        sample = once(case, number, environment(home))
        if not sample.right:
            raise SystemExit("error: a hook did not answer as it should")
        began = time.perf_counter()
        said(address, ask(number))
        waited.append((sample.wall, (time.perf_counter() - began) * 1000))
    return waited


def measure_asks(home: str, address: str) -> dict[str, float]:
    """Blocks of asks with the worker idle and with others telling, in turn."""
    idle, told, rates = list[tuple[float, float]](), list[tuple[float, float]](), list[float]()
    asked(home, address, 0)
    for block in range(BLOCKS):
        idle += asked(home, address, (2 * block + 1) * ASKS)
        with process("--tell", address, str(10_000_000 + block * 100_000)) as telling:
            assert telling.stdout
            telling.stdout.readline()
            told += asked(home, address, (2 * block + 2) * ASKS)
            rates.append(float(telling.stdout.readline()))
    return {
        "ask_idle_p95": p95([whole for whole, _ in idle]),
        "ask_told_p95": p95([whole for whole, _ in told]),
        "straight_idle_p95": p95([straight for _, straight in idle]),
        "straight_told_p95": p95([straight for _, straight in told]),
        "told_per_second": median(rates),
    }


def measure_rate(address: str, top: str) -> dict[str, float]:
    """Bursts at the worker and at the bare server, in turn."""
    bare = os.path.join(top, "bare.sock")
    rates: dict[str, list[float]] = {address: [], bare: []}
    with process("--bare", bare) as serving:
        assert serving.stdout
        serving.stdout.readline()
        for block in range(BLOCKS):
            for place in (address, bare):
                first = 20_000_000 + block * BURST
                rates[place].append(burst(place, [tell(first + number) for number in range(BURST)]))
    return {"rate": median(rates[address]), "bare_rate": median(rates[bare])}


def memory_mb(home: str) -> float:
    with open(os.path.join(home, "worker.json")) as file:
        pid = json.load(file)["pid"]
    with open(f"/proc/{pid}/status") as file:
        found = next(line for line in file if line.startswith("VmRSS"))
    return int(found.split()[1]) / 1024


def figures() -> Figures:
    with homes_with(LESSONS, "spread") as (home, _, _), tempfile.TemporaryDirectory() as top:
        address = os.readlink(os.path.join(home, "socket"))
        burst(address, [tell(number) for number in range(WARM_UP)])
        asks = measure_asks(home, address)
        rates = measure_rate(address, top)
        done = BLOCKS * BURST
        for first in range(30_000_000, 30_000_000 + EVENTS - done, 1000):
            burst(address, [tell(first + number) for number in range(1000)])
        return Figures(**asks, **rates, events=EVENTS, rss_mb=memory_mb(home))


def show(found: Figures) -> None:
    print(
        f"an ask, through the hook   p95 {found.ask_idle_p95:6.1f} ms idle, {found.ask_told_p95:6.1f} ms while "
        f"{found.told_per_second:.0f} events a second are told"
    )
    print(f"an ask, straight           p95 {found.straight_idle_p95:6.2f} ms idle, {found.straight_told_p95:6.2f} ms")
    print(f"events a second            {found.rate:.0f}; a bare server answers {found.bare_rate:.0f}")
    print(f"memory                     {found.rss_mb:.0f} MB after {found.events:,} events\n")
    print("\n".join(["not as it should be:", *found.faults]) if found.faults else "all within what recording may cost")
    rounded = {name: round(value, 3) for name, value in {**asdict(found), **found.ratios}.items()}
    print(json.dumps({**rounded, "limits": LIMITS, "quick": QUICK}))


def main() -> int:
    if sys.argv[1:2] == ["--bare"]:
        asyncio.run(serve_bare(sys.argv[2]))
    elif sys.argv[1:2] == ["--tell"]:
        keep_telling(sys.argv[2], int(sys.argv[3]))
    else:
        found = figures()
        show(found)
        return 1 if found.faults else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
