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
    absolute_path = _resolve_path(event.path, event.cwd)
    executable, full, guarded_executable, guarded_full = _build_views(command) if command else ((), (), (), ())
    return MatchableCall(
        event.tool,
        executable,
        full,
        guarded_executable,
        guarded_full,
        project_root,
        absolute_path,
        event.content,
        tuple(equivalent_folders),
        _list_searched_paths(event),
    )


def list_call_texts(event: Event) -> list[str]:
    """Where a literal must occur for a pattern to match any view of the call, without making the views.

    What a view has and the command has not is made by leaving out quotes, backslashes and repeated blanks.
    """
    texts = [_resolve_path(event.path, event.cwd), event.content, *_list_searched_paths(event)]
    if event.tool == SHELL_TOOL:
        texts.append(event.command)
        if len(event.command) <= MAX_PARSED_CHARS:
            texts.append(" ".join(event.command.translate(_QUOTING).split()))
    return texts


def match_entry(entry: ManifestEntry, call: MatchableCall, search_pattern: PatternSearch) -> Match | None:
    if call.tool not in entry.tools or not is_in_scope(entry.project, call.equivalent_folders):
        return None
    if not (entry.commands or entry.contents or entry.globs or entry.path_regexes):
        return Match(entry, call.tool)
    matched_text = (
        _match_command(entry, call, search_pattern)
        if call.tool == SHELL_TOOL
        else _match_file(entry, call, search_pattern)
    )
    return None if matched_text is None else Match(entry, matched_text)


def _match_command(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> str | None:
    is_stopping = entry.delivery in ("block", "hold")
    if entry.target == "full":
        views = call.guarded_full_views if is_stopping else call.full_views
    else:
        views = call.guarded_executable_views if is_stopping else call.executable_views
    for view in views:
        if _has_match(entry.commands, view.text, search) and not (entry.unless and _is_called_off(entry, view, search)):
            return view.text
    return None


def _is_called_off(entry: ManifestEntry, view: CommandView, search: PatternSearch) -> bool:
    return _has_match(
        entry.unless, view.source_text if entry.target == "full" else extract_code(view.source_text), search
    )


def _match_file(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> str | None:
    contents = entry.contents or entry.commands
    if entry.globs or entry.path_regexes:
        paths = (call.absolute_path, *call.searched_paths)
        if not any(
            _has_matching_path(entry, path, _get_relative_path(path, call.project_root), search) for path in paths
        ):
            return None
    elif call.tool == "Read":
        return None  # a reading has no content, and no path was asked for
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


def _build_views(command: str) -> tuple[tuple[CommandView, ...], ...]:
    parsed = parse_with_code(command) if len(command) <= MAX_PARSED_CHARS else None
    if parsed is None:
        rough_views = _split_roughly(command)
        return rough_views, rough_views, rough_views, rough_views
    simple_commands, code = parsed
    executable, full = _build_view_pair(command, code, simple_commands)
    hardwon_spans = {(part.start, part.end) for part in simple_commands if part.program == PROGRAM_NAME}
    if not hardwon_spans:
        return executable, full, executable, full
    other_commands = [part for part in simple_commands if part.program != PROGRAM_NAME]
    # What is substituted into our own command runs before it, and `bash -c 'hardwon …; git stash'` is one span.
    other_spans = {(part.start, part.end) for part in other_commands}
    remainder = remove_spans(command, hardwon_spans - other_spans, other_spans)
    return executable, full, *_build_view_pair(remainder, extract_code(remainder), other_commands, span_source=command)


def _build_view_pair(
    command: str, code: str, simple_commands: Sequence[SimpleCommand], *, span_source: str = ""
) -> tuple[tuple[CommandView, ...], tuple[CommandView, ...]]:
    """The simple commands first: they are short, so a pattern that is slow on the whole has had its chance."""
    executable: dict[CommandView, None] = {}
    full: dict[CommandView, None] = {}
    for part in simple_commands:
        source_text = (span_source or command)[part.start : part.end]
        executable[CommandView(" ".join(part.code.split()), source_text)] = None
        full[CommandView(part.full_text, source_text)] = None
    executable[CommandView(code, command)] = None
    full[CommandView(command, command)] = None
    return tuple(executable), tuple(full)


def _split_roughly(command: str) -> tuple[CommandView, ...]:
    """A command too long to be read as a shell does: its pieces between separators, wherever they stand, and all of
    it. Quotes are not told from code here; better held once too often than not at all."""
    pieces = command.translate(_SEPARATORS).split("\n", MAX_PIECES)
    views = dict.fromkeys(
        CommandView(" ".join(piece.split()), piece) for piece in pieces if len(piece) < MAX_PIECE_CHARS
    )
    return (*views, CommandView(command, command))


def _list_searched_paths(event: Event) -> tuple[str, ...]:
    """Return the pattern of a Glob call as paths that a lesson's globs can be tried on.

    To those a star in it is a name like any other: `src/**/*.proto` lies in `src` and ends in `.proto`. As `**` may
    stand for no folder at all, the pattern is tried without it too.
    """
    if event.tool != GLOB_TOOL or not event.content or len(event.content) > MAX_GLOB_CHARS:
        return ()
    folder = join(event.cwd, event.path)
    searched_paths: dict[str, None] = {}
    for pattern in _expand_braces(event.content):
        for spelling in (pattern, pattern.replace("**/", "")):
            searched_paths[normpath(join(folder, spelling))] = None
    return tuple(searched_paths)


def _expand_braces(pattern: str) -> list[str]:
    """Return what the braces of a pattern stand for: `*.{ts,tsx}` is `*.ts` and `*.tsx`."""
    expanded: list[str] = []
    pending = [pattern]
    while pending and len(expanded) + len(pending) <= MAX_ALTERNATIVES:
        spelling = pending.pop()
        closing = spelling.find("}")
        opening = spelling.rfind("{", 0, max(closing, 0))  # the innermost pair first
        if opening < 0:
            expanded.append(spelling)
            continue
        names = spelling[opening + 1 : closing].split(",")
        pending += [f"{spelling[:opening]}{name}{spelling[closing + 1 :]}" for name in names]
    return [*expanded, *pending][:MAX_ALTERNATIVES]


def _resolve_path(path: str, cwd: str) -> str:
    return normpath(join(cwd, path)) if path else ""


def _get_relative_path(absolute: str, project_root: str) -> str:
    """The path from the project's folder; outside it begins with `..`, which no pattern from the root matches."""
    prefix = project_root.rstrip("/") + "/"
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
