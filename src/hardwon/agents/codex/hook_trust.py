"""Edit Codex's config.toml, which records the hooks that a person has trusted by a hash of each.

A hook runs outside the sandbox, so Codex has a person look at it first, and at any change of it. Writing the hash says
that they did, so hardwon writes it only where a person asks for it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardwon.agents import SettingsError

if TYPE_CHECKING:
    from hardwon.agents import CommandPredicate, CreatedPaths

_STATE_PATH, _HASH_KEY = ("hooks", "state"), "trusted_hash"
_LIMIT_FIELD = "additionalContextLimit"
_HASHED_FIELDS = ("command", "async", "statusMessage", _LIMIT_FIELD)
_DEFAULT_TIMEOUT = 600
_DEFAULT_CONTEXT_TOKENS = 2_500  # Codex leaves its default out of the hash
_EVENTS_WITHOUT_MATCHER = ("UserPromptSubmit", "Stop")
_CONTEXT_EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "SubagentStart")


@dataclass(frozen=True, slots=True)
class CodexHook:
    """A hook as Codex knows it: by its place in a file, and by the hash of what it runs."""

    event: str
    key: str
    trust_hash: str


def list_hooks(path: str, text: str, is_included: CommandPredicate) -> list[CodexHook]:
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
    """Return the config with these hooks trusted as they are now, and the paths of all tables that are ours."""
    paths = [[*_STATE_PATH, hook.key] for hook in hooks]
    config = revoke_trust(config, [path for path in created_paths if path not in paths])
    owned_paths = [path for path in created_paths if path in paths]
    for hook, path in zip(hooks, paths, strict=True):
        if get_toml_value(config, [*path, _HASH_KEY]) == hook.trust_hash:
            continue
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


def find_displaced_events(path: str, old_text: str, new_text: str, is_hardwon_hook: CommandPredicate) -> list[str]:
    """Return the events in which hooks of others lost the place by which Codex knows them."""

    def is_foreign_hook(command: str) -> bool:
        return bool(command) and not is_hardwon_hook(command)

    new_hooks = list_hooks(path, new_text, is_foreign_hook)
    displaced = [hook.event for hook in list_hooks(path, old_text, is_foreign_hook) if hook not in new_hooks]
    return list(dict.fromkeys(displaced))


def has_hooks_disabled(config: str) -> bool:
    """Return whether hooks are switched off, under today's name or the former one, which Codex still heeds."""
    switches = [get_toml_value(config, ["features", name]) for name in ("hooks", "codex_hooks")]
    return next((switch for switch in switches if switch is not None), True) is False


def _compute_trust_hash(event: str, matcher: str | None, handler: Mapping[str, Any]) -> str:
    """Return the hash that Codex computes of a hook, with the defaults that it fills in (seen on 0.166)."""
    hook = {name: handler[name] for name in _HASHED_FIELDS if handler.get(name) is not None}
    if event not in _CONTEXT_EVENTS or hook.get(_LIMIT_FIELD) == _DEFAULT_CONTEXT_TOKENS:
        hook.pop(_LIMIT_FIELD, None)
    hook["timeout"] = max(handler.get("timeout", 1 if event == "SessionEnd" else _DEFAULT_TIMEOUT), 1)
    if event == "SessionEnd":
        hook["timeout"] = min(hook["timeout"], 3)
    identity: dict[str, Any] = {"event_name": _to_snake_case(event)}
    identity["hooks"] = [{"type": "command", "async": False} | hook]
    if matcher is not None and event not in _EVENTS_WITHOUT_MATCHER:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _to_snake_case(event: str) -> str:
    """Return `pre_tool_use` for `PreToolUse`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in event).lstrip("_")


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
    parent: Any = document
    table = tomlkit.table()
    table.update(values)
    try:
        for key in path[:-1]:
            if key not in parent:
                parent[key] = tomlkit.table(is_super_table=True)
            parent = parent[key]
        parent[path[-1]] = table
        new_text = tomlkit.dumps(document)
        is_added = get_toml_value(new_text, path) == values
    except (TypeError, ValueError):
        is_added = False
    if not is_added:
        raise SettingsError(f"{'.'.join(path[:-1])} cannot take another table")
    return new_text


def remove_table(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at the path and those below it; no such table, no change."""
    import tomlkit

    if get_toml_value(text, path) is None:
        return text
    document = tomlkit.parse(text)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    new_text = tomlkit.dumps(document)
    # The blank line that tomlkit put before the table would be left at the end.
    return new_text.removesuffix("\n") if new_text.endswith("\n\n") else new_text
