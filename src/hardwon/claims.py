"""Claim files: who may deliver a lesson to a session.

Warm and cold hooks race for the same lesson. Whoever creates the file has it; the file says when and for whom, so
that the same hook, asking again after its worker died, is still the owner and the lesson is not lost.
"""

from __future__ import annotations

import os

from hardwon.paths import make_private_folder, open_plain_file, to_safe_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONG_AGO = 0.0
# Markers of a session, each kind in a folder of its own: a session that starts frees its claims.
PAUSED_PREFIX, PRIVATE_PREFIX = "paused-", "private-"
LATEST_MARKER = "+latest"  # among the private ones: the last prompt was private as a whole
HARDWON_TURN_PREFIX = "ours-"  # holds LATEST while the last prompt was for hardwon and not for the agent


def get_claim_folder(home: str, session: str, kind: str = "") -> str:
    return os.path.join(home, "claims", kind + to_safe_name(session))


def build_claim_name(subagent: str, lesson_id: str) -> str:
    """A sub-agent has a context of its own, so what the main agent was told it was not."""
    return f"{to_safe_name(subagent) if subagent else 'main'}.{to_safe_name(lesson_id)}"


def take(path: str, token: str, now: float) -> float | None:
    """None if the claim is this token's, now or already; else the time at which another took it.

    What stands where the folder should be is moved aside. If even that fails, nothing in the home can be written; then
    it counts as claimed long ago: better silent than the same words, or the same hold, at every call.
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
        os.write(descriptor, f"{now} {token}\n".encode("utf-8", "replace"))
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _move_obstacles(path: str) -> None:
    """Move aside what keeps a claim from being made: a file or a broken link in a folder's place, or a folder that
    cannot be written."""
    session_folder = os.path.dirname(path)
    for folder in (os.path.dirname(session_folder), session_folder):
        if os.path.lexists(folder) and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
            os.rename(folder, f"{folder}.{os.urandom(4).hex()}.old")
        make_private_folder(folder)


def _create_claim(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private_folder(os.path.dirname(path))
        return os.open(path, flags, 0o600)


def _find_claim_time(path: str, token: str) -> float | None:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
            text = file.read()
        if f" {token}\n" in text:
            return None
        # Empty between another's creating and writing: then the file's own time stands in.
        return float(text.split(" ", 1)[0]) if text else os.stat(path).st_mtime
    except (OSError, ValueError):
        return LONG_AGO


def join(path: str, token: str) -> None:
    """Let this token share the claim, so that it gets the same answer if it asks again."""
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(f" {token}\n")
    except OSError:
        pass


def release(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def release_matching(home: str, session: str, should_release: Callable[[str], bool]) -> None:
    """Free those of the session's claims whose names are chosen."""
    folder = get_claim_folder(home, session)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if should_release(name):
            release(os.path.join(folder, name))


def prune_old(home: str, cutoff: float) -> None:
    """Forget sessions whose last claim is older than this, but not that they were paused: transcripts stay longer."""
    claims_folder = os.path.join(home, "claims")
    try:
        sessions = os.listdir(claims_folder)
    except OSError:
        return
    for session in sessions:
        path = os.path.join(claims_folder, session)
        try:
            if os.stat(path).st_mtime < cutoff and not session.startswith((PAUSED_PREFIX, PRIVATE_PREFIX)):
                for file in os.listdir(path):
                    os.unlink(os.path.join(path, file))
                os.rmdir(path)
        except OSError:
            continue


def mark_paused(home: str, session: str, now: float) -> None:
    """Part of this session was paused, so its transcript holds what was not to be recorded."""
    if session:
        take(os.path.join(get_claim_folder(home, session, PAUSED_PREFIX), PAUSED_PREFIX), PAUSED_PREFIX, now)


def has_been_paused(home: str, session: str) -> bool:
    return os.path.exists(os.path.join(get_claim_folder(home, session, PAUSED_PREFIX), PAUSED_PREFIX))


def is_last_prompt_private(home: str, session: str) -> bool:
    """Whether hooks told that the session's last prompt was private as a whole."""
    return os.path.exists(os.path.join(get_claim_folder(home, session, PRIVATE_PREFIX), LATEST_MARKER))
