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
    remaining_bytes = budget
    for entry in entries:
        if len(chosen) >= limit:
            break
        text = _fit_text(
            entry,
            remaining_bytes,
            keep_full=keep_first_full and not chosen,
            format_full=format_full,
            format_short=format_short,
        )
        if text is not None and claim_entry(entry):
            chosen.append((entry, text))
            remaining_bytes -= count_bytes(text) + count_bytes(separator)
    return tuple(chosen)


def _fit_text(
    entry: ManifestEntry,
    remaining_bytes: int,
    *,
    keep_full: bool,
    format_full: Callable[[ManifestEntry], str],
    format_short: Callable[[ManifestEntry], str],
) -> str | None:
    text = format_full(entry)
    if keep_full or count_bytes(text) <= remaining_bytes:
        return text
    text = format_short(entry)
    return text if count_bytes(text) <= remaining_bytes else None


def count_bytes(text: str) -> int:
    """Bytes as they go to the agent."""
    return len(text.encode("utf-8", "surrogatepass"))
