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
        message, self.message = self.message, ""
        return message


class BrowserSessions:
    """Owns who is in, by the hash of their cookie."""

    def __init__(self) -> None:
        self._sessions: dict[str, BrowserSession] = {}

    def sign_in(self, now: float) -> str:
        """A new visitor's cookie."""
        cookie = secrets.token_urlsafe(32)
        self._sessions[_hash_cookie(cookie)] = BrowserSession(now)
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda digest: self._sessions[digest].last_seen_at)]
        return cookie

    def find(self, cookie: str, now: float) -> BrowserSession | None:
        session = self._sessions.get(_hash_cookie(cookie)) if cookie else None
        if session and now - session.last_seen_at > IDLE_SECONDS:
            del self._sessions[_hash_cookie(cookie)]
            return None
        if session:
            session.last_seen_at = now
        return session

    def sign_out(self, cookie: str) -> None:
        self._sessions.pop(_hash_cookie(cookie), None)


def _hash_cookie(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
