"""Match tool calls with lessons, and paths with globs.

`toolNames` is a gate. Command patterns are or-ed, over the command as a whole and over each simple command in it.
For other tools path and content must both match, as far as the lesson names them. A lesson whose author wrote
patterns never matches by its tool alone.

Globs follow gitignore's rules and are compiled to regular expressions when the manifest is built. Git asks twice:
which glob is the last to match this very path, and was a folder above it included already? So a compiled glob matches
one path exactly, and `has_matching_glob` walks down from the top. Unlike gitignore's, a leading `/` is the root of the
file system. A star takes the nearest place where what follows it fits and never looks back (`(?>...)`): what follows
has a fixed length, so no other place could do better, and no glob can make a hook wait.
"""

from __future__ import annotations

from posixpath import join, normpath

from hardwon.projects import is_in_scope
from hardwon.shell.parsing import extract_code, parse_with_code, remove_spans
from hardwon.types import GLOB_TOOL, PROGRAM_NAME, SHELL_TOOL, Glob, Match, Pattern, frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hardwon.shell.parsing import SimpleCommand
    from hardwon.types import Event, ManifestEntry

    PatternSearch = Callable[[Pattern, str], bool]

MAX_PARSED_CHARS = 200_000  # characters; reading a longer command as a shell does would cost more than a hook may
MAX_PIECES, MAX_PIECE_CHARS = 2_000, 2_000  # of a command that is too long to parse
MAX_GLOB_CHARS, MAX_ALTERNATIVES = 1_000, 16  # characters of a Glob call's pattern, and spellings its braces stand for
_SEPARATORS = dict.fromkeys(map(ord, ";&|()`"), "\n")
_QUOTING = str.maketrans("", "", "'\"\\")
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
_GLOB_CHAR = "[^/]"
_GLOB_NAME = f"{_GLOB_CHAR}+"
_GLOB_FOLDER = f"(?:{_GLOB_NAME}/)"


def get_pattern_timeout(text: str) -> float:
    """Return how many seconds a pattern may take: enough for a linear one, soon over for a catastrophic one."""
    return 0.1 + len(text) / 10_000_000


@frozen
class CommandView:
    """A command, or a simple command in it, as patterns see it, and its source text, in which `unless` is searched."""

    text: str
    source_text: str


@frozen
class CommandViews:
    """The views of a command without the text of quotes and heredocs, and those with it."""

    executable: tuple[CommandView, ...] = ()
    full: tuple[CommandView, ...] = ()


@frozen
class MatchableCall:
    """A call as the patterns see it. The guarded views leave out hardwon's own commands, so that a lesson about
    `git stash` does not stop the person who lifts it."""

    tool: str
    views: CommandViews
    guarded_views: CommandViews
    project_root: str
    absolute_path: str
    content: str
    equivalent_folders: tuple[str, ...]
    searched_paths: tuple[str, ...]  # the pattern of a Glob call, as paths from the root of the file system


def prepare_call(event: Event, *, project_root: str, equivalent_folders: Sequence[str]) -> MatchableCall:
    """Return the call for matching; `equivalent_folders` are the real paths at which it counts as happening."""
    views = guarded_views = CommandViews()
    if event.tool == SHELL_TOOL and event.command:
        views, guarded_views = _build_views(event.command)
    return MatchableCall(
        event.tool,
        views,
        guarded_views,
        project_root,
        _resolve_path(event.path, event.cwd),
        event.content,
        tuple(equivalent_folders),
        _list_searched_paths(event),
    )


def list_call_texts(event: Event) -> list[str]:
    """Return the texts in which a literal must occur for a pattern to match any view of the call.

    The views themselves are not built for that: what they contain and the command does not comes from leaving out
    quotes, backslashes and repeated blanks.
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
    call_views = call.guarded_views if entry.delivery in ("block", "hold") else call.views
    is_full = entry.target == "full"
    for view in call_views.full if is_full else call_views.executable:
        if not _has_match(entry.commands, view.text, search):
            continue
        if not entry.unless:
            return view.text
        if not _has_match(entry.unless, view.source_text if is_full else extract_code(view.source_text), search):
            return view.text
    return None


def _match_file(entry: ManifestEntry, call: MatchableCall, search: PatternSearch) -> str | None:
    contents = entry.contents or entry.commands  # lessons-learned tries command patterns on edits too
    if entry.globs or entry.path_regexes:
        paths = (call.absolute_path, *call.searched_paths)
        if not any(
            _has_matching_path(entry, path, _get_relative_path(path, call.project_root), search) for path in paths
        ):
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


def _build_views(command: str) -> tuple[CommandViews, CommandViews]:
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
    # What is substituted into our own command runs before it, and `bash -c 'hardwon …; git stash'` is one span.
    other_spans = {(part.start, part.end) for part in other_commands}
    remainder = remove_spans(command, hardwon_spans - other_spans, other_spans)
    return views, _build_parsed_views(remainder, extract_code(remainder), other_commands, command)


def _build_parsed_views(
    text: str, code: str, simple_commands: Sequence[SimpleCommand], span_source: str
) -> CommandViews:
    # The simple commands come first: they are short, so a pattern that times out on the whole has been tried on them.
    executable: dict[CommandView, None] = {}
    full: dict[CommandView, None] = {}
    for part in simple_commands:
        source_text = span_source[part.start : part.end]
        executable[CommandView(" ".join(part.code.split()), source_text)] = None
        full[CommandView(part.full_text, source_text)] = None
    executable[CommandView(code, text)] = None
    full[CommandView(text, text)] = None
    return CommandViews(tuple(executable), tuple(full))


def _split_roughly(command: str) -> tuple[CommandView, ...]:
    """Return views of a command that is too long to parse: its pieces between separators, and all of it.

    Quotes are not told from code here; it is better to hold a call once too often than not at all.
    """
    pieces = command.translate(_SEPARATORS).split("\n", MAX_PIECES)
    views = dict.fromkeys(
        CommandView(" ".join(piece.split()), piece) for piece in pieces if len(piece) < MAX_PIECE_CHARS
    )
    return (*views, CommandView(command, command))


def _list_searched_paths(event: Event) -> tuple[str, ...]:
    """Return the pattern of a Glob call as paths that a lesson's globs can be tried on.

    In those a star of the call is a name like any other: `src/**/*.proto` lies in `src` and ends in `.proto`. As `**`
    may stand for no folder at all, the pattern is tried without it too.
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
    """Return the path from the project's folder; outside it begins with `..`, which no glob from the root matches."""
    prefix = project_root.rstrip("/") + "/"
    if not absolute or absolute.startswith(prefix):
        return absolute[len(prefix) :]
    return f"../{absolute.lstrip('/')}"


def has_matching_glob(globs: Sequence[Glob], relative: str, absolute: str, search: PatternSearch) -> bool:
    """Return whether the globs include a file; `relative` begins with `../` if it is outside the project."""
    return any(
        _is_included([glob for glob in globs if glob.is_absolute == is_absolute], path, search)
        for path, is_absolute in ((relative, False), (absolute, True))
    )


def _is_included(globs: Sequence[Glob], path: str, search: PatternSearch) -> bool:
    # As in gitignore: the last matching glob decides about each folder, and what is below an included one is included.
    for prefix in _iter_prefixes(path) if globs else ():
        for glob in reversed(globs):
            if not (glob.folders_only and prefix == path) and search(Pattern(glob.source, glob.flags), prefix):
                if glob.is_include:
                    return True
                break
    return False


def _iter_prefixes(path: str) -> Iterator[str]:
    """Yield the folders above a path, outermost first, and the path; neither `/` nor `..`, which no glob is about."""
    pos = 1 if path.startswith("/") else 0
    while path.startswith(_OUTSIDE, pos):
        pos += len(_OUTSIDE)
    while (pos := path.find("/", pos)) >= 0:
        yield path[:pos]
        pos += 1
    if path.rpartition("/")[2] not in ("", ".."):
        yield path


def compile_glob(glob: str, *, ignore_case: bool = False, user_home: str = "") -> Glob | None:
    """Compile a glob; None for a blank, a comment, and what can match nothing, such as a class that is not closed."""
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
    """Return `/`, `*` and `**` as they are, and everything else as a regular expression for one character."""
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
            token = _GLOB_CHAR
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
    """Return the class that opened just before `pos`, and where the glob goes on."""
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
        return _GLOB_NAME
    return _join_with_gaps(["".join(part) for part in _split_at(starred, "*")], _GLOB_CHAR)


def _compile_path(segments: list[str]) -> str:
    if segments[-1] == "**":
        segments = [*segments, _GLOB_NAME]
    *leading, last = _split_at(segments, "**")
    return _join_with_gaps(["".join(f"{name}/" for name in part) for part in leading] + ["/".join(last)], _GLOB_FOLDER)


def _join_with_gaps(parts: Sequence[str], gap: str) -> str:
    """Return the parts in this order, with any number of gaps between each two."""
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
