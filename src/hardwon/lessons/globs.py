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

_POSIX = {  # git's own, which know ASCII only
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
        _takes_in([glob for glob in globs if glob.is_absolute == whether], path, search)
        for path, whether in ((relative, False), (absolute, True))
    )


def _takes_in(globs: Sequence[Glob], path: str, search: PatternSearch) -> bool:
    for place in _from_the_top(path) if globs else ():
        for glob in reversed(globs):
            if not (glob.folders_only and place == path) and search(Pattern(glob.source, glob.flags), place):
                if glob.is_include:
                    return True
                break
    return False


def _from_the_top(path: str) -> Iterator[str]:
    """The folders above a path, outermost first, and the path; neither `/` nor `..`, which no glob is about."""
    at = 1 if path.startswith("/") else 0
    while path.startswith(_OUTSIDE, at):
        at += len(_OUTSIDE)
    while (at := path.find("/", at)) >= 0:
        yield path[:at]
        at += 1
    if path.rpartition("/")[2] not in ("", ".."):
        yield path


def compile_glob(glob: str, *, ignore_case: bool = False, user_home: str = "") -> Glob | None:
    """None for a blank, a comment, and what can match nothing, such as a class that is not closed."""
    from re import IGNORECASE

    body = "" if glob.startswith("#") else _without_trailing_blanks(glob)
    include = not body.startswith("!")
    body = body.removeprefix("!")
    if user_home and (body == "~" or body.startswith("~/")):
        body = "".join("\\" + char if char in "\\*?[" else char for char in user_home.rstrip("/")) + body[1:]
    folder, body = body.endswith("/"), body.removesuffix("/")
    absolute = body.startswith("/")
    try:
        segments = [_segment(tokens) for tokens in _split(_tokens(body[absolute:]), "/")]
    except (IndexError, KeyError, ValueError):
        return None  # the glob ends inside an escape or a class, or names a class that there is not
    if not all(segments):
        return None  # two slashes side by side, or nothing at all: no path is like that
    if "/" not in body:
        segments.insert(0, "**")
    root = "/" if absolute else _MAYBE_OUTSIDE if segments[0] == "**" else _NOT_OUTSIDE
    source = rf"\A{root}{_path(segments)}\Z"
    return Glob(source, int(IGNORECASE) if ignore_case else 0, include, folder, absolute)


def _without_trailing_blanks(glob: str) -> str:
    bare = glob.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return glob[: len(bare) + escaped]


def _tokens(body: str) -> list[str]:
    """`/`, `*` and `**` as they are, everything else as a regular expression for one character."""
    from re import escape

    tokens = []
    at = 0
    while at < len(body):
        token = body[at]
        at += 1
        if token == "*" and body.startswith("*", at):
            token = "**"
            at = len(body) - len(body[at:].lstrip("*"))
        elif token == "?":
            token = _CHAR
        elif token == "[":
            token, at = _class(body, at)
        elif token == "\\":
            token = escape(body[at])
            at += 1
        elif token not in "*/":
            token = escape(token)
        tokens.append(token)
    return tokens


def _class(body: str, at: int) -> tuple[str, int]:
    """The class that opened just before `at`, and where the glob goes on."""
    from re import escape, match

    negated = body[at] in "!^"
    first = at = at + negated
    items: list[str] = []
    low = ""
    while (char := body[at]) != "]" or at == first:
        if char == "-" and low and body[at + 1] != "]":
            at += 2 if body[at + 1] == "\\" else 1
            if low <= body[at]:
                items.append(f"{escape(low)}-{escape(body[at])}")
            low = ""
        elif char == "[" and body[at + 1] == ":" and body[at + 2 : (end := body.index("]", at + 2))].endswith(":"):
            items.append(_POSIX[body[at + 2 : end - 1]])
            at, low = end, ""
        else:
            at += char == "\\"
            low = body[at]
            items.append(escape(low))
        at += 1
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]", at + 1
    return f"(?!/)[{inside}]" if match(f"[{inside}]", "/") else f"[{inside}]", at + 1


def _segment(tokens: Sequence[str]) -> str:
    if list(tokens) == ["**"]:
        return "**"
    starred = ["*" if token == "**" else token for token in tokens]
    if starred == ["*"]:
        return _NAME
    return _spread(["".join(part) for part in _split(starred, "*")], _CHAR)


def _path(segments: list[str]) -> str:
    if segments[-1] == "**":
        segments = [*segments, _NAME]
    *above, last = _split(segments, "**")
    return _spread(["".join(f"{name}/" for name in part) for part in above] + ["/".join(last)], _FOLDER)


def _spread(parts: Sequence[str], gap: str) -> str:
    """The parts in this order, with any number of gaps between each two."""
    if len(parts) == 1:
        return parts[0]
    between = "".join(f"(?>{gap}*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{between}{gap}*{parts[-1]}"


def _split(items: Sequence[str], mark: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for item in items:
        if item == mark:
            parts.append([])
        else:
            parts[-1].append(item)
    return parts
