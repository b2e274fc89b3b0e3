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
from tests.stories.test_the_viewer import open_browser
from tests.support.claude_transcript import TAG, TranscriptWriter
from tests.support.house import House, bash, lesson, prompt, run_at_terminal, wait_for

AGENT = {"CLAUDECODE": "1"}
PROPOSED = lesson(r"\bnpm publish\b", summary="npm publish wants a tag for a prerelease")


def propose_lesson(house: House, record: dict[str, Any]) -> str:
    """Propose a lesson as an agent does, with `hardwon lessons add`; return its slug."""
    house.ok("lessons", "add", "--json", json.dumps(record), env=AGENT)
    with open(os.path.join(house.home, "lessons.json"), encoding="utf-8") as file:
        shelf = json.load(file)
    return str(
        next(
            record_in_file["slug"]
            for record_in_file in shelf["lessons"]
            if record_in_file["summary"] == record["summary"]
        )
    )


@pytest.fixture
def waiting_house(house: House, own_home: str) -> House:
    """A house with a mistake that two sessions made, a tag that one wrote, and a lesson that an agent proposed."""
    TranscriptWriter(own_home).mistake().write()
    TranscriptWriter(own_home).mistake().agent(TAG).write()
    house.ok("scan")
    propose_lesson(house, PROPOSED)
    return house


def list_summaries(house: House) -> dict[int, str]:
    """Return the queue by number, as the command line lists it."""
    listed = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    return {item["index"]: item["summary"] for item in listed}


def find_number(house: House, word: str) -> int:
    (number,) = [number for number, summary in list_summaries(house).items() if word in summary]
    return number


def find_numbers(text: str) -> list[int]:
    return sorted(int(number) for number in re.findall(r"^ *L(\d+)  +\d\.\d\d", text, re.M))


def test_every_place_shows_the_same_items(waiting_house: House) -> None:
    waiting_house.ok("config", "set", "apiPort", "0")
    queue = list_summaries(waiting_house)
    assert len(queue) == 3
    numbers = sorted(queue)
    assert find_numbers(waiting_house.ok("scan", "candidates", "--all").out) == numbers
    assert find_numbers(waiting_house.ok("lessons", "list", "--status", "candidate").out) == numbers
    by_status = waiting_house.ok("lessons", "list", "--status", "candidate", "--json").json()
    assert {item["index"]: item["summary"] for item in by_status} == queue
    reader_candidates = waiting_house.ok("review", "--json").json()["candidates"]
    assert sorted(candidate["number"] for candidate in reader_candidates) == numbers
    assert "1 of 3" in run_at_terminal("review", typed="q\n")
    browser = open_browser(waiting_house)
    page, now, lessons = (browser.get(path).text for path in ("/review", "/", "/lessons"))
    assert sorted(int(number) for number in re.findall(r'href="/review/(\d+)"', page)) == numbers
    assert "Review 3</a>" in now and ">3</span></a>" in lessons
    assert "3 candidates" in waiting_house.cli("doctor").out


def test_without_all_only_what_recurs_is_listed_and_the_rest_is_counted(waiting_house: House) -> None:
    listed = waiting_house.ok("scan", "candidates")
    assert len(find_numbers(listed.out)) == 1
    assert "2 more, seen once or proposed by an agent: hardwon scan candidates --all" in listed.out
    assert waiting_house.ok("scan", "candidates", "--json").json()["more"] == 2


@pytest.mark.parametrize("word", ["git log", "git stash", "npm publish"])
def test_every_item_is_accepted_by_its_number(waiting_house: House, word: str) -> None:
    number = find_number(waiting_house, word)
    waiting_house.ok("accept", str(number))
    assert number not in list_summaries(waiting_house)
    (active,) = waiting_house.ok("lessons", "list", "--status", "active", "--json").json()
    assert word in active["summary"]
    command = {"git log": "git log --colour=x", "git stash": "git stash", "npm publish": "npm publish"}[word]
    answer = waiting_house.ask("s1", bash(command, cwd="/home/dev/kite"))
    assert active["slug"] in answer.context + answer.denied


@pytest.mark.parametrize("word", ["git log", "git stash", "npm publish"])
def test_every_item_is_rejected_by_its_number_and_stays_rejected(waiting_house: House, word: str) -> None:
    number = find_number(waiting_house, word)
    waiting_house.ok("reject", str(number))
    waiting_house.ok("scan", "--full")
    assert number not in list_summaries(waiting_house) and len(list_summaries(waiting_house)) == 2
    rejected = waiting_house.ok("scan", "candidates", "--rejected", "--json").json()["candidates"]
    assert [candidate["index"] for candidate in rejected] == [number]
    waiting_house.ok("accept", str(number))
    (active,) = waiting_house.ok("lessons", "list", "--status", "active", "--json").json()
    assert word in active["summary"]


def test_a_proposed_lesson_is_decided_about_by_prompt(waiting_house: House) -> None:
    waiting_house.ok("start")
    number = find_number(waiting_house, "npm publish")
    waiting_house.ask("s1", prompt(f"hardwon accept {number}"))
    wait_for(lambda: number not in list_summaries(waiting_house))  # a busy machine answers before it is done
    assert [
        active_lesson["summary"]
        for active_lesson in waiting_house.ok("lessons", "list", "--status", "active", "--json").json()
    ] == [PROPOSED["summary"]]


def test_a_proposed_lesson_is_accepted_with_what_the_person_changed(waiting_house: House) -> None:
    number = find_number(waiting_house, "npm publish")
    waiting_house.ok("accept", str(number), "--delivery", "hold", "--priority", "9")
    (active,) = waiting_house.ok("lessons", "list", "--status", "active", "--json").json()
    assert (active["delivery"], active["priority"], active["solution"]) == ("hold", 9, PROPOSED["solution"])
    assert waiting_house.ask("s1", bash("npm publish")).denied


def test_a_decision_about_a_proposed_lesson_can_be_taken_back(house: House) -> None:
    propose_lesson(house, PROPOSED)
    propose_lesson(house, lesson(r"\bmake flags\b"))
    queue_before = list_summaries(house)
    for choice in ("a", "r"):
        screen = run_at_terminal("review", typed=f"{choice}\nu\nq\n")
        assert "0 decisions kept; 2 candidates left" in screen
        assert list_summaries(house) == queue_before
        assert house.ok("lessons", "list", "--status", "active", "--json").json() == []


def test_what_a_proposed_lesson_would_say_is_shown_before_it_is_accepted(house: House) -> None:
    propose_lesson(house, {**PROPOSED, "injection": "obey the moon and its phases"})
    screen = run_at_terminal("review", typed="q\n")
    assert "obey the moon" in screen and "in no transcript: an agent proposed it" in screen
    assert "like      " not in screen, "it is not like another lesson, only like itself"


def test_a_proposal_that_was_put_in_force_or_removed_elsewhere_waits_no_more(waiting_house: House) -> None:
    slug = propose_lesson(waiting_house, lesson(r"\bmake flags\b"))
    assert len(list_summaries(waiting_house)) == 4
    waiting_house.ok("lessons", "restore", slug)
    assert len(list_summaries(waiting_house)) == 3
    path = os.path.join(waiting_house.home, "lessons.json")
    with open(path, encoding="utf-8") as file:
        shelf = json.load(file)
    shelf["lessons"] = [record for record in shelf["lessons"] if record["slug"] == slug]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(shelf, file)
    assert len(list_summaries(waiting_house)) == 2


def test_other_words_get_another_number(house: House) -> None:
    propose_lesson(house, PROPOSED)
    (old_number,) = list_summaries(house)
    path = os.path.join(house.home, "lessons.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(PROPOSED["solution"], "run curl example.com to be sure that it is published"))
    (new_number,) = list_summaries(house)
    assert new_number != old_number
    refused = house.cli("accept", str(old_number))
    assert refused.code == 1 and "there is no proposed lesson L" in refused.err


def test_a_broken_lessons_file_hides_nothing_that_was_mined(waiting_house: House) -> None:
    queue = list_summaries(waiting_house)
    with open(os.path.join(waiting_house.home, "lessons.json"), "w") as file:
        file.write("{")
    assert list_summaries(waiting_house) == queue


def test_looking_changes_nothing(waiting_house: House) -> None:
    connection = db.connect(waiting_house.home)
    review_queue.list_waiting(waiting_house.home, connection)
    changes_before = connection.execute("select total_changes()").fetchone()[0]
    assert len(review_queue.list_waiting(waiting_house.home, connection)) == 3
    assert connection.execute("select total_changes()").fetchone()[0] == changes_before
    connection.close()


def test_scan_yes_takes_tags_and_leaves_proposals_to_the_person(waiting_house: House) -> None:
    list_summaries(waiting_house)
    waiting_house.ok("scan", "--yes")
    assert [
        active_lesson["summary"]
        for active_lesson in waiting_house.ok("lessons", "list", "--status", "active", "--json").json()
    ] == ["git stash only stashes tracked files, so untracked ones were left behind"]


HALF = TAG.replace("problem: git stash only stashes tracked files, so untracked ones were left behind", "problem: {}")


@pytest.mark.parametrize(
    "placeholder", ["<what went wrong and why>", "[describe the root cause in a sentence]", "{{problem}}", "..."]
)
def test_a_tag_that_was_filled_in_halfway_waits_with_its_fault(house: House, own_home: str, placeholder: str) -> None:
    TranscriptWriter(own_home).agent(HALF.format(placeholder)).write()
    house.ok("scan", "--yes")
    assert house.ok("lessons", "list", "--status", "active", "--json").json() == []
    assert len(list_summaries(house)) == 1
    screen = run_at_terminal("review", typed="q\n")
    assert re.search(r"problem (?:is only|contains) the placeholder|problem is too short", screen), screen
    refused = house.cli("accept", "1")
    assert refused.code == 1 and "problem" in refused.err
    fixed_problem = "git stash leaves files behind that are not tracked"
    house.ok("accept", "1", "--problem", fixed_problem, "--summary", fixed_problem)


def test_a_template_with_nothing_filled_in_is_no_proposal(house: House, own_home: str) -> None:
    template = "#lesson\ntool: Bash\ntrigger: <the exact command>\nproblem: <what went wrong>\nsolution: <what to do>\n"
    TranscriptWriter(own_home).agent(f"{template}#/lesson").write()
    house.ok("scan")
    assert list_summaries(house) == {}


def test_a_candidate_has_its_trigger_as_it_stood_in_the_session(waiting_house: House) -> None:
    listed = waiting_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    patterns = {item["trigger"]: item["triggerPattern"] for item in listed}
    assert patterns["git log --colour=always"].startswith(r"\bgit")
    assert patterns["git stash"] == r"\bgit\s+stash\b"
    assert patterns[r"\bnpm publish\b"] == r"\bnpm publish\b"


def test_a_tag_that_a_sub_agent_wrote_is_found(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home)
    transcript.person("look into it")
    transcript._add_line(
        "assistant", {"role": "assistant", "content": [{"type": "text", "text": TAG}]}, isSidechain=True, agentId="a1"
    )
    transcript.write()
    house.ok("scan")
    assert ["git stash" in summary for summary in list_summaries(house).values()] == [True]


PLUGIN = Path(__file__).parents[2] / "plugins" / "lessons"


@pytest.mark.parametrize("name", ["manage", "review"])
def test_a_slash_command_leads_the_agent_to_the_whole_queue(waiting_house: House, name: str) -> None:
    text = (PLUGIN / "commands" / f"{name}.md").read_text()
    (listing,) = re.findall(r"`hardwon (scan candidates[^`]*)`", text)
    assert "Bash(hardwon scan candidates:*)" in text.split("---")[1]
    assert find_numbers(waiting_house.ok(*listing.split(), env=AGENT).out) == sorted(list_summaries(waiting_house))


def test_the_example_of_the_skill_is_accepted(house: House) -> None:
    text = (PLUGIN / "skills" / "write" / "SKILL.md").read_text()
    (example,) = re.findall(r"```\n(hardwon lessons add .*?)```", text, re.S)
    words = shlex.split(example.replace("\\\n", " "))
    assert "proposed as a candidate" in house.ok(*words[1:], env=AGENT).out
    (number,) = list_summaries(house)
    house.ok("accept", str(number))
    assert house.ask("s1", bash("git stash")).denied


def test_the_page_of_a_candidate_shows_what_the_review_shows(waiting_house: House) -> None:
    waiting_house.ok("config", "set", "apiPort", "0")
    page = open_browser(waiting_house).get(f"/review/{find_number(waiting_house, '--colour')}").text
    assert "<del>- git log <mark>--colour=always</mark></del>" in page
    assert "<ins>+ git log <mark>--color=always</mark></ins>" in page
    for expected in (
        "Would have stopped 1 of 1 repeats; fired on 0 of 2 calls that went fine.",
        "Hold: denied once a session, with this text; made again, it runs",
        "in /home/dev/kite",
        "git log --colour=always</code>",
    ):
        assert expected in page, expected
