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

_STATE, _HASH = ("hooks", "state"), "trusted_hash"
_DEFAULT_SECONDS = 600
_END_SECONDS = (1, 3)  # an end may take no less, and no more
_DEFAULT_CONTEXT = 2_500  # tokens, and not part of the hash
_NO_MATCHER = ("UserPromptSubmit", "Stop")
_HEARD = ("PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "SubagentStart")


@frozen
class CodexHook:
    """One of our hooks as Codex knows it."""

    event: str
    key: str
    trust_hash: str


def list_hooks(path: str, text: str, is_included: CommandPredicate) -> list[CodexHook]:
    """Our hooks in hooks.json, which Codex knows by this path."""
    return [CodexHook(*one) for one in _hooks(path, text, is_included)]


def _hooks(path: str, text: str, ours: CommandPredicate) -> Iterator[tuple[str, str, str]]:
    found = json_edit.get_value(text, ["hooks"])
    for event, groups in found.items() if isinstance(found, dict) else ():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for number, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if isinstance(handler, dict) and ours(str(handler.get("command", ""))):
                    key = f"{path}:{_snake(event)}:{place}:{number}"
                    yield event, key, _hash(event, group.get("matcher"), handler)


def grant_trust(config: str, hooks: list[CodexHook], created_paths: CreatedPaths) -> tuple[str, CreatedPaths]:
    """The config with these hooks trusted as they are now, and the tables in it that are ours, with those of before."""
    paths = {hook.key: [*_STATE, hook.key] for hook in hooks}
    config = revoke_trust(config, [path for path in created_paths if path not in paths.values()])
    ours = [path for path in created_paths if path in paths.values()]
    for hook in hooks:
        path = paths[hook.key]
        if toml_edit.get_value(config, [*path, _HASH]) != hook.trust_hash:
            config = toml_edit.append_table(toml_edit.remove_table(config, path), path, {_HASH: hook.trust_hash})
            ours += [path] if path not in ours else []
    return config, ours


def revoke_trust(config: str, created_paths: CreatedPaths) -> str:
    """The config without these tables."""
    for path in created_paths:
        config = toml_edit.remove_table(config, path)
    return config


def find_distrusted_hooks(config: str, hooks: list[CodexHook]) -> dict[str, list[str]]:
    """Why Codex does not run some of these hooks, each with the events it is so for."""
    found: dict[str, list[str]] = {}
    for hook in hooks:
        if why := _why_not(toml_edit.get_value(config, [*_STATE, hook.key]), hook):
            found.setdefault(why, []).append(hook.event)
    return found


def find_displaced_events(path: str, old_text: str, new_text: str, is_hardwon_hook: CommandPredicate) -> list[str]:
    """The events in which hooks of others lost the place by which Codex knows them."""

    def theirs(command: str) -> bool:
        return bool(command) and not is_hardwon_hook(command)

    kept = [(hook.key, hook.trust_hash) for hook in list_hooks(path, new_text, theirs)] if new_text.strip() else []
    known = list_hooks(path, old_text, theirs) if old_text.strip() else []
    return list(dict.fromkeys(hook.event for hook in known if (hook.key, hook.trust_hash) not in kept))


def has_hooks_disabled(config: str) -> bool:
    """By the name that the switch has, else by the one it had before, which Codex still heeds."""
    said = [toml_edit.get_value(config, ["features", name]) for name in ("hooks", "codex_hooks")]
    return next((one for one in said if one is not None), True) is False


def _why_not(state: object, hook: CodexHook) -> str:
    told: Mapping[str, Any] = state if isinstance(state, dict) else {}
    if told.get("enabled") is False:
        return "switched off"
    if _HASH not in told:
        return "untrusted"
    return "" if told[_HASH] == hook.trust_hash else "modified since"


def _hash(event: str, matcher: object, handler: Mapping[str, Any]) -> str:
    seconds = handler.get("timeout")
    if event == "SessionEnd":
        least, most = _END_SECONDS
        seconds = min(max(seconds if isinstance(seconds, int) else least, least), most)
    else:
        seconds = max(seconds if isinstance(seconds, int) else _DEFAULT_SECONDS, 1)
    known = {"type": "command", "command": handler["command"], "timeout": seconds, "async": False}
    more = {"async": handler.get("async"), "statusMessage": handler.get("statusMessage")}
    limit = handler.get("additionalContextLimit")
    if event in _HEARD and limit != _DEFAULT_CONTEXT:
        more["additionalContextLimit"] = limit
    hook = {**known, **{name: value for name, value in more.items() if value is not None}}
    identity: dict[str, Any] = {"event_name": _snake(event), "hooks": [hook]}
    if matcher is not None and event not in _NO_MATCHER:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _snake(event: str) -> str:
    """`PreToolUse` is `pre_tool_use`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in event).lstrip("_")
