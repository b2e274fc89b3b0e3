"""Codex: hooks in hooks.json; MCP servers, and which hooks a person has trusted, in config.toml.

A hook runs outside the sandbox, so Codex has a person look at it first, and at any change of it, and records that by a
hash of the hook. Writing the hash says that they did, so hardwon writes it only where a person asks for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardwon.agents.codex import EVENT_TIMEOUTS
from hardwon.agents.hook_settings import HookSettings, TrustFinding
from hardwon.agents.settings_files import (
    SERVER_NAME,
    CreatedPaths,
    SettingsError,
    has_own_plugin,
    is_hardwon_hook,
    read_server_command,
    read_text_file,
)
from hardwon.errors import UserError
from hardwon.paths import read_text

# In Codex's tokens of four bytes: a brief may have 9,000 characters, each of them four bytes long.
_LIMIT_FIELD = "additionalContextLimit"
_EXTRA_FIELDS = {"SessionStart": {_LIMIT_FIELD: 9_000}}
_SERVER_PATH = ["mcp_servers", SERVER_NAME]
_STARTUP_SECONDS = 30  # Codex's own 10 seconds are too few on a busy machine
_STATE_PATH = ("hooks", "state")
_HASH_KEY = "trusted_hash"
_HASHED_FIELDS = ("command", "async", "statusMessage", _LIMIT_FIELD)
# What Codex assumes for a hook without a timeout; it is part of the hash.
_DEFAULT_TIMEOUT = 600
_DEFAULT_CONTEXT_TOKENS = 2_500  # Codex leaves its default out of the hash
# Codex drops a matcher of these before it computes the hash.
_EVENTS_WITHOUT_MATCHER = ("UserPromptSubmit", "Stop")
_CONTEXT_EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "SubagentStart")


def find_folder() -> str:
    """Return Codex's folder as it resolves it itself: it names a trusted hook by that path."""
    codex_home = os.environ.get("CODEX_HOME")
    return os.path.realpath(codex_home) if codex_home else os.path.expanduser("~/.codex")


def runs_hooks(path: str, text: str) -> bool:
    """Return whether Codex runs our hooks in this file, which it names by the path it opened: maybe a link."""
    # The ledger has the real path, Codex the one it was configured with.
    default_path = SETTINGS.get_settings_path()
    opened_path = default_path if os.path.realpath(default_path) == path else path
    hooks = list_hooks(opened_path, text)
    config = read_text(os.path.join(os.path.dirname(opened_path), "config.toml"))
    return bool(hooks) and not find_distrusted_hooks(config, hooks) and not _has_hooks_disabled(config)


def find_plugin() -> str:
    """Return the config file that enables hardwon's plugin; empty if none does."""
    path = _find_config_path()
    try:
        plugins = get_toml_value(read_text_file(path), ["plugins"])
    except (UserError, ValueError):
        return ""
    return path if has_own_plugin(plugins) else ""


def check_trust(text: str) -> TrustFinding:
    """Check that Codex runs the hooks: it leaves out those that nobody trusted."""
    path = _find_config_path()
    try:
        config = read_text_file(path)
        hooks = list_hooks(SETTINGS.get_settings_path(), text)
        distrusted_hooks = find_distrusted_hooks(config, hooks)
        is_disabled = _has_hooks_disabled(config)
    except (UserError, ValueError) as error:
        return False, f"{path}: {error}", "repair it"
    if is_disabled:
        return False, f"hooks are switched off in {path}", "hooks = true below [features] there"
    if distrusted_hooks:
        reasons = [f"{reason}: {', '.join(events)}" for reason, events in distrusted_hooks.items()]
        fix = "type /hooks in Codex and trust hardwon's, or: hardwon install codex --trust"
        return False, f"Codex leaves out {'; '.join(reasons)}", fix
    return True, f"Codex trusts all {len(hooks)} hooks", ""


def _find_config_path() -> str:
    return os.path.join(find_folder(), "config.toml")


class TomlServers:
    """MCP servers as tables of config.toml."""

    def add_server(self, text: str, command: Sequence[str]) -> tuple[str, CreatedPaths]:
        entry = {"command": command[0], "args": [*command[1:]], "startup_timeout_sec": _STARTUP_SECONDS}
        return append_table(text, _SERVER_PATH, entry), []

    def remove_server(self, text: str, created_paths: CreatedPaths) -> str:
        return remove_table(text, _SERVER_PATH)

    def find_command(self, text: str) -> list[str]:
        return read_server_command(get_toml_value(text, _SERVER_PATH))


SETTINGS = HookSettings(
    title="Codex",
    program="codex",
    minimum_version=(0, 130, 0),
    timeouts=EVENT_TIMEOUTS,
    folder="~/.codex",
    file_name="hooks.json",
    next_step=(
        'Codex will not run these hooks until you trust them: choose "Trust all" when it starts, or run'
        " hardwon install codex --trust"
    ),
    probe_fields={
        "turn_id": "hardwon-doctor",
        "transcript_path": None,
        "model": "",
        "permission_mode": "default",
        "tool_use_id": "call_doctor",
    },
    event_fields=_EXTRA_FIELDS,
    server_format=TomlServers(),
    folder_finder=find_folder,
    mcp_path_finder=_find_config_path,
    plugin_finder=find_plugin,
    trust_checker=check_trust,
    run_checker=runs_hooks,
)


@dataclass(frozen=True, slots=True)
class CodexHook:
    """A hook as Codex knows it: by its place in a file, and by the hash of what it runs."""

    event: str
    key: str
    trust_hash: str


def list_hooks(path: str, text: str, is_included: Callable[[str], bool] = is_hardwon_hook) -> list[CodexHook]:
    """Return the hooks in hooks.json, which Codex knows by this path; ValueError if it is not JSON."""
    settings = json.loads(text) if text.strip() else {}
    codex_hooks: list[CodexHook] = []
    try:
        for event, groups in settings.get("hooks", {}).items():
            for group_index, group in enumerate(groups):
                for index, handler in enumerate(group.get("hooks", ())):
                    if is_included(handler.get("command", "")):
                        key = f"{path}:{_to_snake_case(event)}:{group_index}:{index}"
                        trust_hash = _compute_trust_hash(event, group.get("matcher"), handler)
                        codex_hooks.append(CodexHook(event, key, trust_hash))
    except (AttributeError, TypeError):
        raise SettingsError("has hooks in a form that Codex does not know") from None
    return codex_hooks


def grant_trust(config: str, hooks: list[CodexHook], created_paths: CreatedPaths) -> tuple[str, CreatedPaths]:
    """Return the config with these hooks trusted as they are now, and the paths of all tables that are ours.

    `created_paths` are the tables that earlier calls wrote; those of hooks that are gone are removed.
    """
    paths = [[*_STATE_PATH, hook.key] for hook in hooks]
    owned_paths = []
    for path in created_paths:
        if path in paths:
            owned_paths.append(path)
        else:
            config = remove_table(config, path)
    for hook, path in zip(hooks, paths, strict=True):
        if get_toml_value(config, [*path, _HASH_KEY]) == hook.trust_hash:
            continue  # a person may have trusted it themselves
        config = append_table(remove_table(config, path), path, {_HASH_KEY: hook.trust_hash})
        if path not in owned_paths:
            owned_paths.append(path)
    return config, owned_paths


def revoke_trust(config: str, created_paths: CreatedPaths) -> str:
    """Return the config without these tables."""
    for path in created_paths:
        config = remove_table(config, path)
    return config


def find_distrusted_hooks(config: str, hooks: list[CodexHook]) -> dict[str, list[str]]:
    """Return why Codex does not run some of these hooks: each reason with its events."""
    events_by_reason: dict[str, list[str]] = {}
    for hook in hooks:
        state = get_toml_value(config, [*_STATE_PATH, hook.key]) or {}
        # A hook may be trusted and switched off all the same.
        if state.get("enabled") is False:
            reason = "switched off"
        elif _HASH_KEY not in state:
            reason = "untrusted"
        elif state[_HASH_KEY] != hook.trust_hash:
            reason = "modified since"
        else:
            continue
        events_by_reason.setdefault(reason, []).append(hook.event)
    return events_by_reason


def find_displaced_events(path: str, old_text: str, new_text: str) -> list[str]:
    """Return the events in which hooks of others lost the place by which Codex knows them."""

    def is_foreign_hook(command: str) -> bool:
        return bool(command) and not is_hardwon_hook(command)

    new_hooks = list_hooks(path, new_text, is_foreign_hook)
    displaced = [hook.event for hook in list_hooks(path, old_text, is_foreign_hook) if hook not in new_hooks]
    return list(dict.fromkeys(displaced))


def _has_hooks_disabled(config: str) -> bool:
    """Return whether hooks are switched off, under today's name or the former one, which Codex still heeds."""
    switch = get_toml_value(config, ["features", "hooks"])
    if switch is None:
        switch = get_toml_value(config, ["features", "codex_hooks"])
    return switch is False


def _compute_trust_hash(event: str, matcher: str | None, handler: Mapping[str, Any]) -> str:
    """Return the hash that Codex computes of a hook, with the defaults that it fills in (seen on 0.166)."""
    hook: dict[str, Any] = {"type": "command", "async": False}
    for name in _HASHED_FIELDS:
        if handler.get(name) is not None:
            hook[name] = handler[name]
    if event not in _CONTEXT_EVENTS or hook.get(_LIMIT_FIELD) == _DEFAULT_CONTEXT_TOKENS:
        hook.pop(_LIMIT_FIELD, None)
    default_timeout = 1 if event == "SessionEnd" else _DEFAULT_TIMEOUT
    hook["timeout"] = max(handler.get("timeout", default_timeout), 1)
    if event == "SessionEnd":
        hook["timeout"] = min(hook["timeout"], 3)
    identity: dict[str, Any] = {"event_name": _to_snake_case(event), "hooks": [hook]}
    if matcher is not None and event not in _EVENTS_WITHOUT_MATCHER:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _to_snake_case(event: str) -> str:
    """Return `pre_tool_use` for `PreToolUse`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def get_toml_value(text: str, path: Sequence[str]) -> Any:
    """Return the value at the path; None where there is nothing."""
    try:
        value: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, location = str(error).rstrip(")").rpartition(" (at ")
        raise SettingsError(f"{location}: {message[:1].lower()}{message[1:]}") from None
    except RecursionError:
        raise SettingsError("is nested too deeply") from None
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def append_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text with one more table; tomlkit keeps comments and formatting of the rest."""
    import tomlkit  # 24 ms, needed only to change the file

    if get_toml_value(text, path) is not None:
        raise SettingsError(f"{'.'.join(path)} is there already")
    document = tomlkit.parse(text)
    *parent_names, table_name = path
    parent: Any = document
    table = tomlkit.table()
    table.update(values)
    try:
        for name in parent_names:
            if name not in parent:
                parent[name] = tomlkit.table(is_super_table=True)
            parent = parent[name]
        parent[table_name] = table
        new_text = tomlkit.dumps(document)
        is_added = get_toml_value(new_text, path) == values
    except (TypeError, ValueError):  # a parent is no table, or an inline one
        is_added = False
    if not is_added:
        raise SettingsError(f"{'.'.join(parent_names)} cannot take another table")
    return new_text


def remove_table(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at the path and those below it; no such table, no change."""
    import tomlkit

    if get_toml_value(text, path) is None:
        return text
    document = tomlkit.parse(text)
    *parent_names, table_name = path
    parent: Any = document
    for name in parent_names:
        parent = parent[name]
    del parent[table_name]
    new_text = tomlkit.dumps(document)
    # The blank line that tomlkit put before the table would be left at the end.
    if new_text.endswith("\n\n"):
        return new_text.removesuffix("\n")
    return new_text
