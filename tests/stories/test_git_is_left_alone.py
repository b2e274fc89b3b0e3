"""A commit of ours holds the files it was given and nothing else; where it could do harm there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hardwon.errors import UserError
from hardwon.handoff import git_commit
from hardwon.types import frozen

HANDOFF = "docs/sessions/s1.md"
MEMORY = ".claude/memory/feedback_pnpm.md"
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@kite.example")


def git(folder: Path | str, *words: str, check: bool = True) -> str:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-c", "protocol.file.allow=always", *WHO, *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert ran.returncode == 0 or not check, f"git {words}: {ran.stderr}"
    return ran.stdout


@pytest.fixture(autouse=True)
def known_person(own_home: str) -> None:
    Path(own_home, ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@kite.example\n")


def made(folder: Path) -> Path:
    """A repository with two commits."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "a.txt").write_text("two\n")
    git(folder, "commit", "-qam", "second")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return made(tmp_path / "kite")


@pytest.fixture
def busy(repository: Path) -> Path:
    """One in which there is work of every kind."""
    for name in ("staged.txt", "gone.txt", "mode.sh", "both.txt"):
        (repository / name).write_text("before\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "third")
    (repository / "a.txt").write_text("stashed\n")
    git(repository, "stash", "push", "-q", "a.txt")
    (repository / "staged.txt").write_text("staged\n")
    (repository / "both.txt").write_text("staged\n")
    (repository / "new.txt").write_text("staged and new\n")
    git(repository, "add", "staged.txt", "both.txt", "new.txt")
    git(repository, "rm", "-q", "--cached", "gone.txt")
    (repository / "both.txt").write_text("and changed since\n")
    (repository / "a.txt").write_text("unstaged\n")
    (repository / "b.txt").unlink()
    (repository / "mode.sh").chmod(0o755)
    (repository / "later.txt").write_text("")
    git(repository, "add", "-N", "later.txt")
    (repository / "docs" / "sessions").mkdir(parents=True)
    (repository / "docs" / "sessions" / "untracked.md").write_text("mine\n")
    return repository


def write(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"what {name} says\n")
    return [str(folder / name) for name in names]


@frozen
class Seen:
    files: dict[str, tuple[bytes, int]]
    staged: list[str]
    status: list[str]
    refs: str
    rest: dict[str, bytes]


def seen(folder: Path) -> Seen:
    """All that a person has in a repository: work, staged work, branches, stashes, settings."""
    own = Path(git(folder, "rev-parse", "--absolute-git-dir").strip())
    work = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    kept = ("config", "HEAD", "description", "info/exclude", "refs/stash", "ORIG_HEAD", "MERGE_HEAD")
    return Seen(
        {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in work},
        git(folder, "ls-files", "-s").splitlines(),
        git(folder, "status", "--porcelain=v2", "-uall").splitlines(),
        git(folder, "for-each-ref"),
        {name: (own / name).read_bytes() for name in kept if (own / name).is_file()},
    )


def test_work_of_every_kind_stays_as_it_is_but_for_the_added_files(busy: Path) -> None:
    before, files = seen(busy), write(busy, HANDOFF, MEMORY)
    head = git(busy, "rev-parse", "HEAD").strip()
    done = git_commit.commit_files(files, "Handoff of s1")
    after = seen(busy)
    assert done.files == (HANDOFF, MEMORY) and git(busy, "rev-parse", "main").strip() == done.id
    assert git(busy, "rev-parse", "HEAD^").strip() == head
    assert git(busy, "show", "--format=%an %ae %s", "--name-status", "HEAD").split("\n") == [
        "Ada ada@kite.example Handoff of s1",
        "",
        f"A\t{MEMORY}",
        f"A\t{HANDOFF}",
        "",
    ]
    assert {name: after.files[name] for name in before.files} == before.files
    assert after.files.keys() - before.files.keys() == {HANDOFF, MEMORY}
    assert [line for line in after.staged if not line.endswith((HANDOFF, MEMORY))] == before.staged
    assert (after.status, after.rest) == (before.status, before.rest)
    assert after.refs == before.refs.replace(head, done.id)
    assert not list(Path(busy, ".git").glob("*.lock"))


def test_the_persons_next_commit_holds_what_they_staged_and_keeps_ours(busy: Path) -> None:
    git_commit.commit_files(write(busy, HANDOFF), "Handoff of s1")
    git(busy, "commit", "-qm", "theirs")
    changed = git(busy, "show", "--format=", "--name-status", "HEAD").split("\n")
    assert changed == ["M\tboth.txt", "D\tgone.txt", "A\tnew.txt", "M\tstaged.txt", ""]
    assert git(busy, "show", f"HEAD:{HANDOFF}") == f"what {HANDOFF} says\n"


def test_a_file_that_is_gone_is_committed_as_gone_and_a_changed_one_as_changed(repository: Path) -> None:
    files = write(repository, "docs/sessions/s1.draft.md", MEMORY)
    git_commit.commit_files(files, "first")
    os.unlink(files[0])
    Path(files[1]).write_text("another\n")
    git_commit.commit_files([*files, *write(repository, HANDOFF)], "second")
    assert git(repository, "show", "--format=", "--no-renames", "--name-status", "HEAD").split("\n") == [
        f"M\t{MEMORY}",
        "D\tdocs/sessions/s1.draft.md",
        f"A\t{HANDOFF}",
        "",
    ]
    assert git(repository, "status", "--porcelain") == ""
    with pytest.raises(UserError, match="committed already"):
        git_commit.commit_files([files[1]], "third")


def test_a_linked_worktree_gets_the_commit_on_its_own_branch(repository: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "staged.txt").write_text("staged\n")
    git(tree, "add", "staged.txt")
    before, main = seen(repository), git(repository, "rev-parse", "main")
    done = git_commit.commit_files(write(tree, HANDOFF), "Handoff of s1")
    assert git(tree, "rev-parse", "side").strip() == done.id and git(repository, "rev-parse", "main") == main
    assert git(tree, "status", "--porcelain") == "A  staged.txt\n"
    after = seen(repository)
    assert (after.files, after.staged, after.status) == (before.files, before.staged, before.status)


def detached(folder: Path) -> Path:
    git(folder, "checkout", "-q", "--detach")
    return folder


def rebasing(folder: Path) -> Path:
    git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "rebase", "main", check=False)
    assert (folder / ".git" / "rebase-merge").is_dir()
    return folder


def merging(folder: Path) -> Path:
    git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "merge", "main", check=False)
    return folder


def picking(folder: Path) -> Path:
    git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "cherry-pick", "main", check=False)
    return folder


def reverting(folder: Path) -> Path:
    (folder / "a.txt").write_text("three\n")
    git(folder, "commit", "-qam", "third")
    git(folder, "revert", "HEAD^", check=False)
    return folder


def bisecting(folder: Path) -> Path:
    git(folder, "bisect", "start")
    return folder


def inside_another(folder: Path) -> Path:
    above = made(folder.parent / "above")
    git(above, "submodule", "--quiet", "add", str(folder), "part")
    git(above, "commit", "-qm", "with a part")
    return above / "part"


def no_commit_yet(folder: Path) -> Path:
    fresh = folder.parent / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q", "-b", "main")
    (fresh / "staged.txt").write_text("staged\n")
    git(fresh, "add", ".")
    return fresh


def locked(folder: Path) -> Path:
    (folder / ".git" / "index.lock").touch()
    return folder


def nobody(folder: Path) -> Path:
    Path(os.environ["HOME"], ".gitconfig").unlink()
    return folder


def told_to_ignore(folder: Path) -> Path:
    (folder / ".git" / "info" / "exclude").write_text("docs/\n")
    return folder


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (detached, "no branch is checked out"),
        (rebasing, "a rebase is under way"),
        (merging, "a merge is under way"),
        (picking, "a cherry-pick is under way"),
        (reverting, "a revert is under way"),
        (bisecting, "a bisection is under way"),
        (inside_another, "is a submodule"),
        (no_commit_yet, "has no commit yet"),
        (locked, "index.lock"),
        (nobody, "does not know who you are"),
        (told_to_ignore, "told to ignore docs/sessions/s1.md"),
    ],
)
def test_where_it_could_be_lost_or_in_the_way_there_is_no_commit(
    repository: Path, state: Callable[[Path], Path], why: str
) -> None:
    folder = state(repository)
    files = write(folder, HANDOFF)
    before = seen(folder)
    with pytest.raises(UserError, match=why) as refused:
        git_commit.commit_files(files, "Handoff of s1")
    assert refused.value.fix
    assert seen(folder) == before


def test_a_submodule_of_the_repository_is_not_touched(repository: Path) -> None:
    part = inside_another(repository)
    above = part.parent
    before = seen(part)
    git_commit.commit_files(write(above, HANDOFF), "Handoff of s1")
    assert git(above, "show", "--format=", "--name-only", "HEAD").split() == [HANDOFF]
    assert (seen(part), git(above, "status", "--porcelain")) == (before, "")
    with pytest.raises(UserError, match="is a submodule"):
        git_commit.commit_files(write(above, "part/docs/sessions/s1.md"), "no")
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write(above, HANDOFF, "part/docs/sessions/s1.md"), "no")


def test_without_a_repository_nothing_is_made_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write(tmp_path / "plain", HANDOFF), "Handoff of s1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["docs", "plain", "s1.md", "sessions"]


def test_a_folder_that_is_a_link_out_of_the_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository / "docs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write(repository, HANDOFF), "Handoff of s1")


def test_what_the_person_staged_under_that_name_is_theirs(repository: Path) -> None:
    files = write(repository, HANDOFF)
    git(repository, "add", HANDOFF)
    Path(files[0]).write_text("later\n")
    before = seen(repository)
    with pytest.raises(UserError, match=f"{HANDOFF} is staged"):
        git_commit.commit_files(files, "Handoff of s1")
    assert seen(repository) == before


def test_no_program_of_the_repository_runs_and_nobody_is_asked_to_sign(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\nexit 1\n")
    script.chmod(0o755)
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    ):
        (hooks / name).symlink_to(script)
    for name in ("core.fsmonitor", "filter.own.clean", "gpg.program", "core.editor", "credential.helper"):
        git(repository, "config", name, str(script))
    git(repository, "config", "commit.gpgSign", "true")
    git(repository, "config", "filter.own.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("*.md filter=own\n")
    done = git_commit.commit_files(write(repository, HANDOFF), "Handoff of s1")
    assert not ran.exists()
    assert "gpgsig" not in git(repository, "cat-file", "commit", done.id)


def test_nothing_is_pushed(repository: Path, tmp_path: Path) -> None:
    far = tmp_path / "far.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(far))
    git(repository, "remote", "add", "origin", str(far))
    git(repository, "push", "-q", "-u", "origin", "main")
    git(repository, "config", "push.default", "current")
    before = git(far, "for-each-ref")
    git_commit.commit_files(write(repository, HANDOFF), "Handoff of s1")
    assert git(far, "for-each-ref") == before


def test_a_git_that_is_at_work_elsewhere_does_not_lead_astray(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = made(tmp_path / "other")
    before = seen(other)
    for name, value in (("GIT_DIR", ".git"), ("GIT_INDEX_FILE", ".git/index"), ("GIT_WORK_TREE", ".")):
        monkeypatch.setenv(name, str(other / value))
    done = git_commit.commit_files(write(repository, HANDOFF), "Handoff of s1")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name)
    assert git(repository, "rev-parse", "HEAD").strip() == done.id and seen(other) == before


def test_a_branch_that_moves_meanwhile_is_not_moved_back(repository: Path) -> None:
    """The branch's lock is held by somebody, so that it cannot be moved: nothing stays half done."""
    files = write(repository, HANDOFF)
    before = seen(repository)
    lock = repository / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(UserError, match="update-ref"):
        git_commit.commit_files(files, "Handoff of s1")
    lock.unlink()
    assert seen(repository) == before


def test_names_that_look_like_patterns_or_options_are_names(repository: Path) -> None:
    names = ("docs/sessions/*.md", "docs/sessions/-x ü.md", ":(top)a.md")
    git_commit.commit_files(write(repository, *names), "odd")
    found = git(repository, "show", "--format=", "--name-only", "-z", "HEAD").split("\0")
    assert sorted(filter(None, found)) == sorted(names) and git(repository, "status", "--porcelain") == ""


def test_a_file_is_told_from_one_that_was_changed_since_the_last_commit(repository: Path, tmp_path: Path) -> None:
    assert git_commit.is_committed(str(repository / "a.txt"))
    (repository / "a.txt").write_text("changed\n")
    (repository / "c.txt").write_text("new\n")
    for place in (repository / "a.txt", repository / "c.txt", repository / "no.txt", tmp_path / "x.txt"):
        assert not git_commit.is_committed(str(place))
