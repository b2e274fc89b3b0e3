"""Which lessons go into one reply."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hardwon.types import ManifestEntry


def select_lessons(
    entries: Sequence[ManifestEntry],
    *,
    budget: int,
    limit: int,
    format_full: Callable[[ManifestEntry], str],
    format_short: Callable[[ManifestEntry], str],
    separator: str,
    claim_entry: Callable[[ManifestEntry], bool],
    keep_first_full: bool = True,
) -> tuple[tuple[ManifestEntry, str], ...]:
    """The lessons that fit, best first. The first always goes in whole, so one long lesson cannot starve.

    A lesson is claimed only once it is known to fit, so what is left out for room may come at the next call.
    """
    chosen: list[tuple[ManifestEntry, str]] = []
    left = budget
    for entry in entries:
        if len(chosen) >= limit:
            break
        text = _fitting(entry, left, first=keep_first_full and not chosen, full=format_full, short=format_short)
        if text is not None and claim_entry(entry):
            chosen.append((entry, text))
            left -= count_bytes(text) + count_bytes(separator)
    return tuple(chosen)


def _fitting(
    entry: ManifestEntry,
    left: int,
    *,
    first: bool,
    full: Callable[[ManifestEntry], str],
    short: Callable[[ManifestEntry], str],
) -> str | None:
    text = full(entry)
    if first or count_bytes(text) <= left:
        return text
    text = short(entry)
    return text if count_bytes(text) <= left else None


def count_bytes(text: str) -> int:
    """Bytes as they go to the agent."""
    return len(text.encode("utf-8", "surrogatepass"))
