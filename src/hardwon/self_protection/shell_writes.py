"""Find the files that a shell command writes, by a table of programs.

Programs that are not in the table are assumed only to read. Scripts that an agent wrote are not inspected.
"""

from __future__ import annotations

import os
from itertools import pairwise

from hardwon import paths
from hardwon.types import frozen

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hardwon.shell.parsing import LoopWord, ParsedCommand, SimpleCommand


@frozen
class FileWrite:
    """A path that a command writes; `removes` if everything below it is removed too; `text` is the command."""

    path: str
    command_text: str
    removes: bool = False
    program: str = ""


@frozen
class WriteRule:
    """The files that a program writes.

    operands: which of its operands it writes: `all`, `first`, `last` or none.
    options: options whose values it writes. options_with_value: others whose value is not an operand.
    only_with: it writes only with one of these letters or long options.
    never_with: it writes nothing with one of these.
    writes_cwd: it writes into the current folder unless one of `options` says otherwise.
    removes: it also removes everything below its operands.
    """

    operands: str = ""
    options: tuple[str, ...] = ()
    options_with_value: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()
    never_with: tuple[str, ...] = ()
    writes_cwd: bool = False
    removes: bool = False


_ALL_OPERANDS = WriteRule("all")
_PLAIN_WRITERS = """
    tee touch truncate mkdir mkfifo mknod chmod chown chgrp chattr setfacl ln link sponge
    ed ex vi vim nvim nano emacs fallocate rename prename
    """.split()
_TARGET_OPTIONS = ("-t", "--target-directory")
_IN_PLACE_OPTIONS = ("-i", "--in-place", "--inplace")
_RSYNC_VALUE_OPTIONS = ("-e", "--rsh", "-f", "--filter", "--exclude", "--include", "--exclude-from", "--include-from")
_DOWNLOAD_OPTIONS = ("-o", "--output", "--output-dir", "--unix-socket")
WRITE_RULES: dict[str, WriteRule] = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "mv", "trash", "srm"), WriteRule("all", removes=True)),
    **dict.fromkeys(_PLAIN_WRITERS, _ALL_OPERANDS),
    **dict.fromkeys(
        ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz"), WriteRule("all", never_with=("-c", "-l", "-t"))
    ),
    **dict.fromkeys(("cp", "scp"), WriteRule("last", _TARGET_OPTIONS)),
    "install": WriteRule("last", _TARGET_OPTIONS, ("-m", "--mode", "-o", "--owner", "-g", "--group")),
    "rsync": WriteRule("last", options_with_value=_RSYNC_VALUE_OPTIONS),
    **dict.fromkeys(
        ("sed", "gsed"), WriteRule("all", options_with_value=("-e", "-f", "-l"), only_with=_IN_PLACE_OPTIONS)
    ),
    **dict.fromkeys(
        ("perl", "ruby"),
        WriteRule("all", options_with_value=("-e", "-E", "-I", "-M", "-m"), only_with=_IN_PLACE_OPTIONS),
    ),
    **dict.fromkeys(
        ("awk", "gawk"), WriteRule("all", options_with_value=("-v", "-F", "-f"), only_with=_IN_PLACE_OPTIONS)
    ),
    "yq": WriteRule("all", only_with=_IN_PLACE_OPTIONS),
    "sort": WriteRule(options=("-o", "--output"), options_with_value=("-k", "-t", "-S", "-T")),
    "split": WriteRule("last"),
    "zip": WriteRule("first"),
    "patch": WriteRule("all", writes_cwd=True),
    "unzip": WriteRule(options=("-d",), never_with=("-l", "-p", "-t", "-v", "-Z"), writes_cwd=True),
    "curl": WriteRule(
        options=_DOWNLOAD_OPTIONS, options_with_value=("-X", "-H", "-d", "-u", "-A", "-e", "-F", "-b", "-T")
    ),
    "wget": WriteRule(options=("-O", "--output-document", "-P", "--directory-prefix"), writes_cwd=True),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _ALL_OPERANDS),
    **dict.fromkeys(("gpg", "gpg2", "pandoc", "gcc", "cc", "clang"), WriteRule(options=("-o", "--output"))),
    "openssl": WriteRule(options=("-out",)),
    "cpio": WriteRule(options=("-D", "--directory")),
    **dict.fromkeys(("7z", "7za", "7zz"), WriteRule(options=("-o",))),
    "csplit": WriteRule(options=("-f", "--prefix")),
    "mktemp": WriteRule("all", ("-p", "--tmpdir")),
    "script": WriteRule("all", options_with_value=("-c", "--command")),
}
_OUTPUT_RULE = WriteRule(options=("--output", "--out"))  # for programs that are not in the table
_GIT_READ_VERBS = frozenset(
    """
    status log diff show ls-files ls-tree ls-remote blame grep rev-parse rev-list cat-file shortlog describe
    remote branch reflog check-ignore for-each-ref name-rev help version count-objects diff-tree diff-files
    merge-base var config
    """.split()
)
_SQL_READ_WORDS = frozenset(
    """
    select explain values pragma with .schema .fullschema .tables .indexes .indices .databases .dbinfo .dump
    .mode .header .headers .width .nullvalue .separator .timeout .print .help .quit .exit .stats .timer .show
    """.split()
)
_SQL_WRITE_WORDS = {"with": ("insert", "update", "delete", "replace"), "pragma": ("=",)}
_SQLITE_VALUE_OPTIONS = ("-cmd", "-init", "-separator", "-newline", "-nullvalue", "-vfs", "-mmap", "-maxsize")
_FIND_RUN_OPTIONS = ("-exec", "-execdir", "-ok", "-okdir")
_FIND_NAME_TESTS = ("-name", "-iname", "-path", "-ipath", "-wholename")
_FIND_PRINT_OPTIONS = ("-fprint", "-fprint0", "-fprintf", "-fls")
_STDIN_PLACEHOLDER = "{}"  # replaced by a file name by xargs and find
_SETTERS = ("export", "declare", "typeset", "readonly", "local")
_GLOB_CHARS = frozenset("*?[")
_MAX_LISTED_NAMES = 2_000  # in a folder that a glob is tried on
_MAX_BRACE_WORDS = 100  # from the braces of one word
_MAX_PATTERNS = 50  # globs tried per command
_MAX_DEFAULT_DEPTH = 5  # `${A:-${B:-…}}`


def find_writes(parsed: ParsedCommand, cwd: str, home: str) -> Iterator[FileWrite]:
    """Yield each path that a command writes, in order, following `cd` and assignments."""
    from hardwon.shell.parsing import Redirection  # edits come to this module without parsing a command

    variables = {"HARDWON_HOME": home, "HOME": os.path.expanduser("~"), "PWD": cwd, "OLDPWD": cwd}
    # xargs may get any word of the command line as a file name.
    mentioned_words = [loop_word.word for loop_word in parsed.loop_words]
    for simple in parsed.simple_commands:
        mentioned_words += simple.words[1:]
    steps: list[SimpleCommand | Redirection] = [*parsed.simple_commands, *parsed.redirections]
    # In the order of the text, because `cd` and assignments count for what follows them.
    steps.sort(key=lambda step: step.start)
    loop_words = list(parsed.loop_words)
    patterns = set[str]()
    for step in steps:
        while loop_words and loop_words[0].start <= step.start:
            _set_loop_variable(loop_words, variables, home)
        if isinstance(step, Redirection):
            yield FileWrite(resolve_path(step.path, variables["PWD"], variables), command_text="")
            continue
        _set_variables(step, variables)
        if step.program in ("cd", "pushd"):
            _change_folder(step, variables)
            continue
        is_run_by_xargs = any(word.rpartition("/")[2] == "xargs" for word in step.prefix_words)
        if is_run_by_xargs and _is_stdin_written(step):
            for word in mentioned_words:
                yield FileWrite(resolve_path(word, variables["PWD"], variables), step.full_text)
        yield from _find_program_writes(step, variables, patterns)
        if step.program == "find" and _finds_own_files(step.words, variables, home):
            yield FileWrite(home, step.full_text, removes=True, program="find")


def _find_program_writes(
    simple: SimpleCommand, variables: Mapping[str, str], patterns: set[str]
) -> Iterator[FileWrite]:
    """Yield what a program writes by its own arguments, with braces and globs expanded.

    `patterns` are the globs that the whole command has tried so far, since their number is limited.
    """
    rule = WRITE_RULES.get(simple.program)
    removes = rule is not None and rule.removes
    for written_word in dict.fromkeys(_find_written_words(simple.program, simple.words)):
        for spelling in _expand_braces(written_word):
            path_pattern = resolve_path(spelling, variables["PWD"], variables)
            for path in _match_names(path_pattern, patterns):
                yield FileWrite(path, simple.full_text, removes, simple.program)


def _set_variables(simple: SimpleCommand, variables: dict[str, str]) -> None:
    """Take over the assignments of a command: `A=1 …` before a program, `export A=1`."""
    assignments = list(simple.prefix_words)
    if simple.program in _SETTERS:
        assignments += simple.words[1:]
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if equals and name.isidentifier():
            variables[name] = _expand_tilde(_fill_variables(value, variables))


def _set_loop_variable(loop_words: list[LoopWord], variables: dict[str, str], home: str) -> None:
    """Take the words of one `for` from the list; set its variable to its first value in the home, else to its first."""
    name = loop_words.pop(0).word
    values = []
    if _is_in(loop_words, 0):
        loop_words.pop(0)
        # A name followed by `in` begins the next loop.
        while loop_words and not _is_in(loop_words, 1):
            value = loop_words.pop(0).word
            values.append(resolve_path(value, variables["PWD"], variables))
    if not values:
        return
    values_in_home = [value for value in values if value.startswith(home)]
    variables[name] = values_in_home[0] if values_in_home else values[0]


def _is_in(loop_words: Sequence[LoopWord], index: int) -> bool:
    """Return whether the word at this place is the `in` of a loop."""
    return index < len(loop_words) and loop_words[index].word == "in"


def _change_folder(simple: SimpleCommand, variables: dict[str, str]) -> None:
    """Follow `cd FOLDER`, `cd -` to the folder before, and `cd` alone to the person's own."""
    operands = [word for word in simple.words[1:] if not word.startswith("-") or word == "-"]
    folder = operands[0] if operands else "~"
    if folder == "-":
        folder = variables["OLDPWD"]
    old_folder = variables["PWD"]
    variables["PWD"] = resolve_path(folder, old_folder, variables)
    variables["OLDPWD"] = old_folder


def resolve_path(word: str, cwd: str, variables: Mapping[str, str]) -> str:
    """Return the absolute path that a shell word or a tool's field names, with links and `..` unresolved.

    A word with an unknown beginning, such as `$(mktemp)` or `$UNSET/x`, is returned unchanged.
    """
    word = _fill_variables(word, variables).removeprefix("file://").removeprefix("file:")
    word = _expand_tilde(word)
    return word if word.startswith("$") else os.path.join(cwd, word)


def _expand_tilde(word: str) -> str:
    try:
        return os.path.expanduser(word)
    except ValueError:  # no user can have such a name
        return word


def _fill_variables(word: str, variables: Mapping[str, str], depth: int = 0) -> str:
    """Expand `$NAME`, `${NAME}` and `${NAME:-default}`; unset variables stay as written.

    `depth` is the number of defaults that the word is nested in.
    """
    if "$" not in word or depth > _MAX_DEFAULT_DEPTH:
        return word
    parts = []
    position = 0  # everything before it has been copied or expanded
    while (start := word.find("$", position)) >= 0:
        parts.append(word[position:start])
        in_braces = word.startswith("${", start)
        name_start = start + len("${" if in_braces else "$")
        name_end = name_start
        while name_end < len(word) and (word[name_end].isalnum() or word[name_end] == "_"):
            name_end += 1
        position = _find_closing_brace(word, name_end) if in_braces else name_end
        name = word[name_start:name_end]
        value = variables.get(name) or os.environ.get(name, "")
        # What follows the name in the braces: `:-default`, `-default`, `:=default` or `=default`.
        modifier = word[name_end : position - 1].lstrip(":") if in_braces else ""
        if value:
            parts.append(value)
        elif modifier.startswith(("-", "=")):
            default = modifier[1:]
            parts.append(_fill_variables(default, variables, depth + 1))
        else:
            parts.append(word[start:position])
    parts.append(word[position:])
    return "".join(parts)


def _find_closing_brace(word: str, start: int) -> int:
    """Return the position after the brace that closes the one before `start`, or the end."""
    level = 1
    for position in range(start, len(word)):
        if word[position] == "{":
            level += 1
        elif word[position] == "}":
            level -= 1
        if level == 0:
            return position + 1
    return len(word)


def _expand_braces(word: str) -> list[str]:
    """Return the words that `~/.{hardwon,x}` stands for; the word itself if it has no braces, or too many."""
    words = [word]
    position = 0
    while position < len(words) <= _MAX_BRACE_WORDS:
        part = words[position]
        start = part.find("{")
        while start > 0 and part[start - 1] == "$":  # `${NAME}` is a variable
            start = part.find("{", start + 1)
        end = _find_closing_brace(part, start + 1)
        choices = _split_choices(part[start + 1 : end - 1]) if start >= 0 else []
        if len(choices) < len("ab"):
            position += 1
        else:
            words[position : position + 1] = [part[:start] + choice + part[end:] for choice in choices]
    return words


def _split_choices(text: str) -> list[str]:
    """Split at the commas that stand in no braces."""
    choices = [""]
    level = 0
    for char in text:
        if char == "{":
            level += 1
        elif char == "}":
            level -= 1
        if char == "," and not level:
            choices.append("")
        else:
            choices[-1] += char
    return choices


def _finds_own_files(words: Sequence[str], variables: Mapping[str, str], home: str) -> bool:
    """Return whether find changes files in a folder above the home, and looks for names that hardwon's files have."""
    patterns = [value for test, value in pairwise(words) if test in _FIND_NAME_TESTS]
    if not any(_is_own_file_pattern(pattern, home) for pattern in patterns):
        return False
    for searched_folder in _find_find_writes(words):
        folder = resolve_path(searched_folder, variables["PWD"], variables)
        if home.startswith(os.path.normpath(folder).rstrip("/") + "/"):
            return True
    return False


def _is_own_file_pattern(pattern: str, home: str) -> bool:
    """Return whether find's pattern for a name or a path matches one of hardwon's files, or the home itself."""
    from fnmatch import fnmatch  # imports `re`, which only find needs

    for name in (paths.LESSONS, paths.CONFIG, paths.DATABASE, os.path.basename(home)):
        if fnmatch(name, pattern) or fnmatch(os.path.join(home, name), pattern):
            return True
    return False


def _match_names(path: str, patterns: set[str]) -> Iterator[str]:
    """Yield the path and, if its last part is a glob such as `~/.hard*`, the paths that match.

    `patterns` are the globs of the same command that were already tried.
    """
    yield path
    folder, _, pattern = path.rstrip("/").rpartition("/")
    if _GLOB_CHARS.isdisjoint(pattern) or not _GLOB_CHARS.isdisjoint(folder) or len(patterns) >= _MAX_PATTERNS:
        return
    patterns.add(path)
    from fnmatch import fnmatchcase  # imports `re`, which only a glob needs

    try:
        names = os.listdir(folder or "/")
    except (OSError, ValueError):
        return
    for name in names[:_MAX_LISTED_NAMES]:
        if fnmatchcase(name, pattern):
            yield os.path.join(folder, name)


def _is_stdin_written(simple: SimpleCommand) -> bool:
    """Return whether the program that xargs starts writes the files whose names xargs reads."""
    placeholder = _STDIN_PLACEHOLDER
    # Each word of the prefix with the one after it, which may be the option's value.
    for option, value in zip(simple.prefix_words, [*simple.prefix_words[1:], ""], strict=True):
        if option.startswith("-I"):  # `-I NAME` or `-INAME`
            placeholder = option[2:] or value
        elif option.startswith("--replace"):
            placeholder = _STDIN_PLACEHOLDER
    words = simple.words
    if not any(placeholder in word for word in words):
        words = (*words, placeholder)
    return any(placeholder in word and word in words for word in _find_written_words(simple.program, words))


def _find_written_words(program: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a simple command that name the files it writes, unexpanded."""
    finder = _WRITE_FINDERS.get(program)
    if finder is not None:
        yield from finder(words)
        return
    rule = WRITE_RULES.get(program, _OUTPUT_RULE)
    options_with_value = rule.options_with_value
    if rule.only_with:
        options_with_value = (*options_with_value, "-i")  # the rest of the letters is its value: `-i.bak`
    options = _find_options(words, options_with_value)
    if rule.only_with and options.isdisjoint(rule.only_with):
        return
    if not options.isdisjoint(rule.never_with):
        return
    values = list(_find_values(words, rule.options))
    yield from values
    if rule.writes_cwd and not values:
        yield "."
    if program == "curl" and "-O" in options:
        yield "."
    operands = _find_operands(words, (*rule.options, *rule.options_with_value))
    if program == "rsync" and "--remove-source-files" in options:
        yield from operands
    else:
        yield from _find_written_operands(rule, operands, folders=values)


def _find_written_operands(rule: WriteRule, operands: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """Yield the operands that a program writes, and the copies it makes; `folders` are given by an option."""
    if rule.operands == "all":
        for operand in operands:
            yield operand
            _, colon, address = operand.partition(":")
            if colon:  # socat UNIX-CONNECT:PATH,fork
                yield address.partition(",")[0]
    elif rule.operands == "first":
        yield from operands[:1]
    elif rule.operands == "last" and not folders:
        yield from operands[-1:]
        # If the last operand is a folder, each source goes into it under its own name.
        for source in operands[:-1]:
            yield os.path.join(operands[-1], os.path.basename(source.rstrip("/")))
    elif rule.operands == "last":  # `-t FOLDER` names the folder instead
        for folder in folders:
            for source in operands:
                yield os.path.join(folder, os.path.basename(source))


def _find_options(words: Sequence[str], options_with_value: Sequence[str]) -> frozenset[str]:
    """Return the options, with combined letters split up."""
    options = set()
    for word in words[1:]:
        if word == "--":
            break
        if word.startswith("--"):
            options.add(word.partition("=")[0])
        elif word.startswith("-"):
            for letter in word[1:]:
                options.add(f"-{letter}")
                if f"-{letter}" in options_with_value:  # the rest is its value: `-es/i/x/`
                    break
    return frozenset(options)


def _find_values(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the values of these options: `-o FILE`, `-oFILE`, `-sLo FILE`, `--output FILE`, `--output=FILE`."""
    for index, word in enumerate(words[1:], 1):
        following = words[index + 1 : index + 2]
        name, equals, value = word.partition("=")
        if equals and name.startswith("--") and name in options:
            yield value
        elif word in options:
            yield from following
        elif word.startswith("-") and not word.startswith("--"):
            for position, letter in enumerate(word[1:], 2):
                if f"-{letter}" in options:
                    rest = word[position:]
                    if rest:
                        yield rest
                    else:
                        yield from following
                    break


def _find_operands(words: Sequence[str], options_with_value: Sequence[str]) -> list[str]:
    """Return the words of a command that are neither options nor values of options."""
    operands = list[str]()
    is_value = False
    options_ended = False
    for word in words[1:]:
        if is_value:
            is_value = False
        elif options_ended or not word.startswith("-") or word == "-":
            operands.append(word)
        elif word == "--":
            options_ended = True
        else:
            # The value of combined letters is the next word if the last letter takes one: `-vo FILE`.
            is_combined = len(word) > 2 and not word.startswith("--")
            is_value = word in options_with_value or (is_combined and f"-{word[-1]}" in options_with_value)
    return operands


def _find_second_operand(words: Sequence[str]) -> Iterator[str]:
    """Yield the second operand, which names the output of programs such as `uniq IN OUT`."""
    operands = _find_operands(words, options_with_value=("-f", "-s", "-w", "-c", "-l", "-o", "-g"))
    yield from operands[1:2]


def _find_dd_writes(words: Sequence[str]) -> Iterator[str]:
    yield from (word[3:] for word in words if word.startswith("of="))


def _find_find_writes(words: Sequence[str]) -> Iterator[str]:
    """Yield the folders that find searches, if it deletes files there or runs a program that writes them."""
    folders = []
    for word in words[1:]:
        if word in ("-H", "-L", "-P"):
            continue
        if word[:1] in ("-", "(", "!"):
            break
        folders.append(word)
    folders = folders or ["."]
    if "-delete" in words:
        yield from folders
    for position, word in enumerate(words):
        if word in _FIND_PRINT_OPTIONS:
            yield from words[position + 1 : position + 2]
        if word in _FIND_RUN_OPTIONS and _writes_placeholder(words[position + 1 :]):
            yield from folders


def _writes_placeholder(run_words: Sequence[str]) -> bool:
    """Return whether the program that find runs with these words, up to `;` or `+`, writes the file named `{}`."""
    end_marks = [index for index, word in enumerate(run_words) if word in (";", "+")]
    end = end_marks[0] if end_marks else len(run_words)
    program = run_words[0].rpartition("/")[2] if run_words else ""
    for written_word in _find_written_words(program, run_words[:end]):
        # A name that was built from the placeholder, such as that of a copy in another folder, is another file's.
        if _STDIN_PLACEHOLDER in written_word and written_word in run_words:
            return True
    return False


def _find_tar_writes(words: Sequence[str]) -> Iterator[str]:
    """Yield the folder that tar extracts into, or the archive that it writes."""
    # The options may be letters without a dash: `tar xf FILE`.
    bundled = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    options = _find_options([*words[:1], f"-{bundled}", *words[1:]], ("-f", "-C"))
    if not options.isdisjoint(("-x", "--extract", "--get")):
        folders = list(_find_values(words, ("-C", "--directory")))
        yield from folders or ["."]
    elif not options.isdisjoint(("-c", "-r", "-u", "--create", "--append", "--update")):
        if "f" in bundled:
            yield from words[2:3]  # the archive directly follows the letters
        else:
            yield from _find_values(words, ("-f", "--file"))


def _find_git_writes(words: Sequence[str]) -> Iterator[str]:
    """Yield git's working folder and its arguments, unless the command only shows something."""
    folder = "."
    position = 1  # of the verb, once the options before it are skipped
    while position < len(words) and words[position].startswith("-"):
        has_value = words[position] in ("-C", "-c", "--git-dir", "--work-tree")
        if words[position] == "-C":
            folder = "".join(words[position + 1 : position + 2])
        position += 2 if has_value else 1
    yield from _find_values(words, ("--output", "--work-tree"))
    verb = words[position] if position < len(words) else ""
    if verb and verb not in _GIT_READ_VERBS:
        yield folder
        yield from _find_operands(words[position:], ("-m", "--message", "-F"))


def _find_sqlite_writes(words: Sequence[str]) -> Iterator[str]:
    """Yield the database if it may be written, and each word of statements that do more than read: it may be a file."""
    operands = _find_operands(words, _SQLITE_VALUE_OPTIONS)
    databases = operands[:1]
    statements = operands[1:]
    commands = [*_find_values(words, ("-cmd",)), *statements]
    only_reads = all(map(_is_reading_sql, commands))
    has_read_only_option = "-readonly" in words or "--readonly" in words
    for database in databases:
        path, _, query = database.partition("?")
        is_read_only = has_read_only_option or "mode=ro" in query or "immutable=1" in query
        # If the command line has no statements, they come from the input, which may write.
        is_only_read = bool(commands) and only_reads
        if not is_read_only and not is_only_read:
            yield path if database.startswith("file:") else database
    if not only_reads:
        for command in commands:
            yield from command.replace("'", " ").replace('"', " ").split()


def _is_reading_sql(sql: str) -> bool:
    """Return whether each statement and dot command of sqlite3 only reads."""
    dot_commands = []  # each ends with its line
    other_lines = []
    for line in sql.lower().split("\n"):
        if line.lstrip().startswith("."):
            dot_commands.append(line)
        else:
            other_lines.append(line)
    statements = "\n".join(other_lines).split(";")
    for statement in dot_commands + statements:
        first_word = next(iter(statement.split()), "")
        if first_word and first_word not in _SQL_READ_WORDS:
            return False
        if any(word in statement for word in _SQL_WRITE_WORDS.get(first_word, ())):
            return False
    return True


_WRITE_FINDERS = {
    "dd": _find_dd_writes,
    "find": _find_find_writes,
    "tar": _find_tar_writes,
    "bsdtar": _find_tar_writes,
    "git": _find_git_writes,
    "sqlite3": _find_sqlite_writes,
    "uniq": _find_second_operand,
    "xxd": _find_second_operand,
}
