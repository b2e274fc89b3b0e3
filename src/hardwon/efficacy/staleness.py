"""Keep anchors to the code that approved texts name, and tell at delivery whether that code has changed or is gone."""

from __future__ import annotations

import os

from hardwon import projects
from hardwon.efficacy.code_spans import EXISTS, GONE, find_anchors, hash_symbol, is_ahead_of, read_revision
from hardwon.store import efficacy
from hardwon.store.db import Connection, transaction
from hardwon.types import Lesson

FRESH, CHANGED_CODE, GONE_CODE = "fresh", "changed", "gone"
LESSON, MEMORY, HANDOFF = "lesson", "memory", "handoff"


def save_anchors(connection: Connection, kind: str, subject: str, text: str, root: str, now: float) -> None:
    """Remember the code that a text names, as it is now that a person approved the text."""
    if not root or not os.path.isdir(root):
        return
    anchors = find_anchors(text, root)
    revision = read_revision(root) if anchors else ""
    with transaction(connection):
        rows = [(anchor.path, anchor.symbol, anchor.hash, revision) for anchor in anchors]
        efficacy.replace_anchors(connection, kind, subject, rows, now)


def save_lesson_anchors(connection: Connection, lesson: Lesson, now: float) -> None:
    """Remember the code that a lesson of one project names; a lesson for every project names none in particular."""
    text = "\n".join((lesson.summary, lesson.problem, lesson.solution, lesson.injection))
    root = projects.find_git_root(os.path.expanduser(lesson.project)) if lesson.project else ""
    save_anchors(connection, LESSON, lesson.id, text, root, now)


class StalenessChecker:
    """Compares anchors with the files; a file is read again only after its time or size has changed."""

    def __init__(self, connection: Connection, kind: str) -> None:
        self._anchors = efficacy.list_anchors(connection, kind)
        self._hashes: dict[tuple[str, str], tuple[tuple[int, int], str]] = {}

    def check(self, subject: str, text: str = "") -> str:
        """Return whether the code that a subject names is fresh, changed or gone.

        With a text, only the code that this text names counts: one line of a handoff.
        """
        state = FRESH
        for path, symbol, approved_hash in self._anchors.get(subject, ()):
            if text and os.path.basename(path) not in text:
                continue
            current_hash = self._hash(path, symbol)
            if current_hash == GONE:
                return GONE_CODE
            if current_hash != approved_hash:
                state = CHANGED_CODE
        return state

    def _hash(self, path: str, symbol: str) -> str:
        try:
            stat = os.stat(path)
        except OSError:
            return GONE
        if not symbol:
            return EXISTS
        stamp = (stat.st_mtime_ns, stat.st_size)
        cached = self._hashes.get((path, symbol))
        if cached is None or cached[0] != stamp:
            cached = self._hashes[path, symbol] = (stamp, hash_symbol(path, symbol))
        return cached[1]


def find_gone_subjects(connection: Connection, kind: str) -> dict[str, str]:
    """Return the subjects whose code is gone for good, each with the name of that code.

    A file that is missing on another branch comes back, so its commit must be behind the present one.
    """
    gone: dict[str, str] = {}
    for subject, path, symbol, revision in efficacy.list_anchor_rows(connection, kind):
        if hash_symbol(path, symbol) == GONE and is_ahead_of(_find_existing_folder(path), revision):
            gone[subject] = f"{symbol} in {os.path.basename(path)}" if symbol else os.path.basename(path)
    return gone


def _find_existing_folder(path: str) -> str:
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
