"""Replace ids that look like secrets: agents name sessions and calls, and a name may hold anything."""

from __future__ import annotations

from hardwon.types import KNOWN_ID_PREFIXES, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from hardwon.types import Event

_ID_FIELDS = ("host", "session", "subagent_id", "source", "tool", "tool_use_id", "prompt_name")
_SHORT_LENGTH = 16  # no vendor's keys are alphanumeric and shorter than this
_MAX_NAME_LENGTH = 2 * _SHORT_LENGTH  # of an id of letters only
_HEX_DIGITS = "0123456789abcdefABCDEF"
_UUID_LENGTH = 36


def clean_ids(event: Event) -> Event:
    """Return the event with every id that looks like a secret replaced.

    This runs for every event, so ids of the usual forms pass a cheap check, and only others are searched for secrets.
    """
    changes = {}
    for field in _ID_FIELDS:
        value = getattr(event, field)
        cleaned = clean_id(value)
        if cleaned != value:
            changes[field] = cleaned
    return replace(event, **changes) if changes else event


def clean_id(text: str) -> str:
    """Return the id, or a hash of it if it looks like a secret; records with the same id still belong together."""
    if not text or _is_usual_id(text):
        return text
    # Imported here because loading the rules for secrets takes a quarter of the time of a hook without a worker.
    from hardwon.privacy.cleaning import clean_text

    if clean_text(text) == text:
        return text
    from hashlib import sha256

    return f"redacted-{sha256(b'hardwon id ' + text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _is_usual_id(text: str) -> bool:
    """Return whether this is a UUID, a short id, a name of letters only or an id with a known prefix."""
    length = len(text)
    # A UUID has groups of 8, 4, 4, 4 and 12 digits.
    if length == _UUID_LENGTH and text[8] == text[13] == text[18] == text[23] == "-":
        other_chars = text.replace("-", "").strip(_HEX_DIGITS)
        return not other_chars
    plain = text.replace("-", "").replace("_", "")
    if length < _SHORT_LENGTH:
        return plain.isalnum()
    if plain.isalpha():
        return length < _MAX_NAME_LENGTH
    for prefix in KNOWN_ID_PREFIXES:
        rest = text[len(prefix) :]
        if text.startswith(prefix) and rest.isalnum():
            return True
    return False
