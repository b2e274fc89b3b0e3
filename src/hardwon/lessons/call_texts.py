"""List the texts of a tool call in which a lesson's literals are searched, before it is worth parsing the call."""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.types import GLOB_TOOL, SHELL_TOOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.types import Event

MAX_PARSED_CHARS = 200_000  # parsing a longer command as a shell does takes more time than a hook has
_MAX_GLOB_CHARS, _MAX_ALTERNATIVES = 1_000, 16  # longest pattern of a Glob call, and most expansions of its braces
_QUOTING = str.maketrans("", "", "'\"\\")


def list_call_texts(event: Event) -> list[str]:
    """Return the texts of a call for a quick check before any regex runs.

    A pattern whose literal is in none of these texts cannot match the call. It may be matched against other views of
    the command, which need not be built for the check: they only lack quotes, backslashes and repeated blanks.
    """
    texts = [resolve_path(event.path, event.cwd), event.content, *list_searched_paths(event)]
    if event.tool == SHELL_TOOL:
        texts.append(event.command)
        if len(event.command) <= MAX_PARSED_CHARS:
            texts.append(" ".join(event.command.translate(_QUOTING).split()))
    return texts


def list_searched_paths(event: Event) -> tuple[str, ...]:
    """Return the pattern of a Glob call as paths that a lesson's globs can match.

    A star of the call is treated as a name: `src/**/*.proto` is in `src` and ends in `.proto`. As `**` may stand for no
    folder, the pattern is also tried without it.
    """
    if event.tool != GLOB_TOOL or not event.content or len(event.content) > _MAX_GLOB_CHARS:
        return ()
    folder = join(event.cwd, event.path)
    searched_paths: dict[str, None] = {}
    for pattern in _expand_braces(event.content):
        for spelling in (pattern, pattern.replace("**/", "")):
            searched_paths[normpath(join(folder, spelling))] = None
    return tuple(searched_paths)


def _expand_braces(pattern: str) -> list[str]:
    """Expand the braces of a pattern: `*.{ts,tsx}` gives `*.ts` and `*.tsx`."""
    expanded: list[str] = []
    pending = [pattern]
    while pending and len(expanded) + len(pending) <= _MAX_ALTERNATIVES:
        spelling = pending.pop()
        closing = spelling.find("}")
        opening = spelling.rfind("{", 0, max(closing, 0))  # the innermost pair first
        if opening < 0:
            expanded.append(spelling)
            continue
        names = spelling[opening + 1 : closing].split(",")
        pending += [f"{spelling[:opening]}{name}{spelling[closing + 1 :]}" for name in names]
    return [*expanded, *pending][:_MAX_ALTERNATIVES]


def resolve_path(path: str, cwd: str) -> str:
    return normpath(join(cwd, path)) if path else ""
