"""Path globs by gitignore's rules, compiled to regular expressions when the manifest is built.

Git asks twice: which glob is the last to match this very path, and was a folder above it already taken in? So a
compiled glob matches one path exactly, and `matches` walks down from the top. Unlike gitignore's, a leading `/` is the
file system's root. A star takes the nearest place where what follows it fits and never looks back (`(?>...)`): what
follows has a fixed length, so no other place could do better, and no glob can make a hook wait.
"""

from __future__ import annotations

from hardwon.types import Glob, Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    PatternSearch = Callable[[Pattern, str], bool]

_POSIX_CLASSES = {  # git's own, which know ASCII only
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
_OUTSIDE = "../"
_NOT_OUTSIDE = r"(?!\.\./)"
_MAYBE_OUTSIDE = r"(?>(?:\.\./)*)"
_CHAR = "[^/]"
_NAME = f"{_CHAR}+"
_FOLDER = f"(?:{_NAME}/)"


def has_matching_glob(globs: Sequence[Glob], relative: str, absolute: str, search: PatternSearch) -> bool:
    """Whether the globs take in a file; `relative` begins with `../` if it is outside the project."""
    return any(
        _is_included([glob for glob in globs if glob.is_absolute == is_absolute], path, search)
        for path, is_absolute in ((relative, False), (absolute, True))
    )


def _is_included(globs: Sequence[Glob], path: str, search: PatternSearch) -> bool:
    for prefix in _iter_prefixes(path) if globs else ():
        for glob in reversed(globs):
            if not (glob.folders_only and prefix == path) and search(Pattern(glob.source, glob.flags), prefix):
                if glob.is_include:
                    return True
                break
    return False


def _iter_prefixes(path: str) -> Iterator[str]:
    """The folders above a path, outermost first, and the path; neither `/` nor `..`, which no glob is about."""
    pos = 1 if path.startswith("/") else 0
    while path.startswith(_OUTSIDE, pos):
        pos += len(_OUTSIDE)
    while (pos := path.find("/", pos)) >= 0:
        yield path[:pos]
        pos += 1
    if path.rpartition("/")[2] not in ("", ".."):
        yield path


def compile_glob(glob: str, *, ignore_case: bool = False, user_home: str = "") -> Glob | None:
    """None for a blank, a comment, and what can match nothing, such as a class that is not closed."""
    from re import IGNORECASE

    body = "" if glob.startswith("#") else _strip_trailing_blanks(glob)
    is_include = not body.startswith("!")
    body = body.removeprefix("!")
    if user_home and (body == "~" or body.startswith("~/")):
        body = "".join("\\" + char if char in "\\*?[" else char for char in user_home.rstrip("/")) + body[1:]
    folders_only, body = body.endswith("/"), body.removesuffix("/")
    is_absolute = body.startswith("/")
    try:
        segments = [_compile_segment(tokens) for tokens in _split_at(_split_tokens(body[is_absolute:]), "/")]
    except (IndexError, KeyError, ValueError):
        return None  # the glob ends inside an escape or a class, or names a class that there is not
    if not all(segments):
        return None  # two slashes side by side, or nothing at all: no path is like that
    if "/" not in body:
        segments.insert(0, "**")
    root = "/" if is_absolute else _MAYBE_OUTSIDE if segments[0] == "**" else _NOT_OUTSIDE
    source = rf"\A{root}{_compile_path(segments)}\Z"
    return Glob(source, int(IGNORECASE) if ignore_case else 0, is_include, folders_only, is_absolute)


def _strip_trailing_blanks(glob: str) -> str:
    stripped = glob.rstrip(" ")
    escaped = (len(stripped) - len(stripped.rstrip("\\"))) % 2
    return glob[: len(stripped) + escaped]


def _split_tokens(body: str) -> list[str]:
    """`/`, `*` and `**` as they are, everything else as a regular expression for one character."""
    from re import escape

    tokens = []
    pos = 0
    while pos < len(body):
        token = body[pos]
        pos += 1
        if token == "*" and body.startswith("*", pos):
            token = "**"
            pos = len(body) - len(body[pos:].lstrip("*"))
        elif token == "?":
            token = _CHAR
        elif token == "[":
            token, pos = _compile_class(body, pos)
        elif token == "\\":
            token = escape(body[pos])
            pos += 1
        elif token not in "*/":
            token = escape(token)
        tokens.append(token)
    return tokens


def _compile_class(body: str, pos: int) -> tuple[str, int]:
    """The class that opened just before `at`, and where the glob goes on."""
    from re import escape, match

    negated = body[pos] in "!^"
    first_pos = pos = pos + negated
    items: list[str] = []
    low = ""
    while (char := body[pos]) != "]" or pos == first_pos:
        if char == "-" and low and body[pos + 1] != "]":
            pos += 2 if body[pos + 1] == "\\" else 1
            if low <= body[pos]:
                items.append(f"{escape(low)}-{escape(body[pos])}")
            low = ""
        elif char == "[" and body[pos + 1] == ":" and body[pos + 2 : (end := body.index("]", pos + 2))].endswith(":"):
            items.append(_POSIX_CLASSES[body[pos + 2 : end - 1]])
            pos, low = end, ""
        else:
            pos += char == "\\"
            low = body[pos]
            items.append(escape(low))
        pos += 1
    class_body = "".join(items)
    if negated:
        return f"[^/{class_body}]", pos + 1
    return f"(?!/)[{class_body}]" if match(f"[{class_body}]", "/") else f"[{class_body}]", pos + 1


def _compile_segment(tokens: Sequence[str]) -> str:
    if list(tokens) == ["**"]:
        return "**"
    starred = ["*" if token == "**" else token for token in tokens]
    if starred == ["*"]:
        return _NAME
    return _join_with_gaps(["".join(part) for part in _split_at(starred, "*")], _CHAR)


def _compile_path(segments: list[str]) -> str:
    if segments[-1] == "**":
        segments = [*segments, _NAME]
    *leading, last = _split_at(segments, "**")
    return _join_with_gaps(["".join(f"{name}/" for name in part) for part in leading] + ["/".join(last)], _FOLDER)


def _join_with_gaps(parts: Sequence[str], gap: str) -> str:
    """The parts in this order, with any number of gaps between each two."""
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>{gap}*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{middle}{gap}*{parts[-1]}"


def _split_at(items: Sequence[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for item in items:
        if item == separator:
            parts.append([])
        else:
            parts[-1].append(item)
    return parts
