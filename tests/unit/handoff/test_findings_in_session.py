"""Each detector of findings, with sessions it must report and sessions it must ignore."""

from __future__ import annotations

import pathlib

import pytest

from hardwon.errors import UserError
from hardwon.handoff import findings, transcript_story
from hardwon.privacy.private_tags import TAG_NAMES
from hardwon.store.reflections import FINDING_TARGETS, Evidence, ReflectionContext
from tests.support.claude_session import ROOT, ClaudeSession
from tests.support.draft_evidence import is_quote_in_source


@pytest.fixture
def session(tmp_path: pathlib.Path) -> ClaudeSession:
    return ClaudeSession(tmp_path)


def test_work_a_person_had_reverted_is_a_failed_experiment(session: ClaudeSession) -> None:
    session.person("make the kite read its own ignore file")
    session.edit("kite/ignore.py")
    session.agent("Wrote a reader for ignore files in kite/ignore.py.")
    session.person("Revert your file. We already built that.")
    session.bash("rm kite/ignore.py")
    (finding,) = session.detect(findings.detect_failed_experiments)
    assert "We already built that" in finding.text and "Wrote a reader for ignore files" in finding.text
    assert (finding.target, finding.evidence[0].quote) == ("learning", "Revert your file.")


def test_edits_that_the_agent_throws_away_with_a_reason_are_a_failed_experiment(session: ClaudeSession) -> None:
    session.person("make the string stronger")
    session.edit("kite/string.py")
    session.agent("The string snaps either way. Threading it twice was a mistake, so I take it out again.")
    session.bash(f"git restore {ROOT}/kite/string.py")
    (finding,) = session.detect(findings.detect_failed_experiments)
    assert "`git restore kite/string.py`" in finding.text and "was a mistake" in finding.text


def test_throwing_away_a_trial_rules_nothing_out(session: ClaudeSession) -> None:
    session.person("make the string stronger")
    session.edit("kite/string.py")
    session.agent("My own edits drifted from the committed tests, so I discard them and look at the committed string.")
    session.bash("git restore kite/string.py")
    assert session.detect(findings.detect_failed_experiments) == []


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("Now I clean up the build folder.", "rm -rf build"),
        ("Moving the commits to a branch of their own.", "git branch wind && git reset --hard HEAD~2"),
        ("That was wrong, and the old log is in the way.", "rm /var/log/other.log"),
        ("Let me look at the history instead.", "git log --oneline"),
    ],
)
def test_tidying_up_is_no_failed_experiment(session: ClaudeSession, words: str, command: str) -> None:
    session.person("make the string stronger")
    session.edit("kite/string.py")
    session.agent(words)
    session.bash(command)
    assert session.detect(findings.detect_failed_experiments) == []


def test_a_scratch_file_that_is_removed_is_no_failed_experiment(session: ClaudeSession) -> None:
    session.person("why does it fall?")
    session.edit("kite/repro_test.py")
    session.agent("The repro is no longer needed.")
    session.bash("rm kite/repro_test.py")
    assert session.detect(findings.detect_failed_experiments) == []


@pytest.mark.parametrize("root", ["/home/dev/playground/shop", "/home/dev/demo", "/tmp/kite"])
def test_a_project_whose_own_path_sounds_like_scratch_has_failed_experiments(tmp_path: pathlib.Path, root: str) -> None:
    session = ClaudeSession(tmp_path, root)
    session.person("make the string stronger")
    session.edit("kite/string.py")
    session.agent("Threading it twice was a mistake, so I take it out again.")
    session.bash(f"git restore {root}/kite/string.py")
    assert len(session.detect(findings.detect_failed_experiments)) == 1


def test_a_removal_that_failed_is_no_failed_experiment(session: ClaudeSession) -> None:
    session.person("make the string stronger")
    session.edit("kite/string.py")
    session.agent("That was a mistake.")
    session.bash("rm kite/string.py", "rm: cannot remove: Permission denied", failed=True)
    assert session.detect(findings.detect_failed_experiments) == []


def test_work_a_person_postponed_is_reported(session: ClaudeSession) -> None:
    session.person("could both kites share the string? fine to do it later")
    session.agent("They could.")
    session.person("let's leave the tail for a later PR")
    session.edit("kite/string.py")
    postponed = session.detect(findings.detect_postponed_work)
    assert [finding.text.partition(":")[0] for finding in postponed] == ["Put off by the person"] * 2


def test_a_private_turn_is_left_out_of_the_story(session: ClaudeSession) -> None:
    session.person(f"<{TAG_NAMES[0]}>the customer escalated</{TAG_NAMES[0]}>")
    session.agent("I assume the customer is right about that.")
    session.person("build the kite")
    session.agent("Built.")
    story = session.read_story()
    assert [step.text for step in story.steps] == ["build the kite", "Built."]


def test_a_private_part_of_a_long_text_stays_private(session: ClaudeSession) -> None:
    session.person("read the log")
    session.bash("cat log", f"<{TAG_NAMES[0]}>{'wind ' * 9_000}</{TAG_NAMES[0]}> calm")
    assert session.read_story().steps[-1].text.strip() == "calm"


def test_a_quote_never_shows_a_secret(session: ClaudeSession) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    session.person(f"let's leave the {secret} in the log out of scope, we'll handle it later")
    (finding,) = session.detect(findings.detect_postponed_work)
    assert secret not in finding.text and secret not in finding.evidence[0].quote


def test_a_quote_must_be_on_its_line(session: ClaudeSession) -> None:
    session.person("build the kite")
    story = session.read_story()
    assert is_quote_in_source(Evidence(story.path, 1, "build  the\nkite"))
    assert not is_quote_in_source(Evidence(story.path, 1, "build the boat"))
    assert not is_quote_in_source(Evidence(story.path, 7, "build the kite"))
    assert not is_quote_in_source(Evidence(story.path + "x", 1, "build the kite"))


def test_a_story_is_split_into_turns(session: ClaudeSession) -> None:
    session.person("build the kite")
    session.agent("First the frame.")
    session.edit("kite/kite.py")
    session.bash("make test", "Exit code 2\nerror: no wind", failed=True)
    session.agent("It fails without wind.")
    session.person("thanks")
    story = session.read_story()
    first, last = transcript_story.build_turns(story)
    assert (first.prompt, first.final_message, [call.outcome for call in first.calls]) == (
        "build the kite",
        "It fails without wind.",
        ["fine", "failed"],
    )
    assert (last.prompt, last.calls, story.session, story.cwd) == ("thanks", (), "5e551011", ROOT)


def test_a_file_that_is_no_transcript_is_rejected(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.jsonl").write_text("not a transcript\n")
    with pytest.raises(UserError):
        transcript_story.read_story(str(tmp_path / "notes.jsonl"))


def test_menu_names_are_unique_and_an_empty_session_has_no_findings(session: ClaudeSession) -> None:
    names, story = [item.name for item in findings.MENU], session.read_story()
    assert len(names) == len(set(names))
    assert [item for item in findings.MENU if item.detect and list(item.detect(story, ReflectionContext()))] == []


def test_items_without_a_detector_are_for_models_only() -> None:
    for_models = {item.name for item in findings.MENU if item.detect is None}
    assert for_models == {
        "implicit decisions",
        "assumptions",
        "external events",
        "naming inconsistencies",
        "velocity and cost",
        "convention disuse",
        "confidence calibration",
        "dependencies discovered",
        "peer messages",
        "code health",
        "files not noted",
        "tone",
        "time of day",
        "outcome",
    }


def test_findings_are_sorted_by_score_and_name_a_target(session: ClaudeSession) -> None:
    session.person("make the string stronger, but leave the tail for a later PR")
    session.agent("Fine.")
    session.edit("kite/string.py")
    session.agent("Threading it twice was a mistake, so I take it out again.")
    session.bash("git restore kite/string.py")
    session.person("and paint it red")
    detected = findings.detect_findings(session.read_story(), ReflectionContext())
    assert [finding.score for finding in detected] == sorted((finding.score for finding in detected), reverse=True)
    assert {finding.item for finding in detected} >= {"failed experiments", "not done"}
    assert all(
        finding.target in FINDING_TARGETS and finding.item in {item.name for item in findings.MENU}
        for finding in detected
    )
