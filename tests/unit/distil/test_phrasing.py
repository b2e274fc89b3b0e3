"""Sentences of an answer are told only if they stand alone."""

from __future__ import annotations

import pytest

from hardwon.distil import phrasing


@pytest.mark.parametrize("lead", ["I've added a `brake` to spool.py that will:", "Changed `ribbon.py` so that it can:"])
def test_a_sentence_that_needs_its_list_is_no_result(lead: str) -> None:
    assert phrasing.find_results(f"{lead}\n- hold the line\n- reel it in") == []


def test_a_complete_sentence_before_a_list_is_a_result() -> None:
    message = "I've added a `brake` to the spool of the kite:\n- it holds the line"
    assert phrasing.find_results(message) == ["I've added a `brake` to the spool of the kite."]


def test_a_cause_without_its_subject_is_left_out() -> None:
    assert phrasing.find_causes("It is paying that cost because the wind gives no other way up.") == []
    assert phrasing.find_causes("Today you have that because you already measured the whole line.") == []
    assert phrasing.find_causes("That works because `spool.py` can reel the line without any wind.") != []
    assert phrasing.find_causes("No kite rises today because the line of the spool is torn.") != []


@pytest.mark.parametrize(
    "reply", ["Still doesn't work", "that's not it", "no, the ribbon tears", "`make seam` is still failing"]
)
def test_a_reply_refutes_the_answer_before(reply: str) -> None:
    assert phrasing.is_refuted("The ribbon is too long.", reply)


@pytest.mark.parametrize("reply", ["great, now the tail", "not the tail, please", "No tail for the light kite today"])
def test_other_replies_refute_nothing(reply: str) -> None:
    assert not phrasing.is_refuted("The ribbon is too long.", reply)


def test_no_after_a_question_refutes_nothing() -> None:
    assert not phrasing.is_refuted("The ribbon is too long. Shall I cut it?", "no, leave it")


def test_a_confirmed_finding_is_told() -> None:
    message = "Only the ribbon of the tail is torn (confirmed by a test in the wind)."
    assert phrasing.find_causes(message) == [message]


@pytest.mark.parametrize(("request_line", "is_telling"), [("can you fix linting", True), ("fix it", False)])
def test_a_short_order_that_names_something_is_telling(request_line: str, is_telling: bool) -> None:
    assert phrasing.is_telling_request(request_line) == is_telling


def test_short_words_about_a_commit_are_told_only_if_no_call_shows_it() -> None:
    assert phrasing.find_results("Committed and pushed to `main`.") == []
    assert phrasing.find_results("Committed and pushed to `main`.", is_proven=False) != []


def test_the_introduction_of_a_summary_is_no_result() -> None:
    assert phrasing.find_results("Here's a summary of what is now documented in `docs/tail.md`.") == []
