"""What the manifest is made from, and that nothing wrong with a source voids a guard that was good."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.support.house import GIT_STASH, House, bash, lesson


@pytest.fixture(params=["worker up", "worker down"])
def guarded_house(request: pytest.FixtureRequest, house: House) -> House:
    house.add({**GIT_STASH, "delivery": "block"})
    if request.param == "worker up":
        house.ok("start")
    return house


def write_home_file(house: House, name: str, text: str) -> None:
    with open(os.path.join(house.home, name), "w") as file:
        file.write(text)


def read_home_file(house: House, name: str) -> str:
    with open(os.path.join(house.home, name)) as file:
        return file.read()


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", r"(\w+\s?)*$", "(.*)*x", "(a*)*c"])
def test_a_catastrophic_pattern_beside_a_guard_does_not_void_it(guarded_house: House, pattern: str) -> None:
    document = json.loads(read_home_file(guarded_house, "lessons.json"))
    evil = {**lesson(pattern, delivery="block", blockReason="never seen"), "id": "evil", "slug": "evil", "priority": 10}
    document["lessons"].insert(0, evil)
    write_home_file(guarded_house, "lessons.json", json.dumps(document))
    guarded_house.cli("lessons", "build")
    for _ in range(2):
        assert "git stash -u" in guarded_house.ask("s1", bash("git stash " + "a" * 5000 + "!")).denied
    result = guarded_house.cli("lessons", "check")
    assert result.code == 1 and "evil" in result.out


@pytest.mark.parametrize(
    ("text", "say"),
    [
        ('{"lessons": [}', "line 1, column 14"),
        ('{"version": 99, "lessons": []}', "version 99"),
        ("[1, 2", "line 1"),
        ('"lessons"', "is not a lessons file"),
        ("\x00\x01", "line 1"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_lessons_file_is_named_and_the_last_good_manifest_stays(
    guarded_house: House, text: str, say: str
) -> None:
    write_home_file(guarded_house, "lessons.json", text)
    assert guarded_house.ask("s1", bash("git stash")).denied
    for words in (["lessons", "check"], ["doctor"]):
        result = guarded_house.cli(*words)
        assert result.code == 1 and say in result.out, result.out
    assert guarded_house.ask("s2", bash("git stash")).denied


def test_a_doubled_id_is_named_and_the_first_stays_in_force(guarded_house: House) -> None:
    document = json.loads(read_home_file(guarded_house, "lessons.json"))
    document["lessons"].append({**document["lessons"][0], "slug": "another", "delivery": "note", "block": None})
    write_home_file(guarded_house, "lessons.json", json.dumps(document))
    result = guarded_house.cli("lessons", "check")
    assert result.code == 1 and "has the id of lesson 1" in result.out
    assert guarded_house.ask("s1", bash("git stash")).denied


@pytest.mark.parametrize(
    "text", ["", "null", "{", '{"lessons": 7}', '{"type": "hardwon-manifest", "lessons": {"x": 1}}']
)
def test_a_spoilt_manifest_file_is_not_what_hooks_read(guarded_house: House, text: str) -> None:
    write_home_file(guarded_house, "lesson-manifest.json", text)
    assert guarded_house.ask("s1", bash("git stash")).denied


@pytest.mark.parametrize("content", [b"", b"null", b"hardwon-index-2\n", b"hardwon-index-2\n" + b"\xff" * 64])
def test_a_spoilt_index_is_built_anew_when_it_is_needed(guarded_house: House, content: bytes) -> None:
    with open(os.path.join(guarded_house.home, "lesson-index.bin"), "wb") as file:
        file.write(content)
    assert guarded_house.ask("s1", bash("git stash")).denied
    assert guarded_house.cli("doctor").code == 0


def test_a_lessons_file_of_20_megabytes_works(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    document = json.loads(read_home_file(house, "lessons.json"))
    document["lessons"][0]["mine"] = "x" * 20_000_000
    write_home_file(house, "lessons.json", json.dumps(document))
    assert house.ok("lessons", "check").out == "1 lesson in force\n"
    assert house.ask("s1", bash("git stash")).denied


def test_with_the_disk_full_a_guard_still_denies_and_add_says_so(house: House, small_disk: str) -> None:
    full = House(os.path.join(small_disk, "hardwon"))
    env = {"HARDWON_HOME": full.home}
    full.ok("lessons", "add", "--json", json.dumps({**GIT_STASH, "delivery": "block"}), env=env)
    full.ok("lessons", "add", "--json", json.dumps(lesson(r"\bmake\b", delivery="hold")), env=env)
    text_before = read_home_file(full, "lessons.json")
    fill_disk(small_disk)
    assert full.ask("s1", bash("git stash"), env=env).denied
    full.ask("s1", bash("make"), env=env)
    refused = full.cli("lessons", "add", "--json", json.dumps(lesson(r"\bnpm\b" + "x" * 1500)), env=env)
    assert refused.code == 1 and "No space left" in refused.err and "Traceback" not in refused.err
    assert read_home_file(full, "lessons.json") == text_before
    full.leave()


def fill_disk(folder: str) -> None:
    """Leave not a byte free."""
    try:
        with open(os.path.join(folder, "ballast"), "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        pass


@pytest.fixture
def small_disk(tmp_path: object) -> object:
    folder = str(tmp_path)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"no small file system can be mounted here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder])


def test_a_home_that_cannot_be_written_leaves_guards_in_force(small_disk: str) -> None:
    sealed = House(os.path.join(small_disk, "hardwon"))
    env = {"HARDWON_HOME": sealed.home}
    for record in ({**GIT_STASH, "delivery": "block"}, lesson(r"\bmake\b", delivery="hold")):
        sealed.ok("lessons", "add", "--json", json.dumps(record), env=env)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert sealed.ask("s1", bash("git stash"), env=env).denied
    assert sealed.ask("s1", bash("make"), env=env).raw == b"{}", "what cannot be claimed would be held forever"
    for words in (["lessons", "add", "--json", json.dumps(lesson("x"))], ["pause"], ["doctor"]):
        refused = sealed.cli(*words, env=env)
        assert refused.code == 1 and "Traceback" not in refused.err, refused.err


def test_a_repositorys_lessons_count_there_once_trusted_and_not_after_a_change(house: House, own_home: str) -> None:
    project = os.path.join(own_home, "work", "app")
    os.makedirs(os.path.join(project, ".hardwon"))
    subprocess.run(["git", "init", "-q", project], check=True)
    carried = os.path.join(project, ".hardwon", "lessons.json")
    record = {**GIT_STASH, "delivery": "block", "blockReason": "not in this repository", "id": "R1", "slug": "r1"}
    with open(carried, "w") as file:
        json.dump({"lessons": [record]}, file)
    house.ok("start")

    def is_denied(folder: str) -> bool:
        return bool(house.ask("s1", bash("git stash", cwd=folder)).denied)

    assert not is_denied(project)
    assert house.cli("trust", project, env={"CLAUDECODE": "1"}).code == 1
    refused = house.cli("trust", cwd=project)
    assert (refused.code, "--yes" in refused.err, is_denied(project)) == (1, True, False)
    expected_texts = [GIT_STASH["problem"], GIT_STASH["solution"], "not in this repository", "git stash", "block"]
    assert [text for text in expected_texts if text not in refused.out] == []
    assert "(1 lesson, in this project only)" in house.ok("trust", "--yes", cwd=project).out
    assert (is_denied(project), is_denied(os.path.join(project, "src")), is_denied(own_home)) == (True, True, False)
    with open(carried, "a") as file:
        file.write("\n")
    assert not is_denied(project)
    assert "changed since" in house.ok("trust", "--list").out
    house.ok("trust", project, "--yes")
    assert is_denied(project)
    house.ok("trust", "--revoke", project)
    assert not is_denied(project)


@pytest.mark.parametrize("kind", ["a device without end", "a pipe nobody writes to"])
def test_a_trusted_file_that_became_a_device_or_pipe_blocks_no_hook(
    guarded_house: House, own_home: str, kind: str
) -> None:
    carried = os.path.join(own_home, "app", ".hardwon", "lessons.json")
    os.makedirs(os.path.dirname(carried))
    with open(carried, "w") as file:
        json.dump({"lessons": [{**lesson(r"\bmake\b"), "id": "R1", "slug": "r1"}]}, file)
    guarded_house.ok("trust", os.path.join(own_home, "app"), "--yes")
    os.unlink(carried)
    os.symlink("/dev/zero", carried) if kind == "a device without end" else os.mkfifo(carried)
    assert "not a plain file" in guarded_house.cli("lessons", "check").out
    assert guarded_house.cli("trust", os.path.join(own_home, "app"), "--yes").code == 1
    assert "not used" in guarded_house.ok("trust", "--list").out
    assert guarded_house.ask("s1", bash("git stash")).denied


def test_a_linked_source_stays_a_link(house: House, own_home: str) -> None:
    os.makedirs(house.home, mode=0o700)
    for name, text in (("lessons.json", '{"lessons": []}'), ("config.json", "{}")):
        with open(os.path.join(own_home, name), "w") as file:
            file.write(text)
        os.symlink(os.path.join(own_home, name), os.path.join(house.home, name))
    house.add(GIT_STASH)
    house.ok("config", "set", "minPriority", "2")
    for name, expected in (("lessons.json", "git stash -u"), ("config.json", "minPriority")):
        assert os.path.islink(os.path.join(house.home, name))
        with open(os.path.join(own_home, name)) as file:
            assert expected in file.read()


def test_a_broken_database_and_deep_nesting_are_said_in_a_line(house: House, own_home: str) -> None:
    deep = os.path.join(own_home, "deep.json")
    with open(deep, "w") as file:
        file.write("[" * 100_000)
    for words in (
        ["lessons", "add", "--file", deep],
        ["lessons", "import", deep],
        ["config", "set", "x", "[" * 50_000],
    ):
        refused = house.cli(*words)
        assert (refused.code, "error: " in refused.err, "Traceback" in refused.err) == (1, True, False), refused.err
    house.ok("deliveries")
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection:
        connection.execute("drop table injections")
    refused = house.cli("deliveries")
    assert (refused.code, "error: the database: " in refused.err, "Traceback" in refused.err) == (1, True, False)


def test_help_says_that_defaults_are_those_of_a_new_lesson(house: House) -> None:
    for words in (["lessons", "add"], ["lessons", "edit"], ["accept"], ["scan", "promote"]):
        output = house.ok(*words, "--help").out
        assert "a new lesson is a note" in output and "5 for a new lesson" in output, words


@pytest.mark.parametrize("name", ["scanPaths", "skipTools", "denyProjects", "denyPaths"])
def test_a_list_holds_texts_only(house: House, name: str) -> None:
    refused = house.cli("config", "set", name, "[5]")
    assert (refused.code, f"{name} is [5]" in refused.err) == (1, True)


def test_a_scoped_lesson_counts_in_worktrees_and_through_links(house: House, own_home: str) -> None:
    project, tree, link = (os.path.join(own_home, name) for name in ("app", "tree", "link"))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", project]
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", tree], check=True)
    os.symlink(project, link)
    os.makedirs(os.path.join(project, "below"))
    flags = ["--command", r"\bgit stash\b", "--delivery", "block", "--project"]
    texts = [part for name in ("summary", "problem", "solution") for part in (f"--{name}", GIT_STASH[name])]
    house.ok("lessons", "add", *texts, *flags, cwd=os.path.join(tree))
    folders = [project, project + "/", os.path.join(project, "below"), tree, link, own_home, project + "2"]
    denials = [bool(house.ask("s1", bash("git stash", cwd=folder)).denied) for folder in folders]
    assert denials == [True, True, True, True, True, False, False]


def test_config_shows_and_sets_every_setting(house: House) -> None:
    rows = {row["name"]: row for row in house.ok("config", "--json").json()}
    assert rows["maxLessonsPerInjection"]["origin"] == "default"
    house.ok("config", "set", "maxLessonsPerInjection", "1")
    assert house.ok("config", "get", "maxLessonsPerInjection").out == "1\n"
    refused = house.cli("config", "set", "maxLessonsPerInjection", "many")
    assert (refused.code, "expected a number such as 3" in refused.err) == (1, True)
    assert house.cli("config", "set", "colour", "red").code == 1
    assert house.cli("config", "set", "minPriority", "2", env={"CLAUDECODE": "1"}).code == 1
    house.ok("config", "set", "apiPort", "-1")
    for name in ("maxLessonsPerInjection", "apiPort"):
        house.ok("config", "set", name, "null")
    assert json.loads(read_home_file(house, "config.json")) == {}


@pytest.mark.parametrize("caps", ['{"dollarsPerDay": "0.05"}', '{"dollarsPerDay": NaN}', "5"])
def test_a_cap_that_cannot_be_read_spends_nothing_and_is_said(house: House, caps: str) -> None:
    os.makedirs(house.home, exist_ok=True)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        file.write(f'{{"caps": {caps}}}')
    assert house.ok("config", "get", "caps.dollarsPerDay").out == "0\n"
    assert "until then nothing is spent" in house.cli("doctor").out


def test_a_setting_may_be_spelled_out(house: House) -> None:
    os.makedirs(house.home, exist_ok=True)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        json.dump({"caps.runsPerDay": 5, "llm.provider": "openai"}, file)
    rows = {row["name"]: row["value"] for row in house.ok("config", "--json").json()}
    assert (rows["caps.runsPerDay"], rows["llm.provider"]) == (5, "openai")
    house.ok("config", "set", "caps.runsPerDay", "6")
    assert json.loads(read_home_file(house, "config.json")) == {"caps": {"runsPerDay": 6}, "llm.provider": "openai"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("llm.apiKeyEnv", "sk-ant-api03-" + "Zx9Qv7Lm3Kp1Rt5Yw8"),
        ("llm.apiKeyEnv", "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"),
        ("llm.baseUrl", "https://user:Zx9Qv7Lm3Kp1@models.example/v1"),
        ("llm.baseUrl", "https://models.example/v1?key=Zx9Qv7Lm3Kp1"),
    ],
)
def test_a_key_is_neither_kept_nor_said_again(house: House, name: str, value: str) -> None:
    refused = house.cli("config", "set", name, value)
    assert (refused.code, "variable" in refused.err, value in refused.out + refused.err) == (1, True, False)
    assert not os.path.exists(os.path.join(house.home, "config.json"))
    os.makedirs(house.home, exist_ok=True)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        json.dump({"llm": {name.partition(".")[2]: value}}, file)
    assert value not in house.ok("config").out + house.cli("doctor").out


def test_every_delivery_setting_has_its_effect(house: House) -> None:
    for number, confidence in enumerate([0.7, 0.75, 0.8, 0.9]):
        house.add(lesson(r"\bmake\b", priority=number + 3, confidence=confidence))

    def count(session: str) -> int:
        return house.ask(session, bash("make")).context.count("(lesson ")

    assert count("s1") == 3
    house.ok("config", "set", "maxLessonsPerInjection", "2")
    assert count("s2") == 2
    house.ok("config", "set", "maxLessonsPerInjection", "10")
    house.ok("config", "set", "minPriority", "5")
    assert count("s3") == 2
    house.ok("config", "set", "minPriority", "1")
    house.ok("config", "set", "minConfidence", "0.8")
    assert count("s4") == 2
    house.ok("config", "set", "minConfidence", "0.5")
    house.ok("config", "set", "injectionBudgetBytes", "200")
    first = house.ask("s5", bash("make")).context
    assert first.count("## Lesson") == 1 and len(first) < 600


def test_a_lesson_is_edited_retired_and_restored(house: House) -> None:
    slug = house.add({**GIT_STASH, "delivery": "hold", "mine": 1})
    block = ("--delivery", "block", "--block-reason", "use {command} -u please", "--confirm")
    house.ok("lessons", "edit", slug, "--priority", "9", *block)
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert (stored_lesson["priority"], stored_lesson["delivery"], stored_lesson["block"], stored_lesson["mine"]) == (
        9,
        "block",
        True,
        1,
    )
    assert "use git stash -u please" in house.ask("s1", bash("git stash")).denied
    assert house.cli("lessons", "edit", slug, "--command", "(a+)+$").code == 1
    assert house.cli("lessons", "retire", slug, env={"CLAUDECODE": "1"}).code == 1
    house.ok("lessons", "retire", slug)
    assert house.ask("s1", bash("git stash")).raw == b"{}"
    house.ok("lessons", "restore", slug)
    assert house.ask("s1", bash("git stash")).denied


def test_a_lesson_much_like_another_is_refused_by_name(house: House) -> None:
    slug = house.add(GIT_STASH)
    near = {**GIT_STASH, "problem": GIT_STASH["problem"] + " really", "summary": "another summary for the same thing"}
    refused = house.cli("lessons", "add", "--json", json.dumps(near))
    assert refused.code == 1 and slug in refused.err and "much like" in refused.err


def test_only_what_may_be_in_force_is_in_the_manifest(house: House) -> None:
    house.add(lesson(r"\bmake\b", confidence=0.6))
    house.add(lesson(r"\bnpm\b", status="retired"))
    slug = house.add(lesson(r"\bgit\b"))
    manifest = json.loads(read_home_file(house, "lesson-manifest.json"))
    assert [entry["slug"] for entry in manifest["lessons"].values()] == [slug]
    [entry] = manifest["lessons"].values()
    assert entry["commandRegexSources"] == [{"source": r"\bgit\b", "flags": ""}]
