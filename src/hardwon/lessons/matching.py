"""Which lessons a tool call asks for.

`toolNames` is a gate. Command patterns are or-ed, over the command as a whole and over each simple command in it.
For other tools path and content must both hold, as far as the lesson names them. A lesson whose author wrote
patterns never matches by its tool alone.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.lessons.globs import matches
from hardwon.projects import in_scope
from hardwon.shell.parsing import code_of, look, without
from hardwon.types import GLOB, OURSELVES, SHELL, Match, replace, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hardwon.shell.parsing import Simple
    from hardwon.types import Entry, Event, Pattern

    Search = Callable[[Pattern, str], bool]

LONGEST_SPLIT = 200_000  # characters; reading a longer command as a shell does would cost more than a hook may
MOST_PIECES, LONGEST_PIECE = 2_000, 2_000
LONGEST_GLOB, MOST_ALTERNATIVES = 1_000, 16  # characters of a Glob call's pattern, and spellings its braces stand for
_SEPARATORS = dict.fromkeys(map(ord, ";&|()`"), "\n")
_QUOTING = str.maketrans("", "", "'\"\\")


def patience(text: str) -> float:
    """Seconds a pattern may take on this text: enough for a linear one, soon over for a catastrophic one."""
    return 0.1 + len(text) / 10_000_000


@word
class View:
    """One way to see a command, and the command as written around it, in which `unless` is looked for."""

    text: str
    around: str


@word
class Sight:
    """A call as the patterns see it. The guarded views leave out hardwon's own commands, so that a lesson about
    `git stash` does not stop the person who lifts it."""

    tool: str
    executable: tuple[View, ...]
    full: tuple[View, ...]
    guarded_executable: tuple[View, ...]
    guarded_full: tuple[View, ...]
    root: str
    absolute: str
    content: str
    places: tuple[str, ...]
    searched: tuple[str, ...] = ()  # what a Glob call looks for, as paths from the root of the file system


def see(event: Event, *, root: str, places: Sequence[str]) -> Sight:
    """`root` is the project's folder, `places` the real paths at which the call counts as happening."""
    command = event.command if event.tool == SHELL else ""
    absolute = _absolute(event.path, event.cwd)
    executable, full, guarded_executable, guarded_full = _views(command) if command else ((), (), (), ())
    return Sight(
        event.tool,
        executable,
        full,
        guarded_executable,
        guarded_full,
        root,
        absolute,
        event.content,
        tuple(places),
        _searched(event),
    )


def texts(event: Event) -> list[str]:
    """Where a literal must occur for a pattern to match any view of the call, without making the views.

    What a view has and the command has not is made by leaving out quotes, backslashes and repeated blanks.
    """
    found = [_absolute(event.path, event.cwd), event.content, *_searched(event)]
    if event.tool == SHELL:
        found.append(event.command)
        if len(event.command) <= LONGEST_SPLIT:
            found.append(" ".join(event.command.translate(_QUOTING).split()))
    return found


def match(entry: Entry, sight: Sight, search: Search) -> Match | None:
    if sight.tool not in entry.tools or not in_scope(entry.project, sight.places):
        return None
    if not (entry.commands or entry.contents or entry.globs or entry.path_regexes):
        return Match(entry, sight.tool)
    where = _in_command(entry, sight, search) if sight.tool == SHELL else _in_file(entry, sight, search)
    return None if where is None else Match(entry, where)


def _in_command(entry: Entry, sight: Sight, search: Search) -> str | None:
    stops = entry.delivery in ("block", "hold")
    if entry.target == "full":
        views = sight.guarded_full if stops else sight.full
    else:
        views = sight.guarded_executable if stops else sight.executable
    for view in views:
        if _any(entry.commands, view.text, search) and not (entry.unless and _called_off(entry, view, search)):
            return view.text
    return None


def _called_off(entry: Entry, view: View, search: Search) -> bool:
    return _any(entry.unless, view.around if entry.target == "full" else code_of(view.around), search)


def _in_file(entry: Entry, sight: Sight, search: Search) -> str | None:
    contents = entry.contents or entry.commands
    if entry.globs or entry.path_regexes:
        paths = (sight.absolute, *sight.searched)
        if not any(_names_path(entry, path, _below(path, sight.root), search) for path in paths):
            return None
    elif sight.tool == "Read":
        return None  # a reading has no content, and no path was asked for
    if contents and sight.tool != "Read" and not _any(contents, sight.content, search):
        return None
    if _any(entry.unless, sight.content, search) or _any(entry.unless, sight.absolute, search):
        return None
    return sight.absolute or sight.content


def _names_path(entry: Entry, absolute: str, relative: str, search: Search) -> bool:
    if matches(entry.globs, relative, absolute, search):
        return True
    return bool(absolute) and _any(entry.path_regexes, absolute, search)


def _any(patterns: Iterable[Pattern], text: str, search: Search) -> bool:
    return any(search(pattern, text) for pattern in patterns)


def _views(command: str) -> tuple[tuple[View, ...], ...]:
    seen = look(command) if len(command) <= LONGEST_SPLIT else None
    if seen is None:
        whole = _roughly(command)
        return whole, whole, whole, whole
    simple, code = seen
    executable, full = _two_views(command, code, simple)
    ours = {(one.start, one.end) for one in simple if one.program == OURSELVES}
    if not ours:
        return executable, full, executable, full
    others = [one for one in simple if one.program != OURSELVES]
    # What is substituted into our own command runs before it, and `bash -c 'hardwon …; git stash'` is one span.
    kept = {(one.start, one.end) for one in others}
    rest = without(command, ours - kept, kept)
    return executable, full, *_two_views(rest, code_of(rest), others, spans_in=command)


def _two_views(
    command: str, code: str, simple: Sequence[Simple], *, spans_in: str = ""
) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """The simple commands first: they are short, so a pattern that is slow on the whole has had its chance."""
    executable: dict[View, None] = {}
    full: dict[View, None] = {}
    for one in simple:
        around = (spans_in or command)[one.start : one.end]
        executable[View(" ".join(one.code.split()), around)] = None
        full[View(one.full, around)] = None
    executable[View(code, command)] = None
    full[View(command, command)] = None
    return tuple(executable), tuple(full)


def _roughly(command: str) -> tuple[View, ...]:
    """A command too long to be read as a shell does: its pieces between separators, wherever they stand, and all of
    it. Quotes are not told from code here; better held once too often than not at all."""
    pieces = command.translate(_SEPARATORS).split("\n", MOST_PIECES)
    views = dict.fromkeys(View(" ".join(piece.split()), piece) for piece in pieces if len(piece) < LONGEST_PIECE)
    return (*views, View(command, command))


def _searched(event: Event) -> tuple[str, ...]:
    """Return the pattern of a Glob call as paths that a lesson's globs can be tried on.

    To those a star in it is a name like any other: `src/**/*.proto` lies in `src` and ends in `.proto`. As `**` may
    stand for no folder at all, the pattern is tried without it too.
    """
    if event.tool != GLOB or not event.content or len(event.content) > LONGEST_GLOB:
        return ()
    folder = join(event.cwd, event.path)
    found: dict[str, None] = {}
    for pattern in _alternatives(event.content):
        for spelling in (pattern, pattern.replace("**/", "")):
            found[normpath(join(folder, spelling))] = None
    return tuple(found)


def _alternatives(pattern: str) -> list[str]:
    """Return what the braces of a pattern stand for: `*.{ts,tsx}` is `*.ts` and `*.tsx`."""
    whole: list[str] = []
    waiting = [pattern]
    while waiting and len(whole) + len(waiting) <= MOST_ALTERNATIVES:
        spelling = waiting.pop()
        closing = spelling.find("}")
        opening = spelling.rfind("{", 0, max(closing, 0))  # the innermost pair first
        if opening < 0:
            whole.append(spelling)
            continue
        names = spelling[opening + 1 : closing].split(",")
        waiting += [f"{spelling[:opening]}{name}{spelling[closing + 1 :]}" for name in names]
    return [*whole, *waiting][:MOST_ALTERNATIVES]


def _absolute(path: str, cwd: str) -> str:
    return normpath(join(cwd, path)) if path else ""


def _below(absolute: str, root: str) -> str:
    """The path from the project's folder; outside it begins with `..`, which no pattern from the root matches."""
    prefix = root.rstrip("/") + "/"
    if not absolute or absolute.startswith(prefix):
        return absolute[len(prefix) :]
    return f"../{absolute.lstrip('/')}"


def why_not(entry: Entry, sight: Sight, search: Search) -> str:
    """For a person: what keeps this lesson from firing on this call."""
    if entry.delivery == "start":
        return "is told at session start"
    if sight.tool not in entry.tools:
        return f"is about {', '.join(entry.tools)}, not {sight.tool}"
    if not in_scope(entry.project, sight.places):
        return f"belongs to {entry.project}"
    if entry.unless and match(replace(entry, unless=()), sight, search):
        return "is called off by `unless`"
    return "has no pattern that matches"
