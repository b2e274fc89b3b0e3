"""Claim what a session is told, so that it is told once, and remember what a person allowed in it."""

from __future__ import annotations

import os

from hardwon import claims, paths
from hardwon.lessons.arms import draw_fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.types import Event, ManifestEntry

PARALLEL_CALL_SECONDS = 0.3  # calls of one message come within this time; a model that has read the reason comes later
PROTOCOL_CLAIM, OPENED_CLAIM, FIRST_SESSION_CLAIM = "protocol", "opened", "first"
SILENT_CLAIM = "silent-"  # before a lesson's id


class SessionClaims:
    """The claim files of an event's session: what it was told already, and what a person allowed in it."""

    def __init__(self, home: str, event: Event) -> None:
        self._home, self._event = home, event
        self._folder = claims.get_claim_folder(home, event.session)

    def take(self, name: str) -> bool:
        """Claim something once per session; the same event may claim again, in case its worker died meanwhile."""
        return claims.take(self._get_path(name), self._event.id, self._event.at) is None

    def is_taken(self, name: str) -> bool:
        return os.path.exists(self._get_path(name))

    def take_lesson(self, entry: ManifestEntry) -> bool:
        """Claim a lesson for this event.

        A held call is held again whenever a hook asks about it, and so are calls made in parallel with it: the model
        cannot have read the reason yet.
        """
        if entry.delivery != "hold":
            return self.take(entry.id)
        path, token = self._get_path(entry.id), self._event.tool_use_id or self._event.id
        claimed_at = claims.take(path, token, self._event.at)
        if claimed_at is None:
            return True
        # The call with the earlier timestamp may arrive second.
        if abs(self._event.at - claimed_at) >= PARALLEL_CALL_SECONDS:
            return False
        claims.join(path, token)
        return True

    def is_silent(self, entry: ManifestEntry, secret: str) -> bool:
        """Return whether a measured lesson is not told in this session.

        Once silent, it stays so until the session ends, even if the share of silent sessions falls meanwhile.
        """
        if draw_fraction(secret, self._event.session, entry.id) < entry.silent_share:
            return True
        return os.path.exists(self._get_path(SILENT_CLAIM + entry.id))

    def take_silence(self, entry: ManifestEntry) -> bool:
        """Claim the firing of a lesson that is not told; one firing per session counts."""
        return self.take(SILENT_CLAIM + entry.id)

    def take_first_session(self) -> bool:
        """Claim the first session of this home; return False for all later ones."""
        from hardwon.lessons.compiled_brief import BRIEFS_FOLDER

        path = os.path.join(self._home, BRIEFS_FOLDER, FIRST_SESSION_CLAIM)
        return claims.take(path, self._event.id, self._event.at) is None

    def release(self, name: str) -> None:
        claims.release(self._get_path(name))

    def allow(self, entry: ManifestEntry) -> bool:
        """Lift a block for this session; False if the claim cannot be written."""
        claims.take(self._get_allow_path(entry), self._event.id, self._event.at)
        return self.is_allowed(entry)

    def is_allowed(self, entry: ManifestEntry) -> bool:
        return os.path.exists(self._get_allow_path(entry))

    def _get_path(self, name: str) -> str:
        return os.path.join(self._folder, claims.build_claim_name(self._event.agent, name))

    def _get_allow_path(self, entry: ManifestEntry) -> str:
        return os.path.join(self._folder, f"+allowed.{paths.to_safe_name(entry.id)}")
