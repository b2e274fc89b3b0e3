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


def iter_spellings(text: str) -> Iterator[bytes]:
    """Yield the text and inner parts of it in every encoding that a file may have."""
    parts = [text, text[3:-3], text[8:20], text[5:17], text.replace(" ", "-").lower()[:14]]
    for part in parts:
        for spelled in {part, part.lower(), part.upper(), json.dumps(part)[1:-1], json.dumps(json.dumps(part))[3:-3]}:
            yield spelled.encode()
            yield spelled.encode("utf-16-le")
            yield spelled.encode("utf-16-be")


def find_files_with(folder: str, text: str) -> list[str]:
    """Return every file below a folder whose bytes contain the text in some spelling."""
    paths = []
    for folder_path, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(folder_path, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            if any(spelled in data for spelled in iter_spellings(text)):
                paths.append(os.path.relpath(path, folder))
    return sorted(paths)


@pytest.fixture
def planted_house(house: House, own_home: str) -> House:
    """A house with the text in every place that it can reach, beside unrelated data."""
    house.session_start("s1")
    house.ask("s1", prompt("an innocent question"))
    house.ask("s1", prompt(f"look for {TEXT} please"))
    house.ask("s1", used("Bash", {"command": f"grep '{TEXT}' notes"}, {"stdout": f"1: {TEXT}\n"}))
    house.ask("s1", failed("Bash", {"command": "make kite"}, "Exit code 2\nmake: no rule"))
    house.ask("s1", happened("Stop", last_assistant_message=f"I found {TEXT.upper()}"))
    transcript = TranscriptWriter(own_home, session="mined").fails(f"git log --grep={TEXT}", f"fatal: bad thing {TEXT}")
    transcript.agent(f"The problem is that {TEXT} is no pattern.").works(f"git log -- {TEXT}").write()
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


def test_a_purged_text_is_in_no_file_of_the_home(planted_house: House, own_home: str) -> None:
    assert len(find_files_with(planted_house.home, TEXT)) >= 4
    ran = planted_house.cli("purge", "--text", TEXT, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert find_files_with(planted_house.home, TEXT) == []
    assert find_files_with(os.path.join(own_home, ".claude", "memory_queue"), TEXT) == []
    assert "mined.jsonl still holds it" in ran.out and "every file of the home" in ran.out
    with open(os.path.join(planted_house.home, "logs", "worker.log")) as file:
        assert "a good line" in file.read()
    assert [row["prompt"] for row in planted_house.stored("prompts")] == ["an innocent question", "cold and innocent"]
    assert len(planted_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]) == 1


def test_the_next_scan_does_not_bring_it_back(planted_house: House) -> None:
    planted_house.ok("purge", "--text", TEXT, "--yes")
    planted_house.ok("scan")
    planted_house.ok("import", "transcripts")
    assert find_files_with(planted_house.home, TEXT) == []


def test_a_text_that_was_not_mined_yet_is_not_mined_later(house: House, own_home: str) -> None:
    TranscriptWriter(own_home, session="unread").fails("make kite", f"Exit 1 {TEXT}").works("make the kite").write()
    house.ok("purge", "--text", TEXT, "--yes")
    house.ok("scan")
    assert (find_files_with(house.home, TEXT), house.stored("signals")) == ([], [])


def test_a_purge_reaches_an_index_of_words_and_an_unknown_table(planted_house: House) -> None:
    connection = sqlite3.connect(os.path.join(planted_house.home, "hardwon.db"))
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
    planted_house.ok("purge", "--text", TEXT, "--yes")
    assert find_files_with(planted_house.home, TEXT) == []
    connection = sqlite3.connect(os.path.join(planted_house.home, "hardwon.db"))
    remaining_rows = [connection.execute(f"select * from {table}").fetchall() for table in ("own", "later")]
    match_count = connection.execute("select count(*) from words where words match 'innocent'").fetchone()
    connection.close()
    assert (remaining_rows, match_count) == ([[("innocent",)], [(2, "innocent")]], (1,))


def test_a_dry_run_says_how_much_and_changes_nothing(planted_house: House) -> None:
    def read_all_files() -> dict[str, bytes]:
        listed = [
            os.path.join(folder_path, name) for folder_path, _, files in os.walk(planted_house.home) for name in files
        ]
        return {path: open(path, "rb").read() for path in listed if not path.endswith(("-shm", ".lock"))}

    files_before = read_all_files()
    report = planted_house.ok("purge", "--text", TEXT, "--dry-run", "--json").json()
    assert read_all_files() == files_before
    deletions = report["gone"]
    assert deletions["database"]["prompts"] == 1 and deletions["database"]["events"] == 2
    assert (deletions["spool"], deletions["logs"], deletions["queues"]) == ({"files": 1}, {"lines": 1}, {"files": 1})
    assert any(folder_path.startswith("backups/") for folder_path in deletions)
    planted_house.ok("purge", "--text", TEXT, "--yes")
    output = planted_house.ok("purge", "--text", TEXT, "--dry-run").out
    assert "nothing: hardwon does not hold it" in output


def test_a_restored_backup_does_not_hold_it_either(planted_house: House) -> None:
    planted_house.ok("purge", "--text", TEXT, "--yes")
    [backup, *_] = planted_house.ok("restore", "--json").json()
    planted_house.ok("restore", backup["name"], "--yes")
    assert [row["prompt"] for row in planted_house.stored("prompts")][:1] == ["an innocent question"]
    assert find_files_with(planted_house.home, TEXT) == []


def test_a_backup_that_cannot_be_opened_is_deleted_as_a_whole(planted_house: House) -> None:
    backup = planted_house.ok("backup", "--json").json()
    with open(os.path.join(backup["path"], "hardwon.db"), "r+b") as file:
        file.write(b"no database at all")
    planted_house.ok("purge", "--text", TEXT, "--yes")
    assert not os.path.exists(backup["path"])
    assert find_files_with(planted_house.home, TEXT) == []


def test_what_a_person_approved_is_named_by_line_and_not_touched(planted_house: House) -> None:
    planted_house.add(lesson(r"\bkite\b", problem=f"{TEXT} makes kites fall whenever the wind turns"))
    planted_house.ok("backup")
    with open(os.path.join(planted_house.home, "lessons.json"), "rb") as file:
        bytes_before = file.read()
    output = planted_house.ok("purge", "--text", TEXT, "--yes").out
    line = next(number for number, line_bytes in enumerate(bytes_before.splitlines(), 1) if b"Quokka" in line_bytes)
    assert f"lessons.json: line {line}" in output
    with open(os.path.join(planted_house.home, "lessons.json"), "rb") as file:
        assert file.read() == bytes_before
    assert [
        name for name in find_files_with(planted_house.home, TEXT) if "backups" in name or "hardwon.db" in name
    ] == []


def test_the_worker_runs_again_if_it_ran(planted_house: House) -> None:
    planted_house.ok("start")
    old_pid = planted_house.status()["pid"]
    planted_house.ok("purge", "--text", TEXT, "--yes")
    assert planted_house.status()["running"] and planted_house.status()["pid"] != old_pid
    planted_house.ok("stop")
    planted_house.ok("purge", "--text", TEXT, "--yes")
    assert not planted_house.status()["running"]


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
    output = house.ok("purge", "--session", first.session, "--yes").out
    assert (
        f"{first.session}.jsonl still holds it" in output
        and "read positions of its transcripts and marks of its pauses" in output
    )
    mark_names = [name for name in os.listdir(os.path.join(house.home, "claims")) if first.session in name]
    assert mark_names == [f"paused-{first.session}"]
    assert [row["prompt"] for row in house.stored("prompts")] == ["of the second"]
    assert {row["session"] for row in house.stored("calls")} == {second.session}
    [candidate] = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    assert (candidate["occurrenceCount"], candidate["sourceSessionIds"]) == (1, [second.session])
    house.ok("scan")
    assert {row["session"] for row in house.stored("signals")} == {second.session}
    assert "there is no session" in house.cli("purge", "--session", first.session, "--yes").err


def test_a_rejected_candidate_stays_rejected_without_the_words(planted_house: House) -> None:
    listed = planted_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    for candidate in listed:
        planted_house.ok("reject", str(candidate["index"]))
    planted_house.ok("purge", "--session", "mined", "--yes")
    assert len(planted_house.ok("scan", "candidates", "--rejected", "--json").json()["candidates"]) == len(listed)


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


def test_only_a_person_can_purge_and_has_to_confirm(planted_house: House) -> None:
    assert "is for a person" in planted_house.cli("purge", "--text", TEXT, "--yes", env={"CLAUDECODE": "1"}).err
    assert "confirmation needed" in planted_house.cli("purge", "--text", TEXT).err
    assert "--json does not ask" in planted_house.cli("purge", "--text", TEXT, "--json").err
    assert planted_house.ask("s1", bash(f"hardwon purge --text '{TEXT}' --yes")).denied != ""
    assert len(find_files_with(planted_house.home, TEXT)) >= 4


@pytest.fixture
def drafted_projects(house: House, own_home: str, tmp_path: Path) -> dict[str, Path]:
    """Sessions that were reflected on in repositories whose names begin alike, and memories that wait; by name."""
    projects = {"app": tmp_path / "app", "app2": tmp_path / "app2", "app-2": tmp_path / "app-2"}
    for name, project in projects.items():
        (project / ".git").mkdir(parents=True)
        transcript = (
            TranscriptWriter(own_home, session=f"of-{name}", project=str(project))
            .person(f"mend the {name} {TEXT}")
            .mistake()
        )
        house.ok("reflect", transcript.write())
        statement = replace(
            UNASKED, name=transcript.session, project=str(project), at=time() - 60, prompt="From now on use pnpm."
        )
        assert memory_queue.queue_statements(memory_queue.get_queue_folder(), statement)
    return projects


def list_waiting(house: House, projects: dict[str, Path]) -> tuple[list[str], ...]:
    """Return the sessions that have drafts, raw logs and queued memories."""
    drafts = sorted(
        path.name.removesuffix(".draft.md").removeprefix(f"{name}-")
        for name in projects
        for path in Path(house.home, "drafts").glob(f"{name}-of-{name}.draft.md")
    )
    raw = sorted(json.loads(path.read_text())["session"] for path in Path(house.home, "logs", "reflections").iterdir())
    return drafts, raw, sorted(path.removesuffix("-1.json") for path in os.listdir(memory_queue.get_queue_folder()))


@pytest.mark.parametrize("flag", ["--session", "--project"])
def test_drafts_raw_logs_and_queued_memories_go_and_those_of_a_like_name_stay(
    house: House, drafted_projects: dict[str, Path], flag: str
) -> None:
    other_sessions = ["of-app-2", "of-app2"]
    assert list_waiting(house, drafted_projects) == (["of-app", *other_sessions],) * 3
    with open(os.path.join(house.home, "logs", "worker.log"), "a") as file:
        file.writelines(f"2026-11-01T10:00:00Z INFO of-{name} in {path}\n" for name, path in drafted_projects.items())
    aim = "of-app" if flag == "--session" else str(drafted_projects["app"])
    deletions = house.ok("purge", flag, aim, "--yes", "--json").json()["gone"]
    assert (deletions["drafts"], deletions["queues"], deletions["logs"]) == (
        {"files": 1},
        {"files": 1},
        {"files": 1, "lines": 1},
    )
    assert list_waiting(house, drafted_projects) == (other_sessions,) * 3
    house.ok("purge", "--older-than", "0h", "--yes")
    assert list_waiting(house, drafted_projects) == ([], [], [])


def test_a_draft_in_a_repository_that_holds_a_text_goes_and_a_ratified_one_is_named(
    house: House, drafted_projects: dict[str, Path]
) -> None:
    house.ok("handoff", "ratify", "1")
    ratified = next(drafted_projects["app"].rglob("of-app.md"))
    report = house.ok("purge", "--text", TEXT, "--yes", "--json").json()
    assert (report["gone"]["drafts"], list(report["approved"])) == ({"files": 2}, [str(ratified)])
    assert list_waiting(house, drafted_projects)[0] == [] and ratified.exists()


def test_with_a_session_or_project_goes_nothing_that_a_person_approved(
    house: House, own_home: str, drafted_projects: dict[str, Path]
) -> None:
    house.add(lesson(r"\bkite\b", sourceSessionIds=["of-app"]))
    house.ok("config", "set", "denyProjects", json.dumps([str(drafted_projects["app"])]))
    house.ok("handoff", "ratify", "1")
    backup_folder = Path(house.ok("backup", "--json").json()["path"])
    names = ("lessons.json", "config.json")
    bytes_before = [(backup_folder / name).read_bytes() for name in names]
    of_session = house.ok("purge", "--session", "of-app", "--yes", "--json").json()["approved"]
    house.ok("reflect", str(next(Path(own_home).rglob("of-app.jsonl"))))
    of_project = house.ok("purge", "--project", str(drafted_projects["app"]), "--yes", "--json").json()["approved"]
    assert [(backup_folder / name).read_bytes() for name in names] == bytes_before
    assert {str(backup_folder / "lessons.json"), str(next(drafted_projects["app"].rglob("of-app.md")))} <= set(
        of_session
    )
    assert str(backup_folder / "config.json") in of_project


def test_a_memory_that_was_rejected_is_refused_after_it_was_purged(house: House, tmp_path: Path) -> None:
    as_agent = {"CLAUDECODE": "1"}
    house.ok("memory", "add", "feedback", "always paint the kite vermilion", cwd=str(tmp_path), env=as_agent)
    house.ok("memory", "reject", "1", cwd=str(tmp_path))
    house.ok("purge", "--text", "paint the kite vermilion", "--yes")
    assert find_files_with(house.home, "always paint the kite vermilion") == []
    second_attempt = house.cli(
        "memory", "add", "feedback", "Always paint the kite vermilion!", cwd=str(tmp_path), env=as_agent
    )
    assert (
        second_attempt.code == 1
        and "was rejected already, and purged since" in second_attempt.err
        and "fix:" in second_attempt.err
    )
    house.ok("memory", "add", "feedback", "always paint the kite vermilion", cwd=str(tmp_path))


def test_a_brief_that_was_left_half_written_goes(planted_house: House) -> None:
    half = os.path.join(planted_house.home, "briefs", f"x.txt.{2**22 - 1}.new")
    os.makedirs(os.path.dirname(half), exist_ok=True)
    with open(half, "w") as file:
        file.write(TEXT)
    planted_house.ok("purge", "--text", TEXT, "--yes")
    assert find_files_with(planted_house.home, TEXT) == []


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
    second_attempt = house.cli(*words, cwd=str(tmp_path), env=as_agent)
    assert second_attempt.code == 1 and "was rejected already" in second_attempt.err
