"""Taking in what hooks left in the spool while no worker was there."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from hardwon.capture import spool
from hardwon.store import db, injections
from hardwon.words import Injection

log = logging.getLogger(__name__)


def drain(home: str, connection: db.Connection, learn: Callable[[str, str], str]) -> int:
    """Commit every spooled file, then delete it; one that cannot be read is set aside, never thrown away."""
    count = 0
    for path, record in spool.waiting(home):
        try:
            found = [Injection(**one) for one in record["injections"]]
            typed = [(one["prompt"], one["cwd"]) for one in record["lessons"]]
        except (KeyError, TypeError):
            log.warning("set aside a spooled file that is not one: %s", os.path.basename(path))
            os.replace(path, path + ".bad")
            continue
        injections.add(connection, found)
        for prompt, cwd in typed:
            learn(prompt, cwd)
        with suppress(FileNotFoundError):  # a command and the worker may take in the same spool
            os.unlink(path)
        count += 1
    return count
