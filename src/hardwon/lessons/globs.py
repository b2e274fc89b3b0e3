"""Compile globs, which follow gitignore's rules, to regular expressions when the manifest is built.

Git asks which glob is the last to match a path, and whether a folder above it was included already. So a compiled glob
matches one path exactly, and `matching.has_matching_glob` walks down from the top. Unlike in gitignore, a leading `/`
is the root of the file system. A star takes the nearest place where the rest fits and never backtracks (`(?>...)`): the
part after it has a fixed length, so no other place could do better, and no glob can make a hook slow. The library
`pathspec` cannot express git's rule about excluded folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.types import Glob

_POSIX_CLASSES = {  # as git defines them, for ASCII only
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NOT_OUTSIDE = r"(?!\.\./)"
_MAYBE_OUTSIDE = r"(?>(?:\.\./)*)"
_GLOB_CHAR = "[^/]"
_GLOB_NAME = f"{_GLOB_CHAR}+"
_GLOB_FOLDER = f"(?:{_GLOB_NAME}/)"


def compile_glob(glob: str, *, ignore_case: bool = False, user_home: str = "") -> Glob | None:
    """Compile a glob; None for blanks, comments, and globs that match nothing, such as an unclosed class."""
    body = "" if glob.startswith("#") else _strip_trailing_blanks(glob)
    is_include = not body.startswith("!")
    body = body.removeprefix("!")
    if user_home and (body == "~" or body.startswith("~/")):
        # The home's own name may contain what is special in a glob.
        escaped_home = ""
        for char in user_home.rstrip("/"):
            escaped_home += f"\\{char}" if char in "\\*?[" else char
        body = escaped_home + body[1:]
    folders_only = body.endswith("/")
    body = body.removesuffix("/")
    is_absolute = body.startswith("/")
    try:
        segments = [_compile_segment(tokens) for tokens in _split_at(_split_tokens(body[is_absolute:]), "/")]
    except (IndexError, KeyError, ValueError):
        return None  # the glob ends inside an escape or a class, or names an unknown class
    if not all(segments):
        return None  # a double slash or an empty glob matches no path
    # As in gitignore, a glob without a slash matches at any depth.
    if "/" not in body:
        segments.insert(0, "**")
    root = _NOT_OUTSIDE
    if is_absolute:
        root = "/"
    elif segments[0] == "**":
        root = _MAYBE_OUTSIDE
    source = rf"\A{root}{_compile_path(segments)}\Z"
    return Glob(source, int(re.IGNORECASE) if ignore_case else 0, is_include, folders_only, is_absolute)


def _strip_trailing_blanks(glob: str) -> str:
    stripped = glob.rstrip(" ")
    # As in gitignore, a trailing blank stays if it is escaped.
    escaped = (len(stripped) - len(stripped.rstrip("\\"))) % 2
    return glob[: len(stripped) + escaped]


def _split_tokens(body: str) -> list[str]:
    """Split a glob into `/`, `*` and `**`, and regular expressions for single characters."""
    tokens = []
    pos = 0
    while pos < len(body):
        token = body[pos]
        pos += 1
        if token == "*" and body.startswith("*", pos):
            token = "**"
            pos = len(body) - len(body[pos:].lstrip("*"))
        elif token == "?":
            token = _GLOB_CHAR
        elif token == "[":
            token, pos = _compile_class(body, pos)
        elif token == "\\":
            token = re.escape(body[pos])
            pos += 1
        elif token not in "*/":
            token = re.escape(token)
        tokens.append(token)
    return tokens


def _compile_class(body: str, pos: int) -> tuple[str, int]:
    """Return the class that opened just before `pos`, and the position after it."""
    is_negated = body[pos] in "!^"
    if is_negated:
        pos += 1
    first_pos = pos
    items: list[str] = []
    low = ""  # the last single character, with which a range may begin
    # A `]` directly after the opening bracket is a member of the class.
    while (char := body[pos]) != "]" or pos == first_pos:
        if char == "-" and low and body[pos + 1] != "]":
            pos += 2 if body[pos + 1] == "\\" else 1
            if low <= body[pos]:
                items.append(f"{re.escape(low)}-{re.escape(body[pos])}")
            low = ""
        elif body.startswith("[:", pos) and body.find(":]", pos + 2) + 1 == body.index("]", pos + 2):
            end = body.index("]", pos + 2)  # of a class such as `[:alpha:]`
            items.append(_POSIX_CLASSES[body[pos + 2 : end - 1]])
            pos = end
            low = ""
        else:
            if char == "\\":
                pos += 1
            low = body[pos]
            items.append(re.escape(low))
        pos += 1
    class_body = "".join(items)
    # No class matches a slash.
    if is_negated:
        source = f"[^/{class_body}]"
    elif re.match(f"[{class_body}]", "/"):
        source = f"(?!/)[{class_body}]"
    else:
        source = f"[{class_body}]"
    return source, pos + 1


def _compile_segment(tokens: Sequence[str]) -> str:
    """Return the pattern of what stands between two slashes; `**` alone stays, for `_compile_path`.

    Within other text `**` means the same as `*`.
    """
    if list(tokens) == ["**"]:
        return "**"
    starred = ["*" if token == "**" else token for token in tokens]
    if starred == ["*"]:
        return _GLOB_NAME
    parts = ["".join(part_tokens) for part_tokens in _split_at(starred, "*")]
    return _join_with_gaps(parts, _GLOB_CHAR)


def _compile_path(segments: list[str]) -> str:
    """Return the pattern of a whole path; `**` stands for any number of folders."""
    if segments[-1] == "**":
        # A trailing `/**` matches what is inside the folder, not the folder.
        segments = [*segments, _GLOB_NAME]
    *leading, last = _split_at(segments, "**")
    parts = []
    for folders in leading:
        parts.append("".join(f"{folder}/" for folder in folders))
    parts.append("/".join(last))
    return _join_with_gaps(parts, _GLOB_FOLDER)


def _join_with_gaps(parts: Sequence[str], gap: str) -> str:
    """Join the parts in order, with any number of gaps between two."""
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>{gap}*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{middle}{gap}*{parts[-1]}"


def _split_at(items: Sequence[str], separator: str) -> list[list[str]]:
    """Split a list as `str.split` splits a text: one part more than there are separators, some of them empty."""
    parts: list[list[str]] = [[]]
    for item in items:
        if item == separator:
            parts.append([])
        else:
            parts[-1].append(item)
    return parts
