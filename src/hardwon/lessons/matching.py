"""Which lessons a tool call asks for.

`toolNames` is a gate. Command patterns are or-ed, over the command as a whole and over each simple command in it.
For other tools path and content must both hold, as far as the lesson names them. A lesson whose author wrote
patterns never matches by its tool alone.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.lessons.globs import has_matching_glob
from hardwon.projects import is_in_scope
from hardwon.shell.parsing import extract_code, parse_with_code, remove_spans
from hardwon.types import GLOB_TOOL, PROGRAM_NAME, SHELL_TOOL, Match, frozen, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hardwon.shell.parsing import SimpleCommand
    from hardwon.types import Event, ManifestEntry, Pattern

    PatternSearch = Callable[[Pattern, str], bool]

MAX_PARSED_CHARS = 200_000  # characters; reading a longer command as a shell does would cost more than a hook may
MAX_PIECES, MAX_PIECE_CHARS = 2_000, 2_000
MAX_GLOB_CHARS, MAX_ALTERNATIVES = 1_000, 16  # characters of a Glob call's pattern, and spellings its braces stand for
_SEPARATORS = dict.fromkeys(map(ord, ";&|()`"), "\n")
_QUOTING = str.maketrans("", "", "'\"\\")


def get_pattern_timeout(text: str) -> float:
    """Seconds a pattern may take on this text: enough for a linear one, soon over for a catastrophic one."""
    return 0.1 + len(text) / 10_000_000


@frozen
class CommandView:
    """One way to see a command, and the command as written around it, in which `unless` is looked for."""

    text: str
    source_text: str


@frozen
class MatchableCall:
    """A call as the patterns see it. The guarded views leave out hardwon's own commands, so that a lesson about
    `git stash` does not stop the person who lifts it."""

    tool: str
    executable_views: tuple[CommandView, ...]
    full_views: tuple[CommandView, ...]
    guarded_executable_views: tuple[CommandView, ...]
    guarded_full_views: tuple[CommandView, ...]
    project_root: str
    absolute_path: str
    content: str
    equivalent_folders: tuple[str, ...]
    searched_paths: tuple[str, ...] = ()  # what a Glob call looks for, as paths from the root of the file system


def prepare_call(event: Event, *, project_root: str, equivalent_folders: Sequence[str]) -> MatchableCall:
    """`root` is the project's folder, `equivalent_folders` the real paths at which the call counts as happening."""
    command = event.command if event.tool == SHELL_TOOL else ""
    absolute = _absolute(event.path, event.cwd)
    executable, full, guarded_executable, guarded_full = _views(command) if command else ((), (), (), ())
    return MatchableCall(
        event.tool,
        executable,
        full,
        guarded_executable,
        guarded_full,
        project_root,
        absolute,
        event.content,
        tuple(equivalent_folders),
        _searched(event),
    )


def list_call_texts(event: Event) -> list[str]:
    """Where a literal must occur for a pattern to match any view of the call, without making the views.

    What a view has and the command has not is made by leaving out quotes, backslashes and repeated blanks.
    """
    found = [_absolute(event.path, event.cwd), event.content, *_searched(event)]
    if event.tool == SHELL_TOOL:
        found.append(event.command)
        if len(event.command) <= MAX_PARSED_CHARS:
            found.append(" ".join(event.command.translate(_QUOTING).split()))
    return found


def match_entry(entry: ManifestEntry, call: MatchableCall, search_pattern: PatternSearch) -> Match | None:
    if call.tool not in entry.tools or not is_in_scope(entry.project, call.equivalent_folders):
        return None
    if not (entry.commands or entry.contents or entry.globs or entry.path_regexes):
        return Match(entry, call.tool)
    where = (
        _in_command(entry, call, search_pattern) if call.tool == SHELL_TOOL else _in_file(entry, call, search_pattern)
    )
    return None if where is None else Match(entry, where)


def _in_command(entry: ManifestEntry, sight: MatchableCall, search: PatternSearch) -> str | None:
    stops = entry.delivery in ("block", "hold")
    if entry.target == "full":
        views = sight.guarded_full_views if stops else sight.full_views
    else:
        views = sight.guarded_executable_views if stops else sight.executable_views
    for view in views:
        if _any(entry.commands, view.text, search) and not (entry.unless and _called_off(entry, view, search)):
            return view.text
    return None


def _called_off(entry: ManifestEntry, view: CommandView, search: PatternSearch) -> bool:
    return _any(entry.unless, view.source_text if entry.target == "full" else extract_code(view.source_text), search)


def _in_file(entry: ManifestEntry, sight: MatchableCall, search: PatternSearch) -> str | None:
    contents = entry.contents or entry.commands
    if entry.globs or entry.path_regexes:
        paths = (sight.absolute_path, *sight.searched_paths)
        if not any(_names_path(entry, path, _below(path, sight.project_root), search) for path in paths):
            return None
    elif sight.tool == "Read":
        return None  # a reading has no content, and no path was asked for
    if contents and sight.tool != "Read" and not _any(contents, sight.content, search):
        return None
    if _any(entry.unless, sight.content, search) or _any(entry.unless, sight.absolute_path, search):
        return None
    return sight.absolute_path or sight.content


def _names_path(entry: ManifestEntry, absolute: str, relative: str, search: PatternSearch) -> bool:
    if has_matching_glob(entry.globs, relative, absolute, search):
        return True
    return bool(absolute) and _any(entry.path_regexes, absolute, search)


def _any(patterns: Iterable[Pattern], text: str, search: PatternSearch) -> bool:
    return any(search(pattern, text) for pattern in patterns)


def _views(command: str) -> tuple[tuple[CommandView, ...], ...]:
    seen = parse_with_code(command) if len(command) <= MAX_PARSED_CHARS else None
    if seen is None:
        whole = _roughly(command)
        return whole, whole, whole, whole
    simple, code = seen
    executable, full = _two_views(command, code, simple)
    ours = {(one.start, one.end) for one in simple if one.program == PROGRAM_NAME}
    if not ours:
        return executable, full, executable, full
    others = [one for one in simple if one.program != PROGRAM_NAME]
    # What is substituted into our own command runs before it, and `bash -c 'hardwon …; git stash'` is one span.
    kept = {(one.start, one.end) for one in others}
    rest = remove_spans(command, ours - kept, kept)
    return executable, full, *_two_views(rest, extract_code(rest), others, spans_in=command)


def _two_views(
    command: str, code: str, simple: Sequence[SimpleCommand], *, spans_in: str = ""
) -> tuple[tuple[CommandView, ...], tuple[CommandView, ...]]:
    """The simple commands first: they are short, so a pattern that is slow on the whole has had its chance."""
    executable: dict[CommandView, None] = {}
    full: dict[CommandView, None] = {}
    for one in simple:
        around = (spans_in or command)[one.start : one.end]
        executable[CommandView(" ".join(one.code.split()), around)] = None
        full[CommandView(one.full_text, around)] = None
    executable[CommandView(code, command)] = None
    full[CommandView(command, command)] = None
    return tuple(executable), tuple(full)


def _roughly(command: str) -> tuple[CommandView, ...]:
    """A command too long to be read as a shell does: its pieces between separators, wherever they stand, and all of
    it. Quotes are not told from code here; better held once too often than not at all."""
    pieces = command.translate(_SEPARATORS).split("\n", MAX_PIECES)
    views = dict.fromkeys(
        CommandView(" ".join(piece.split()), piece) for piece in pieces if len(piece) < MAX_PIECE_CHARS
    )
    return (*views, CommandView(command, command))


def _searched(event: Event) -> tuple[str, ...]:
    """Return the pattern of a Glob call as paths that a lesson's globs can be tried on.

    To those a star in it is a name like any other: `src/**/*.proto` lies in `src` and ends in `.proto`. As `**` may
    stand for no folder at all, the pattern is tried without it too.
    """
    if event.tool != GLOB_TOOL or not event.content or len(event.content) > MAX_GLOB_CHARS:
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
    while waiting and len(whole) + len(waiting) <= MAX_ALTERNATIVES:
        spelling = waiting.pop()
        closing = spelling.find("}")
        opening = spelling.rfind("{", 0, max(closing, 0))  # the innermost pair first
        if opening < 0:
            whole.append(spelling)
            continue
        names = spelling[opening + 1 : closing].split(",")
        waiting += [f"{spelling[:opening]}{name}{spelling[closing + 1 :]}" for name in names]
    return [*whole, *waiting][:MAX_ALTERNATIVES]


def _absolute(path: str, cwd: str) -> str:
    return normpath(join(cwd, path)) if path else ""


def _below(absolute: str, root: str) -> str:
    """The path from the project's folder; outside it begins with `..`, which no pattern from the root matches."""
    prefix = root.rstrip("/") + "/"
    if not absolute or absolute.startswith(prefix):
        return absolute[len(prefix) :]
    return f"../{absolute.lstrip('/')}"


def explain_mismatch(entry: ManifestEntry, call: MatchableCall, search_pattern: PatternSearch) -> str:
    """For a person: what keeps this lesson from firing on this call."""
    if entry.delivery == "start":
        return "is told at session start"
    if call.tool not in entry.tools:
        return f"is about {', '.join(entry.tools)}, not {call.tool}"
    if not is_in_scope(entry.project, call.equivalent_folders):
        return f"belongs to {entry.project}"
    if entry.unless and match_entry(replace(entry, unless=()), call, search_pattern):
        return "is called off by `unless`"
    return "has no pattern that matches"
