"""Settings: each with its default, where its value comes from and what it is for; pauses; what is stored, and where.

What is sent to a model, to whom, and what that may cost is set at a terminal: a page can be clicked by mistake, and
this browser may be left open.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hardwon import paths, pauses, settings
from hardwon.actions import approvals
from hardwon.errors import UserError
from hardwon.handoff import memory_files
from hardwon.settings import Setting
from hardwon.store import retention, views
from hardwon.web.page_request import PageContent, PageRequest, Redirect, parse_number

TERMINAL_ONLY_PREFIXES = ("llm.", "caps.")
PRIVACY_SETTINGS = ("denyProjects", "denyPaths", "skipTools")
PAUSE_LENGTHS = (("3600", "for an hour"), ("28800", "for 8 hours"), ("0", "until lifted"))
COUNTED_TABLES = (
    "sessions",
    "prompts",
    "events",
    "observations",
    "summaries",
    "candidates",
    "memories",
    "reflections",
    "injections",
    "runs",
    "jobs",
)
MAX_COUNTED_FILES = 20_000  # that are counted in one folder
_FILES = (
    (paths.LESSONS, "the lessons, yours to edit"),
    (paths.CONFIG, "the settings, yours to edit"),
    (memory_files.HOME_FOLDER, "memories of yours and of folders without a repository, yours to edit"),
    ("drafts", "handoffs of folders without a repository"),
    (paths.DATABASE, "sessions, prompts, events, observations, candidates, deliveries"),
    (paths.LESSON_INDEX, "the lessons in force, compiled"),
    ("claims", "what each session was told already"),
    ("spool", "what waits to be taken in"),
    ("backups", "copies that you made"),
    ("logs", "the worker's log"),
    ("token", "opens the API to programs of yours"),
)


def show_settings(ask: PageRequest) -> PageContent:
    config = settings.read_config(ask.home)
    rows = [_row(config, setting) for setting in settings.SETTINGS]
    values = {
        "title": "Settings",
        "privacy": [row for row in rows if row["name"] in PRIVACY_SETTINGS],
        "settings": [row for row in rows if row["name"] not in PRIVACY_SETTINGS],
        "unknown": settings.find_unknown_keys(config),
        "config": settings.get_config_path(ask.home),
        "pauses": pauses.list_active_pauses(ask.home, ask.now),
        "lengths": PAUSE_LENGTHS,
        "projects": views.list_projects(ask.connection, limit=50),
        "home": ask.home,
        "files": [
            (name, says, held) for name, says in _FILES if (held := _size(os.path.join(ask.home, name))) is not None
        ],
        "database": retention.measure_file_bytes(ask.home),
        "counts": views.count_rows(ask.connection, COUNTED_TABLES),
    }
    return PageContent("settings.html", values)


def _row(config: dict[str, Any], setting: Setting) -> dict[str, Any]:
    value, origin = settings.resolve_with_origin(config, setting)
    kind = "flag" if isinstance(setting.default, bool) else "lines" if isinstance(setting.default, list) else "line"
    return {
        **setting.__dict__,
        "kind": "choice" if setting.choices else kind,
        "value": value,
        "text": "\n".join(value) if kind == "lines" else value if isinstance(value, str) else json.dumps(value),
        "plain": json.dumps(setting.default),
        "origin": origin,
        "is_set": settings.get_configured_value(config, setting.name) is not None,
        "fixed": setting.name.startswith(TERMINAL_ONLY_PREFIXES),
    }


def _size(path: str) -> int | None:
    """The bytes of a file, or of the files in a folder and below; None if there is nothing."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else None
    total = count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            count += 1
            if count > MAX_COUNTED_FILES:
                return total
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total


def save_setting(ask: PageRequest) -> Redirect:
    """Set one setting, or give its default back."""
    setting = settings.SETTINGS_BY_NAME.get(ask.path_params["name"])
    if setting is None or setting.name.startswith(TERMINAL_ONLY_PREFIXES):
        raise UserError(f"{ask.path_params['name'][:80]!r} is not set here", "hardwon config")
    wanted = None if "default" in ask.form else _value(setting, ask.form.get("value", "").replace("\r\n", "\n"))
    if wanted is not None and (wrong := settings.find_fault(setting, wanted)):
        raise UserError(wrong, f"such as {json.dumps(setting.default)}")
    settings.write_setting(ask.home, setting.name, wanted)
    approvals.compile_manifest(ask.home, ask.now)
    value, _ = settings.resolve_with_origin(settings.read_config(ask.home), setting)
    return Redirect("/settings", f"{setting.name} is {json.dumps(value)[:200]}")


def _value(setting: Setting, given: str) -> Any:
    if isinstance(setting.default, list):
        return [line.strip() for line in given.split("\n") if line.strip()]
    if isinstance(setting.default, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


def pause(ask: PageRequest) -> Redirect:
    """Keep quiet for some time, everywhere or in one project."""
    length = parse_number(ask.form, "length") or 0
    known = {one["path"] for one in views.list_projects(ask.connection)}
    where = ask.form.get("where", "")
    if where not in known:
        where = pauses.EVERYWHERE
    others = [one for one in pauses.list_active_pauses(ask.home, ask.now) if one[1] != where]
    pauses.write_pauses(ask.home, [*others, (ask.now + length if length else 0.0, where)])
    return Redirect("/settings", f"Paused {'everywhere' if where == pauses.EVERYWHERE else f'in {where}'}.")


def unpause(ask: PageRequest) -> Redirect:
    pauses.write_pauses(ask.home, [])
    return Redirect("/settings", "Speaking again.")
