"""The outcome that a draft gives for a request is what came of it; where that is not clear, it says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import Draft, build_draft
from hardwon.handoff.handoffs import NO_TOPIC
from tests.support.made_up_transcripts import Transcript


def build_transcript_draft(transcript: Transcript, folder: Path) -> Draft:
    return build_draft(transcript_story.read_story(transcript.write(folder)))


def list_summary(transcript: Transcript, folder: Path) -> list[str]:
    return [line.text for line in build_transcript_draft(transcript, folder).summary]


def test_a_review_is_told_by_its_finding_and_not_by_what_the_reviewed_code_does(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the commits of this branch against main.")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent(
        "## Overview\n\nAdds a reel that winds the string of the kite by `reel.wind`.\n\n## Findings\n\n"
        "1. (High) The reel of `reel.wind` never stops at the end of the string."
    )
    assert list_summary(transcript, tmp_path) == [
        "“Review the commits of this branch against main.” → "
        "“(High) The reel of `reel.wind` never stops at the end of the string.”"
    ]


def test_a_review_without_a_clear_verdict_has_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the commits of this branch against main.")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent("Adds a reel that winds the string of the kite by `reel.wind`, with a test on the branch.")
    assert list_summary(transcript, tmp_path) == []


def test_a_review_that_found_nothing_says_so(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Can you review the string again?")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent("The branch adds a reel to the kite.\n\nNo blocking issues in the committed diff of the string.")
    assert list_summary(transcript, tmp_path)[0].endswith("→ “No blocking issues in the committed diff of the string.”")


@pytest.mark.parametrize(
    "closing",
    [
        "Suggested message: `docs(tail): tell how to sew the tail of the kite`.",
        "Git tracks the moves as renames, so the history is preserved.",
        "Option A: Keep the tail of the kite in `tail.py`.",
        "On your side the guide should now show how to sew the tail of the kite.",
        "12 passed, 0 failed, 1.5s.",
    ],
)
def test_a_closing_remark_is_no_outcome(tmp_path: Path, closing: str) -> None:
    transcript = Transcript()
    transcript.person("Please explain in the guide how to sew the tail of the kite.")
    transcript.edit("docs/tail.md", "", "Sew it.")
    transcript.agent(closing)
    assert list_summary(transcript, tmp_path)[0].endswith("→ changed docs/tail.md")


def test_changed_files_are_not_told_in_a_session_that_commits(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Please explain in the guide how to sew the tail of the kite.")
    transcript.edit("docs/tail.md", "", "Sew it.")
    transcript.agent("Done.")
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash('git commit -am "Lengthen the ribbon"', "[main 3f2a9c1] Lengthen the ribbon\n 2 files changed")
    transcript.agent("Committed.")
    (line,) = list_summary(transcript, tmp_path)
    assert line == "“Lengthen the seam of the ribbon” → 3f2a9c1 “Lengthen the ribbon”"


def test_of_several_results_the_one_about_the_request_is_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Fix the rounding of the string length.")
    transcript.edit("src/string.py", "int(length)", "round(length)")
    transcript.agent(
        "- Found 15 kites in the shed, with the one of yesterday.\n- Fixed the rounding of `length` in `src/string.py`."
    )
    assert list_summary(transcript, tmp_path)[0].endswith(
        "→ “Fixed the rounding of `length` in `src/string.py`.” and 1 more"
    )


def test_what_was_to_be_written_is_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Write a poem about the red kite over the harbour.")
    transcript.bash("cat docs/kite.md", "A kite.")
    transcript.agent("The red kite above the harbour carries the morning home.")
    assert list_summary(transcript, tmp_path) == []


def test_the_answer_to_a_remark_is_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("I think the tail and the string belong to the same kite.")
    transcript.bash("cat docs/kite.md", "A kite.")
    transcript.agent("The tail and the string of a kite are a lovely example of balance.")
    assert list_summary(transcript, tmp_path) == []


def test_why_is_answered_by_a_cause_that_refers_to_the_question(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Why did the launch fail yesterday?")
    transcript.bash("cat launch.log", "no wind")
    transcript.agent("It failed before the start because the wind sensor denied the launch.\n\nThe log shows no wind.")
    assert list_summary(transcript, tmp_path) == [
        "“Why did the launch fail yesterday?” → “It failed before the start because the wind sensor denied the launch.”"
    ]


def test_a_request_that_names_nothing_is_not_quoted(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("please fix these")
    transcript.edit("src/tail.py", "a", "b")
    transcript.agent("Fixed both type errors in `src/tail.py`.")
    assert list_summary(transcript, tmp_path) == ["“Fixed both type errors in `src/tail.py`.”"]


def test_an_amended_commit_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Can we close the tail warning quickly?")
    transcript.edit("notes.md", "a", "b")
    transcript.bash('git commit -am "Close the warning"', "[tail 3f2a9c1] Close the warning\n 1 file changed")
    transcript.agent("The warning was gone already.")
    transcript.person("I ran the check of the seam and the warnings are still there.")
    transcript.edit("src/tail.py", "a", "b")
    transcript.bash('git commit --amend -am "Sew the seam"', "[tail 9b8c7d6] Sew the seam\n 2 files changed")
    transcript.agent("Fixed all warnings of the seam in `src/tail.py`.")
    lines = list_summary(transcript, tmp_path)
    assert not any("3f2a9c1" in line for line in lines) and any("9b8c7d6" in line for line in lines)


def build_commit_transcript() -> Transcript:
    transcript = Transcript()
    transcript.person("Sew the seam of the tail tighter")
    transcript.edit("src/tail.py", "a", "b")
    transcript.bash('git commit -am "Sew the seam"', "[tail 3f2a9c1] Sew the seam\n 1 file changed")
    transcript.agent("Committed.")
    transcript.person("bring the branch of the tail up to main")
    return transcript


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git rebase origin/main", "Successfully rebased and updated refs/heads/tail."),
        ("git pull --rebase origin main", "Successfully rebased and updated refs/heads/tail."),
        ("git reset --soft HEAD~1", ""),
        ("git push --force-with-lease", " + 3f2a9c1...9b8c7d6 tail -> tail (forced update)"),
    ],
)
def test_a_commit_that_was_rewritten_is_not_told(tmp_path: Path, command: str, output: str) -> None:
    transcript = build_commit_transcript()
    transcript.bash(command, output)
    transcript.agent("The branch of the tail is at main.")
    assert not any("3f2a9c1" in line for line in list_summary(transcript, tmp_path))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git rebase --abort", ""),
        ("git pull --rebase", "Current branch tail is up to date."),
        ("git reset src/tail.py", ""),
    ],
)
def test_a_commit_that_was_not_rewritten_is_told(tmp_path: Path, command: str, output: str) -> None:
    transcript = build_commit_transcript()
    transcript.bash(command, output)
    transcript.agent("The branch of the tail is at main.")
    assert any("3f2a9c1" in line for line in list_summary(transcript, tmp_path))


def test_a_commit_that_the_log_shows_after_rewriting_is_told(tmp_path: Path) -> None:
    transcript = build_commit_transcript()
    transcript.bash("git rebase -i HEAD~1", "Successfully rebased and updated refs/heads/tail.")
    transcript.bash("git log --oneline -3", "3f2a9c1 Sew the seam")
    transcript.agent("The branch of the tail is at main.")
    assert any("3f2a9c1" in line for line in list_summary(transcript, tmp_path))


@pytest.mark.parametrize(
    "reply",
    ["hm, thinking again, the tail should stay at two metres", "put it back to two metres", "undo the tail change"],
)
def test_an_outcome_that_the_person_takes_back_is_not_told(tmp_path: Path, reply: str) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the tail of the kite to four metres")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Lengthened the tail of the kite in `src/tail.py` to four metres.")
    transcript.person(reply)
    transcript.edit("src/tail.py", "4", "2")
    transcript.agent("The tail of the kite in `src/tail.py` has two metres again.")
    assert not any("four metres" in line for line in list_summary(transcript, tmp_path))


def test_the_findings_of_a_review_hold_until_the_next_review(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the branch of the reel against main.")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent("High: the reel of `reel.wind` never stops at the end of the string.")
    transcript.person("I pushed a fix, review the branch of the reel again.")
    transcript.bash("git diff main", "+def reel(): stop()")
    transcript.agent("No blocking issues in the branch of the reel.")
    (line,) = list_summary(transcript, tmp_path)
    assert line.endswith("→ “No blocking issues in the branch of the reel.”")


@pytest.mark.parametrize(
    ("command", "output", "is_told"),
    [("pytest -q", "12 passed in 0.4s", True), ("golangci-lint run", "0 issues.", False)],
)
def test_a_linter_that_finds_nothing_is_not_told(tmp_path: Path, command: str, output: str, is_told: bool) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the tail of the kite to four metres")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash(command, output)
    transcript.agent("Lengthened the tail of the kite in `src/tail.py` to four metres.")
    assert any(command in line for line in list_summary(transcript, tmp_path)) == is_told


def test_a_check_of_code_that_the_session_did_not_change_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the branch of the reel against main.")
    transcript.bash("pytest -q", "12 passed in 0.4s")
    transcript.agent("High: the reel of `reel.wind` never stops at the end of the string.")
    assert not any("passes" in line for line in list_summary(transcript, tmp_path))


def test_only_the_last_cause_on_the_way_to_an_answer_is_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("The launch is broken since yesterday.")
    transcript.agent("The root cause is the short string in `src/string.py`, which tears at 40 metres.")
    transcript.bash("pytest -q", "2 failed", code=1)
    transcript.agent("The root cause is the wind sensor in `src/wind.py`, which reads zero at night.")
    transcript.edit("src/wind.py", "0", "1")
    transcript.agent("Fixed the wind sensor in `src/wind.py`.")
    causes = [line for line in list_summary(transcript, tmp_path) if line.startswith("The root cause")]
    assert causes == ["The root cause is the wind sensor in `src/wind.py`, which reads zero at night."]


def test_an_issue_that_was_filed_is_no_cause(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Why does the tail tear?")
    transcript.edit("src/tail.py", "a", "b")
    transcript.agent(
        "Fixed the seam in `src/tail.py`. The issue was filed against a version that nobody ever released."
    )
    assert not any("filed" in line for line in list_summary(transcript, tmp_path))


def write_codex_transcript(folder: Path, items: list[dict[str, object]], *, is_subagent: bool) -> str:
    thread = "019f5500-c2a3-7ab3-b156-31d8a92b0204"
    meta: dict[str, object] = {"id": thread, "cwd": "/home/dev/kite", "source": "cli"}
    if is_subagent:
        parent = "019f5500-0feb-79c0-a61c-f45ef5610725"
        meta |= {"source": {"subagent": {"thread_spawn": {"parent_thread_id": parent}}}, "session_id": parent}
    lines = [{"type": "session_meta", "payload": meta}, *({"type": "response_item", "payload": item} for item in items)]
    path = folder / f"rollout-2026-03-04T09-00-00-{thread}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-03-04T09:00:00Z", **line}) + "\n" for line in lines))
    return str(path)


def build_message(role: str, text: str) -> dict[str, object]:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def build_calls(*, has_edit: bool) -> list[dict[str, object]]:
    patch = "*** Begin Patch\n*** Add File: tail.md\n+Sew it.\n*** End Patch"
    arguments = {"command": ["apply_patch", patch] if has_edit else ["git", "diff"]}
    call: dict[str, object] = {
        "type": "function_call",
        "name": "shell",
        "call_id": "c1",
        "arguments": json.dumps(arguments),
    }
    return [call, {"type": "function_call_output", "call_id": "c1", "output": "Exit code: 0\nOutput:\nok"}]


@pytest.mark.parametrize("has_edit", [True, False])
def test_a_subagent_that_changed_nothing_says_nothing(tmp_path: Path, has_edit: bool) -> None:
    request = build_message("user", "Look at the tail of the kite and report what is wrong with its seam.")
    answer = build_message("assistant", "Added `tail.md`, which tells how the seam of the tail of the kite is sewn.")
    items = [request, *build_calls(has_edit=has_edit), answer]
    path = write_codex_transcript(tmp_path, items, is_subagent=True)
    draft = build_draft(transcript_story.read_story(path, "codex"))
    assert draft.topic.endswith(NO_TOPIC) != has_edit
    assert bool(draft.summary) == has_edit


def test_the_report_of_codexs_own_review_is_not_the_outcome_of_the_request_before(tmp_path: Path) -> None:
    items = [
        build_message("user", "Add a page that tells how the tail of the kite is sewn."),
        *build_calls(has_edit=True),
        build_message("assistant", "Added `tail.md`, which tells how the tail is sewn."),
        build_message(
            "assistant", "The page of the tail lacks a seam.\n\nReview comment:\n\n- [P2] Add a seam — tail.md:1"
        ),
    ]
    path = write_codex_transcript(tmp_path, items, is_subagent=False)
    draft = build_draft(transcript_story.read_story(path, "codex"))
    assert [line.text.partition(" → ")[2] for line in draft.summary] == [
        "“Added `tail.md`, which tells how the tail is sewn.”"
    ]


def test_an_answer_on_the_way_to_the_work_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Should the seam move into the tail package too?")
    transcript.bash("cat src/tail.py", "seam = 1")
    transcript.agent("The seam should stay where it is, outside of the tail package.")
    transcript.person("But I prefer the seam in the tail package, next to the ribbon.")
    transcript.edit("src/tail.py", "a", "b")
    transcript.agent("Moved the seam into the tail package `src/tail.py`.")
    assert [line.partition(" → ")[2] for line in list_summary(transcript, tmp_path)] == [
        "“Moved the seam into the tail package `src/tail.py`.”"
    ]


def test_a_text_that_the_agent_proposes_is_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("How should the rule about the tail of the kite be worded?")
    transcript.bash("cat RULES.md", "The tail is long.")
    transcript.agent('Change it to:\n\n- "The tail of the kite is sewn twice before any launch."\n\nIt is clearer so.')
    assert not any("sewn twice" in line for line in list_summary(transcript, tmp_path))


def test_files_without_a_commit_are_told_in_the_resume_prompt(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/tail.py", "1", "2")
    transcript.agent("Made the tail in `src/tail.py` twice as long.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert [line.text for line in draft.resume] == ["Changed, and not committed by the agent: src/tail.py"]
    assert draft.open_ends == ()


@pytest.mark.parametrize(
    "command", ["tool git commit -m x", "git stash", "git checkout -- src/tail.py", "git mv src/tail.py src/ribbon.py"]
)
def test_files_that_a_command_may_have_committed_undone_or_moved_are_not_told(tmp_path: Path, command: str) -> None:
    transcript = Transcript()
    transcript.person("Make the tail of the kite longer.")
    transcript.edit("src/tail.py", "1", "2")
    transcript.bash(command, "ok")
    transcript.agent("Made the tail in `src/tail.py` twice as long.")
    assert build_transcript_draft(transcript, tmp_path).resume == ()


def test_changed_files_are_told_only_if_no_topic_has_an_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Please explain in the guide how to sew the tail of the kite.")
    transcript.edit("docs/tail.md", "", "Sew it.")
    transcript.agent("Done.")
    transcript.person("Lengthen the seam of the ribbon in `src/ribbon.py`")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.agent("Lengthened the seam of the ribbon in `src/ribbon.py`.")
    assert [line.partition(" → ")[2] for line in list_summary(transcript, tmp_path)] == [
        "“Lengthened the seam of the ribbon in `src/ribbon.py`.”"
    ]


def test_words_about_a_commit_that_was_amended_are_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash('git commit -am "Lengthen the ribbon"', "[main 3f2a9c1] Lengthen the ribbon\n 1 file changed")
    transcript.agent("Committed the longer seam of the ribbon as `3f2a9c1`.")
    transcript.person("Sew the tail to the ribbon, in the same commit")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash("git commit -a --amend --no-edit", "[main 9ab0c1d] Lengthen the ribbon\n 2 files changed")
    transcript.agent("Amended.")
    assert not any("3f2a9c1" in line for line in list_summary(transcript, tmp_path))


def test_an_item_of_a_list_is_no_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Which kites does the shed have for the storm?")
    transcript.bash("ls shed", "storm\nsummer")
    transcript.agent(
        "Two of them.\n\n- Storm Kite — heavy silk for the storm, with a short tail from the shed.\n"
        "- Summer Kite — thin silk for a calm day, with a long tail from the shed.\n\nBoth hang there."
    )
    assert list_summary(transcript, tmp_path) == []


@pytest.mark.parametrize(
    ("question", "is_told"),
    [("Which spool?", True), ("Can I remove the old spool?", False), ("Should I go on?", False)],
)
def test_leave_to_go_on_is_no_decision(tmp_path: Path, question: str, is_told: bool) -> None:
    transcript = Transcript()
    transcript.person("Give the kite a new spool.")
    transcript.call(
        "AskUserQuestion", {"questions": []}, f'User has answered your questions: "{question}"="The red one".'
    )
    transcript.agent("Done.")
    assert bool(build_transcript_draft(transcript, tmp_path).decisions) == is_told


def test_an_order_for_the_moment_is_no_decision(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Read the list of kites. Do not use cat for it.")
    transcript.agent("Read.")
    assert build_transcript_draft(transcript, tmp_path).decisions == ()


def test_an_answer_that_the_next_prompt_acts_on_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Can you check how the reel of the kite stops?")
    transcript.bash("cat src/reel.py", "stop = None")
    transcript.agent("The reel of the kite in `src/reel.py` does not stop at the end of the string.")
    transcript.person("I think we should change that, so that it stops.")
    transcript.edit("src/reel.py", "None", "end")
    transcript.agent("Changed the reel in `src/reel.py` so that it stops at the end.")
    assert not any("does not stop" in line for line in list_summary(transcript, tmp_path))


def test_an_order_behind_thanks_is_a_request_with_its_own_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Create a launcher for the kite.")
    transcript.edit("src/launcher.py", "", "def launch(): ...")
    transcript.agent("All done!")
    transcript.person("Thanks! Please update GUIDE.md for the launcher")
    transcript.edit("GUIDE.md", "", "Launch it.")
    transcript.agent("Updated `GUIDE.md` with the three steps of a launch.")
    assert list_summary(transcript, tmp_path) == [
        "“Please update GUIDE.md for the launcher” → “Updated `GUIDE.md` with the three steps of a launch.”"
    ]


@pytest.mark.parametrize("order", ["okay open PR", "commit and push", "Great, can you push it to the remote?"])
def test_what_is_reported_of_saving_the_work_is_no_outcome_of_the_request_before(tmp_path: Path, order: str) -> None:
    transcript = Transcript()
    transcript.person("Move the branch of the kite onto the main one, without the picture.")
    transcript.edit("src/kite.py", "1", "2")
    transcript.agent("I moved the kite onto `main`, without `picture.png`.")
    transcript.person(order)
    transcript.bash("git status", "On branch kite")
    transcript.agent("Opened the pull request of the kite branch: https://forge.example/kite/pull/7.")
    (line,) = list_summary(transcript, tmp_path)
    assert line.endswith("→ “I moved the kite onto `main`, without `picture.png`.”")


def test_a_bare_thanks_and_an_order_that_names_nothing_stay_with_the_request(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.agent("Shall I?")
    for words in ("Thanks!", "yes, update it", "ok fix this"):
        transcript.person(words)
        transcript.edit("src/ribbon.py", "2", "4")
        transcript.agent("Lengthened the seam in `src/ribbon.py` to 4.")
    (line,) = list_summary(transcript, tmp_path)
    assert line.startswith("“Lengthen the seam of the ribbon” → ")


def test_a_commit_is_not_bound_to_a_later_request_that_changed_nothing(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Implement the reel that the note describes.")
    transcript.edit("src/reel.py", "", "def wind(): ...")
    transcript.agent("Added `wind` in `src/reel.py`.")
    transcript.person("Remove the file notes/reel.md, its work is done")
    transcript.bash("rm notes/reel.md")
    transcript.agent("Removed `notes/reel.md` of the reel work.")
    transcript.person("commit/push")
    transcript.bash('git commit -am "Wind up the line"', "[main 3f2a9c1] Wind up the line\n 2 files changed")
    transcript.agent("Committed and pushed.")
    lines = list_summary(transcript, tmp_path)
    assert "Committed 3f2a9c1: “Wind up the line”" in lines
    assert not any("Remove the file" in line and "3f2a9c1" in line for line in lines)


def test_a_commit_of_staged_work_is_not_bound_to_the_request_that_happens_to_be_last(tmp_path: Path) -> None:
    transcript = Transcript()
    for request, path in (
        ("Add negative tests for the wind filter of the launch.", "tests/test_wind.py"),
        ("Disable the radio of the ground crew.", "src/radio.py"),
        ("Register an empty spool with the shed.", "src/spool.py"),
    ):
        transcript.person(request)
        transcript.edit(path, "1", "2")
        transcript.agent("Done.")
    transcript.person("commit staged changes")
    transcript.bash('git commit -m "Test the wind filter"', "[main 3f2a9c1] Test the wind filter\n 1 file changed")
    transcript.agent("Committed.")
    lines = list_summary(transcript, tmp_path)
    assert not any("spool" in line and "3f2a9c1" in line for line in lines)
    assert "Committed 3f2a9c1: “Test the wind filter”" in lines


def test_a_commit_is_told_beside_the_part_of_the_prompt_that_it_answers(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person(
        "I expected the reel to be wound overnight, investigate why it was not. "
        "Also it would be nice to show the wind speed at launch."
    )
    transcript.edit("src/launch.py", "", "show()")
    transcript.bash(
        'git commit -am "Show wind speed before a launch"', "[main 3f2a9c1] Show wind speed before a launch"
    )
    transcript.agent("Done.")
    assert list_summary(transcript, tmp_path) == [
        "“Also it would be nice to show the wind speed at launch.” → 3f2a9c1 “Show wind speed before a launch”"
    ]


@pytest.mark.parametrize(
    ("removal", "answer"),
    [
        ("rm -f assets/tail.mp4", "Done."),
        ("git rm -q 'assets/*.mp4'", "Done."),
        ("git mv assets/tail.mp4 docs/tail.mp4", "Done."),
        ("ls", "I removed `assets/tail.mp4` again."),
    ],
)
def test_an_outcome_whose_file_was_removed_later_is_overtaken(tmp_path: Path, removal: str, answer: str) -> None:
    transcript = Transcript()
    transcript.person("Add a recording of the tail to the guide.")
    transcript.edit("GUIDE.md", "", "video")
    transcript.agent("The recording of the tail is now `assets/tail.mp4`, shown in the guide.")
    transcript.person("Which formats does the web page of the kite club show?")
    transcript.bash(removal)
    transcript.agent(answer)
    assert not any("tail.mp4`, shown" in line for line in list_summary(transcript, tmp_path))


def test_an_outcome_that_tells_of_a_removal_holds(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Remove the recording of the tail from the guide.")
    transcript.edit("GUIDE.md", "video", "")
    transcript.agent("Deleted `assets/tail.mp4`, the recording of the tail.")
    transcript.person("Lengthen the seam of the ribbon")
    transcript.bash("git rm assets/tail.mp4")
    transcript.agent("Done.")
    assert any("Deleted `assets/tail.mp4`" in line for line in list_summary(transcript, tmp_path))


def test_an_order_to_sum_up_and_commit_saves_the_work_of_the_request_before(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.agent("Lengthened the seam.")
    transcript.person("Summarize your work, then commit/push")
    transcript.bash('git commit -am "Lengthen it"', "[main 3f2a9c1] Lengthen it\n 1 file changed")
    transcript.agent("Pushed.")
    assert list_summary(transcript, tmp_path) == ["“Lengthen the seam of the ribbon” → 3f2a9c1 “Lengthen it”"]


def test_an_order_with_an_unusual_verb_is_no_fragment(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Glue an empty ribbon onto the spar\n\nso that there is less wind in the large sail")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.agent("Glued the ribbon of `src/ribbon.py` onto the spar.")
    (line,) = list_summary(transcript, tmp_path)
    assert line.startswith("“Glue an empty ribbon onto the spar” → ")


def test_the_file_of_an_outcome_that_stays_is_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Add a recording of the tail to the guide.")
    transcript.edit("GUIDE.md", "", "video")
    transcript.bash("rm -f assets/old-tail.mp4")
    transcript.agent("The recording of the tail is now `assets/tail.mp4`, shown in the guide.")
    assert any("assets/tail.mp4" in line for line in list_summary(transcript, tmp_path))


def test_a_sentence_of_a_report_is_not_quoted_as_the_request(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person(
        "The other kite crew reports this:\n\nValidated with fresh strings of both kites.\n\nResult:\n"
        "- `launch` works now.\n- `land` has no name for the second string."
    )
    transcript.edit("src/land.py", "1", "2")
    transcript.bash('git commit -am "Name each string"', "[main 3f2a9c1] Name each string\n 1 file changed")
    transcript.agent("Done.")
    (line,) = list_summary(transcript, tmp_path)
    assert "Validated" not in line and line.endswith("3f2a9c1 “Name each string”")


def test_a_quoted_fragment_is_not_the_request_if_a_sentence_follows(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("temporary spool pair and ~/.kite/config\n\nwe should not touch the default config of the kite")
    transcript.edit("tests/test_spool.py", "1", "2")
    transcript.agent("I changed the test so that it leaves `~/.kite/config` alone.")
    (line,) = list_summary(transcript, tmp_path)
    assert line.startswith("“we should not touch the default config of the kite” → ")


@pytest.mark.parametrize(
    "closing",
    [
        "Both are gone, along with the filter of the `tail`.",
        "That makes the tail of `src/tail.py` 4 m long.",
        "It was dead weight, so the `weight` of the tail is gone.",
        "I updated the drawing, so that the folders now match the story.",
    ],
)
def test_an_outcome_that_does_not_stand_alone_is_not_quoted(tmp_path: Path, closing: str) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the tail of the kite and drop its weight")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent(closing)
    (line,) = list_summary(transcript, tmp_path)
    assert line.endswith("→ changed src/tail.py")


def test_an_answer_to_several_requests_does_not_bind_its_first_result_to_another_one(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Remove the wind label from the list of kites.")
    transcript.edit("src/list.py", "2", "4")
    transcript.agent(
        "**Footer**: `footer` is gone from the config of the page.\n\n**Wind label** — out of the list.\n\n"
        "**Colors**: `dark` is now set to black."
    )
    (line,) = list_summary(transcript, tmp_path)
    assert "footer" not in line


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ('wrap git add . && wrap git commit -m "Lengthen the ribbon"', "ok ✓ 1 file changed\nok ✓"),
        ('git commit -q -m "Lengthen the ribbon"', ""),
        ("wrap git commit -m \"$(cat <<'EOF'\nLengthen the ribbon\n\nIt tore.\nEOF\n)\"", "ok ✓"),
    ],
)
def test_a_commit_whose_hash_is_not_printed_is_told_by_its_subject(tmp_path: Path, command: str, output: str) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash(command, output)
    transcript.agent("Committed.")
    draft = build_transcript_draft(transcript, tmp_path)
    assert [line.text for line in draft.summary] == [
        "“Lengthen the seam of the ribbon” → committed “Lengthen the ribbon”"
    ]
    assert draft.resume == ()


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ('wrap git commit -m "Lengthen the ribbon"', "error: hook failed", 1),
        ('wrap git commit -m "Lengthen the ribbon"', "ok\nerror: script test exited with code 1", 0),
        ('wrap git commit -m "Lengthen the ribbon" | tail -3', "ok", 0),
        ('git commit --dry-run -m "Lengthen the ribbon"', "ok", 0),
        ("echo \"git commit -m 'Lengthen the ribbon'\"", "ok", 0),
    ],
)
def test_a_commit_that_may_have_failed_is_not_told(tmp_path: Path, command: str, output: str, code: int) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash(command, output, code=code)
    transcript.agent("Done.")
    assert not any("committed" in line.lower() for line in list_summary(transcript, tmp_path))


def test_a_commit_without_a_hash_is_not_told_after_the_history_was_rewritten(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash('wrap git commit -m "Lengthen the ribbon"', "ok")
    transcript.bash("git reset --hard HEAD~1", "HEAD is now at 3f2a9c1 Start")
    transcript.agent("Done.")
    assert not any("committed" in line.lower() for line in list_summary(transcript, tmp_path))


def test_a_part_of_the_tests_is_not_told_if_all_ran_as_well(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.edit("src/ribbon.py", "2", "4")
    transcript.bash("pytest", "40 passed in 2.1s")
    transcript.bash("pytest tests/test_ribbon.py", "12 passed in 0.3s")
    transcript.agent("Done.")
    lines = list_summary(transcript, tmp_path)
    assert [line for line in lines if "passes" in line] == ["`pytest` passes: 40 passed"]


def test_a_small_cause_of_a_long_session_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Why is the label of the reel crooked?")
    transcript.edit("src/label.py", "1", "2")
    transcript.agent("The root cause: the label of `src/label.py` was glued on before the reel was dry.")
    for part in ("ribbon", "string", "spool", "handle", "bridle", "canvas", "spar"):
        transcript.person(f"Lengthen the {part} of the large kite")
        transcript.edit(f"src/{part}.py", "1", "2")
        transcript.edit(f"src/{part}_2.py", "1", "2")
        transcript.agent(f"Lengthened the {part} in `src/{part}.py`.")
    assert not any("root cause" in line for line in list_summary(transcript, tmp_path))


@pytest.mark.parametrize("passes_later", [False, True])
def test_a_check_that_kept_failing_in_a_subagent_is_open(tmp_path: Path, passes_later: bool) -> None:
    transcript = Transcript()
    transcript.person("Build a page that lists the kites of the shed.")
    first = len(transcript.lines)
    for _ in range(3):
        transcript.bash("npm run build", "src/page.ts(2,3): error TS2304: Cannot find name 'shed'.", code=2)
    transcript.lines[first:] = [
        line.replace('"isSidechain": false', '"isSidechain": true') for line in transcript.lines[first:]
    ]
    if passes_later:
        transcript.bash("npm run build", "built in 2s")
    transcript.agent("The page is there.")
    open_ends = [end.text for end in build_transcript_draft(transcript, tmp_path).open_ends]
    assert any("`npm run build` fails" in text for text in open_ends) is not passes_later


def test_a_remark_on_what_need_not_be_done_is_no_request(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Lengthen the seam of the ribbon")
    transcript.bash("cat src/ribbon.py", "2")
    transcript.person("no need to check anything outside of the ribbon folder")
    transcript.edit("src/ribbon.py", "2", "4")
    assert not any("no need" in end.text for end in build_transcript_draft(transcript, tmp_path).open_ends)
