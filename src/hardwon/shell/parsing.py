"""The simple commands inside a shell command, and which part of its text is code.

`git commit -m "never git stash"` stashes nothing; `cd x && sudo git stash` does, and `bash -c 'git stash'` too. A
lesson's regex can tell them apart only on the simple commands, without the text of quotes and heredocs. One pass finds
both: the simple commands, and the cuts, which are the stretches that are not code.

What no shell would accept is read as well as can be, never refused; what is nested deeper than 10 is text. In a word's
value `$()` stands for what a command prints: what that runs is listed where it stands, and not again from the string it
is in. A parameter keeps its name: `$HOME`, `${HOME}`.
"""

from __future__ import annotations

from hardwon.shell.programs import find_program_index, find_shell_script, get_program_name
from hardwon.types import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DEEPEST = 10
MAX_SIMPLE_COMMANDS = 500
_LONGEST_REMEMBERED = 50_000  # characters
_BLANK = frozenset(" \t")
_SPECIAL = frozenset(" \t\n;&|()<>\\'\"$`")
_REDIRECTIONS = ("<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">&", ">|", ">")

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
_RESERVED |= dict.fromkeys(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac"), "")
_MODE_ENDS = {"for": ("do", ""), "case": ("in", "pattern"), "pattern": ("esac", "")}


@frozen
class SimpleCommand:
    """One program started with its arguments; the span covers the wrappers too, which with assignments are
    `prefix_words`."""

    program: str
    code: str
    full_text: str
    start: int
    end: int
    prefix_words: tuple[str, ...]
    words: tuple[str, ...]


def parse_simple_commands(command: str) -> list[SimpleCommand]:
    """Every simple command in reading order, an enclosing one before those inside it."""
    return _scan(command, 0).simples


@frozen
class ParsedCommand:
    """The simple commands of a command, each file that a redirection writes and each word that a `for` goes through;
    the latter two with the place they stand at, in the same text as the spans of the simple commands."""

    simple_commands: tuple[SimpleCommand, ...]
    redirections: tuple[tuple[int, str], ...]
    loop_words: tuple[tuple[int, str], ...]


def parse_with_code(command: str) -> tuple[list[SimpleCommand], str] | None:
    """The simple commands and the code in one pass; None if there are more than anybody writes by hand."""
    s = _scan_once(command)
    return None if s is None else (s.simples, _render(s, 0, len(command), 0, full=False))


def parse_command(command: str) -> ParsedCommand | None:
    """Return what a command starts and writes to; None if it has more simple commands than anybody writes by hand."""
    s = _scan_once(command)
    return None if s is None else ParsedCommand(tuple(s.simples), tuple(s.redirections), tuple(s.loop_words))


_last_scan: tuple[str, _Scan | None] = ("", None)


def _scan_once(command: str) -> _Scan | None:
    """Scan a command, or return the last scan if it was of the same one: a call is looked at twice, for what it does to
    hardwon and for the lessons it concerns."""
    global _last_scan
    last_command, last_scan = _last_scan
    if command == last_command and last_scan is not None:
        return last_scan
    try:
        scan = _scan(command, 0, most=MAX_SIMPLE_COMMANDS)
    except _TooMany:
        return None
    if len(command) <= _LONGEST_REMEMBERED:
        _last_scan = (command, scan)
    return scan


def extract_code(command: str) -> str:
    """The command as written, without comments and the text of quotes and heredocs."""
    return _render(_scan(command, 0), 0, len(command), 0, full=False)


def remove_spans(command: str, spans: Iterable[tuple[int, int]], spans_to_keep: Iterable[tuple[int, int]] = ()) -> str:
    """The command with these spans gone, but for those `kept` inside them; heredocs go with what they were fed to."""
    gone = bytearray(len(command))
    for start, end in {(max(start, 0), max(end, 0)) for start, end in spans}:
        gone[start:end] = b"\1" * len(gone[start:end])
    for start, end in spans_to_keep:
        gone[start:end] = bytes(len(gone[start:end]))
    for operator, start, end in _scan(command, 0).heredocs:
        if gone[operator]:
            gone[start:end] = b"\1" * (end - start)
    return "".join(c for c, out in zip(command, gone, strict=True) if not out)


class _TooMany(Exception):
    """More simple commands than may be listed."""


class _Scan:
    """What the pass has found. The functions below take a position in the text and give the next."""

    def __init__(self, text: str, most: int) -> None:
        self.most = most
        self.text, self.size = text + "\n", len(text)  # one more, so that a look ahead always finds something
        self.simples: list[SimpleCommand] = []
        self.cuts: list[tuple[int, int, bool]] = []  # start, end, left out of `full` as well
        self.pending: list[_Word] = []  # heredocs whose bodies begin after the next newline
        self.heredocs: list[tuple[int, int, int]] = []  # operator, start of the body, end of the closing line
        self.redirections: list[tuple[int, str]] = []  # start, file that is written
        self.loop_words: list[tuple[int, str]] = []  # start, word between `for` and `do`: the name, `in`, the values


class _Word:
    """A word of a simple command, or a redirection with its target if `op` is set."""

    __slots__ = ("cut", "end", "op", "runs", "start", "value")

    def __init__(self, start: int, end: int, cut: int, value: str, op: str = "") -> None:
        self.start, self.end, self.value, self.op = start, end, value, op
        self.cut = cut  # index of the first cut that can lie in it
        self.runs = False  # a heredoc that a shell reads as commands


def _scan(text: str, depth: int, *, most: int = 1 << 30) -> _Scan:
    s = _Scan(text, most)
    _commands(s, 0, "", depth)
    s.simples.sort(key=lambda simple: simple.start)
    return s


def _commands(s: _Scan, i: int, closer: str, depth: int) -> int:
    words: list[_Word] = []
    text, mode, parens = s.text, "", 0
    while i < s.size:
        c = text[i]
        if c in _BLANK:
            i += 1
        elif c == "#" or (c == "\\" and text[i + 1] == "\n"):
            i = _unseen(s, i, closer)
        elif c == closer and (c == "`" or not (parens or mode == "pattern")):
            break
        elif c in ";|\n" or (c == "&" and text[i + 1] != ">"):
            _record(s, words, depth)
            if c == ";" and text[i + 1] in ";&":
                mode = "pattern"
            elif mode in ("for", "name"):
                mode = ""
            i = _heredocs(s, i + 1, depth) if c == "\n" else i + 1
        elif c == "(" == text[i + 1] and mode != "pattern":
            i = _quoted(s, i + 2, "((", [], depth)
        elif c in "()":
            if c == "(" and text[i + 1] == ")":  # what stood before names a function
                words.clear()
            _record(s, words, depth)
            if mode != "pattern":
                parens = max(parens + (1 if c == "(" else -1), 0)
            elif c == ")":
                mode = ""
            i += 1
        else:
            i, mode = _next_word(s, i, closer, words, mode, depth)
    _record(s, words, depth)
    return min(i + 1, s.size)


def _next_word(s: _Scan, i: int, closer: str, words: list[_Word], mode: str, depth: int) -> tuple[int, str]:
    """Reads a word or redirection into `words`, unless it is grammar; gives the mode that follows too."""
    new = _word(s, i, closer, depth)
    bare = s.text[i : new.end] == new.value
    if new.end == i or (bare and new.value.isdigit() and s.text[new.end] in "<>"):
        words.append(_redirection(s, i, new.end, closer, depth))
        return words[-1].end, mode
    if mode:
        if mode == "for":
            s.loop_words.append((i, new.value))
        ends, then = _MODE_ENDS.get(mode, (new.value, ""))
        return new.end, then if new.value == ends else mode
    starts = not words or (len(words) == 1 and words[0].value == "time")
    if starts and bare and new.value in _RESERVED:
        words.clear()
        return new.end, _RESERVED[new.value]
    words.append(new)
    if starts and bare and new.value == "[[":
        words.append(_Word(new.end, _until(s, new.end, "]]", closer, depth), new.cut, ""))
    return words[-1].end, mode


def _redirection(s: _Scan, start: int, i: int, closer: str, depth: int) -> _Word:
    op = next(op for op in _REDIRECTIONS if s.text.startswith(op, i))
    i = end = i + len(op)
    while s.text[i] in _BLANK:
        i += 1
    target = _word(s, i, closer, depth)
    new = _Word(start, target.end if target.end > i else end, target.cut, target.value, op)
    if ">" in op and not (op == ">&" and (target.value.isdigit() or target.value == "-")):
        s.redirections.append((start, target.value))
    if op in ("<<", "<<-") and target.end > i:
        del s.cuts[target.cut :]  # a delimiter's quotes hold no text
        s.pending.append(new)
    return new


def _heredocs(s: _Scan, i: int, depth: int) -> int:
    """Past the bodies that begin at `i`, in the order of their operators."""
    text, pending, s.pending = s.text, s.pending, []
    for heredoc in pending:
        start = end = i
        while i < s.size:
            end = text.find("\n", i)
            if heredoc.value == (text[i:end].lstrip("\t") if heredoc.op == "<<-" else text[i:end]):
                break
            i = min(end + 1, s.size)
        s.heredocs.append((heredoc.start, start, end))
        if heredoc.runs and depth < _DEEPEST:
            size, s.size = s.size, i - 1 if i < s.size else i  # a newline follows the text, as it does the whole
            _commands(s, start, "", depth + 1)
            s.size = size
        else:
            s.cuts.append((start, i, False))
        i = min(end + 1, s.size)
    return i


def _unseen(s: _Scan, i: int, closer: str) -> int:
    """Past a comment, or a continued line's end and the next one's indent."""
    text, end = s.text, i + 2
    if text[i] == "#":
        end = next(k for k in range(i, s.size + 1) if text[k] == "\n" or text[k] == closer == "`")
    while text[i] == "\\" and text[i - 1 : i] in _BLANK and text[end : end + 1] in _BLANK:
        end += 1
    s.cuts.append((i, end, True))
    return min(end, s.size)


def _word(s: _Scan, i: int, closer: str, depth: int) -> _Word:
    """The word at `i`, with no length if there is none."""
    text, start, cut, parts = s.text, i, len(s.cuts), [""]
    while i < s.size:
        c = text[i]
        if c not in _SPECIAL:
            begin = i
            while text[i] not in _SPECIAL:
                i += 1
            parts.append(text[begin:i])
        elif c in "\\'\"$" or (c == "`" and closer != c) or (c in "<>" and text[i + 1] == "("):
            i = _piece(s, i, parts, depth)
        elif c == "(" and i > start and text[i - 1] in "=?*+@" and depth < _DEEPEST:  # an array or a glob
            i = _until(s, i + 1, ")", closer, depth + 1)
            parts.append("()")
        else:
            break
    return _Word(start, i, cut, "".join(parts))


def _until(s: _Scan, i: int, closing: str, closer: str, depth: int) -> int:
    """Past `closing`, in brackets where `&&`, `(` or `<` are not what they are elsewhere."""
    while i < s.size and (s.text[i] != "`" or closer != "`"):
        begin, i = i, max(_word(s, i, closer, depth).end, i + 1)
        if s.text[begin:i] == closing:
            break
    return i


def _piece(s: _Scan, i: int, parts: list[str], depth: int) -> int:
    """Past a quoted or expanded piece of a word, whose value goes to `parts`."""
    one, two = s.text[i], s.text[i : i + 2]
    if two == "\\\n":
        return _unseen(s, i, "")
    if one == "\\" or (one == "$" and two[1] not in "({'\""):
        parts.append(two[1] if one == "\\" else "$")
        return i + (2 if one == "\\" else 1)
    if two in ("$'", '$"'):
        s.cuts.append((i, i + 1, False))
        return _quoted(s, i + 2, two if two == "$'" else '"', parts, depth)
    if one in "'\"":
        return _quoted(s, i + 1, one, parts, depth)
    if two == "${":
        inside = [""]
        end = _quoted(s, i + 2, two, inside, depth)
        parts.append("${" + "".join(inside) + "}")
        return end
    parts.append("$()")
    if s.text.startswith("$((", i):
        return _quoted(s, i + 3, "((", [], depth)
    begin, closer = (i + 1, "`") if one == "`" else (i + 2, ")")
    return _commands(s, begin, closer, depth + 1) if depth < _DEEPEST else begin


def _quoted(s: _Scan, i: int, opening: str, parts: list[str], depth: int) -> int:
    """Past a quote or an expansion whose inside begins at `i`; what is substituted in it is code."""
    text, begin, level = s.text, i, 0
    stops, escapes = _QUOTES[opening]
    cuts = s.cuts if opening[-1] in "'\"" else []
    while i < s.size:
        start = i
        while i < s.size and text[i] not in stops:
            i += 1
        parts.append(text[start:i])
        c, two = text[i], text[i : i + 2]
        if i == s.size or (c == stops[0] and not level):
            break
        if c == "\\":
            parts.append(escapes.get(two[1], two))
            i += 2
        elif c == "`" or (two == "$(" and text[i + 2] != "("):
            cuts.append((begin, i, False))
            begin = i = _piece(s, i, parts, depth)
        else:  # brackets in brackets; in `${}` a double quote does not end the one around it
            level += (two == "${" or c == "(") - (c in "})" and level > 0)
            parts.append(c)
            i += 1
    cuts.append((begin, i, False))
    return min(i + (2 if opening == "((" and text[i : i + 2] == "))" else 1), s.size)


def _record(s: _Scan, words: list[_Word], depth: int) -> None:
    """Makes the words read so far a simple command, and adds what it would have a shell run."""
    plain = [each for each in words if not each.op]
    values = [each.value for each in plain]
    if values and values != ["time"]:
        at, start, end = find_program_index(values), words[0].start, words[-1].end
        first, program = plain[at] if at < len(plain) else words[0], get_program_name(values[at:])
        code = _render(s, first.start, end, first.cut, full=False)
        if at < len(plain) and "$()" not in first.value:
            code = first.value + _render(s, first.end, end, first.cut, full=False)
        full = _render(s, first.start, end, first.cut, full=True)
        s.simples.append(SimpleCommand(program, code, full, start, end, tuple(values[:at]), tuple(values[at:])))
        if len(s.simples) > s.most:
            raise _TooMany
        script, reads = find_shell_script(program, values[at + 1 :])
        for each in words if reads else ():
            each.runs = True
            script = each.value if each.op == "<<<" else script
        if depth < _DEEPEST:
            if script:
                inner = _scan(script, depth + 1, most=s.most)
                s.simples += [
                    SimpleCommand(x.program, x.code, x.full_text, start, end, x.prefix_words, x.words)
                    for x in inner.simples
                ]
                s.redirections += [(end, file) for _, file in inner.redirections]
                s.loop_words += [(start, value) for _, value in inner.loop_words]
            for command in _executed(plain[at:]) if program == "find" else ():
                _record(s, command, depth + 1)
    words.clear()


def _executed(words: list[_Word]) -> list[list[_Word]]:
    """The commands that find is to start."""
    commands, inside = [list[_Word]()], False
    for each in words:
        if each.value in ((";", "+") if inside else ("-exec", "-execdir", "-ok", "-okdir")):
            inside = not inside
            commands.append([])
        elif inside:
            commands[-1].append(each)
    return commands


def _render(s: _Scan, start: int, end: int, cut: int, *, full: bool) -> str:
    """The text from `start` to `end` without its cuts, of which the first is `cut` or a later one."""
    kept = []
    while cut < len(s.cuts) and s.cuts[cut][0] < end:
        a, b, always = s.cuts[cut]
        if a >= start and (always or not full):
            kept.append(s.text[start:a])
            start = b
        cut += 1
    return "".join(kept) + s.text[start:end]
