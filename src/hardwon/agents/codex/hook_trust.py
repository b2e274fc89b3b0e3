"""Which of our hooks Codex trusts: it keeps a hash of each in its config.toml, by the hook's place in its file.

A hook runs outside the sandbox, so Codex has a person look at it first, and at any change of it. To write the hash is
to say that they did; that is done only where a person asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hardwon.agents import json_edit, toml_edit
from hardwon.types import frozen

if TYPE_CHECKING:
    from hardwon.agents import CommandPredicate, CreatedPaths

_STATE_PATH, _HASH_KEY = ("hooks", "state"), "trusted_hash"
_DEFAULT_TIMEOUT = 600
_END_TIMEOUT_RANGE = (1, 3)  # an end may take no less, and no more
_DEFAULT_CONTEXT_TOKENS = 2_500  # tokens, and not part of the hash
_EVENTS_WITHOUT_MATCHER = ("UserPromptSubmit", "Stop")
_CONTEXT_EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "SubagentStart")


@frozen
class CodexHook:
    """One of our hooks as Codex knows it."""

    event: str
    key: str
    trust_hash: str


def list_hooks(path: str, text: str, is_included: CommandPredicate) -> list[CodexHook]:
    """Our hooks in hooks.json, which Codex knows by this path."""
    return [CodexHook(*fields) for fields in _read_hooks(path, text, is_included)]


def _read_hooks(path: str, text: str, is_included: CommandPredicate) -> Iterator[tuple[str, str, str]]:
    hooks = json_edit.get_value(text, ["hooks"])
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group_index, group in enumerate(groups if isinstance(groups, list) else ()):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for handler_index, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if isinstance(handler, dict) and is_included(str(handler.get("command", ""))):
                    key = f"{path}:{_to_snake_case(event)}:{group_index}:{handler_index}"
                    yield event, key, _compute_trust_hash(event, group.get("matcher"), handler)


def grant_trust(config: str, hooks: list[CodexHook], created_paths: CreatedPaths) -> tuple[str, CreatedPaths]:
    """The config with these hooks trusted as they are now, and the tables in it that are ours, with those of before."""
    paths = {hook.key: [*_STATE_PATH, hook.key] for hook in hooks}
    config = revoke_trust(config, [path for path in created_paths if path not in paths.values()])
    owned_paths = [path for path in created_paths if path in paths.values()]
    for hook in hooks:
        path = paths[hook.key]
        if toml_edit.get_value(config, [*path, _HASH_KEY]) != hook.trust_hash:
            config = toml_edit.append_table(toml_edit.remove_table(config, path), path, {_HASH_KEY: hook.trust_hash})
            owned_paths += [path] if path not in owned_paths else []
    return config, owned_paths


def revoke_trust(config: str, created_paths: CreatedPaths) -> str:
    """The config without these tables."""
    for path in created_paths:
        config = toml_edit.remove_table(config, path)
    return config


def find_distrusted_hooks(config: str, hooks: list[CodexHook]) -> dict[str, list[str]]:
    """Why Codex does not run some of these hooks, each with the events it is so for."""
    events_by_reason: dict[str, list[str]] = {}
    for hook in hooks:
        if reason := _find_distrust_reason(toml_edit.get_value(config, [*_STATE_PATH, hook.key]), hook):
            events_by_reason.setdefault(reason, []).append(hook.event)
    return events_by_reason


def find_displaced_events(path: str, old_text: str, new_text: str, is_hardwon_hook: CommandPredicate) -> list[str]:
    """The events in which hooks of others lost the place by which Codex knows them."""

    def is_foreign_hook(command: str) -> bool:
        return bool(command) and not is_hardwon_hook(command)

    new_identities = (
        [(hook.key, hook.trust_hash) for hook in list_hooks(path, new_text, is_foreign_hook)]
        if new_text.strip()
        else []
    )
    old_hooks = list_hooks(path, old_text, is_foreign_hook) if old_text.strip() else []
    return list(dict.fromkeys(hook.event for hook in old_hooks if (hook.key, hook.trust_hash) not in new_identities))


def has_hooks_disabled(config: str) -> bool:
    """By the name that the switch has, else by the one it had before, which Codex still heeds."""
    switches = [toml_edit.get_value(config, ["features", name]) for name in ("hooks", "codex_hooks")]
    return next((switch for switch in switches if switch is not None), True) is False


def _find_distrust_reason(state: object, hook: CodexHook) -> str:
    stored: Mapping[str, Any] = state if isinstance(state, dict) else {}
    if stored.get("enabled") is False:
        return "switched off"
    if _HASH_KEY not in stored:
        return "untrusted"
    return "" if stored[_HASH_KEY] == hook.trust_hash else "modified since"


def _compute_trust_hash(event: str, matcher: object, handler: Mapping[str, Any]) -> str:
    seconds = handler.get("timeout")
    if event == "SessionEnd":
        least, most = _END_TIMEOUT_RANGE
        seconds = min(max(seconds if isinstance(seconds, int) else least, least), most)
    else:
        seconds = max(seconds if isinstance(seconds, int) else _DEFAULT_TIMEOUT, 1)
    required = {"type": "command", "command": handler["command"], "timeout": seconds, "async": False}
    optional = {"async": handler.get("async"), "statusMessage": handler.get("statusMessage")}
    limit = handler.get("additionalContextLimit")
    if event in _CONTEXT_EVENTS and limit != _DEFAULT_CONTEXT_TOKENS:
        optional["additionalContextLimit"] = limit
    hook = {**required, **{name: value for name, value in optional.items() if value is not None}}
    identity: dict[str, Any] = {"event_name": _to_snake_case(event), "hooks": [hook]}
    if matcher is not None and event not in _EVENTS_WITHOUT_MATCHER:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _to_snake_case(event: str) -> str:
    """`PreToolUse` is `pre_tool_use`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in event).lstrip("_")
