"""Replace ids and names from agents that look like secrets.

The replacement is a hash, so records with the same id still belong together. This runs for every event, so ids of the
usual forms pass a cheap check, and only others are tested against the redaction rules.
"""

from __future__ import annotations

from hardwon.privacy.known_ids import KNOWN_ID_PREFIXES
from hardwon.types import replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from hardwon.types import Event

_ID_FIELDS = ("host", "session", "agent", "source", "tool", "tool_use_id", "prompt_name")
_SHORT_LENGTH = 16  # no vendor's keys are alphanumeric and shorter than this
_HEX_DIGITS = "0123456789abcdefABCDEF"
_UUID_LENGTH = 36


def clean_ids(event: Event) -> Event:
    """Return the event with every id that looks like a secret replaced."""
    changes = {}
    for field in _ID_FIELDS:
        value = getattr(event, field)
        if value and not _is_usual(value):
            cleaned = clean_id(value)
            if cleaned != value:
                changes[field] = cleaned
    return replace(event, **changes) if changes else event


def clean_id(text: str) -> str:
    """Return the id, or a hash of it if it looks like a secret."""
    if _is_usual(text):
        return text
    from hardwon.privacy.cleaning import clean_text

    if clean_text(text) == text:
        return text
    from hashlib import sha256

    return f"redacted-{sha256(b'hardwon id ' + text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _is_usual(text: str) -> bool:
    """Return whether this is a UUID, an id with a known prefix, a short id or a name of letters only."""
    length = len(text)
    if length == _UUID_LENGTH and text[8] == text[13] == text[18] == text[23] == "-":
        return not text.replace("-", "").strip(_HEX_DIGITS)
    plain = text.replace("-", "").replace("_", "")
    if length < _SHORT_LENGTH or plain.isalpha():
        return plain.isalnum() and length < 2 * _SHORT_LENGTH
    return any(text.startswith(prefix) and text[len(prefix) :].isalnum() for prefix in KNOWN_ID_PREFIXES)
