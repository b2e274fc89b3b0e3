"""Recognise text that nobody filled in, and prose where a pattern belongs."""

from __future__ import annotations

import re

PROSE_PATTERN = re.compile(r"(?!(?:f|ar|h|t|nc)?ping\b)[a-z]{2,}ing(?: [a-z']+)+", re.I)
_ONLY_PLACEHOLDER = re.compile(r"<[^<>]*>|\{\{[^{}]*\}\}|\[[^\[\]]*\]|…|\.{3,}|[^\w]*")


def is_placeholder(text: str) -> bool:
    """Return whether a text is only a template's placeholder, such as `<problem>` or `…`."""
    return _ONLY_PLACEHOLDER.fullmatch(text.strip("\"'` ")) is not None
