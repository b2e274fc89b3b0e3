"""What hardwon keeps is its user's: it can be taken out, put in elsewhere, backed up and put back."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from typing import Any

import pytest

from hardwon import paths
from hardwon.handoff import memory_queue
from hardwon.types import Turn
from hardwon.worker import lifecycle
from tests.support.claude_transcript import TAG, TranscriptWriter
from tests.support.house import GIT_STASH, House, bash, failed, happened, lesson, prompt, used, wait_for

TOKEN = "ghp_" + "x7Kd92LmQp4RtVb8NcZs1WyHf6JgUe3AoI5t"


@pytest.fixture
def full_house(house: House, own_home: str) -> House:
    """A house in which something of every kind was recorded, mined, decided and delivered."""
    house.add(GIT_STASH)
    house.session_start("s1")
    house.ask("s1", prompt("make the kite fly\nhigher – ünïcode ✓"))
    house.ask("s1", bash("git stash"))
    house.ask("s1", used("Bash", {"command": "ls"}, {"stdout": "a\nb", "stderr": ""}))
    house.ask("s1", failed("Bash", {"command": "make"}, "Exit code 2\nmake: no rule"))
    house.ask("s1", happened("Stop", last_assistant_message="done"))
    house.ask("s2", prompt("and land it", cwd="/home/dev/boat"))
    TranscriptWriter(own_home).mistake().agent(TAG).write()
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("reject", "1")
    house.deliveries()
    return house


def build_other_home(tmp_path: Any) -> dict[str, str]:
    return {"HARDWON_HOME": str(tmp_path / "other")}


def list_body_lines(text: str) -> list[str]:
    return text.splitlines()[1:]


def list_recorded_lines(text: str) -> list[str]:
    """Return the lines of recorded data only, because a running worker may distil it at any time."""
    return [line for line in list_body_lines(text) if json.loads(line)["what"] not in ("observation", "summary")]


def test_an_export_comes_back_as_it_was(full_house: House, tmp_path: Any) -> None:
    file = str(tmp_path / "all.jsonl")
    full_house.ok("export", "--out", file)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    with open(file, encoding="utf-8") as opened:
        first = opened.read()
    kinds = {json.loads(line)["what"] for line in first.splitlines()}
    always = {"header", "project", "session", "prompt", "event", "delivery", "candidate", "lesson"}
    assert always <= kinds <= always | {"observation", "summary"}, "it may have been distilled meanwhile"
    other_home = build_other_home(tmp_path)
    full_house.ok("import", "jsonl", file, env=other_home)
    second_export = full_house.ok("export", env=other_home).out
    assert list_body_lines(second_export) == list_body_lines(first)
    full_house.cli("stop", env=other_home)


def test_importing_twice_changes_nothing(full_house: House, tmp_path: Any) -> None:
    file, other_home = str(tmp_path / "all.jsonl"), build_other_home(tmp_path)
    full_house.ok("export", "--out", file)
    full_house.ok("import", "jsonl", file, env=other_home)
    export_before = full_house.ok("export", env=other_home).out
    assert "nothing new" in full_house.ok("import", "jsonl", file, env=other_home).out
    assert list_body_lines(full_house.ok("export", env=other_home).out) == list_body_lines(export_before)
    assert "nothing new" in full_house.ok("import", "jsonl", file).out


def test_what_a_person_decided_comes_along_and_lessons_are_in_force(full_house: House, tmp_path: Any) -> None:
    file, other_home = str(tmp_path / "all.jsonl"), build_other_home(tmp_path)
    full_house.ok("export", "--out", file)
    full_house.ok("import", "jsonl", file, env=other_home)
    rejected = full_house.ok("scan", "candidates", "--rejected", "--json", env=other_home).json()["candidates"]
    listed = full_house.ok("lessons", "list", "--json", env=other_home).json()
    assert (len(rejected), [item["status"] for item in listed]) == (1, ["active"])


def test_an_agent_that_imports_only_proposes(full_house: House, tmp_path: Any) -> None:
    file, other_home = str(tmp_path / "all.jsonl"), {**build_other_home(tmp_path), "CLAUDECODE": "1"}
    full_house.ok("export", "--out", file)
    assert "as candidates" in full_house.ok("import", "jsonl", file, env=other_home).out
    listed = full_house.ok("lessons", "list", "--json", env=other_home).json()
    assert [item["status"] for item in listed] == ["candidate"]
    assert full_house.ok("scan", "candidates", "--rejected", "--json", env=other_home).json()["candidates"] == []
    denied = full_house.ask("s1", bash(f"hardwon import jsonl {file}")).denied
    assert "Only the user" in denied


def test_bad_lines_are_named_and_the_rest_goes_in(full_house: House, tmp_path: Any) -> None:
    header, *lines = full_house.ok("export").out.splitlines()
    lines[1:1] = ["{broken", '{"what": "kite"}', '{"what": "prompt", "key": 3}']
    file = tmp_path / "torn.jsonl"
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    ran = full_house.cli("import", "jsonl", str(file), env=build_other_home(tmp_path))
    assert ran.code == 1
    assert [line.split(": ")[0].rpartition(" ")[2] for line in ran.err.splitlines()] == ["3", "4", "5"]
    assert list_body_lines(full_house.ok("export", env=build_other_home(tmp_path)).out) == [*lines[:1], *lines[4:]]


def test_a_newer_format_and_a_file_that_is_no_export_are_refused(house: House, tmp_path: Any) -> None:
    file = tmp_path / "new.jsonl"
    file.write_text('{"what":"header","format":"hardwon-export","version":99}\n')
    ran = house.cli("import", "jsonl", str(file))
    assert (ran.code, "version 99" in ran.err) == (1, True)
    file.write_text('{"session": "s1"}\n')
    assert "does not begin with the header" in house.cli("import", "jsonl", str(file)).err


def test_what_comes_in_is_cleaned(full_house: House, tmp_path: Any) -> None:
    header, *lines = full_house.ok("export").out.splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        if record["what"] == "prompt":
            record["prompt"] = f"use {TOKEN} <private>my diary</private> now"
        if record["what"] == "event" and record["input"]:
            record["input"] = json.dumps({"command": f"curl -H 'Authorization: token {TOKEN}'"})
    file = tmp_path / "dirty.jsonl"
    file.write_text("\n".join([header, *map(json.dumps, records)]), encoding="utf-8")
    full_house.ok("import", "jsonl", str(file), env=build_other_home(tmp_path))
    export = full_house.ok("export", env=build_other_home(tmp_path)).out
    assert (TOKEN in export, "my diary" in export, "[redacted:" in export) == (False, False, True)


def test_one_project_and_one_time_can_be_exported(full_house: House) -> None:
    boat = [json.loads(line) for line in full_house.ok("export", "--project", "boat").out.splitlines()]
    assert [(record["what"], record.get("session")) for record in boat[1:]] == [
        ("project", None),
        ("session", "s2"),
        ("prompt", "s2"),
    ]
    assert list_body_lines(full_house.ok("export", "--since", "2199-01-01").out) == []
    assert "nothing is known" in full_house.cli("export", "--project", "nowhere").err


def create_claude_mem_database(path: str, *, old: bool) -> None:
    """Create a database with the tables of claude-mem: of its version 4, or of the latest."""
    session_column, memory_column = (
        ("claude_session_id", "sdk_session_id") if old else ("content_session_id", "memory_session_id")
    )
    more = "" if old else ", platform_source text not null default 'claude', prompt_counter integer, custom_title text"
    time_columns = (
        "text text not null"
        if old
        else (
            "text text, title text, subtitle text, facts text, narrative text, concepts text, files_read text,"
            " files_modified text, prompt_number integer, discovery_tokens integer default 0, content_hash text"
        )
    )
    connection = sqlite3.connect(path)
    connection.executescript(
        f"create table sdk_sessions (id integer primary key autoincrement, {session_column} text unique not null, {memory_column} text unique,"
        " project text not null, user_prompt text, started_at text not null, started_at_epoch integer not null,"
        f" completed_at text, completed_at_epoch integer, status text not null default 'active'{more});"
        f"create table observations (id integer primary key autoincrement, {memory_column} text not null, project text not null,"
        f" type text not null, {time_columns}, created_at text not null, created_at_epoch integer not null);"
        f"create table session_summaries (id integer primary key autoincrement, {memory_column} text not null,"
        " project text not null, request text, investigated text, learned text, completed text, next_steps text,"
        " files_read text, files_edited text, notes text, created_at text not null, created_at_epoch integer not null);"
        f"insert into sdk_sessions ({session_column}, {memory_column}, project, user_prompt, started_at, started_at_epoch, completed_at,"
        " completed_at_epoch, status) values ('c-1', 'm-1', 'kite', 'mend the tail', '2025-10-20T10:00:00Z',"
        " 1760954400000, '2025-10-20T11:00:00Z', 1760958000000, 'completed');"
        f"insert into session_summaries ({memory_column}, project, request, learned, notes, created_at, created_at_epoch)"
        " values ('m-1', 'kite', 'mend the tail', 'knots slip', 'wet rope', '2025-10-20T10:50:00Z', 1760957400000);"
    )
    if old:
        connection.execute(
            "insert into observations (sdk_session_id, project, type, text, created_at, created_at_epoch)"
            " values ('m-1', 'kite', 'bugfix', ?, '2025-10-20T10:30:00Z', 1760956200000)",
            (f"the tail was torn\n{TOKEN}",),
        )
    else:
        connection.executescript(
            "create table user_prompts (id integer primary key autoincrement, content_session_id text not null,"
            " prompt_number integer not null, prompt_text text not null, created_at text not null,"
            " created_at_epoch integer not null);"
            "insert into user_prompts (content_session_id, prompt_number, prompt_text, created_at, created_at_epoch)"
            " values ('c-1', 1, 'mend the tail <private>of aunt Ada</private>', '2025-10-20T10:00:00Z', 1760954400000),"
            " ('c-1', 2, '<private>all of this</private>', '2025-10-20T10:20:00Z', 1760955600000);"
            "insert into observations (memory_session_id, project, type, title, subtitle, facts, narrative, concepts,"
            " files_read, files_modified, prompt_number, discovery_tokens, created_at, created_at_epoch) values"
            " ('m-1', 'kite', 'bugfix', 'torn tail', 'sewn', '[\"needle 3\"]', 'the tail was torn', '[\"sewing\"]',"
            " '[\"tail.txt\"]', '[]', 1, 900, '2025-10-20T10:30:00Z', 1760956200000),"
            " ('m-1', 'kite', 'bugfix', 'hidden', '', '[]', 'about the private prompt', '[]', '[]', '[]', 2, 5,"
            " '2025-10-20T10:40:00Z', 1760956800000);"
        )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("old", [True, False])
def test_claude_mem_is_taken_over_and_not_touched(house: House, own_home: str, old: bool) -> None:
    path = os.path.join(own_home, ".claude-mem", "claude-mem.db")
    os.makedirs(os.path.dirname(path))
    create_claude_mem_database(path, old=old)
    with open(path, "rb") as file:
        bytes_before = file.read()
    output = house.ok("import", "claude-mem").out
    assert "1 session" in output and "1 prompt" in output and "1 observation" in output and "1 summary" in output
    assert "nothing new" in house.ok("import", "claude-mem", path).out
    with open(path, "rb") as file:
        assert (file.read(), os.listdir(os.path.dirname(path))) == (bytes_before, ["claude-mem.db"])
    [session] = house.stored("sessions")
    assert (session["host"], session["session"], session["status"], session["prompts"]) == (
        "claude-code",
        "c-1",
        "completed",
        1,
    )
    [prompted] = house.stored("prompts")
    assert prompted["prompt"].strip() == "mend the tail" == session["first_prompt"].strip()
    [observation] = house.stored("observations")
    assert (observation["type"], observation["at"], observation["made"]) == ("bugfix", 1760956200.0, "claude-mem")
    assert TOKEN not in observation["narrative"] and "the tail was torn" in observation["narrative"]
    [summed] = house.stored("summaries")
    assert (summed["request"], summed["learned"]) == ("mend the tail", "knots slip\n\nwet rope")


def test_what_was_taken_over_joins_the_first_folder_of_its_projects_name(house: House, tmp_path: Any) -> None:
    file, kite = str(tmp_path / "mem.db"), tmp_path / "kite"
    create_claude_mem_database(file, old=False)
    kite.mkdir()
    house.ok("import", "claude-mem", file)
    house.ok("start")  # a busy machine may not have it up in the time that a session waits
    assert "torn tail" in house.session_start("s1", cwd=str(kite)).context
    house.ask("s1", prompt("fly", cwd=str(kite)))
    assert [row["path"] for row in house.stored("projects")] == [str(kite)]
    assert "torn tail" in house.ok("search", "torn tail", cwd=str(kite)).out
    assert "nothing new" in house.ok("import", "claude-mem", file).out
    (tmp_path / "b" / "kite").mkdir(parents=True)
    house.ask("s2", prompt("fly", cwd=str(tmp_path / "b" / "kite")))
    assert len(house.stored("projects")) == 2


def test_what_claude_mem_kept_of_a_session_that_is_gone_is_named(house: House, tmp_path: Any) -> None:
    file = str(tmp_path / "mem.db")
    create_claude_mem_database(file, old=False)
    connection = sqlite3.connect(file)
    connection.execute("update observations set memory_session_id = 'm-9' where title = 'torn tail'")
    connection.commit()
    connection.close()
    ran = house.cli("import", "claude-mem", file)
    assert (ran.code, house.stored("observations")) == (1, [])
    assert "nothing was told before of the session 'm-9'" in ran.err and "1 session" in ran.out


def test_a_file_that_is_not_claude_mems_is_refused(house: House, tmp_path: Any) -> None:
    assert "there is no" in house.cli("import", "claude-mem").err
    file = tmp_path / "x.db"
    file.write_text("not a database, but long enough to be taken for one" * 40)
    assert house.cli("import", "claude-mem", str(file)).code == 1


def test_a_backup_is_made_while_the_worker_writes_and_put_back(full_house: House) -> None:
    backup = full_house.ok("backup", "--json").json()
    assert sorted(backup["files"]) == ["hardwon.db", "lessons.json"]
    modes = {stat.S_IMODE(os.stat(os.path.join(backup["path"], file)).st_mode) for file in backup["files"]}
    assert (modes, full_house.status()["running"]) == ({0o600}, True)
    records_before = list_recorded_lines(full_house.ok("export").out)
    full_house.add(lesson(r"\bkite\b"))
    full_house.ok("config", "set", "retentionDays", "7")
    full_house.ask("s1", prompt("something after the backup"))
    pid = full_house.status()["pid"]
    output = full_house.ok("restore", backup["name"], "--yes").out
    assert list_recorded_lines(full_house.ok("export").out) == records_before
    assert not os.path.exists(os.path.join(full_house.home, "config.json"))
    assert full_house.status()["running"] and full_house.status()["pid"] != pid
    [second_backup] = [entry for entry in full_house.ok("restore", "--json").json() if entry["name"] != backup["name"]]
    assert second_backup["name"] in output
    full_house.ok("restore", second_backup["name"], "--yes")
    assert any("something after the backup" in line for line in list_body_lines(full_house.ok("export").out))
    assert full_house.ask("s9", bash("fly kite")).context


def test_old_backups_go_when_there_are_enough(house: House) -> None:
    names = [house.ok("backup", "--keep", "2", "--json").json()["name"] for _ in range(3)]
    assert [entry["name"] for entry in house.ok("restore", "--json").json()] == [names[2], names[1]]


def test_a_backup_that_is_newer_or_broken_is_not_restored(full_house: House) -> None:
    backup = full_house.ok("backup", "--json").json()
    connection = sqlite3.connect(os.path.join(backup["path"], "hardwon.db"))
    connection.execute("pragma user_version = 999")
    connection.close()
    export_before = full_house.ok("export").out
    refused = full_house.cli("restore", backup["name"], "--yes")
    assert (refused.code, "newer hardwon" in refused.err) == (1, True)
    with open(os.path.join(backup["path"], "hardwon.db"), "wb") as file:
        file.write(b"no database" * 1000)
    assert "cannot be read" in full_house.cli("restore", backup["name"], "--yes").err
    assert "there is no backup" in full_house.cli("restore", "2001-01-01T000000Z", "--yes").err
    assert list_recorded_lines(full_house.ok("export").out) == list_recorded_lines(export_before)


def test_a_broken_database_can_be_replaced_by_a_backup(full_house: House) -> None:
    full_house.ok("stop")
    backup, export_before = full_house.ok("backup", "--json").json(), full_house.ok("export").out
    for end in ("-wal", "-shm"):
        if os.path.exists(os.path.join(full_house.home, f"hardwon.db{end}")):
            os.unlink(os.path.join(full_house.home, f"hardwon.db{end}"))
    with open(os.path.join(full_house.home, "hardwon.db"), "wb") as file:
        file.write(b"no database" * 1000)
    full_house.ok("restore", backup["name"], "--yes")
    assert list_body_lines(full_house.ok("export").out) == list_body_lines(export_before)


def test_restoring_and_leaving_are_for_a_person(full_house: House) -> None:
    backup = full_house.ok("backup", "--json").json()
    agent = {"CLAUDECODE": "1"}
    assert "is for a person" in full_house.cli("restore", backup["name"], "--yes", env=agent).err
    assert "is for a person" in full_house.cli("uninstall", "--all", "--yes", env=agent).err
    for command in (f"hardwon restore {backup['name']} --yes", "hardwon purge --text kite --yes"):
        assert "Only the user" in full_house.ask("s1", bash(command)).denied
    assert full_house.ask("s1", bash("hardwon purge --text kite --dry-run")).denied == ""
    assert "confirmation needed" in full_house.cli("restore", backup["name"]).err


def test_of_a_home_that_was_lived_in_nothing_is_left(full_house: House, own_home: str, tmp_path: Any) -> None:
    (tmp_path / ".hardwon").mkdir()
    (tmp_path / ".hardwon" / "lessons.json").write_text(json.dumps({"lessons": [lesson("make")]}))
    for words in (
        ("install", "claude-code", "--yes"),
        ("config", "set", "idleMinutes", "20"),
        ("trust", str(tmp_path), "--yes"),
        ("memory", "add", "user", "the kite flies east"),
        ("backup",),
        ("start",),
        ("view", "--print"),
        ("pause",),
        ("unpause",),
        ("reflect", TranscriptWriter(own_home).mistake().write()),
        ("pause", "--for", "1h"),
        ("stop",),
    ):
        full_house.ok(*words)
    full_house.ask("s3", prompt("while paused"))
    full_house.ok("unpause")
    for name in (paths.LESSON_INDEX, paths.MANIFEST):
        os.unlink(os.path.join(full_house.home, name))
    with open(os.path.join(full_house.home, paths.LESSONS), "w") as file:
        file.write("{ not json")
    full_house.stay_cold()
    full_house.ask("s4", bash("git stash"))
    names = set(os.listdir(full_house.home))
    assert {
        paths.BUILD_LOCK,
        paths.FAILED_BUILD,
        "claims",
        "memory",
        "drafts",
        "links",
        "token",
        "trusted.json",
    } <= names
    for constant, name in vars(paths).items():
        is_file_name = constant.isupper() and isinstance(name, str) and "/" not in name
        if is_file_name and name not in names:  # it only happened not to be made
            open(os.path.join(full_house.home, name), "w").close()
    assert "left      nothing" in full_house.ok("uninstall", "--all", "--data", "--yes").out


def test_only_the_owner_can_read_the_home_with_any_umask(house: House) -> None:
    old_umask = os.umask(0)
    try:
        house.start_with()
        house.ask("s1", prompt("make the kite fly"))
        house.ok("stop")
    finally:
        os.umask(old_umask)
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(house.home) for name in names]
    assert [path for path in paths if os.lstat(path).st_mode & 0o077] == []


def test_leaving_leaves_only_the_data_and_then_nothing(full_house: House, own_home: str) -> None:
    settings = os.path.join(own_home, ".claude", "settings.json")
    full_house.ok("install", "claude-code", "--yes")
    assert os.path.exists(settings)
    waits = memory_queue.queue_statements(
        memory_queue.get_queue_folder(), Turn(1, 1, 0.0, name="s1", prompt="From now on always use pnpm.")
    )
    socket_path = lifecycle.get_socket_path(full_house.home)
    wait_for(lambda: os.path.exists(socket_path))
    full_house.kill()
    assert os.path.exists(socket_path)
    output = full_house.ok("uninstall", "--all", "--yes").out
    assert memory_queue.get_queue_folder() in output
    assert not os.path.exists(socket_path)
    assert not os.path.exists(settings)
    remaining_names = sorted(os.listdir(full_house.home))
    assert remaining_names == [
        name for name in remaining_names if name.startswith(("hardwon.db", "lessons.json", "backups", "token"))
    ]
    assert "hardwon.db" in output and "lessons.json" in output
    prompts = (
        sqlite3.connect(os.path.join(full_house.home, "hardwon.db")).execute("select count(*) from prompts").fetchone()
    )
    assert prompts == (2,)
    assert os.path.exists(waits)
    assert "left      nothing" in full_house.ok("uninstall", "--all", "--data", "--yes").out
    assert not os.path.exists(full_house.home) and not os.path.exists(memory_queue.get_queue_folder())


@pytest.fixture
def backed_up(house: House) -> tuple[House, str]:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ask("s1", prompt("before"))
    house.deliveries()
    house.ok("backup")
    (name,) = os.listdir(os.path.join(house.home, "backups"))
    return house, os.path.join(house.home, "backups", name)


def damage_backup(folder: str, damage: str) -> None:
    lessons, database = (os.path.join(folder, name) for name in ("lessons.json", "hardwon.db"))
    if damage == "a broken lessons.json":
        with open(lessons, "w") as file:
            file.write('{"lessons": [')
    elif damage == "a broken config.json":
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write("{")
    elif damage == "a link":
        os.unlink(lessons)
        os.symlink("/etc/hostname", lessons)
    elif damage == "a pipe":
        os.mkfifo(os.path.join(folder, "config.json"))
    elif damage == "a linked database":
        os.rename(database, f"{folder}/../elsewhere.db")
        os.symlink("../elsewhere.db", database)
    else:
        with closing(sqlite3.connect(database)) as copy:
            statement = "create view odd as select 1"
            if damage == "a trigger":
                statement = "create trigger odd after insert on prompts begin delete from prompts; end"
            elif damage == "a changed trigger":
                copy.execute("drop trigger vectors_count_what_went")
                statement = (
                    "create trigger vectors_count_what_went after delete on vectors begin delete from prompts; end"
                )
            copy.execute(statement)
            copy.commit()


@pytest.mark.parametrize(
    "damage",
    [
        "a broken lessons.json",
        "a broken config.json",
        "a link",
        "a pipe",
        "a linked database",
        "a trigger",
        "a changed trigger",
        "a view",
    ],
)
def test_a_backup_that_is_not_sound_is_refused_before_anything_is_replaced(
    backed_up: tuple[House, str], damage: str
) -> None:
    house, folder = backed_up
    damage_backup(folder, damage)
    house.ask("s1", prompt("after"))
    ran = house.cli("restore", os.path.basename(folder), "--yes")
    assert (ran.code, "Traceback" in ran.err, "fix:" in ran.err) == (1, False, True), ran.err
    assert [row["prompt"] for row in house.stored("prompts")] == ["before", "after"]
    assert house.ask("s2", bash("git stash")).denied
    assert len(os.listdir(os.path.join(house.home, "backups"))) <= 2, "no backup of before was made"
