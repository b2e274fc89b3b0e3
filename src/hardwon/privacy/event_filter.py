"""Decide which parts of an event may be stored, before anything is written, with or without a worker.

Private parts are stripped, then secrets redacted, then long text is cut. A wholly private prompt is not stored, nor is
the agent's work on it. Each hook is a new process, so marker files carry that over to the next event: one until the
next prompt, one kept under the agent's id of the prompt, and one for each subagent that was started in a private turn
and may outlast it.
"""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.paths import to_safe_name
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import (
    has_possible_tag,
    is_wholly_private,
    map_strings,
    strip_private_sequence,
)
from hardwon.privacy.prompt_text import extract_agent_prompt, is_only_for_hardwon
from hardwon.privacy.redaction import redact_text, redact_value
from hardwon.privacy.truncation import (
    MAX_EVENT_CHARS,
    MAX_STRIPPED_CHARS,
    MAX_TEXT_CHARS,
    clean_long_text,
    cut_with_margins,
    prune_value,
    remove_margins,
    strip_long_text,
    trim_value,
)
from hardwon.projects import has_denied_path, is_below
from hardwon.text.fence import remove_between
from hardwon.text.light_json import loads
from hardwon.types import replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from hardwon.types import Event

DEFAULT_SKIPPED_TOOLS = ("ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion")
_TOOL_EVENTS = ("PostToolUse", "PostToolUseFailure")
_REMINDER_TAGS = ("<system-reminder>", "</system-reminder>")


def filter_hook_event(event: Event, home: str, values: Mapping[str, Any]) -> Event | None:
    """Return the event as it may be stored; None if it may not be.

    A PreToolUse event is dropped unless hardwon denied the call: a denied call does not run, so no other event reports
    it.
    """
    if not event.session or _is_excluded(event, values):
        return None
    # Without an id, a denied call cannot be matched with the same call in the transcript and would be stored twice.
    is_denied_call = event.denied and event.tool_use_id
    if event.kind == "PreToolUse" and not is_denied_call:
        return None
    marker_folder = claims.get_claim_folder(home, event.session, claims.PRIVATE_PREFIX)
    # The marker of a hardwon turn exists while the agent answers a prompt that was only for hardwon.
    hardwon_turn_folder = claims.get_claim_folder(home, event.session, claims.HARDWON_TURN_PREFIX)
    hardwon_turn = os.path.join(hardwon_turn_folder, claims.LATEST_MARKER)
    if event.kind == "UserPromptSubmit":
        prompt = _filter_prompt(event, marker_folder, hardwon_turn)
        if prompt is None:
            return None
        event = replace(event, prompt=prompt)
    elif event.kind == "Stop" and not event.subagent_id and os.path.exists(hardwon_turn):
        event = replace(event, message="")  # the answer is about hardwon
    turn_names = _list_turn_names(event)
    markers = [os.path.join(marker_folder, name) for name in (claims.LATEST_MARKER, *turn_names)]
    is_private_turn = any(map(os.path.exists, markers))
    if not is_private_turn:
        return _clean_event(event, values)
    if event.kind == "SubagentStart":  # a subagent may outlast the turn, so it gets a marker of its own
        for name in turn_names:
            claims.take(os.path.join(marker_folder, name), event.id, event.at)
    if _is_call(event):
        return None
    return _strip_content(event)


def _filter_prompt(event: Event, marker_folder: str, hardwon_turn: str) -> str | None:
    """Return what may be stored of a prompt, None for nothing, and move the markers: a prompt begins or ends turns."""
    latest_marker = os.path.join(marker_folder, claims.LATEST_MARKER)
    if _is_private_prompt(event.prompt):
        for name in (claims.LATEST_MARKER, *_list_turn_names(event)):
            claims.take(os.path.join(marker_folder, name), event.id, event.at)
        return None
    if is_only_for_hardwon(event.prompt):
        claims.release(latest_marker)
        claims.take(hardwon_turn, event.id, event.at)
        return None
    agent_prompt = extract_agent_prompt(event.prompt)
    # Only a person's words end a private turn; the agent's own messages and empty prompts do not.
    if agent_prompt:
        claims.release(latest_marker)
        claims.release(hardwon_turn)
    elif event.prompt.strip():
        return None  # the agent wrote all of the prompt
    return agent_prompt


def _is_private_prompt(prompt: str) -> bool:
    """Return whether all of a prompt is private.

    It is if it is private with or without the reminders that agents add: neither may make a private prompt public.
    """
    visible_prompt = remove_between(prompt, *_REMINDER_TAGS)
    if is_wholly_private(visible_prompt[:MAX_STRIPPED_CHARS]):
        return True
    return is_wholly_private(prompt[:MAX_STRIPPED_CHARS])


def read_recording_settings(home: str, compiled_settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the compiled settings, with the exclusion lists from config.json if it is newer than the manifest.

    So a new exclusion applies at once, even if the manifest cannot be rebuilt.
    """
    config_path = os.path.join(home, paths.CONFIG)
    index_path = os.path.join(home, paths.LESSON_INDEX)
    try:
        if compiled_settings and os.stat(config_path).st_mtime_ns <= os.stat(index_path).st_mtime_ns:
            return compiled_settings
        config_values = loads(paths.read_text(config_path, "utf-8-sig"))
    except (OSError, ValueError):  # missing or broken: what was compiled from it last still applies
        return compiled_settings
    recording_settings = dict(compiled_settings)
    if isinstance(config_values, dict):
        for name in ("skipTools", "denyProjects", "denyPaths"):
            if isinstance(config_values.get(name), list):
                recording_settings[name] = config_values[name]
    return recording_settings


def _list_turn_names(event: Event) -> list[str]:
    """Return the marker names of a private turn: the agent's id of the prompt, and that of the subagent."""
    return [to_safe_name(name) for name in (event.prompt_name, event.subagent_id) if name]


def filter_transcript_event(event: Event, values: Mapping[str, Any]) -> Event | None:
    """Return a transcript's event as it may be stored, None if it may not be.

    Its reader has already left out private turns.
    """
    if not event.session or _is_excluded(event, values):
        return None
    return _clean_event(event, values)


def _is_excluded(event: Event, values: Mapping[str, Any]) -> bool:
    """Return whether the person's settings exclude the event's project, its tool or a path that it names."""
    if is_below(event.cwd, values.get("denyProjects", ())):
        return True
    if not _is_call(event):
        return False
    if event.tool in values.get("skipTools", DEFAULT_SKIPPED_TOOLS):
        return True
    return _is_about_denied_path(event, values.get("denyPaths", ()))


def _is_call(event: Event) -> bool:
    return event.kind in _TOOL_EVENTS or event.denied


def _strip_content(event: Event) -> Event:
    """Return an event that only shows that something happened in a private turn."""
    event = _clean_locations(event)
    return replace(event, prompt="", message="", input=None, response=None, command="", path="", content="", parts=())


def _clean_event(event: Event, values: Mapping[str, Any]) -> Event:
    """Return the event with every text stripped, redacted and cut to `maxEventChars`.

    Path, content and parts served for matching only; what they say is in the input.
    """
    max_chars = int(values.get("maxEventChars", MAX_TEXT_CHARS))
    max_total = max(MAX_EVENT_CHARS, 2 * max_chars)
    return replace(
        _clean_locations(event),
        prompt=clean_long_text(remove_between(event.prompt, *_REMINDER_TAGS).strip(), max_chars),
        message=clean_long_text(remove_between(event.message, *_REMINDER_TAGS).strip(), max_chars),
        input=trim_value(_clean_value(event.input, max_chars), max_chars, max_total),
        response=trim_value(_clean_value(event.response, max_chars), max_chars, max_total),
        command=clean_long_text(event.command, max_chars),
        path="",
        content="",
        parts=(),
    )


def _clean_locations(event: Event) -> Event:
    """Return the event with secrets redacted in its folder, and without a transcript path that holds one."""
    folder = clean_text(event.cwd)
    if folder != event.cwd:
        event = replace(event, cwd=folder)
    if clean_text(event.transcript) != event.transcript:
        event = replace(event, transcript="")  # a redacted path could not be opened
    return event


def _clean_value(value: Any, max_chars: int) -> Any:
    """Return a JSON value without its private parts and secrets, its long strings cut down."""
    # The order matters: strip before cutting, redact before removing the margins.
    pruned = prune_value(value, max_chars)
    public = _change_texts(_strip_split_fields(_strip_split_tags(pruned)), strip_long_text)
    shortened = _change_texts(public, lambda text: cut_with_margins(text, max_chars))
    redacted = redact_value(_change_joined_lines(shortened, redact_text))
    return _change_texts(redacted, remove_margins)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change the texts of a JSON value: lists of lines joined first, then each string by itself."""
    return map_strings(_change_joined_lines(value, change), lambda text, _: change(text))


def _change_joined_lines(value: Any, change: Callable[[str], str]) -> Any:
    """Change each list of lines as one text: a tag or a private key may begin in one line and end in another."""
    if isinstance(value, dict):
        return {name: _change_joined_lines(inner, change) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) < 2 or not all(isinstance(line, str) for line in value):
        return [_change_joined_lines(inner, change) for inner in value]
    text = "\n".join(value)
    changed = change(text)
    return value if changed == text else changed.split("\n")


def _strip_split_tags(value: Any) -> Any:
    """Return the value with every content array in it stripped as one text."""
    if isinstance(value, dict):
        return {name: _strip_split_tags(inner) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if all(isinstance(line, str) for line in value):
        return value  # lines of one text; `_change_joined_lines` handles those
    return [_strip_split_tags(inner) for inner in _strip_joined_blocks(value)]


def _strip_joined_blocks(blocks: list[Any]) -> list[Any]:
    """Return a content array stripped as one text: a private part may open in one block and close in another.

    The remaining text goes into the first block; the others become empty.
    """
    texts = [_get_block_text(block) for block in blocks]
    joined = "\n".join([text for text in texts if text is not None])
    if not has_possible_tag(joined):
        return blocks
    stripped = strip_long_text(joined)
    if stripped == joined:
        return blocks
    changed = []
    for block, text in zip(blocks, texts, strict=True):
        if text is None:
            changed.append(block)
            continue
        changed.append(stripped if isinstance(block, str) else {**block, "text": stripped})
        stripped = ""
    return changed


def _strip_split_fields(value: Any) -> Any:
    """Return the value without private parts that open in one field and close in another."""
    texts = list(_iter_texts(value))
    if sum(map(has_possible_tag, texts)) < 2:
        return value
    stripped_texts = strip_private_sequence(texts)
    if stripped_texts == texts:
        return value
    return _replace_texts(value, iter(stripped_texts))


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value in the order in which it is written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        for inner in items:
            yield from _iter_texts(inner)


def _replace_texts(value: Any, texts: Iterator[str]) -> Any:
    """Return the value with its strings replaced, in the order of `_iter_texts`."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, dict):
        return {name: _replace_texts(inner, texts) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replace_texts(inner, texts) for inner in value]
    return value


def _get_block_text(block: Any) -> str | None:
    """Return the text of a block in a content array; None if it holds something else, such as an image."""
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else None


def _is_about_denied_path(event: Event, denied_paths: Sequence[str]) -> bool:
    """Return whether a call names a denied path, in its fields or in its command."""
    if not denied_paths:
        return False
    call_paths = [event.path, *(part.path for part in event.parts)]
    return has_denied_path(denied_paths, event.cwd, event.tool, event.command, event.content, call_paths)
