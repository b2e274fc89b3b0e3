"""The browsers that were let in. They are known by a cookie, in memory alone: nothing on disk opens the viewer, and
with the worker's end everybody is out."""

from __future__ import annotations

import hashlib
import secrets

COOKIE_NAME = "hardwon"
MAX_SESSIONS = 20
IDLE_SECONDS = 86_400.0


class BrowserSession:
    """Owns what is remembered of one browser: the secret its forms carry, what to tell it next, what it decided."""

    def __init__(self, now: float) -> None:
        self.form_token = secrets.token_urlsafe(32)
        self.last_seen_at = now
        self.message = ""
        self.decided_ids: list[str] = []

    def pop_message(self) -> str:
        """What was done since the last page, to be said once."""
        said, self.message = self.message, ""
        return said


class BrowserSessions:
    """Owns who is in, by the hash of their cookie."""

    def __init__(self) -> None:
        self._inside: dict[str, BrowserSession] = {}

    def sign_in(self, now: float) -> str:
        """A new visitor's cookie."""
        cookie = secrets.token_urlsafe(32)
        self._inside[_hash(cookie)] = BrowserSession(now)
        while len(self._inside) > MAX_SESSIONS:
            del self._inside[min(self._inside, key=lambda one: self._inside[one].last_seen_at)]
        return cookie

    def find(self, cookie: str, now: float) -> BrowserSession | None:
        found = self._inside.get(_hash(cookie)) if cookie else None
        if found and now - found.last_seen_at > IDLE_SECONDS:
            del self._inside[_hash(cookie)]
            return None
        if found:
            found.last_seen_at = now
        return found

    def sign_out(self, cookie: str) -> None:
        self._inside.pop(_hash(cookie), None)


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
