"""Recall observations about a file that an agent is about to read or edit, and records that match a prompt closely."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from time import localtime, strftime

from hardwon import projects
from hardwon.store import db
from hardwon.store.documents import OBSERVATION, SUMMARY
from hardwon.store.observations import BriefObservation, find_project_number, list_file_observations
from hardwon.text.brief_layout import RecalledItem, sanitize_line
from hardwon.types import Event

log = logging.getLogger(__name__)
_MAX_FOR_FILE = 3
_IMPORTANT_TYPES = ("bugfix", "failure", "decision", "security")
MAX_TITLE, _MAX_DETAIL = 160, 200
_MAX_FOR_PROMPT, _MIN_WORDS, _SEARCH_LIMIT = 2, 3, 10
_LOAD_SECONDS = 0.2
_MIN_COVERAGE = 0.5  # 1 is a text with every word of the prompt


def recall_for_file(connection: db.Connection, event: Event) -> Sequence[RecalledItem]:
    """Return the few most important observations of the file from other sessions; none if the store is busy."""
    try:
        project = projects.find_project_path(event.cwd)
        number = find_project_number(connection, project) if event.cwd else None
        if number is None:
            return ()
        names = _list_file_names(event, project)
        observations = list_file_observations(connection, number, names, agent=event.host, session=event.session)
    except (db.StoreError, ValueError) as error:  # ValueError: a path that no file can have
        log.warning("nothing is recalled of a file: %s", error)
        return ()
    # The sort is stable, so among equals the newest stays first.
    observations.sort(key=lambda observation: observation.type not in _IMPORTANT_TYPES)
    unlike: dict[tuple[str, str], BriefObservation] = {}
    for observation in observations:
        unlike.setdefault((observation.title, observation.subtitle), observation)
    return [_format_observation(observation) for observation in unlike.values()][:_MAX_FOR_FILE]


def _list_file_names(event: Event, project: str) -> list[str]:
    """Return a file's possible names in observations: as the agent wrote it, resolved, relative to the project."""
    git_root = projects.find_git_root(event.cwd)
    absolute = os.path.normpath(os.path.join(event.cwd, event.path))
    names = set()
    for path, root in ((absolute, git_root), (os.path.realpath(absolute), os.path.realpath(git_root))):
        names.add(path)
        if path.startswith(f"{root}/"):
            relative_path = path[len(root) + 1 :]
            # The project of a worktree is its main folder, under which the file is recorded too.
            names.update((relative_path, os.path.join(project, relative_path)))
    return sorted(names)


def _format_observation(observation: BriefObservation) -> RecalledItem:
    """Return an observation as the agent reads it: id, type, day, title and, if there is one, the subtitle."""
    title = sanitize_line(observation.title, MAX_TITLE)
    detail = sanitize_line(observation.subtitle, _MAX_DETAIL)
    day = strftime("%Y-%m-%d", localtime(observation.at))
    text = f"O{observation.id} {sanitize_line(observation.type, 20)}, {day}: {title}"
    if detail:
        text += f" ({detail})"
    return RecalledItem(f"O{observation.id}", title, text)


def recall_for_prompt(connection: db.Connection, home: str, event: Event) -> Sequence[RecalledItem]:
    """Return records of this project that have nearly all words of a prompt; none if the store is busy.

    Vectors are not used: for any prompt some vector is near, and loading the model would keep the person waiting.
    """
    query = event.prompt.strip()
    if len(query.split()) < _MIN_WORDS or query.startswith("/") or not event.cwd:
        return ()
    preload_search().join(_LOAD_SECONDS)
    if preload_search().is_alive():
        return ()
    from hardwon.search.search import search_records

    project = projects.find_project_path(event.cwd)
    try:
        result = search_records(
            connection, home, query, project=project, kinds=(OBSERVATION, SUMMARY), limit=_SEARCH_LIMIT, now=event.at
        )
    except db.StoreError as error:
        log.warning("nothing is recalled for a prompt: %s", error)
        return ()
    good_hits = [hit for hit in result.hits if hit.coverage >= _MIN_COVERAGE and hit.session != event.session]
    items: list[RecalledItem] = []
    for hit in good_hits[:_MAX_FOR_PROMPT]:
        title = sanitize_line(hit.title, MAX_TITLE)
        day = strftime("%Y-%m-%d", localtime(hit.at))
        items.append(RecalledItem(hit.id, title, f"{hit.id} {day}: {title}"))
    return items


@lru_cache(maxsize=1)
def preload_search() -> threading.Thread:
    """Import search in a thread on first use, because the import takes longer than a prompt can wait."""
    thread = threading.Thread(target=lambda: list(map(import_module, ("numpy", "hardwon.search.search"))), daemon=True)
    thread.start()
    return thread
