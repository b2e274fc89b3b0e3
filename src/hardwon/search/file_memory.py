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
from hardwon.store.briefs import Seen
from hardwon.text.brief_layout import Recalled, one_line
from hardwon.types import Event

if TYPE_CHECKING:
    from hardwon.search.search import Hit

log = logging.getLogger(__name__)
MOST = 3
TELLING = ("bugfix", "failure", "decision", "security")
TITLE, DETAIL = 160, 200
MOST_FOR_PROMPT, FEWEST_WORDS, LOOKED_AT = 2, 3, 10
LOAD_SECONDS = 0.2
SCORE_BAR = 0.7  # where 1 is a text with every word that was asked about


def of_file(connection: db.Connection, event: Event) -> Sequence[Recalled]:
    """The few most telling observations of the file, from other sessions than this; none if the store is busy."""
    try:
        home = projects.home_of(event.cwd)
        number = briefs.number_of(connection, home) if event.cwd else None
        if number is None:
            return ()
        names = _names(event, home)
        seen = briefs.of_file(connection, number, names, host=event.host, session=event.session)
    except (db.StoreError, ValueError) as wrong:  # a path may hold what no file can be named
        log.warning("nothing is recalled of a file: %s", wrong)
        return ()
    seen.sort(key=lambda one: one.type not in TELLING)  # stable: the newest stays first among its like
    alike = {(one.title, one.subtitle): one for one in reversed(seen)}
    return [_told(one) for one in seen if alike[one.title, one.subtitle] is one][:MOST]


def _names(event: Event, home: str) -> list[str]:
    """What the file may be called in an observation: as the agent said it, where links lead, from the project's top."""
    here, absolute = projects.root(event.cwd), os.path.normpath(os.path.join(event.cwd, event.path))
    known = {absolute: here, os.path.realpath(absolute): os.path.realpath(here)}
    below = {path[len(top) + 1 :] for path, top in known.items() if path.startswith(top + "/")}
    return sorted({*known, *below, *(os.path.join(home, name) for name in below)})


def _told(one: Seen) -> Recalled:
    title, detail = one_line(one.title, TITLE), one_line(one.subtitle, DETAIL)
    day = strftime("%Y-%m-%d", localtime(one.at))
    text = f"O{one.id} {one_line(one.type, 20)}, {day}: {title}" + (f" ({detail})" if detail else "")
    return Recalled(f"O{one.id}", title, text)


def of_prompt(connection: db.Connection, home: str, event: Event) -> Sequence[Recalled]:
    """What was recorded in this project that has nearly all a prompt asks about; none if the store is busy.

    By words alone: a vector is near to something for any prompt, and to load the model would keep the person waiting.
    """
    query = event.prompt.strip()
    if len(query.split()) < FEWEST_WORDS or query.startswith("/") or not event.cwd:
        return ()
    loading().join(LOAD_SECONDS)
    if loading().is_alive():
        return ()
    from hardwon.search.search import search

    project = projects.home_of(event.cwd)
    try:
        found = search(connection, home, query, project=project, kinds=("O", "S"), limit=LOOKED_AT, now=event.at)
    except db.StoreError as wrong:
        log.warning("nothing is recalled for a prompt: %s", wrong)
        return ()
    good = [
        hit for hit in found.hits if hit.score >= SCORE_BAR and hit.session != event.session and not _is_beside(hit)
    ]
    told = ((hit, one_line(hit.title, TITLE)) for hit in good[:MOST_FOR_PROMPT])
    return [
        Recalled(hit.id, title, f"{hit.id} {strftime('%Y-%m-%d', localtime(hit.at))}: {title}") for hit, title in told
    ]


def _is_beside(hit: Hit) -> bool:
    """Whether it owes its place to what stands next to it."""
    return any(why.startswith("neighbour") for why in hit.why)


@lru_cache(maxsize=1)
def loading() -> threading.Thread:
    """Search takes longer to import than a prompt waits, and most workers are never asked: in a thread, when wanted."""
    thread = threading.Thread(target=lambda: list(map(import_module, ("numpy", "hardwon.search.search"))), daemon=True)
    thread.start()
    return thread
