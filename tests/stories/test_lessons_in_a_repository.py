"""A team without a server: lessons are files of the repository, reviewed in pull requests, trusted after a pull."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # comes with mkdocs

from tests.support.house import GIT_STASH, House, bash


def run_git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


class Clones:
    """A shared repository, and a clone with a home for each member."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.origin = folder, folder / "origin.git"
        run_git(folder, "init", "-q", "--bare", str(self.origin))
        self.ada, self.ada_clone = self.add("ada")
        (self.ada_clone / "README.md").write_text("a project\n")
        run_git(self.ada_clone, "add", "README.md")
        run_git(self.ada_clone, "commit", "-qm", "Begin")
        run_git(self.ada_clone, "push", "-q", "origin", "HEAD:main")
        self.bob, self.bob_clone = self.add("bob")

    def add(self, name: str) -> tuple[House, Path]:
        clone = self.folder / name
        run_git(self.folder, "clone", "-q", str(self.origin), str(clone))
        for key, value in (("user.name", name), ("user.email", f"{name}@example.invalid")):
            run_git(clone, "config", key, value)
        return House(str(self.folder / f"{name}-home")), clone

    def propose_and_merge(self, slug: str) -> None:
        self.ada.ok("team", "propose", slug, "--yes", cwd=str(self.ada_clone))
        run_git(self.ada_clone, "push", "-q", "origin", f"hardwon/{slug}:main")
        run_git(self.bob_clone, "pull", "-q", "origin", "main")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[Clones]:
    created = Clones(tmp_path)
    yield created
    created.ada.leave()
    created.bob.leave()


def test_a_merged_lesson_holds_the_calls_of_everybody_who_pulls_and_trusts_it(clones: Clones) -> None:
    clones.ada.ok("team", "init", "--git", cwd=str(clones.ada_clone))
    slug = clones.ada.add(GIT_STASH)
    state_before = run_git(clones.ada_clone, "status", "--porcelain"), run_git(clones.ada_clone, "rev-parse", "HEAD")
    proposed = clones.ada.ok("team", "propose", slug, "--yes", cwd=str(clones.ada_clone)).out
    assert f"git push -u origin hardwon/{slug}" in proposed
    assert (
        run_git(clones.ada_clone, "status", "--porcelain"),
        run_git(clones.ada_clone, "rev-parse", "HEAD"),
    ) == state_before
    name = f".hardwon/lessons/{slug}.json"
    record = json.loads(run_git(clones.ada_clone, "show", f"hardwon/{slug}:{name}"))
    assert record["slug"] == slug and record["replay"]["fine"] == 0 and "scope" not in record
    run_git(clones.ada_clone, "push", "-q", "origin", f"hardwon/{slug}:main")
    run_git(clones.bob_clone, "pull", "-q", "origin", "main")
    assert clones.bob.ok("team", "check", str(clones.bob_clone)).out == "lessons   ok\n"
    cwd = str(clones.bob_clone)
    assert clones.bob.ask("s1", bash("git stash", cwd=cwd)).context == ""
    assert GIT_STASH["solution"] in clones.bob.ok("trust", "--yes", cwd=cwd).out
    assert "git stash -u" in clones.bob.ask("s2", bash("git stash", cwd=cwd)).context
    assert clones.bob.ask("s3", bash("git stash", cwd=str(clones.folder))).context == ""


def test_a_changed_lesson_waits_alone_and_a_removed_one_is_retired(clones: Clones) -> None:
    stash = clones.ada.add(GIT_STASH)
    other_slug = clones.ada.add({**GIT_STASH, **PUSH})
    clones.propose_and_merge(stash)
    run_git(clones.ada_clone, "fetch", "-q")
    run_git(clones.ada_clone, "remote", "set-head", "origin", "main")
    clones.propose_and_merge(other_slug)
    cwd = str(clones.bob_clone)
    clones.bob.ok("trust", "--yes", cwd=cwd)
    path = clones.bob_clone / ".hardwon" / "lessons" / f"{stash}.json"
    path.write_text(path.read_text().replace("git stash -u", "git stash --all"))
    assert "changed since it was trusted" in clones.bob.cli("lessons", "check").out
    assert clones.bob.ask("s1", bash("git stash", cwd=cwd)).context == ""
    assert "with-lease" in clones.bob.ask("s1", bash("git push --force", cwd=cwd)).context
    output = clones.bob.ok("trust", "--yes", cwd=cwd).out
    assert "git stash --all" in output and "with-lease" not in output
    assert "--all" in clones.bob.ask("s2", bash("git stash", cwd=cwd)).context
    path.unlink()
    assert clones.bob.ok("lessons", "check").out == "1 lesson in force\n"
    assert clones.bob.ask("s3", bash("git stash", cwd=cwd)).context == ""


PUSH = {
    "summary": "force pushing to main loses the work of others",
    "problem": "a forced push replaces what colleagues pushed meanwhile",
    "solution": "use git push --force-with-lease on your own branch",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"git push --force\b(?!-)"]},
}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"solution": "log in with API_KEY=sk-live-51HqLyjWDarjtT1zdp7dcAbCdEfGhIjK first"}, "secret"),
        ({"note": "see /home/dev/notes.txt"}, "/home/dev"),
        ({"triggers": {"toolNames": ["Bash"], "commandPatterns": ["(unclosed"]}}, "unclosed"),
        ({"solution": "short"}, "too short"),
        ({"slug": "another-name"}, "file's name"),
        ({"delivery": "hold", "solution": "changed after its author counted it"}, "another version"),
        ({"summary": 7}, "summary"),
    ],
)
def test_the_check_of_a_pull_request_names_what_is_wrong(
    clones: Clones, changes: dict[str, object], fault: str
) -> None:
    clones.propose_and_merge(clones.ada.add(GIT_STASH))
    (path,) = (clones.bob_clone / ".hardwon" / "lessons").glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    checked = clones.bob.cli("team", "check", str(clones.bob_clone))
    assert checked.code == 1 and fault in checked.out, checked.out


def test_a_hold_that_stops_more_than_it_saves_fails_the_check(clones: Clones) -> None:
    clones.propose_and_merge(clones.ada.add({**GIT_STASH, "delivery": "hold"}))
    (path,) = (clones.bob_clone / ".hardwon" / "lessons").glob("*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "replay": {**record["replay"], "failed": 1, "fine": 5}}))
    checked = clones.bob.cli("team", "check", str(clones.bob_clone))
    assert checked.code == 1 and "stopped 5 calls that went fine and 1 that failed" in checked.out


def test_a_proposal_with_a_secret_reaches_no_branch(clones: Clones) -> None:
    slug = clones.ada.add(GIT_STASH)
    path = Path(clones.ada.home) / "lessons.json"
    path.write_text(path.read_text().replace("git stash -u", "DB_PASSWORD=hunter2-Zq81-secret"))
    refused = clones.ada.cli("team", "propose", slug, "--yes", cwd=str(clones.ada_clone))
    assert refused.code == 1 and "secret" in refused.err
    assert run_git(clones.ada_clone, "branch", "--list", "hardwon/*") == ""


def test_five_people_propose_check_merge_and_trust(clones: Clones) -> None:
    """Each of five proposes a lesson on a branch; what the action passes is merged, and holds the calls of all five."""
    clones.ada.ok("team", "init", "--git", cwd=str(clones.ada_clone))
    run_git(clones.ada_clone, "add", "-A")
    run_git(clones.ada_clone, "commit", "-qm", "Lay out lessons")
    run_git(clones.ada_clone, "push", "-q", "origin", "HEAD:main")
    people = [(clones.ada, clones.ada_clone), (clones.bob, clones.bob_clone), *map(clones.add, ("cy", "dan", "eve"))]
    for number, (house, clone) in enumerate(people):
        run_git(clone, "pull", "-q", "origin", "main")
        slug = house.add(build_hold(number))
        house.ok("team", "propose", slug, "--yes", cwd=str(clone))
        run_git(clone, "push", "-q", "origin", f"hardwon/{slug}")
        checked_out = clones.folder / f"job-{number}"
        run_git(clones.folder, "clone", "-q", "-b", f"hardwon/{slug}", str(clones.origin), str(checked_out))
        assert run_action(checked_out).stdout == "lessons   ok\n"
        (path,) = (checked_out / ".hardwon" / "lessons").glob(f"{slug}.json")
        path.write_text(path.read_text().replace("removes what it finds", "removes everything"))
        spoilt = run_action(checked_out)
        assert spoilt.returncode == 1 and f"hardwon team propose {slug}" in spoilt.stdout
        run_git(clone, "merge", "-q", "--no-edit", f"hardwon/{slug}")
        run_git(clone, "push", "-q", "origin", "HEAD:main")
    for house, clone in people:
        run_git(clone, "pull", "-q", "origin", "main")
        house.ok("trust", "--yes", cwd=str(clone))
        for number in range(len(people)):
            assert f"flag --safe{number}" in house.ask(f"s{number}", bash(f"tool{number} run", cwd=str(clone))).denied
    for house, _ in people[2:]:
        house.leave()


def build_hold(number: int) -> dict[str, object]:
    return {
        "summary": f"tool{number} needs its safe flag",
        "problem": f"tool{number} removes what it finds when it is run without a flag",
        "solution": f"run tool{number} with the flag --safe{number} instead",
        "delivery": "hold",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [rf"\btool{number} run\b"]},
    }


def run_action(checked_out: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of the action that the workflow names, as GitHub does; hardwon is installed already."""
    workflow = yaml.safe_load((checked_out / ".github" / "workflows" / "hardwon-lessons.yml").read_text())
    (used,) = [step["uses"] for step in workflow["jobs"]["check"]["steps"] if "hardwon/" in step["uses"]]
    folder = used.removeprefix("hardwon/hardwon/").removesuffix("@main")
    action = yaml.safe_load((Path(__file__).parents[2] / folder / "action.yml").read_text())
    programs = checked_out.with_name(f"{checked_out.name}-programs")
    programs.mkdir(exist_ok=True)
    (programs / "python").write_text('#!/bin/sh\ntest "$*" = "-m pip install --quiet hardwon"\n')
    (programs / "python").chmod(0o755)
    path = os.pathsep.join([str(programs), os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(programs), "HARDWON": action["inputs"]["hardwon"]["default"]}
    commands = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert len(commands) == 2
    bash_command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(commands)]
    return subprocess.run(bash_command, cwd=checked_out, env=environment, capture_output=True, text=True)
