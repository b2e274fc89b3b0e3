"""Run benchmarks and write what they print into docs/numbers.md: `make numbers`, or `make numbers ONLY="cli hook"`.

Each section names its date, its command and the machine. The page is written after every benchmark, and one that was
measured today is not run again unless it is named, so a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "numbers.md")
MAX_LINES = 50  # a benchmark of hooks has a row for each agent
SUMMARY_LINES = 9  # of a benchmark with a row for each vendor of keys
BEGIN, END = "<!-- written by `make numbers` -->", "<!-- end of what `make numbers` writes -->"
MAX_SECONDS = 900


@dataclass(frozen=True)
class Benchmark:
    title: str
    peer: str = ""  # what it is measured against in the same run
    arguments: tuple[str, ...] = ()
    prints_json: bool = False  # its figures are in the last line, as JSON
    shown_lines: int = MAX_LINES  # the last ones, which are the summary
    is_by_hand: bool = False  # it needs a model or minutes to judge, so its section is written by a person


BENCHMARKS: Mapping[str, Benchmark] = {
    "prevention": Benchmark("Does a hold prevent the repeat?", "no memory, a placebo, CLAUDE.md", is_by_hand=True),
    "prevention_wordings": Benchmark("Wording of a hold", "the earlier wording", is_by_hand=True),
    "efficacy": Benchmark("Can the proof be trusted?", "lessons without effect", is_by_hand=True),
    "staleness": Benchmark("Is what is told about code still true?", prints_json=True),
    "repeats": Benchmark("Are mistakes held before they happen again?", "a frozen rule that labels repeats"),
    "scan-quality": Benchmark("Lessons told from slips", "labels by hand"),
    "meaning": Benchmark("Are summaries and handoffs true?", "hardwon 0.1.0"),
    "recall": Benchmark("Is what was said found again?", "FTS5, grep, BM25; MiniLM with `MINILM=1`"),
    "redact": Benchmark("Secrets found before anything is written", "detect-secrets", shown_lines=SUMMARY_LINES),
    "hook": Benchmark("What a hook costs", "an empty Python, an empty Node", ("--rounds", "30")),
    "peers": Benchmark("What other memories cost", "lessons-learned and claude-mem; an empty Python, an empty Node"),
    "cli": Benchmark("What a command costs", "an empty Python"),
    "viewer": Benchmark("What a page costs at 100,000 events", "the page of an empty home"),
    "search": Benchmark("What a search costs", "FTS5"),
    "indexing": Benchmark("How soon is an imported history found?"),
    "scan": Benchmark("What a scan costs", "parsing the same lines with orjson, and hardwon 0.1.0"),
    "capture": Benchmark("What recording costs", "a bare socket server"),
    "distil": Benchmark("What distilling costs", "recording the same events"),
    "reflect": Benchmark("What a draft costs"),
    "brief": Benchmark("What a brief costs", "a session without history"),
    "match": Benchmark("What matching costs", "every pattern in turn"),
    "guard": Benchmark("A guard beside a catastrophic pattern", "the guard alone"),
    "gate": Benchmark("What replaying proposals costs"),
    "api": Benchmark("What the API costs", "a bare Starlette app"),
    "team": Benchmark("Does a team's log lose anything?", prints_json=True),
}


def describe_machine() -> str:
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = re.search(r"model name\s*: (.*)", file.read())[1]  # type: ignore[index]
    except (OSError, TypeError):
        pass
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def measure_benchmark(name: str) -> str:
    """Return a benchmark's section; the benchmark says itself when it misses a bar."""
    benchmark, load_before = BENCHMARKS[name], os.getloadavg()[0]
    try:
        run = subprocess.run(
            [sys.executable, f"bench/{name}.py", *benchmark.arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "QUICK": "1"},
            timeout=MAX_SECONDS,
        )
        lines = [line.rstrip() for line in run.stdout.splitlines() if not line.startswith("{")]
        if benchmark.prints_json:
            figures = json.loads(run.stdout.splitlines()[-1])
            lines += [f"{name.replace('_', ' '):24}{value}" for name, value in figures.items() if value is not None]
        if run.returncode:
            reasons = run.stderr.strip().splitlines()[-5:]
            lines += ["", "Below its bar in this run:" if reasons else "Below its bar in this run.", *reasons]
    except subprocess.TimeoutExpired:
        lines = [f"not done after {MAX_SECONDS} s"]
    # A path of this machine is nobody else's.
    output = "\n".join(lines[-benchmark.shown_lines :]).replace(f"{ROOT}/", "").strip("\n")
    load = f"load {load_before:.0f} before and {os.getloadavg()[0]:.0f} after"
    facts = f"{read_today()}, `QUICK=1 make bench-{name}`, {describe_machine()}, {load}."
    if benchmark.peer:
        facts += f" Beside it: {benchmark.peer}."
    return f"## {benchmark.title}\n\n{facts}\n\n```\n{output}\n```\n"


def read_today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def read_sections(text: str) -> dict[str, str]:
    """Return the measured sections of the page, by the name of their benchmark."""
    measured_text = text.partition(BEGIN)[2].partition(END)[0]
    sections = re.split(r"(?m)^(?=## )", measured_text)
    titles = {benchmark.title: name for name, benchmark in BENCHMARKS.items()}
    return {
        titles[title]: section.strip() + "\n" for section in sections if (title := section[3:].split("\n")[0]) in titles
    }


def write_page(sections: Mapping[str, str]) -> None:
    """Write these sections and those that the page has; it may have changed while a benchmark ran."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    every_section = {**read_sections(text), **sections}
    ordered_sections = [every_section[name] for name in BENCHMARKS if name in every_section]
    missing = [
        f"`make bench-{name}`" for name, row in BENCHMARKS.items() if name not in every_section and not row.is_by_hand
    ]
    note = [f"Not measured for this page yet: {', '.join(missing)}.", ""] if missing else []
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join([text.partition(BEGIN)[0].rstrip(), "", BEGIN, "", *note, *ordered_sections, END, ""]))


def main() -> None:
    with open(PAGE, encoding="utf-8") as file:
        measured_sections = read_sections(file.read())
    for name in sys.argv[1:] or [name for name, benchmark in BENCHMARKS.items() if not benchmark.is_by_hand]:
        if name not in BENCHMARKS or BENCHMARKS[name].is_by_hand:
            sys.exit(
                f"error: make numbers does not run {name!r}\n  fix: make bench-{name}, and write its section by hand"
            )
        if not sys.argv[1:] and f"\n{read_today()}, " in measured_sections.get(name, ""):
            continue
        print(f"make bench-{name}", flush=True)
        write_page({name: measure_benchmark(name)})
    write_page({})


if __name__ == "__main__":
    main()
