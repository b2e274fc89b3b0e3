"""What is purged is gone: from the database, its log, the backups, the spool, the logs, and every file of the home."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest

from hardwon.handoff import memory_queue
from hardwon.types import Turn, replace
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import GIT_STASH, House, bash, failed, happened, lesson, prompt, used

UNASKED = Turn(session_row_id=1, number=1, at=0.0, agent="claude-code", name="", project="", cwd="")
TEXT = 'Quokka Zanzibar-7731 "naïve" pelican'


def spellings(text: str) -> Iterator[bytes]:
    """The text as it may stand in some file, and inner parts of it."""
    parts = [text, text[3:-3], text[8:20], text[5:17], text.replace(" ", "-").lower()[:14]]
    for part in parts:
        for spelled in {part, part.lower(), part.upper(), json.dumps(part)[1:-1], json.dumps(json.dumps(part))[3:-3]}:
            yield spelled.encode()
            yield spelled.encode("utf-16-le")
            yield spelled.encode("utf-16-be")


def holding(folder: str, text: str) -> list[str]:
    """Every file below a folder that holds the text in some spelling, found by its bytes."""
    found = []
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            if any(spelled in data for spelled in spellings(text)):
                found.append(os.path.relpath(path, folder))
    return sorted(found)


@pytest.fixture
def planted(house: House, own_home: str) -> House:
    """A home in which the text went wherever it can go, beside what has nothing to do with it."""
    house.session_start("s1")
    house.ask("s1", prompt("an innocent question"))
    house.ask("s1", prompt(f"look for {TEXT} please"))
    house.ask("s1", used("Bash", {"command": f"grep '{TEXT}' notes"}, {"stdout": f"1: {TEXT}\n"}))
    house.ask("s1", failed("Bash", {"command": "make kite"}, "Exit code 2\nmake: no rule"))
    house.ask("s1", happened("Stop", last_assistant_message=f"I found {TEXT.upper()}"))
    told = TranscriptWriter(own_home, session="mined").fails(f"git log --grep={TEXT}", f"fatal: bad thing {TEXT}")
    told.agent(f"The problem is that {TEXT} is no pattern.").works(f"git log -- {TEXT}").write()
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("backup")
    house.ok("stop")
    house.stay_cold()
    house.ask("s2", prompt(f"cold: {TEXT}"))
    house.ask("s3", prompt("cold and innocent"))
    os.makedirs(os.path.join(house.home, "logs"), exist_ok=True)
    with open(os.path.join(house.home, "logs", "worker.log"), "a") as file:
        file.write(f"2026-11-01T10:00:00Z INFO an odd line with {TEXT}\n2026-11-01T10:00:01Z INFO a good line\n")
    queue = os.path.join(own_home, ".claude", "memory_queue")
    os.makedirs(queue)
    with open(os.path.join(queue, "draft.md"), "w") as file:
        file.write(f"remember {TEXT}\n")
    return house


def test_a_purged_text_is_in_no_file_of_the_home(planted: House, own_home: str) -> None:
    assert len(holding(planted.home, TEXT)) >= 4
    ran = planted.cli("purge", "--text", TEXT, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert holding(planted.home, TEXT) == []
    assert holding(os.path.join(own_home, ".claude", "memory_queue"), TEXT) == []
    assert "mined.jsonl still holds it" in ran.out and "every file of the home" in ran.out
    with open(os.path.join(planted.home, "logs", "worker.log")) as file:
        assert "a good line" in file.read()
    assert [row["prompt"] for row in planted.stored("prompts")] == ["an innocent question", "cold and innocent"]
    assert len(planted.ok("scan", "candidates", "--all", "--json").json()["candidates"]) == 1


def test_the_next_scan_does_not_bring_it_back(planted: House) -> None:
    planted.ok("purge", "--text", TEXT, "--yes")
    planted.ok("scan")
    planted.ok("import", "transcripts")
    assert holding(planted.home, TEXT) == []


def test_a_text_that_was_not_mined_yet_is_not_mined_later(house: House, own_home: str) -> None:
    TranscriptWriter(own_home, session="unread").fails("make kite", f"Exit 1 {TEXT}").works("make the kite").write()
    house.ok("purge", "--text", TEXT, "--yes")
    house.ok("scan")
    assert (holding(house.home, TEXT), house.stored("signals")) == ([], [])


def test_an_index_of_words_and_a_table_nobody_knew_are_reached(planted: House) -> None:
    connection = sqlite3.connect(os.path.join(planted.home, "hardwon.db"))
    connection.executescript(
        "create virtual table words using fts5(prompt, content='prompts', content_rowid='id', prefix='2 3 4');"
        "insert into words (words) values ('rebuild');"
        "create virtual table own using fts5(text);"
        "create table later (id integer primary key, note text);"
    )
    connection.execute("insert into own (text) values (?), ('innocent')", (TEXT,))
    connection.execute("insert into later (note) values (?), ('innocent')", (json.dumps({"said": TEXT}),))
    connection.commit()
    connection.close()
    planted.ok("purge", "--text", TEXT, "--yes")
    assert holding(planted.home, TEXT) == []
    connection = sqlite3.connect(os.path.join(planted.home, "hardwon.db"))
    left = [connection.execute(f"select * from {table}").fetchall() for table in ("own", "later")]
    found = connection.execute("select count(*) from words where words match 'innocent'").fetchone()
    connection.close()
    assert (left, found) == ([[("innocent",)], [(2, "innocent")]], (1,))


def test_a_dry_run_says_how_much_and_changes_nothing(planted: House) -> None:
    def everything() -> dict[str, bytes]:
        listed = [os.path.join(place, name) for place, _, files in os.walk(planted.home) for name in files]
        return {path: open(path, "rb").read() for path in listed if not path.endswith(("-shm", ".lock"))}

    before = everything()
    said = planted.ok("purge", "--text", TEXT, "--dry-run", "--json").json()
    assert everything() == before
    gone = said["gone"]
    assert gone["database"]["prompts"] == 1 and gone["database"]["events"] == 2
    assert (gone["spool"], gone["logs"], gone["queues"]) == ({"files": 1}, {"lines": 1}, {"files": 1})
    assert any(place.startswith("backups/") for place in gone)
    planted.ok("purge", "--text", TEXT, "--yes")
    after = planted.ok("purge", "--text", TEXT, "--dry-run").out
    assert "nothing: hardwon does not hold it" in after


def test_a_restored_backup_does_not_hold_it_either(planted: House) -> None:
    planted.ok("purge", "--text", TEXT, "--yes")
    [made, *_] = planted.ok("restore", "--json").json()
    planted.ok("restore", made["name"], "--yes")
    assert [row["prompt"] for row in planted.stored("prompts")][:1] == ["an innocent question"]
    assert holding(planted.home, TEXT) == []


def test_a_backup_that_cannot_be_opened_goes_whole(planted: House) -> None:
    made = planted.ok("backup", "--json").json()
    with open(os.path.join(made["path"], "hardwon.db"), "r+b") as file:
        file.write(b"no database at all")
    planted.ok("purge", "--text", TEXT, "--yes")
    assert not os.path.exists(made["path"])
    assert holding(planted.home, TEXT) == []


def test_what_a_person_approved_is_named_by_line_and_not_touched(planted: House) -> None:
    planted.add(lesson(r"\bkite\b", problem=f"{TEXT} makes kites fall whenever the wind turns"))
    planted.ok("backup")
    with open(os.path.join(planted.home, "lessons.json"), "rb") as file:
        before = file.read()
    said = planted.ok("purge", "--text", TEXT, "--yes").out
    line = next(number for number, one in enumerate(before.splitlines(), 1) if b"Quokka" in one)
    assert f"lessons.json: line {line}" in said
    with open(os.path.join(planted.home, "lessons.json"), "rb") as file:
        assert file.read() == before
    assert [name for name in holding(planted.home, TEXT) if "backups" in name or "hardwon.db" in name] == []


def test_the_worker_runs_again_if_it_ran(planted: House) -> None:
    planted.ok("start")
    before = planted.status()["pid"]
    planted.ok("purge", "--text", TEXT, "--yes")
    assert planted.status()["running"] and planted.status()["pid"] != before
    planted.ok("stop")
    planted.ok("purge", "--text", TEXT, "--yes")
    assert not planted.status()["running"]


def test_a_session_goes_with_all_that_was_found_in_it(house: House, own_home: str) -> None:
    first, second = TranscriptWriter(own_home).mistake(), TranscriptWriter(own_home).mistake()
    first.write()
    second.write()
    house.ask(first.session, prompt("of the first"))
    house.ask(second.session, prompt("of the second"))
    house.ask(first.session, prompt("<private>of the first</private>"))
    house.ask(first.session, prompt(f"hardwon allow {house.add(GIT_STASH)}"))
    house.ok("scan")
    house.ok("pause")
    house.ask(first.session, prompt("and paused"))
    house.ok("unpause")
    said = house.ok("purge", "--session", first.session, "--yes").out
    assert (
        f"{first.session}.jsonl still holds it" in said
        and "read positions of its transcripts and marks of its pauses" in said
    )
    named = [name for name in os.listdir(os.path.join(house.home, "claims")) if first.session in name]
    assert named == [f"paused-{first.session}"]
    assert [row["prompt"] for row in house.stored("prompts")] == ["of the second"]
    assert {row["session"] for row in house.stored("calls")} == {second.session}
    [left] = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    assert (left["occurrenceCount"], left["sourceSessionIds"]) == (1, [second.session])
    house.ok("scan")
    assert {row["session"] for row in house.stored("signals")} == {second.session}
    assert "there is no session" in house.cli("purge", "--session", first.session, "--yes").err


def test_a_rejected_candidate_stays_rejected_without_the_words(planted: House) -> None:
    found = planted.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    for one in found:
        planted.ok("reject", str(one["index"]))
    planted.ok("purge", "--session", "mined", "--yes")
    assert len(planted.ok("scan", "candidates", "--rejected", "--json").json()["candidates"]) == len(found)


def test_a_project_goes_and_the_other_stays(house: House, own_home: str) -> None:
    kite, boat = TranscriptWriter(own_home).mistake(), TranscriptWriter(own_home, project="/home/dev/boat").mistake()
    kite.write()
    boat.write()
    house.ask("s1", prompt("fly", cwd="/home/dev/kite/src"))
    house.ask("s2", prompt("sail", cwd="/home/dev/boat"))
    house.ok("scan")
    house.ok("purge", "--project", "/home/dev/kite", "--yes")
    assert [row["prompt"] for row in house.stored("prompts")] == ["sail"]
    assert {row["cwd"] for row in house.stored("calls")} == {"/home/dev/boat"}
    assert {row["project"] for row in house.stored("signals")} == {"/home/dev/boat"}


def test_what_is_old_goes_and_what_is_new_stays(house: House, own_home: str) -> None:
    house.ask("s1", prompt("long ago"))
    house.ask("s2", prompt("just now"))
    house.deliveries()
    connection = sqlite3.connect(os.path.join(house.home, "hardwon.db"))
    connection.execute("update prompts set at = at - 3e6 where prompt = 'long ago'")
    connection.execute(
        "update sessions set last_at = last_at - 3e6, started_at = started_at - 3e6 where session = 's1'"
    )
    connection.commit()
    connection.close()
    house.ok("purge", "--older-than", "30d", "--yes")
    assert [row["prompt"] for row in house.stored("prompts")] == ["just now"]
    assert [row["session"] for row in house.stored("sessions")] == ["s2"]


@pytest.mark.parametrize(
    "flags", [(), ("--text", "a-b"), ("--text", "kite", "--session", "s1"), ("--older-than", "soon")]
)
def test_a_purge_that_is_not_clear_is_refused(house: House, flags: tuple[str, ...]) -> None:
    ran = house.cli("purge", *flags, "--yes")
    assert (ran.code, ran.out) == (1, "")


def test_purging_is_for_a_person_who_is_asked(planted: House) -> None:
    assert "is for a person" in planted.cli("purge", "--text", TEXT, "--yes", env={"CLAUDECODE": "1"}).err
    assert "confirmation needed" in planted.cli("purge", "--text", TEXT).err
    assert planted.ask("s1", bash(f"hardwon purge --text '{TEXT}' --yes")).denied != ""
    assert len(holding(planted.home, TEXT)) >= 4


@pytest.fixture
def drafted(house: House, own_home: str, tmp_path: Path) -> dict[str, Path]:
    """Sessions that were reflected on in repositories whose names begin alike, and memories that wait; by name."""
    places = {"app": tmp_path / "app", "app2": tmp_path / "app2", "app-2": tmp_path / "app-2"}
    for name, place in places.items():
        (place / ".git").mkdir(parents=True)
        told = (
            TranscriptWriter(own_home, session=f"of-{name}", project=str(place))
            .person(f"mend the {name} {TEXT}")
            .mistake()
        )
        house.ok("reflect", told.write())
        asked = replace(UNASKED, name=told.session, project=str(place), at=time() - 60, prompt="From now on use pnpm.")
        assert memory_queue.queue_statements(memory_queue.get_queue_folder(), asked)
    return places


def waiting(house: House, places: dict[str, Path]) -> tuple[list[str], ...]:
    """Of which sessions there are drafts, raw logs and queued memories."""
    drafts = sorted(
        one.name.removesuffix(".draft.md").removeprefix(f"{name}-")
        for name in places
        for one in Path(house.home, "drafts").glob(f"{name}-of-{name}.draft.md")
    )
    raw = sorted(json.loads(one.read_text())["session"] for one in Path(house.home, "logs", "reflections").iterdir())
    return drafts, raw, sorted(one.removesuffix("-1.json") for one in os.listdir(memory_queue.get_queue_folder()))


@pytest.mark.parametrize("flag", ["--session", "--project"])
def test_drafts_raw_logs_and_queued_memories_go_and_those_of_a_like_name_stay(
    house: House, drafted: dict[str, Path], flag: str
) -> None:
    others = ["of-app-2", "of-app2"]
    assert waiting(house, drafted) == (["of-app", *others],) * 3
    with open(os.path.join(house.home, "logs", "worker.log"), "a") as file:
        file.writelines(f"2026-11-01T10:00:00Z INFO of-{name} in {path}\n" for name, path in drafted.items())
    aim = "of-app" if flag == "--session" else str(drafted["app"])
    gone = house.ok("purge", flag, aim, "--yes", "--json").json()["gone"]
    assert (gone["drafts"], gone["queues"], gone["logs"]) == ({"files": 1}, {"files": 1}, {"files": 1, "lines": 1})
    assert waiting(house, drafted) == (others,) * 3
    house.ok("purge", "--older-than", "0h", "--yes")
    assert waiting(house, drafted) == ([], [], [])


def test_a_draft_in_a_repository_that_holds_a_text_goes_and_a_ratified_one_is_named(
    house: House, drafted: dict[str, Path]
) -> None:
    house.ok("handoff", "ratify", "1")
    ratified = next(drafted["app"].rglob("of-app.md"))
    said = house.ok("purge", "--text", TEXT, "--yes", "--json").json()
    assert (said["gone"]["drafts"], list(said["approved"])) == ({"files": 2}, [str(ratified)])
    assert waiting(house, drafted)[0] == [] and ratified.exists()


def test_with_a_session_or_project_goes_nothing_that_a_person_approved(
    house: House, own_home: str, drafted: dict[str, Path]
) -> None:
    house.add(lesson(r"\bkite\b", sourceSessionIds=["of-app"]))
    house.ok("config", "set", "denyProjects", json.dumps([str(drafted["app"])]))
    house.ok("handoff", "ratify", "1")
    made = Path(house.ok("backup", "--json").json()["path"])
    names = ("lessons.json", "config.json")
    before = [(made / name).read_bytes() for name in names]
    of_session = house.ok("purge", "--session", "of-app", "--yes", "--json").json()["approved"]
    house.ok("reflect", str(next(Path(own_home).rglob("of-app.jsonl"))))
    of_project = house.ok("purge", "--project", str(drafted["app"]), "--yes", "--json").json()["approved"]
    assert [(made / name).read_bytes() for name in names] == before
    assert {str(made / "lessons.json"), str(next(drafted["app"].rglob("of-app.md")))} <= set(of_session)
    assert str(made / "config.json") in of_project


def test_a_memory_that_was_rejected_is_refused_after_it_was_purged(house: House, tmp_path: Path) -> None:
    as_agent = {"CLAUDECODE": "1"}
    house.ok("memory", "add", "feedback", "always paint the kite vermilion", cwd=str(tmp_path), env=as_agent)
    house.ok("memory", "reject", "1", cwd=str(tmp_path))
    house.ok("purge", "--text", "paint the kite vermilion", "--yes")
    assert holding(house.home, "always paint the kite vermilion") == []
    again = house.cli("memory", "add", "feedback", "Always paint the kite vermilion!", cwd=str(tmp_path), env=as_agent)
    assert again.code == 1 and "was rejected already, and purged since" in again.err and "fix:" in again.err
    house.ok("memory", "add", "feedback", "always paint the kite vermilion", cwd=str(tmp_path))


def test_a_brief_that_was_left_half_written_goes(planted: House) -> None:
    half = os.path.join(planted.home, "briefs", f"x.txt.{2**22 - 1}.new")
    os.makedirs(os.path.dirname(half), exist_ok=True)
    with open(half, "w") as file:
        file.write(TEXT)
    planted.ok("purge", "--text", TEXT, "--yes")
    assert holding(planted.home, TEXT) == []


@pytest.mark.parametrize("aim", [("--older-than", "0d"), ("--project", "/home/dev/kite")], ids=" ".join)
def test_a_candidate_that_was_rejected_is_not_proposed_again_after_a_purge(
    house: House, own_home: str, aim: tuple[str, str]
) -> None:
    for _ in range(2):
        TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("reject", "1")
    house.ok("purge", *aim, "--yes")
    house.ok("scan", "--full")
    assert house.ok("scan", "candidates", "--all", "--json").json()["candidates"] == []


def test_a_memory_that_was_rejected_is_refused_after_a_purge_by_age(house: House, tmp_path: Path) -> None:
    as_agent = {"CLAUDECODE": "1"}
    words = ("memory", "add", "feedback", "always paint the kite vermilion")
    house.ok(*words, cwd=str(tmp_path), env=as_agent)
    house.ok("memory", "reject", "1", cwd=str(tmp_path))
    house.ok("purge", "--older-than", "0d", "--yes")
    again = house.cli(*words, cwd=str(tmp_path), env=as_agent)
    assert again.code == 1 and "was rejected already" in again.err
