"""What matching alone costs at any number of lessons: `make bench-match`.

A call is matched against the compiled manifest as the worker does it, without the socket and the process around it.
The baseline, in the same run, is asking every lesson's pattern in turn. It fails when a call that 10,000 lessons with
literals of their own could concern takes more than a millisecond.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import sys
import tempfile
from time import perf_counter

from hardwon.lessons import manifest_index as indexes
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import match_entry, prepare_call
from hardwon.lessons.patterns import PatternCache
from hardwon.lessons.record import parse_lesson
from hardwon.types import Event

SIZES = (100, 1_000, 10_000)
CALLS = 300
MOST_SECONDS = 0.001


def open_index(count: int, folder: str) -> indexes.ManifestIndex:
    lessons = [
        parse_lesson(
            {
                "id": f"id{number}",
                "slug": f"slug{number}",
                "summary": "made up",
                "problem": "made up",
                "solution": "made up",
                "triggers": {"toolNames": ["Bash"], "commandPatterns": [rf"\btool{number:05d}\s+frobnicate\b"]},
            }
        )
        for number in range(count)
    ]
    entries = compile_entries(lessons)
    path = os.path.join(folder, f"{count}.bin")
    with open(path, "wb") as file:
        file.write(
            indexes.build(entries, [find_entry_literals(entry) for entry in entries], settings={}, source_stats=[])
        )
    return indexes.ManifestIndex(path)


def build_calls(count: int) -> list[Event]:
    generator = random.Random(7)
    commands = [f"cd src && tool{generator.randrange(count):05d} frobnicate --fast | tail -5" for _ in range(CALLS)]
    return [Event("claude-code", "PreToolUse", "s", "/p", tool="Bash", command=command) for command in commands]


def match_by_index(index: indexes.ManifestIndex, event: Event, patterns: PatternCache) -> int:
    sight = prepare_call(event, project_root="/p", equivalent_folders=["/p"])
    candidates = index.find_possible_matches(event.tool, list_call_texts(event))
    return sum(match_entry(index.read_entry(number), sight, patterns.search) is not None for number in candidates)


def match_one_by_one(compiled: list[re.Pattern[str]], event: Event) -> int:
    return sum(pattern.search(event.command) is not None for pattern in compiled)


def main() -> int:
    slowest = 0.0
    print(f"{'lessons':>8} {'by index, median':>18} {'p95':>10} {'one by one, median':>20} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for count in SIZES:
            index, patterns = open_index(count, folder), PatternCache()
            compiled = [re.compile(p.source) for e in map(index.read_entry, range(count)) for p in e.commands]
            indexed_times, plain_times = [], []
            for event in build_calls(count) * 2:  # the first time compiles what is asked about
                begun = perf_counter()
                match_count = match_by_index(index, event, patterns)
                indexed_times.append(perf_counter() - begun)
                begun = perf_counter()
                expected = match_one_by_one(compiled, event)
                plain_times.append(perf_counter() - begun)
                assert match_count == expected == 1, (event.command, match_count, expected)
            indexed_times, plain_times = indexed_times[CALLS:], plain_times[CALLS:]
            indexed_median, indexed_p95, plain_median = (
                statistics.median(indexed_times),
                sorted(indexed_times)[int(CALLS * 0.95)],
                statistics.median(plain_times),
            )
            slowest = max(slowest, indexed_median)
            columns = f"{indexed_median * 1e3:>15.3f} ms {indexed_p95 * 1e3:>7.3f} ms {plain_median * 1e3:>17.3f} ms"
            print(f"{count:>8} {columns} {indexed_median / plain_median:>7.3f}")
            print(
                json.dumps(
                    {
                        "case": f"{count} lessons",
                        "ms": round(indexed_median * 1e3, 4),
                        "x_one_by_one": round(indexed_median / plain_median, 4),
                    }
                )
            )
    print("within a millisecond" if slowest <= MOST_SECONDS else "more than a millisecond")
    return int(slowest > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
