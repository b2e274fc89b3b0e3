"""JSON without `import json`, which imports `re` and doubles the start time of a hook without a worker.

Uses the C scanner and string encoder of the standard module directly. Text that they reject goes to the standard
module, which raises the error with line and column.
"""

from __future__ import annotations

try:
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner
except ImportError:  # an interpreter without the C accelerator
    from json.encoder import encode_basestring_ascii as quote

    make_scanner = None  # type: ignore[assignment, misc]

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from typing import Any


class _ScannerContext:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = None if make_scanner is None else make_scanner(_ScannerContext)  # type: ignore[arg-type]
_SPECIAL_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as the standard module reads and writes them
_WHITESPACE = " \t\r\n"


def loads(text: str) -> Any:
    """Parse JSON; ValueError names the line and column, or says that it is nested too deeply."""
    start = len(text) - len(text.lstrip(_WHITESPACE))
    try:
        if _scan:
            value, end = _scan(text, start)
            is_all_read = not text[end:].strip(_WHITESPACE)
            if is_all_read:
                return value
    except (StopIteration, SystemError):  # raised by the C scanner for text that is not JSON
        pass
    except RecursionError:
        raise ValueError("nested too deeply") from None
    import json

    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: object) -> str:
    """Write compact, ASCII-only JSON with keys in the given order."""
    if isinstance(value, str):
        return quote(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _SPECIAL_FLOATS.get(float.__repr__(value)) or float.__repr__(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(key)}:{dumps(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    raise TypeError(f"not a JSON value: {value!r:.80}")
