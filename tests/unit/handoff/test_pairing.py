"""A draft gives an outcome only to the request that it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import Draft, build_draft
from tests.support.made_up_transcripts import Transcript


def build_transcript_draft(transcript: Transcript, folder: Path) -> Draft:
    return build_draft(transcript_story.read_story(transcript.write(folder)))


def list_summary(transcript: Transcript, folder: Path) -> list[str]:
    return [entry.text for entry in build_transcript_draft(transcript, folder).summary]


def commit_work(transcript: Transcript, subject: str) -> None:
    transcript.bash("git commit -am x", f"[main 1a2b3c4] {subject}\n 1 file changed, 1 insertion(+)")


def test_a_commit_after_a_question_is_not_its_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Please lengthen the tail of the storm kite to four metres")
    transcript.edit("src/kite/tail.py", "1", "4")
    transcript.agent("I lengthened the tail of the storm kite in `src/kite/tail.py` to four metres.")
    transcript.person("does this change the ribbon of the light kite?")
    transcript.bash("grep -rn ribbon src", "src/kite/ribbon.py")
    transcript.agent("No, the light kite has a ribbon of its own in `src/kite/ribbon.py`.")
    transcript.person("okay open a PR")
    commit_work(transcript, "Prepare for autumn")
    transcript.agent("Committed.")
    summary = list_summary(transcript, tmp_path)
    assert not any("does this change" in line and "1a2b3c4" in line for line in summary)
    assert any("1a2b3c4" in line for line in summary)


def test_a_commit_after_an_order_is_its_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("can you lengthen the tail of the storm kite to four metres?")
    transcript.agent("The plan is to change `src/kite/tail.py`.")
    transcript.person("ok do it")
    transcript.edit("src/kite/tail.py", "1", "4")
    commit_work(transcript, "Lengthen the tail")
    transcript.agent("Committed.")
    assert any("storm kite" in line and "1a2b3c4" in line for line in list_summary(transcript, tmp_path))


def test_what_was_said_before_an_interruption_is_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Measure the tails of all storm kites and shorten the longest")
    transcript.agent("The longest tail of the storm kites is `src/kite/tail.py` with nine metres.")
    transcript.bash("ls src/kite", "tail.py")
    transcript.person("Rename the spool of the light kite to reel")
    transcript.edit("src/kite/spool.py", "spool", "reel")
    transcript.agent("I renamed the spool of the light kite to `reel`.")
    summary = list_summary(transcript, tmp_path)
    assert not any("nine metres" in line for line in summary) and any("`reel`" in line for line in summary)


def test_only_the_last_message_of_a_turn_tells_its_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Compare the ribbons of the four storm kites")
    transcript.bash("ls src/kite", "tail.py")
    transcript.agent("The first ribbon of the storm kites is confirmed as `red`, three are still measured.")
    transcript.agent("All four ribbons of the storm kites are made of `silk` and equally long.")
    summary = list_summary(transcript, tmp_path)
    assert any("`silk`" in line for line in summary) and not any("`red`" in line for line in summary)


@pytest.mark.parametrize("typed_words", ["", "it is stuck now:\n\n"])
def test_the_answer_to_a_pasted_log_is_not_given_to_the_request_before(tmp_path: Path, typed_words: str) -> None:
    transcript = Transcript()
    transcript.person("Add a brake to the spool of the storm kite")
    transcript.edit("src/kite/spool.py", "1", "2")
    transcript.agent("I added a brake to the spool in `src/kite/spool.py`.")
    transcript.person(f"{typed_words}=== RUN TestLaunch\n--- FAIL: TestLaunch (0.1s)\nFAIL kite/launch 0.2s")
    transcript.edit("src/kite/launch.py", "1", "2")
    transcript.agent("I changed the launch angle of the kite in `src/kite/launch.py`.")
    summary = list_summary(transcript, tmp_path)
    assert any("Add a brake" in line and "added a brake" in line for line in summary)
    assert not any("Add a brake" in line and "launch angle" in line for line in summary)


def test_an_order_that_opens_a_prompt_is_quoted_and_not_what_it_pastes(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person(
        "open an issue about questions that the manual leaves open\n\n"
        "- how long may the ribbon of a light kite be in a storm with gusts and rain over the northern coast?\n"
    )
    transcript.bash("gh issue create", "https://github.com/kite/kite/issues/19")
    transcript.agent("Opened the issue kite/kite#19 about the manual.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert draft.topic.startswith("open an issue about questions")


def test_handed_over_material_belongs_to_the_request_before(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Check the three reports about storm kites against the manual")
    transcript.agent("The third report about storm kites is missing.")
    transcript.person("here's the third:\n\nThe ribbon of the light kite tears in gusts over thirty knots.")
    transcript.bash("ls manual", "ribbon.md")
    transcript.agent("Two of the three reports about storm kites contradict `manual/ribbon.md`.")
    summary = list_summary(transcript, tmp_path)
    assert any("three reports about storm kites against" in line and "Two of the three" in line for line in summary)


def test_the_arguments_of_a_slash_command_are_the_request(tmp_path: Path) -> None:
    transcript = Transcript()
    commits = "- 1a2b3c4: lengthen the tail of a light kite\n" * 100
    transcript.person(
        f"/review /audit\n/simplify\n\nReview the commits about the ribbon of the storm kite.\n\n{commits}"
    )
    transcript.bash("git log --oneline", "1a2b3c4 Lengthen the tail")
    transcript.agent("The ribbon of the storm kite in `src/kite/ribbon.py` is too short for gusts.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert draft.topic.startswith("Review the commits about the ribbon of the storm kite")


def test_a_cause_that_was_taken_back_or_refuted_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("The launch test fails, why?")
    transcript.agent("The issue is that `launch.py` starts with a slack line.")
    transcript.bash("cat src/launch.py", "line = 1")
    transcript.agent("Actually, wait - the real issue is that `spool.py` has a broken brake.")
    transcript.bash("cat src/spool.py", "brake = 1")
    transcript.agent("The issue is that `ribbon.py` ties the ribbon of the kite twice.")
    transcript.edit("src/ribbon.py", "2", "1")
    transcript.agent("Fixed.")
    transcript.person("And why does the landing fail?")
    transcript.agent("The root cause is that `landing.py` reels the line too late.")
    transcript.person("still fails")
    transcript.agent("The root cause is that `wind.py` gives the wind in knots.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "`ribbon.py`" in text and "`wind.py`" in text
    assert "`launch.py`" not in text and "`spool.py`" not in text
    assert not any(line.startswith("The root cause is that `landing.py`") for line in text.splitlines())


def test_the_last_cause_in_an_answer_to_no_is_kept_after_a_question(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("The landing test fails")
    transcript.agent("The root cause is that `landing.py` reels the line too late. Shall I change the wind as well?")
    transcript.person("no, that is for tomorrow")
    transcript.agent("Fine.")
    assert any("`landing.py`" in line for line in list_summary(transcript, tmp_path))


def test_an_attempt_that_the_next_prompt_calls_failing_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Stop the ribbon of the storm kite from tearing")
    transcript.edit("src/kite/ribbon.py", "1", "2")
    transcript.agent("I doubled the ribbon of the storm kite in `src/kite/ribbon.py`.")
    transcript.person("Still tears in gusts, maybe the knot of the ribbon is too tight?")
    transcript.edit("src/kite/knot.py", "1", "2")
    transcript.agent("I loosened the knot of the ribbon in `src/kite/knot.py`.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "loosened the knot" in text and "doubled the ribbon" not in text
