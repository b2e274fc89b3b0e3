"""What a tool call costs with hardwon in the way: `make bench-hook`.

The hook is run as an installed one is, without the shell around it, beside an empty interpreter and an empty
node in the same run. CPU is the hook's own; what the worker does for it shows in the wall time. It fails when the hook
costs more than it may, with a worker or without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from measure import Case, Cost, measure_interleaved

import hardwon
from hardwon.agents import AGENT_NAMES
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command

HOOK = os.path.join(os.path.dirname(os.path.abspath(hardwon.__file__)), "hook.py")
PROGRAM = os.path.join(os.path.dirname(sys.executable), "hardwon")
PYTHON = "empty python -I -S"
NODE = "empty node"
PLUGIN_AGENTS = ("opencode", "kilo")  # they run the command from a plugin
PLUGIN_HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/unit/agents/opencode_host.mjs")
LOADED, ASKED = "plugin loaded, ", "plugin asked, "
WARM_UP = 5
LESSONS = 100
START_SECONDS = 300

# What a hook may cost while the worker is up, as a ratio of medians.
LIMITS = {"cpu_x_empty": 1.4, "wall_x_empty": 1.6, "cpu_x_node": 0.5, "wall_x_node": 0.5}

# The same without a worker, where nothing but the interpreter is running yet. A hold costs more than a note because
# the denied call is recorded, and so is searched for secrets.
DOWN_LIMITS = {
    "down, nothing matches": 1.95,
    "down, a near miss": 2.75,
    "down, a note": 2.95,
    "down, a hold": 3.35,
    "paused": 2.1,
}

MODES: Mapping[str, Callable[[int], str]] = {
    "spread": lambda n: rf"\btool{n:05d} frobnicate\b",  # each pattern has a literal of its own
    "shared": lambda n: rf"\bgit\b\s+[x-z]{{{n % 97 + 2}}}\d{{{n // 97 + 1}}}",  # all have one, and it is in the call
    "none": lambda n: rf"^[x-z]{{{n % 97 + 2}}}\s+\d{{{n // 97 + 1}}}$",  # no pattern has any
}


@dataclass(frozen=True)
class Row:
    """One case of one table, as it is printed and checked."""

    case: str
    cost: Cost
    empty: Cost
    node: Cost | None

    @property
    def ratios(self) -> dict[str, float | None]:
        return {
            "cpu_x_empty": self.cost.cpu / self.empty.cpu,
            "wall_x_empty": self.cost.wall / self.empty.wall,
            "cpu_x_node": self.cost.cpu / self.node.cpu if self.node else None,
            "wall_x_node": self.cost.wall / self.node.wall if self.node else None,
        }

    @property
    def faults(self) -> list[str]:
        """Wrong answers, and what it costs more than it may."""
        faults = [f"{self.case}: {self.cost.wrong} wrong answers"] if self.cost.wrong else []
        limits = LIMITS if self.case.startswith("up") else {}
        if self.case in DOWN_LIMITS:
            limits = {"cpu_x_empty": DOWN_LIMITS[self.case]}
        return faults + [
            f"{self.case}: {name} is {value:.2f}, may be {limits[name]}"
            for name, value in self.ratios.items()
            if value is not None and value > limits.get(name, value)
        ]


def build_lesson(number: int, pattern: str, delivery: str) -> dict[str, object]:
    """A record as people keep them in lessons.json."""
    return {
        "id": f"01JBENCH{number:018d}",
        "slug": f"made-up-lesson-{number:05d}-b3nc",
        "summary": f"made-up lesson number {number} of the benchmark of the hook",
        "problem": f"The command number {number} fails when it is run without the flag it needs.",
        "solution": f"Run the command number {number} with the flag it needs, or leave it out.",
        "delivery": delivery,
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [pattern], "pathPatterns": []},
        "scope": {"type": "global"},
        "priority": 5,
        "confidence": 0.9,
        "needsReview": False,
        "tags": ["topic:benchmark"],
        "sourceSessionIds": [],
        "occurrenceCount": 0,
        "createdAt": "2026-04-01T00:00:00Z",
        "updatedAt": "2026-04-01T00:00:00Z",
    }


def build_lessons(count: int, mode: str) -> list[dict[str, object]]:
    """As many lessons as asked for; those the cases call upon come last, where they are hardest to find."""
    made_up = [build_lesson(number, MODES[mode](number), "note") for number in range(2, count)]
    return [*made_up, build_lesson(0, r"\bgit stash\b", "note"), build_lesson(1, r"\bgit push --force\b", "hold")]


def build_payload(command: str) -> Callable[[int], bytes]:
    """What Claude Code says before a Bash call, as recorded; every call comes from a session of its own."""

    def build(number: int) -> bytes:
        session = str(uuid.uuid4())
        return json.dumps(
            {
                "session_id": session,
                "transcript_path": f"/home/dev/.claude/projects/-home-dev-project/{session}.jsonl",
                "cwd": "/home/dev/project",
                "prompt_id": str(uuid.uuid4()),
                "permission_mode": "default",
                "effort": {"level": "medium"},
                "hook_event_name": "PreToolUse",
                "tool_name": "Bash",
                "tool_input": {"command": command, "description": "What the benchmark runs"},
                "tool_use_id": f"toolu_bench{number:06d}",
            }
        ).encode()

    return build


def is_silent(answer: bytes) -> bool:
    return answer == b"{}"


def has_note(answer: bytes) -> bool:
    return b"made-up lesson number 0" in answer and b'"deny"' not in answer


def is_denied(answer: bytes) -> bool:
    return b'"deny"' in answer


def build_hook_case(name: str, home: str, command: str, right: Callable[[bytes], bool], **environment: str) -> Case:
    """The hook exactly as it is installed for Claude Code, without the shell."""
    run = (sys.executable, "-I", "-S", HOOK, "claude-code", "PreToolUse", home)
    return Case(name, run, build_payload(command), right, tuple(environment.items()))


def build_empty_cases() -> list[Case]:
    node = shutil.which("node")
    python = Case(PYTHON, (sys.executable, "-I", "-S", "-c", "pass"))
    return [python, *([Case(NODE, (node, "-e", "0"))] if node else [])]


def build_hook_cases(up: str, down: str) -> list[Case]:
    """Worker up, worker away. A near miss shares a literal with a lesson, so that a pattern has to be tried."""
    return [
        build_hook_case("up, nothing matches", up, "cargo test --all", is_silent),
        build_hook_case("up, a near miss", up, "git status", is_silent),
        build_hook_case("up, a note", up, "git stash", has_note),
        build_hook_case("up, a hold", up, "git push --force", is_denied),
        build_hook_case("down, nothing matches", down, "cargo test --all", is_silent),
        build_hook_case("down, a near miss", down, "git status", is_silent),
        build_hook_case("down, a note", down, "git stash", has_note),
        build_hook_case("down, a hold", down, "git push --force", is_denied),
    ]


def build_agent_cases(up: str) -> list[Case]:
    """The hook of every agent that runs our command, with the worker up, on a harmless call as that agent sends it."""
    cases = []
    for agent in AGENT_NAMES:
        if agent in PLUGIN_AGENTS:
            continue
        run = (sys.executable, "-I", "-S", HOOK, agent, "PreToolUse", up)
        cases.append(Case(f"up, {agent}", run, build_probe(agent), is_silent))
    return cases


def build_probe(agent: str) -> Callable[[int], bytes]:
    return build_input(load_settings(agent).probe_payload)


def build_input(wire: object) -> Callable[[int], bytes]:
    sent = json.dumps(wire).encode()
    return lambda _: sent


def build_plugin_cases(up: str) -> list[Case]:
    """The plugin of opencode and Kilo in node, which loads it and asks about no call, or about one."""
    node = shutil.which("node")
    cases = []
    for agent in PLUGIN_AGENTS if node else ():
        plugin = os.path.join(up, f"{agent}.mjs")
        with open(plugin, "w", encoding="utf-8") as file:
            file.write(load_settings(agent).add_hooks("", build_hook_command(agent, up))[0])
        call_info = {"tool": "bash", "sessionID": "ses_bench", "callID": "call_bench"}
        call = ["tool.execute.before", call_info, {"args": {"command": "cargo test --all"}}]
        for name, calls in ((f"{LOADED}{agent}", []), (f"{ASKED}{agent}", [call])):
            cases.append(Case(name, (str(node), PLUGIN_HOST, plugin), build_input(calls), is_undisturbed))
    return cases


def is_undisturbed(answer: bytes) -> bool:
    """Return whether the plugin threw nothing, so that the call runs."""
    return all(not result["thrown"] for result in json.loads(answer)["results"])


def print_plugins(rows: Sequence[Row]) -> None:
    """Print what a plugin adds to a call, beside an empty interpreter."""
    costs = {row.case: row.cost for row in rows}
    for agent in PLUGIN_AGENTS:
        if f"{ASKED}{agent}" in costs:
            added = costs[f"{ASKED}{agent}"].wall - costs[f"{LOADED}{agent}"].wall
            ratio = added / costs[PYTHON].wall
            print(f"{agent}'s plugin adds {added:.1f} ms of wall time to a call, {ratio:.2f} x an empty interpreter")


def run_hardwon(home: str, *words: str) -> None:
    run = subprocess.run([PROGRAM, *words], env=build_environment(home), capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"error: `hardwon {' '.join(words)}` failed: {run.stderr.strip() or run.stdout.strip()}")


def start_worker(home: str, count: int) -> None:
    """Start the worker and wait until it serves, also when it takes longer than `hardwon start` waits."""
    began = time.monotonic()
    started = subprocess.run([PROGRAM, "start"], env=build_environment(home), capture_output=True, text=True)
    while not is_serving(home):
        if time.monotonic() - began > START_SECONDS:
            raise SystemExit(f"error: no worker after {START_SECONDS} s: {started.stderr.strip()}")
        time.sleep(0.2)
    if started.returncode:
        print(f"`hardwon start` gave up; with {count} lessons the worker took {time.monotonic() - began:.0f} s")


def is_serving(home: str) -> bool:
    status = subprocess.run([PROGRAM, "status", "--json"], env=build_environment(home), capture_output=True, text=True)
    return bool(json.loads(status.stdout)["running"])


def build_environment(home: str) -> dict[str, str]:
    """No variable of an agent or of a hardwon in use: the lessons and the homes are the benchmark's own."""
    inherited = ("PATH", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR")
    return {name: os.environ[name] for name in inherited if name in os.environ} | {
        "HOME": os.path.dirname(home),
        "HARDWON_HOME": home,
    }


@contextmanager
def open_homes(count: int, mode: str) -> Iterator[tuple[str, str, str]]:
    """Three homes with the same compiled lessons: worker up, worker away, paused."""
    top = tempfile.mkdtemp(prefix="hardwon-bench-")
    up, down, paused = (os.path.join(top, name) for name in ("up", "down", "paused"))
    try:
        os.mkdir(up, 0o700)
        with open(os.path.join(up, "lessons.json"), "w", encoding="utf-8") as file:
            json.dump({"lessons": build_lessons(count, mode)}, file, indent=1)
        run_hardwon(up, "lessons", "build", "--yes")
        shutil.copytree(up, down)
        shutil.copytree(up, paused)
        run_hardwon(paused, "pause")
        start_worker(up, count)
        yield up, down, paused
    finally:
        subprocess.run([PROGRAM, "stop"], env=build_environment(up), capture_output=True)
        shutil.rmtree(top)


def measure_cases(cases: Sequence[Case], home: str, rounds: int) -> list[Row]:
    costs = measure_interleaved(cases, rounds=rounds, warm_up=WARM_UP, environment=build_environment(home))
    return [Row(name, cost, costs[PYTHON], costs.get(NODE)) for name, cost in costs.items()]


def measure_first_table(count: int, rounds: int) -> list[Row]:
    """Every state the hook can be in."""
    with open_homes(count, "spread") as (up, down, paused):
        off = [
            build_hook_case("paused", paused, "git push --force", is_silent),
            build_hook_case("HARDWON_OFF=1", up, "git push --force", is_silent, HARDWON_OFF="1"),
        ]
        return measure_cases(
            [*build_empty_cases(), *build_hook_cases(up, down), *build_agent_cases(up), *build_plugin_cases(up), *off],
            up,
            rounds,
        )


def measure_growth_table(count: int, mode: str, rounds: int) -> list[Row]:
    """Worker up and away, with more lessons."""
    with open_homes(count, mode) as (up, down, _):
        return measure_cases([*build_empty_cases(), *build_hook_cases(up, down)], up, rounds)


def print_table(title: str, rows: Sequence[Row], context: Mapping[str, object]) -> None:
    """The table, at 80 columns, then a JSON line for each case."""
    print(f"\n{title}\n\n{'':25}{'cpu ms':>14}{'wall ms':>15}{'x python':>13}{'x node':>13}")
    print(f"{'case':25}{'median':>7}{'p95':>7}{'median':>8}{'p95':>7}{'cpu':>7}{'wall':>6}{'cpu':>7}{'wall':>6}")
    for row in rows:
        cost, ratios = row.cost, ["-" if ratio is None else f"{ratio:.2f}" for ratio in row.ratios.values()]
        print(
            f"{row.case:25}{cost.cpu:7.1f}{cost.cpu_p95:7.1f}{cost.wall:8.1f}{cost.wall_p95:7.1f}"
            f"{ratios[0]:>7}{ratios[1]:>6}{ratios[2]:>7}{ratios[3]:>6}"
        )
    print_plugins(rows)
    print("".join(f"\n{row.case}: {row.cost.wrong} wrong answers" for row in rows if row.cost.wrong))
    for row in rows:
        cost, ratio = row.cost, {name: value and round(value, 3) for name, value in row.ratios.items()}
        times = {
            "cpu_ms": cost.cpu,
            "wall_ms": cost.wall,
            "cpu_p95_ms": cost.cpu_p95,
            "wall_p95_ms": cost.wall_p95,
        }
        rounded = {name: round(value, 2) for name, value in times.items()}
        print(json.dumps({"case": row.case, **rounded, **ratio, "wrong": cost.wrong, **context}))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the hook costs, as ratios in one run.")
    parser.add_argument("--rounds", type=int, default=100, help="runs of each case (100; 60 or more for a verdict)")
    parser.add_argument("--lessons", default="", metavar="N,N", help="again with so many lessons: 100,1000,10000")
    parser.add_argument("--modes", default="spread", metavar="M,M", help=f"how they are made: {', '.join(MODES)}")
    options = parser.parse_args()
    if unknown := set(options.modes.split(",")) - set(MODES):
        parser.error(f"--modes knows {', '.join(MODES)}, not {', '.join(unknown)}")
    return options


def iter_tables(options: argparse.Namespace) -> Iterator[tuple[int, str, list[Row]]]:
    yield LESSONS, "spread", measure_first_table(LESSONS, options.rounds)
    for mode in options.modes.split(",") if options.lessons else []:
        for count in map(int, options.lessons.split(",")):
            yield count, mode, measure_growth_table(count, mode, options.rounds)


def main() -> int:
    options = parse_arguments()
    if not shutil.which("node"):
        print("node is not on the PATH: the ratios to it are left out")
    faults: list[str] = []
    for count, mode, rows in iter_tables(options):
        title = f"{count} lessons, {mode} literals"
        print_table(title, rows, {"rounds": options.rounds, "lessons": count, "mode": mode})
        if mode == "spread":  # the others are worst cases, where running out of time is an answer
            faults += [f"{title}: {fault}" for row in rows for fault in row.faults]
    print("\n" + ("\n".join(["not as it should be:", *faults]) if faults else "all within what the hook may cost"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
