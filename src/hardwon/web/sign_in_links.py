"""The link that opens the viewer: a code that works once, for some minutes.

Who may write into the home could as well write lessons.json, so that is who can make a code: it is a file there, named
by the code's hash. No request makes one, so whoever holds the API's token cannot; and a file goes only once.
"""

from __future__ import annotations

import hashlib
import os
import secrets

from hardwon import paths

LINKS_FOLDER = "links"
VIEWER_HOST = "hardwon.localhost"
LIFETIME_SECONDS = 300.0


def create_link(home: str, port: int, now: float) -> str:
    """A fresh link to the viewer at this port; those that were never used are forgotten."""
    folder = paths.make_private_folder(os.path.join(home, LINKS_FOLDER))
    for name in os.listdir(folder):
        if not _is_fresh(os.path.join(folder, name), now):
            _delete_file(os.path.join(folder, name))
    code = secrets.token_urlsafe(32)
    paths.write_private(_get_code_path(home, code), b"")
    return f"http://{VIEWER_HOST}:{port}/open?code={code}"


def redeem_code(home: str, code: str, now: float) -> bool:
    """Whether the code is good. It is not good a second time."""
    path = _get_code_path(home, code)
    is_fresh = _is_fresh(path, now)
    return _delete_file(path) and is_fresh


def _get_code_path(home: str, code: str) -> str:
    return os.path.join(home, LINKS_FOLDER, hashlib.sha256(code.encode("utf-8", "replace")).hexdigest())


def _is_fresh(path: str, now: float) -> bool:
    try:
        return -1 <= now - os.stat(path).st_mtime < LIFETIME_SECONDS
    except OSError:
        return False


def _delete_file(path: str) -> bool:
    """Of all who try at once, one succeeds."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
