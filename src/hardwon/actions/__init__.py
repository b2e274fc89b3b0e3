"""Every decision that a person can take, with its approval."""

from __future__ import annotations

import os

from hardwon.sessions.spool import get_spool_folder
from hardwon.store.db import Connection


def drain_spool(home: str, connection: Connection) -> None:
    """Record what hooks left in the spool while no worker ran, and handle what a person typed to hardwon meanwhile."""
    folder = get_spool_folder(home)
    if not os.path.isdir(folder) or not os.listdir(folder):
        return
    from hardwon.actions import decisions  # a fifth of a second, needed only if something waits
    from hardwon.sessions import ingest

    ingest.drain_spool(home, connection, lambda prompt, cwd: decisions.handle_spooled_prompt(home, prompt, cwd))
