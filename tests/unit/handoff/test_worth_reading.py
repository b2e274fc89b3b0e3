"""What a person would skip when they read a draft is not in it: noise, doubles, paths of one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardwon.distil.summaries import summarise_session
from hardwon.handoff import findings, reflection, transcript_story
from hardwon.handoff.draft import Draft, build_draft, drop_known_memories, render_draft, select_findings
from hardwon.handoff.findings import detect_findings
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflection_types import EMPTY_CONTEXT, Evidence, Finding, SuggestedMemory
from tests.support.written import Transcript, launch


def read(told: Transcript, folder: Path) -> Story:
    return transcript_story.read_story(told.write(folder))


def drafted(told: Transcript, folder: Path) -> Draft:
    one = read(told, folder)
    return build_draft(one, detect_findings(one, EMPTY_CONTEXT))


@pytest.mark.parametrize("little", ["8", "let's do 1", "commit/push", "option B", "yes, that one please"])
def test_a_nod_or_a_choice_is_no_request(tmp_path: Path, little: str) -> None:
    told = launch()
    told.person(little)
    told.agent("Done.")
    made = drafted(told, tmp_path)
    said = " ".join(one.text for one in (*made.summary, *made.resume))
    assert f"“{little}”" not in said and "Last: “The launch test fails" in said


def test_a_choice_that_was_under_way_is_told_by_what_the_agent_was_at(tmp_path: Path) -> None:
    told = launch()
    told.person("2")
    told.agent("The tail gets the longer ribbon first.")
    told.edit("src/kite/tail.py", "1", "2")
    assert drafted(told, tmp_path).open_ends[0].text == (
        "Under way when the session ended: “The tail gets the longer ribbon first.”"
    )


def test_the_topic_is_what_was_asked_and_no_address(tmp_path: Path) -> None:
    told = Transcript()
    told.person("https://github.com/kite/kite/issues/7 this issue says that the tail is too short for storms")
    told.agent("It is.")
    assert drafted(told, tmp_path).topic == "this issue says that the tail is too short for storms"


@pytest.mark.parametrize(
    "said",
    [
        "The todo count is right: the tail todo is already in `done/`.",
        "Still needs a cast for the old compiler, but now passes the ribbon itself.",
        "Todo: “we would like to” → “we want to”.",
    ],
)
def test_what_is_done_is_no_open_end(tmp_path: Path, said: str) -> None:
    told = Transcript()
    told.person("Look through the comments on the tail of the kite.")
    told.edit("src/kite/tail.py", "1", "2")
    told.agent(f"All comments are answered. {said}")
    assert drafted(told, tmp_path).open_ends == ()


def test_what_comes_next_is_not_announced_twice(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Make the tail of the kite longer.")
    told.edit("src/kite/tail.py", "1", "2")
    told.agent("The tail is longer.\n\nNext: change the landing, which still cuts it.")
    one = read(told, tmp_path)
    assert (
        summarise_session(transcript_story.build_turns(one), ()).next_steps
        == "change the landing, which still cuts it."
    )
    assert [one.text for one in build_draft(one).open_ends] == ["change the landing, which still cuts it."]


def test_a_script_typed_for_the_moment_ruled_nothing_out(tmp_path: Path) -> None:
    told = launch()
    told.person("How long is the file of strings?")
    told.bash('python3 -c "import kite; kite.size()"', "AttributeError: no size", code=1)
    told.bash('python3 -c "import kite; print(kite.length())"', "40")
    told.agent("It has 40 lines.")
    assert not any("-c" in one.text for one in drafted(told, tmp_path).failed)


def test_a_finding_is_told_once_on_the_page(tmp_path: Path) -> None:
    told = launch()
    told.person("Let's leave the landing for now, we'll do the landing in another session later.")
    told.agent("Fine.")
    made = drafted(told, tmp_path)
    text = next(one.text for one in made.findings if one.item == "not done")
    before, _, after = render_draft(made).partition("## Resume Prompt")
    assert (
        before.count(text) == 1 and "- **not done** → workstream: see Open ends (L" in after.partition("## Findings")[2]
    )


def test_what_was_put_off_and_then_done_is_not_put_off(tmp_path: Path) -> None:
    told = launch()
    told.person("Could we part the tower? Fine to do it later too.")
    told.agent("1. Part it now. 2. Later.")
    told.person("let's do 1")
    told.agent("It is parted.")
    assert list(findings.detect_postponed_work(read(told, tmp_path), EMPTY_CONTEXT)) == []


def test_a_memory_that_stands_within_another_is_one() -> None:
    short = "we renamed the repo from kite to glider"
    said = [short, f"ok, one more: {short}, so go through the names and mend whatever is wrong there"]
    assert [one.text for one in drop_known_memories([SuggestedMemory("project", text, ()) for text in said], [])] == [
        short
    ]


def test_no_folder_of_one_person_stands_in_the_page(tmp_path: Path) -> None:
    told = Transcript("/home/dev/kite")
    told.person("Why can /home/dev/kite/src/tail.py not open /home/dev/.cache/kite/strings?")
    told.agent("Because /{}/ada/strings is not there.".format("Users"))
    page = render_draft(drafted(told, tmp_path)).partition("transcript:")[2].partition("\n")[2]
    assert "/home/" not in page and "/Users/" not in page and "can src/tail.py not open …/.cache" in page


def test_an_item_that_people_always_drop_is_not_shown_and_one_that_they_keep_comes_first() -> None:
    found = [
        Finding(item, f"{item} was seen", 0.7, "learning", (Evidence("/t", 1, "words"),))
        for item in ("tone", "outcome")
    ]
    shown = select_findings(reflection.weigh_findings(found, {"tone": (0, 20), "outcome": (9, 0)}))
    assert [one.item for one in shown] == ["outcome"]
    assert [one.item for one in select_findings(reflection.weigh_findings(found, {}))] == ["tone", "outcome"]
