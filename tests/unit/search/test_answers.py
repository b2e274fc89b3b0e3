"""A question is answered by the last words of its turn, with the passage that matches, or not at all."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from hardwon.search import query_scope, vectors
from hardwon.search.passages import Topic, find_passage
from hardwon.search.recalled_text import format_hits
from hardwon.search.words import cut_excerpt, find_marks, list_names, match_text, split_query
from hardwon.store import db, events
from tests.support.library import DAY, KITE, NOW, Library

TUESDAY = datetime(2026, 11, 17, 19, 0).timestamp()


def store_event(
    library: Library, text: str, number: int, *, kind: str = "Stop", session: str = "s1", **fields: Any
) -> str:
    """Store an agent's last words, or a call."""
    with db.transaction(library.connection):
        project = events.find_or_create_project(library.connection, KITE, "", NOW)
        report = events.Report(
            f"{session} e{number}",
            "claude-code",
            session,
            kind,
            NOW - 5 * DAY + number,
            KITE,
            project,
            response=text,
            **fields,
        )
        events.store_report(library.connection, report)
    (event_id,) = library.connection.execute("select max(id) from events").fetchone()
    return f"E{event_id}"


def test_last_words_rank_before_their_prompt_and_before_calls(library: Library) -> None:
    prompt = library.prompt("why does the anemometer hang?")
    call = store_event(
        library, "anemometer hang", 1, kind="tool", tool="Bash", input='{"command": "grep anemometer hang"}'
    )
    answer = store_event(library, "The anemometer hangs because port 4000 is taken by the old worker.", 2)
    assert library.ids("why does the anemometer hang")[0] == answer
    assert set(library.ids("why does the anemometer hang")) <= {answer, prompt, call}


def test_last_words_are_shown_with_the_prompt_that_they_answer(library: Library) -> None:
    library.prompt("can you look into the wind sensor?")
    answer = store_event(library, "The anemometer hangs because port 4000 is taken by the old worker.", 2)
    hits = library.find("why does the anemometer hang on port 4000").hits
    assert [(hit.id, hit.asked) for hit in hits[:1]] == [(answer, "can you look into the wind sensor?")]


def test_a_short_prompt_is_not_repeated_after_its_answer_and_a_long_one_is(library: Library) -> None:
    library.prompt("why does the anemometer hang?", session="a")
    answer = store_event(library, "The anemometer hangs because port 4000 is taken by the old worker.", 2, session="a")
    assert library.ids("why does the anemometer hang") == [answer]
    log = library.prompt(f"the anemometer hangs: {'timeout on port 4000 ' * 10}", session="b")
    assert log in library.ids("why does the anemometer hang")


def test_a_query_that_is_only_a_name_gives_the_records_that_have_it(library: Library) -> None:
    plan = store_event(library, "Use `--plan-only` to see the bootstrap plan before anything is pushed.", 1)
    parts = store_event(library, "The only plan that is left is to push the bootstrap at night.", 2, session="b")
    assert library.ids("--plan-only") == [plan]
    assert set(library.ids("is a plan the only thing left")) == {plan, parts}
    assert parts in library.ids("planOnly")  # no record has it as written, so its parts are looked for


def test_a_named_file_lifts_but_does_not_swamp(library: Library) -> None:
    for number in range(40):
        library.observe(f"renamed helper {number}", files=("src/pool.py",), session=f"s{number}")
    answer = store_event(
        library, "The pool in src/pool.py leaks because close() is skipped after a timeout.", 50, session="b"
    )
    assert library.ids("why does src/pool.py leak after a timeout")[0] == answer


def test_a_query_that_no_record_covers_is_not_answered(library: Library) -> None:
    store_event(library, "The evaluation jobs are kept in a list in memory, first in, first out.", 1)
    assert library.ids("in which order are the evaluation jobs kept") != []
    assert library.ids("did we move the evaluation jobs to a Redis cluster with Sentinel") == []


def test_a_name_that_no_record_has_is_not_answered_by_the_words_around_it(library: Library) -> None:
    answer = store_event(library, "Packfiles are streaming straight from the source on github.com to the target.", 1)
    assert library.ids("how are packfiles streaming") == [answer]
    assert library.ids("how are packfiles streaming from GitHub") == [answer]
    assert library.ids("did we try Kafka for streaming packfiles") == []
    # The parts of a name do not make the name.
    assert library.ids("which streaming source and target are slow") == [answer]
    assert library.ids("which streamingSource and target are slow") == []


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Did we try Kafka? Why not on CPU 4?", ["Kafka", "CPU"]),
        ("why is getUser slower than user_id and argon2", ["getUser", "user_id", "argon2"]),
        ("GetGitCommonDir lives where", ["GetGitCommonDir"]),
        ("Why Did The Build Fail", []),  # a heading
        ("what I did", []),
    ],
)
def test_names_are_words_with_capitals_digits_or_underscores(query: str, names: list[str]) -> None:
    assert list_names(query) == names


def test_the_excerpt_is_the_passage_with_the_words_marked() -> None:
    text = (
        "Some token. " + "Nothing of interest here. " * 40 + "The token refresh raced with the logout. " + "More. " * 90
    )
    words = split_query("token refresh logout")
    excerpt = cut_excerpt(text, find_passage(text, Topic(tuple(words), {}), 220), 220)
    assert excerpt.startswith("…The token refresh raced with the logout.") and len(excerpt) <= 222
    assert [excerpt[start:end] for start, end in find_marks(excerpt, words)] == ["token refresh", "logout"]


def test_of_passages_with_as_many_words_the_one_nearest_in_meaning_is_shown() -> None:
    filler = "Some other line about nothing in particular.\n" * 12
    text = (
        f"The kite exporter was renamed.\n{filler}The kite exporter crashed because its memory was exhausted.\n{filler}"
    )
    query = "why did the kite exporter run out of memory"
    model = vectors.load_model()
    topic = Topic(("kite", "exporter"), {}, model, model.embed([query])[0])
    assert text[find_passage(text, topic, 220) :].startswith("The kite exporter crashed")
    assert find_passage(text, Topic(("kite", "exporter"), {}), 220) == 0, "without a model the first is shown"
    assert find_passage(text, Topic(("harbour",), {}, model, topic.vector), 220) == 0


def test_an_excerpt_has_whole_lines_without_markup() -> None:
    text = "## Fix\n\n**Use** [run.py](/home/dev/run.py:3):\n\n```sh\nmake up\n```\n"
    assert cut_excerpt(text, 0, 300) == "Fix\nUse run.py:\nmake up"
    linked = "Some words. " * 40 + "See [policy.py](/home/dev/a/very/long/path/to/the/place/policy.py:19), line 19."
    position = linked.index(", line")
    assert cut_excerpt(f"{linked}{' More.' * 90}", position, 300).startswith("…See policy.py, line 19. More. More.")
    assert cut_excerpt(linked, position, 300) == f"…{'Some words. ' * 18}See policy.py, line 19."
    assert [text[start:end] for text in ["getToken and TOKEN_x"] for start, end in find_marks(text, ["token"])] == [
        "getToken",
        "TOKEN_x",
    ]
    steps = "\n".join(f"{number}. step" for number in range(90))
    assert cut_excerpt(steps, 0, 300).count("\n") == 7 and cut_excerpt(steps, 0, 300).endswith("7. step…")
    assert cut_excerpt("glob('**/kites/**/*.md')\n# of the south", 0, 300, is_markdown=False).startswith(
        "glob('**/kites/**/*.md')\n#"
    )
    assert cut_excerpt("Some words. " * 40, 400, 300) == ("Some words. " * 40).strip(), "a short text is shown whole"
    assert match_text("goal", "", {"go": 1.0}).score == 0.0


@pytest.mark.parametrize(
    ("query", "remaining", "days"),
    [
        ("what broke yesterday?", "what broke ?", "on 2026-11-16 (yesterday)"),
        ("deploys last week", "deploys", "from 2026-11-09 until 2026-11-15 (last week)"),
        ("the bump in April", "the bump", "from 2026-04-01 until 2026-04-30 (in April)"),
        ("the bump in December", "the bump", "from 2025-12-01 until 2025-12-31 (in December)"),
        ("move in the week of 11 May", "move", "from 2026-05-11 until 2026-05-17 (in the week of 11 May)"),
        ("builds since Monday", "builds", "from 2026-11-16 (since Monday)"),
        ("builds before October 2025", "builds", "until 2025-09-30 (before October 2025)"),
    ],
)
def test_words_that_name_a_time_are_a_period(query: str, remaining: str, days: str) -> None:
    undated, period = query_scope.extract_period(query, TUESDAY)
    assert period is not None and (undated, period.describe()) == (remaining, days)


@pytest.mark.parametrize("query", ["may we march on", "release 2026-05-11.md", "src/2025/report", "on Feb 30 it broke"])
def test_words_that_only_look_like_a_time_stay_in_the_query(query: str) -> None:
    assert query_scope.extract_period(query, TUESDAY) == (query, None)


def test_an_excerpt_at_the_end_begins_with_the_sentences_before_it() -> None:
    text = (
        "It was red. " * 50
        + "The kite was blue, and it is green now. "
        + "This is since the last change of the wind sensor."
    )
    excerpt = cut_excerpt(text, text.index("wind sensor"), 300)
    assert "The kite was blue, and it is green now. This is since" in excerpt
    assert excerpt.startswith("…It was red.") and excerpt.endswith("wind sensor.") and len(excerpt) <= 301


def test_an_excerpt_has_no_colours_of_a_terminal_and_does_not_end_with_the_marker_of_a_list() -> None:
    assert cut_excerpt("\x1b[1;31merror\x1b[0m: port 4000\n^[[32mok^[[0m", 0, 300) == "error: port 4000\nok"
    steps = "".join(f"\n{number}. {'wind ' * 18}" for number in range(1, 20))
    last_line = cut_excerpt(f"Steps:{steps}", 0, 300).split("\n")[-1]
    assert last_line.endswith("wind…")


def test_a_call_is_shown_without_repeating_its_command(library: Library) -> None:
    run = store_event(
        library,
        "anemometer: 1 failed",
        1,
        kind="tool",
        tool="Bash",
        outcome="failed",
        input='{"command": "make anemometer"}',
    )
    edit = store_event(
        library,
        "updated",
        2,
        kind="tool",
        tool="Edit",
        input=f'{{"file_path": "{KITE}/src/vane.py", "content": "vane = 1"}}',
    )
    search = store_event(library, "", 3, kind="tool", tool="Grep", input='{"content": "barometer"}')
    empty = store_event(library, "thermometer list", 4, kind="tool", tool="TaskList", input="{}")
    shown = {
        hit.id: (hit.title, hit.text)
        for word in ("anemometer", "vane", "barometer", "thermometer")
        for hit in library.find(word).hits
    }
    assert shown == {
        run: ("Bash (failed): make anemometer", "anemometer: 1 failed"),
        edit: ("Edit: src/vane.py", "vane = 1\nupdated"),
        search: ("Grep: barometer", "barometer"),
        empty: ("TaskList", "thermometer list"),
    }


def test_a_call_with_all_words_ranks_before_answers_that_are_only_near(library: Library) -> None:
    model = vectors.load_model()
    for number in range(12):
        store_event(library, f"The sensors of mast {number} are installed, and all measurements pass.", number)
    call = store_event(
        library, "", 20, kind="tool", tool="Bash", session="b", input='{"command": "calibrate --anemometer --offset 3"}'
    )
    library.refresh(model)
    assert library.ids("command to calibrate the anemometer offset", model=model)[0] == call


def test_a_record_of_a_session_that_matches_ranks_before_an_equal_one_elsewhere(library: Library) -> None:
    answer = store_event(library, "The vane was bent, so it was replaced.", 1, session="a")
    elsewhere = store_event(library, "The vane was bent, so it was cleaned.", 2, session="b")
    assert library.ids("was the vane bent") == [elsewhere, answer]  # the newer one first
    store_event(library, "The storm of the north mast tore the cable.", 3, session="a")
    assert library.ids("vane bent storm north mast")[1:3] == [answer, elsewhere]


def test_words_that_no_record_has_are_named(library: Library) -> None:
    store_event(library, "The anemometer streams its measurements over port 4000.", 1)
    result = library.find("did we try Kafka for the barometer")
    assert not result.hits and result.unmatched == ("Kafka", "barometer")
    assert library.find("anemometer measurements").unmatched == ()


def test_a_word_that_stands_often_is_no_evidence_of_the_other_words(library: Library) -> None:
    for number in range(20):
        store_event(library, f"The mast {number} was painted.", number)
    store_event(library, "The anemometer, the old anemometer and the new anemometer: anemometer logs. " * 9, 21)
    for limit in (4, 40):
        assert not library.find("is the anemometer on bluetooth", limit=limit).hits
        assert library.find("where are the anemometer logs", limit=limit).hits


@pytest.mark.parametrize(
    ("query", "period"),
    [("why was it flaky in february", "in february"), ("what did we do on monday", "on monday")],
)
def test_months_and_weekdays_in_lower_case_are_times(query: str, period: str) -> None:
    _, extracted = query_scope.extract_period(query, NOW)
    assert extracted and extracted.words == period


@pytest.mark.parametrize("query", ["march through the list", "in may we trust", "the april branch", "dec to hex"])
def test_words_that_may_be_something_else_are_no_times(query: str) -> None:
    assert query_scope.extract_period(query, NOW) == (query, None)


def test_an_agent_gets_no_title_that_the_excerpt_begins_with(library: Library) -> None:
    store_event(
        library, "2 passed", 1, kind="tool", tool="Bash", input='{"command": "make anemometer-test"}', outcome="failed"
    )
    (line, *excerpt) = format_hits(library.find("anemometer").hits).splitlines()
    assert line.split("  ")[3:5] == ["Bash (failed)", "make anemometer-test"]
    assert [text.strip() for text in excerpt] == ["2 passed"]
