"""What a draft tells still held when the session ended, and a part is not told as the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardwon.handoff import transcript_story
from hardwon.handoff.draft import Draft, build_draft
from hardwon.handoff.statements import continues_cut_text
from tests.support.made_up_transcripts import Transcript

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
PLAN = "# Plan: Sew a longer tail\n\n## Step 1: Cut the silk\n\n## Step 2: Sew it"


def build_transcript_draft(transcript: Transcript, folder: Path) -> Draft:
    return build_draft(transcript_story.read_story(transcript.write(folder)))


def list_summary(transcript: Transcript, folder: Path) -> list[str]:
    return [line.text for line in build_transcript_draft(transcript, folder).summary]


@pytest.mark.parametrize(
    ("result", "failed", "lead", "words"),
    [
        ("User has approved your plan. You can now start coding.", False, "Plan not done yet: ", ""),
        (REFUSED, True, "Plan at the end of the session, nothing of it done: ", ""),
        (
            f"{REFUSED} To tell you how to proceed, the user said:\nuse nylon for it",
            True,
            "Plan at the end of the session, nothing of it done: ",
            "; you said: “use nylon for it”",
        ),
    ],
)
def test_a_plan_is_told_as_agreed_only_if_the_person_agreed(
    tmp_path: Path, result: str, failed: bool, lead: str, words: str
) -> None:
    transcript = Transcript()
    transcript.person("Plan how to sew a longer tail for the kite.")
    transcript.call("ExitPlanMode", {"plan": PLAN}, result, failed=failed)
    (step,) = build_transcript_draft(transcript, tmp_path).open_ends
    assert step.text == f"{lead}“Sew a longer tail”, “Step 1: Cut the silk”, “Step 2: Sew it”{words}"


def test_files_changed_after_a_commit_that_was_rewritten_are_not_told_as_never_committed(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail and commit it.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash('git commit -qam "Sew a longer tail"')
    transcript.bash("git rebase -i main", "Successfully rebased and updated refs/heads/tail.")
    transcript.edit("src/reel.py", "2", "4")
    (line,) = [line.text for line in build_transcript_draft(transcript, tmp_path).resume if "reel.py" in line.text]
    assert line == "Changed after the last commit: src/reel.py"


def test_changes_put_aside_and_taken_back_are_still_uncommitted(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash("git stash && make sway; git stash pop", "Dropped refs/stash@{0}")
    transcript.edit("src/reel.py", "2", "4")
    transcript.agent("The seam is sewn.")
    assert [line.text for line in build_transcript_draft(transcript, tmp_path).resume] == [
        "Changed, and not committed by the agent: src/tail.py and src/reel.py"
    ]


def test_an_item_of_a_list_is_told_with_the_others_about_the_request_and_their_number(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail for the kite.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent(
        "Done:\n\n- Moved the seam of the tail to `src/tail.py`.\n- Renamed `sway` to `swing` in the reel.\n"
        "- Added `tail_length` to the kite."
    )
    assert list_summary(transcript, tmp_path) == [
        "“Sew a longer tail for the kite.” → “Moved the seam of the tail to `src/tail.py`.”, "
        "“Added `tail_length` to the kite.” and 1 more"
    ]


def test_an_outcome_that_the_next_prompt_corrects_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Write the length of the tail into the guide of the kite.")
    transcript.edit("docs/guide.md", "", "The tail is 4 m long.")
    transcript.agent("Updated `docs/guide.md` with a tail of 4 m.")
    transcript.person("sorry, the tail of the kite should be 6 m long")
    transcript.edit("docs/guide.md", "4", "6")
    transcript.agent("Changed the length of the tail to 6 m in `docs/guide.md`.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "4 m" not in text and "6 m" in text


def test_a_report_on_an_earlier_request_is_not_told_as_the_outcome_of_the_last(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Let the reel of the kite stop winding when the string is short.")
    transcript.edit("src/reel.py", "a", "b")
    transcript.person("I think the lamp does that, see its switch")
    transcript.edit("src/lamp.py", "a", "b")
    transcript.agent("`src/reel.py` now stops winding the reel when the string is short, by its own switch.")
    assert list_summary(transcript, tmp_path) == [
        "“`src/reel.py` now stops winding the reel when the string is short, by its own switch.”"
    ]


@pytest.mark.parametrize(
    "request_text", ["Investigate why the tail of the kite sways.", "there are knots in the tail?"]
)
def test_work_agreed_to_after_an_answer_is_not_the_outcome_of_the_question(tmp_path: Path, request_text: str) -> None:
    transcript = Transcript()
    transcript.person(request_text)
    transcript.bash("grep -rn tail src", "src/tail.py:1:length = 2")
    transcript.agent("The tail is short. I would sew a longer one.")
    transcript.person("implement changes")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Sewed 2 m to the tail of the kite and moved the knots into `src/knots.py`.")
    assert not [line for line in list_summary(transcript, tmp_path) if request_text in line and "Sewed" in line]


def test_a_state_that_later_calls_may_have_changed_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Start the wind server of the kite on the old branch.")
    transcript.edit("src/server.py", "a", "b")
    transcript.agent("The wind server of the kite is running on port 80, and `old-branch` is checked out.")
    transcript.person("Sew a longer tail for the kite.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Moved the seam of the tail to `src/tail.py`.")
    assert [line for line in list_summary(transcript, tmp_path) if "running" in line] == []


def test_a_name_that_was_changed_later_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Point the links of the guide to the new kite repository.")
    transcript.edit("docs/guide.md", "a", "b")
    transcript.agent("All links of the guide now point to `kites.example/kite`.")
    transcript.person("We renamed it once more from `kites.example/kite` to `kites.example/kite-sky`, fix the links.")
    transcript.edit("docs/guide.md", "b", "c")
    transcript.agent("All links of the guide now point to `kites.example/kite-sky`.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "point to `kites.example/kite`." not in text and "point to `kites.example/kite-sky`." in text


@pytest.mark.parametrize(
    ("closing", "is_told"),
    [
        ("Pre-commit hook ran everything: 40 tests pass, lint clean.", True),
        ("Two tests do not pass, lint is clean.", False),
        ("All tests should pass now.", False),
    ],
)
def test_what_the_agent_says_of_unseen_checks_is_quoted(tmp_path: Path, closing: str, is_told: bool) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail and commit it.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash('git commit -am "Sew a longer tail"', "[main 1a2b3c4] Sew a longer tail\n 1 file changed")
    transcript.agent(f"Committed. {closing}")
    assert (f"“{closing}”" in list_summary(transcript, tmp_path)) == is_told


def test_a_review_is_told_by_the_first_of_its_numbered_findings(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the commits of this branch against main.")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent(
        "**Findings**\n\n1. `src/reel.py:18` The reel never stops at the end of the string.\n\n"
        "2. `src/tail.py:4` The tail is cut where its seam begins."
    )
    assert list_summary(transcript, tmp_path) == [
        "“Review the commits of this branch against main.” → "
        "“`src/reel.py:18` The reel never stops at the end of the string.” and 1 more"
    ]


def test_advice_that_answers_a_question_is_no_earlier_step(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Do we need the lamp of the kite?")
    transcript.agent("Recommendation: keep it only if you plan to fly the kite at night.")
    transcript.person("Sew a longer tail for the kite.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Moved the seam of the tail to `src/tail.py`.")
    assert [line for line in build_transcript_draft(transcript, tmp_path).open_ends if "night" in line.text] == []


def test_another_way_to_look_at_a_file_is_no_lesson(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Find the tabs in the tail of the kite.")
    transcript.bash("cat -A src/tail.py", "cat: illegal option -- A\nusage: cat [-belnstuv] [file ...]", code=1)
    transcript.bash("cat -v src/tail.py", "length = 2")
    transcript.agent("It has no tabs.")
    assert build_transcript_draft(transcript, tmp_path).lessons == ()


def test_work_that_was_replaced_by_the_alternative_the_agent_offered_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew the tail of the kite to the frame.")
    transcript.edit("src/tail.py", "glue", "silk")
    transcript.agent("The tail of the kite is now sewn to the frame with `silk`.")
    transcript.person("what does nylon do?")
    transcript.agent("`nylon` is lighter. Shall I use nylon for the tail instead?")
    transcript.person("yes please")
    transcript.edit("src/tail.py", "silk", "nylon")
    transcript.agent("Replaced the seam of the tail in `src/tail.py` by nylon.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "with `silk`" not in text and "by nylon" in text


def test_what_a_later_prompt_orders_to_remove_is_not_told(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("The pictures of the guide do not move.")
    transcript.edit("docs/guide.md", "png", "gif")
    transcript.agent("Changed the pictures of `docs/guide.md` to ribbons of `gifs`.")
    transcript.person("would a link be better? remove the gifs please")
    transcript.edit("docs/guide.md", "gif", "link")
    transcript.agent("Replaced them by a link in `docs/guide.md`.")
    assert [line for line in list_summary(transcript, tmp_path) if "ribbons of" in line] == []


def test_that_the_last_commit_is_not_pushed_is_told_with_it(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail and commit it.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash('git commit -am "Sew a longer tail"', "[main 1a2b3c4] Sew a longer tail\n 1 file changed")
    transcript.agent(
        "Committed the longer tail to `main`. Not pushed and no PR opened, say the word if you want either."
    )
    assert [line.text for line in build_transcript_draft(transcript, tmp_path).resume] == [
        "The last commit is 1a2b3c4 on main, not pushed"
    ]


@pytest.mark.parametrize(
    ("closing", "order"),
    [
        ("Implemented the seam of the tail in `src/tail.py` and did not commit.", "Lengthen the tail by 2 m."),
        ("Opened the seam of the tail in `src/tail.py` as a stacked kite.", "it shouldn't need to be stacked, mend it"),
    ],
)
def test_what_later_work_made_untrue_is_not_told(tmp_path: Path, closing: str, order: str) -> None:
    transcript = Transcript()
    transcript.person("Sew the seam of the tail of the kite.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent(closing)
    transcript.person(order)
    transcript.edit("src/tail.py", "4", "6")
    transcript.agent("Done with it.")
    assert [line for line in list_summary(transcript, tmp_path) if "did not commit" in line or "stacked" in line] == []


def test_work_that_the_agent_offered_is_not_the_outcome_of_a_request_for_an_opinion(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("can you revbiew the tail of the kite and its knots?")
    transcript.bash("cat src/tail.py", "length = 2")
    transcript.agent("The tail is short. Shall I sew 2 m to it?")
    transcript.person("yes")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Sewed 2 m to the tail of the kite and moved the knots into `src/knots.py`.")
    assert list_summary(transcript, tmp_path)[-1] == (
        "“Sewed 2 m to the tail of the kite and moved the knots into `src/knots.py`.”"
    )


def list_resume(transcript: Transcript, folder: Path) -> list[str]:
    return [line.text for line in build_transcript_draft(transcript, folder).resume]


def test_a_commit_is_known_by_what_its_push_prints(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail for the kite.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Sewed 2 m to the tail of the kite in `src/tail.py`. Shall I commit it?")
    transcript.person("yxes, commit and push I handle communication")
    transcript.bash(
        "git add -A && git commit -q -F - <<'EOF' && git push 2>&1 | tail -2\nLengthen the silk\n\nIt swayed.\nEOF",
        "To kites.example:kite.git\n   1a2b3c4..5d6e7f8  tail -> tail",
    )
    transcript.agent("Committed and pushed `5d6e7f8`.")
    assert list_resume(transcript, tmp_path) == ["The last commit is 5d6e7f8 on tail, pushed"]
    assert list_summary(transcript, tmp_path)[-1] == "Committed 5d6e7f8: “Lengthen the silk”"


@pytest.mark.parametrize("next_request", ["Now review the branch of the reel.", "What is the reel made of?"])
def test_a_cause_that_a_review_names_is_not_told_after_other_work(tmp_path: Path, next_request: str) -> None:
    transcript = Transcript()
    transcript.person("Review the branch of the tail.")
    transcript.bash("git diff main", "+length = 2")
    transcript.agent("The root cause is real: the tail fails to hold because its seam was cut in `src/tail.py`.")
    transcript.person(next_request)
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent("**Findings**\n\n1. `src/reel.py:18` The reel never stops at the end of the string.")
    transcript.person("Mend the end of the string in the reel.")
    transcript.edit("src/reel.py", "a", "b")
    transcript.agent("Mended the reel of the kite in `src/reel.py`.")
    assert [line for line in list_summary(transcript, tmp_path) if "root cause" in line] == []


def test_nothing_is_said_of_changes_before_the_person_switched_the_branch(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.branch = "main"
    transcript.person("Sew a longer tail.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("The seam is sewn.")
    transcript.branch = "tail"
    transcript.person("Thanks, what is the reel made of?")
    transcript.agent("It is made of wood.")
    assert list_resume(transcript, tmp_path) == []


def test_nothing_is_said_of_changes_in_a_clean_working_tree(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash("git status", "On branch main\nnothing to commit, working tree clean")
    transcript.agent("The seam is sewn.")
    assert list_resume(transcript, tmp_path) == []


def test_a_file_of_another_repository_is_not_told_as_changed(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail, also in the shop.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.bash("cd /home/dev/shop && sed -i 's/2/4/' src/price.py")
    transcript.agent("The seam is sewn.")
    assert list_resume(transcript, tmp_path) == ["Changed, and not committed by the agent: src/tail.py"]


def test_what_stood_in_the_way_before_the_person_chose_is_not_the_outcome(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("I'd like to add a lamp to the tail of the kite.")
    transcript.bash("git tag --list; ls src", "v1\ntail.py")
    transcript.bash("gh release view v1", "release not found")
    transcript.agent(
        "One thing is in the way: the tail of the kite has no `socket` for a lamp in `src/tail.py`.\n\n"
        "**A.** Sew a socket first.\n\n**B.** Hang the lamp below the frame.\n\nWhich way?"
    )
    transcript.person("can we have B in the same kite? I'd be fine with that")
    transcript.edit("src/frame.py", "", "lamp")
    transcript.agent("Hung the lamp below the frame in `src/frame.py`.")
    text = "\n".join(list_summary(transcript, tmp_path))
    assert "socket" not in text and "Hung the lamp" in text


@pytest.mark.parametrize(
    "closing",
    [
        "The tail of the kite still hangs at `old_frame`.",
        "The tail of the kite is not sewn to the `frame` yet.",
        "You could cut the tail of the kite with `snip`.",
    ],
)
def test_what_the_work_left_as_it_was_is_no_outcome(tmp_path: Path, closing: str) -> None:
    transcript = Transcript()
    transcript.person("Hang the tail of the kite at the new frame.")
    transcript.edit("src/tail.py", "old", "new")
    transcript.agent(f"All clean.\n\n1. {closing}")
    assert [line for line in list_summary(transcript, tmp_path) if closing in line] == []


def test_somebody_elses_words_in_a_prompt_are_not_its_request(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person(
        "got a question: How does the reel of the kite stop?\n\nA friend said this is related:\n\n"
        "The reel counts the turns of the string (src/reel.py:18), so each turn stops on its own, and the tail of the "
        "kite is found in the sky.\n\nCan you help me understand it?"
    )
    transcript.bash("cat src/reel.py", "def stop(): ...")
    transcript.agent("Half right. The reel stops by `stop()` in `src/reel.py` at the end of the string.")
    assert [line for line in list_summary(transcript, tmp_path) if "counts the turns" in line] == []


@pytest.mark.parametrize(
    ("later_prompt", "newer_plan", "is_told"),
    [
        ("", "", True),
        ("I'm confused, the tail is wrong in the sky.", "", False),
        ("Plan a lamp for the kite.", "# Plan: Add a lamp\n\n1. Wire it", False),
    ],
)
def test_a_check_of_a_plan_by_hand_is_told_until_the_person_tried_it(
    tmp_path: Path, later_prompt: str, newer_plan: str, is_told: bool
) -> None:
    transcript = Transcript()
    transcript.carry_plan(f"{PLAN}\n\n## Verification\n\n- Manual test: fly the kite with a long tail")
    transcript.edit("src/tail.py", "2", "4")
    transcript.agent("Sewed the tail in `src/tail.py`.")
    if later_prompt:
        transcript.person(later_prompt)
        if newer_plan:
            transcript.call("ExitPlanMode", {"plan": newer_plan}, REFUSED, failed=True)
        transcript.agent("I see.")
    steps = [line.text for line in build_transcript_draft(transcript, tmp_path).open_ends]
    assert any(step.startswith("To check by hand") for step in steps) == is_told


@pytest.mark.parametrize("result", ["", REFUSED])
def test_a_commit_that_did_not_run_leaves_the_changes_uncommitted(tmp_path: Path, result: str) -> None:
    transcript = Transcript()
    transcript.person("Sew a longer tail.")
    transcript.edit("src/tail.py", "2", "4")
    transcript.call("Bash", {"command": 'git commit -am "Sew a longer tail"'}, result, failed=bool(result))
    if result:
        transcript.agent("The seam of the tail is sewn.")
    else:
        transcript.lines.pop()  # the session ended before the command did
    assert "Changed, and not committed by the agent: src/tail.py" in list_resume(transcript, tmp_path)


def test_a_step_is_told_once(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Review the commits of this branch against main.")
    transcript.bash("git diff main", "+def reel(): ...")
    transcript.agent(
        "The tail of the kite is longer.\n\n- **The seam is not stable** (`src/seam.py:3`). It is cut where the tail "
        "begins. If stable seams are out of scope, fine, but the name is misleading; document the limitation in the "
        "guide.\n\n## Summary\n\nFunctionally close to ready. Before merging I'd want: the `sway` fix of the tail, a "
        "test of the `reel`, and either tightening `seam` or removing it from the kite."
    )
    draft = build_transcript_draft(transcript, tmp_path)
    text = "\n".join(line.text for line in (*draft.summary, *draft.resume))
    assert text.count("the `sway` fix of the tail") == 1
    assert "If stable seams" not in text


def test_a_text_continues_one_that_was_cut_in_it() -> None:
    cut_text = "Sew the tail. The knots of the reel and the string …"
    assert continues_cut_text("The knots of the reel and the string are good follow-ups.", cut_text)
    assert not continues_cut_text("The lamp of the reel is a good follow-up.", cut_text)


def test_a_version_that_a_later_command_replaced_is_not_told(tmp_path: Path) -> None:
    for later_version, expected_count in (("1.3.0", 0), ("1.2.0", 1)):
        transcript = Transcript()
        transcript.person("Bump the reel library of the kite.")
        transcript.edit("package.json", "1.1.0", "1.2.0")
        transcript.agent("The kite now has silk-reel 1.2.0, which closes the alert.")
        transcript.person("ok, and the newest one?")
        transcript.bash(f"npm install silk-reel@{later_version}")
        told = [line for line in list_summary(transcript, tmp_path) if "silk-reel 1.2.0" in line]
        assert len(told) == expected_count


def test_a_short_order_with_a_number_is_what_was_asked_last(tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.person("Why did you not take a newer reel library?")
    transcript.edit("package.json", "1.1.0", "1.2.0")
    transcript.agent("1.3.0 brings a new spool.")
    transcript.person("do 1.3.0")
    transcript.agent("Now amending the commit.")
    transcript.bash("git commit --amend --no-edit")
    (step,) = build_transcript_draft(transcript, tmp_path).open_ends
    assert step.text == "Under way when the session ended: “Now amending the commit.” (asked: “do 1.3.0”)"
