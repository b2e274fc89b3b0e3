"""Names people can say: a summary in kebab case and a few characters that tell it from others."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

_LENGTH = 36


def fresh(summary: str, taken: Container[str], suffix: Callable[[], str]) -> str:
    """A slug unlike any that is taken."""
    stem = re.sub(r"[^a-z0-9]+", "-", summary.lower()).strip("-") or "lesson"
    if len(stem) > _LENGTH:
        stem = stem[: _LENGTH + 1].rpartition("-")[0] or stem[:_LENGTH]
    while (slug := f"{stem}-{suffix()}") in taken:
        continue
    return slug
