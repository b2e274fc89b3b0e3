"""Follow the evidence of a draft to the transcript or page that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hardwon.agents import transcript_files
from hardwon.handoff.draft import Draft
from hardwon.handoff.statements import Statement
from hardwon.store.reflections import Evidence


def list_statements(draft: Draft) -> list[Statement]:
    statements = [*draft.summary, *draft.decisions, *draft.failed, *draft.open_ends, *draft.resume]
    statements += [Statement(finding.text, finding.evidence) for finding in draft.findings]
    statements += [Statement(memory.text, memory.evidence) for memory in draft.memories]
    return statements + [Statement(entry.problem, entry.evidence) for entry in draft.lessons]


def is_quote_in_source(evidence: Evidence) -> bool:
    """Return whether the quote is in its line of the transcript or page, with spaces collapsed."""
    try:
        line = b"".join(text for _, text in transcript_files.read_lines(evidence.path, evidence.line, 1))
    except OSError:
        return False
    quote = " ".join(evidence.quote.split())
    return bool(quote) and any(quote in " ".join(text.split()) for text in _iter_texts(line.decode("utf-8", "replace")))


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield a text, and every text in the JSON that it holds: agents write JSON inside strings of JSON."""
    if isinstance(value, str):
        yield value
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, (dict, list)):
        for nested in value.values() if isinstance(value, dict) else value:
            yield from _iter_texts(nested)
