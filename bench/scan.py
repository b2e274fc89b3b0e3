"""Measure what mining the history costs: `make bench-scan`.

Both tiers over the Claude Code sessions in `../shared/corpus` (other data with CORPUS=), into the store, next to
`orjson.loads` over the same lines alone: five passes of each, taking turns. Beside it the same scan by 0.1.0, unpacked
from the history: seven runs of each in processes of their own, taking turns. The bars are about the seconds that a
person waits, as they were in 0.1.0; several processes read a long history, so the processor time of all of them is
printed as well, and that of orjson is one process's. Then the whole command
in a process of its own, over the archive once and over three copies of it, for its peak memory; again with nothing new;
and 300 candidates compared with 5,000 lessons. It fails when a bar is missed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from statistics import median

import orjson

from hardwon import settings
from hardwon.mining import scan
from hardwon.store import candidates, db
from hardwon.text import similarity
from hardwon.types import Lesson

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
PASSES = 5
LEAST_RATIO, MOST_MEGABYTES, MOST_GROWTH, NOTHING_NEW, COMPARING = 0.25, 150.0, 1.2, 0.3, 1.0
MOST_OF_010 = 1.0


COMMIT_OF_010, RUNS = "bc3702b", 7
SCAN_PROGRAM = """
import os, sys, tempfile, time
from hardwon import settings
from hardwon.mining import scan
from hardwon.store import db
with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
    connection = db.connect(home)
    files = list(scan.find_changed_transcripts({"claude-code": [sys.argv[1]]}, {}))
    began, cpu_began = time.perf_counter(), sum(os.times()[:4])
    scan.scan_transcripts(home, connection, files, settings.resolve_settings({}), kind="full")
    print(time.perf_counter() - began, sum(os.times()[:4]) - cpu_began)
"""
SCAN_PROGRAM_OF_010 = (
    SCAN_PROGRAM.replace("hardwon.mining", "hardwon.distil")
    .replace("scan.find_changed_transcripts", "scan.find")
    .replace("scan.scan_transcripts", "scan.run")
    .replace("resolve_settings", "resolve")
)


@dataclass(frozen=True)
class Times:
    """The seconds that a person waits, and the processor time of this process and its children."""

    seconds: float
    cpu: float


def measure(work: Callable[[], object]) -> Times:
    began = time.perf_counter()
    cpu_began = sum(os.times()[:4])
    work()
    return Times(time.perf_counter() - began, sum(os.times()[:4]) - cpu_began)


def take_medians(times: Sequence[Times]) -> Times:
    return Times(median(run.seconds for run in times), median(run.cpu for run in times))


def parse_alone(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                try:
                    orjson.loads(line)
                except ValueError:
                    pass


def scan_all(folder: str) -> int:
    """Run a first scan into a new home; return the number of candidates."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        connection = db.connect(home)
        files = list(scan.find_changed_transcripts({"claude-code": [folder]}, {}))
        scan.scan_transcripts(home, connection, files, settings.resolve_settings({}), kind="full")
        candidate_count = len(candidates.list_candidates(connection))
        connection.close()
    return candidate_count


def run_scan_command(folder: str, home: str) -> tuple[float, float]:
    """Run `hardwon scan` as a person does; return its seconds and peak megabytes."""
    environment = {**os.environ, "HARDWON_HOME": home, "HOME": home}
    arguments = [sys.executable, "-m", "hardwon", "scan", "--path", folder]
    began = time.perf_counter()
    child = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def measure_peaks(folder: str) -> tuple[float, float, float]:
    """Return the peak memory for the archive and for three copies of it, and the seconds of a scan without news."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as scratch_folder:
        _, peak_once = run_scan_command(folder, os.path.join(scratch_folder, "once"))
        seconds_without_news = median(
            run_scan_command(folder, os.path.join(scratch_folder, "once"))[0] for _ in range(PASSES)
        )
        for copy in "abc":
            shutil.copytree(folder, os.path.join(scratch_folder, "archive", copy))
        _, peak_thrice = run_scan_command(
            os.path.join(scratch_folder, "archive"), os.path.join(scratch_folder, "thrice")
        )
    return peak_once, peak_thrice, seconds_without_news


def compare_with_010(folder: str) -> Times | None:
    """Return the times of a scan as multiples of 0.1.0's; None where the history does not have it."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT_OF_010, "src"], capture_output=True)
    if archive.returncode:
        return None
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as source:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(source, filter="data")
        times: dict[str, list[Times]] = {SCAN_PROGRAM: [], SCAN_PROGRAM_OF_010: []}
        sources = {SCAN_PROGRAM: os.path.join(ROOT, "src"), SCAN_PROGRAM_OF_010: os.path.join(source, "src")}
        for _ in range(RUNS):
            for program, program_times in times.items():
                environment = {**os.environ, "PYTHONPATH": sources[program]}
                words = [sys.executable, "-c", program, folder]
                run = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
                program_times.append(Times(*map(float, run.stdout.split())))
    now = take_medians(times[SCAN_PROGRAM])
    before = take_medians(times[SCAN_PROGRAM_OF_010])
    return Times(now.seconds / before.seconds, now.cpu / before.cpu)


def build_lesson(number: int) -> Lesson:
    words = " ".join(f"word{(number * 7 + position * position) % 900}" for position in range(40))
    return Lesson(f"id{number}", f"slug{number}", f"summary {number}", words, words[::-1], "note")


def measure_comparison() -> float:
    lessons = [build_lesson(number) for number in range(5_000)]
    proposed = [build_lesson(number + 100_000) for number in range(300)]

    def compare_all() -> None:
        known_lessons = similarity.build_vocabulary(lessons)
        for proposal in proposed:
            similarity.find_nearest_in(known_lessons, proposal)

    return median(measure(compare_all).cpu for _ in range(PASSES))


def main() -> int:
    folder = os.path.join(CORPUS, "claude") if os.path.isdir(os.path.join(CORPUS, "claude")) else CORPUS
    if not os.path.isdir(folder):
        print(f"no transcripts at {folder}: nothing to measure")
        return 0
    paths = [file.path for file in scan.find_changed_transcripts({"claude-code": [folder]}, {})]
    size = sum(map(os.path.getsize, paths)) / 1e6
    parse_times, scan_times = [], []
    candidate_count = scan_all(folder)
    for _ in range(PASSES):
        parse_times.append(measure(lambda: parse_alone(paths)))
        scan_times.append(measure(lambda: scan_all(folder)))
    parsing = take_medians(parse_times)
    scanning = take_medians(scan_times)
    ratio = parsing.seconds / scanning.seconds
    multiple = compare_with_010(folder)
    peak_once, peak_thrice, seconds_without_news = measure_peaks(folder)
    comparison_seconds = measure_comparison()
    print(f"{len(paths)} transcripts, {size:.0f} MB, {candidate_count} candidates")
    rows = (
        ("orjson.loads alone", parsing, " s"),
        ("both tiers into the store", scanning, " s"),
        ("as a multiple of 0.1.0", multiple, " x"),
    )
    print(f"{'':34} {'waiting':>9} {'processors':>11}")
    for name, times, unit in rows:
        figures = f"{times.seconds:7.2f}{unit} {times.cpu:9.2f}{unit}" if times else "unknown: not in the history"
        print(f"{name:34} {figures}")
    print(f"{'of the speed of orjson alone':34} {ratio:7.3f}   {parsing.cpu / scanning.cpu:9.3f}")
    print(f"{'peak memory, archive once':34} {peak_once:7.0f} MB")
    print(f"{'peak memory, archive three times':34} {peak_thrice:7.0f} MB")
    print(f"{'the command, nothing new':34} {seconds_without_news:7.2f} s")
    print(f"{'300 candidates, 5,000 lessons':34} {comparison_seconds:7.2f} s")
    missed = [
        name
        for name, wrong in {
            "ratio": ratio < LEAST_RATIO,
            "0.1.0": multiple is not None and multiple.seconds > MOST_OF_010,
            "memory": max(peak_once, peak_thrice) > MOST_MEGABYTES,
            "flat memory": peak_thrice > peak_once * MOST_GROWTH,
            "nothing new": seconds_without_news > NOTHING_NEW,
            "comparing": comparison_seconds > COMPARING,
        }.items()
        if wrong
    ]
    speed = round(size / scanning.seconds)
    print(json.dumps({"ratio": round(ratio, 3), "mb_per_s": speed, "missed": missed}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
