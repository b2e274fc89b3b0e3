"""Hashes of what a person rejected before it was purged, so that it stays rejected.

For a memory the hashes of its words are stored, since a memory that says nearly the same counts as rejected too; for a
candidate the hash of its signature.
"""

from __future__ import annotations

import json
import os

from hardwon.store.db import Connection, insert_row
from hardwon.text.similarity import TextFingerprint, fingerprint_text, is_same_as_fingerprint

MEMORY, CANDIDATE = "memory", "candidate"


def store_memory_traces(connection: Connection, where: str, values: tuple[object, ...] = ()) -> None:
    """Store a trace of the rejected memories that are about to be deleted; within the caller's transaction."""
    rows = connection.execute(f"select text, project from memories where status = 'rejected' and {where}", values)
    for text, project in rows.fetchall():
        _store_trace(connection, MEMORY, text, project)


def store_candidate_trace(connection: Connection, signature: str) -> None:
    """Store a trace of a rejected candidate that is about to be deleted; within the caller's transaction."""
    _store_trace(connection, CANDIDATE, signature, "")


def _store_trace(connection: Connection, kind: str, text: str, project: str) -> None:
    salt = os.urandom(8).hex()
    trace = fingerprint_text(text, salt)
    words, negated = (trace.word_hashes, trace.negated_hashes) if kind == MEMORY else ((), ())
    row = {
        "kind": kind,
        "salt": salt,
        "project": fingerprint_text(project, salt).normal_hash if project else "",
        "normal": trace.normal_hash,
        "words": json.dumps(sorted(words)),
        "denied": json.dumps(sorted(negated)),
    }
    insert_row(connection, "rejections", row)


def is_rejected_memory(connection: Connection, text: str, project: str) -> bool:
    """Return whether a person rejected nearly this, in the project or everywhere, before it was purged."""
    rows = connection.execute("select salt, project, normal, words, denied from rejections where kind = ?", (MEMORY,))
    for salt, project_hash, normal, words, negated in rows.fetchall():
        if project_hash and fingerprint_text(project, salt).normal_hash != project_hash:
            continue
        trace = TextFingerprint(salt, normal, frozenset(json.loads(words)), frozenset(json.loads(negated)))
        if is_same_as_fingerprint(text, trace):
            return True
    return False


def is_rejected_candidate(connection: Connection, signature: str) -> bool:
    rows = connection.execute("select salt, normal from rejections where kind = ?", (CANDIDATE,))
    return any(fingerprint_text(signature, salt).normal_hash == normal for salt, normal in rows.fetchall())
