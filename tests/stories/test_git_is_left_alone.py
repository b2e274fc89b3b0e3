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


def run_git(folder: Path | str, *words: str, check: bool = True) -> str:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-c", "protocol.file.allow=always", *WHO, *words]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert result.returncode == 0 or not check, f"git {words}: {result.stderr}"
    return result.stdout


@pytest.fixture(autouse=True)
def known_person(own_home: str) -> None:
    Path(own_home, ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@kite.example\n")


def create_repository(folder: Path) -> Path:
    """A repository with two commits."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("one\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "first")
    (folder / "a.txt").write_text("two\n")
    run_git(folder, "commit", "-qam", "second")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return create_repository(tmp_path / "kite")


@pytest.fixture
def busy_repository(repository: Path) -> Path:
    """A repository with uncommitted work of every kind."""
    for name in ("staged.txt", "gone.txt", "mode.sh", "both.txt"):
        (repository / name).write_text("before\n")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "third")
    (repository / "a.txt").write_text("stashed\n")
    run_git(repository, "stash", "push", "-q", "a.txt")
    (repository / "staged.txt").write_text("staged\n")
    (repository / "both.txt").write_text("staged\n")
    (repository / "new.txt").write_text("staged and new\n")
    run_git(repository, "add", "staged.txt", "both.txt", "new.txt")
    run_git(repository, "rm", "-q", "--cached", "gone.txt")
    (repository / "both.txt").write_text("and changed since\n")
    (repository / "a.txt").write_text("unstaged\n")
    (repository / "b.txt").unlink()
    (repository / "mode.sh").chmod(0o755)
    (repository / "later.txt").write_text("")
    run_git(repository, "add", "-N", "later.txt")
    (repository / "docs" / "sessions").mkdir(parents=True)
    (repository / "docs" / "sessions" / "untracked.md").write_text("mine\n")
    return repository


def write_files(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"what {name} says\n")
    return [str(folder / name) for name in names]


@frozen
class RepositoryState:
    files: dict[str, tuple[bytes, int]]
    staged: list[str]
    status: list[str]
    refs: str
    rest: dict[str, bytes]


def read_state(folder: Path) -> RepositoryState:
    """Return everything that a person has in a repository: files, staged changes, branches, stashes, settings."""
    git_folder = Path(run_git(folder, "rev-parse", "--absolute-git-dir").strip())
    work_files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    kept_files = ("config", "HEAD", "description", "info/exclude", "refs/stash", "ORIG_HEAD", "MERGE_HEAD")
    return RepositoryState(
        {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in work_files},
        run_git(folder, "ls-files", "-s").splitlines(),
        run_git(folder, "status", "--porcelain=v2", "-uall").splitlines(),
        run_git(folder, "for-each-ref"),
        {name: (git_folder / name).read_bytes() for name in kept_files if (git_folder / name).is_file()},
    )


def test_work_of_every_kind_stays_as_it_is_but_for_the_added_files(busy_repository: Path) -> None:
    state_before, files = read_state(busy_repository), write_files(busy_repository, HANDOFF, MEMORY)
    head = run_git(busy_repository, "rev-parse", "HEAD").strip()
    commit = git_commit.commit_files(files, "Handoff of s1")
    state_after = read_state(busy_repository)
    assert commit.files == (HANDOFF, MEMORY) and run_git(busy_repository, "rev-parse", "main").strip() == commit.id
    assert run_git(busy_repository, "rev-parse", "HEAD^").strip() == head
    assert run_git(busy_repository, "show", "--format=%an %ae %s", "--name-status", "HEAD").split("\n") == [
        "Ada ada@kite.example Handoff of s1",
        "",
        f"A\t{MEMORY}",
        f"A\t{HANDOFF}",
        "",
    ]
    assert {name: state_after.files[name] for name in state_before.files} == state_before.files
    assert state_after.files.keys() - state_before.files.keys() == {HANDOFF, MEMORY}
    assert [line for line in state_after.staged if not line.endswith((HANDOFF, MEMORY))] == state_before.staged
    assert (state_after.status, state_after.rest) == (state_before.status, state_before.rest)
    assert state_after.refs == state_before.refs.replace(head, commit.id)
    assert not list(Path(busy_repository, ".git").glob("*.lock"))


def test_the_persons_next_commit_holds_what_they_staged_and_keeps_ours(busy_repository: Path) -> None:
    git_commit.commit_files(write_files(busy_repository, HANDOFF), "Handoff of s1")
    run_git(busy_repository, "commit", "-qm", "theirs")
    changed = run_git(busy_repository, "show", "--format=", "--name-status", "HEAD").split("\n")
    assert changed == ["M\tboth.txt", "D\tgone.txt", "A\tnew.txt", "M\tstaged.txt", ""]
    assert run_git(busy_repository, "show", f"HEAD:{HANDOFF}") == f"what {HANDOFF} says\n"


def test_a_file_that_is_gone_is_committed_as_gone_and_a_changed_one_as_changed(repository: Path) -> None:
    files = write_files(repository, "docs/sessions/s1.draft.md", MEMORY)
    git_commit.commit_files(files, "first")
    os.unlink(files[0])
    Path(files[1]).write_text("another\n")
    git_commit.commit_files([*files, *write_files(repository, HANDOFF)], "second")
    assert run_git(repository, "show", "--format=", "--no-renames", "--name-status", "HEAD").split("\n") == [
        f"M\t{MEMORY}",
        "D\tdocs/sessions/s1.draft.md",
        f"A\t{HANDOFF}",
        "",
    ]
    assert run_git(repository, "status", "--porcelain") == ""
    with pytest.raises(UserError, match="committed already"):
        git_commit.commit_files([files[1]], "third")


def test_a_linked_worktree_gets_the_commit_on_its_own_branch(repository: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    run_git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "staged.txt").write_text("staged\n")
    run_git(tree, "add", "staged.txt")
    state_before, main = read_state(repository), run_git(repository, "rev-parse", "main")
    commit = git_commit.commit_files(write_files(tree, HANDOFF), "Handoff of s1")
    assert run_git(tree, "rev-parse", "side").strip() == commit.id and run_git(repository, "rev-parse", "main") == main
    assert run_git(tree, "status", "--porcelain") == "A  staged.txt\n"
    state_after = read_state(repository)
    assert (state_after.files, state_after.staged, state_after.status) == (
        state_before.files,
        state_before.staged,
        state_before.status,
    )


def detach_head(folder: Path) -> Path:
    run_git(folder, "checkout", "-q", "--detach")
    return folder


def start_rebase(folder: Path) -> Path:
    run_git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    run_git(folder, "commit", "-qam", "other")
    run_git(folder, "rebase", "main", check=False)
    assert (folder / ".git" / "rebase-merge").is_dir()
    return folder


def start_merge(folder: Path) -> Path:
    run_git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    run_git(folder, "commit", "-qam", "other")
    run_git(folder, "merge", "main", check=False)
    return folder


def start_cherry_pick(folder: Path) -> Path:
    run_git(folder, "checkout", "-q", "-b", "side", "HEAD^")
    (folder / "a.txt").write_text("other\n")
    run_git(folder, "commit", "-qam", "other")
    run_git(folder, "cherry-pick", "main", check=False)
    return folder


def start_revert(folder: Path) -> Path:
    (folder / "a.txt").write_text("three\n")
    run_git(folder, "commit", "-qam", "third")
    run_git(folder, "revert", "HEAD^", check=False)
    return folder


def start_bisect(folder: Path) -> Path:
    run_git(folder, "bisect", "start")
    return folder


def nest_repository(folder: Path) -> Path:
    above = create_repository(folder.parent / "above")
    run_git(above, "submodule", "--quiet", "add", str(folder), "part")
    run_git(above, "commit", "-qm", "with a part")
    return above / "part"


def drop_commits(folder: Path) -> Path:
    fresh = folder.parent / "fresh"
    fresh.mkdir()
    run_git(fresh, "init", "-q", "-b", "main")
    (fresh / "staged.txt").write_text("staged\n")
    run_git(fresh, "add", ".")
    return fresh


def lock_index(folder: Path) -> Path:
    (folder / ".git" / "index.lock").touch()
    return folder


def remove_identity(folder: Path) -> Path:
    Path(os.environ["HOME"], ".gitconfig").unlink()
    return folder


def ignore_files(folder: Path) -> Path:
    (folder / ".git" / "info" / "exclude").write_text("docs/\n")
    return folder


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (detach_head, "no branch is checked out"),
        (start_rebase, "a rebase is under way"),
        (start_merge, "a merge is under way"),
        (start_cherry_pick, "a cherry-pick is under way"),
        (start_revert, "a revert is under way"),
        (start_bisect, "a bisection is under way"),
        (nest_repository, "is a submodule"),
        (drop_commits, "has no commit yet"),
        (lock_index, "index.lock"),
        (remove_identity, "does not know who you are"),
        (ignore_files, "told to ignore docs/sessions/s1.md"),
    ],
)
def test_where_it_could_be_lost_or_in_the_way_there_is_no_commit(
    repository: Path, state: Callable[[Path], Path], why: str
) -> None:
    folder = state(repository)
    files = write_files(folder, HANDOFF)
    state_before = read_state(folder)
    with pytest.raises(UserError, match=why) as refusal:
        git_commit.commit_files(files, "Handoff of s1")
    assert refusal.value.fix
    assert read_state(folder) == state_before


def test_a_submodule_of_the_repository_is_not_touched(repository: Path) -> None:
    part = nest_repository(repository)
    above = part.parent
    state_before = read_state(part)
    git_commit.commit_files(write_files(above, HANDOFF), "Handoff of s1")
    assert run_git(above, "show", "--format=", "--name-only", "HEAD").split() == [HANDOFF]
    assert (read_state(part), run_git(above, "status", "--porcelain")) == (state_before, "")
    with pytest.raises(UserError, match="is a submodule"):
        git_commit.commit_files(write_files(above, "part/docs/sessions/s1.md"), "no")
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write_files(above, HANDOFF, "part/docs/sessions/s1.md"), "no")


def test_without_a_repository_nothing_is_made_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write_files(tmp_path / "plain", HANDOFF), "Handoff of s1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["docs", "plain", "s1.md", "sessions"]


def test_a_folder_that_is_a_link_out_of_the_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository / "docs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="do not lie in one repository"):
        git_commit.commit_files(write_files(repository, HANDOFF), "Handoff of s1")


def test_what_the_person_staged_under_that_name_is_theirs(repository: Path) -> None:
    files = write_files(repository, HANDOFF)
    run_git(repository, "add", HANDOFF)
    Path(files[0]).write_text("later\n")
    state_before = read_state(repository)
    with pytest.raises(UserError, match=f"{HANDOFF} is staged"):
        git_commit.commit_files(files, "Handoff of s1")
    assert read_state(repository) == state_before


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
        run_git(repository, "config", name, str(script))
    run_git(repository, "config", "commit.gpgSign", "true")
    run_git(repository, "config", "filter.own.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("*.md filter=own\n")
    commit = git_commit.commit_files(write_files(repository, HANDOFF), "Handoff of s1")
    assert not ran.exists()
    assert "gpgsig" not in run_git(repository, "cat-file", "commit", commit.id)


def test_nothing_is_pushed(repository: Path, tmp_path: Path) -> None:
    far = tmp_path / "far.git"
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), str(far))
    run_git(repository, "remote", "add", "origin", str(far))
    run_git(repository, "push", "-q", "-u", "origin", "main")
    run_git(repository, "config", "push.default", "current")
    refs_before = run_git(far, "for-each-ref")
    git_commit.commit_files(write_files(repository, HANDOFF), "Handoff of s1")
    assert run_git(far, "for-each-ref") == refs_before


def test_a_git_that_is_at_work_elsewhere_does_not_lead_astray(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_repository = create_repository(tmp_path / "other")
    state_before = read_state(other_repository)
    for name, value in (("GIT_DIR", ".git"), ("GIT_INDEX_FILE", ".git/index"), ("GIT_WORK_TREE", ".")):
        monkeypatch.setenv(name, str(other_repository / value))
    commit = git_commit.commit_files(write_files(repository, HANDOFF), "Handoff of s1")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name)
    assert (
        run_git(repository, "rev-parse", "HEAD").strip() == commit.id and read_state(other_repository) == state_before
    )


def test_a_branch_that_moves_meanwhile_is_not_moved_back(repository: Path) -> None:
    """With the branch's lock held, the branch cannot be moved, and nothing is left half done."""
    files = write_files(repository, HANDOFF)
    state_before = read_state(repository)
    lock = repository / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(UserError, match="update-ref"):
        git_commit.commit_files(files, "Handoff of s1")
    lock.unlink()
    assert read_state(repository) == state_before


def test_names_that_look_like_patterns_or_options_are_names(repository: Path) -> None:
    names = ("docs/sessions/*.md", "docs/sessions/-x ü.md", ":(top)a.md")
    git_commit.commit_files(write_files(repository, *names), "odd")
    committed_names = run_git(repository, "show", "--format=", "--name-only", "-z", "HEAD").split("\0")
    assert sorted(filter(None, committed_names)) == sorted(names) and run_git(repository, "status", "--porcelain") == ""


def test_a_file_is_told_from_one_that_was_changed_since_the_last_commit(repository: Path, tmp_path: Path) -> None:
    assert git_commit.is_committed(str(repository / "a.txt"))
    (repository / "a.txt").write_text("changed\n")
    (repository / "c.txt").write_text("new\n")
    for path in (repository / "a.txt", repository / "c.txt", repository / "no.txt", tmp_path / "x.txt"):
        assert not git_commit.is_committed(str(path))
