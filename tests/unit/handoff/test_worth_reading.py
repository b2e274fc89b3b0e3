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
from tests.support.made_up_transcripts import Transcript, build_launch_session


def read(told: Transcript, folder: Path) -> Story:
    return transcript_story.read_story(told.write(folder))


def drafted(told: Transcript, folder: Path) -> Draft:
    one = read(told, folder)
    return build_draft(one, detect_findings(one, EMPTY_CONTEXT))


@pytest.mark.parametrize("little", ["8", "let's do 1", "commit/push", "option B", "yes, that one please"])
def test_a_nod_or_a_choice_is_no_request(tmp_path: Path, little: str) -> None:
    told = build_launch_session()
    told.person(little)
    told.agent("Done.")
    made = drafted(told, tmp_path)
    said = " ".join(one.text for one in (*made.summary, *made.resume))
    assert f"“{little}”" not in said and "“The launch test fails" in said


def test_a_choice_that_was_under_way_is_told_by_what_the_agent_was_at(tmp_path: Path) -> None:
    told = build_launch_session()
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
    told = build_launch_session()
    told.person("How long is the file of strings?")
    told.bash('python3 -c "import kite; kite.size()"', "AttributeError: no size", code=1)
    told.bash('python3 -c "import kite; print(kite.length())"', "40")
    told.agent("It has 40 lines.")
    assert not any("-c" in one.text for one in drafted(told, tmp_path).failed)


def test_a_finding_is_told_once_on_the_page(tmp_path: Path) -> None:
    told = build_launch_session()
    told.person("Let's leave the landing for now, we'll do the landing in another session later.")
    told.agent("Fine.")
    made = drafted(told, tmp_path)
    text = next(finding.text for finding in made.findings if finding.item == "not done")
    page = render_draft(made)
    assert page.count(text) == 1 and text in page.partition("## Open ends")[2] and "## Findings" not in page


def test_nothing_is_told_twice_on_the_page(tmp_path: Path) -> None:
    told = build_launch_session()
    page = render_draft(drafted(told, tmp_path)).partition("\n# ")[2]
    assert page.count("“The launch test fails") == 1
    assert page.count("Change src/kite/landing.py") == 1 and "> First: Change src/kite/landing.py" in page


def test_what_was_put_off_and_then_done_is_not_put_off(tmp_path: Path) -> None:
    told = build_launch_session()
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


def tell(draft: Draft) -> str:
    return "\n".join(entry.text for entry in (*draft.summary, *draft.failed, *draft.open_ends, *draft.resume))


def test_what_a_slash_command_printed_is_no_answer_to_the_prompt_before_it(tmp_path: Path) -> None:
    told = Transcript()
    told.person("How long may the tail of the kite be in a storm?")
    told.agent("The tail of the kite may have four metres in a storm.")
    told.person("/todos")
    told.bash("ls todos", "1 ribbon\n2 spool")
    told.agent("Run `/todos spool` to see the tasks about the spool and its brake alone.")
    text = tell(drafted(told, tmp_path))
    assert "four metres" in text and "/todos" not in text


def test_a_file_that_was_removed_again_is_not_listed(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Make the tail of the kite longer.")
    told.edit("src/kite/probe.py", "1", "2")
    told.edit("src/kite/tail.py", "1", "2")
    told.bash("rm src/kite/probe.py && git status src/kite/tail.py", "")
    told.agent("All green.")
    text = tell(drafted(told, tmp_path))
    assert "tail.py" in text and "probe.py" not in text and "All green" not in text


def test_a_question_that_names_no_work_is_no_next_step(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Make the tail of the kite longer.")
    told.edit("src/kite/tail.py", "1", "2")
    told.agent("The tail of the kite is longer now. What would you like to do next?")
    assert drafted(told, tmp_path).open_ends == ()


def test_a_command_that_was_pasted_is_not_the_request(tmp_path: Path) -> None:
    told = Transcript()
    told.person("make build && make test --all\nThe ribbon test of the tail still fails after that.")
    told.edit("src/kite/tail.py", "1", "2")
    told.agent("The ribbon test passes now: the tail kept its old length.")
    assert drafted(told, tmp_path).topic == "The ribbon test of the tail still fails after that"


def test_an_option_and_a_remark_before_interrupted_work_are_no_outcome(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Move the checks of the tail into the package of the ribbon.")
    told.agent("That makes a cycle.\n\n**1. Keep the checks in the tail** (revert)\n\nWhich one do you prefer?")
    told.person("Give the spool of the kite a brake.")
    told.agent("The brake is baked into the shared reel of the spool. Splitting it so that both can use it:")
    told.person("What is the wind like?")
    told.agent("The wind comes from the west.")
    text = tell(drafted(told, tmp_path))
    assert "Keep the checks" not in text and "baked into" not in text and "from the west" in text
