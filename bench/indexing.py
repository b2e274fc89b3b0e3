"""How long until an imported history is found: `make bench-indexing`.

Imports the transcripts of `../shared/corpus` or CORPUS= while a worker runs, restarts the worker when half of the
records that the import queued are indexed, and waits until every session is distilled and every record has its words
and its vector. All of it are the product's own processes. It fails when that takes longer than three minutes, or when
the index is not complete.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from hardwon.store import db, jobs
from hardwon.store.documents import count_backlog

MAX_SECONDS = 180.0
POLL_SECONDS = 0.05
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "corpus")
# What says something must have a document, and every document but a tool call's a vector. Short texts such as "Done."
# have no word that is indexed.
UNINDEXED = {
    "prompts": "select count(*) from prompts where length(prompt) > 40 and not exists "
    "(select 1 from documents where kind = 'P' and row = prompts.id)",
    "last words": "select count(*) from events where kind = 'Stop' and length(response) > 40 and not exists "
    "(select 1 from documents where kind = 'E' and row = events.id)",
    "vectors": "select count(*) from documents left join events on documents.kind = 'E' and events.id = documents.row "
    "where coalesce(events.kind, '') != 'tool' and not exists (select 1 from vectors where document = documents.id)",
}


def run_hardwon(home: str, *arguments: str) -> None:
    environment = {**os.environ, "HARDWON_HOME": home, "HOME": os.path.join(home, "user")}
    subprocess.run(
        [sys.executable, "-m", "hardwon", *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
    )


def is_complete(connection: db.Connection) -> bool:
    states = jobs.count_by_state(connection)
    return not any(count_backlog(connection)) and not states["waiting"] and not states["running"]


def measure(home: str, corpus: str) -> dict[str, float]:
    began = time.monotonic()
    run_hardwon(home, "import", "transcripts", "--path", corpus)
    imported = time.monotonic() - began
    restarts = 0
    with db.open(home) as connection:
        queued = sum(count_backlog(connection))
        while time.monotonic() - began < MAX_SECONDS and not (restarts and is_complete(connection)):
            indexed = connection.execute("select count(*) from documents").fetchone()[0]
            if not restarts and indexed > queued / 2:
                run_hardwon(home, "restart")
                restarts += 1
            time.sleep(POLL_SECONDS)
        counts = {
            table: connection.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("sessions", "documents", "vectors")
        }
        unindexed = {f"{name} missing": connection.execute(query).fetchone()[0] for name, query in UNINDEXED.items()}
    return {
        "import_seconds": imported,
        "seconds": time.monotonic() - began,
        "restarts": restarts,
        **counts,
        **unindexed,
    }


def main() -> int:
    corpus = os.path.abspath(os.environ.get("CORPUS") or CORPUS)
    if not os.path.isdir(corpus):
        print(f"no transcripts at {corpus}: nothing is measured")
        return 0
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        run_hardwon(home, "start")
        try:
            figures = measure(home, corpus)
        finally:
            run_hardwon(home, "stop")
    print(
        f"{figures['sessions']:,} sessions imported in {figures['import_seconds']:.0f} s; {figures['documents']:,} "
        f"records indexed in {figures['seconds']:.0f} s, through a restart; {figures['vectors']:,} have a vector"
    )
    missed = [name for name in figures if name.endswith(" missing") and figures[name]]
    if figures["seconds"] >= MAX_SECONDS or not figures["restarts"]:
        missed.append("three minutes with one restart")
    print(json.dumps({**{name: round(value, 1) for name, value in figures.items()}, "missed": missed}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
