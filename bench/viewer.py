"""Measure what a page of the viewer costs with a full store next to an empty one: `make bench-viewer`.

Two workers serve, one of an empty home and one of a home with 100,000 observations and as many events. A real Chromium
opens every page of both in turns, and what counts is the ratio of the times to the first paint, with the browser's own
work in them; without a Chromium it is that of the answers. The best first paint of each page must be below 200 ms;
other work on the machine only adds to it. Search is asked for words as frequent as words are; its page is painted
before its results are there, so the time to the whole page is printed too.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from statistics import median
from urllib.parse import urlencode, urlsplit

import httpx
from playwright.sync_api import Page, sync_playwright
from search import COLUMNS, generate_texts

from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import add_lesson
from hardwon.search import indexing
from hardwon.store import db, events, memories, reflections
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.reflections import Reflection
from hardwon.types import Delivery, Memory

SIZE = int(os.environ.get("SIZE", "100000"))
BLOCK, DAY = 5_000, 86_400.0
RECORDS = 500  # memories, and handoffs
PER_SESSION = 20  # observations and events of a session
ROUNDS = 9
MOST = 3.0  # times an empty page
MOST_MS = 200.0  # the best first paint of a page
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-proxy-server", "--disable-background-networking"]
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
PAGES = (
    "/",
    "/sessions",
    "/sessions?status=completed&host=claude-code",
    "/lessons",
    "/review",
    "/memory",
    "/handoffs",
    "/insights",
    "/settings",
)
SESSION = (
    "id, host, session, project, cwd, transcript, first_prompt, prompts, status, reason, started_at, opened_at,"
    " last_at, to_fill"
)
EVENT = (
    "key, session, kind, at, prompt, agent, tool, tool_use_id, input, response, outcome, signature, duration, origin"
)
LESSON = {
    "summary": "make needs its targets built in order",
    "problem": "make fails when a target is asked for before what it needs",
    "solution": "ask for make all first, then for the target",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": ["^make a"]},
}
Ask = Callable[[str], float]


def fill_home(home: str) -> list[str]:
    """Store a lesson and 60 days of sessions with observations, events (every tenth failed) and deliveries.

    Return some questions.
    """
    connection, dice, now = db.connect(home), random.Random(3), time.time()
    lesson = add_lesson(open_decider(home, connection, COMMAND_LINE), LESSON)
    source = generate_texts(dice)
    with db.transaction(connection):
        insert_rows(
            connection, "projects", "path, name, remote, at", [(f"/home/dev/p{n}", f"p{n}", "", now) for n in range(20)]
        )
    for first in range(0, SIZE, BLOCK):
        block = list(enumerate(islice(source, min(BLOCK, SIZE - first)), first))
        numbers = sorted({position // PER_SESSION + 1 for position, _ in block})
        starts = {number: now - 60 * DAY * (1 - number * PER_SESSION / SIZE) - 3600 for number in numbers}
        with db.transaction(connection):
            insert_rows(
                connection, "sessions", SESSION, [build_session_row(number, starts[number]) for number in numbers]
            )
            insert_rows(connection, "observations", COLUMNS, [build_observation_row(*item, starts) for item in block])
            insert_rows(connection, "events", EVENT, [build_event_row(*item, starts) for item in block])
        lesson_fields = (lesson.id, lesson.slug, lesson.summary, lesson.delivery)
        deliveries = [
            (f"d{n}", starts[n], "claude-code", f"s{n}", "", "PreToolUse", "Bash", *lesson_fields) for n in numbers
        ]
        events.insert_deliveries(connection, [Delivery(*item) for item in deliveries])
    insert_memories_and_handoffs(connection, now)
    indexing.refresh_index(connection, home, model=indexing.load_model_or_none(), should_continue=lambda: True)
    connection.close()
    return [" ".join(dice.sample(text.split(), 3)) for _, text in islice(source, ROUNDS)]


def insert_memories_and_handoffs(connection: db.Connection, now: float) -> None:
    """Store as many memories and handoffs as a year of work may leave."""
    for number in range(RECORDS):
        project, key = f"/home/dev/p{number % 20}", f"k{number}"
        statement = f"what to know of thing {number} in this project"
        memories.insert_memory(
            connection, Memory(0, key, "project", statement, project, "", "active", "person", (), "", now, now)
        )
        reflections.insert(
            connection, Reflection(0, key, "claude-code", f"s{number}", project, now, "plain", topic=statement)
        )


def insert_rows(connection: db.Connection, table: str, columns: str, rows: list[tuple[object, ...]]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f"insert into {table} ({columns}) values ({marks})", rows)


def build_session_row(number: int, at: float) -> tuple[object, ...]:
    first_prompt = f"what was asked in session {number}"
    return (
        number,
        "claude-code",
        f"s{number}",
        number % 20 + 1,
        "",
        "",
        first_prompt,
        1,
        "completed",
        "",
        at,
        at,
        at + 600,
        0,
    )


def build_observation_row(position: int, texts: tuple[str, str], starts: dict[int, float]) -> tuple[object, ...]:
    number, at = compute_time(position, starts)
    return (f"o{position}", number, at, 1, "discovery", texts[0], "", texts[1], *["[]"] * 5, 900, 1, "plain")


def build_event_row(position: int, texts: tuple[str, str], starts: dict[int, float]) -> tuple[object, ...]:
    number, at = compute_time(position, starts)
    outcome, signature = (
        ("failed", f"make code {texts[0].split()[position % 3]}") if position % 10 == 0 else ("fine", "")
    )
    tool_input = json.dumps({"command": f"make {texts[0][:40]}"})
    call = (1, "", "Bash", f"t{position}", tool_input, texts[1] * 4)
    return (f"e{position}", number, "tool", at, *call, outcome, signature, 5.0, "hook")


def compute_time(position: int, starts: dict[int, float]) -> tuple[int, float]:
    number = position // PER_SESSION + 1
    return number, starts[number] + position % PER_SESSION * 20 + 1


def run_hardwon(home: str, *words: str) -> str:
    environment = {**os.environ, "HARDWON_HOME": home}
    run = subprocess.run(
        [sys.executable, "-m", "hardwon", *words], env=environment, check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


@contextmanager
def open_pages(links: list[str]) -> Iterator[list[Ask]]:
    """Yield for each link a function that returns the milliseconds to a painted page; to an answer without Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        print("there is no Chromium here: these are times of answers")
        yield [ask_over_http(link) for link in links]
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        asks: list[Ask] = []
        for link in links:
            page = browser.new_context().new_page()
            page.goto(link)

            asks.append(partial(measure_first_paint, page, link.partition("/open")[0]))
        yield asks
        browser.close()


def measure_first_paint(page: Page, origin: str, path: str) -> float:
    page.goto(origin + path)
    return float(page.wait_for_function(PAINTED).json_value())


def measure_full_load(ask: Ask, path: str) -> float:
    """Return the milliseconds until a page is complete, as the browser's driver sees it."""
    began = time.perf_counter()
    ask(path)
    return (time.perf_counter() - began) * 1000


def ask_over_http(link: str) -> Ask:
    parts = urlsplit(link)
    client = httpx.Client(base_url=f"http://127.0.0.1:{parts.port}", headers={"host": parts.netloc}, trust_env=False)
    answer = client.get(f"{parts.path}?{parts.query}")
    client.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]

    def ask(path: str) -> float:
        began = time.perf_counter()
        client.get(path).raise_for_status()
        return (time.perf_counter() - began) * 1000

    return ask


def main() -> int:
    ratios: dict[str, float] = {}
    paints: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        os.environ["HOME"] = folder
        empty, full = os.path.join(folder, "empty"), os.path.join(folder, "full")
        os.makedirs(full, mode=0o700)
        began = time.perf_counter()
        questions = fill_home(full)
        print(f"{SIZE:,} observations and events, indexed, in {time.perf_counter() - began:.0f} s")
        try:
            for home in (empty, full):
                run_hardwon(home, "config", "set", "apiPort", "0")
                run_hardwon(home, "start")
            with open_pages([run_hardwon(home, "view", "--print") for home in (empty, full)]) as (bare, loaded):
                last = SIZE // PER_SESSION
                deep = f"/sessions?before={time.time() - 30 * 86_400:.6f}-1"
                for path in (*PAGES, deep, f"/sessions/{last}"):
                    ratios[path], paints[path] = compare_pages(path, bare, loaded, [path] * ROUNDS)
                search_paths = ["/search?" + urlencode({"q": question}) for question in questions]
                ratios["/search?q=…"], paints["/search?q=…"] = compare_pages("/search?q=…", bare, loaded, search_paths)
                load_times = sorted(measure_full_load(loaded, path) for path in search_paths)
                print(
                    f"{'/search?q=…, with its results':50} {median(load_times):7.1f} ms (best {load_times[0]:.1f} ms)"
                )
        finally:
            for home in (empty, full):
                run_hardwon(home, "stop")
    slow = [path for path, ratio in ratios.items() if ratio > MOST]
    if slow:
        print(f"more than {MOST} x an empty page: {', '.join(slow)}")
    late = [path for path, milliseconds in paints.items() if milliseconds > MOST_MS]
    if late:
        print(f"first painted after more than {MOST_MS:.0f} ms: {', '.join(late)}")
    print(json.dumps({"size": SIZE, "ratios": ratios, "bestFirstPaintMs": paints}))
    return bool(slow or late)


def compare_pages(name: str, bare: Ask, loaded: Ask, paths: list[str]) -> tuple[float, float]:
    """Compare a page of the full home with the first page of the empty one, in turns; the first of each is a warm-up.

    The median of the ratios of each turn counts: both of a turn meet the machine as it is just then. The ratio of the
    best of each is printed beside it. Returns the ratio, and the best time in milliseconds.
    """
    loaded(paths[0])
    bare("/")
    pairs = [(loaded(path), bare("/")) for path in paths]
    ratio, best_ms = median(a / b for a, b in pairs), min(a for a, _ in pairs)
    best = best_ms / min(b for _, b in pairs)
    print(
        f"{name:50} {median(a for a, _ in pairs):7.1f} ms   {ratio:5.2f} x an empty page   (best {best:5.2f} x)",
        flush=True,
    )
    return round(ratio, 2), round(best_ms)


if __name__ == "__main__":
    sys.exit(main())
