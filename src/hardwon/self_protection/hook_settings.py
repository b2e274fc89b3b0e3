"""Check that an edit of an agent's settings file leaves hardwon's hooks unchanged and switched on."""

from __future__ import annotations

from hardwon.self_protection.protected_paths import HOOK_SCRIPT

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PLUGIN_MARK = "hardwon@"
_JSON_SWITCHES = ("disableAllHooks", "hooksConfig")  # Claude Code's and Gemini CLI's
_TOML_SWITCHES = ("hooks", "codex_hooks")  # below [features]
_LINE_MARKS = (HOOK_SCRIPT, _PLUGIN_MARK, "hooks.json:", "trusted_hash")
_SWITCH_MARKS = (*_JSON_SWITCHES, "hooks = false", "hooks=false", "enabled = false", "enabled=false")


def has_same_hooks(path: str, old_text: str, new_text: str) -> bool:
    """Return whether both texts of a settings file have the same hooks of hardwon."""
    parts_before = _read_parts(path, old_text)
    if parts_before is None:  # the agent cannot read it either, so none of its hooks run
        return True
    return _read_parts(path, new_text) == parts_before


def is_hook_safe_edit(path: str, old_text: str, tool_input: Mapping[str, Any]) -> bool:
    """Return whether a call of Write, Edit or MultiEdit leaves hardwon's hooks as they are."""
    if isinstance(tool_input.get("content"), str):
        return has_same_hooks(path, old_text, tool_input["content"])
    edits = tool_input.get("edits")
    new_text = old_text
    for edit in edits if isinstance(edits, list) else [tool_input]:
        old, new = (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, dict) else (None, None)
        if not isinstance(old, str) or not isinstance(new, str):
            return False
        if old and old in new_text:
            new_text = new_text.replace(old, new) if edit.get("replace_all") is True else new_text.replace(old, new, 1)
        elif _touches_hooks(old, new):
            return False
    return has_same_hooks(path, old_text, new_text)


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
    from hardwon.agents.settings_files import get_value

    settings = _as_map(get_value(text))
    parts: dict[str, Any] = {name: settings.get(name) for name in _JSON_SWITCHES}
    for plugin, is_on in _as_map(settings.get("enabledPlugins")).items():
        if plugin.startswith(_PLUGIN_MARK):
            parts[plugin] = is_on
    for event, entries in _as_map(settings.get("hooks")).items():
        own_entries = [entry for entry in entries if HOOK_SCRIPT in str(entry)] if isinstance(entries, list) else []
        if own_entries:
            parts[f"hooks.{event}"] = own_entries
    return parts


def _read_toml_parts(text: str) -> dict[str, Any]:
    import tomllib

    config = tomllib.loads(text)
    features = _as_map(config.get("features"))
    parts: dict[str, Any] = {name: features.get(name) for name in _TOML_SWITCHES}
    for key, state in _as_map(_as_map(config.get("hooks")).get("state")).items():
        parts[f"state.{key}"] = state
    return parts


def _as_map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
