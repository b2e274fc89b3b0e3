"""One line for people about what is not indexed yet."""

from __future__ import annotations

from hardwon.store import documents
from hardwon.store.db import Connection


def describe_backlog(connection: Connection, *, with_vectors: bool = True) -> str:
    """Return one line about what is not indexed yet; empty if everything is."""
    without_words, without_vector = documents.count_backlog(connection)
    if without_words:
        return f"{without_words:,} {_pluralize_record(without_words)} not indexed yet"
    if without_vector and with_vectors:
        return f"{without_vector:,} {_pluralize_record(without_vector)} not found by meaning yet, only by words"
    return ""


def _pluralize_record(count: int) -> str:
    return "record" if count == 1 else "records"
