"""Which files a shell command writes, by a table of programs.

Programs that are not in the table are taken to read. A program that the agent writes itself is not looked into.
"""

from __future__ import annotations

import os

from hardwon.self_protection.protected_paths import expand_tilde, fill_variables, resolve_path
from hardwon.types import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hardwon.shell.parsing import ParsedCommand, SimpleCommand


@frozen
class FileWrite:
    """A path that a command writes; `removes` if what lies below it goes too; `text` is the command that does it."""

    path: str
    command_text: str
    removes: bool = False
    program: str = ""


@frozen
class WriteRule:
    """What a program writes.

    operands: `all`, `first`, `last` or none of those of its words that are no options.
    options: whose values it writes. valued: other options that have a value, which is no operand.
    only_with: it writes nothing without one of these letters or long options.
    never_with: it writes nothing with one of these.
    folder: it writes into the current folder unless one of `options` says otherwise.
    removes: it takes away what lies below its operands, too.
    """

    operands: str = ""
    options: tuple[str, ...] = ()
    options_with_value: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()
    never_with: tuple[str, ...] = ()
    writes_cwd: bool = False
    removes: bool = False


_ALL = WriteRule("all")
_INTO = ("-t", "--target-directory")
_IN_PLACE = ("-i", "--in-place", "--inplace")
_RSYNC_VALUED = ("-e", "--rsh", "-f", "--filter", "--exclude", "--include", "--exclude-from", "--include-from")
_DOWNLOAD = ("-o", "--output", "--output-dir", "--unix-socket")
WRITE_RULES: dict[str, WriteRule] = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "mv", "trash", "srm"), WriteRule("all", removes=True)),
    **dict.fromkeys(
        (
            "tee",
            "touch",
            "truncate",
            "mkdir",
            "mkfifo",
            "mknod",
            "chmod",
            "chown",
            "chgrp",
            "chattr",
            "setfacl",
            "ln",
            "link",
            "sponge",
            "ed",
            "ex",
            "vi",
            "vim",
            "nvim",
            "nano",
            "emacs",
            "fallocate",
        ),
        _ALL,
    ),
    **dict.fromkeys(
        ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz"), WriteRule("all", never_with=("-c", "-l", "-t"))
    ),
    **dict.fromkeys(("cp", "scp"), WriteRule("last", _INTO)),
    "install": WriteRule("last", _INTO, ("-m", "--mode", "-o", "--owner", "-g", "--group")),
    "rsync": WriteRule("last", options_with_value=_RSYNC_VALUED),
    **dict.fromkeys(("sed", "gsed"), WriteRule("all", options_with_value=("-e", "-f", "-l"), only_with=_IN_PLACE)),
    **dict.fromkeys(
        ("perl", "ruby"), WriteRule("all", options_with_value=("-e", "-E", "-I", "-M", "-m"), only_with=_IN_PLACE)
    ),
    **dict.fromkeys(("awk", "gawk"), WriteRule("all", options_with_value=("-v", "-F", "-f"), only_with=_IN_PLACE)),
    "yq": WriteRule("all", only_with=_IN_PLACE),
    "sort": WriteRule(options=("-o", "--output"), options_with_value=("-k", "-t", "-S", "-T")),
    "split": WriteRule("last"),
    "zip": WriteRule("first"),
    "patch": WriteRule("all", writes_cwd=True),
    "unzip": WriteRule(options=("-d",), never_with=("-l", "-p", "-t", "-v", "-Z"), writes_cwd=True),
    "curl": WriteRule(options=_DOWNLOAD, options_with_value=("-X", "-H", "-d", "-u", "-A", "-e", "-F", "-b", "-T")),
    "wget": WriteRule(options=("-O", "--output-document", "-P", "--directory-prefix"), writes_cwd=True),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _ALL),
}
_OUTPUT = WriteRule(options=("--output", "--out"))  # of whatever program
_GIT_READING = frozenset(
    (
        "",
        "status",
        "log",
        "diff",
        "show",
        "ls-files",
        "ls-tree",
        "ls-remote",
        "blame",
        "grep",
        "rev-parse",
        "rev-list",
        "cat-file",
        "shortlog",
        "describe",
        "remote",
        "branch",
        "reflog",
        "check-ignore",
        "for-each-ref",
        "name-rev",
        "help",
        "version",
        "count-objects",
        "diff-tree",
        "diff-files",
        "merge-base",
        "var",
        "config",
    )
)
_SQL_READING = frozenset(
    (
        "select",
        "explain",
        "values",
        "pragma",
        "with",
        ".schema",
        ".fullschema",
        ".tables",
        ".indexes",
        ".indices",
        ".databases",
        ".dbinfo",
        ".dump",
        ".mode",
        ".header",
        ".headers",
        ".width",
        ".nullvalue",
        ".separator",
        ".timeout",
        ".print",
        ".help",
        ".quit",
        ".exit",
        ".stats",
        ".timer",
        ".show",
    )
)
_SQL_WRITING = {"with": ("insert", "update", "delete", "replace"), "pragma": ("=",)}
_SQLITE_VALUED = ("-cmd", "-init", "-separator", "-newline", "-nullvalue", "-vfs", "-mmap", "-maxsize")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_FIND_PRINTS = ("-fprint", "-fprint0", "-fprintf", "-fls")
_STDIN = "{}"  # stands for what xargs or find puts in
_SETTERS = ("export", "declare", "typeset", "readonly", "local")
_GLOB = frozenset("*?[")
_MOST_LISTED = 2_000  # names of a folder that a pattern is tried on
_MOST_PATTERNS = 50  # of one command that are tried


def find_writes(parsed: ParsedCommand, cwd: str, home: str) -> Iterator[FileWrite]:
    """Yield each path that a command writes, in the order in which it does, following `cd` and assignments."""
    variables = {"HARDWON_HOME": home, "HOME": os.path.expanduser("~"), "PWD": cwd, "OLDPWD": cwd}
    mentioned = [value for _, value in parsed.loop_words]
    mentioned += [each for simple in parsed.simple_commands for each in simple.words[1:]]
    steps: list[tuple[int, SimpleCommand | str]] = [(simple.start, simple) for simple in parsed.simple_commands]
    steps += parsed.redirections
    steps.sort(key=lambda step: step[0])
    loop_words, patterns = list(parsed.loop_words), set[str]()
    for start, step in steps:
        while loop_words and loop_words[0][0] <= start:
            _set_loop_variable(loop_words, variables, home)
        if isinstance(step, str):
            yield FileWrite(resolve_path(step, variables["PWD"], variables), "")
            continue
        _set_variables(step, variables)
        if step.program in ("cd", "pushd"):
            _change_folder(step, variables)
            continue
        if "xargs" in (each.rpartition("/")[2] for each in step.prefix_words):
            written_names = mentioned if _writes_stdin(step) else ()
            for each in written_names:
                yield FileWrite(resolve_path(each, variables["PWD"], variables), step.full_text)
        removes = step.program in WRITE_RULES and WRITE_RULES[step.program].removes
        for written in dict.fromkeys(find_written_words(step.program, step.words)):
            for path in _match_names(resolve_path(written, variables["PWD"], variables), patterns):
                yield FileWrite(path, step.full_text, removes, step.program)


def _set_variables(simple: SimpleCommand, variables: dict[str, str]) -> None:
    assignments = [*simple.prefix_words, *(simple.words[1:] if simple.program in _SETTERS else ())]
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if equals and name.isidentifier():
            variables[name] = expand_tilde(fill_variables(value, variables))


def _set_loop_variable(loop_words: list[tuple[int, str]], variables: dict[str, str], home: str) -> None:
    """Take the words of one `for` from the list and set its variable: to a value in the home if there is one."""
    name = loop_words.pop(0)[1]
    values = []
    if loop_words and loop_words[0][1] == "in":
        loop_words.pop(0)
        # the next loop begins with a name that `in` stands behind
        while loop_words and not (len(loop_words) > 1 and loop_words[1][1] == "in"):
            values.append(resolve_path(loop_words.pop(0)[1], variables["PWD"], variables))
    in_home = [value for value in values if value.startswith(home)]
    if values:
        variables[name] = (in_home or values)[0]


def _change_folder(simple: SimpleCommand, variables: dict[str, str]) -> None:
    operands = [each for each in simple.words[1:] if not each.startswith("-") or each == "-"]
    folder = variables["OLDPWD"] if operands[:1] == ["-"] else (operands or ["~"])[0]
    variables["OLDPWD"], variables["PWD"] = variables["PWD"], resolve_path(folder, variables["PWD"], variables)


def _match_names(path: str, patterns: set[str]) -> Iterator[str]:
    """Yield the path, and what it stands for if its last part is a pattern: `~/.hard*`, `~/.claude/*`.

    `patterns` are those of the same command that were tried before.
    """
    yield path
    folder, _, pattern = path.rstrip("/").rpartition("/")
    if _GLOB.isdisjoint(pattern) or not _GLOB.isdisjoint(folder) or len(patterns) >= _MOST_PATTERNS:
        return
    patterns.add(path)
    from fnmatch import fnmatchcase  # it brings in `re`, which only a pattern pays for

    try:
        names = os.listdir(folder or "/")
    except (OSError, ValueError):
        return
    for name in names[:_MOST_LISTED]:
        if fnmatchcase(name, pattern):
            yield os.path.join(folder, name)


def _writes_stdin(simple: SimpleCommand) -> bool:
    """Tell whether the program that xargs starts writes the files that xargs reads the names of."""
    placeholder = _STDIN
    for option, value in zip(simple.prefix_words, [*simple.prefix_words[1:], ""], strict=True):
        if option.startswith(("-I", "--replace")):
            placeholder = option[2:] or value if option.startswith("-I") else _STDIN
    words = simple.words if any(placeholder in each for each in simple.words) else (*simple.words, placeholder)
    return any(placeholder in each and each in words for each in find_written_words(simple.program, words))


def find_written_words(program: str, words: Sequence[str]) -> Iterator[str]:
    """Yield those words of a simple command that name what it writes, as they stand there."""
    special = _SPECIAL.get(program)
    if special is not None:
        yield from special(words)
        return
    row = WRITE_RULES.get(program, _OUTPUT)
    # with -i the rest of the letters is its value: `-i.bak`
    options = _find_options(words, (*row.options_with_value, "-i") if row.only_with else row.options_with_value)
    if row.only_with and options.isdisjoint(row.only_with):
        return
    if not options.isdisjoint(row.never_with):
        return
    values = list(_find_values(words, row.options))
    yield from values
    if row.writes_cwd and not values:
        yield "."
    if program == "curl" and "-O" in options:
        yield "."
    operands = _find_operands(words, (*row.options, *row.options_with_value))
    if program == "rsync" and "--remove-source-files" in options:
        yield from operands
    elif row.operands == "all":
        for operand in operands:
            yield operand
            if ":" in operand:  # socat UNIX-CONNECT:PATH,fork
                yield operand.partition(":")[2].partition(",")[0]
    elif row.operands == "first":
        yield from operands[:1]
    elif row.operands == "last" and not values:
        yield from operands[-1:]
        # into a folder it goes under its own name
        yield from (os.path.join(operands[-1], os.path.basename(source.rstrip("/"))) for source in operands[:-1])
    elif row.operands == "last":
        yield from (os.path.join(value, os.path.basename(source)) for value in values for source in operands)


def _find_options(words: Sequence[str], valued: Sequence[str]) -> frozenset[str]:
    """Return the options, letters that are run together each by itself."""
    options = set()
    for each in words[1:]:
        if each == "--":
            break
        if each.startswith("--"):
            options.add(each.partition("=")[0])
        elif each.startswith("-"):
            for letter in each[1:]:
                options.add(f"-{letter}")
                if f"-{letter}" in valued:  # the rest is its value: `-es/i/x/`
                    break
    return frozenset(options)


def _find_values(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the values of these options: `-o FILE`, `-oFILE`, `-sLo FILE`, `--output FILE`, `--output=FILE`."""
    for place, each in enumerate(words[1:], 1):
        following = words[place + 1 : place + 2]
        name, equals, value = each.partition("=")
        if equals and name.startswith("--") and name in options:
            yield value
        elif each in options:
            yield from following
        elif each.startswith("-") and not each.startswith("--"):
            for position, letter in enumerate(each[1:], 2):
                if f"-{letter}" in options:
                    yield from [each[position:]] if each[position:] else following
                    break


def _find_operands(words: Sequence[str], valued: Sequence[str]) -> list[str]:
    operands, is_value, are_operands = list[str](), False, False
    for each in words[1:]:
        if is_value:
            is_value = False
        elif are_operands or not each.startswith("-") or each == "-":
            operands.append(each)
        elif each == "--":
            are_operands = True
        else:
            is_value = each in valued or (not each.startswith("--") and f"-{each[-1]}" in valued and len(each) > 2)
    return operands


def _written_by_dd(words: Sequence[str]) -> Iterator[str]:
    yield from (each[3:] for each in words if each.startswith("of="))


def _written_by_find(words: Sequence[str]) -> Iterator[str]:
    """Yield where find looks, if it deletes there or gives what it finds to a program that writes it."""
    folders = []
    for each in words[1:]:
        if each in ("-H", "-L", "-P"):
            continue
        if each[:1] in ("-", "(", "!"):
            break
        folders.append(each)
    folders = folders or ["."]
    if "-delete" in words:
        yield from folders
    for place, each in enumerate(words):
        if each in _FIND_PRINTS:
            yield from words[place + 1 : place + 2]
        if each in _FIND_RUNS:
            started = words[place + 1 :]
            end = next((index for index, part in enumerate(started) if part in (";", "+")), len(started))
            program = started[0].rpartition("/")[2] if started else ""
            if any(_STDIN in each and each in started for each in find_written_words(program, started[:end])):
                yield from folders


def _written_by_tar(words: Sequence[str]) -> Iterator[str]:
    bundled = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    options = _find_options([*words[:1], f"-{bundled}", *words[1:]], ("-f", "-C"))
    if not options.isdisjoint(("-x", "--extract", "--get")):
        yield from list(_find_values(words, ("-C", "--directory"))) or ["."]
    elif not options.isdisjoint(("-c", "-r", "-u", "--create", "--append", "--update")):
        yield from words[2:3] if "f" in bundled else _find_values(words, ("-f", "--file"))


def _written_by_git(words: Sequence[str]) -> Iterator[str]:
    """Yield the folder it works in and what it is given, unless it only shows something."""
    folder, place = ".", 1
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "-C":
            folder = "".join(words[place + 1 : place + 2])
        place += 2 if words[place] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    yield from _find_values(words, ("--output", "--work-tree"))
    if "".join(words[place : place + 1]) not in _GIT_READING:
        yield folder
        yield from _find_operands(words[place:], ("-m", "--message", "-F"))


def _written_by_sqlite(words: Sequence[str]) -> Iterator[str]:
    """Yield the database unless it is opened for reading, and the files that statements may name."""
    operands = _find_operands(words, _SQLITE_VALUED)
    commands = [*_find_values(words, ("-cmd",)), *operands[1:]]
    reads = all(map(_is_reading, commands))
    is_read_only = "-readonly" in words or "--readonly" in words
    for database in operands[:1]:
        path, _, query = database.partition("?")
        if not is_read_only and "mode=ro" not in query and "immutable=1" not in query and not (commands and reads):
            yield path if database.startswith("file:") else database
    if not reads:
        for command in commands:
            yield from command.replace("'", " ").replace('"', " ").split()


def _is_reading(sql: str) -> bool:
    lines = sql.lower().split("\n")
    dot_commands = [line for line in lines if line.lstrip().startswith(".")]
    statements = "\n".join(line for line in lines if not line.lstrip().startswith(".")).split(";")
    for statement in dot_commands + statements:
        first = "".join(statement.split()[:1])
        if first and first not in _SQL_READING:
            return False
        if any(each in statement for each in _SQL_WRITING.get(first, ())):
            return False
    return True


_SPECIAL = {
    "dd": _written_by_dd,
    "find": _written_by_find,
    "tar": _written_by_tar,
    "bsdtar": _written_by_tar,
    "git": _written_by_git,
    "sqlite3": _written_by_sqlite,
}
