"""A draft leaves out what a reader would skip: noise, repetition, paths of one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardwon.distil.summaries import summarise_session
from hardwon.handoff import findings, reflection, transcript_story
from hardwon.handoff.draft import Draft, build_draft, drop_known_memories, render_draft, select_findings
from hardwon.handoff.findings import detect_findings
from hardwon.handoff.transcript_story import Story
from hardwon.store.reflections import Evidence, Finding, ReflectionContext, SuggestedMemory
from tests.support.made_up_transcripts import Transcript, build_launch_session


def read_transcript(transcript: Transcript, folder: Path) -> Story:
    return transcript_story.read_story(transcript.write(folder))


def build_transcript_draft(transcript: Transcript, folder: Path) -> Draft:
    story = read_transcript(transcript, folder)
    return build_draft(story, detect_findings(story, ReflectionContext()))


@pytest.mark.parametrize("short_reply", ["8", "let's do 1", "commit/push", "option B", "yes, that entry please"])
def test_a_short_agreement_or_choice_is_no_request(tmp_path: Path, short_reply: str) -> None:
    transcript = build_launch_session()
    transcript.person(short_reply)
    transcript.agent("Done.")
    draft = build_transcript_draft(transcript, tmp_path)
    draft_text = " ".join(entry.text for entry in (*draft.summary, *draft.resume))
    assert f"“{short_reply}”" not in draft_text and "“The launch test fails" in draft_text


def test_interrupted_work_after_a_choice_is_described_by_the_agents_sentence(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("2")
    transcript.agent("The tail gets the longer ribbon first.")
    transcript.edit("src/kite/tail.py", "1", "2")
    assert build_transcript_draft(transcript, tmp_path).open_ends[0].text == (
        "Under way when the session ended: “The tail gets the longer ribbon first.”"
    )


@pytest.mark.parametrize(("reply", "is_told"), [("yes please", False), ("measure the string of the kite first", True)])
def test_an_offer_that_the_person_took_up_is_not_open(tmp_path: Path, reply: str, is_told: bool) -> None:
    transcript = build_launch_session()
    transcript.person("Lengthen the tail of the kite to four metres")
    transcript.edit("src/kite/tail.py", "1", "4")
    transcript.agent("Lengthened the tail in `src/kite/tail.py`. Do you want me to add a ribbon to the landing test?")
    transcript.person(reply)
    transcript.agent("I'll start with the string.")
    transcript.bash("ls src/kite", "tail.py")
    open_ends = [end.text for end in build_transcript_draft(transcript, tmp_path).open_ends]
    assert any("add a ribbon" in line for line in open_ends) == is_told


def test_the_topic_leaves_out_a_url(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("https://github.com/kite/kite/issues/7 this issue says that the tail is too short for storms")
    transcript.agent("It is.")
    assert build_transcript_draft(transcript, tmp_path).topic == "this issue says that the tail is too short for storms"


@pytest.mark.parametrize(
    "sentence",
    [
        "The todo count is right: the tail todo is already in `done/`.",
        "Still needs a cast for the old compiler, but now passes the ribbon itself.",
        "Todo: “we would like to” → “we want to”.",
    ],
)
def test_finished_work_is_no_open_end(tmp_path: Path, sentence: str) -> None:
    transcript = Transcript()
    transcript.person("Look through the comments on the tail of the kite.")
    transcript.edit("src/kite/tail.py", "1", "2")
    transcript.agent(f"All comments are answered. {sentence}")
    assert build_transcript_draft(transcript, tmp_path).open_ends == ()


def test_the_next_step_is_listed_once(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/kite/tail.py", "1", "2")
    transcript.agent("The tail is longer.\n\nNext: change the landing, which still cuts it.")
    story = read_transcript(transcript, tmp_path)
    assert (
        summarise_session(transcript_story.build_turns(story), ()).next_steps
        == "change the landing, which still cuts it."
    )
    assert [end.text for end in build_draft(story).open_ends] == ["change the landing, which still cuts it."]


def test_a_failed_one_line_script_is_no_failed_attempt(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("How long is the file of strings?")
    transcript.bash('python3 -c "import kite; kite.size()"', "AttributeError: no size", code=1)
    transcript.bash('python3 -c "import kite; print(kite.length())"', "40")
    transcript.agent("It has 40 lines.")
    assert not any("-c" in entry.text for entry in build_transcript_draft(transcript, tmp_path).failed)


def test_a_finding_is_told_once_on_the_page(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Let's leave the landing for now, we'll do the landing in another session later.")
    transcript.agent("Fine.")
    draft = build_transcript_draft(transcript, tmp_path)
    text = next(finding.text for finding in draft.findings if finding.item == "not done")
    page = render_draft(draft)
    assert page.count(text) == 1 and text in page.partition("## Open ends")[2] and "## Findings" not in page


def test_nothing_is_told_twice_on_the_page(tmp_path: Path) -> None:
    transcript = build_launch_session()
    page = render_draft(build_transcript_draft(transcript, tmp_path)).partition("\n# ")[2]
    assert page.count("“The launch test fails") == 1
    assert page.count("Change src/kite/landing.py") == 1 and "> First: Change src/kite/landing.py" in page


def test_postponed_work_that_was_then_done_is_not_reported(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Could we part the tower? Fine to do it later too.")
    transcript.agent("1. Part it now. 2. Later.")
    transcript.person("let's do 1")
    transcript.agent("It is parted.")
    assert list(findings.detect_postponed_work(read_transcript(transcript, tmp_path), ReflectionContext())) == []


def test_a_memory_contained_in_another_is_proposed_once() -> None:
    short = "we renamed the repo from kite to glider"
    statements = [short, f"ok, one more: {short}, so go through the names and mend whatever is wrong there"]
    assert [
        memory.text for memory in drop_known_memories([SuggestedMemory("project", text, ()) for text in statements], [])
    ] == [short]


def test_paths_of_one_machine_are_shortened_on_the_page(tmp_path: Path) -> None:
    transcript = Transcript("/home/dev/kite")
    transcript.person("Why can /home/dev/kite/src/tail.py not open /home/dev/.cache/kite/strings?")
    transcript.agent("Because /{}/ada/strings is not there.".format("Users"))
    page = render_draft(build_transcript_draft(transcript, tmp_path)).partition("transcript:")[2].partition("\n")[2]
    assert "/home/" not in page and "/Users/" not in page and "can src/tail.py not open …/.cache" in page


def test_items_that_people_drop_are_hidden_and_items_they_keep_come_first() -> None:
    detected = [
        Finding(item, f"{item} was seen", 0.7, "learning", (Evidence("/t", 1, "words"),))
        for item in ("tone", "outcome")
    ]
    selected = select_findings(reflection.weigh_findings(detected, {"tone": (0, 20), "outcome": (9, 0)}))
    assert [finding.item for finding in selected] == ["outcome"]
    assert [finding.item for finding in select_findings(reflection.weigh_findings(detected, {}))] == ["tone", "outcome"]


def join_entries(draft: Draft) -> str:
    return "\n".join(entry.text for entry in (*draft.summary, *draft.failed, *draft.open_ends, *draft.resume))


def test_output_of_a_slash_command_is_no_answer_to_the_prompt_before_it(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("How long may the tail of the kite be in a storm?")
    transcript.agent("The tail of the kite may have four metres in a storm.")
    transcript.person("/todos")
    transcript.bash("ls todos", "1 ribbon\n2 spool")
    transcript.agent("Run `/todos spool` to see the tasks about the spool and its brake alone.")
    text = join_entries(build_transcript_draft(transcript, tmp_path))
    assert "four metres" in text and "/todos" not in text


def test_a_file_that_was_removed_again_is_not_listed(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/kite/probe.py", "1", "2")
    transcript.edit("src/kite/tail.py", "1", "2")
    transcript.bash("rm src/kite/probe.py && git status src/kite/tail.py", "")
    transcript.agent("All green.")
    text = join_entries(build_transcript_draft(transcript, tmp_path))
    assert "tail.py" in text and "probe.py" not in text and "All green" not in text


def test_a_question_that_names_no_work_is_no_next_step(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/kite/tail.py", "1", "2")
    transcript.agent("The tail of the kite is longer now. What would you like to do next?")
    assert build_transcript_draft(transcript, tmp_path).open_ends == ()


def test_a_pasted_command_is_not_the_request(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("make build && make test --all\nThe ribbon test of the tail still fails after that.")
    transcript.edit("src/kite/tail.py", "1", "2")
    transcript.agent("The ribbon test passes now: the tail kept its old length.")
    assert build_transcript_draft(transcript, tmp_path).topic == "The ribbon test of the tail still fails after that"


def test_an_option_and_a_remark_before_interrupted_work_are_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Move the checks of the tail into the package of the ribbon.")
    transcript.agent("That makes a cycle.\n\n**1. Keep the checks in the tail** (revert)\n\nWhich one do you prefer?")
    transcript.person("Give the spool of the kite a brake.")
    transcript.agent("The brake is baked into the shared reel of the spool. Splitting it so that both can use it:")
    transcript.person("What is the wind like?")
    transcript.agent("The wind comes from the west.")
    text = join_entries(build_transcript_draft(transcript, tmp_path))
    assert "Keep the checks" not in text and "baked into" not in text and "from the west" in text
