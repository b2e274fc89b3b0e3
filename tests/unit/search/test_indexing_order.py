"""Prompts and answers are indexed before calls, newest first, within any limit."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hardwon.search import indexing, vectors
from hardwon.store import db, documents, events
from tests.support.library import KITE, NOW, Library


def store_event(library: Library, number: int, kind: str, **fields: Any) -> None:
    """Store the event of this number, a minute after the previous one."""
    at = NOW + 60.0 * number
    with db.transaction(library.connection):
        project = events.find_or_create_project(library.connection, KITE, "", NOW)
        identity: dict[str, Any] = {"key": f"{kind} {number}", "host": "claude-code", "session": "s1", "kind": kind}
        events.store_report(library.connection, events.Report(**identity, at=at, cwd=KITE, project=project, **fields))


def fill_session(library: Library, turns: int) -> None:
    for number in range(turns):
        store_event(library, 4 * number, "UserPromptSubmit", prompt=f"question {number} about the keel")
        store_event(library, 4 * number + 1, "tool", tool="Bash", input='{"command": "ls keel"}', response="keel")
        store_event(library, 4 * number + 2, "tool", tool="Bash", input='{"command": "ls mast"}', response="mast")
        store_event(library, 4 * number + 3, "Stop", response=f"answer {number} about the keel")


def list_indexed(library: Library) -> list[tuple[str, float]]:
    rows = library.connection.execute("select kind, at from documents where kind != 'L'").fetchall()
    return [(row["kind"], row["at"]) for row in rows]


def refresh_until(library: Library, count: int, model: vectors.Model | None = None) -> Counter[str]:
    """Refresh the index until so many documents and vectors are there."""

    def should_continue() -> bool:
        query = "select (select count(*) from documents where kind != 'L') + (select count(*) from vectors)"
        return bool(db.fetch_value(library.connection, query) < count)

    return indexing.refresh_index(library.connection, library.home, model=model, should_continue=should_continue)


def test_the_newest_prompts_and_last_words_are_indexed_before_any_call(library: Library) -> None:
    fill_session(library, 400)
    refresh_until(library, indexing.READ_BATCH_SIZE)
    indexed = list_indexed(library)
    newest_meaningful = {NOW + 60.0 * (4 * number + offset) for number in range(250, 400) for offset in (0, 3)}
    assert {at for _, at in indexed} == newest_meaningful
    refresh_until(library, indexing.READ_BATCH_SIZE + 800)
    calls = [at for kind, at in list_indexed(library) if kind == "E" and (at - NOW) / 60 % 4 in (1, 2)]
    assert len(list_indexed(library)) == 1100 and min(calls) == NOW + 60.0 * (4 * 250 + 1)


def test_prompts_and_last_words_get_vectors_before_calls_get_words(library: Library) -> None:
    fill_session(library, 40)
    counts = refresh_until(library, 100, vectors.load_model())
    assert (counts["documents"], counts["vectors"], counts["left"]) == (80, 80, 80)


def test_a_few_records_are_indexed_even_without_time(library: Library) -> None:
    fill_session(library, 3)
    counts = indexing.refresh_index(library.connection, library.home, model=None, should_continue=lambda: False)
    assert (counts["documents"], counts["left"]) == (6, 6)


def test_a_limit_reports_what_is_left_and_no_limit_leaves_nothing(library: Library) -> None:
    fill_session(library, 100)
    limited_counts = refresh_until(library, 1)
    assert limited_counts["documents"] == 200 and limited_counts["left"] == 200
    remaining_counts = indexing.refresh_index(
        library.connection, library.home, model=None, should_continue=lambda: True
    )
    assert remaining_counts["documents"] == 200 and "left" not in remaining_counts
    assert documents.count_backlog(library.connection)[0] == 0


def test_the_latest_is_found_first_although_it_was_indexed_first(library: Library) -> None:
    fill_session(library, 400)
    while refresh_until(library, 0)["left"]:
        pass
    numbers = library.connection.execute("select at from documents order by id desc").fetchall()
    times = [at for (at,) in numbers]
    assert times == sorted(times, reverse=True) and len(times) == 1600


def test_many_documents_of_one_instant_each_have_a_number(library: Library) -> None:
    ids = library.observe_many([f"keel {number}" for number in range(700)])
    library.connection.execute("update observations set at = ?", (NOW,))
    assert len(library.ids("keel", limit=1000)) == len(ids)
