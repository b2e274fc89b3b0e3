"""Refuse calls that write hardwon's own files, or agents' settings files that hold its hooks.

Imported only when a call may concern one of them, so that other calls stay fast.
"""

from __future__ import annotations

import os

from hardwon import paths, projects
from hardwon.self_protection.shell_writes import WRITE_RULES, find_writes, resolve_path
from hardwon.text.characters import shorten_text

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from hardwon.self_protection.shell_writes import FileWrite
    from hardwon.shell.parsing import ParsedCommand
    from hardwon.types import Event


_SETTINGS_NAMES = tuple(
    """
    settings.json settings.local.json hooks.json config.toml hooks.toml hardwon.js hardwon.json
    PreToolUse.sh PostToolUse.sh TaskStart.sh TaskComplete.sh SessionShutdown.sh
    """.split()
)
_SETTINGS_FOLDERS = tuple(
    """
    .claude .codex .gemini opencode .opencode plugin .copilot hooks .qwen
    kilo .kilo .grok .factory .vibe .deepagents .cursor .cline
    """.split()
)
_FOLDER_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CLINE_DIR")
_SETTINGS_PATHS = (*_SETTINGS_NAMES, "plugin/hardwon.js", "hooks/hardwon.json", "hooks/PreToolUse.sh")
_MAX_SETTINGS_READS = 100  # per call; any further settings file counts as holding hooks
_HOOK_SCRIPT = "/hardwon/hook.py"
# Links are followed only in so many characters of paths per call; further paths are judged by their text. Each part of
# a path costs a system call, so a path counts by its length, and a short one with the minimum below.
_MAX_FOLLOWED_CHARS = 10_000
_MIN_FOLLOWED_CHARS = 100
_MAX_SETTINGS_BYTES = 1_000_000
_READING_WORDS = frozenset(
    """
    read get list search stat head tail find view show glob grep tree info describe query count exists diff
    lookup recall status
    """.split()
)
_WRITING_WORDS = frozenset(
    """
    write edit create delete remove move rename update set save put append insert replace patch upload download
    copy execute run
    """.split()
)
_PATH_FIELDS = tuple(
    """
    path paths file files filename destination dest target to uri url source src from directory dir folder output
    """.split()
)
_PATH_STARTS = ("/", "~/", "$", "file:")
_SOURCE_FIELDS = ("source", "src", "from")
_MAX_FIELDS = 500
# In a longer command, how many mentions of a name are read, and how many characters beside each.
MAX_MENTIONS = 2_000
SCANNED_CHARS = 400
_UNQUOTE_TABLE = str.maketrans(";&|()`#", "\n" * 7, "'\"\\")
_MAX_SHOWN_CHARS = 200  # of a command that a denial quotes
_PLUGIN_MARK = "hardwon@"
_JSON_SWITCHES = ("disableAllHooks", "hooksConfig")  # Claude Code's and Gemini CLI's
_TOML_SWITCHES = ("hooks", "codex_hooks")  # below [features]
_ENV_SWITCHES = ("HARDWON_OFF", "HARDWON_HOME")  # below `env`, which Claude Code gives to hooks
_LINE_MARKS = (_HOOK_SCRIPT, _PLUGIN_MARK, "hooks.json:", "trusted_hash")
_SWITCH_MARKS = (*_JSON_SWITCHES, *_ENV_SWITCHES, "hooks = false", "hooks=false", "enabled = false", "enabled=false")


class ProtectedPaths:
    """Tells for one call whether paths are protected, with a limited number of file system reads."""

    def __init__(self, home: str) -> None:
        self.home = home.rstrip("/")
        self._homes = (self.home, os.path.realpath(home))
        own_files = [os.path.join(home, name) for name in (paths.LESSONS, paths.CONFIG, paths.SOCKET)]
        self._link_targets = [os.path.realpath(path) for path in own_files if os.path.islink(path)]
        self._follows_left = _MAX_FOLLOWED_CHARS  # the characters of paths whose links may still be resolved
        self._reads_left = _MAX_SETTINGS_READS  # the settings files that may still be read
        self._configured_folders = [os.environ.get(name, "").rstrip("/") for name in _FOLDER_VARIABLES]

    def is_in_home(self, path: str) -> bool:
        """Return whether a path is the home, below it or a file that it links to, as written or with links resolved."""
        for spelling in self._iter_spellings(path):
            if spelling in self._link_targets or any(_is_at_or_below(spelling, home) for home in self._homes):
                return True
        return False

    def has_home_below(self, path: str) -> bool:
        """Return whether removing a path would remove the home."""
        for spelling in self._iter_spellings(path):
            if any(_is_at_or_below(home, spelling) for home in self._homes):
                return True
        return False

    def has_hooks(self, path: str) -> bool:
        """Return whether a path is an agent's settings file that runs hardwon's hooks on this home."""
        if os.path.basename(path) not in _SETTINGS_NAMES:
            return False
        if os.path.basename(path) == "config.toml":  # Codex stores there which hooks of hooks.json a person trusts
            path = os.path.join(os.path.dirname(path), "hooks.json")
        self._reads_left -= 1
        if self._reads_left < 0:  # an honest command names few settings files, so the others count as protected
            return os.path.exists(path)
        text = read_settings(path)
        if f'"{_PLUGIN_MARK}' in text:
            return True
        if _HOOK_SCRIPT not in text:
            return False
        # JSON may spell a home beyond ASCII with escapes, so such a home is not looked for.
        return self.home in text or not self.home.isascii()

    def has_hooks_below(self, folder: str) -> bool:
        """Return whether a folder is an agent's, with a settings file that runs hardwon's hooks."""
        folder = folder.rstrip("/")
        if os.path.basename(folder) not in _SETTINGS_FOLDERS and folder not in self._configured_folders:
            return False
        return any(self.has_hooks(os.path.join(folder, name)) for name in _SETTINGS_PATHS)

    def _iter_spellings(self, path: str) -> Iterator[str]:
        """Yield the path as written, then with links resolved; nothing if it is not absolute."""
        if "\0" in path or not path.startswith("/"):
            return
        yield os.path.normpath(path)
        if self._follows_left > 0 and len(path) <= projects.MAX_PATH_LENGTH:
            self._follows_left -= max(len(path), _MIN_FOLLOWED_CHARS)
            yield _follow_links(path)


def _follow_links(path: str) -> str:
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


def judge_writes(parsed: ParsedCommand, command: str, event: Event, home: str) -> str:
    """Return why a shell command may not write its files; empty if it may."""
    protected = ProtectedPaths(home)
    for write in find_writes(parsed, event.cwd, home):
        if _touches_home(write, protected):
            refusal = _format_write_refusal(home, write.command_text or command)
            if write.program == "sqlite3":
                refusal += " To read it: sqlite3 -readonly"
            return refusal
        if _touches_settings(write, protected):
            return _format_settings_refusal(write.path)
        if _is_settings_file(write.path) and _has_switch(command):
            return _format_unhook_refusal(write.path, event.host)
    return ""


def judge_edit(event: Event, home: str) -> str:
    """Return why a file may not be edited in this way; empty if it may."""
    path = resolve_path(event.path, event.cwd, {"HARDWON_HOME": home})
    protected = ProtectedPaths(home)
    if protected.is_in_home(path):
        return f"Only the user can edit files in {home}. To propose a lesson: hardwon lessons add"
    tool_input = event.input if isinstance(event.input, dict) else {}
    if not protected.has_hooks(path) and not (_is_settings_file(path) and _has_switch(event.content)):
        return ""
    if _is_hook_safe_edit(path, read_settings(path), tool_input):
        return ""
    return _format_unhook_refusal(path, event.host)


def _touches_home(write: FileWrite, protected: ProtectedPaths) -> bool:
    """Return whether a command writes in the home, or removes or moves a folder that it is in."""
    if protected.is_in_home(write.path):
        return True
    return write.removes and protected.has_home_below(write.path)


def _touches_settings(write: FileWrite, protected: ProtectedPaths) -> bool:
    """Return whether a command writes settings with hardwon's hooks, or removes or moves the folder they are in."""
    if protected.has_hooks(write.path):
        return True
    return write.removes and protected.has_hooks_below(write.path)


def judge_mcp_call(event: Event, home: str) -> str:
    """Return why an MCP tool may not be given these paths; empty if it may.

    Its name tells whether it only reads, and a tool that copies only reads its source.
    """
    _, _, tool_name = event.tool.rpartition("__")
    words = set(tool_name.lower().replace("-", "_").split("_"))
    is_reading = not words.isdisjoint(_READING_WORDS) and words.isdisjoint(_WRITING_WORDS)
    if is_reading:
        return ""
    suffixes = _PATH_FIELDS
    if "copy" in words:
        suffixes = tuple(field for field in _PATH_FIELDS if field not in _SOURCE_FIELDS)
    protected = ProtectedPaths(home)
    for field_value in _find_paths(event.input, suffixes):
        path = resolve_path(field_value, event.cwd, {"HARDWON_HOME": home})
        if protected.is_in_home(path):
            return f"Only the user can change files in {home}. To propose a lesson: hardwon lessons add"
        if protected.has_hooks(path):
            return _format_settings_refusal(path)
        if _is_settings_file(path) and _has_switch(event.content):
            return _format_unhook_refusal(path, event.host)
    return ""


def _is_settings_file(path: str) -> bool:
    """Return whether an agent reads settings from a file of this name, such as a project's settings.local.json."""
    folder, name = os.path.split(path)
    return name in _SETTINGS_NAMES and os.path.basename(folder) in _SETTINGS_FOLDERS


def _has_switch(text: str) -> bool:
    """Return whether a text names a setting that turns hooks off, in a file that need not contain them."""
    unquoted = text.translate(_UNQUOTE_TABLE)  # a shell joins `disable''AllHooks`
    return any(name in unquoted for name in (*_JSON_SWITCHES, *_ENV_SWITCHES))


def _find_paths(tool_input: object, suffixes: tuple[str, ...]) -> list[str]:
    """Return the strings that start like a path, or whose fields suggest one: `path`, `filePath`, `destination`."""
    field_paths = []
    fields = [("", tool_input)]
    position = 0
    while position < min(len(fields), _MAX_FIELDS):
        name, content = fields[position]
        position += 1
        if isinstance(content, str):
            # A source in one of the fields that `suffixes` leaves out is only read.
            is_path = content.startswith(_PATH_STARTS) and not name.lower().endswith(_SOURCE_FIELDS)
            if name.lower().endswith(suffixes) or (is_path and len(content.split()) == 1):
                field_paths.append(content)
        elif isinstance(content, dict):
            fields += [(str(key), inner) for key, inner in content.items()]
        elif isinstance(content, list):
            fields += [(name, inner) for inner in content]
    return field_paths


def iter_mentions(command: str, name: str) -> Iterator[int]:
    """Yield where a name stands in a command that is too long to parse, as often as there is time for."""
    position = command.find(name)
    for _ in range(MAX_MENTIONS):
        if position < 0:
            return
        yield position
        position = command.find(name, position + 1)


def unquote_part(part: str) -> str:
    """Return part of a command without quotes, and with a newline for every sign that ends a simple command."""
    return part.translate(_UNQUOTE_TABLE)


def judge_long_command(command: str, home: str) -> str:
    """Judge a command that is too long to parse by searching its text; quoted text counts too.

    It is denied if the home follows `>`, or is in the same simple command as a program that writes its arguments.
    """
    for position in iter_mentions(command, os.path.basename(home)):
        # The simple command as far as the home: `echo x > /home/dev/` or `rm -r /home/dev/`.
        scanned_text = unquote_part(command[max(position - SCANNED_CHARS, 0) : position])
        _, _, piece = scanned_text.rpartition("\n")
        words = piece.split()
        before_path, _, path_start = piece.rpartition(" ")
        is_redirected = ">" in path_start or before_path.rstrip().endswith(">")
        if is_redirected or (words and words[0].rpartition("/")[2] in WRITE_RULES):
            return _format_write_refusal(home, command[max(position - len(piece), 0) :])
    return ""


def _format_write_refusal(home: str, command: str) -> str:
    return f"Only the user can change files in {home}. Ask them to type in a terminal: {shorten_command(command)}"


def _format_settings_refusal(path: str) -> str:
    return (
        f"{path} carries hardwon's hooks, and what this does to them cannot be told."
        " Change it with your file editing tool, and leave the hooks as they are."
    )


def _format_unhook_refusal(path: str, host: str) -> str:
    return (
        f"Only the user can change hardwon's hooks in {path}; leave them as they are."
        f" To take them out, ask the user to type in a terminal: hardwon uninstall {host}"
    )


def shorten_command(command: str) -> str:
    """Return a command as one short line for a denial."""
    beginning = command[: 4 * _MAX_SHOWN_CHARS]  # a command may have megabytes
    printable = "".join(char if char.isprintable() else " " for char in beginning)
    line = " ".join(printable.split())
    return shorten_text(line, _MAX_SHOWN_CHARS)


def _has_same_hooks(path: str, old_text: str, new_text: str) -> bool:
    """Return whether both texts of a settings file have the same hooks of hardwon."""
    parts_before = _read_parts(path, old_text)
    if parts_before is None:  # the agent cannot read it either, so none of its hooks run
        return True
    return _read_parts(path, new_text) == parts_before


def _is_hook_safe_edit(path: str, old_text: str, tool_input: Mapping[str, Any]) -> bool:
    """Return whether a call of Write, Edit or MultiEdit leaves hardwon's hooks as they are.

    Write has the whole new text as `content`, MultiEdit a list of `edits`, and Edit the fields of its only edit. An
    edit without texts is not safe. One whose old text is not in the file is judged by its own words.
    """
    if isinstance(tool_input.get("content"), str):
        return _has_same_hooks(path, old_text, tool_input["content"])
    edits = tool_input.get("edits")
    if not isinstance(edits, list):
        edits = [tool_input]
    new_text = old_text
    for edit in edits:
        fields = _as_map(edit)
        old = fields.get("old_string")
        new = fields.get("new_string")
        if not isinstance(old, str) or not isinstance(new, str):
            return False
        # What the edit replaces is in the file, so its effect can be computed.
        if old and old in new_text:
            replacement_count = -1 if fields.get("replace_all") is True else 1
            new_text = new_text.replace(old, new, replacement_count)
        elif _touches_hooks(old, new):
            return False
    return _has_same_hooks(path, old_text, new_text)


def _touches_hooks(removed: str, added: str) -> bool:
    """Judge a patch by its changed lines, since the place of each is not known."""
    return any(mark in removed for mark in _LINE_MARKS) or any(mark in added for mark in _SWITCH_MARKS)


def _read_parts(path: str, text: str) -> dict[str, Any] | None:
    """Return the settings that keep hardwon's hooks running, by name; None if the file is broken."""
    if path.endswith(".js"):
        return {"plugin": text}
    try:
        return _read_toml_parts(text) if path.endswith(".toml") else _read_json_parts(text)
    except (ValueError, RecursionError):
        return None


def _read_json_parts(text: str) -> dict[str, Any]:
    """Return from a JSON settings file the switches for all hooks, hardwon's plugin, and the hooks that run it."""
    from hardwon.agents.settings_files import get_value

    settings = _as_map(get_value(text))
    parts: dict[str, Any] = {name: settings.get(name) for name in _JSON_SWITCHES}
    environment = _as_map(settings.get("env"))
    parts |= {f"env.{name}": environment.get(name) for name in _ENV_SWITCHES}
    for plugin, is_on in _as_map(settings.get("enabledPlugins")).items():
        if plugin.startswith(_PLUGIN_MARK):
            parts[plugin] = is_on
    for event, entries in _as_map(settings.get("hooks")).items():
        if not isinstance(entries, list):
            continue
        own_entries = [entry for entry in entries if _HOOK_SCRIPT in str(entry)]
        if own_entries:
            parts[f"hooks.{event}"] = own_entries
    return parts


def _read_toml_parts(text: str) -> dict[str, Any]:
    """Return from Codex's config.toml the switches for all hooks, and which hooks a person trusts."""
    import tomllib

    config = tomllib.loads(text)
    features = _as_map(config.get("features"))
    parts: dict[str, Any] = {name: features.get(name) for name in _TOML_SWITCHES}
    hooks = _as_map(config.get("hooks"))
    for key, state in _as_map(hooks.get("state")).items():
        parts[f"state.{key}"] = state
    return parts


def _as_map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
