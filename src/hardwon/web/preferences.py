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
_HOME_FILES = (
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


def show_settings(request: PageRequest) -> PageContent:
    config = settings.read_config(request.home)
    rows = [_build_row(config, setting) for setting in settings.SETTINGS]
    values = {
        "title": "Settings",
        "privacy": [row for row in rows if row["name"] in PRIVACY_SETTINGS],
        "settings": [row for row in rows if row["name"] not in PRIVACY_SETTINGS],
        "unknown": settings.find_unknown_keys(config),
        "config": settings.get_config_path(request.home),
        "pauses": pauses.list_active_pauses(request.home, request.now),
        "lengths": PAUSE_LENGTHS,
        "projects": views.list_projects(request.connection, limit=50),
        "home": request.home,
        "files": [
            (name, description, size_bytes)
            for name, description in _HOME_FILES
            if (size_bytes := _measure_size(os.path.join(request.home, name))) is not None
        ],
        "database": retention.measure_file_bytes(request.home),
        "counts": views.count_rows(request.connection, COUNTED_TABLES),
    }
    return PageContent("settings.html", values)


def _build_row(config: dict[str, Any], setting: Setting) -> dict[str, Any]:
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


def _measure_size(path: str) -> int | None:
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


def save_setting(request: PageRequest) -> Redirect:
    """Set one setting, or give its default back."""
    setting = settings.SETTINGS_BY_NAME.get(request.path_params["name"])
    if setting is None or setting.name.startswith(TERMINAL_ONLY_PREFIXES):
        raise UserError(f"{request.path_params['name'][:80]!r} is not set here", "hardwon config")
    new_value = (
        None
        if "default" in request.form
        else _parse_value(setting, request.form.get("value", "").replace("\r\n", "\n"))
    )
    if new_value is not None and (fault := settings.find_fault(setting, new_value)):
        raise UserError(fault, f"such as {json.dumps(setting.default)}")
    settings.write_setting(request.home, setting.name, new_value)
    approvals.compile_manifest(request.home, request.now)
    value, _ = settings.resolve_with_origin(settings.read_config(request.home), setting)
    return Redirect("/settings", f"{setting.name} is {json.dumps(value)[:200]}")


def _parse_value(setting: Setting, text: str) -> Any:
    if isinstance(setting.default, list):
        return [line.strip() for line in text.split("\n") if line.strip()]
    if isinstance(setting.default, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def pause(request: PageRequest) -> Redirect:
    """Keep quiet for some time, everywhere or in one project."""
    length = parse_number(request.form, "length") or 0
    project_paths = {entry["path"] for entry in views.list_projects(request.connection)}
    pause_path = request.form.get("where", "")
    if pause_path not in project_paths:
        pause_path = pauses.EVERYWHERE
    other_pauses = [entry for entry in pauses.list_active_pauses(request.home, request.now) if entry[1] != pause_path]
    pauses.write_pauses(request.home, [*other_pauses, (request.now + length if length else 0.0, pause_path)])
    return Redirect("/settings", f"Paused {'everywhere' if pause_path == pauses.EVERYWHERE else f'in {pause_path}'}.")


def unpause(request: PageRequest) -> Redirect:
    pauses.write_pauses(request.home, [])
    return Redirect("/settings", "Speaking again.")
