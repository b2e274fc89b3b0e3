"""Which project a folder belongs to, and which of them are denied. A linked worktree belongs to the repository it was
made from.

Plain files are read instead of asking git: a hook has no time to start a process.
"""

from __future__ import annotations

import os

from hardwon.paths import open_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SESSIONS_FOLDER = os.path.join("docs", "sessions")
_CONFIG, _SWITCH = os.path.join(".hardwon", "config.json"), "sessionDrafts"
_MOST_LINKS, _LONGEST_PATH = 2_000, 4_096  # words of a call that are looked up as paths, and how long one may be
_MARKS = "'\"`=<>()[]{}|&;:,@\0"


def find_git_root(folder: str) -> str:
    """The nearest folder at or above this one that git knows, else the folder itself."""
    place = folder
    while place not in ("", "/"):
        if os.path.lexists(os.path.join(place, ".git")):
            return place
        place = os.path.dirname(place)
    return folder


def find_project_path(folder: str) -> str:
    """The real path that stands for the project: for a worktree that of the repository it was made from."""
    if not os.path.isabs(folder):
        return folder  # of another system, or made up: it is below no folder of ours
    here = find_git_root(os.path.realpath(folder))
    return find_main_worktree(here) or here


def list_equivalent_folders(folder: str) -> list[str]:
    """The real paths at which what happens in this folder counts as happening."""
    if not folder:
        return []
    here = os.path.realpath(folder)
    top = os.path.realpath(find_git_root(here))
    main = find_main_worktree(top)
    return [here, main + here[len(top) :]] if main else [here]


def find_main_worktree(top: str) -> str:
    """For the top folder of a linked worktree, the folder of the repository it belongs to; else nothing."""
    try:
        with open(
            os.path.join(top, ".git"), encoding="utf-8", errors="surrogateescape", opener=open_plain_file
        ) as file:
            named = file.read(4096)
        if not named.startswith("gitdir:"):
            return ""
        own = os.path.join(top, named[len("gitdir:") :].strip())
        with open(
            os.path.join(own, "commondir"), encoding="utf-8", errors="surrogateescape", opener=open_plain_file
        ) as file:
            common = os.path.realpath(os.path.join(own, file.read(4096).strip()))
    except OSError:
        return ""
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def find_sessions_folder(cwd: str) -> str:
    """Where handoffs go in the repository that this folder is in; nothing if there is none, or it must not be."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        return ""
    top = find_git_root(os.path.realpath(cwd))
    if not os.path.lexists(os.path.join(top, ".git")) or top == os.path.realpath(os.path.expanduser("~")):
        return ""
    folder = there = os.path.join(top, SESSIONS_FOLDER)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    real = os.path.realpath(there)
    own = os.path.isdir(real) and find_git_root(real) == top and os.access(real, os.W_OK | os.X_OK)
    return folder if own and _may_hold_drafts(top) else ""


def _may_hold_drafts(top: str) -> bool:
    """Whether the repository's own settings let drafts be put there; ones that cannot be read do not."""
    import json  # no hook comes here

    try:
        with open(os.path.join(top, _CONFIG), encoding="utf-8-sig", opener=open_plain_file) as file:
            said = json.load(file)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get(_SWITCH, True) is not False


def read_remote_url(project_path: str) -> str:
    """Where a repository says it comes from, without the credentials that may stand in it; nothing if it does not."""
    folder = os.path.join(project_path, ".git")
    try:
        place = os.path.join(folder if os.path.isdir(folder) else project_path, "config")
        with open(place, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
            lines = file.read(100_000).splitlines()
    except OSError:
        return ""
    section, found = "", dict[str, str]()
    for line in lines:
        word = line.strip()
        if word.startswith("["):
            section = word
        elif section.startswith("[remote ") and word.replace(" ", "").startswith("url="):
            found.setdefault(section, word.partition("=")[2].strip())
    return strip_credentials(found.get('[remote "origin"]') or next(iter(found.values()), ""))


def strip_credentials(remote: str) -> str:
    scheme, separator, rest = remote.partition("://")
    if not separator:
        return remote
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


def is_below(cwd: str, folders: Sequence[str]) -> bool:
    """Whether a folder is one of these or lies in one; links and worktrees are seen through."""
    if not cwd or not folders:
        return False
    wanted = [os.path.realpath(os.path.expanduser(folder)) for folder in folders]
    found = [*list_equivalent_folders(cwd), os.path.abspath(cwd)]
    return any(one == folder or one.startswith(folder.rstrip("/") + "/") for one in found for folder in wanted)


def has_denied_path(
    denied_paths: Sequence[str], cwd: str, tool: str, command: str, content: str, paths: Sequence[str]
) -> bool:
    """Whether a call is about a path that is denied, by what it names or in its command; links are seen through."""
    spelled = [os.path.expanduser(path) for path in denied_paths]
    real = [os.path.realpath(path) if path.startswith("/") else path for path in spelled]
    # What a tool of another server calls a path nobody knows, so each of its lines may be one.
    texts = [*paths, *(content.split("\n") if tool.startswith("mcp__") else ())]
    words = [word for word in {*texts, *_words(command)} if word]
    # To see through links costs far more than to compare; a longer call is compared by what looks like a path first.
    words.sort(key=lambda word: "/" not in word)
    for number, word in enumerate(words):
        path = os.path.normpath(os.path.join(cwd, os.path.expanduser(word)))
        if any(_is_like(path, one) for one in spelled):
            return True
        if number < _MOST_LINKS and len(path) < _LONGEST_PATH:
            resolved = os.path.realpath(path)
            if any(_is_like(resolved, one) for one in real):
                return True
    return any(path.rstrip("/") in command for path in spelled if " " in path)


def _words(command: str) -> set[str]:
    """What may be a path in a command."""
    for mark in _MARKS:
        command = command.replace(mark, " ")
    return {word.replace("$HOME", "~", 1) for word in command.split()}


def _is_like(path: str, denied: str) -> bool:
    """`*.pem` is meant by its end, `/home/dev/key*` by its beginning; any other is a file, or a folder and all below,
    wherever it is if it does not say."""
    if denied.startswith("*"):
        return path.endswith(denied[1:])
    if denied.endswith("*"):
        return path.startswith(denied[:-1])
    if denied.startswith("/"):
        return f"{path}/".startswith(denied.rstrip("/") + "/")
    return f"/{denied.strip('/')}/" in f"{path}/"


def is_in_scope(project: str, equivalent_folders: Sequence[str]) -> bool:
    """Return whether one of the folders is the project or below it; everything is in scope of no project."""
    return not project or any(folder == project or folder.startswith(project + "/") for folder in equivalent_folders)
