"""Find the simple commands inside a shell command, the programs they start, and which part of the text is code.

`git commit -m "never git stash"` stashes nothing; `cd x && sudo git stash` does, and `bash -c 'git stash'` too. A
lesson's regex can tell them apart only on the simple commands, without the text of quotes and heredocs. One pass finds
both: the simple commands, and the cuts, which are the stretches that are not code.

Invalid shell syntax is read as well as possible, never rejected; deeper nesting than 10 levels is text. In a word's
value `$()` stands for a command's output; the commands inside are listed at their position, and not again from the
string that contains them. A parameter keeps its name: `$HOME`, `${HOME}`.
"""

from __future__ import annotations

from hardwon.types import frozen, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_DEPTH = 10
MAX_SIMPLE_COMMANDS = 500
_MAX_CACHED_CHARS = 50_000  # characters
_BLANK = frozenset(" \t")
_SPECIAL = frozenset(" \t\n;&|()<>\\'\"$`")
# zsh writes `>!` for `>|`; in bash that names a file `!`.
_REDIRECTIONS = tuple("<<< <<- << <> <& < &>> &>| &>! &> >>| >>! >> >& >| >! >".split())

# For each opening: the characters with a meaning inside, first the one that ends it; what a backslash makes of some.
_QUOTES: dict[str, tuple[str, dict[str, str]]] = {
    "'": ("'", {}),
    "$'": ("'\\", {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}),
    '"': ('"\\$`}', {"$": "$", "`": "`", '"': '"', "\\": "\\", "\n": ""}),
    "${": ("}\\$`", {}),
    "((": (")(\\$`", {}),
}
# A reserved word in command position is skipped; some put the words after it in a mode, which a word ends.
_RESERVED = {"for": "for", "select": "for", "case": "case", "function": "name", "!": "", "{": "", "}": "", "in": ""}
_RESERVED |= dict.fromkeys(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac", "coproc"), "")
_MODE_ENDS = {"for": ("do", ""), "case": ("in", "pattern"), "pattern": ("esac", "")}
SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
# What these change lasts for the commands after them in the same call.
SETUP_PROGRAMS = frozenset(("cd", "pushd", "source", ".", "export"))
# The options that take a value, for what starts a program named among its arguments.
_WRAPPERS = {
    "sudo": "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot",
    "doas": "-u -C",
    "env": "-u -C --unset --chdir",
    "time": "-f -o --format --output",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p -P -u --class --classdata",
    "stdbuf": "-i -o -e --input --output --error",
    "timeout": "-s -k --signal --kill-after",
    "xargs": "-n -I -P -L -s -d -E -a --max-args --max-procs --max-chars --delimiter --arg-file",
    "exec": "-a",
    "watch": "-n -q --interval --equexit",
    "caffeinate": "-t -w",
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "busybox"), ""),
}
_FINAL_OPTIONS = {"command": ("-v", "-V"), "env": ("-S", "--split-string"), "sudo": ("-l", "-e", "-v", "--list")}
_SSH_VALUE_OPTIONS = "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"
_LAUNCHER_VALUE_OPTIONS = "-p -w --with --from --spec --python --project --directory --extra --group"


@frozen
class SimpleCommand:
    """One program with its arguments; `prefix_words` are assignments and wrappers, which the span covers too."""

    program: str
    code: str
    full_text: str
    start: int
    end: int
    prefix_words: tuple[str, ...]
    words: tuple[str, ...]


def parse_simple_commands(command: str) -> list[SimpleCommand]:
    """Return every simple command in reading order, an enclosing one before those inside it."""
    return _scan_command(command, depth=0).simples


def list_source_texts(command: str, simple_commands: Iterable[SimpleCommand]) -> list[str]:
    """Return the text of each simple command, after that of `cd`, `source` and `export` commands before it."""
    setup_texts: list[str] = []
    source_texts: list[str] = []
    for simple in simple_commands:
        text = command[simple.start : simple.end]
        source_texts.append("\n".join([*setup_texts, text]))
        if simple.program in SETUP_PROGRAMS:
            setup_texts.append(text)
    return source_texts


@frozen
class Redirection:
    """A file that is written, with its position in the same text as the spans of the simple commands."""

    start: int
    path: str


@frozen
class LoopWord:
    """A word between `for` and `do`, which is the name, `in` or a value, with its position in the same text."""

    start: int
    word: str


@frozen
class ParsedCommand:
    """The simple commands, the redirections that write, and the words of `for` loops."""

    simple_commands: tuple[SimpleCommand, ...]
    redirections: tuple[Redirection, ...]
    loop_words: tuple[LoopWord, ...]


def parse_with_code(command: str) -> tuple[list[SimpleCommand], str] | None:
    """Return the simple commands and the code in one pass; None if there are more than MAX_SIMPLE_COMMANDS."""
    scan = _scan_once(command)
    if scan is None:
        return None
    return scan.simples, _render_code(scan, start=0, end=len(command), cut=0, full=False)


def parse_command(command: str) -> ParsedCommand | None:
    """Return the programs and redirections of a command; None if it has more than MAX_SIMPLE_COMMANDS."""
    scan = _scan_once(command)
    if scan is None:
        return None
    return ParsedCommand(tuple(scan.simples), tuple(scan.redirections), tuple(scan.loop_words))


_last_scan: tuple[str, _Scan | None] = ("", None)


def _scan_once(command: str) -> _Scan | None:
    """Scan a command, or return the last scan if it is the same command.

    Each call is scanned twice: by self-protection, then by the matching of lessons.
    """
    global _last_scan
    last_command, last_scan = _last_scan
    if command == last_command and last_scan is not None:
        return last_scan
    try:
        scan = _scan_command(command, depth=0, max_simples=MAX_SIMPLE_COMMANDS)
    except _TooManyCommands:
        return None
    if len(command) <= _MAX_CACHED_CHARS:
        _last_scan = (command, scan)
    return scan


def extract_code(command: str) -> str:
    """Return the command as written, without comments and the text of quotes and heredocs."""
    scan = _scan_command(command, depth=0)
    return _render_code(scan, start=0, end=len(command), cut=0, full=False)


def remove_spans(command: str, spans: Iterable[tuple[int, int]], spans_to_keep: Iterable[tuple[int, int]] = ()) -> str:
    """Return the command without these spans but with those to keep inside them; heredocs go with their command."""
    gone = bytearray(len(command))
    for start, end in {(max(start, 0), max(end, 0)) for start, end in spans}:
        gone[start:end] = b"\1" * len(gone[start:end])
    for start, end in spans_to_keep:
        gone[start:end] = bytes(len(gone[start:end]))
    for operator, start, end in _scan_command(command, depth=0).heredocs:
        if gone[operator]:
            gone[start:end] = b"\1" * (end - start)
    return "".join(c for c, out in zip(command, gone, strict=True) if not out)


class _TooManyCommands(Exception):
    """More simple commands than may be listed."""


class _Scan:
    """The results of one pass. The functions below take a position in the text and return the next."""

    def __init__(self, text: str, max_simples: int) -> None:
        self.max_simples = max_simples
        # One newline more than `size` counts: a look at the next character always finds one, and a word ends there.
        self.text = text + "\n"
        self.size = len(text)
        self.simples: list[SimpleCommand] = []
        self.cuts: list[tuple[int, int, bool]] = []  # start, end, left out of `full` as well
        self.pending: list[_Word] = []  # heredocs whose bodies begin after the next newline
        self.heredocs: list[tuple[int, int, int]] = []  # operator, start of the body, end of the closing line
        self.redirections: list[Redirection] = []
        self.loop_words: list[LoopWord] = []


class _Word:
    """A word of a simple command, or a redirection with its target if `op` is set."""

    __slots__ = ("cut", "end", "op", "runs", "start", "value")

    def __init__(self, start: int, end: int, cut: int, value: str, op: str = "") -> None:
        self.start = start
        self.end = end
        self.value = value
        self.op = op
        self.cut = cut  # index of the first cut that can lie in it
        self.runs = False  # a heredoc that a shell reads as commands


def _scan_command(text: str, depth: int, *, max_simples: int = 1 << 30) -> _Scan:
    scan = _Scan(text, max_simples)
    _read_commands(scan, 0, closer="", depth=depth)
    scan.simples.sort(key=lambda simple: simple.start)
    return scan


def _read_commands(scan: _Scan, i: int, closer: str, depth: int) -> int:
    """Record the commands from `i` up to `closer`, or up to the end if it is empty; return the position after it.

    `mode` is what the next words are: "for", "case", "name" and "pattern" begin after reserved words, and their words
    are grammar; "" is a command.
    """
    words: list[_Word] = []  # of the command that is being read
    text = scan.text
    mode = ""
    open_parens = 0
    while i < scan.size:
        c = text[i]
        if c in _BLANK:
            i += 1
        elif c == "#" or (c == "\\" and text[i + 1] == "\n"):
            i = _skip_unseen(scan, i, closer)
        elif c == closer and (c == "`" or (not open_parens and mode != "pattern")):  # in `case`, `)` ends a pattern
            break
        elif c in ";|\n" or (c == "&" and text[i + 1] != ">"):
            _record_command(scan, words, depth)
            if c == ";" and text[i + 1] in ";&":  # ends a branch of `case`
                mode = "pattern"
            elif mode in ("for", "name"):
                mode = ""
            i = _read_heredocs(scan, i + 1, depth) if c == "\n" else i + 1
        elif c == "(" and text[i + 1] == "(" and mode != "pattern":
            i = _read_quoted(scan, i + len("(("), opening="((", parts=[], depth=depth)
        elif c in "()":
            if c == "(" and text[i + 1] == ")":  # the word before is a function's name
                words.clear()
            _record_command(scan, words, depth)
            if mode == "pattern":
                mode = "" if c == ")" else mode
            elif c == "(":
                open_parens += 1
            elif open_parens:
                open_parens -= 1
            i += 1
        else:
            i, mode = _read_next_word(scan, i, closer, words, mode, depth)
    _record_command(scan, words, depth)
    return min(i + 1, scan.size)


def _read_next_word(scan: _Scan, i: int, closer: str, words: list[_Word], mode: str, depth: int) -> tuple[int, str]:
    """Read a word or redirection into `words`, unless it is grammar; return the position and mode that follow."""
    word = _read_word(scan, i, closer, depth)
    is_bare = scan.text[i : word.end] == word.value
    if word.end == i or (is_bare and word.value.isdigit() and scan.text[word.end] in "<>"):
        words.append(_read_redirection(scan, i, word.end, closer, depth))
        return words[-1].end, mode
    if mode:
        if mode == "for":
            scan.loop_words.append(LoopWord(i, word.value))
        ending_word, next_mode = _MODE_ENDS.get(mode, (word.value, ""))  # a mode that is not in it lasts for one word
        if word.value == ending_word:
            mode = next_mode
        return word.end, mode
    is_first = not words or (len(words) == 1 and words[0].value == "time")
    if is_first and is_bare and word.value in _RESERVED:
        words.clear()
        return word.end, _RESERVED[word.value]
    words.append(word)
    if is_first and is_bare and word.value == "[[":
        test_end = _skip_until(scan, word.end, "]]", closer, depth)
        words.append(_Word(word.end, test_end, word.cut, value=""))
    return words[-1].end, mode


def _read_redirection(scan: _Scan, start: int, i: int, closer: str, depth: int) -> _Word:
    """Read the redirection whose operator is at `i`; `start` is before its number, as in `2>`.

    A file that it writes is recorded, and a heredoc waits for its body.
    """
    op = next(op for op in _REDIRECTIONS if scan.text.startswith(op, i))
    op_end = i + len(op)
    target_start = op_end
    while scan.text[target_start] in _BLANK:
        target_start += 1
    target = _read_word(scan, target_start, closer, depth)
    has_target = target.end > target_start
    redirection = _Word(start, target.end if has_target else op_end, target.cut, target.value, op)
    is_descriptor = op == ">&" and (target.value.isdigit() or target.value == "-")
    if ">" in op and not is_descriptor:
        scan.redirections.append(Redirection(start, target.value))
    if op in ("<<", "<<-") and has_target:
        del scan.cuts[target.cut :]  # a delimiter's quotes hold no text
        scan.pending.append(redirection)
    return redirection


def _read_heredocs(scan: _Scan, i: int, depth: int) -> int:
    """Return the position after the heredoc bodies that begin at `i`, in the order of their operators."""
    text = scan.text
    pending = scan.pending
    scan.pending = []
    for heredoc in pending:
        start = i
        end = i
        while i < scan.size:
            end = text.find("\n", i)
            line = text[i:end]
            if heredoc.op == "<<-":
                line = line.lstrip("\t")
            if line == heredoc.value:  # the delimiter
                break
            i = min(end + 1, scan.size)
        scan.heredocs.append((heredoc.start, start, end))
        if heredoc.runs and depth < _MAX_DEPTH:
            whole_size = scan.size
            scan.size = i - 1 if i < scan.size else i  # a newline follows the body, as it does the whole text
            _read_commands(scan, start, closer="", depth=depth + 1)
            scan.size = whole_size
        else:
            scan.cuts.append((start, i, False))  # not code, but part of the full text
        i = min(end + 1, scan.size)
    return i


def _skip_unseen(scan: _Scan, i: int, closer: str) -> int:
    """Return the position after a comment, or after a continued line's end and the next line's indent."""
    text = scan.text
    end = i + 2
    if text[i] == "#":
        end = next(k for k in range(i, scan.size + 1) if text[k] == "\n" or text[k] == closer == "`")
    while text[i] == "\\" and text[i - 1 : i] in _BLANK and text[end : end + 1] in _BLANK:
        end += 1
    scan.cuts.append((i, end, True))
    return min(end, scan.size)


def _read_word(scan: _Scan, i: int, closer: str, depth: int) -> _Word:
    """Return the word at `i`, with no length if there is none."""
    text = scan.text
    start = i
    cut = len(scan.cuts)
    parts = [""]
    while i < scan.size:
        c = text[i]
        if c not in _SPECIAL:
            piece_start = i
            while text[i] not in _SPECIAL:
                i += 1
            parts.append(text[piece_start:i])
        elif c in "\\'\"$" or (c == "`" and closer != c) or (c in "<>" and text[i + 1] == "("):
            i = _read_piece(scan, i, parts, depth)
        elif c == "(" and i > start and text[i - 1] in "=?*+@" and depth < _MAX_DEPTH:  # an array or a glob
            i = _skip_until(scan, i + 1, ")", closer, depth + 1)
            parts.append("()")
        else:
            break
    return _Word(start, i, cut, "".join(parts))


def _skip_until(scan: _Scan, i: int, closing: str, closer: str, depth: int) -> int:
    """Return the position after `closing`, in brackets where `&&`, `(` or `<` have another meaning.

    The end of the text or of surrounding backticks ends them too.
    """
    while i < scan.size and (scan.text[i] != "`" or closer != "`"):
        word_start = i
        i = max(_read_word(scan, i, closer, depth).end, i + 1)
        if scan.text[word_start:i] == closing:
            break
    return i


def _read_piece(scan: _Scan, i: int, parts: list[str], depth: int) -> int:
    """Read a quoted or expanded piece of a word into `parts`; return the position after it."""
    char = scan.text[i]
    pair = scan.text[i : i + 2]
    if pair == "\\\n":
        return _skip_unseen(scan, i, closer="")
    if char == "\\":
        parts.append(pair[1])
        return i + 2
    if char == "$" and pair[1] not in "({'\"":  # a parameter keeps its name: `$HOME`
        parts.append("$")
        return i + 1
    if pair in ("$'", '$"'):
        scan.cuts.append((i, i + 1, False))
        opening = "$'" if pair == "$'" else '"'  # in `$"` a backslash means what it means in `"`
        return _read_quoted(scan, i + 2, opening, parts, depth)
    if char in "'\"":
        return _read_quoted(scan, i + 1, char, parts, depth)
    if pair == "${":
        inside = [""]
        end = _read_quoted(scan, i + 2, pair, inside, depth)
        parts.append("${" + "".join(inside) + "}")
        return end
    parts.append("$()")
    if scan.text.startswith("$((", i):
        return _read_quoted(scan, i + len("$(("), opening="((", parts=[], depth=depth)
    if char == "`":
        inside_start = i + 1
        closer = "`"
    else:  # `$(`, `<(` or `>(`
        inside_start = i + 2
        closer = ")"
    if depth >= _MAX_DEPTH:
        return inside_start
    return _read_commands(scan, inside_start, closer, depth + 1)


def _read_quoted(scan: _Scan, i: int, opening: str, parts: list[str], depth: int) -> int:
    """Read the inside of a quote or an expansion from `i`; return the position after its closing.

    The text goes into `parts`, as it reads after the shell's escapes. Commands substituted in it are recorded as code.
    The text between them becomes cuts, but only in quotes: what stands in `${…}` or `((…))` remains code.
    """
    text = scan.text
    cut_start = i
    level = 0  # of brackets inside, whose closings do not end the expansion
    stops, escapes = _QUOTES[opening]
    is_quote = opening[-1] in "'\""
    # Scripts of thousands of characters stand in quotes: jump to the end if nothing before it has a meaning.
    end = text.find(stops[0], i, scan.size)
    if end > i and not any(text.find(stop, i, end) >= 0 for stop in stops[1:]):
        parts.append(text[i:end])
        i = end
    while i < scan.size:
        start = i
        while i < scan.size and text[i] not in stops:
            i += 1
        parts.append(text[start:i])
        c = text[i]
        pair = text[i : i + 2]
        if i == scan.size or (c == stops[0] and not level):
            break
        if c == "\\":
            parts.append(escapes.get(pair[1], pair))
            i += 2
        elif c == "`" or (pair == "$(" and text[i + 2] != "("):
            if is_quote:
                scan.cuts.append((cut_start, i, False))
            i = _read_piece(scan, i, parts, depth)
            cut_start = i
        else:
            # Count brackets in brackets; in `${}` a double quote does not end the one around it.
            if pair == "${" or c == "(":
                level += 1
            elif c in "})" and level > 0:
                level -= 1
            parts.append(c)
            i += 1
    if is_quote:
        scan.cuts.append((cut_start, i, False))
    closing_length = 2 if opening == "((" and text[i : i + 2] == "))" else 1
    return min(i + closing_length, scan.size)


def _record_command(scan: _Scan, words: list[_Word], depth: int) -> None:
    """Record the words read so far as a simple command, and what it would have a shell run."""
    plain_words = [word for word in words if not word.op]
    values = [word.value for word in plain_words]
    if values and values != ["time"]:
        start = words[0].start
        end = words[-1].end
        program_index = _find_program_index(values)
        program = _get_program_name(values[program_index:])
        first = plain_words[program_index] if program_index < len(plain_words) else words[0]
        code = _render_code(scan, first.start, end, first.cut, full=False)
        if program_index < len(plain_words) and "$()" not in first.value:
            code = first.value + _render_code(scan, first.end, end, first.cut, full=False)
        full_text = _render_code(scan, first.start, end, first.cut, full=True)
        prefix_words = tuple(values[:program_index])
        program_words = tuple(values[program_index:])
        scan.simples.append(SimpleCommand(program, code, full_text, start, end, prefix_words, program_words))
        if len(scan.simples) > scan.max_simples:
            raise _TooManyCommands
        script, reads_input = _find_shell_script(program, values[program_index + 1 :])
        if reads_input:
            for word in words:
                word.runs = True
                if word.op == "<<<":
                    script = word.value
        if script and depth < _MAX_DEPTH:
            _record_script(scan, script, start, end, depth + 1)
        if program == "find" and depth < _MAX_DEPTH:
            for command in _list_find_commands(plain_words[program_index:]):
                _record_command(scan, command, depth + 1)
    words.clear()


def _record_script(scan: _Scan, script: str, start: int, end: int, depth: int) -> None:
    """Record what a script inside a command runs, at the position of that command."""
    inner = _scan_command(script, depth, max_simples=scan.max_simples)
    for simple in inner.simples:
        scan.simples.append(replace(simple, start=start, end=end))
    scan.redirections += [replace(redirection, start=end) for redirection in inner.redirections]
    scan.loop_words += [replace(loop_word, start=start) for loop_word in inner.loop_words]


def _list_find_commands(words: list[_Word]) -> list[list[_Word]]:
    """Return the commands that find starts; some of the lists are empty."""
    commands = [list[_Word]()]
    is_inside = False
    for word in words:
        ends = (";", "+") if is_inside else ("-exec", "-execdir", "-ok", "-okdir")
        if word.value in ends:
            is_inside = not is_inside
            commands.append([])
        elif is_inside:
            commands[-1].append(word)
    return commands


def _render_code(scan: _Scan, start: int, end: int, cut: int, *, full: bool) -> str:
    """Return the text from `start` to `end` without its cuts, of which the first is `cut` or a later one.

    A `full` text keeps what is in quotes, and leaves out only comments and continued lines' ends.
    """
    pieces = []
    while cut < len(scan.cuts):
        cut_start, cut_end, is_always_cut = scan.cuts[cut]
        if cut_start >= end:
            break
        if cut_start >= start and (is_always_cut or not full):
            pieces.append(scan.text[start:cut_start])
            start = cut_end
        cut += 1
    return "".join(pieces) + scan.text[start:end]


def _skip_options(values: Sequence[str], start: int, value_options: str, final_options: tuple[str, ...] = ()) -> int:
    """Return the index after the options at `start` and their values; the end if one is in `final_options`."""
    takers = value_options.split()
    i = start
    while i < len(values) and values[i].startswith("-"):
        option = values[i]
        if option.startswith(final_options):
            return len(values)
        i += 2 if _is_next_word_value(option, takers) else 1
        if option == "--":
            break
    return i


def _is_next_word_value(option: str, takers: Sequence[str]) -> bool:
    """Return whether the word after an option is its value; `takers` are the options that take one."""
    if option in takers or option.startswith("--"):
        return option in takers
    # Of letters run together, the first that takes a value has the rest as its value, or the next word.
    for position, letter in enumerate(option):
        if f"-{letter}" in takers:
            return position == len(option) - 1
    return False


def _find_program_index(values: Sequence[str]) -> int:
    """Return the index of the program, after assignments and wrappers; a wrapper of nothing is the program."""
    i = 0
    name = ""
    program_index = len(values)
    while i < len(values) and not (name == "watch" and " " in values[i]):
        key, equals, _ = values[i].partition("=")
        if equals and key.rstrip("+").partition("[")[0].isidentifier():
            i += 1
            continue
        program_index = i
        name = values[i].rpartition("/")[2]
        if name not in _WRAPPERS:
            break
        i = _skip_options(values, i + 1, _WRAPPERS[name], _FINAL_OPTIONS.get(name, ()))
        if name == "timeout":
            i += 1  # the duration stands before the program
    return program_index


def _get_program_name(values: Sequence[str]) -> str:
    """Return the name of the program that the words start; "" without words.

    Hardwon is named however it was started: by its path, by `uvx`, `uv run` or `pipx run`, or as a module of Python.
    """
    name = _get_first_name(values)
    started_name = name
    if name == "uvx" or (name in ("uv", "pipx") and values[1:2] == ["run"]):
        options_start = 1 if name == "uvx" else 2
        values = values[_skip_options(values, options_start, _LAUNCHER_VALUE_OPTIONS) :]
        started_name = _get_first_name(values).partition("@")[0]
    if started_name.startswith("python"):
        module_index = _skip_options(values, 1, "-W -X")
        is_module = values[module_index - 1].endswith("m")  # after `-m`, or letters that end with it
        started_name = "".join(values[module_index : module_index + 1]) if is_module else ""
    return "hardwon" if started_name == "hardwon" else name


def _get_first_name(values: Sequence[str]) -> str:
    """Return the first word without its folder; "" without words."""
    return values[0].rpartition("/")[2] if values else ""


def _find_shell_script(program: str, args: Sequence[str]) -> tuple[str, bool]:
    """Return the script that the program gives to a shell, and whether it is a shell that reads its input."""
    if program in SHELLS:
        i = _skip_options(args, start=0, value_options="-o -O --rcfile --init-file")
        short_options = [arg for arg in args[:i] if arg.startswith("-") and not arg.startswith("--")]
        letters = "".join(short_options)
        if "c" in letters:
            return "".join(args[i : i + 1]), False
        has_script_file = i < len(args)
        return "", not has_script_file or "s" in letters
    script = ""
    if program in ("su", "env"):
        option = "-c" if program == "su" else "-S"
        if option in args:
            value_index = args.index(option) + 1
            script = "".join(args[value_index : value_index + 1])
    elif program == "ssh":
        host_index = _skip_options(args, start=0, value_options=_SSH_VALUE_OPTIONS)
        script = " ".join(args[host_index + 1 :])
    elif program == "watch":
        command_index = _skip_options(args, start=0, value_options=_WRAPPERS["watch"])
        script = " ".join(args[command_index:])
    elif program == "eval":
        script = " ".join(args)
    return script, False
