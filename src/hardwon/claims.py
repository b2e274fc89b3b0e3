"""Claim files, which ensure that a lesson is delivered to a session only once.

The worker and the hook's fallback may race for the same lesson. The process that creates the file owns the claim. The
file holds the time and the owner's token, so a hook that asks again after its worker died still owns the claim, and the
lesson is not lost.
"""

from __future__ import annotations

import os

from hardwon.paths import make_private_folder, read_text, to_safe_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Any hold that was claimed then has long been lifted.
LONG_AGO = 0.0
# Markers of a session. Each kind has its own folder, because starting a session releases its claims.
PAUSED_PREFIX, PRIVATE_PREFIX = "paused-", "private-"
LATEST_MARKER = "+latest"  # in the private folder: the last prompt was wholly private
HARDWON_TURN_PREFIX = "ours-"  # its folder has LATEST_MARKER if the last prompt was meant for hardwon, not the agent


def get_claim_folder(home: str, session: str, kind: str = "") -> str:
    """Return the folder of a session's claims; with a kind, such as PAUSED_PREFIX, that of its markers."""
    return os.path.join(home, "claims", kind + to_safe_name(session))


def build_claim_name(subagent_id: str, lesson_id: str) -> str:
    """Return the file name of a claim. Sub-agents have their own context, so they have their own claims."""
    owner = to_safe_name(subagent_id) if subagent_id else "main"
    return f"{owner}.{to_safe_name(lesson_id)}"


def take(path: str, token: str, now: float) -> float | None:
    """Take a claim. Return None if this token owns it, now or already, else the time at which another took it.

    Anything in the folder's place is moved aside. If that fails too, the home is not writable, and the result is
    LONG_AGO: silence is better than the same note, or the same hold, at every call.
    """
    try:
        descriptor = _create_claim(path)
    except FileExistsError:
        return _find_claim_time(path, token)
    except OSError:
        try:
            _move_obstacles(path)
            descriptor = _create_claim(path)
        except FileExistsError:
            return _find_claim_time(path, token)
        except OSError:
            return LONG_AGO
    try:
        # The file itself is the claim; without its content only the owner is unknown.
        os.write(descriptor, f"{now} {token}\n".encode("utf-8", "replace"))
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _move_obstacles(path: str) -> None:
    """Rename anything that prevents creating the claim: a file or broken link in a folder's place, or a folder that is
    not writable."""
    session_folder = os.path.dirname(path)
    for folder in (os.path.dirname(session_folder), session_folder):
        is_usable = os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
        if os.path.lexists(folder) and not is_usable:
            os.rename(folder, f"{folder}.{os.urandom(4).hex()}.old")
        make_private_folder(folder)


def _create_claim(path: str) -> int:
    """Create the file and return its descriptor; FileExistsError if it is claimed already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # O_EXCL: of several processes only one succeeds
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private_folder(os.path.dirname(path))
        return os.open(path, flags, 0o600)


def _find_claim_time(path: str, token: str) -> float | None:
    """Return when another took this claim; None if this token owns it, LONG_AGO if the file cannot say."""
    try:
        text = read_text(path, errors="replace")
        if f" {token}\n" in text:
            return None
        if not text:
            # Another process has created the file but not written it yet: use the file's own time.
            return os.stat(path).st_mtime
        claim_time, _, _ = text.partition(" ")
        return float(claim_time)
    except (OSError, ValueError):
        return LONG_AGO


def join(path: str, token: str) -> None:
    """Add a token as an owner of the claim, so that it gets the same answer if it asks again."""
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(f" {token}\n")
    except OSError:
        pass


def release(path: str) -> None:
    """Delete a claim, so that the lesson can be delivered again."""
    try:
        os.unlink(path)
    except OSError:
        pass


def release_matching(home: str, session: str, should_release: Callable[[str], bool]) -> None:
    """Release the session's claims whose names `should_release` accepts."""
    folder = get_claim_folder(home, session)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if should_release(name):
            release(os.path.join(folder, name))


def prune_old(home: str, cutoff: float) -> None:
    """Delete claims of sessions without a claim since `cutoff`. Pause and privacy markers stay."""
    claims_folder = os.path.join(home, "claims")
    try:
        sessions = os.listdir(claims_folder)
    except OSError:
        return
    for session in sessions:
        path = os.path.join(claims_folder, session)
        try:
            # A new claim is a new entry in the folder, so the folder's time is that of the latest claim.
            if os.stat(path).st_mtime < cutoff and not session.startswith((PAUSED_PREFIX, PRIVATE_PREFIX)):
                for file in os.listdir(path):
                    os.unlink(os.path.join(path, file))
                os.rmdir(path)
        except OSError:
            continue  # a session that goes on may claim meanwhile; its folder is for the next round


def mark_paused(home: str, session: str, now: float) -> None:
    """Record that part of this session was paused: its transcript contains things that must not be recorded."""
    if session:
        take(_get_pause_marker(home, session), PAUSED_PREFIX, now)


def has_been_paused(home: str, session: str) -> bool:
    return os.path.exists(_get_pause_marker(home, session))


def _get_pause_marker(home: str, session: str) -> str:
    return os.path.join(get_claim_folder(home, session, PAUSED_PREFIX), PAUSED_PREFIX)


def is_last_prompt_private(home: str, session: str) -> bool:
    """Return whether hooks reported the session's last prompt as wholly private."""
    return os.path.exists(os.path.join(get_claim_folder(home, session, PRIVATE_PREFIX), LATEST_MARKER))
