"""Commit a few files with git and leave everything staged, changed or untracked as it is.

The commit is built in a temporary index and the branch is moved to it. The person's index then gets the same entries,
because their next commit would otherwise remove the files again. Nothing from the repository runs: no hook, filter,
fsmonitor or signing. A commit that could get lost or interfere with other work is refused.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

from hardwon import projects
from hardwon.errors import UserError
from hardwon.types import frozen

GIT_TIMEOUT_SECONDS = 30
# Run no program of the repository, and let git not make up an identity from user and host name.
_SAFE_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "commit.gpgSign=false", "user.useConfigOnly=true")
# Pass on only git's variables for identity and configuration; the others may point to another repository.
_KEPT_VARIABLES = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
# Names in the git directory that show an unfinished operation.
_GIT_OPERATIONS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "REVERT_HEAD": "a revert",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "sequencer": "a cherry-pick or revert",
    "BISECT_LOG": "a bisection",
}
_FIX = "commit the files yourself when it suits"


@frozen
class Commit:
    """A commit, the files in it, and the files left out because git ignores them."""

    id: str
    files: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def commit_files(files: Sequence[str], message: str) -> Commit:
    """Commit files of one work tree in their current state, including deletions; UserError if it is unsafe."""
    top = _find_work_tree(files)
    _refuse_unsafe(top)
    names = [os.path.relpath(os.path.realpath(file), top) for file in files]
    ignored = tuple(name for name in names if _is_success(top, "check-ignore", "-q", "--", f"./{name}"))
    included = tuple(name for name in names if name not in ignored)
    if not included:
        raise UserError(f"git is told to ignore {', '.join(names)}", _FIX)
    head = _run_git(top, "rev-parse", "--verify", "HEAD^{commit}").strip()
    old_entries = _read_staged(top, included, head)
    new_entries = {name: _read_entry(top, name) for name in included}
    if old_entries == new_entries:
        raise UserError("they are committed already", "git log -1")
    commit_id = _create_commit(top, head, new_entries, message)
    # The index goes first: if HEAD moved meanwhile, update-ref fails and the index is put back.
    _update_index(top, new_entries)
    try:
        _run_git(top, "update-ref", "-m", f"commit: {message.splitlines()[0]}", "HEAD", commit_id, head)
    except UserError:
        _update_index(top, old_entries)
        raise
    return Commit(commit_id, included, ignored)


def commit_on_branch(folder: str, branch: str, name: str, text: str, message: str) -> str:
    """Commit one file on a branch, created if need be, and leave work tree, index and HEAD as they are."""
    top = os.path.realpath(projects.find_git_root(folder))
    if _run_command(top, ["symbolic-ref", "-q", "--short", "HEAD"]).stdout.strip() == branch:
        raise UserError(f"the branch {branch} is checked out in {top}", "git switch -")
    # A proposal starts from the default branch, so that it brings nothing of the work in progress along.
    for start in (f"refs/heads/{branch}", "refs/remotes/origin/HEAD", "HEAD"):
        if _is_success(top, "rev-parse", "-q", "--verify", f"{start}^{{commit}}"):
            break
    else:
        raise UserError(f"{top} has no commit yet, and the first is yours to make", _FIX)
    head = _run_git(top, "rev-parse", "--verify", f"{start}^{{commit}}").strip()
    entry = "100644 " + _run_git(top, "hash-object", "-w", "--stdin", stdin_text=text).strip()
    if _read_committed(top, head, [name]) == {name: entry}:
        raise UserError(f"{branch if start.endswith(branch) else start} has exactly this already", f"git log {branch}")
    commit_id = _create_commit(top, head, {name: entry}, message)
    _run_git(top, "update-ref", "-m", f"commit: {message.splitlines()[0]}", f"refs/heads/{branch}", commit_id)
    return commit_id


def is_committed(path: str) -> bool:
    """Return whether the last commit contains the file in its current state."""
    path = os.path.realpath(path)
    top = projects.find_git_root(os.path.dirname(path))
    name = os.path.relpath(path, top)
    try:
        entry = _read_entry(top, name)
        return bool(entry) and entry == _read_committed(top, "HEAD", [name]).get(name)
    except UserError:
        return False


def has_commit(folder: str, commit_id: str) -> bool | None:
    """Return whether the folder's repository has a commit; None if there is no repository or git cannot tell."""
    top = projects.find_git_root(folder) if folder else ""
    if not top or not os.path.lexists(os.path.join(top, ".git")):
        return None
    try:
        return _is_success(top, "cat-file", "-e", f"{commit_id}^{{commit}}")
    except UserError:
        return None


def _find_work_tree(files: Sequence[str]) -> str:
    """Return the work tree that contains all files; UserError if they are in several, or behind a link."""
    real_roots = {os.path.realpath(projects.find_git_root(os.path.dirname(os.path.realpath(file)))) for file in files}
    visible_roots = {os.path.realpath(projects.find_git_root(os.path.dirname(os.path.abspath(file)))) for file in files}
    top = next(iter(real_roots), "")
    if len(real_roots) != 1 or visible_roots != real_roots or not os.path.lexists(os.path.join(top, ".git")):
        raise UserError("the files do not lie in one repository", _FIX)
    return top


def _refuse_unsafe(top: str) -> None:
    """Raise UserError if a commit could get lost or interfere with other work, or cannot be made."""
    git_dir = _run_git(top, "rev-parse", "--absolute-git-dir").removesuffix("\n")
    for name, operation in _GIT_OPERATIONS.items():
        if os.path.lexists(os.path.join(git_dir, name)):
            raise UserError(f"{operation} is under way in {top}", _FIX)
    if superproject := _run_git(top, "rev-parse", "--show-superproject-working-tree").strip():
        raise UserError(f"{top} is a submodule, and a commit would change what {superproject} points to", _FIX)
    if not _is_success(top, "symbolic-ref", "-q", "HEAD"):
        raise UserError(f"no branch is checked out in {top}, and a commit would be on none", _FIX)
    if not _is_success(top, "rev-parse", "-q", "--verify", "HEAD^{commit}"):
        raise UserError(f"{top} has no commit yet, and the first is yours to make", _FIX)
    if not (_is_success(top, "var", "GIT_AUTHOR_IDENT") and _is_success(top, "var", "GIT_COMMITTER_IDENT")):
        raise UserError("git does not know who you are", "git config --global user.name NAME, and user.email")


def _read_staged(top: str, names: Sequence[str], head: str) -> dict[str, str]:
    """Return the index entries of these files; UserError if one has staged changes."""
    staged = _parse_entries(_run_git(top, "ls-files", "-s", "-z", "--", *map(_to_literal_path, names)), 1)
    committed = _read_committed(top, head, names)
    for name in names:
        if staged.get(name) != committed.get(name):
            raise UserError(f"{name} is staged, and that is yours to commit", _FIX)
    return {name: staged.get(name, "") for name in names}


def _read_committed(top: str, head: str, names: Sequence[str]) -> dict[str, str]:
    """Return the entries of these files in a commit; a file that it lacks has none."""
    return _parse_entries(_run_git(top, "ls-tree", "-z", head, "--", *map(_to_literal_path, names)), 2)


def _to_literal_path(name: str) -> str:
    return f":(literal){name}"  # a name with `*` or `[` must not act as a pattern


def _parse_entries(output: str, blob_index: int) -> dict[str, str]:
    """Parse git's listing into mode and blob by name; `blob_index` is the blob's column."""
    parts = (line.partition("\t") for line in output.split("\0") if line)
    return {name: f"{entry.split()[0]} {entry.split()[blob_index]}" for entry, _, name in parts}


def _read_entry(top: str, name: str) -> str:
    """Return mode and blob of a file in the work tree; empty if it does not exist."""
    if not os.path.lexists(os.path.join(top, name)):
        return ""
    return "100644 " + _run_git(top, "hash-object", "-w", "--no-filters", "--", name).strip()


def _create_commit(top: str, head: str, entries: Mapping[str, str], message: str) -> str:
    """Create a commit on top of `head` with these entries changed, without moving a branch; return its id."""
    with TemporaryDirectory(prefix="hardwon-") as folder:
        index_env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        _run_git(top, "read-tree", head, extra_env=index_env)
        _update_index(top, entries, index_env)
        # A partial clone lacks the objects of many files; without `--missing-ok` git would fetch them.
        tree = _run_git(top, "write-tree", "--missing-ok", extra_env=index_env).strip()
    # Signing would run a program that the repository's settings may name.
    return _run_git(top, "commit-tree", "--no-gpg-sign", "-p", head, "-F", "-", tree, stdin_text=message).strip()


def _update_index(top: str, entries: Mapping[str, str], extra_env: Mapping[str, str] | None = None) -> None:
    """Set these entries in an index; remove names whose entry is empty."""
    # Mode 0 removes a name; the null hash must be as long as the hashes of this repository (SHA-1 or SHA-256).
    hashes = [entry.partition(" ")[2] for entry in entries.values() if entry]
    hash_length = len(hashes[0]) if hashes else 40
    removed_entry = f"0 {'0' * hash_length}"
    lines = "".join(f"{entry or removed_entry}\t{name}\0" for name, entry in entries.items())
    _run_git(top, "update-index", "-z", "--index-info", stdin_text=lines, extra_env=extra_env)


def _is_success(top: str, *args: str) -> bool:
    return _run_command(top, args).returncode == 0


def _run_git(top: str, *args: str, stdin_text: str = "", extra_env: Mapping[str, str] | None = None) -> str:
    """Run git in a folder and return what it prints; UserError if it fails."""
    result = _run_command(top, args, stdin_text, extra_env)
    if result.returncode:
        reason = " ".join(result.stderr.split()) or f"it ended with {result.returncode}"
        raise UserError(f"git {args[0]} in {top}: {reason[:300]}", _FIX)
    return result.stdout


def _run_command(
    top: str, args: Sequence[str], stdin_text: str = "", extra_env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git with safe settings and without variables that point to another repository; UserError if it cannot run."""
    options: list[str] = []
    for setting in _SAFE_SETTINGS:
        options += ["-c", setting]
    inherited: dict[str, str] = {}
    for name, value in os.environ.items():
        if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES):
            inherited[name] = value
    environment = {
        **inherited,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        **(extra_env or {}),
    }
    try:
        return subprocess.run(
            ["git", *options, *args],
            cwd=top,
            env=environment,
            input=stdin_text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=GIT_TIMEOUT_SECONDS,
        )
    except FileNotFoundError:
        raise UserError("git is not on the PATH here", _FIX) from None
    except subprocess.TimeoutExpired:
        raise UserError(f"git {args[0]} in {top} did not end within {GIT_TIMEOUT_SECONDS} seconds", _FIX) from None
