"""What is known of a file that an agent is about to read or edit, and what fits a prompt very well."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from time import localtime, strftime
from typing import TYPE_CHECKING

from hardwon import projects
from hardwon.store import briefs, db
from hardwon.store.briefs import BriefObservation
from hardwon.text.brief_layout import RecalledItem, sanitize_line
from hardwon.types import Event

if TYPE_CHECKING:
    from hardwon.search.search import Hit

log = logging.getLogger(__name__)
MAX_FOR_FILE = 3
IMPORTANT_TYPES = ("bugfix", "failure", "decision", "security")
MAX_TITLE, MAX_DETAIL = 160, 200
MAX_FOR_PROMPT, MIN_WORDS, SEARCH_LIMIT = 2, 3, 10
LOAD_SECONDS = 0.2
MIN_SCORE = 0.7  # where 1 is a text with every word that was asked about


def recall_for_file(connection: db.Connection, event: Event) -> Sequence[RecalledItem]:
    """The few most telling observations of the file, from other sessions than this; none if the store is busy."""
    try:
        home = projects.find_project_path(event.cwd)
        number = briefs.find_project_number(connection, home) if event.cwd else None
        if number is None:
            return ()
        names = _names(event, home)
        seen = briefs.list_file_observations(connection, number, names, agent=event.host, session=event.session)
    except (db.StoreError, ValueError) as wrong:  # a path may hold what no file can be named
        log.warning("nothing is recalled of a file: %s", wrong)
        return ()
    seen.sort(key=lambda one: one.type not in IMPORTANT_TYPES)  # stable: the newest stays first among its like
    alike = {(one.title, one.subtitle): one for one in reversed(seen)}
    return [_told(one) for one in seen if alike[one.title, one.subtitle] is one][:MAX_FOR_FILE]


def _names(event: Event, home: str) -> list[str]:
    """What the file may be called in an observation: as the agent said it, where links lead, from the project's top."""
    here, absolute = projects.find_git_root(event.cwd), os.path.normpath(os.path.join(event.cwd, event.path))
    known = {absolute: here, os.path.realpath(absolute): os.path.realpath(here)}
    below = {path[len(top) + 1 :] for path, top in known.items() if path.startswith(top + "/")}
    return sorted({*known, *below, *(os.path.join(home, name) for name in below)})


def _told(one: BriefObservation) -> RecalledItem:
    title, detail = sanitize_line(one.title, MAX_TITLE), sanitize_line(one.subtitle, MAX_DETAIL)
    day = strftime("%Y-%m-%d", localtime(one.at))
    text = f"O{one.id} {sanitize_line(one.type, 20)}, {day}: {title}" + (f" ({detail})" if detail else "")
    return RecalledItem(f"O{one.id}", title, text)


def recall_for_prompt(connection: db.Connection, home: str, event: Event) -> Sequence[RecalledItem]:
    """What was recorded in this project that has nearly all a prompt asks about; none if the store is busy.

    By words alone: a vector is near to something for any prompt, and to load the model would keep the person waiting.
    """
    query = event.prompt.strip()
    if len(query.split()) < MIN_WORDS or query.startswith("/") or not event.cwd:
        return ()
    preload_search().join(LOAD_SECONDS)
    if preload_search().is_alive():
        return ()
    from hardwon.search.search import search_records

    project = projects.find_project_path(event.cwd)
    try:
        found = search_records(
            connection, home, query, project=project, kinds=("O", "S"), limit=SEARCH_LIMIT, now=event.at
        )
    except db.StoreError as wrong:
        log.warning("nothing is recalled for a prompt: %s", wrong)
        return ()
    good = [
        hit for hit in found.hits if hit.score >= MIN_SCORE and hit.session != event.session and not _is_beside(hit)
    ]
    told = ((hit, sanitize_line(hit.title, MAX_TITLE)) for hit in good[:MAX_FOR_PROMPT])
    return [
        RecalledItem(hit.id, title, f"{hit.id} {strftime('%Y-%m-%d', localtime(hit.at))}: {title}")
        for hit, title in told
    ]


def _is_beside(hit: Hit) -> bool:
    """Whether it owes its place to what stands next to it."""
    return any(why.startswith("neighbour") for why in hit.why)


@lru_cache(maxsize=1)
def preload_search() -> threading.Thread:
    """Search takes longer to import than a prompt waits, and most workers are never asked: in a thread, when wanted."""
    thread = threading.Thread(target=lambda: list(map(import_module, ("numpy", "hardwon.search.search"))), daemon=True)
    thread.start()
    return thread
