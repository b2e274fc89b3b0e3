"""A draft is short, names files, commands, errors and open work, and cites its evidence."""

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
from hardwon.store.reflections import Evidence, Finding, ReflectionContext, SuggestedMemory
from hardwon.text.similarity import SAME_THRESHOLD, compute_jaccard, tokenize
from tests.support.draft_evidence import is_quote_in_source, list_statements
from tests.support.made_up_transcripts import Transcript, build_launch_session

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("WRITE_GOLDEN", "")  # writes the pages anew, to review the change with git


def build_transcript_draft(transcript: Transcript, folder: Path) -> Draft:
    return build_draft(transcript_story.read_story(transcript.write(folder)))


def render_page(transcript: Transcript, folder: Path) -> str:
    return render_draft(build_transcript_draft(transcript, folder))


def test_work_the_agent_left_open_is_listed_once(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.agent("Next steps:\n\n- The cache is not yet implemented.")
    story = transcript_story.read_story(transcript.write(tmp_path))
    draft = build_draft(story, detect_findings(story, ReflectionContext()))
    assert len([end for end in draft.open_ends if "cache is not yet implemented" in end.text]) == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.jsonl")))
def test_a_draft_matches_its_golden_page(name: str) -> None:
    story = transcript_story.read_story(str(GOLDEN / f"{name}.jsonl"))
    page = render_draft(build_draft(story, detect_findings(story, ReflectionContext()), [*find_stated_memories(story)]))
    page = page.replace(story.path, "TRANSCRIPT")
    expected = GOLDEN / f"{name}.md"
    if WRITE:
        expected.write_text(page)
    assert page == expected.read_text()


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.jsonl")))
def test_every_statement_leads_to_a_line_that_shows_it(name: str) -> None:
    story = transcript_story.read_story(str(GOLDEN / f"{name}.jsonl"))
    draft = build_draft(story, detect_findings(story, ReflectionContext()))
    statements = list_statements(draft)
    assert statements
    assert [
        statement
        for statement in statements
        if not statement.evidence or not all(map(is_quote_in_source, statement.evidence))
    ] == []


def test_an_empty_closing_sentence_is_replaced_by_the_changed_files(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Put the review of the tail into a markdown file.")
    transcript.edit("docs/tail.md", "", "The tail is too short.")
    transcript.agent("The list is short. I'm turning the rest into issues for the next kite.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert [line.text for line in draft.summary] == [
        "“Put the review of the tail into a markdown file.” → changed docs/tail.md"
    ]


def test_the_last_work_is_what_changed_something_and_not_a_question_after_it(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/tail.py", "LENGTH = 1", "LENGTH = 2")
    transcript.agent("Made the tail in `src/tail.py` twice as long.")
    transcript.person("What does the wind do to a longer tail?")
    transcript.bash("cat docs/wind.md", "Wind pulls on the tail.")
    transcript.agent("The wind pulls on it and steadies the kite.")
    body = render_page(transcript, tmp_path).partition("## Summary")[2]
    assert "“Make the tail of the kite longer.” → " in body and "What does the wind" not in body


def test_an_empty_section_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("What does the bell tower weigh?")
    transcript.agent("It weighs nine tons.")
    page = render_page(transcript, tmp_path)
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Summary"]


def test_open_work_is_kept_when_only_thanks_followed(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Thank you, that is all for today.")
    transcript.agent("You are welcome.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert [end.text for end in draft.open_ends] == ["Change src/kite/landing.py, which still cuts at 40."]
    assert draft.confidence == "H"


def test_a_check_that_fails_at_the_end_is_open_and_one_that_was_fixed_is_not(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Run the linter as well.")
    transcript.bash("make lint", "src/kite/launch.py:2: error: unused import\nmake: *** [lint] Error 1", code=2)
    transcript.agent("The linter finds an unused import.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert "`make lint` fails" in draft.open_ends[0].text and "unused import" in draft.open_ends[0].text
    assert not any("pytest" in end.text for end in draft.open_ends)


def test_a_request_under_way_when_the_session_ends_comes_first(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Now the landing, in the same way.")
    transcript.edit("src/kite/landing.py", "40", "LONGEST")
    draft = build_transcript_draft(transcript, tmp_path)
    assert draft.open_ends[0].text == "Under way when the session ended: “the landing, in the same way.”"
    assert (draft.confidence, "cut off" in draft.because or "ended before" in draft.because) == ("L", True)


def test_a_persons_instruction_is_a_decision_and_a_question_is_not(tmp_path: Path) -> None:
    transcript = build_launch_session()
    transcript.person("Should we use threads? No. Let's not use threads here. Use asyncio instead.")
    transcript.agent("Fine.")
    decisions = [decision.text for decision in build_transcript_draft(transcript, tmp_path).decisions]
    assert decisions == ["You: “Let's not use threads here.”", "You: “Use asyncio instead.”"]


def test_an_answer_to_the_agents_question_is_a_decision(tmp_path: Path) -> None:
    transcript = build_launch_session()
    tool_result = 'User has answered your questions: "Which spool?"="The red one". You can now continue.'
    transcript.call("AskUserQuestion", {"questions": []}, tool_result)
    transcript.agent("Done.")
    assert "Which spool? You: “The red one”" in [
        decision.text for decision in build_transcript_draft(transcript, tmp_path).decisions
    ]


def test_an_identical_retry_that_works_is_no_failed_attempt(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Push it to the server, please.")
    transcript.bash("rsync -a site/ host:", "rsync: connection unexpectedly closed", code=12)
    transcript.bash("rsync -a site/ host:", "sent 12 files")
    transcript.agent("It is there.")
    assert build_transcript_draft(transcript, tmp_path).failed == ()


def test_markup_in_the_session_is_escaped_on_the_page(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Why does <script>alert(1)</script>\n## Resume Prompt\nshow on the page of the tower?")
    transcript.edit("tower.html", "<", "&lt;")
    transcript.agent("Because it was not escaped.")
    page = render_page(transcript, tmp_path)
    assert "\\<script>" in page and page.count("\n## Resume Prompt\n") == 1


def build_finding(item: str, score: float) -> Finding:
    return Finding(item, f"{item} {score}", score, "learning", (Evidence("/t", 1, "words"),))


def test_two_to_four_findings_are_selected_one_per_item() -> None:
    strong_findings = [
        build_finding(item, score) for item, score in zip("aabcdef", (0.9, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6), strict=True)
    ]
    assert [finding.item for finding in select_findings(strong_findings)] == ["a", "b", "c", "d"]
    weak_findings = [build_finding("a", 0.9), build_finding("b", 0.3), build_finding("c", 0.2)]
    assert [finding.item for finding in select_findings(weak_findings)] == ["a", "b"]
    assert select_findings([]) == []


def test_a_repeated_memory_is_proposed_once_and_a_known_one_is_not() -> None:
    statements = ["Always use pnpm, never npm", "always use pnpm and never npm", "The release is on Thursday"]
    memories = [SuggestedMemory("feedback", text, ()) for text in statements]
    assert [memory.text for memory in drop_known_memories(memories, ["The release is on thursday."])] == [statements[0]]


@pytest.mark.parametrize(
    ("known_memory", "statement"),
    [
        ("Always use pnpm, never npm", "Always use npm, never pnpm"),
        ("indent python files of the kite with tabs", "never indent python files of the kite with tabs"),
        ("in every kite file of the tower use tabs", "in every kite file of the tower and the dock don't use tabs"),
    ],
)
def test_the_opposite_of_a_known_memory_is_proposed(known_memory: str, statement: str) -> None:
    assert drop_known_memories([SuggestedMemory("feedback", statement, ())], [known_memory])


def test_a_statement_too_similar_to_a_known_memory_is_not_proposed() -> None:
    known_memory, similar_statement = "always run gust tests before commit", "always run gust tests before each push"
    assert SAME_THRESHOLD <= compute_jaccard(tokenize(known_memory), tokenize(similar_statement)) < 0.7
    assert drop_known_memories([SuggestedMemory("feedback", similar_statement, ())], [known_memory]) == []


@pytest.mark.parametrize(
    ("paths", "branch", "expected"),
    [
        (["docs/workstreams/kites.md", "src/kite/a.py"], "", ["kites", "kite"]),
        (["packages/web/src/auth/a.ts", "packages/web/src/auth/b.ts", "src/x.py"], "", ["web/auth"]),
        (["src/kite/a.py"], "longer-strings", ["longer-strings", "kite"]),
        (["/etc/hosts", "../other/src/a/b.py", "C:/temp/x/y.py"], "", []),
    ],
)
def test_workstreams_come_from_pages_then_the_branch_then_folders(
    paths: list[str], branch: str, expected: list[str]
) -> None:
    assert find_workstreams(paths, branch) == expected
