"""Run benchmarks and write what they print into docs/numbers.md: `make numbers`, or `make numbers ONLY="cli hook"`.

Each section names its date, its command and the machine. The page is written after every benchmark, and one that was
measured today is not run again unless it is named, so a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

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
MAX_LINES = 40  # a benchmark of hooks has a row for each agent
BEGIN, END = "<!-- written by `make numbers` -->", "<!-- end of what `make numbers` writes -->"
MAX_SECONDS = 900


@dataclass(frozen=True)
class Benchmark:
    title: str
    peer: str = ""  # what it is measured against in the same run
    arguments: tuple[str, ...] = ()
    is_by_hand: bool = False  # it needs a model or minutes to judge, so its section is written by a person


BENCHMARKS: Mapping[str, Benchmark] = {
    "prevention": Benchmark("Does a hold prevent the repeat?", "no memory, a placebo, CLAUDE.md", is_by_hand=True),
    "prevention_wordings": Benchmark("Wording of a hold", "the earlier wording", is_by_hand=True),
    "efficacy": Benchmark("Can the proof be trusted?", "lessons without effect", is_by_hand=True),
    "staleness": Benchmark("Is what is told about code still true?"),
    "repeats": Benchmark("Are mistakes held before they happen again?", "a frozen rule that labels repeats"),
    "scan-quality": Benchmark("Lessons told from slips", "labels by hand"),
    "meaning": Benchmark("Are summaries and handoffs true?", "hardwon 0.1.0"),
    "recall": Benchmark("Is what was said found again?", "FTS5, grep, BM25; MiniLM with `MINILM=1`"),
    "redact": Benchmark("Secrets found before anything is written", "detect-secrets"),
    "hook": Benchmark("What a hook costs", "an empty Python, an empty Node", ("--rounds", "30")),
    "cli": Benchmark("What a command costs", "an empty Python"),
    "viewer": Benchmark("What a page costs at 100,000 events", "the page of an empty home"),
    "search": Benchmark("What a search costs", "FTS5"),
    "scan": Benchmark("What a scan costs", "parsing the same lines with orjson, and hardwon 0.1.0"),
    "capture": Benchmark("What recording costs", "a bare socket server"),
    "distil": Benchmark("What distilling costs", "recording the same events"),
    "reflect": Benchmark("What a draft costs"),
    "brief": Benchmark("What a brief costs", "a session without history"),
    "match": Benchmark("What matching costs", "every pattern in turn"),
    "guard": Benchmark("A guard beside a catastrophic pattern", "the guard alone"),
    "gate": Benchmark("What replaying proposals costs"),
    "api": Benchmark("What the API costs", "a bare Starlette app"),
    "team": Benchmark("Does a team's log lose anything?"),
}


def describe_machine() -> str:
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = re.search(r"model name\s*: (.*)", file.read())[1]  # type: ignore[index]
    except (OSError, TypeError):
        pass
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}, load {os.getloadavg()[0]:.0f}"


def measure(name: str) -> str:
    """Return a benchmark's section; the benchmark says itself when it misses a bar."""
    benchmark, machine = BENCHMARKS[name], describe_machine()
    try:
        done = subprocess.run(
            [sys.executable, f"bench/{name}.py", *benchmark.arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "QUICK": "1"},
            timeout=MAX_SECONDS,
        )
        lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("{")]
        if done.returncode:
            lines += ["", "Below its bar in this run:", *done.stderr.strip().splitlines()[-5:]]
    except subprocess.TimeoutExpired:
        lines = [f"not done after {MAX_SECONDS} s"]
    # The last lines are the summary; a path of this machine is nobody else's.
    output = "\n".join(lines[-MAX_LINES:]).replace(f"{ROOT}/", "").strip("\n")
    facts = f"{read_today()}, `QUICK=1 make bench-{name}`, {machine}."
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


def write_page(text: str, sections: Mapping[str, str]) -> None:
    written_by_hand = text.partition(BEGIN)[0].rstrip()
    ordered_sections = [sections[name] for name in BENCHMARKS if name in sections]
    missing = [
        f"`make bench-{name}`" for name, row in BENCHMARKS.items() if name not in sections and not row.is_by_hand
    ]
    note = [f"Not measured for this page yet: {', '.join(missing)}.", ""] if missing else []
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join([written_by_hand, "", BEGIN, "", *ordered_sections, *note, END, ""]))


def main() -> None:
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    sections = read_sections(text)
    for name in sys.argv[1:] or [name for name, benchmark in BENCHMARKS.items() if not benchmark.is_by_hand]:
        if name not in BENCHMARKS or BENCHMARKS[name].is_by_hand:
            sys.exit(
                f"error: make numbers does not run {name!r}\n  fix: make bench-{name}, and write its section by hand"
            )
        if not sys.argv[1:] and f"\n{read_today()}, " in sections.get(name, ""):
            continue
        print(f"make bench-{name}", flush=True)
        sections[name] = measure(name)
        write_page(text, sections)
    write_page(text, sections)


if __name__ == "__main__":
    main()
