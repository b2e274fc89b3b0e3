"""Run the quick benchmarks and write what they print into docs/numbers.md: `make numbers`.

Each section names its date, its command and the machine; the sections above them are measured by hand, with models.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "numbers.md")
MAX_LINES = 16
LINES_BY_NAME = {"hook": 40}  # a row for each agent
BEGIN, END = "<!-- written by `make numbers` -->", "<!-- end of what `make numbers` writes -->"
SECTIONS = {
    "cli": "What a command costs",
    "redact": "Secrets found before anything is written",
    "hook": "What a hook costs",
}
ARGUMENTS = {"hook": ["--rounds", "30"]}  # enough for medians of ratios


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
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", *ARGUMENTS.get(name, [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "QUICK": "1"},
    )
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("{")]
    max_lines = LINES_BY_NAME.get(name, MAX_LINES)
    missed = [] if done.returncode == 0 else ["", "Below its bar in this run:", *done.stderr.strip().splitlines()[-5:]]
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    # The last lines are the summary; a path of this machine is nobody else's.
    output = "\n".join([*lines, *missed][-max_lines:]).replace(f"{ROOT}/", "").strip("\n")
    return f"## {SECTIONS[name]}\n\n{when}, `make bench-{name}`, {describe_machine()}.\n\n```\n{output}\n```\n"


def main() -> None:
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    written_by_hand = text.partition(BEGIN)[0].rstrip()
    sections = []
    for name in sys.argv[1:] or SECTIONS:
        print(f"make bench-{name}", flush=True)
        sections.append(measure(name))
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join([written_by_hand, "", BEGIN, "", *sections, END, ""]))


if __name__ == "__main__":
    main()
