"""Slugs that people can read aloud: a summary in kebab case and a short suffix that makes it unique."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

_MAX_STEM_LENGTH = 36


def create_slug(summary: str, used_slugs: Container[str], make_suffix: Callable[[], str]) -> str:
    """Return a slug that is not among `used_slugs`."""
    stem = re.sub(r"[^a-z0-9]+", "-", summary.lower()).strip("-") or "lesson"
    if len(stem) > _MAX_STEM_LENGTH:
        stem = stem[: _MAX_STEM_LENGTH + 1].rpartition("-")[0] or stem[:_MAX_STEM_LENGTH]
    while (slug := f"{stem}-{make_suffix()}") in used_slugs:
        continue
    return slug
