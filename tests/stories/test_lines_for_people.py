"""What the terminal says is in whole words: a name can be copied, and one thing is not several."""

from __future__ import annotations

from tests.support.house import House, bash, lesson, prompt


def test_a_slug_can_be_copied_from_what_was_delivered(house: House) -> None:
    summary = "a made-up lesson with a summary that is as long as they come in this house"
    slug = house.add(lesson(r"\bmake\b", summary=summary))
    house.ask("s1", bash("make kite"))
    output = house.ok("deliveries", env={"COLUMNS": "80"}).out
    assert slug in output.split() and summary in " ".join(output.split())
    assert all(len(line) <= 80 for line in output.splitlines())


def test_one_session_is_printed_in_the_singular(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ask("s1", prompt("mend the kite"))
    house.hook("Stop", b'{"session_id": "s1", "hook_event_name": "Stop", "cwd": "/home/dev/project"}')
    house.stored("sessions")
    assert "1 session, 1 prompt, 1 event" in house.ok("status").out
    assert "1 session, " in house.cli("doctor").out
    assert "sessions 1, prompts 1" in house.ok("purge", "--session", "s1", "--dry-run").out
