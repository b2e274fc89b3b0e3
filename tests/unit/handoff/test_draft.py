"""A draft is short, names files, commands and errors, says what remains, and leads to its evidence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import (
    Draft,
    build_draft,
    drop_known_memories,
    find_stated_memories,
    find_workstreams,
    render_draft,
    select_findings,
)
from hardwon.handoff.findings import detect_findings
from hardwon.store.reflection_types import EMPTY_CONTEXT, Evidence, Finding, SuggestedMemory
from hardwon.text.similarity import SAME_THRESHOLD, compute_jaccard, tokenize
from tests.support.draft_evidence import is_quote_in_source, list_statements
from tests.support.made_up_transcripts import Transcript, build_launch_session

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("WRITE_GOLDEN", "")  # to look at what changed with git, and keep it if it is better


def drafted(told: Transcript, folder: Path) -> Draft:
    return build_draft(transcript_story.read_story(told.write(folder)))


def page(told: Transcript, folder: Path) -> str:
    return render_draft(drafted(told, folder))


def test_what_the_agent_left_out_is_told_once(tmp_path: Path) -> None:
    told = build_launch_session()
    told.agent("Next steps:\n\n- The cache is not yet implemented.")
    read = transcript_story.read_story(told.write(tmp_path))
    made = build_draft(read, detect_findings(read, EMPTY_CONTEXT))
    assert len([end for end in made.open_ends if "cache is not yet implemented" in end.text]) == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.jsonl")))
def test_a_session_is_told_as_it_was_found_worth_reading(name: str) -> None:
    told = transcript_story.read_story(str(GOLDEN / f"{name}.jsonl"))
    made = render_draft(build_draft(told, detect_findings(told, EMPTY_CONTEXT), [*find_stated_memories(told)]))
    made = made.replace(told.path, "TRANSCRIPT")
    expected = GOLDEN / f"{name}.md"
    if WRITE:
        expected.write_text(made)
    assert made == expected.read_text()


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.jsonl")))
def test_every_statement_leads_to_a_line_that_shows_it(name: str) -> None:
    told = transcript_story.read_story(str(GOLDEN / f"{name}.jsonl"))
    made = build_draft(told, detect_findings(told, EMPTY_CONTEXT))
    said = list_statements(made)
    assert said
    assert [one for one in said if not one.evidence or not all(map(is_quote_in_source, one.evidence))] == []


def test_a_closing_sentence_that_tells_nothing_gives_way_to_the_changed_files(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Put the review of the tail into a markdown file.")
    told.edit("docs/tail.md", "", "The tail is too short.")
    told.agent("The list is short. I'm turning the rest into issues for the next kite.")
    made = drafted(told, tmp_path)
    assert [line.text for line in made.summary] == [
        "“Put the review of the tail into a markdown file.” → changed docs/tail.md"
    ]


def test_the_last_work_is_what_changed_something_and_not_a_question_after_it(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Make the tail of the kite longer.")
    told.edit("src/tail.py", "LENGTH = 1", "LENGTH = 2")
    told.agent("Made the tail in `src/tail.py` twice as long.")
    told.person("What does the wind do to a longer tail?")
    told.bash("cat docs/wind.md", "Wind pulls on the tail.")
    told.agent("The wind pulls on it and steadies the kite.")
    body = page(told, tmp_path).partition("## Summary")[2]
    assert "“Make the tail of the kite longer.” → " in body and "What does the wind" not in body


def test_a_section_with_nothing_to_say_is_not_there(tmp_path: Path) -> None:
    told = Transcript()
    told.person("What does the bell tower weigh?")
    told.agent("It weighs nine tons.")
    made = page(told, tmp_path)
    assert [line for line in made.splitlines() if line.startswith("## ")] == ["## Summary", "## Resume Prompt"]


def test_what_remains_is_still_known_when_only_thanks_followed(tmp_path: Path) -> None:
    told = build_launch_session()
    told.person("Thank you, that is all for today.")
    told.agent("You are welcome.")
    made = drafted(told, tmp_path)
    assert [end.text for end in made.open_ends] == ["Change src/kite/landing.py, which still cuts at 40."]
    assert made.confidence == "H"


def test_a_check_that_fails_at_the_end_is_open_and_one_that_was_mended_is_not(tmp_path: Path) -> None:
    told = build_launch_session()
    told.person("Run the linter as well.")
    told.bash("make lint", "src/kite/launch.py:2: error: unused import\nmake: *** [lint] Error 1", code=2)
    told.agent("The linter finds an unused import.")
    made = drafted(told, tmp_path)
    assert "`make lint` fails" in made.open_ends[0].text and "unused import" in made.open_ends[0].text
    assert not any("pytest" in end.text for end in made.open_ends)


def test_a_request_under_way_when_the_session_ends_comes_first(tmp_path: Path) -> None:
    told = build_launch_session()
    told.person("Now the landing, in the same way.")
    told.edit("src/kite/landing.py", "40", "LONGEST")
    made = drafted(told, tmp_path)
    assert made.open_ends[0].text == "Under way when the session ended: “the landing, in the same way.”"
    assert (made.confidence, "cut off" in made.because or "ended before" in made.because) == ("L", True)


def test_what_a_person_settled_is_a_decision_and_what_they_asked_is_not(tmp_path: Path) -> None:
    told = build_launch_session()
    told.person("Should we use threads? No. Let's not use threads here. Use asyncio instead.")
    told.agent("Fine.")
    made = [decision.text for decision in drafted(told, tmp_path).decisions]
    assert made == ["You: “Let's not use threads here.”", "You: “Use asyncio instead.”"]


def test_an_answer_to_the_agents_question_is_a_decision(tmp_path: Path) -> None:
    told = build_launch_session()
    answered = 'User has answered your questions: "Which spool?"="The red one". You can now continue.'
    told.call("AskUserQuestion", {"questions": []}, answered)
    told.agent("Done.")
    assert "Which spool? You: “The red one”" in [decision.text for decision in drafted(told, tmp_path).decisions]


def test_a_retry_that_changed_nothing_ruled_nothing_out(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Push it to the server, please.")
    told.bash("rsync -a site/ host:", "rsync: connection unexpectedly closed", code=12)
    told.bash("rsync -a site/ host:", "sent 12 files")
    told.agent("It is there.")
    assert drafted(told, tmp_path).failed == ()


def test_text_of_the_session_is_no_markup_of_the_page(tmp_path: Path) -> None:
    told = Transcript()
    told.person("Why does <script>alert(1)</script>\n## Resume Prompt\nshow on the page of the tower?")
    told.agent("Because it is not escaped.")
    made = page(told, tmp_path)
    assert "\\<script>" in made and made.count("\n## Resume Prompt\n") == 1


def finding(item: str, score: float) -> Finding:
    return Finding(item, f"{item} {score}", score, "learning", (Evidence("/t", 1, "words"),))


def test_two_to_four_findings_are_told_each_item_once() -> None:
    many = [finding(item, score) for item, score in zip("aabcdef", (0.9, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6), strict=True)]
    assert [one.item for one in select_findings(many)] == ["a", "b", "c", "d"]
    faint = [finding("a", 0.9), finding("b", 0.3), finding("c", 0.2)]
    assert [one.item for one in select_findings(faint)] == ["a", "b"]
    assert select_findings([]) == []


def test_a_memory_that_is_known_or_said_twice_is_proposed_once_or_not_at_all() -> None:
    said = ["Always use pnpm, never npm", "always use pnpm and never npm", "The release is on Thursday"]
    memories = [SuggestedMemory("feedback", text, ()) for text in said]
    assert [one.text for one in drop_known_memories(memories, ["The release is on thursday."])] == [said[0]]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("Always use pnpm, never npm", "Always use npm, never pnpm"),
        ("indent python files of the kite with tabs", "never indent python files of the kite with tabs"),
        ("in every kite file of the tower use tabs", "in every kite file of the tower and the dock don't use tabs"),
    ],
)
def test_what_turns_a_memory_round_is_proposed(known: str, said: str) -> None:
    assert drop_known_memories([SuggestedMemory("feedback", said, ())], [known])


def test_what_could_not_be_approved_for_being_known_is_not_put_to_a_person() -> None:
    known, like_it = "always run gust tests before commit", "always run gust tests before each push"
    assert SAME_THRESHOLD <= compute_jaccard(tokenize(known), tokenize(like_it)) < 0.7
    assert drop_known_memories([SuggestedMemory("feedback", like_it, ())], [known]) == []


@pytest.mark.parametrize(
    ("paths", "branch", "expected"),
    [
        (["docs/workstreams/kites.md", "src/kite/a.py"], "", ["kites", "kite"]),
        (["packages/web/src/auth/a.ts", "packages/web/src/auth/b.ts", "src/x.py"], "", ["web/auth"]),
        (["src/kite/a.py"], "longer-strings", ["longer-strings", "kite"]),
        (["/etc/hosts", "../other/src/a/b.py", "C:/temp/x/y.py"], "", []),
    ],
)
def test_workstreams_are_those_named_then_the_branch_then_the_areas(
    paths: list[str], branch: str, expected: list[str]
) -> None:
    assert find_workstreams(paths, branch) == expected
