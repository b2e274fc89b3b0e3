"""Find the project of a folder, and check denied folders and paths. A linked worktree belongs to its main repository.

This reads git's files instead of running git: a hook has no time to start a process.
"""

from __future__ import annotations

import os

from hardwon.paths import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SESSIONS_FOLDER = os.path.join("docs", "sessions")
MAX_PATH_LENGTH = 4096  # PATH_MAX on Linux
_CONFIG_PATH = os.path.join(".hardwon", "config.json")
_DRAFTS_SETTING = "sessionDrafts"
_MAX_LINKS = 2_000  # words of a call that are resolved as paths
_SEPARATORS = "'\"`=<>()[]{}|&;:,@\0"


def find_git_root(folder: str) -> str:
    """Return the nearest folder at or above this one that has a `.git`, else the folder itself."""
    current = folder
    # A `.git` in the root folder would make the whole disk one project.
    while current not in ("", "/"):
        if os.path.lexists(os.path.join(current, ".git")):
            return current
        current = os.path.dirname(current)
    return folder


def find_project_path(folder: str) -> str:
    """Return the real path of the project: for a linked worktree, that of its main repository."""
    if not os.path.isabs(folder):
        return folder  # from another system, or made up: not a local folder
    root = find_git_root(os.path.realpath(folder))
    return _find_main_worktree(root) or root


def get_folder_name(path: str) -> str:
    """Return the last name of a folder's path, which may be of Windows, in a transcript from another machine."""
    separator = "\\" if path[1:3] == ":\\" else "/"
    return path.rstrip(separator).rpartition(separator)[2] or path


def list_equivalent_folders(folder: str) -> list[str]:
    """Return the real path of a folder and, in a linked worktree, also its place in the main repository."""
    if not folder:  # realpath("") would be the current folder
        return []
    real_folder = os.path.realpath(folder)
    top = os.path.realpath(find_git_root(real_folder))
    main = _find_main_worktree(top)
    if not main:
        return [real_folder]
    path_in_repository = real_folder[len(top) :]
    return [real_folder, main + path_in_repository]


def _find_main_worktree(top: str) -> str:
    """Return the main repository for the top folder of a linked worktree, else an empty string.

    In a linked worktree `.git` is a file that names a folder of the main repository, which has a file `commondir`. A
    submodule's `.git` is such a file as well, but its folder has no `commondir`.
    """
    try:
        git_text = _read_git_file(os.path.join(top, ".git"))
        if not git_text.startswith("gitdir:"):
            return ""
        git_folder = os.path.join(top, git_text.removeprefix("gitdir:").strip())
        common_folder = _read_git_file(os.path.join(git_folder, "commondir")).strip()
    except OSError:
        return ""
    common_folder = os.path.realpath(os.path.join(git_folder, common_folder))
    if os.path.basename(common_folder) == ".git":
        return os.path.dirname(common_folder)
    return common_folder  # a bare repository has no folder around it


def _read_git_file(path: str) -> str:
    return read_text(path, errors="surrogateescape", max_chars=4096)


def find_sessions_folder(cwd: str) -> str:
    """Return the folder for handoffs in this folder's repository, or an empty string if there is no usable one."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        return ""
    top = find_git_root(os.path.realpath(cwd))
    # A home that is itself a repository is no project to put handoffs into.
    if not os.path.lexists(os.path.join(top, ".git")) or top == os.path.realpath(os.path.expanduser("~")):
        return ""
    folder = os.path.join(top, SESSIONS_FOLDER)
    existing = folder
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    real_path = os.path.realpath(existing)
    is_writable = os.path.isdir(real_path) and os.access(real_path, os.W_OK | os.X_OK)
    # `docs` may be a link or a submodule: what is written there would not be in this repository.
    is_in_repository = find_git_root(real_path) == top
    if is_writable and is_in_repository and _can_hold_drafts(top):
        return folder
    return ""


def _can_hold_drafts(top: str) -> bool:
    """Return whether the repository's own settings let drafts be put there; ones that cannot be read do not."""
    import json  # no hook comes here

    try:
        # The repository decides for everybody who works in it.
        config = json.loads(read_text(os.path.join(top, _CONFIG_PATH), "utf-8-sig"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get(_DRAFTS_SETTING, True) is not False


def read_remote_url(project_path: str) -> str:
    """Return the remote URL of a repository, origin first and without credentials, or an empty string."""
    git_folder = os.path.join(project_path, ".git")
    if not os.path.isdir(git_folder):
        git_folder = project_path  # a bare repository
    try:
        config = read_text(os.path.join(git_folder, "config"), errors="replace", max_chars=100_000)
    except OSError:
        return ""
    section = ""
    urls = dict[str, str]()
    for line in map(str.strip, config.splitlines()):
        if line.startswith("["):
            section = line
        elif section.startswith("[remote ") and line.replace(" ", "").startswith("url="):
            urls.setdefault(section, line.partition("=")[2].strip())
    first_url = next(iter(urls.values()), "")
    return strip_credentials(urls.get('[remote "origin"]') or first_url)


def strip_credentials(remote: str) -> str:
    """Return a remote URL without user and password."""
    scheme, separator, rest = remote.partition("://")
    if not separator:
        return remote  # `git@host:path` has a user but no password
    authority, slash, path = rest.partition("/")
    _, _, host = authority.rpartition("@")
    return f"{scheme}://{host}{slash}{path}"


def is_below(cwd: str, folders: Sequence[str]) -> bool:
    """Return whether a folder is one of these or inside one. Links and worktrees are resolved."""
    if not cwd or not folders:
        return False
    real_folders = [os.path.realpath(os.path.expanduser(folder)) for folder in folders]
    # Also as written: a link that leads out of a denied folder is still in it.
    locations = [*list_equivalent_folders(cwd), os.path.abspath(cwd)]
    for folder in real_folders:
        prefix = folder.rstrip("/") + "/"
        if any(location == folder or location.startswith(prefix) for location in locations):
            return True
    return False


def has_denied_path(
    denied_paths: Sequence[str], cwd: str, tool: str, command: str, content: str, paths: Sequence[str]
) -> bool:
    """Return whether a call names a denied path in its arguments or its command. Links are resolved."""
    expanded_paths = [os.path.expanduser(path) for path in denied_paths]
    real_paths = [os.path.realpath(path) if path.startswith("/") else path for path in expanded_paths]
    words = {*paths, *_split_path_words(command)}
    if tool.startswith("mcp__"):
        # The argument names of MCP tools are unknown, so any line of their content may be a path.
        words.update(content.split("\n"))
    words.discard("")
    # Resolving links is far slower than comparing and is limited to _MAX_LINKS words: take those with a slash first.
    for index, word in enumerate(sorted(words, key=lambda word: "/" not in word)):
        path = os.path.normpath(os.path.join(cwd, os.path.expanduser(word)))
        if any(_is_denied(path, denied_path) for denied_path in expanded_paths):
            return True
        if index < _MAX_LINKS and len(path) < MAX_PATH_LENGTH:
            resolved = os.path.realpath(path)
            if any(_is_denied(resolved, denied_path) for denied_path in real_paths):
                return True
    # A path with a space is not one word of the command.
    return any(path.rstrip("/") in command for path in expanded_paths if " " in path)


def _split_path_words(command: str) -> set[str]:
    """Return the words of a command that may be paths, without regard to quotes, which may hide one."""
    for separator in _SEPARATORS:
        command = command.replace(separator, " ")
    return {word.replace("$HOME", "~", 1) for word in command.split()}


def _is_denied(path: str, denied: str) -> bool:
    """Return whether a path matches a denied one.

    `*.pem` matches the end of a path, `/home/dev/key*` its beginning. Anything else is a file, or a folder with
    everything below it; a relative one matches anywhere.
    """
    if denied.startswith("*"):
        return path.endswith(denied[1:])
    if denied.endswith("*"):
        return path.startswith(denied[:-1])
    if denied.startswith("/"):
        return f"{path}/".startswith(denied.rstrip("/") + "/")
    return f"/{denied.strip('/')}/" in f"{path}/"


def is_in_scope(project: str, equivalent_folders: Sequence[str]) -> bool:
    """Return whether one of the folders is the project or inside it. An empty project includes everything."""
    if not project:
        return True
    return any(folder == project or folder.startswith(project + "/") for folder in equivalent_folders)
