"""The table of settings, and reading and writing `config.json`.

People edit that file. Unknown keys stay in it, and `hardwon lessons check` reports them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hardwon import paths
from hardwon.errors import UserError
from hardwon.privacy.event_filter import DEFAULT_SKIPPED_TOOLS
from hardwon.privacy.redaction import redact_text
from hardwon.privacy.truncation import MAX_TEXT_CHARS
from hardwon.types import frozen

# `none` is the default: no model is called unless a person asks for it.
PROVIDERS = ("none", "anthropic", "openai", "claude")
_MAX_NUMBER = 1e15  # comparing with it also rejects NaN
_KEY_SETTING, _URL_SETTING = "llm.apiKeyEnv", "llm.baseUrl"


@frozen
class Setting:
    """A setting: its name, default, help text, and bounds or choices."""

    name: str
    default: Any
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


SETTINGS = (
    Setting("injectionBudgetBytes", 4096, "maximum bytes of lesson text in one reply, with its frame", 0, 9000),
    Setting("maxLessonsPerInjection", 3, "maximum lessons in one reply; 0: no notes or holds", 0, 50),
    Setting("minConfidence", 0.5, "lessons below this confidence stay out of the manifest", 0, 1),
    Setting("minPriority", 1, "lessons below this priority stay out of the manifest", 1, 10),
    Setting("compactionReinjectionThreshold", 7, "minimum priority of lessons repeated after compaction", 1, 11),
    Setting("showDeliveries", True, "show a line to the person when a lesson is delivered"),
    Setting("lessonProtocol", True, "tell agents at session start how to report a lesson"),
    Setting("askForLessons", True, "ask an agent for a lesson when it has found what works, at most twice a session"),
    Setting("scanPaths", [], "folders with transcripts; empty: those of every agent found"),
    Setting("autoScanIntervalHours", 24, "hours between background scans; 0: at each session, -1: never", -1, 8760),
    Setting("maxCandidatesPerScan", 50, "maximum candidates that a scan adds", 0, 10_000),
    Setting("skipTools", list(DEFAULT_SKIPPED_TOOLS), "tools whose calls are not recorded"),
    Setting("denyProjects", [], "folders where nothing is recorded"),
    Setting("denyPaths", [], "calls about these files and folders are not recorded: a path, *.pem, or /prefix*"),
    Setting(
        "sensitiveWords",
        ["#private", "#confidential"],
        "a session with one of these words in a prompt gets no summary and no handoff",
    ),
    Setting("maxEventChars", MAX_TEXT_CHARS, "maximum characters stored of a text; the middle is cut", 500, 1_000_000),
    Setting("retentionDays", 90, "days to keep recorded events; 0: forever", 0, 36_500),
    Setting(
        "messageRetentionDays",
        730,
        "days to keep prompts and agents' last messages, if that is longer than retentionDays; 0: forever",
        0,
        36_500,
    ),
    Setting("maxDbMb", 1024, "maximum size of the database in MB; the oldest events are deleted first", 10, 1_000_000),
    Setting("idleExitMinutes", 240, "idle minutes after which the worker exits; 0: never", 0, 100_000),
    Setting("apiPort", 37777, "port of the worker's API, or the next free one; 0: any, -1: no API", -1, 65_000),
    Setting(
        "minTriggerPrecision",
        0.5,
        "minimum share of failed calls among those a trigger matched, to be proposed or stay in force",
        0,
        1,
    ),
    Setting(
        "measureNewLessons",
        False,
        "keep accepted lessons silent in some sessions, to measure whether they help; never blocks or data loss",
    ),
    Setting("scanWindow", 15, "number of calls after an error in which to look for its fix", 1, 200),
    Setting("briefObservations", 10, "maximum observations listed in the brief", 0, 500),
    Setting("fileMemory", True, "show the agent the history of a file it reads or edits, once per session"),
    Setting("promptRecall", False, "show the agent up to two observations or summaries that closely match a prompt"),
    Setting("rememberInTurn", True, "queue a person's lasting instructions for the next reflection"),
    Setting("autoReflect", True, "draft a handoff when a session ends or is idle"),
    Setting("proposeHandoff", True, "propose a handoff, once a session, before compaction or after a commit"),
    Setting("idleMinutes", 15, "minutes without activity until a session is idle; 0: only draft at its end", 0, 1440),
    Setting("reflectMinPrompts", 2, "minimum prompts for a draft, unless files changed or 10 calls were made", 1, 100),
    Setting("reflectTurns", 40, "number of last turns sent to a model for a handoff", 1, 1000),
    Setting("handoffCommit", False, "commit a handoff's files, and only those, when it is ratified; never push"),
    Setting("ratifyAfterDays", 0, "days after which an unreviewed draft is ratified; 0: never", 0, 3650),
    Setting("llm.provider", "none", "model provider: none (plain code), anthropic, openai, claude", choices=PROVIDERS),
    Setting("llm.model", "", "model name; empty: the provider's default"),
    Setting(_URL_SETTING, "", "base URL of the provider; empty: its default"),
    Setting(_KEY_SETTING, "", "environment variable that holds the API key; empty: the provider's usual one"),
    Setting("caps.runsPerDay", 200, "maximum model calls a day, including retries; 0: none", 0, 1_000_000),
    Setting("caps.tokensPerDay", 1_000_000, "maximum tokens a day, in and out", 0, 1_000_000_000),
    Setting("caps.dollarsPerDay", 1.0, "maximum estimated dollars a day", 0, 100_000),
    Setting("caps.reflectionsPerDay", 20, "maximum reflections by a model a day", 0, 10_000),
    Setting("scoring.multiSessionBonus", 2, "priority added for a mistake seen in several sessions", -10, 10),
    Setting("scoring.multiProjectBonus", 1, "priority added for a mistake seen in several projects", -10, 10),
    Setting("scoring.hangTimeoutBonus", 1, "priority added for a call that hung or timed out", -10, 10),
    Setting("scoring.userCorrectionBonus", 1, "priority added for a mistake that a person corrected", -10, 10),
    Setting("scoring.singleOccurrencePenalty", -1, "priority added for a mistake seen only once", -10, 10),
)
SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}


def get_config_path(home: str) -> str:
    return os.path.join(home, paths.CONFIG)


def read_config(home: str) -> dict[str, Any]:
    """Return the contents of config.json, an empty dict if the file is missing; UserError if it is broken."""
    path = get_config_path(home)
    try:
        text = paths.read_text(path, "utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}", f"fix or move the file: {path}") from None
    try:
        config = json.loads(text) if text.strip() else {}
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be settings", f"edit {path}") from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        column = getattr(error, "colno", 1)
        reason = str(error).partition(":")[0].lower()  # the rest repeats the place
        message = f"{path} line {line}, column {column}: {reason}"
        raise UserError(message, f"edit {path}; until then the previous settings stay in force") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} holds {type(config).__name__}, not an object", 'write {"showDeliveries": true}')
    return config


def find_fault(setting: Setting, value: object) -> str | None:
    """Return why this value is invalid for the setting; None if it is valid."""
    if isinstance(setting.default, int | float) and not isinstance(setting.default, bool):
        return _find_number_fault(setting, value)
    if not isinstance(value, type(setting.default)) or not _has_only_texts(value):
        example = f"something like {json.dumps(setting.default)}"
        if isinstance(setting.default, bool):
            example = "true or false"
        return f"{setting.name} is {value!r}, expected {example}"
    if setting.choices and value not in setting.choices:
        return f"{setting.name} is {value!r}, expected one of {', '.join(setting.choices)}"
    if value and isinstance(value, str):
        return _find_secret_fault(setting.name, value)
    return None


def _has_only_texts(value: object) -> bool:
    """Return whether a value is no list, or one of texts."""
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _find_number_fault(setting: Setting, value: object) -> str | None:
    """Return why this value is invalid for a setting that is a number; None if it is valid."""
    # To Python a bool is a number, to a person `true` is none.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{setting.name} is {value!r}, expected a number such as {setting.default}"
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:
        shown_value = repr(value)
        if len(shown_value) > 40:
            shown_value = f"{shown_value[:20]}… ({len(shown_value)} characters)"
        return f"{setting.name} is {shown_value}, expected a number such as {setting.default}"
    if isinstance(setting.default, int) and value != int(value):
        return f"{setting.name} is {value!r}, expected a whole number such as {setting.default}"
    if setting.least is not None and setting.most is not None and not setting.least <= value <= setting.most:
        return f"{setting.name} is {value!r}, expected {setting.least:g} to {setting.most:g}"
    return None


def _find_secret_fault(name: str, value: str) -> str | None:
    """Return what is wrong with a value that may contain a key, without repeating it; None if it has no key."""
    is_variable_name = value.isascii() and value.isidentifier() and redact_text(value) == value
    if name == _KEY_SETTING and not is_variable_name:
        return f"{name} is not a variable name such as MY_KEY; the key itself is never stored here"
    has_user = "@" in value.replace("/@", "/")  # behind a slash it begins a folder's name
    if name == _URL_SETTING and (has_user or "?" in value or "#" in value):
        return f"{name} holds a password, a query or a fragment; the key belongs in a variable"
    return None


def find_faults(config: Mapping[str, Any]) -> list[str]:
    """Return the errors in config.json, one sentence each."""
    faults = []
    for setting in SETTINGS:
        value = get_configured_value(config, setting.name)
        if value is not None and (fault := find_fault(setting, value)):
            consequence = "; until then nothing is spent" if _is_cap(setting) else ""
            faults.append(fault + consequence)
    return faults


def _is_cap(setting: Setting) -> bool:
    return setting.name.startswith("caps.")


def find_unknown_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the keys that are not settings; a group that is no object is reported as `group.`."""
    groups = {name.partition(".")[0] for name in SETTINGS_BY_NAME if "." in name}
    keys = [name for name in config if name not in groups]
    for group in groups.intersection(config):
        names = config[group] if isinstance(config[group], dict) else [""]
        keys += [f"{group}.{name}" for name in names]
    return [key for key in keys if key not in SETTINGS_BY_NAME]


def get_configured_value(config: Mapping[str, Any], name: str) -> Any:
    """Return the configured value of a setting, or None.

    `scoring.x` may be nested, as x in the object `scoring`, or written as one key. If the group is not an object,
    return it in a list, which is not a valid value for any setting in a group.
    """
    group, _, inner = name.rpartition(".")
    holder = config.get(group) if group else config
    if holder is not None and not isinstance(holder, dict):
        return [holder]
    if holder and holder.get(inner) is not None:
        return holder[inner]
    return config.get(name)


def resolve_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every setting.

    An invalid value is replaced by the default, and `lessons check` reports it. An invalid cap becomes 0, so that a
    mistake costs nothing. An invalid `llm.apiKeyEnv` or `llm.baseUrl` is returned as it is, so that the model call
    fails instead of sending a key to the default address.
    """
    values = {}
    for setting in SETTINGS:
        value = get_configured_value(config, setting.name)
        is_returned_as_is = setting.name in (_KEY_SETTING, _URL_SETTING) and isinstance(value, str)
        if not is_returned_as_is:
            value, _ = resolve_with_origin(config, setting)
        values[setting.name] = value
    return values


def load_settings(home: str) -> dict[str, Any]:
    """Return the value of every setting in this home; UserError if config.json is broken."""
    return resolve_settings(read_config(home))


def resolve_with_origin(config: Mapping[str, Any], setting: Setting) -> tuple[Any, str]:
    """Return the value of a setting, and its origin: config.json, or `default`, with the fault if there is one."""
    value = get_configured_value(config, setting.name)
    if value is None:
        return setting.default, "default"
    fault = find_fault(setting, value)
    if fault and _is_cap(setting):
        return 0, f"none: {fault}"  # a mistake in a cap must not cost money
    if fault:
        return setting.default, f"default: {fault}"  # and one elsewhere must not stop the work
    return value, paths.CONFIG


def write_setting(home: str, name: str, value: object) -> None:
    """Set a value in config.json, or remove it if the value is None. Other keys stay unchanged."""
    document = read_config(home)
    group, _, inner = name.rpartition(".")
    holder = document.setdefault(group, {}) if group else document
    if not isinstance(holder, dict):
        raise UserError(f"{group} in config.json is {holder!r}, not an object", f"edit it: {group} holds {inner}")
    if value is None:
        holder.pop(inner, None)
    else:
        holder[inner] = value
    if group:
        document.pop(name, None)  # the same setting written as one key
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    paths.write_private(get_config_path(home), text.encode())
