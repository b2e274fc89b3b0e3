"""What waits for a person is one queue: the same items under the same numbers wherever one looks."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from hardwon.lessons import review_queue
from hardwon.store import db
from tests.stories.test_the_viewer import opened
from tests.support.claude_transcript import TAG, TranscriptWriter
from tests.support.house import House, bash, lesson, prompt, run_at_terminal, wait_for

AGENT = {"CLAUDECODE": "1"}
PROPOSED = lesson(r"\bnpm publish\b", summary="npm publish wants a tag for a prerelease")


def propose(house: House, record: dict[str, Any]) -> str:
    """A lesson that an agent proposes with `hardwon lessons add`; its slug."""
    house.ok("lessons", "add", "--json", json.dumps(record), env=AGENT)
    with open(os.path.join(house.home, "lessons.json"), encoding="utf-8") as file:
        shelf = json.load(file)
    return str(next(one["slug"] for one in shelf["lessons"] if one["summary"] == record["summary"]))


@pytest.fixture
def waiting(house: House, own_home: str) -> House:
    """A mistake that two sessions made, a tag that one wrote, and a lesson that an agent proposed."""
    TranscriptWriter(own_home).mistake().write()
    TranscriptWriter(own_home).mistake().agent(TAG).write()
    house.ok("scan")
    propose(house, PROPOSED)
    return house


def summaries(house: House) -> dict[int, str]:
    """The whole queue, as the command line lists it."""
    listed = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    return {item["index"]: item["summary"] for item in listed}


def number_of(house: House, word: str) -> int:
    (number,) = [number for number, summary in summaries(house).items() if word in summary]
    return number


def numbers_in(text: str) -> list[int]:
    return sorted(int(number) for number in re.findall(r"^ *L(\d+)  +\d\.\d\d", text, re.M))


def test_every_place_shows_the_same_items(waiting: House) -> None:
    waiting.ok("config", "set", "apiPort", "0")
    everything = summaries(waiting)
    assert len(everything) == 3
    numbers = sorted(everything)
    assert numbers_in(waiting.ok("scan", "candidates", "--all").out) == numbers
    assert numbers_in(waiting.ok("lessons", "list", "--status", "candidate").out) == numbers
    by_status = waiting.ok("lessons", "list", "--status", "candidate", "--json").json()
    assert {item["index"]: item["summary"] for item in by_status} == everything
    read = waiting.ok("review", "--json").json()["candidates"]
    assert sorted(one["number"] for one in read) == numbers
    assert "1 of 3" in run_at_terminal("review", typed="q\n")
    browser = opened(waiting)
    page, now, lessons = (browser.get(path).text for path in ("/review", "/", "/lessons"))
    assert sorted(int(number) for number in re.findall(r'href="/review/(\d+)"', page)) == numbers
    assert "Review 3</a>" in now and ">3</span></a>" in lessons
    assert "3 candidates" in waiting.cli("doctor").out


def test_without_all_only_what_recurs_is_listed_and_the_rest_is_counted(waiting: House) -> None:
    listed = waiting.ok("scan", "candidates")
    assert len(numbers_in(listed.out)) == 1
    assert "2 more, seen once or proposed by an agent: hardwon scan candidates --all" in listed.out
    assert waiting.ok("scan", "candidates", "--json").json()["more"] == 2


@pytest.mark.parametrize("word", ["git log", "git stash", "npm publish"])
def test_every_item_is_accepted_by_its_number(waiting: House, word: str) -> None:
    number = number_of(waiting, word)
    waiting.ok("accept", str(number))
    assert number not in summaries(waiting)
    (active,) = waiting.ok("lessons", "list", "--status", "active", "--json").json()
    assert word in active["summary"]
    command = {"git log": "git log --colour=x", "git stash": "git stash", "npm publish": "npm publish"}[word]
    answer = waiting.ask("s1", bash(command, cwd="/home/dev/kite"))
    assert active["slug"] in answer.context + answer.denied


@pytest.mark.parametrize("word", ["git log", "git stash", "npm publish"])
def test_every_item_is_rejected_by_its_number_and_stays_rejected(waiting: House, word: str) -> None:
    number = number_of(waiting, word)
    waiting.ok("reject", str(number))
    waiting.ok("scan", "--full")
    assert number not in summaries(waiting) and len(summaries(waiting)) == 2
    rejected = waiting.ok("scan", "candidates", "--rejected", "--json").json()["candidates"]
    assert [one["index"] for one in rejected] == [number]
    waiting.ok("accept", str(number))
    (active,) = waiting.ok("lessons", "list", "--status", "active", "--json").json()
    assert word in active["summary"]


def test_a_proposed_lesson_is_decided_about_by_prompt(waiting: House) -> None:
    waiting.ok("start")
    number = number_of(waiting, "npm publish")
    waiting.ask("s1", prompt(f"hardwon accept {number}"))
    wait_for(lambda: number not in summaries(waiting))  # a busy machine answers before it is done
    assert [one["summary"] for one in waiting.ok("lessons", "list", "--status", "active", "--json").json()] == [
        PROPOSED["summary"]
    ]


def test_a_proposed_lesson_is_accepted_with_what_the_person_changed(waiting: House) -> None:
    number = number_of(waiting, "npm publish")
    waiting.ok("accept", str(number), "--delivery", "hold", "--priority", "9")
    (active,) = waiting.ok("lessons", "list", "--status", "active", "--json").json()
    assert (active["delivery"], active["priority"], active["solution"]) == ("hold", 9, PROPOSED["solution"])
    assert waiting.ask("s1", bash("npm publish")).denied


def test_a_decision_about_a_proposed_lesson_can_be_taken_back(house: House) -> None:
    propose(house, PROPOSED)
    propose(house, lesson(r"\bmake flags\b"))
    before = summaries(house)
    for choice in ("a", "r"):
        seen = run_at_terminal("review", typed=f"{choice}\nu\nq\n")
        assert "0 decisions kept; 2 candidates left" in seen
        assert summaries(house) == before
        assert house.ok("lessons", "list", "--status", "active", "--json").json() == []


def test_what_a_proposed_lesson_would_say_is_shown_before_it_is_accepted(house: House) -> None:
    propose(house, {**PROPOSED, "injection": "obey the moon and its phases"})
    seen = run_at_terminal("review", typed="q\n")
    assert "obey the moon" in seen and "in no transcript: an agent proposed it" in seen
    assert "like      " not in seen, "it is not like another lesson, only like itself"


def test_a_proposal_that_was_put_in_force_or_removed_elsewhere_waits_no_more(waiting: House) -> None:
    slug = propose(waiting, lesson(r"\bmake flags\b"))
    assert len(summaries(waiting)) == 4
    waiting.ok("lessons", "restore", slug)
    assert len(summaries(waiting)) == 3
    path = os.path.join(waiting.home, "lessons.json")
    with open(path, encoding="utf-8") as file:
        shelf = json.load(file)
    shelf["lessons"] = [one for one in shelf["lessons"] if one["slug"] == slug]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(shelf, file)
    assert len(summaries(waiting)) == 2


def test_other_words_get_another_number(house: House) -> None:
    propose(house, PROPOSED)
    (before,) = summaries(house)
    path = os.path.join(house.home, "lessons.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(PROPOSED["solution"], "run curl example.com to be sure that it is published"))
    (after,) = summaries(house)
    assert after != before
    gone = house.cli("accept", str(before))
    assert gone.code == 1 and "there is no proposed lesson L" in gone.err


def test_a_broken_lessons_file_hides_nothing_that_was_mined(waiting: House) -> None:
    everything = summaries(waiting)
    with open(os.path.join(waiting.home, "lessons.json"), "w") as file:
        file.write("{")
    assert summaries(waiting) == everything


def test_looking_changes_nothing(waiting: House) -> None:
    connection = db.connect(waiting.home)
    review_queue.list_waiting(waiting.home, connection)
    before = connection.execute("select total_changes()").fetchone()[0]
    assert len(review_queue.list_waiting(waiting.home, connection)) == 3
    assert connection.execute("select total_changes()").fetchone()[0] == before
    connection.close()


def test_scan_yes_takes_tags_and_leaves_proposals_to_the_person(waiting: House) -> None:
    summaries(waiting)
    waiting.ok("scan", "--yes")
    assert [one["summary"] for one in waiting.ok("lessons", "list", "--status", "active", "--json").json()] == [
        "git stash only stashes tracked files, so untracked ones were left behind"
    ]


HALF = TAG.replace("problem: git stash only stashes tracked files, so untracked ones were left behind", "problem: {}")


@pytest.mark.parametrize(
    "placeholder", ["<what went wrong and why>", "[describe the root cause in a sentence]", "{{problem}}", "..."]
)
def test_a_tag_that_was_filled_in_halfway_waits_with_its_fault(house: House, own_home: str, placeholder: str) -> None:
    TranscriptWriter(own_home).agent(HALF.format(placeholder)).write()
    house.ok("scan", "--yes")
    assert house.ok("lessons", "list", "--status", "active", "--json").json() == []
    assert len(summaries(house)) == 1
    seen = run_at_terminal("review", typed="q\n")
    assert re.search(r"problem (?:is only|contains) the placeholder|problem is too short", seen), seen
    refused = house.cli("accept", "1")
    assert refused.code == 1 and "problem" in refused.err
    mended = "git stash leaves files behind that are not tracked"
    house.ok("accept", "1", "--problem", mended, "--summary", mended)


def test_a_template_with_nothing_filled_in_is_no_proposal(house: House, own_home: str) -> None:
    template = "#lesson\ntool: Bash\ntrigger: <the exact command>\nproblem: <what went wrong>\nsolution: <what to do>\n"
    TranscriptWriter(own_home).agent(f"{template}#/lesson").write()
    house.ok("scan")
    assert summaries(house) == {}


def test_a_candidate_has_its_trigger_as_it_stood_in_the_session(waiting: House) -> None:
    listed = waiting.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    told = {item["trigger"]: item["triggerPattern"] for item in listed}
    assert told["git log --colour=always"].startswith(r"\bgit")
    assert told["git stash"] == r"\bgit\s+stash\b"
    assert told[r"\bnpm publish\b"] == r"\bnpm publish\b"


def test_a_tag_that_a_sub_agent_wrote_is_found(house: House, own_home: str) -> None:
    told = TranscriptWriter(own_home)
    told.person("look into it")
    told._add_line(
        "assistant", {"role": "assistant", "content": [{"type": "text", "text": TAG}]}, isSidechain=True, agentId="a1"
    )
    told.write()
    house.ok("scan")
    assert ["git stash" in summary for summary in summaries(house).values()] == [True]


PLUGIN = Path(__file__).parents[2] / "plugins" / "lessons"


@pytest.mark.parametrize("name", ["manage", "review"])
def test_a_slash_command_leads_the_agent_to_the_whole_queue(waiting: House, name: str) -> None:
    text = (PLUGIN / "commands" / f"{name}.md").read_text()
    (listing,) = re.findall(r"`hardwon (scan candidates[^`]*)`", text)
    assert "Bash(hardwon scan candidates:*)" in text.split("---")[1]
    assert numbers_in(waiting.ok(*listing.split(), env=AGENT).out) == sorted(summaries(waiting))


def test_the_example_of_the_skill_is_accepted(house: House) -> None:
    text = (PLUGIN / "skills" / "write" / "SKILL.md").read_text()
    (example,) = re.findall(r"```\n(hardwon lessons add .*?)```", text, re.S)
    words = shlex.split(example.replace("\\\n", " "))
    assert "proposed as a candidate" in house.ok(*words[1:], env=AGENT).out
    (number,) = summaries(house)
    house.ok("accept", str(number))
    assert house.ask("s1", bash("git stash")).denied


def test_the_page_of_a_candidate_shows_what_the_review_shows(waiting: House) -> None:
    waiting.ok("config", "set", "apiPort", "0")
    page = opened(waiting).get(f"/review/{number_of(waiting, '--colour')}").text
    assert "<del>- git log <mark>--colour=always</mark></del>" in page
    assert "<ins>+ git log <mark>--color=always</mark></ins>" in page
    for shown in (
        "Would have stopped 1 of 1 repeats; fired on 0 of 2 calls that went fine.",
        "Hold: denied once a session, with this text; made again, it runs",
        "in /home/dev/kite",
        "git log --colour=always</code>",
    ):
        assert shown in page, shown
