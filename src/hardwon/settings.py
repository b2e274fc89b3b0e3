"""The settings: a table, read once at the entry and handed down.

`config.json` is a person's file. Keys we do not know stay in it, and are said by `hardwon lessons check`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hardwon import paths
from hardwon.errors import UserError
from hardwon.privacy.limits import DEFAULT_SKIPPED_TOOLS, MAX_TEXT_CHARS
from hardwon.privacy.redaction import redact_text
from hardwon.types import frozen

PROVIDERS = ("none", "anthropic", "openai", "claude")
_MAX_NUMBER = 1e15  # of any number; NaN is not within it either
_KEY_SETTING, _URL_SETTING = "llm.apiKeyEnv", "llm.baseUrl"


@frozen
class Setting:
    """A name, what it is without being set, the least and the most it may be, and what it is for."""

    name: str
    default: Any
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


SETTINGS = (
    Setting("injectionBudgetBytes", 4096, "bytes of lesson text in one reply, everything around it counted", 0, 9000),
    Setting("maxLessonsPerInjection", 3, "lessons in one reply; 0 turns notes and holds off", 0, 50),
    Setting("minConfidence", 0.5, "lessons below this confidence stay out of the manifest", 0, 1),
    Setting("minPriority", 1, "lessons below this priority stay out of the manifest", 1, 10),
    Setting("compactionReinjectionThreshold", 7, "lessons of this priority or more come again after compaction", 1, 11),
    Setting("showDeliveries", True, "tell the person in one line when a lesson was delivered"),
    Setting("lessonProtocol", True, "tell agents at session start how to report a lesson"),
    Setting("scanPaths", [], "folders with transcripts; empty: those of every agent found"),
    Setting("autoScanIntervalHours", 24, "hours between background scans; 0: at each session, -1: never", -1, 8760),
    Setting("maxCandidatesPerScan", 50, "candidates that one scan may add", 0, 10_000),
    Setting("skipTools", list(DEFAULT_SKIPPED_TOOLS), "tools whose calls are not recorded"),
    Setting("denyProjects", [], "folders in which nothing is recorded"),
    Setting("denyPaths", [], "files and folders no call about which is recorded: a path, *.pem, or /some/start*"),
    Setting(
        "sensitiveWords",
        ["#private", "#confidential"],
        "tags or words in a prompt by which its session is neither summarised nor handed off",
    ),
    Setting("maxEventChars", MAX_TEXT_CHARS, "characters kept of a text; head and tail stay", 500, 1_000_000),
    Setting("retentionDays", 90, "days that recorded events are kept; 0: for ever", 0, 36_500),
    Setting("maxDbMb", 1024, "megabytes the database may have; the oldest events go first", 10, 1_000_000),
    Setting("idleExitMinutes", 240, "minutes without use after which the worker ends; 0: never", 0, 100_000),
    Setting("apiPort", 37777, "port of the worker's API, or the next free one; 0: any, -1: no API", -1, 65_000),
    Setting(
        "minTriggerPrecision",
        0.5,
        "share of a trigger's recorded firings that must have failed before it is proposed or stays in force",
        0,
        1,
    ),
    Setting("scanWindow", 15, "calls after an error within which what put it right is looked for", 1, 200),
    Setting("briefObservations", 10, "observations in the index a session opens with", 0, 500),
    Setting("fileMemory", True, "tell the agent what is known of a file it is about to read or edit, once a session"),
    Setting("promptRecall", False, "tell the agent at most two observations or summaries that fit a prompt very well"),
    Setting("rememberInTurn", True, "queue what a person says is to last, for the next reflection"),
    Setting("autoReflect", True, "draft a handoff of sessions that end or were left"),
    Setting("idleMinutes", 15, "minutes of quiet after which a session counts as left; 0: only at its end", 0, 1440),
    Setting("reflectMinPrompts", 2, "prompts below which a session is too short to reflect on", 1, 100),
    Setting("reflectTurns", 40, "turns of a session, the last ones, that a model is shown to reflect on", 1, 1000),
    Setting("handoffCommit", False, "commit a handoff's files, and only those, when it is ratified; never pushed"),
    Setting("ratifyAfterDays", 0, "days after which a draft nobody looked at is ratified; 0: never", 0, 3650),
    Setting("llm.provider", "none", "who distils: none (plain code), anthropic, openai or claude", choices=PROVIDERS),
    Setting("llm.model", "", "the model to ask; empty: the provider's default"),
    Setting(_URL_SETTING, "", "where the provider answers; empty: its own address"),
    Setting(_KEY_SETTING, "", "the environment variable that holds the key; empty: the provider's usual one"),
    Setting("caps.runsPerDay", 200, "model calls a day, retries included; 0: none", 0, 1_000_000),
    Setting("caps.tokensPerDay", 1_000_000, "tokens a day, in and out", 0, 1_000_000_000),
    Setting("caps.dollarsPerDay", 1.0, "estimated dollars a day", 0, 100_000),
    Setting("caps.reflectionsPerDay", 20, "reflections by a model a day", 0, 10_000),
    Setting("scoring.multiSessionBonus", 2, "priority for a mistake seen in several sessions", -10, 10),
    Setting("scoring.multiProjectBonus", 1, "priority for a mistake seen in several projects", -10, 10),
    Setting("scoring.hangTimeoutBonus", 1, "priority for a call that hung or timed out", -10, 10),
    Setting("scoring.userCorrectionBonus", 1, "priority for what a person corrected", -10, 10),
    Setting("scoring.singleOccurrencePenalty", -1, "priority for what was seen once only", -10, 10),
)
SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}


def get_config_path(home: str) -> str:
    return os.path.join(home, paths.CONFIG)


def read_config(home: str) -> dict[str, Any]:
    """What config.json says; empty if there is none."""
    path = get_config_path(home)
    try:
        with open(path, encoding="utf-8-sig", opener=paths.open_plain_file) as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}", f"mend or move the file: {path}") from None
    try:
        config = json.loads(text) if text.strip() else {}
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be settings", f"edit {path}") from None
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        say = f"{path} line {line}, column {column}: {str(error).split(':')[0].lower()}"
        raise UserError(say, f"edit {path}; until then the settings before the mistake stay in force") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} holds {type(config).__name__}, not an object", 'write {"showDeliveries": true}')
    return config


def find_fault(setting: Setting, value: object) -> str | None:
    """Why a setting cannot have this value, or None."""
    expected_type = type(setting.default)
    is_number = expected_type in (int, float)
    if is_number and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"{setting.name} is {value!r}, but wants a number such as {setting.default}"
    if is_number and not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # type: ignore[operator]
        return f"{setting.name} is {_format_value(value)}, but wants a number such as {setting.default}"
    if expected_type is int and value != int(value):  # type: ignore[call-overload]
        return f"{setting.name} is {value!r}, but wants a whole number such as {setting.default}"
    items = value if isinstance(value, list) else ()
    if not is_number and not (isinstance(value, expected_type) and all(isinstance(item, str) for item in items)):
        return f"{setting.name} is {value!r}, but wants {json.dumps(setting.default)} or the like"
    if setting.choices and value not in setting.choices:
        return f"{setting.name} is {value!r}, but wants one of {', '.join(setting.choices)}"
    if setting.least is not None and setting.most is not None and not setting.least <= value <= setting.most:  # type: ignore[operator]
        return f"{setting.name} is {value!r}, but wants {setting.least:g} to {setting.most:g}"
    return _find_secret_fault(setting.name, value) if value and isinstance(value, str) else None


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text)} characters)"


def _find_secret_fault(name: str, value: str) -> str | None:
    """What is wrong with a text that may hold a key, without saying it again."""
    if name == _KEY_SETTING and not (value.isascii() and value.isidentifier() and redact_text(value) == value):
        return f"{name} is no name of a variable, such as MY_KEY; the key itself is never kept here"
    if name == _URL_SETTING and ("@" in value.replace("/@", "/") or "?" in value or "#" in value):
        return f"{name} holds a password, a query or a fragment; the key belongs in a variable"
    return None


def find_faults(config: Mapping[str, Any]) -> list[str]:
    """What is wrong in config.json: a sentence each."""
    configured = ((setting, get_configured_value(config, setting.name)) for setting in SETTINGS)
    faults = [
        (setting, fault) for setting, value in configured if value is not None and (fault := find_fault(setting, value))
    ]
    return [f"{fault}; until then nothing is spent" if _is_cap(setting) else fault for setting, fault in faults]


def _is_cap(setting: Setting) -> bool:
    return setting.name.startswith("caps.")


def find_unknown_keys(config: Mapping[str, Any]) -> list[str]:
    """Keys that are no setting; they stay in the file."""
    groups = {name.partition(".")[0] for name in SETTINGS_BY_NAME if "." in name}
    unknown_keys = [name for name in config if name not in SETTINGS_BY_NAME and name not in groups]
    for group in groups.intersection(config):
        inner = config[group]
        names = inner if isinstance(inner, dict) else [""]
        unknown_keys += [f"{group}.{name}" for name in names if f"{group}.{name}" not in SETTINGS_BY_NAME]
    return unknown_keys


def get_configured_value(config: Mapping[str, Any], name: str) -> Any:
    """The value given for a setting, `scoring.x` being x within scoring, or spelled out; None if there is none. A group
    that is none is the value of everything in it, and a wrong one."""
    group, _, inner = name.rpartition(".")
    holder = config.get(group) if group else config
    value = holder.get(inner) if isinstance(holder, dict) else None if holder is None else [holder]
    return config.get(name) if value is None else value


def resolve_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting's value; one that is given wrongly keeps its default, and `check` names it. A wrong cap is 0, so
    that a slip costs nothing, and where a key would go is not made up: whoever asks a model refuses it."""
    values = {}
    for setting in SETTINGS:
        value = get_configured_value(config, setting.name)
        is_verbatim = setting.name in (_KEY_SETTING, _URL_SETTING) and isinstance(value, str)
        values[setting.name] = value if is_verbatim else resolve_with_origin(config, setting)[0]
    return values


def resolve_with_origin(config: Mapping[str, Any], setting: Setting) -> tuple[Any, str]:
    """The value of a setting, and where it comes from."""
    value = get_configured_value(config, setting.name)
    if value is None:
        return setting.default, "default"
    if fault := find_fault(setting, value):
        return (0, f"none: {fault}") if _is_cap(setting) else (setting.default, f"default: {fault}")
    return value, paths.CONFIG


def write_setting(home: str, name: str, value: object) -> None:
    """Write a setting into config.json, None taking it out; whatever else is in the file stays."""
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
        document.pop(name, None)  # spelled out
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    paths.write_private(get_config_path(home), text.encode())
