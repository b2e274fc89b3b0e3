"""What the search index does not have yet."""

from __future__ import annotations

from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.text.characters import format_count


def describe_backlog(connection: Connection, *, with_vectors: bool = True) -> str:
    """Return one line about what is not indexed yet; empty if everything is."""
    without_words, without_vector = documents.count_backlog(connection)
    if without_words:
        return f"{format_count(without_words, 'record')} not indexed yet"
    if without_vector and with_vectors:
        return f"{format_count(without_vector, 'record')} not found by meaning yet, only by words"
    return ""
