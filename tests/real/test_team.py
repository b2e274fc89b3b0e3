"""Machines of a team, one server, a real PostgreSQL: what one learned, the others hold."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]  # comes with mkdocs

from hardwon.store import db
from hardwon.team import postgres
from hardwon.team.client import ServerRefusal, TeamClient
from hardwon.team.postgres import ConnectionPool
from hardwon.team.record import create_key, encode_body, load_key, sign_record, sign_token, to_wire
from hardwon.team.replica import Replica
from tests.stories.test_the_viewer import open_browser
from tests.support import postgresql
from tests.support.house import House, bash, wait_for
from tests.support.team_server import RunningServer, run_team_server

pytestmark = pytest.mark.real
STASH: dict[str, Any] = {
    "summary": "git stash leaves untracked files behind",
    "problem": "git stash only stashes tracked files; untracked ones stay where they are",
    "solution": "use git stash -u to keep untracked files as well",
    "delivery": "hold",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b(?! -u)"]},
}


def find_server() -> Iterator[RunningServer]:
    """Yield a server on a PostgreSQL of this machine; skip where there is none, except in CI."""
    if not postgresql.is_available():
        reason = "there is no PostgreSQL on this machine; on Debian: apt-get install postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with run_team_server() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    yield from find_server()


class Machines:
    """Homes of several machines in one team; the first founded it."""

    def __init__(self, folder: Path, server: RunningServer) -> None:
        self._folder, self._server = folder, server
        self.founder = House(str(folder / "founder"))
        self.founder.ok(
            "team", "join", server.url, server.create_setup_code(), "--member", "ada", "--name", "ada-laptop"
        )
        self.houses = [self.founder]

    def add(self, name: str, role: str = "proposer") -> House:
        house = House(str(self._folder / name))
        command = self.founder.ok("team", "invite", "--role", role, "--member", name).out.split()
        house.ok(*command[1:], "--name", f"{name}-laptop")
        self.houses.append(house)
        return house

    def leave(self) -> None:
        for house in self.houses:
            house.leave()


@pytest.fixture
def machines(tmp_path: Path, server: RunningServer) -> Iterator[Machines]:
    created = Machines(tmp_path, server)
    yield created
    created.leave()


def test_a_lesson_of_one_machine_holds_the_call_on_another_after_review(machines: Machines) -> None:
    bob, eve = machines.add("bob"), machines.add("eve", role="reviewer")
    slug = bob.add(STASH)
    output = bob.ok("team", "share", slug, "--yes").out
    assert "This leaves your machine" in output and "waits for a reviewer" in output
    assert eve.ask("s1", bash("git stash")).denied == ""
    assert STASH["summary"] in eve.ok("team", "review", "--accept", slug).out
    assert "git stash -u" in eve.ask("s2", bash("git stash")).denied
    machines.founder.ok("team", "sync")
    assert machines.founder.ask("s3", bash("git stash")).denied == ""  # proposed, not in force without a yes
    assert "no call recorded here matches it" in machines.founder.ok("team", "review").out
    machines.founder.ok("team", "review", "--accept", slug)
    assert "git stash -u" in machines.founder.ask("s4", bash("git stash")).denied


def test_a_policy_lets_holds_in_but_a_block_always_asks(machines: Machines) -> None:
    machines.founder.ok("team", "policy", "note", "hold")
    bob = machines.add("bob")
    slugs = [
        machines.founder.add(STASH),
        machines.founder.add(
            {
                **STASH,
                "summary": "force pushing to main loses the work of others",
                "problem": "a forced push replaces what colleagues pushed meanwhile",
                "solution": "use git push --force-with-lease on your own branch",
                "delivery": "block",
                "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"git push --force\b"]},
            }
        ),
    ]
    for slug in slugs:
        machines.founder.ok("team", "share", slug, "--yes")
    assert "in force" in bob.ok("team", "sync").out
    assert "git stash -u" in bob.ask("s1", bash("git stash")).denied
    assert bob.ask("s1", bash("git push --force")).denied == ""
    bob.ok("team", "review", "--accept", slugs[1])
    assert "force-with-lease" in bob.ask("s2", bash("git push --force")).denied


def test_muting_is_local_and_a_rollback_reaches_everybody(machines: Machines) -> None:
    machines.founder.ok("team", "policy", "hold")
    bob, eve = machines.add("bob"), machines.add("eve")
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    bob.ok("team", "sync")
    eve.ok("team", "sync")
    bob.ok("team", "mute", slug)
    assert bob.ask("s1", bash("git stash")).denied == ""
    assert eve.ask("s1", bash("git stash")).denied
    machines.founder.ok("lessons", "edit", slug, "--solution", "use git stash --include-untracked from now on")
    machines.founder.ok("team", "share", slug, "--yes")
    eve.ok("team", "sync")
    assert "--include-untracked" in eve.ask("s2", bash("git stash")).denied
    machines.founder.ok("team", "rollback", slug)
    eve.ok("team", "sync")
    assert "git stash -u" in eve.ask("s3", bash("git stash")).denied
    machines.founder.ok("team", "retire", slug)
    eve.ok("team", "sync")
    assert eve.ask("s4", bash("git stash")).denied == ""


def test_a_container_pulls_once_with_a_token_that_can_only_read(machines: Machines, tmp_path: Path) -> None:
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    token = machines.founder.ok("team", "token", "ci").out.strip()
    container = House(str(tmp_path / "container"))
    url = json.loads((tmp_path / "founder" / "team.json").read_text())["url"]
    container.ok("team", "pull", "--once", env={"HARDWON_TEAM_URL": url, "HARDWON_TEAM_TOKEN": token})
    assert "git stash -u" in container.ask("job", bash("git stash")).denied
    machines.founder.ok("team", "token", "ci", "--revoke")
    refused = container.cli("team", "pull", "--once", env={"HARDWON_TEAM_URL": url, "HARDWON_TEAM_TOKEN": token})
    assert refused.code == 1 and "revoked" in refused.err
    container.leave()


def test_a_revoked_machine_is_out_at_once(machines: Machines) -> None:
    bob = machines.add("bob")
    machines.founder.ok("team", "revoke", "bob", "--yes")
    refused = bob.cli("team", "sync")
    assert refused.code == 1 and "revoked" in refused.err


@pytest.mark.parametrize(
    "solution",
    ["connect with DB_PASSWORD=hunter2-Zq81-secret and try again", "see /home/dev/notes/stash.txt for the rest"],
)
def test_secrets_and_folders_of_a_person_do_not_leave(machines: Machines, server: RunningServer, solution: str) -> None:
    slug = machines.founder.add(STASH)
    path = Path(machines.founder.home) / "lessons.json"
    path.write_text(path.read_text().replace(str(STASH["solution"]), solution))
    refused = machines.founder.cli("team", "share", slug, "--yes")
    assert refused.code == 1 and "not shared" in refused.err
    with psycopg.connect(server.cluster.dsn) as connection:
        bodies = connection.execute("select body from team_bodies").fetchall()
    assert not any("hunter2" in body or "/home/dev" in body for (body,) in bodies)


def test_an_erased_text_is_gone_on_the_server_and_on_every_machine(machines: Machines, server: RunningServer) -> None:
    machines.founder.ok("team", "policy", "hold")
    bob = machines.add("bob")
    slug = machines.founder.add({**STASH, "solution": "use git stash -u, the untracked-magic-word way"})
    machines.founder.ok("team", "share", slug, "--yes")
    bob.ok("team", "sync")
    machines.founder.ok("team", "erase", slug, "--yes")
    bob.ok("team", "sync")
    with psycopg.connect(server.cluster.dsn) as connection:
        bodies = connection.execute("select body from team_bodies").fetchall()
    assert not any("untracked-magic-word" in body for (body,) in bodies)
    assert (
        "untracked-magic-word"
        not in bob.ok("team", "show", machines.founder.ok("team", "list", "--json").json()[0]["subject"]).out
    )
    assert bob.ask("s1", bash("git stash")).denied == ""


def test_no_row_of_another_team_is_seen_even_without_a_tenant(machines: Machines, server: RunningServer) -> None:
    with ConnectionPool(server.cluster.dsn, 1).open_transaction() as connection:
        for table in ("team_records", "team_bodies", "team_tokens", "team_forks", "setup_codes"):
            assert connection.execute(f"select count(*) from {table}").fetchone() == (0,)
        postgres.enter_team(connection, "0" * 32)
        assert connection.execute("select count(*) from team_records").fetchone() == (0,)
        for statement in ("update team_records set kind = 'found'", "delete from team_records"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement)


def test_a_killed_server_and_database_lose_nothing(machines: Machines, server: RunningServer) -> None:
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    server.cluster.kill()
    refused = machines.founder.cli("team", "sync")
    assert refused.code == 1 and "nothing is lost" in refused.err
    server.cluster.start()
    bob = machines.add("bob")
    assert slug in bob.ok("team", "show", slug).out


def test_a_project_lesson_finds_the_clone_of_its_repository(machines: Machines, tmp_path: Path) -> None:
    machines.founder.ok("team", "policy", "hold")
    bob = machines.add("bob")
    clones = [tmp_path / "ada-clone", tmp_path / "bob-clone"]
    for clone in clones:
        subprocess.run(["git", "init", "-q", str(clone)], check=True)
        subprocess.run(
            ["git", "-C", str(clone), "remote", "add", "origin", "https://example.invalid/x.git"], check=True
        )
    slug = machines.founder.add({**STASH, "scope": {"type": "project", "path": str(clones[0])}})
    machines.founder.ok("team", "share", slug, "--yes")
    output = bob.ok("team", "review").out
    assert "in https://example.invalid/x.git" in output and "which is not on this" in output
    bob.ask("s0", {**bash("ls"), "hook_event_name": "PostToolUse", "tool_response": "", "cwd": str(clones[1])})
    bob.ok("sessions", "list")  # records what waits in the spool
    bob.ok("team", "sync")
    assert bob.ask("s1", bash("git stash", cwd=str(clones[1]))).denied
    assert bob.ask("s1", bash("git stash", cwd=str(tmp_path))).denied == ""


def test_a_person_decides_in_the_viewer(machines: Machines) -> None:
    bob = machines.add("bob")
    slug = bob.add(STASH)
    bob.ok("team", "share", slug, "--yes")
    machines.founder.ok("team", "sync")
    browser = open_browser(machines.founder)
    for button in ("Approve for the team", "Accept here"):
        (path,) = re.findall(r"/team/[0-9a-f]{64}", browser.get("/inbox").text)
        page = browser.get(path).text
        assert STASH["solution"] in page and "Shared by bob" in page and button in page
        assert browser.post(f"{path}/accept", browser.secrets(path)).status_code == 303
    assert path not in browser.get("/inbox").text and browser.get(path).status_code == 404
    assert "git stash -u" in machines.founder.ask("s1", bash("git stash")).denied


def test_memories_and_handoffs_are_taken_over_and_go_when_the_team_retires_them(
    machines: Machines, tmp_path: Path
) -> None:
    bob, founder = machines.add("bob"), machines.founder
    founder.ok("memory", "add", "user", "Deploys happen on Tuesdays, never on Fridays")
    handoff_page = "## Resume Prompt\n\nFirst: rerun the migration on staging\n"
    founder.ok("handoff", "write", stdin=handoff_page, cwd=str(tmp_path))
    for name in ("M1", "H:1"):
        founder.ok("team", "share", name, "--yes")
    bob.ok("team", "sync")
    subjects = [entry["subject"] for entry in bob.ok("team", "list", "--json").json()]
    for subject in subjects:
        bob.ok("team", "review", "--accept", subject)
    assert "never on Fridays" in bob.ok("memory", "list").out
    assert "rerun the migration" in bob.ok("handoff", "show", "1").out
    for subject in subjects:
        founder.ok("team", "retire", subject)
    bob.ok("team", "sync")
    assert "never on Fridays" not in bob.ok("memory", "list").out
    assert bob.cli("handoff", "show", "1").code == 1 or "rerun" not in bob.cli("handoff", "show", "1").out


@pytest.mark.parametrize("name", ["M1", "H:1"])
def test_a_secret_in_a_memory_or_handoff_does_not_leave(
    machines: Machines, server: RunningServer, tmp_path: Path, name: str
) -> None:
    founder = machines.founder
    founder.ok("memory", "add", "user", "The staging deploy runs on Tuesdays")
    founder.ok("handoff", "write", stdin="## Resume Prompt\n\nThe staging deploy runs on Tuesdays\n", cwd=str(tmp_path))
    secret = "export DB_PASSWORD=hunter2-Zq81-secret"
    with db.open(founder.home) as connection:
        connection.execute("update memories set text = ?", (secret,))
        connection.execute("update reflections set topic = ?", (secret,))
    shared = founder.cli("team", "share", name, "--yes")
    with psycopg.connect(server.cluster.dsn) as connection:
        bodies = connection.execute("select body from team_bodies").fetchall()
    assert not any("hunter2" in body for (body,) in bodies)
    assert (shared.code == 1 and "not shared" in shared.err) or "hunter2" not in shared.out


def test_counts_are_sums_without_person_or_machine(machines: Machines) -> None:
    machines.founder.ok("team", "policy", "hold")
    houses = [machines.founder, machines.add("bob"), machines.add("eve")]
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    for house in houses:
        house.ok("team", "sync")
        assert house.ask("s1", bash("git stash")).denied
        house.ok("sessions", "list")  # records what waits in the spool
        house.ok("team", "sync")
    houses[0].ok("team", "sync")
    (entry,) = houses[0].ok("team", "list", "--json").json()
    assert entry["counts"] == {"told": 3, "told_failed": 0, "silent": 0, "silent_failed": 0}
    with db.open(houses[0].home) as connection:
        query = "select body from team_bodies where hash in (select body_hash from team_records where kind = 'counts')"
        bodies = [json.loads(body) for (body,) in connection.execute(query)]
    assert len(bodies) == 3 and all(set(content) == {"totals", "salt"} for content in bodies)


def test_a_fork_is_said_on_every_side(machines: Machines) -> None:
    bob = machines.add("bob")
    eve = machines.add("eve")
    slug = share_stash(machines)
    copied = House(str(Path(bob.home).parent / "bob-restored"))
    shutil.copytree(bob.home, copied.home)
    bob.ok("team", "mute", slug)
    copied.cli("team", "mute", slug)
    for house in (bob, eve, machines.founder):
        house.cli("team", "sync")
        assert "bob-laptop of bob wrote two records" in house.cli("doctor").out
    copied.leave()


def share_stash(machines: Machines) -> str:
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    for house in machines.houses:
        house.ok("team", "sync")
    return slug


def test_a_machine_that_joined_after_the_backup_comes_back_by_its_key(
    machines: Machines, server: RunningServer
) -> None:
    backup = server.cluster.dump()
    bob = machines.add("bob")
    slug = bob.add(STASH)
    bob.ok("team", "share", slug, "--yes")
    server.cluster.restore(backup)
    assert bob.cli("team", "sync").code == 1  # its invite is on the founder's machine only
    machines.founder.ok("team", "sync")
    bob.ok("team", "sync")
    machines.founder.ok("team", "sync")
    assert slug in machines.founder.ok("team", "show", slug).out


def test_codes_work_once_and_a_token_needs_the_machines_own_signature(machines: Machines, tmp_path: Path) -> None:
    command = machines.founder.ok("team", "invite").out.split()[1:]
    bob, thief = House(str(tmp_path / "bob")), House(str(tmp_path / "thief"))
    bob.ok(*command)
    refused = thief.cli(*command)
    assert refused.code == 1 and "used before" in refused.err
    config = json.loads((tmp_path / "bob" / "team.json").read_text())
    with db.open(bob.home) as connection:
        replica = Replica(connection, config["team"])
        own_log = replica.select_after({load_key(config["key"]).machine: 0})
    join = {"records": [to_wire(own_log.records[0])], "bodies": dict(own_log.bodies)}
    stolen_token = f"{config['team']}.stolen"
    client = TeamClient(config["url"])
    with pytest.raises(ServerRefusal, match="not signed"):
        client.call("/v1/join", {**join, "token": stolen_token, "signature": sign_token(create_key(), stolen_token)})
    with pytest.raises(ServerRefusal):
        TeamClient(config["url"], stolen_token).call("/v1/sync", {})
    machines.founder.ok("team", "revoke", bob_id(config), "--yes")
    signature = sign_token(load_key(config["key"]), config["token"])
    with pytest.raises(ServerRefusal):
        client.call("/v1/join", {**join, "token": config["token"], "signature": signature})
    for house in (bob, thief):
        house.leave()


def bob_id(config: dict[str, str]) -> str:
    return load_key(config["key"]).machine


@pytest.mark.parametrize(
    ("kind", "subject", "body"),
    [
        ("publish", "lesson:x", "not json"),
        ("publish", "lesson:x", "[1, 2]"),
        ("publish", "lesson:x", '{"type": "lesson", "lesson": "text", "id": 7}'),
        ("publish", "lesson:x", '{"type": "lesson", "id": "x", "lesson": {"summary": 7, "triggers": []}}'),
        ("publish", "memory:x", '{"type": "memory", "text": {"a": 1}, "memory_type": 3, "remote": []}'),
        ("join", "members", '{"public_key": "zz", "code": 3}'),
        ("role", "members", '{"machine": [], "role": "admin", "after_sequence": "x"}'),
        ("revoke", "members", '{"machine": "x", "last_sequence": {}}'),
        ("counts", "lesson:x", '{"totals": [1]}'),
        ("approve", "lesson:x", '{"version": {}}'),
    ],
)
def test_a_malformed_record_of_a_member_does_not_harm_the_others(
    machines: Machines, kind: str, subject: str, body: str
) -> None:
    eve = machines.add("eve", role="admin")
    config = json.loads(Path(eve.home, "team.json").read_text())
    key = load_key(config["key"])
    with db.open(eve.home) as connection:
        records = [
            record for record in Replica(connection, config["team"]).list_records() if record.writer == key.machine
        ]
    evil = sign_record(key, config["team"], records[-1], kind, subject, (), body)
    payload = {"records": [to_wire(evil)], "bodies": {evil.body_hash: body}}
    answer = TeamClient(config["url"], config["token"]).call("/v1/sync", payload)
    assert "refused" not in answer
    slug = share_stash_as(machines.founder)
    for words in (("sync",), ("list",), ("status",), ("review",), ("show", slug)):
        machines.founder.ok("team", *words)
    assert machines.founder.cli("doctor").out.count("team") >= 1
    machines.add("late")


def share_stash_as(house: House) -> str:
    slug = house.add(STASH)
    house.ok("team", "share", slug, "--yes")
    return slug


def test_a_tampered_body_and_a_spoilt_signature_are_not_taken(machines: Machines) -> None:
    bob = machines.add("bob")
    config = json.loads(Path(bob.home, "team.json").read_text())
    key, client = load_key(config["key"]), TeamClient(config["url"], config["token"])
    with db.open(bob.home) as connection:
        records = Replica(connection, config["team"]).list_records()
    own_records = [record for record in records if record.writer == key.machine]
    body = encode_body({"text": "what was written"})
    record = sign_record(key, config["team"], own_records[-1], "publish", "memory:x", (), body)
    spoilt = record._replace(signature="00" * 64)
    answer = client.call("/v1/sync", {"records": [to_wire(spoilt)], "bodies": {record.body_hash: body}})
    assert "wrong signature" in answer["refused"][key.machine]
    tampered = body.replace("what was written", "what was not ...")
    client.call("/v1/sync", {"records": [to_wire(record)], "bodies": {record.body_hash: tampered}})
    machines.founder.ok("team", "sync")
    with db.open(machines.founder.home) as connection:
        state = Replica(connection, config["team"]).read_state()
    assert state.subjects["memory:x"].versions[0].content is None


def test_a_colleagues_record_does_not_replace_a_lesson_of_ones_own(machines: Machines) -> None:
    bob = machines.add("bob", role="reviewer")
    machines.founder.ok("team", "policy", "hold")
    private = bob.add(STASH)
    lesson_id = json.loads(Path(bob.home, "lessons.json").read_text())["lessons"][0]["id"]
    forged = {**STASH, "id": lesson_id, "slug": private, "solution": "use git stash drop, it is faster"}
    machines.founder.add(forged)
    machines.founder.ok("team", "share", private, "--yes")
    assert "has the same id" in bob.ok("team", "sync").out
    assert "git stash -u" in bob.ask("s1", bash("git stash")).denied


def test_the_commands_of_the_page_do_what_it_says(server: RunningServer, tmp_path: Path) -> None:
    """Each command about the server in docs/teams.md is run, in its order; a new one must be added here."""
    page = (Path(__file__).parents[2] / "docs" / "teams.md").read_text().partition("## With a server")[2]
    commands = [line.partition(" #")[0].strip() for line in re.findall(r"^hardwon team .*", page, re.MULTILINE)]
    ada, bob, job = (House(str(tmp_path / name)) for name in ("ada", "bob", "job"))
    slug, port = ada.add(STASH), find_free_port()
    with serve_in_process(server, "page", ada, port) as process:
        run_page_commands(commands, slug, process, port, ada, bob, job)
    assert [command.split()[2] for command in commands] == DOCUMENTED
    for house in (ada, bob, job):
        house.leave()


@contextmanager
def serve_in_process(
    server: RunningServer, database: str, house: House, port: int, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Run `hardwon team serve` on a database of its own."""
    with psycopg.connect(server.cluster.dsn, autocommit=True) as connection:
        connection.execute(f"create database {database}")
    dsn = server.cluster.dsn.replace("dbname=postgres", f"dbname={database}")
    command = [sys.executable, "-m", "hardwon", "team", "serve", "--database", dsn, "--port", str(port), *options]
    process = subprocess.Popen(command, env=house.environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def test_a_self_signed_server_is_joined_with_its_authority_only(server: RunningServer, tmp_path: Path) -> None:
    ada, port = House(str(tmp_path / "ada")), find_free_port()
    options = ("--self-signed", str(tmp_path / "certificates"), "--public-host", "localhost")
    with serve_in_process(server, "encrypted", ada, port, *options) as process:
        assert process.stdout is not None
        words = process.stdout.readline().partition("hardwon ")[2].split()
        assert words[2].startswith("https://localhost:") and words[-2] == "--authority"
        wait_for(lambda: is_listening(port))
        refused = ada.cli(*words[:-2])
        assert refused.code == 1 and "certificate verify failed" in refused.err
        assert "joined team as admin" in ada.ok(*words).out
    assert Path(ada.home, "team.json").stat().st_mode & 0o077 == 0
    ada.leave()


def run_page_commands(
    commands: list[str], slug: str, process: subprocess.Popen[str], port: int, ada: House, bob: House, job: House
) -> None:
    assert process.stdout is not None
    outputs, first_line = list[str](), process.stdout.readline()
    wait_for(lambda: is_listening(port))
    for command in commands:
        words = command.replace("SLUG", slug).split()[1:]
        if words[1] == "serve":
            outputs.append(first_line)
        elif words[1] == "join":
            outputs.append(ada.ok(*first_line.partition("hardwon ")[2].split()).out)
        elif words[1] == "pull":
            env = {"HARDWON_TEAM_URL": f"http://127.0.0.1:{port}", "HARDWON_TEAM_TOKEN": outputs[-1].strip()}
            outputs.append(job.ok(*words, env=env).out)
        else:
            outputs.append(ada.ok(*words, *(["--yes"] if words[1] in ("share", "erase") else [])).out)
        if words[1] == "invite":
            bob.ok(*outputs[-1].split()[1:])
        elif words[1] == "policy":
            bob.ok("team", "sync")
            assert "git stash -u" in bob.ask("s1", bash("git stash")).denied
        elif words[1] == "rollback":
            bob.ok("team", "sync")
            assert bob.ask("s2", bash("git stash")).denied == ""


DOCUMENTED = [
    "serve",
    "join",
    "invite",
    "share",
    "review",
    "policy",
    "list",
    "mute",
    "rollback",
    "erase",
    "token",
    "pull",
]


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_commands_of_the_compose_file_start_a_team(server: RunningServer, tmp_path: Path) -> None:
    """Run what the containers run, with this machine's folders, addresses and PostgreSQL instead of the containers'."""
    compose = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())
    database, team = compose["services"]["postgres"], compose["services"]["team"]
    assert team["depends_on"]["postgres"]["condition"] == "service_healthy"
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    with psycopg.connect(server.cluster.dsn, autocommit=True) as connection:
        connection.execute(f"create role {user} superuser login")
        connection.execute(f"create database {name} owner {user}")
    healthy = server.cluster.run_program(*database["healthcheck"]["test"].split())
    assert "accepting connections" in healthy
    port, ada = find_free_port(), House(str(tmp_path / "ada"))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "pip").write_text('#!/bin/sh\ntest "$*" = "install --quiet hardwon[team]"\n')
    (programs / "pip").chmod(0o755)
    path = os.pathsep.join([str(programs), os.path.dirname(sys.executable), os.environ["PATH"]])
    url = team["environment"]["HARDWON_TEAM_DATABASE"].replace("${POSTGRES_PASSWORD}", "secret")
    host, mounted_folder = "@postgres/", team["volumes"][0].split(":")[1]
    assert host in url
    url = url.replace(host, "@/") + f"?host={server.cluster.folder}"
    environment = {**ada.environment(), "PATH": path, "HARDWON_TEAM_DATABASE": url, "TEAM_HOST": "localhost"}
    command = team["command"].replace("$$", "$").replace("0.0.0.0", f"127.0.0.1 --port {port}")
    command = command.replace(mounted_folder, str(tmp_path / "certificates"))
    process = subprocess.Popen(shlex.split(command), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().partition("hardwon ")[2].split()
        wait_for(lambda: is_listening(port))
        assert "joined team as admin" in ada.ok(*words).out
    finally:
        process.terminate()
        process.communicate()
    ada.leave()


def test_the_check_and_the_health_of_a_server(server: RunningServer, tmp_path: Path) -> None:
    house = House(str(tmp_path / "ada"))
    assert house.ok("team", "serve", "--database", server.cluster.dsn, "--check").out == "database  ok\n"
    with urlopen(f"{server.url}/health") as answer:
        assert json.load(answer)["ok"] is True
    server.cluster.kill()
    try:
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"{server.url}/health")
    finally:
        server.cluster.start()
    house.leave()


def test_one_person_has_the_same_lessons_on_all_machines_until_one_leaves(machines: Machines, tmp_path: Path) -> None:
    machines.founder.ok("team", "policy", "hold")
    desktop = House(str(tmp_path / "desktop"))
    invite = machines.founder.ok("team", "invite", "--role", "admin", "--member", "ada").out.split()
    desktop.ok(*invite[1:])
    desktop.ok("team", "share", desktop.add(STASH), "--yes")
    machines.founder.ok("team", "sync")
    assert "git stash -u" in machines.founder.ask("s1", bash("git stash")).denied
    assert {machine["member"] for machine in desktop.ok("team", "members", "--json").json()} == {"ada"}
    desktop.ok("team", "leave", "--yes")
    assert desktop.cli("team", "status").code == 1
    assert "git stash -u" in desktop.ask("s1", bash("git stash")).denied
    desktop.leave()


def test_the_worker_brings_what_the_team_approved(machines: Machines) -> None:
    machines.founder.ok("team", "policy", "hold")
    bob = machines.add("bob")
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    bob.ok("start")
    wait_for(lambda: slug in bob.ok("lessons", "list").out)
    assert "git stash -u" in bob.ask("s1", bash("git stash")).denied


def test_no_token_is_ever_logged(server: RunningServer, tmp_path: Path) -> None:
    """Whatever goes wrong, neither the server's output nor a machine's logs show a token or a code."""
    with psycopg.connect(server.cluster.dsn, autocommit=True) as connection:
        connection.execute("create database logged")
    url = server.cluster.dsn.replace("dbname=postgres", "dbname=logged")
    port, ada = find_free_port(), House(str(tmp_path / "ada"))
    command = [*shlex.split(f"{sys.executable} -m hardwon team serve --port {port}"), "--database", url]
    process = subprocess.Popen(
        command, env=ada.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        invitation = process.stdout.readline()
        wait_for(lambda: is_listening(port))
        words = invitation.partition("hardwon ")[2].split()
        ada.ok(*words)
        token = json.loads((tmp_path / "ada" / "team.json").read_text())["token"]
        reading_token = ada.ok("team", "token", "ci").out.split()[-1]
        for wrong_token in (f"{token}x", f"{reading_token}x"):
            with pytest.raises(ServerRefusal):
                TeamClient(f"http://127.0.0.1:{port}", wrong_token).call("/v1/sync", {})
        server.cluster.kill()
        ada.cli("team", "sync")  # which fails, and says so without the token
    finally:
        server.cluster.start()
        process.terminate()
        server_output = process.communicate()[0]
    logs = [path.read_text(errors="replace") for path in Path(ada.home).rglob("*.log")]
    assert "the database does not answer" in server_output
    for secret in (token, reading_token, words[-1]):
        assert not any(secret in text for text in (server_output, *logs))
    ada.leave()


def test_servers_that_start_at_once_create_the_tables_once(server: RunningServer) -> None:
    with psycopg.connect(server.cluster.dsn, autocommit=True) as connection:
        connection.execute("create database raced")
    url = server.cluster.dsn.replace("dbname=postgres", "dbname=raced")
    barrier, created = threading.Barrier(4), list[bool]()

    def start() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            barrier.wait()
            created.append(postgres.migrate(connection))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False, False, False, True]
