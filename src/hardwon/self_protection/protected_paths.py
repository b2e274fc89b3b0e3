"""Tell which files an agent may not write: those in hardwon's home, and agents' settings that hold hardwon's hooks.

Imported only when a call may concern one of them, so that other calls stay fast.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LINKABLE_FILES = ("lessons.json", "config.json", "socket")  # people link the first two to their dotfiles
_SETTINGS_NAME_TEXT = (
    "settings.json settings.local.json hooks.json config.toml hooks.toml hardwon.js hardwon.json"
    " PreToolUse.sh PostToolUse.sh TaskStart.sh TaskComplete.sh SessionShutdown.sh"
)
SETTINGS_NAMES = tuple(_SETTINGS_NAME_TEXT.split())
_SETTINGS_FOLDER_TEXT = (
    ".claude .codex .gemini opencode .opencode plugin .copilot hooks .qwen"
    " kilo .kilo .grok .factory .vibe .deepagents .cursor .cline"
)
_SETTINGS_FOLDERS = tuple(_SETTINGS_FOLDER_TEXT.split())
_FOLDER_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CLINE_DIR")
_SETTINGS_PATHS = (*SETTINGS_NAMES, "plugin/hardwon.js", "hooks/hardwon.json", "hooks/PreToolUse.sh")
_MAX_SETTINGS_READS = 100  # per call; any further settings file counts as holding hooks
HOOK_SCRIPT = "/hardwon/hook.py"
_PLUGIN_MARK = '"hardwon@'
_MAX_PATH_LENGTH = 4096  # PATH_MAX on Linux
# Links are followed only in so many characters of paths per call; further paths are judged by their text. Each part of
# a path costs a system call, so a path counts by its length, and a short one with the minimum below.
_MAX_FOLLOWED_CHARS = 10_000
_MIN_FOLLOWED_CHARS = 100
_MAX_SETTINGS_BYTES = 1_000_000
_MAX_DEFAULT_DEPTH = 5  # `${A:-${B:-…}}`


class ProtectedPaths:
    """Tells for one call whether paths are protected, with a limited number of file system reads."""

    def __init__(self, home: str) -> None:
        self.home = home.rstrip("/")
        self._homes = (self.home, os.path.realpath(home))
        own_files = [os.path.join(home, name) for name in _LINKABLE_FILES]
        self._linked_paths = [os.path.realpath(path) for path in own_files if os.path.islink(path)]
        self._follows_left = _MAX_FOLLOWED_CHARS
        self._reads_left = _MAX_SETTINGS_READS
        self._configured_folders = [os.environ.get(name, "").rstrip("/") for name in _FOLDER_VARIABLES]

    def is_in_home(self, path: str) -> bool:
        """Return whether a path is the home or below it, as written or after following links."""
        for spelling in self._iter_spellings(path):
            if spelling in self._linked_paths or any(_is_at_or_below(spelling, home) for home in self._homes):
                return True
        return False

    def has_home_below(self, path: str) -> bool:
        return any(_is_at_or_below(home, spelling) for spelling in self._iter_spellings(path) for home in self._homes)

    def has_hooks(self, path: str) -> bool:
        """Return whether a path is an agent's settings file that runs hardwon's hooks on this home."""
        if os.path.basename(path) not in SETTINGS_NAMES:
            return False
        if os.path.basename(path) == "config.toml":  # Codex stores there which hooks of hooks.json a person trusts
            path = os.path.join(os.path.dirname(path), "hooks.json")
        self._reads_left -= 1
        if self._reads_left < 0:
            return os.path.exists(path)
        text = read_settings(path)
        if _PLUGIN_MARK in text:
            return True
        return HOOK_SCRIPT in text and (self.home in text or not self.home.isascii())

    def has_hooks_below(self, folder: str) -> bool:
        folder = folder.rstrip("/")
        if os.path.basename(folder) not in _SETTINGS_FOLDERS and folder not in self._configured_folders:
            return False
        return any(self.has_hooks(os.path.join(folder, name)) for name in _SETTINGS_PATHS)

    def _iter_spellings(self, path: str) -> Iterator[str]:
        """Yield the path as written, then with links resolved; nothing if it is not absolute."""
        if "\0" in path or not path.startswith("/"):
            return
        yield os.path.normpath(path)
        if self._follows_left > 0 and len(path) <= _MAX_PATH_LENGTH:
            self._follows_left -= max(len(path), _MIN_FOLLOWED_CHARS)
            yield follow_links(path)


def follow_links(path: str) -> str:
    """Return the real path; the path itself if no file can have that name, as with half a surrogate pair."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def read_settings(path: str) -> str:
    """Return the text of a settings file; empty if there is none. Does not block on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        return os.read(descriptor, _MAX_SETTINGS_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def resolve_path(word: str, cwd: str, variables: Mapping[str, str]) -> str:
    """Return the absolute path that a shell word or a tool's field names, with links and `..` unresolved.

    A word with an unknown beginning, such as `$(mktemp)` or `$UNSET/x`, is returned unchanged.
    """
    word = fill_variables(word, variables).removeprefix("file://").removeprefix("file:")
    word = expand_tilde(word)
    return word if word.startswith("$") else os.path.join(cwd, word)


def expand_tilde(word: str) -> str:
    try:
        return os.path.expanduser(word)
    except ValueError:  # no user can have such a name
        return word


def fill_variables(word: str, variables: Mapping[str, str], depth: int = 0) -> str:
    """Expand `$NAME`, `${NAME}` and `${NAME:-default}`; unset variables stay as written."""
    if "$" not in word or depth > _MAX_DEFAULT_DEPTH:
        return word
    parts, position = [], 0
    while (start := word.find("$", position)) >= 0:
        parts.append(word[position:start])
        in_braces = word.startswith("${", start)
        name_start = start + 1 + in_braces
        name_end = name_start
        while name_end < len(word) and (word[name_end].isalnum() or word[name_end] == "_"):
            name_end += 1
        position = _find_closing_brace(word, name_end) if in_braces else name_end
        name = word[name_start:name_end]
        value = variables.get(name) or os.environ.get(name, "")
        default = word[name_end : position - 1].lstrip(":") if in_braces else ""
        if value:
            parts.append(value)
        elif default.startswith(("-", "=")):
            parts.append(fill_variables(default[1:], variables, depth + 1))
        else:
            parts.append(word[start:position])
    parts.append(word[position:])
    return "".join(parts)


def _find_closing_brace(word: str, start: int) -> int:
    """Return the position after the brace that closes the one before `start`, or the end."""
    level = 1
    for position in range(start, len(word)):
        level += (word[position] == "{") - (word[position] == "}")
        if not level:
            return position + 1
    return len(word)
