"""Match tool calls with lessons, and paths with globs.

`toolNames` must include the call's tool. Any command pattern may match, on the whole command or on a simple command in
it. For other tools, path and content must both match if the lesson names them. A lesson with patterns never matches by
its tool alone. Only lessons that `ManifestIndex.find_possible_matches` returned get here.
"""

from __future__ import annotations

from hardwon.lessons.call_texts import MAX_PARSED_CHARS, list_searched_paths, resolve_path
from hardwon.projects import find_git_root, is_in_scope, list_equivalent_folders
from hardwon.shell.parsing import extract_code, list_source_texts, parse_with_code, remove_spans
from hardwon.types import PROGRAM_NAME, SHELL_TOOL, Glob, Match, Pattern, frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hardwon.shell.parsing import SimpleCommand
    from hardwon.types import Event, ManifestEntry

    PatternSearch = Callable[[Pattern, str], bool]

_MAX_PIECES, _MAX_PIECE_CHARS = 2_000, 2_000  # for a command that is too long to parse
_SEPARATORS = dict.fromkeys(map(ord, ";&|()`"), "\n")
_OUTSIDE = "../"


def get_pattern_timeout(text: str) -> float:
    """Return a pattern's time limit in seconds: enough for linear matching, short for catastrophic backtracking."""
    return 0.1 + len(text) / 10_000_000


@frozen
class CommandView:
    """A command or simple command as patterns see it, with its source text, in which `unless` is searched.

    The source text has the assignments before the program, and the `cd`, `source` and `export` before the command.
    """

    text: str
    source_text: str


@frozen
class CommandViews:
    """The views of a command without quoted text and heredocs, and those with them."""

    executable: tuple[CommandView, ...] = ()
    full: tuple[CommandView, ...] = ()


@frozen
class MatchableCall:
    """A call as patterns see it.

    The guarded views leave out hardwon's own commands, so that a lesson about `git stash` does not stop the person who
    lifts it.
    """

    tool: str
    views: CommandViews
    guarded_views: CommandViews
    project_root: str
    absolute_path: str
    content: str
    equivalent_folders: tuple[str, ...]
    searched_paths: tuple[str, ...]  # the pattern of a Glob call as absolute paths


def prepare_call(
    event: Event, *, project_root: str | None = None, equivalent_folders: Sequence[str] | None = None
) -> MatchableCall:
    """Prepare a call for matching.

    `equivalent_folders` are the real paths at which it happens. Whoever prepares many calls passes both, since finding
    them reads the file system.
    """
    views = guarded_views = CommandViews()
    if event.tool == SHELL_TOOL and event.command:
        views, guarded_views = _build_views(event.command)
    return MatchableCall(
        event.tool,
        views,
        guarded_views,
        find_git_root(event.cwd) if project_root is None else project_root,
        resolve_path(event.path, event.cwd),
        event.content,
        tuple(list_equivalent_folders(event.cwd) if equivalent_folders is None else equivalent_folders),
        list_searched_paths(event),
    )


def match_entry(entry: ManifestEntry, call: MatchableCall, search_pattern: PatternSearch) -> Match | None:
    """Return the match of a lesson with a call, with the text that matched; None if the lesson does not fire.

    A lesson without patterns fires on every call of its tools.
    """
    if call.tool not in entry.tools or not is_in_scope(entry.project, call.equivalent_folders):
        return None
    if not (entry.commands or entry.contents or entry.globs or entry.path_regexes):
        return Match(entry, call.tool)
    if call.tool == SHELL_TOOL:
        matched_text = _match_command(entry, call, search_pattern)
    else:
        matched_text = _match_file(entry, call, search_pattern)
    if matched_text is None:
        return None
    return Match(entry, matched_text)


def _match_command(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> str | None:
    """Return the first view of a command that a lesson's patterns match and its `unless` does not; None without one.

    With the target `full` both are searched in quoted text as well, else only in what runs.
    """
    # Blocks and holds must not stop hardwon's own commands.
    call_views = call.guarded_views if entry.delivery in ("block", "hold") else call.views
    is_full = entry.target == "full"
    views = call_views.full if is_full else call_views.executable
    for view in views:
        if not _has_match(entry.commands, view.text, search):
            continue
        if not entry.unless:
            return view.text
        exempt_text = view.source_text if is_full else extract_code(view.source_text)
        if not _has_match(entry.unless, exempt_text, search):
            return view.text
    return None


def _match_file(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> str | None:
    """Return the path of a call that a lesson's patterns match, or its content without a path; None for no match.

    Paths and content must both match, if the lesson has patterns for both.
    """
    contents = entry.contents or entry.commands  # lessons-learned also tries command patterns on edits
    if entry.globs or entry.path_regexes:
        if not _has_any_matching_path(entry, call, search):
            return None
    elif call.tool == "Read":
        return None  # a Read has no content, and the lesson names no path
    if contents and call.tool != "Read" and not _has_match(contents, call.content, search):
        return None
    if _has_match(entry.unless, call.content, search) or _has_match(entry.unless, call.absolute_path, search):
        return None
    return call.absolute_path or call.content


def _has_matching_path(entry: ManifestEntry, absolute: str, relative: str, search: PatternSearch) -> bool:
    if has_matching_glob(entry.globs, relative, absolute, search):
        return True
    return bool(absolute) and _has_match(entry.path_regexes, absolute, search)


def _has_match(patterns: Iterable[Pattern], text: str, search: PatternSearch) -> bool:
    return any(search(pattern, text) for pattern in patterns)


def _has_any_matching_path(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> bool:
    """Return whether a lesson's path patterns match the file of a call, or one of the folders that it searches."""
    for path in (call.absolute_path, *call.searched_paths):
        relative_path = _get_relative_path(path, call.project_root)
        if _has_matching_path(entry, path, relative_path, search):
            return True
    return False


def _build_views(command: str) -> tuple[CommandViews, CommandViews]:
    """Return the views of a command, and those of what is left of it without hardwon's own commands.

    A command that is too long, or that cannot be parsed, is split roughly, and then both are the same.
    """
    parsed = parse_with_code(command) if len(command) <= MAX_PARSED_CHARS else None
    if parsed is None:
        rough_views = _split_roughly(command)
        return CommandViews(rough_views, rough_views), CommandViews(rough_views, rough_views)
    simple_commands, code = parsed
    views = _build_parsed_views(command, code, simple_commands, command)
    hardwon_spans = {(part.start, part.end) for part in simple_commands if part.program == PROGRAM_NAME}
    if not hardwon_spans:
        return views, views
    other_commands = [part for part in simple_commands if part.program != PROGRAM_NAME]
    # Substitutions inside our own command run before it, and `bash -c 'hardwon …; git stash'` is one span.
    other_spans = {(part.start, part.end) for part in other_commands}
    remainder = remove_spans(command, hardwon_spans - other_spans, other_spans)
    return views, _build_parsed_views(remainder, extract_code(remainder), other_commands, command)


def _build_parsed_views(
    text: str, code: str, simple_commands: Sequence[SimpleCommand], span_source: str
) -> CommandViews:
    """Return the views of a parsed command: each simple command, then the whole; `code` is the text without quotes.

    Equal views count once.
    """
    # Simple commands come first: they are short, so a pattern that times out on the whole command was tried on them.
    executable: dict[CommandView, None] = {}
    full: dict[CommandView, None] = {}
    source_texts = list_source_texts(span_source, simple_commands)
    for part, source_text in zip(simple_commands, source_texts, strict=True):
        executable[CommandView(" ".join(part.code.split()), source_text)] = None
        full[CommandView(part.full_text, source_text)] = None
    executable[CommandView(code, text)] = None
    full[CommandView(text, text)] = None
    return CommandViews(tuple(executable), tuple(full))


def _split_roughly(command: str) -> tuple[CommandView, ...]:
    """Split a command that is too long to parse at its separators; return the pieces and the whole.

    Quoted text is not told from code here: holding a call once too often is better than missing it.
    """
    pieces = command.translate(_SEPARATORS).split("\n", _MAX_PIECES)
    views = dict.fromkeys(
        CommandView(" ".join(piece.split()), piece) for piece in pieces if len(piece) < _MAX_PIECE_CHARS
    )
    return (*views, CommandView(command, command))


def _get_relative_path(absolute: str, project_root: str) -> str:
    """Return the path relative to the project; outside it starts with `..`, which no rooted glob matches."""
    prefix = project_root.rstrip("/") + "/"
    if not absolute or absolute.startswith(prefix):
        return absolute[len(prefix) :]
    return f"../{absolute.lstrip('/')}"


def has_matching_glob(globs: Sequence[Glob], relative: str, absolute: str, search: PatternSearch) -> bool:
    """Return whether the globs include a file, given by both of its paths.

    Absolute globs are matched against the absolute path, all others against `relative`, which starts with `../` for a
    file outside the project.
    """
    relative_globs = [glob for glob in globs if not glob.is_absolute]
    if _is_included(relative_globs, relative, search):
        return True
    absolute_globs = [glob for glob in globs if glob.is_absolute]
    return _is_included(absolute_globs, absolute, search)


def _is_included(globs: Sequence[Glob], path: str, search: PatternSearch) -> bool:
    """Return whether the globs include a path, or a folder above it; False without globs.

    As in gitignore, the last matching glob decides about each folder, and everything in an included folder is included.
    """
    if not globs:
        return False
    for prefix in _iter_prefixes(path):
        is_folder = prefix != path
        for glob in reversed(globs):
            if glob.folders_only and not is_folder:
                continue
            if search(Pattern(glob.source, glob.flags), prefix):
                if glob.is_include:
                    return True
                break
    return False


def _iter_prefixes(path: str) -> Iterator[str]:
    """Yield the folders above a path, outermost first, then the path; never `/` or `..`, which no glob concerns."""
    pos = 1 if path.startswith("/") else 0
    while path.startswith(_OUTSIDE, pos):
        pos += len(_OUTSIDE)
    while (pos := path.find("/", pos)) >= 0:
        yield path[:pos]
        pos += 1
    if path.rpartition("/")[2] not in ("", ".."):
        yield path
