"""Machines of a team, one server, a real PostgreSQL: what one learned, the others hold."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hardwon.team import postgres
from hardwon.team.postgres import ConnectionPool
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


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    if not postgresql.is_available():
        reason = "there is no PostgreSQL on this machine; on Debian: apt-get install postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with run_team_server() as running:
        yield running


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
    shown = bob.ok("team", "share", slug, "--yes").out
    assert "This leaves your machine" in shown and "waits for a reviewer" in shown
    assert eve.ask("s1", bash("git stash")).denied == ""
    assert STASH["summary"] in eve.ok("team", "review", "--accept", slug).out
    assert "git stash -u" in eve.ask("s2", bash("git stash")).denied
    machines.founder.ok("team", "sync")
    assert machines.founder.ask("s3", bash("git stash")).denied == ""  # proposed, not in force without a yes
    assert "would have stopped" in machines.founder.ok("team", "review").out
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
    assert "example.invalid" in bob.ok("team", "review").out
    bob.ask("s0", {**bash("ls"), "hook_event_name": "PostToolUse", "tool_response": "", "cwd": str(clones[1])})
    bob.ok("sessions", "list")  # records what waits in the spool
    bob.ok("team", "sync")
    assert bob.ask("s1", bash("git stash", cwd=str(clones[1]))).denied
    assert bob.ask("s1", bash("git stash", cwd=str(tmp_path))).denied == ""


def test_the_worker_brings_what_the_team_approved(machines: Machines) -> None:
    machines.founder.ok("team", "policy", "hold")
    bob = machines.add("bob")
    slug = machines.founder.add(STASH)
    machines.founder.ok("team", "share", slug, "--yes")
    bob.ok("start")
    wait_for(lambda: slug in bob.ok("lessons", "list").out)
    assert "git stash -u" in bob.ask("s1", bash("git stash")).denied
