"""The settings: a table, read once at the entry and handed down.

`config.json` is a person's file. Keys we do not know stay in it, and are said by `hardwon lessons check`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from hardwon import paths
from hardwon.core.limits import LONGEST_TEXT, SKIP_TOOLS
from hardwon.errors import UserError
from hardwon.words import word


@word
class Setting:
    """A name, what it is without being set, the least and the most it may be, and what it is for."""

    name: str
    default: Any
    help: str
    least: float | None = None
    most: float | None = None


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
    Setting("skipTools", list(SKIP_TOOLS), "tools whose calls are not recorded"),
    Setting("denyProjects", [], "folders in which nothing is recorded"),
    Setting("denyPaths", [], "files and folders no call about which is recorded: a path, *.pem, or /some/start*"),
    Setting("maxEventChars", LONGEST_TEXT, "characters kept of a text; head and tail stay", 500, 1_000_000),
    Setting("retentionDays", 90, "days that recorded events are kept; 0: for ever", 0, 36_500),
    Setting("maxDbMb", 1024, "megabytes the database may have; the oldest events go first", 10, 1_000_000),
    Setting("idleExitMinutes", 240, "minutes without a hook after which the worker ends; 0: never", 0, 100_000),
    Setting("apiPort", 37777, "port of the worker's API, or the next free one; 0: any, -1: no API", -1, 65_000),
    Setting("scanWindow", 15, "calls after an error within which what put it right is looked for", 1, 200),
    Setting("scoring.multiSessionBonus", 2, "priority for a mistake seen in several sessions", -10, 10),
    Setting("scoring.multiProjectBonus", 1, "priority for a mistake seen in several projects", -10, 10),
    Setting("scoring.hangTimeoutBonus", 1, "priority for a call that hung or timed out", -10, 10),
    Setting("scoring.userCorrectionBonus", 1, "priority for what a person corrected", -10, 10),
    Setting("scoring.singleOccurrencePenalty", -1, "priority for what was seen once only", -10, 10),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def config_path(home: str) -> str:
    return os.path.join(home, paths.CONFIG)


def read_config(home: str) -> dict[str, Any]:
    """What config.json says; empty if there is none."""
    path = config_path(home)
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as wrong:
        raise UserError(f"{path} cannot be read: {wrong}", f"mend or move the file: {path}") from None
    try:
        found = json.loads(text) if text.strip() else {}
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be settings", f"edit {path}") from None
    except ValueError as wrong:
        line, column = getattr(wrong, "lineno", 1), getattr(wrong, "colno", 1)
        say = f"{path} line {line}, column {column}: {str(wrong).split(':')[0].lower()}"
        raise UserError(say, f"edit {path}; until then the settings before the mistake stay in force") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds {type(found).__name__}, not an object", 'write {"showDeliveries": true}')
    return found


def fault(setting: Setting, value: object) -> str | None:
    """Why a setting cannot have this value, or None."""
    wanted = type(setting.default)
    number = wanted in (int, float)
    if number and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"{setting.name} is {value!r}, but wants a number such as {setting.default}"
    if number and not math.isfinite(value):  # type: ignore[arg-type]
        return f"{setting.name} is {value!r}, but wants a number such as {setting.default}"
    if wanted is int and value != int(value):  # type: ignore[call-overload]
        return f"{setting.name} is {value!r}, but wants a whole number such as {setting.default}"
    listed = value if isinstance(value, list) else ()
    if not number and not (isinstance(value, wanted) and all(isinstance(one, str) for one in listed)):
        return f"{setting.name} is {value!r}, but wants {json.dumps(setting.default)} or the like"
    if setting.least is not None and setting.most is not None and not setting.least <= value <= setting.most:  # type: ignore[operator]
        return f"{setting.name} is {value!r}, but wants {setting.least:g} to {setting.most:g}"
    return None


def faults(config: Mapping[str, Any]) -> list[str]:
    """What is wrong in config.json: a sentence each."""
    given = ((setting, lookup(config, setting.name)) for setting in SETTINGS)
    return [wrong for setting, value in given if value is not None and (wrong := fault(setting, value))]


def unknown(config: Mapping[str, Any]) -> list[str]:
    """Keys that are no setting; they stay in the file."""
    groups = {name.partition(".")[0] for name in BY_NAME if "." in name}
    found = [name for name in config if name not in BY_NAME and name not in groups]
    for group in groups.intersection(config):
        inner = config[group]
        names = inner if isinstance(inner, dict) else [""]
        found += [f"{group}.{name}" for name in names if f"{group}.{name}" not in BY_NAME]
    return found


def lookup(config: Mapping[str, Any], name: str) -> Any:
    """The value given for a setting, `scoring.x` being x within scoring; None if there is none."""
    group, _, inner = name.rpartition(".")
    holder = config.get(group) if group else config
    return holder.get(inner) if isinstance(holder, dict) else None


def resolve(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting's value; one that is given wrongly keeps its default, and `check` names it."""
    values = {}
    for setting in SETTINGS:
        value = lookup(config, setting.name)
        values[setting.name] = setting.default if value is None or fault(setting, value) else value
    return values
