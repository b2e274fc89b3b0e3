"""What a search costs as the store grows: `make bench-search`, up to a million observations (QUICK=1: to 100,000).

The words of made-up observations are as frequent as words are in English: most texts share a few, most words are rare,
and questions are made of them in the same way. Beside every search the naive query runs in the same run: all words of
the question or-ed, ranked by SQLite's BM25, ten rows. Both are measured in CPU time: the pages they read are in memory,
and other work on the machine must not count. Memory is that of a process that has the worker's modules loaded and
searches. It fails when a bar is missed.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate, islice
from statistics import median

from measure import p95

from hardwon.search import indexing
from hardwon.search.search import search_records
from hardwon.store import db
from hardwon.text.words import STOP_WORDS

SIZES = [10_000, 100_000, *([] if os.environ.get("QUICK") else [1_000_000])]
QUESTIONS = 150
PROJECT, NOW = "/bench/kite", 1_790_000_000.0
MOST_OF_NAIVE, MOST_GROWTH, MEGABYTES = 0.5, 12.0, {100_000: 100, 1_000_000: 600}
BLOCK = 5_000
BEGINS = ("b", "br", "c", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "w")
MIDDLES = ("a", "e", "i", "o", "u", "ai", "ea", "oo")
COLUMNS = (
    "key, session, at, prompt, type, title, subtitle, narrative, facts, concepts, files_read, files_modified, events,"
    " tokens, times, made"
)


def vocabulary() -> tuple[list[str], list[float]]:
    """Words that say something, and how often they come, added up: by Zipf and Mandelbrot.

    Some 150 are in more than one text of fifty, and the tenth, fiftieth and hundredth in 12, 5 and 3 of a hundred, as
    was counted in what agents and people say. The very first of those is in half of the texts; here in a sixth.
    """
    dice = random.Random(7)
    made: dict[str, None] = {}
    while len(made) < 60_000:
        made["".join(dice.choice(BEGINS) + dice.choice(MIDDLES) for _ in range(dice.randint(2, 4)))] = None
    return list(made), list(accumulate(1 / (rank + 20) ** 1.05 for rank in range(len(made))))


def texts(dice: random.Random) -> Iterator[tuple[str, str]]:
    """Titles and narratives, without end; two words in five say nothing."""
    (words, weights), glue = vocabulary(), sorted(STOP_WORDS)
    while True:
        count = dice.randint(25, 60)
        said = dice.choices(words, cum_weights=weights, k=count * 3 // 5) + dice.choices(glue, k=count * 2 // 5)
        dice.shuffle(said)
        yield " ".join(said[:8]), " ".join(said[8:])


def grow(
    connection: db.Connection, naive: sqlite3.Connection, source: Iterator[tuple[str, str]], have: int, want: int
) -> float:
    """Insert observations up to a number, ten a session, into both stores; the seconds it took in ours."""
    spent = 0.0
    for first in range(have, want, BLOCK):
        block = list(islice(source, min(BLOCK, want - first)))
        rows = [
            (
                f"o{number}",
                number // 10 + 1,
                NOW - 4_000_000 + number,
                1,
                "discovery",
                title,
                "",
                narrative,
                "[]",
                "[]",
                "[]",
                f'["src/part{number % 97}/file{number % 1009}.py"]',
                "[]",
                900,
                1,
                "plain",
            )
            for number, (title, narrative) in enumerate(block, first)
        ]
        began = time.perf_counter()
        with db.transaction(connection):
            connection.executemany(
                "insert or ignore into sessions (id, host, session, project, cwd, transcript, first_prompt, prompts,"
                " status, reason, started_at, opened_at, last_at, to_fill) values (?, 'claude-code', ?, 1, '', '', '',"
                " 1, 'completed', '', ?, ?, ?, 0)",
                [(row[1], f"s{row[1]}", NOW, NOW, NOW) for row in rows[::10]],
            )
            connection.executemany(f"insert into observations ({COLUMNS}) values ({', '.join('?' * 16)})", rows)
        spent += time.perf_counter() - began
        with naive:
            said = [(f"{title} {text}",) for title, text in block]
            naive.executemany("insert into said (text) values (?)", said)
    return spent


def questions(dice: random.Random, source: Iterator[tuple[str, str]]) -> list[str]:
    return [" ".join(dice.sample(narrative.split(), dice.randint(4, 9))) for _, narrative in islice(source, QUESTIONS)]


def compared(
    connection: db.Connection, home: str, naive: sqlite3.Connection, asked: list[str]
) -> dict[str, list[float]]:
    """Milliseconds of every question, both ways, taking turns; the first of each is not counted."""
    model = indexing.load_model_or_none()
    took: dict[str, list[float]] = {"ours": [], "naive": []}
    for question in [asked[0], *asked]:
        words = [word for word in question.split() if word not in STOP_WORDS] or ["nothing"]
        began = time.process_time()
        search_records(connection, home, question, project=PROJECT, limit=10, now=NOW, model=model)
        between = time.process_time()
        naive.execute(
            "select rowid from said where said match ? order by rank limit 10",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchall()
        took["ours"].append((between - began) * 1000)
        took["naive"].append((time.process_time() - between) * 1000)
    return {name: each[1:] for name, each in took.items()}


def indexed(connection: db.Connection, home: str) -> tuple[float, float, float]:
    """Seconds of indexing words, seconds of embedding, and the longest write transaction in milliseconds."""
    open_since, longest = 0.0, 0.0

    def heard(statement: str) -> None:
        nonlocal open_since, longest
        if statement.startswith("begin"):
            open_since = time.perf_counter()
        elif statement.startswith("commit"):
            longest = max(longest, time.perf_counter() - open_since)

    connection.set_trace_callback(heard)
    began = time.perf_counter()
    indexing.refresh_index(connection, home, model=None, should_continue=lambda: True)
    between = time.perf_counter()
    indexing.refresh_index(connection, home, model=indexing.load_model_or_none(), should_continue=lambda: True)
    connection.set_trace_callback(None)
    return between - began, time.perf_counter() - between, longest * 1000


def memory(home: str, asked: list[str]) -> float:
    """Megabytes at most of a process like the worker that answers questions."""
    code = (
        "import json, resource, sys; import hardwon.web.server, hardwon.web.api\n"
        "from hardwon.search import indexing; from hardwon.search.search import search_records; from "
        "hardwon.store import db\n"
        "home, asked = json.load(sys.stdin); connection = db.connect(home); model = indexing.load_model_or_none()\n"
        f"for one in asked: search_records(connection, home, one, project={PROJECT!r}, limit=10, now={NOW}, "
        "model=model)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps([home, asked[:40]]), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> int:
    dice = random.Random(3)
    source = texts(dice)
    figures: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as place:
        home = os.path.join(place, "home")
        connection, naive = db.connect(home), sqlite3.connect(os.path.join(place, "naive.db"))
        connection.execute("insert into projects (id, path, name, remote, at) values (1, ?, 'kite', '', 0)", (PROJECT,))
        naive.execute("create virtual table said using fts5 (text, tokenize = 'porter unicode61')")
        have = 0
        for size in SIZES:
            inserting = grow(connection, naive, source, have, size)
            words, vectors, longest = indexed(connection, home)
            asked = questions(dice, source)
            took = compared(connection, home, naive, asked)
            figures[size] = {
                **{f"{name} p50": median(each) for name, each in took.items()},
                **{f"{name} p95": p95(each) for name, each in took.items()},
                "memory": memory(home, asked),
                "words": words / inserting,
                "vectors": vectors / inserting,
                "longest": longest,
                "rate": (size - have) / (words + vectors),
            }
            have = size
            said = figures[size]
            print(
                f"{size:>9,}  ours p50 {said['ours p50']:6.1f} p95 {said['ours p95']:6.1f} ms   naive p50"
                f" {said['naive p50']:6.1f} p95 {said['naive p95']:7.1f} ms   ratio of p95"
                f" {said['ours p95'] / said['naive p95']:.2f}   memory {said['memory']:.0f} MB\n{'':11}indexing: words"
                f" {words / inserting:.1f} x, vectors {vectors / inserting:.1f} x inserting the rows;"
                f" {said['rate']:.0f} rows a second; longest transaction {longest:.0f} ms",
                flush=True,
            )
    return judged(figures)


def judged(figures: dict[int, dict[str, float]]) -> int:
    hundred, million = figures[100_000], figures.get(1_000_000)
    missed = {
        "half of the naive query at 100k": hundred["ours p95"] > MOST_OF_NAIVE * hundred["naive p95"],
        "growth to 1M": bool(million) and million["ours p95"] > MOST_GROWTH * hundred["ours p95"],  # type: ignore[index]
        **{f"memory at {size}": figures[size]["memory"] > most for size, most in MEGABYTES.items() if size in figures},
    }
    shown = {str(size): {name: round(value, 2) for name, value in each.items()} for size, each in figures.items()}
    print(json.dumps({**shown, "missed": [name for name, wrong in missed.items() if wrong]}))
    return int(any(missed.values()))


if __name__ == "__main__":
    sys.exit(main())
