"""A person searches for recorded work at a terminal."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from rich.cells import cell_len
from starlette.testclient import TestClient

from hardwon.store import db
from hardwon.web.api import ApiContext, create_api_app
from hardwon.web.live import LiveFeed
from hardwon.worker.hook_responder import HookResponder
from tests.support.distilled_store import DAY, NOON, DistilledStore
from tests.support.house import GIT_STASH, House, prompt, used

WIDE = {"COLUMNS": "80", "TZ": "UTC"}


@pytest.fixture
def kite(house: House, tmp_path: Path) -> str:
    """The folder of a project with a few observations and a summary."""
    folder = tmp_path / "kite"
    folder.mkdir()
    store = DistilledStore(house.home, str(folder))
    first, second = store.add_session(name="first"), store.add_session(at=NOON + DAY, name="second")
    store.observe(first, "token refresh raced with logout", files=["src/auth/token.py"], type="bugfix")
    store.observe(first, "getUserById caches for a minute", at=NOON + 60, files=["src/users.py"])
    store.observe(second, "認証トークンの更新に失敗した " * 9, at=NOON + DAY, files=["src/auth/token.py"])
    store.observe(second, "a decision about queues " * 20, at=NOON + DAY + 60, type="decision")
    store.summarise(second, at=NOON + DAY + 90, request="mend the token refresh", completed="it is mended")
    store.close()
    return str(folder)


def test_hits_are_shown_best_first_with_their_passages_and_what_they_cost_to_read(house: House, kite: str) -> None:
    output = house.ok("search", "token", "refresh", cwd=kite, env=WIDE).out
    lines = output.splitlines()
    assert lines[0] == "2 results, best first. Read one in full: hardwon show ID"
    assert lines[2] == "O1 · bugfix · 2026-11-12 12:00 · ~19 tokens · src/auth/token.py"
    assert lines[3] == "  token refresh raced with logout" and lines[4].startswith("  ")
    assert output.index("O1 ·") < output.index("S1 ·") and "getUserById" not in output
    assert max(map(cell_len, lines)) <= 80


def test_every_table_fits_into_80_columns(house: House, kite: str) -> None:
    for words in (
        ("search", "decision", "queues"),
        ("search", "認証トークン"),
        ("timeline",),
        ("show", "O1", "O4", "S1"),
    ):
        output = house.ok(*words, cwd=kite, env=WIDE).out
        assert max(map(cell_len, output.splitlines())) <= 80, words


def test_a_search_stays_in_the_project_of_the_folder_unless_all_are_asked_for(
    house: House, kite: str, tmp_path: Path
) -> None:
    elsewhere = house.cli("search", "getUserById", cwd=str(tmp_path), env=WIDE)
    assert elsewhere.code == 1 and "nothing was found" in elsewhere.out
    assert "O2" in house.ok("search", "getUserById", "--all", cwd=str(tmp_path), env=WIDE).out
    for project in ("kite", "./kite", kite):
        assert "O2" in house.ok("search", "getUserById", "--project", project, cwd=str(tmp_path), env=WIDE).out


def test_a_search_without_results_says_so_and_fails(house: House, kite: str) -> None:
    for words, unmatched in (("zzzzqqq", "zzzzqqq"), ("redis token", "redis")):
        ran = house.cli("search", words, cwd=kite, env=WIDE)
        first_line, second_line = ran.out.splitlines()
        assert ran.code == 1 and "nothing was found" in first_line and second_line == f"no record has: {unmatched}"
    ran = house.cli("timeline", "--query", "zzzzqqq", cwd=kite, env=WIDE)
    assert (ran.code, len(ran.out.splitlines())) == (1, 1) and "nothing was found" in ran.out
    ran = house.cli("search", "zzzzqqq", "--json", cwd=kite)
    assert ran.code == 1 and ran.json() == {"hits": [], "note": "", "period": "", "unmatched": ["zzzzqqq"]}


def test_words_that_name_a_time_are_a_filter_and_shown_as_one(house: House, kite: str) -> None:
    output = house.ok("search", "token refresh on 2026-11-13", cwd=kite, env=WIDE).out
    assert output.startswith("1 result on 2026-11-13 (on 2026-11-13), best first.") and "O1" not in output
    output = house.ok("search", "token refresh in November 2026", "--json", cwd=kite, env=WIDE).json()
    assert output["period"] == "from 2026-11-01 until 2026-11-30 (in November 2026)"
    assert [hit["id"] for hit in output["hits"]] == ["O1", "S1"]
    other_period = house.ok("search", "token refresh in May 2024", cwd=kite, env=WIDE)
    assert "nothing matches from 2024-05-01 until 2024-05-31" in other_period.err and "O1" in other_period.out


def test_an_unknown_project_is_named(house: House, kite: str) -> None:
    for command in (("search", "token"), ("timeline",)):
        wrong = house.cli(*command, "--project", "nosuch", cwd=kite)
        assert (wrong.code, wrong.err.splitlines()[0]) == (1, "error: nothing is known of a project 'nosuch'")
        assert "--all" in wrong.err


def test_the_output_for_machines_has_reasons_and_readable_times(house: House, kite: str) -> None:
    result = house.ok("search", "user_by_id", "--json", "--limit", "1", cwd=kite).json()
    (hit,) = result["hits"]
    assert (hit["id"], hit["at"], hit["kind"]) == ("O2", "2026-11-12T12:01:00Z", "observation")
    assert hit["why"] and hit["files"] == ["src/users.py"] and hit["session"] == "first"


def test_a_flag_is_a_word_to_search_for(house: House, kite: str) -> None:
    output = house.ok("search", "--refresh", "token", cwd=kite, env=WIDE).out
    assert "O1 · bugfix" in output and "*token" not in output


def test_a_timeline_marks_what_it_lies_around(house: House, kite: str) -> None:
    output = house.ok("timeline", "--around", "O2", "--before", "1", "--after", "1", cwd=kite, env=WIDE).out
    assert [line.split()[0] for line in output.splitlines() if " discovery " in line or " bugfix " in line] == [
        "O1",
        "*",
        "O3",
    ]
    wrong = house.cli("timeline", "--around", "O99", cwd=kite)
    assert (wrong.code, wrong.err.splitlines()[0]) == (1, "error: there is no O99 in this project")


@pytest.mark.parametrize("ids", ["", ",", ",,"])
def test_to_show_nothing_is_an_error(house: House, kite: str, ids: str) -> None:
    refused = house.cli("show", ids, cwd=kite)
    assert refused.code == 1 and refused.err.startswith("error: no id was given\n  fix: ")


def test_records_are_shown_whole_and_what_is_missing_is_named(house: House, kite: str) -> None:
    ran = house.ok("show", "S1,O1", "O99", cwd=kite)
    assert "completed: it is mended" in ran.out and "raced with logout" in ran.out
    assert ran.err == "error: there is no O99\n  fix: hardwon search WORDS, or hardwon timeline\n"
    assert house.cli("show", "O99").code == 1


def test_what_an_agent_just_did_is_found_with_the_worker_up_or_down(house: House, tmp_path: Path) -> None:
    house.stay_cold()
    folder = os.path.realpath(tmp_path)
    house.ask("s1", prompt("why is the zeppelin late?", cwd=folder))
    house.ask("s1", used("Bash", {"command": "make zeppelin"}, {"stdout": "inflated"}, cwd=folder))
    result = house.ok("search", "zeppelin", "--json", cwd=folder).json()
    assert {hit["id"][0] for hit in result["hits"]} == {"P", "E"}


def test_lessons_are_found_from_any_folder(house: House, tmp_path: Path) -> None:
    house.add(GIT_STASH)
    (hit,) = house.ok("search", "untracked", "files", "--json", cwd=str(tmp_path)).json()["hits"]
    assert hit["id"].startswith("L:") and "git stash" in hit["title"]
    assert "git stash -u" in house.ok("show", hit["id"], cwd=str(tmp_path)).out


def test_a_program_is_told_what_is_wrong_with_its_question_or_with_the_store(house: House, kite: str) -> None:
    with closing(db.connect(house.home)) as connection:
        api = ApiContext(house.home, HookResponder(house.home, connection), LiveFeed())
        with closing(api.connection), TestClient(create_api_app(api)) as client:

            def search(**query: str) -> tuple[int, str]:
                answer = client.get("/api/search", params={"project": kite, **query})
                return answer.status_code, answer.json().get("error", "")

            assert search(kind="foo") == search(kind="foo", query="token") == (400, "there is no kind 'foo'")
            assert search(project="a\0b", query="token") == (400, "a project's name or path has no NUL character")
            assert search(query="token") == (200, "")
            connection.execute("drop table documents")
            assert search(query="token") == (503, "the database: no such table: documents")


def test_nothing_to_look_for_and_no_date_are_said(house: House) -> None:
    assert house.cli("search").err.startswith("error: there is nothing to search for")
    assert house.cli("search", "x", "--since", "soon").err.startswith("error: 'soon' is not a date")
