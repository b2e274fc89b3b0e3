"""One git commit of a few files and nothing else: what is staged, changed or untracked stays as it is.

The commit is built in an index of its own and put on the branch by moving it; the person's index then gets the same
few entries, since without them their next commit would take the files out again. No program of the repository runs:
no hook, filter, monitor or signing. Where a commit could be lost or get in somebody's way it is refused.
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
_QUIET = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "commit.gpgSign=false", "user.useConfigOnly=true")
# Of git's own variables only who the person is and where their settings are: the others name another repository.
_KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_UNDER_WAY = {
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
    """The commit that was made, with its files, and those that stayed out because git is told to ignore them."""

    id: str
    files: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def commit_files(files: Sequence[str], message: str) -> Commit:
    """Commit these files of one work tree as they are now, one that is gone as gone; UserError says why not."""
    top = _top(files)
    _refuse_unsafe(top)
    names = [os.path.relpath(os.path.realpath(file), top) for file in files]
    ignored = tuple(name for name in names if _says_yes(top, "check-ignore", "-q", "--", f"./{name}"))
    wanted = tuple(name for name in names if name not in ignored)
    if not wanted:
        raise UserError(f"git is told to ignore {', '.join(names)}", _FIX)
    head = _git(top, "rev-parse", "--verify", "HEAD^{commit}").strip()
    before, after = _staged(top, wanted, head), {name: _entry(top, name) for name in wanted}
    if before == after:
        raise UserError("they are committed already", "git log -1")
    made = _made(top, head, after, message)
    _put(top, after)
    try:
        _git(top, "update-ref", "-m", f"commit: {message.splitlines()[0]}", "HEAD", made, head)
    except UserError:
        _put(top, before)
        raise
    return Commit(made, wanted, ignored)


def is_committed(path: str) -> bool:
    """Whether a file is in the last commit just as it lies there; False where there is none."""
    path = os.path.realpath(path)
    top = projects.find_git_root(os.path.dirname(path))
    name = os.path.relpath(path, top)
    try:
        entry = _entry(top, name)
        return bool(entry) and entry == _committed(top, "HEAD", [name]).get(name)
    except UserError:
        return False


def _top(files: Sequence[str]) -> str:
    """The one work tree that all of them lie in, not behind a link or in a repository inside it."""
    real = {os.path.realpath(projects.find_git_root(os.path.dirname(os.path.realpath(file)))) for file in files}
    seen = {os.path.realpath(projects.find_git_root(os.path.dirname(os.path.abspath(file)))) for file in files}
    top = next(iter(real), "")
    if len(real) != 1 or seen != real or not os.path.lexists(os.path.join(top, ".git")):
        raise UserError("the files do not lie in one repository", _FIX)
    return top


def _refuse_unsafe(top: str) -> None:
    own = _git(top, "rev-parse", "--absolute-git-dir").removesuffix("\n")
    for name, what in _UNDER_WAY.items():
        if os.path.lexists(os.path.join(own, name)):
            raise UserError(f"{what} is under way in {top}", _FIX)
    if above := _git(top, "rev-parse", "--show-superproject-working-tree").strip():
        raise UserError(f"{top} is a submodule, and a commit would change what {above} points to", _FIX)
    if not _says_yes(top, "symbolic-ref", "-q", "HEAD"):
        raise UserError(f"no branch is checked out in {top}, and a commit would be on none", _FIX)
    if not _says_yes(top, "rev-parse", "-q", "--verify", "HEAD^{commit}"):
        raise UserError(f"{top} has no commit yet, and the first is yours to make", _FIX)
    if not (_says_yes(top, "var", "GIT_AUTHOR_IDENT") and _says_yes(top, "var", "GIT_COMMITTER_IDENT")):
        raise UserError("git does not know who you are", "git config --global user.name NAME, and user.email")


def _staged(top: str, names: Sequence[str], head: str) -> dict[str, str]:
    """What the person's index says of each; UserError if the last commit says something else."""
    staged = _entries(_git(top, "ls-files", "-s", "-z", "--", *map(_exactly, names)), 1)
    committed = _committed(top, head, names)
    for name in names:
        if staged.get(name) != committed.get(name):
            raise UserError(f"{name} is staged, and that is yours to commit", _FIX)
    return {name: staged.get(name, "") for name in names}


def _committed(top: str, head: str, names: Sequence[str]) -> dict[str, str]:
    return _entries(_git(top, "ls-tree", "-z", head, "--", *map(_exactly, names)), 2)


def _exactly(name: str) -> str:
    return f":(literal){name}"


def _entries(listed: str, place: int) -> dict[str, str]:
    """Mode and blob of each name that git lists; the blob stands at this place."""
    parts = (one.partition("\t") for one in listed.split("\0") if one)
    return {name: f"{entry.split()[0]} {entry.split()[place]}" for entry, _, name in parts}


def _entry(top: str, name: str) -> str:
    """Mode and blob of a file as it lies there, nothing for one that is gone."""
    if not os.path.lexists(os.path.join(top, name)):
        return ""
    return "100644 " + _git(top, "hash-object", "-w", "--no-filters", "--", name).strip()


def _made(top: str, head: str, entries: Mapping[str, str], message: str) -> str:
    """A commit on top of the head with these entries changed, on no branch yet."""
    with TemporaryDirectory(prefix="hardwon-") as folder:
        own = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        _git(top, "read-tree", head, more=own)
        _put(top, entries, own)
        tree = _git(top, "write-tree", "--missing-ok", more=own).strip()
    return _git(top, "commit-tree", "--no-gpg-sign", "-p", head, "-F", "-", tree, given=message).strip()


def _put(top: str, entries: Mapping[str, str], more: Mapping[str, str] | None = None) -> None:
    """Make an index say this of these names; those without an entry go out of it."""
    gone = "0 " + "0" * len(next(filter(None, entries.values()), "").partition(" ")[2] or "0" * 40)
    lines = "".join(f"{entry or gone}\t{name}\0" for name, entry in entries.items())
    _git(top, "update-index", "-z", "--index-info", given=lines, more=more)


def _says_yes(top: str, *words: str) -> bool:
    return _run(top, words).returncode == 0


def _git(top: str, *words: str, given: str = "", more: Mapping[str, str] | None = None) -> str:
    ran = _run(top, words, given, more)
    if ran.returncode:
        why = " ".join(ran.stderr.split()) or f"it ended with {ran.returncode}"
        raise UserError(f"git {words[0]} in {top}: {why[:300]}", _FIX)
    return ran.stdout


def _run(
    top: str, words: Sequence[str], given: str = "", more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    quiet = [word for setting in _QUIET for word in ("-c", setting)]
    kept = {name: value for name, value in os.environ.items() if name[:4] != "GIT_" or name.startswith(_KEPT)}
    own = {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(more or {})}
    try:
        return subprocess.run(
            ["git", *quiet, *words],
            cwd=top,
            env=own,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=GIT_TIMEOUT_SECONDS,
        )
    except FileNotFoundError:
        raise UserError("git is not on the PATH here", _FIX) from None
    except subprocess.TimeoutExpired:
        raise UserError(f"git {words[0]} in {top} did not end within {GIT_TIMEOUT_SECONDS} seconds", _FIX) from None
