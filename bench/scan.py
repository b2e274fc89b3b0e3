"""What mining the history costs: `make bench-scan`.

Both tiers over the Claude Code sessions in `../shared/corpus` (other data with CORPUS=), into the store, next to
`orjson.loads` over the same lines alone: five passes of each, taking turns, in processor time. Beside it the same scan
by 0.1.0, unpacked from the history: seven runs of each in processes of their own, taking turns. Then the whole command
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
from collections.abc import Callable
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
import sys, tempfile, time
from hardwon import settings
from hardwon.mining import scan
from hardwon.store import db
with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
    connection = db.connect(home)
    files = list(scan.find_changed_transcripts({"claude-code": [sys.argv[1]]}, {}))
    began = time.process_time()
    scan.scan_transcripts(home, connection, files, settings.resolve_settings({}), kind="full")
    print(time.process_time() - began)
"""
SCAN_PROGRAM_OF_010 = (
    SCAN_PROGRAM.replace("hardwon.mining", "hardwon.distil")
    .replace("scan.find_changed_transcripts", "scan.find")
    .replace("scan.scan_transcripts", "scan.run")
    .replace("resolve_settings", "resolve")
)


def timed(work: Callable[[], object]) -> float:
    """Return the processor time, which other work on the machine changes little."""
    began = time.process_time()
    work()
    return time.process_time() - began


def parse_alone(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                try:
                    orjson.loads(line)
                except ValueError:
                    pass


def scan_all(folder: str) -> int:
    """A first scan into a new home; gives the candidates."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        connection = db.connect(home)
        files = list(scan.find_changed_transcripts({"claude-code": [folder]}, {}))
        scan.scan_transcripts(home, connection, files, settings.resolve_settings({}), kind="full")
        found = len(candidates.list_candidates(connection))
        connection.close()
    return found


def command(folder: str, home: str) -> tuple[float, float]:
    """Seconds and peak megabytes of `hardwon scan` as a person runs it."""
    environment = {**os.environ, "HARDWON_HOME": home, "HOME": home}
    words = [sys.executable, "-m", "hardwon", "scan", "--path", folder]
    began = time.perf_counter()
    child = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0
    return time.perf_counter() - began, used.ru_maxrss / 1024


def peaks(folder: str) -> tuple[float, float, float]:
    """Peak memory for the archive and for three of it, and the seconds of a scan that finds nothing new."""
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as place:
        _, once = command(folder, os.path.join(place, "once"))
        nothing = median(command(folder, os.path.join(place, "once"))[0] for _ in range(PASSES))
        for copy in "abc":
            shutil.copytree(folder, os.path.join(place, "archive", copy))
        _, thrice = command(os.path.join(place, "archive"), os.path.join(place, "thrice"))
    return once, thrice, nothing


def compare_with_010(folder: str) -> float | None:
    """Return the processor time of a scan as a multiple of 0.1.0's; None where the history does not have it."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT_OF_010, "src"], capture_output=True)
    if archive.returncode:
        return None
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as source:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(source, filter="data")
        times: dict[str, list[float]] = {SCAN_PROGRAM: [], SCAN_PROGRAM_OF_010: []}
        sources = {SCAN_PROGRAM: os.path.join(ROOT, "src"), SCAN_PROGRAM_OF_010: os.path.join(source, "src")}
        for _ in range(RUNS):
            for program, seconds in times.items():
                environment = {**os.environ, "PYTHONPATH": sources[program]}
                words = [sys.executable, "-c", program, folder]
                run = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
                seconds.append(float(run.stdout))
    return median(times[SCAN_PROGRAM]) / median(times[SCAN_PROGRAM_OF_010])


def lesson(number: int) -> Lesson:
    words = " ".join(f"word{(number * 7 + place * place) % 900}" for place in range(40))
    return Lesson(f"id{number}", f"slug{number}", f"summary {number}", words, words[::-1], "note")


def compare() -> float:
    lessons = [lesson(number) for number in range(5_000)]
    proposed = [lesson(number + 100_000) for number in range(300)]

    def work() -> None:
        known = similarity.build_vocabulary(lessons)
        for one in proposed:
            similarity.find_nearest_in(known, one)

    return median(timed(work) for _ in range(PASSES))


def main() -> int:
    folder = os.path.join(CORPUS, "claude") if os.path.isdir(os.path.join(CORPUS, "claude")) else CORPUS
    if not os.path.isdir(folder):
        print(f"no transcripts at {folder}: nothing to measure")
        return 0
    paths = [file.path for file in scan.find_changed_transcripts({"claude-code": [folder]}, {})]
    size = sum(map(os.path.getsize, paths)) / 1e6
    alone, whole, found = [], [], 0
    for _ in range(PASSES):
        alone.append(timed(lambda: parse_alone(paths)))
        began = time.process_time()
        found = scan_all(folder)
        whole.append(time.process_time() - began)
    ratio = median(alone) / median(whole)
    multiple = compare_with_010(folder)
    once, thrice, nothing = peaks(folder)
    comparing = compare()
    print(f"{len(paths)} transcripts, {size:.0f} MB, {found} candidates")
    print(f"{'orjson.loads alone':34} {median(alone):7.2f} s   {size / median(alone):6.0f} MB/s")
    speed = f"{size / median(whole):6.0f} MB/s   ratio {ratio:.3f}"
    print(f"{'both tiers into the store':34} {median(whole):7.2f} s   {speed}")
    print(f"{'as a multiple of 0.1.0':34} " + (f"{multiple:7.2f} x" if multiple else "unknown: not in the history"))
    print(f"{'peak memory, archive once':34} {once:7.0f} MB")
    print(f"{'peak memory, archive three times':34} {thrice:7.0f} MB")
    print(f"{'the command, nothing new':34} {nothing:7.2f} s")
    print(f"{'300 candidates, 5,000 lessons':34} {comparing:7.2f} s")
    missed = [
        name
        for name, wrong in {
            "ratio": ratio < LEAST_RATIO,
            "0.1.0": multiple is not None and multiple > MOST_OF_010,
            "memory": max(once, thrice) > MOST_MEGABYTES,
            "flat memory": thrice > once * MOST_GROWTH,
            "nothing new": nothing > NOTHING_NEW,
            "comparing": comparing > COMPARING,
        }.items()
        if wrong
    ]
    print(json.dumps({"ratio": round(ratio, 3), "mb_per_s": round(size / median(whole)), "missed": missed}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
