"""Read the results of failed calls: the line that names the failure, its kind, and a signature to compare it by.

The kind decides whether another session would meet the error. An option that a program does not know stays unknown
tomorrow, and a service goes on requiring a login. A missing path, a text to replace that is not in the file, a type
error: these depend on the files as they are now.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from hardwon.shell.complaints import find_blame_marks, fold_name, is_blame, list_named_words
from hardwon.shell.parsing import SimpleCommand
from hardwon.shell.working_commands import (
    READ_ONLY_PROGRAMS,
    REPORTING_PROGRAMS,
    asks_for_help,
    get_command_code,
    is_read_only,
    list_simple_commands,
    list_working_commands,
)
from hardwon.text.characters import fold_case
from hardwon.text.similarity import normalize_text
from hardwon.types import frozen

FailureKind = Literal[
    "cancelled", "anchor", "precondition", "path", "interface", "environment", "code", "other", "silent", "refused"
]

MAX_INSPECTED_CHARS = 4_000  # characters of a result's text, from each end
MAX_QUOTE_LENGTH = 300

_INTERFACE_NOUNS = (
    r"(?:option|flag|argument|(?:sub)?command|parameter|field|property|attribute|method|script|key|version|syntax|format"
    r"|column|choice|verb)s?\b"
)
# Searched in the line that names the failure, in lower case, because `re.I` takes three times as long. The first that
# matches gives the kind.
_PHRASES: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    ("cancelled", (r"sibling tool call", r"parallel tool call", r"^cancelled\b", r"(?:interrupted|aborted) by user")),
    (
        "anchor",
        (
            r"string to replace not found",
            r"matches of the string to replace",
            r"failed to find (?:expected lines|context)",
        ),
    ),
    (  # the agent's own tools say what must come first; doing that is mechanical
        "precondition",
        (
            r"not been read yet",
            r"modified since read",
            r"inputvalidationerror",
            r"exceeds maximum allowed",
            r"shell cwd recovered",
            r"call \w+ first",
            r"no changes to make",
        ),
    ),
    (
        "path",
        (
            r"no such file or directory",
            r"enoent|eisdir",
            r"(?:is|not) a directory",
            r"no matches found",
            r"not a git repository",
            r"(?<!executable )(?:file|path|directory)(?: or directory)?(?: ['\"`‘][^'\"`’]{1,120}['\"`’])?"
            r" (?:does not exist|not found)",
            r"did not match any files?\b",
            r"not in the working tree",
            r"\bno (?:\w+ ){0,2}(?:file|directory)(?: ['\"`‘][^'\"`’]{1,120}['\"`’])? found",
            r"cannot find (?:the |main |path |module ['\"][./\\])",
            r"(?:not|n't|unable to|failed to) (?:find|open|read|locate) ['\"`‘][\w/\\@-]*[./][\w./-]*['\"`’]",
        ),
    ),
    (
        "interface",
        (
            r"\b(?:un(?:recogni[sz]ed|known|supported|expected)|invalid|illegal|ambiguous|missing|no such|bad"
            r"|deprecated|conflicting|too (?:many|few)) (?:\w+ ){0,2}" + _INTERFACE_NOUNS,
            r"(?:does|do|did)(?:n't| not) (?:accept|support|take|recogni[sz]e|allow)",
            r"\b(?:is|or) not (?:supported|allowed|recogni[sz]ed|a valid|valid|available|a \S+ command)",
            r"executable file not found",
            r"(?:is|are)(?: a)? (?:required|deprecated)|field required",
            r"requires? (?:a|an|at|the|that)\b",
            r"\bmust (?:be|have|use|specify|provide)\b",
            r"can(?:not| only) be",
            r"mutually exclusive",
            r"(?:command|applet) not found",
            r"\busage:",
            r"no module named",
            r"cannot find module",
            r"no rule to make target",
            r"\b(?:unknown|no such|unavailable) (?:skill|agent|tool|slash command)\b",
            r"\b(?:skill|agent)(?: type)? \S+ (?:not found|cannot be used)",
            # A program that a script starts; and zsh takes a word that begins with = for a command.
            r"^(?:\(eval\)|\S*sh):(?: ?(?:line )?\d+:)? \S+ not found$",
        ),
    ),
    (
        "environment",
        (
            r"permission denied|access denied|not permitted|eacces|eperm",
            r"forbidden|unauthori[sz]ed|authenticat|not logged in|certificate",
            r"requires approval|haven't granted|was blocked|sandbox|protected branch",
            r"connection\b.{0,60}\b(?:refused|reset|timed out)|(?:cannot|can't|couldn't|could not|failed to) connect\b",
            r"could not resolve host|unreachable|econnrefused",
            r"timed out|timeout|rate limit",
            r"already in use|eaddrinuse|database is locked",
            r"environment variable|\b[a-z]+(?:_[a-z0-9]+)+ (?:is |was )?(?:not set|unset)\b",
            r"not installed|externally-managed",
            r"no space left|out of memory|read-only file system",
        ),
    ),
)
_KIND_PATTERNS = tuple((failure_kind, re.compile("|".join(phrases))) for failure_kind, phrases in _PHRASES)

_SOURCE_LOCATION = re.compile(r"^\S*\w\.\w{1,5}[:(]\d+[:,)]")
# A complaint about a place in a source file, a diagnostic's number, or the tally of a test run.
_CODE_FAILURE = re.compile(
    _SOURCE_LOCATION.pattern
    + r"|\berror(?: TS\d+|\[E\d+\])|^\s*(?:--- )?FAIL(?:ED)?\b|\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)?\b"
    r"|\bAssertionError\b|^\s*[×✗✖✕] |^CONFLICT \(|\b\d+ (?:issues|errors|problems)\b|could not compile"
    r"|need to be formatted",
    re.M,
)
_CHECK_COMMAND = re.compile(
    r"\b(?:tests?|lint|tsc|typecheck|pytest|jest|vitest|eslint|biome|ruff|mypy|clippy|vet|build|check|fmt|format)\b"
)
_NAMES_FAILURE = re.compile(
    r"\b(?:error|fatal|failed|failure|panic|exception|cannot|can't|could not|unable|denied|refused|rejected|invalid"
    r"|illegal|unknown|unrecogni[sz]ed|unexpected|unsupported|not found|no such|no matches|missing|usage|required"
    r"|conflict|undefined)\b"
    r"|n't (?:accept|support|have|exist|find)\b|(?:does|is|has) not\b|\w(?:error|exception)\b"
)
_ERROR_NAME = re.compile(r"\bE[A-Z]{4,}\b")
# How a program begins such a line: with its name, or with the word itself.
_PROGRAM_MESSAGE = re.compile(
    r"^(?!\d+:)(?:[\w.()/\\@+-]+:\s?)+|^\W*(?:error|fatal|panic|usage|npm err(?:or|!))|^\w*(?:Error|Exception):", re.I
)
_USAGE = re.compile(r"\W*(?:error: *)?usage\b", re.I)
_STATUS_MARKS = re.compile(r"</?tool_use_error>|\A(?:Error: )?(?:Exit code|Process exited with code) -?\d+")
_JSON_MESSAGE = re.compile(r"\"(?:message|error|detail)\"\s*:\s*\"([^\"\\]+)")
# As zod writes what is wrong with the arguments of a tool.
_VALIDATOR_MESSAGE = re.compile(r'"message": "([^"]+)"')
_VALIDATOR_PATH = re.compile(r'"path": \[ ?"(\w+)"')
_HEADING = re.compile(r"[#*\s]*(?:error|result)[*:\s]*", re.I)  # as in Markdown; what it is about follows
# The network or a server failed for the moment, whatever the call was.
_PASSING_FAILURE = re.compile(
    r"\b(?:econnreset|etimedout|eai_again|socket hang up|connection (?:was )?reset|temporary failure|bad gateway"
    r"|service unavailable|gateway time-?out|could not resolve host|network is unreachable|tls handshake timeout)\b"
)
_COLOUR = re.compile(r"(?:\x1b?\[[\d;]*[mK])+")
# What a logger writes around the message: `2026-05-02T10:11:12Z FATAL `, `FATA[0000] `, `level=fatal msg="…"`.
_LOG_PREFIX = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*\s+(?:\[?(?:FATAL|ERROR|WARN|INFO)\]?:?\s+)?"
    r"|(?:FATA|ERRO|WARN)\[\d+\] )(?=\S)"
)
_LOG_MESSAGE = re.compile(r'\blevel=\w+ msg="((?:[^"\\]|\\.)+)"')

# A shell's error with a line number is about the call itself, whatever its programs print.
_SHELL_COMPLAINT = re.compile(r"(?:\(eval\)|(?:[\w./]*/)?(?:ba|z|da)?sh)(?::\w+)?:(?: line)? ?\d+: \S")
# In a result that is not marked as failed, only a line that programs write for nothing else counts.
_CLEAR_FAILURE = re.compile(
    r"^(?:(?:[\w./-]+: )?(?:error|fatal): \S|(?:[\w./()-]+: )*(?:line \d+: )?\S+: command not found$"
    r"|Traceback \(most recent|(?:[\w./-]+: )?(?:illegal|unrecogni[sz]ed|unknown|invalid) option\b"
    r"|npm (?:ERR!|error) code )"
)
# How a result begins that is an error and nothing else, though the agent calls it a success.
_BEGINS_AS_ERROR = re.compile(
    r"(?:\w*Error|error|ERROR|fatal)(?:\[[\w-]{1,20}\])?:\s*(?![(\s]*(?:(?:0|none|null|nil|false|empty|undefined)\b|no$))\S"
)
# Complaints of a program about its arguments; no file or log begins like that.
_MISUSE = re.compile(
    r"(?:(?:error|fatal): |\(error\) (?:[A-Z]+ )?|[\w.-]+: (?:error: )?)?"
    r"(?:(?:unexpected|unrecogni[sz]ed|unknown|invalid|ambiguous|unsupported|illegal) (?:\w+ )?"
    r"(?:argument|option|subcommand|command|flag|switch|field)s?\b|'[^']{1,80}' is not a \w+ command)",
    re.I,
)
# A complaint with the kind of word that it is about counts wherever the word stands in the line.
_COMPLAINT = re.compile(
    r"\b(?:unknown|unrecogni[sz]ed|unexpected|invalid|illegal|bad|no such) (?:[\w-]+ ){0,2}"
    r"(?:option|flag|argument|switch|(?:sub)?command|parameter|predicate|choice|package|task|target|script|profile)s?\b"
    r"|\bis not a \S+ command|\bno match for argument\b"
    r"|\bno module named",
    re.I,
)
# A program that found nothing to do says so and succeeds: `No projects matched the filters`.
_NOTHING_SELECTED = re.compile(r"No (?:project|package|workspace|target|task|script)s? match(?:ed|es)? \w", re.I)
_CALL_WORD = re.compile(r"[\w.:@/-]*[A-Za-z]\d?[A-Za-z][\w.:@/-]*")  # also `e2e`
_MAX_COMPLAINT_LINES, _FIRST_LINES = 40, 10  # in a longer result only its ends speak of the call
# Git's own words; any other line after `fatal:` may be a commit's subject that git shows.
_GIT_FAILED = re.compile(
    r"fatal: (?:ambiguous argument|bad (?:revision|object)|not a git repository|no upstream|your current branch"
    r"|couldn't find|unable to access|could not read|pathspec|authentication failed|refusing to|path '|repository '"
    r"|'[^']{1,200}' (?:does not appear|is not))",
    re.I,
)
_REFUSED_CONNECTION = re.compile(
    r"(?:[\w.() -]{0,60}: )?connect ECONNREFUSED\b|(?:code|errno): '?ECONNREFUSED\b|ECONNREFUSED\b"
)
_EXIT_STATUS = re.compile(
    r"(?:Error: )?(?:exit(?:ed)?(?: with)?(?: code| status)|process exited with code)\s*[:=]?\s*[1-9]\d{0,2}\b[.)]?$",
    re.I,
)
_LAST_LINES, _MAX_END_CHARS = 3, 1_000  # the end of a result, where an error that ended the run is
# Tools whose results are texts of others: what these begin with says nothing of the call.
_SHOWING_TOOLS = frozenset(
    ("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "Task", "Skill", "AskUserQuestion")
)

_SIGNATURE_FOLDS = (
    (re.compile(r"https?://\S+"), " url "),
    (re.compile(r"(?<!\w)(['\"`]).{0,200}?\1(?!\w)"), " quoted "),
    (re.compile(r"(?:\b[a-z]:|(?<![\w.@~*-]))[\w.@~*-]*[/\\][^\s:,;)\]]*"), " path "),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,}\b"), " hash "),
    (re.compile(r"\d+"), " "),
)
_PROGRAM_NAME = re.compile(r"[\w.@+-]*[A-Za-z][\w.@+-]*$")
_WORD = re.compile(r"[a-z][a-z_-]+")
_MAX_SIGNATURE_WORDS, _MIN_SIGNATURE_WORDS = 12, 2


@frozen
class Failure:
    """One failed attempt."""

    id: str  # the result's
    line: int  # of the result
    call_line: int
    tool: str
    command: str
    path: str
    text: str  # shortened
    quote: str  # the line that names the failure
    kind: FailureKind
    signature: str


def cut_middle(text: str) -> str:
    """Return the two ends of a long result, where failures are named, cut at lines."""
    if len(text) <= 2 * MAX_INSPECTED_CHARS:
        return text
    head = text[:MAX_INSPECTED_CHARS]
    tail = text[-MAX_INSPECTED_CHARS:]
    return (head.rpartition("\n")[0] or head) + "\n" + (tail.partition("\n")[2] or tail)


def find_failure_line(text: str, *, is_shell: bool) -> str:
    """Return the line that names the failure; "" for a result without lines.

    Tools other than a shell begin with it. In a shell it is the first line that a program begins with its own name,
    else the last line with words of failure, else the last line. After a Python traceback the order is reversed.
    """
    text_lines = list(list_lines(cut_middle(text)))
    if not is_shell:
        return _find_tool_message(text_lines)
    if any(line.startswith("Traceback (most recent") for line in text_lines):  # Python names it last
        text_lines.reverse()
    program_lines = [
        line
        for line in text_lines
        if _PROGRAM_MESSAGE.match(line[:MAX_QUOTE_LENGTH]) and _names_failure(line[:MAX_QUOTE_LENGTH])
    ]
    if program_lines:  # the usage text names the program's options, and not what is wrong
        return extract_message(next((line for line in program_lines if not _USAGE.match(line)), program_lines[0]))
    for line in reversed(text_lines):
        if _names_failure(line[:MAX_QUOTE_LENGTH]):
            return extract_message(line)
    return extract_message(text_lines[-1]) if text_lines else ""


def _find_tool_message(lines: Sequence[str]) -> str:
    """Return the first line, with the first complaint of a validator that lists them in the next ones."""
    message = extract_message(lines[0]) if lines else ""
    is_heading = _HEADING.fullmatch(message) is not None
    if not is_heading and not message.endswith(("[", "{", ":")) and "validation error" not in message:
        return message
    details = " ".join(lines[1:_FIRST_LINES])
    details = details.partition(" [type=")[0]  # pydantic goes on with all that it was given
    if sentence := _VALIDATOR_MESSAGE.search(details):
        parameter = _VALIDATOR_PATH.search(details)
        details = f"{parameter[1]}: {sentence[1]}" if parameter else sentence[1]
        message = "Error:" if is_heading else message.rstrip(" [{:") + ":"
    return f"{message} {details}"[:MAX_QUOTE_LENGTH].rstrip()


def list_lines(text: str) -> Iterator[str]:
    """Yield the lines of a result, stripped, without empty ones and without the agent's own status marks."""
    for raw_line in text.splitlines():
        # Every status mark contains one of these two texts, which are faster to find than the pattern.
        line = raw_line
        if "_error>" in raw_line or " code " in raw_line:
            line = _STATUS_MARKS.sub("", raw_line)
        line = line.strip()
        if line:
            yield line


def extract_message(line: str) -> str:
    """Return the sentence in a line: without colours, and of a JSON object its message."""
    message = _JSON_MESSAGE.search(line) if line.startswith(("{", "[")) else None
    if "level=" in line:
        message = message or _LOG_MESSAGE.search(line)
    if message:
        line = message[1]
    elif line[:1].isdigit() or line.startswith(("[", "FATA", "ERRO", "WARN")):
        line = _LOG_PREFIX.sub("", line)
    sentence = max(_COLOUR.split(line), key=len).strip()
    # Of a coloured mark such as `[ERROR] ` the end is left.
    return sentence.removeprefix("] ")[:MAX_QUOTE_LENGTH].rstrip()


def has_failure_words(line: str) -> bool:
    return " " in line and _names_failure(line)


def _names_failure(line: str) -> bool:
    return bool(_NAMES_FAILURE.search(fold_case(line)) or _ERROR_NAME.search(line))


def classify_failure(text: str, line: str, command: str) -> FailureKind:
    """Return the kind of a failure; a program that begins the line with its own name means the call, not the code."""
    if kind := classify_line(line):
        return kind
    speaks_for_itself = line.startswith(tuple(f"{part.program}: " for part in list_working_commands(command)))
    if speaks_for_itself:
        return "other"
    if _is_check_command(command) or _CODE_FAILURE.search(cut_middle(text)):
        return "code"
    return "other" if has_failure_words(line) else "silent"


@lru_cache(maxsize=256)  # the same error comes several times in a session
def classify_line(line: str) -> FailureKind | None:
    """Return the kind of a failure that the line alone shows; None if it does not."""
    if _SOURCE_LOCATION.match(line):
        return "code"
    # Rejected text may come back with other spaces or look-alike letters.
    normalized = " ".join(line.lower().split()) if line.isascii() else normalize_text(line)
    return next((kind for kind, pattern in _KIND_PATTERNS if pattern.search(normalized)), None)


def is_passing_failure(line: str) -> bool:
    """Return whether a failure comes from the network, so that another try may work without any change."""
    return _PASSING_FAILURE.search(fold_case(line)) is not None


def _is_check_command(command: str) -> bool:
    return bool(_CHECK_COMMAND.search(command) and _CHECK_COMMAND.search(get_command_code(command)))


def has_hidden_failure(command: str, text: str) -> bool:
    """Return whether a result that is not marked as failed begins or ends with a failure, as when a pipe hid it."""
    if not text or not ("|" in command or ";" in command):
        return False
    first = text[:MAX_QUOTE_LENGTH].lstrip().partition("\n")[0]
    last = text[-MAX_QUOTE_LENGTH:].rstrip().rpartition("\n")[2]
    if _SHELL_COMPLAINT.match(first):
        return True
    if not (_CLEAR_FAILURE.match(first) or _CLEAR_FAILURE.match(last)):
        return False
    return REPORTING_PROGRAMS.isdisjoint(simple.program for simple in list_simple_commands(command))


def is_unreported_failure(tool: str, command: str, text: str) -> bool:
    """Return whether a result that the agent calls a success says itself that the call failed.

    A pipe hides an exit code, some agents and MCP servers report none, and then the text is all there is. A command
    that only shows files or what others wrote may show their errors: of those only a complaint about the call counts.
    """
    if not text or tool in _SHOWING_TOOLS:
        return False
    if command and has_hidden_failure(command, text):
        return True
    first = text[:MAX_INSPECTED_CHARS].lstrip().partition("\n")[0].strip()
    if "[" in first:  # most lines have no colours, and finding that out with the pattern takes longer
        first = _COLOUR.sub("", first).strip()
    begins_as_error = _BEGINS_AS_ERROR.match(first) is not None
    if not command:
        return begins_as_error
    is_error = begins_as_error or bool(_MISUSE.match(first) or _NOTHING_SELECTED.match(first))
    if not is_error and not _ends_as_error(first, text[-_MAX_END_CHARS:]):
        return _has_complaint(command, text)
    programs = {part.program for part in list_simple_commands(command)}
    if programs <= READ_ONLY_PROGRAMS or not programs.isdisjoint(REPORTING_PROGRAMS):
        is_of_git = "git" in programs and "||" not in command and bool(_GIT_FAILED.match(first))
        return is_of_git or bool(_MISUSE.match(first)) or _has_complaint(command, text)
    return True


def _ends_as_error(first: str, end: str) -> bool:
    """Return whether a result's first or last lines tell of a refused connection or an exit status."""
    if not any(map(f"{first}\n{end}".__contains__, ("ECONNREFUSED", "xit", "XIT"))):
        return False  # most results, without the patterns
    last_lines = [line.strip() for line in end.splitlines() if line.strip()][-_LAST_LINES:]
    if any(map(_REFUSED_CONNECTION.match, [first, *last_lines])):
        return True
    return bool(_EXIT_STATUS.match(first) or (last_lines and _EXIT_STATUS.match(last_lines[-1])))


def _has_complaint(command: str, text: str) -> bool:
    """Return whether a program says in a result, whose exit status is hidden, that it does not know a word of the call.

    Commands that show what others wrote may show such a line of anybody, so theirs must begin as an error of theirs.
    """
    if not ("|" in command or ";" in command):
        return False
    ends = cut_middle(text)
    marks = find_blame_marks(ends)
    if not marks and "sage" not in ends[:MAX_QUOTE_LENGTH] and "SAGE" not in ends[:MAX_QUOTE_LENGTH]:
        return False
    lines = list(list_lines(ends))
    if lines and _USAGE.match(lines[0]) and not asks_for_help(command):
        return any(len(part.words) > 1 for part in list_working_commands(command)) and not is_read_only(command)
    if len(lines) > _MAX_COMPLAINT_LINES:
        lines = lines[:_FIRST_LINES] + lines[-_FIRST_LINES:]
    complaints = [number for number, line in enumerate(lines) if _is_complaint(line, marks)]
    if not complaints:  # as in most results, so the command need not be parsed
        return False
    working = list_working_commands(command)
    programs = {part.program for part in working}
    speakers: tuple[str, ...] = ("",)
    if programs & (REPORTING_PROGRAMS | READ_ONLY_PROGRAMS):
        speakers = ("error: ", *(f"{program}: " for program in programs))
    call_words = _list_call_words(working)
    for number in complaints:
        if lines[number].startswith(speakers) and call_words & _list_blamed_names(lines, number):
            return True
    return False


def _is_complaint(line: str, marks: Collection[str]) -> bool:
    """Return whether a line blames a word of the call; `marks` are the marks of blame in the whole text."""
    if len(line) > MAX_QUOTE_LENGTH or " " not in line:
        return False
    # The few marks of this text are searched faster than all.
    if not any(map(line.__contains__, marks)) or not is_blame(line):
        return False
    # That a file is not there is often what the call wants to know.
    return classify_line(line) not in ("path", "code")


def _list_call_words(simple_commands: Iterable[SimpleCommand]) -> set[str]:
    """Return the words after the programs, folded, of `name=value` both parts."""
    call_words = set[str]()
    for simple in simple_commands:
        for word in simple.words[1:]:
            name, _, value = word.partition("=")
            call_words.update(fold_name(part) for part in (name, value) if _CALL_WORD.fullmatch(part))
    return call_words


def _list_blamed_names(lines: Sequence[str], number: int) -> set[str]:
    """Return the names that a complaint is about; some programs write them into the next line."""
    line = extract_message(lines[number])
    if _COMPLAINT.search(line):
        words = _CALL_WORD.findall(" ".join([line, *lines[number + 1 : number + 2]]))
    else:
        after_nouns, other_words = list_named_words(line)
        words = [*after_nouns, *other_words]
    return {fold_name(word.strip(".:")) for word in words}


def find_failed_program(command: str, line: str) -> str:
    """Return the program that failed: the one the line begins with, else the first that does work; "" if none does."""
    programs = [part.program for part in list_working_commands(command) if _PROGRAM_NAME.match(part.program)]
    claimed_program = line.partition(":")[0].rpartition("/")[2]
    if claimed_program in programs:
        return claimed_program
    return programs[0] if programs else ""


def compute_signature(tool: str, command: str, text: str) -> str:
    """Return the signature of a failed call with this result."""
    line = find_failure_line(text, is_shell=tool == "Bash")
    return build_signature(tool, command, classify_failure(text, line, command), line)


def build_signature(tool: str, command: str, kind: FailureKind, line: str) -> str:
    """Return a text that is equal for the same error elsewhere: without numbers, paths, hashes and quoted text.

    An error that says nothing is known by its command, or all such errors would count as one.
    """
    words = _list_signature_words(line)
    if len(words) < _MIN_SIGNATURE_WORDS:
        words += _list_signature_words(" ".join(part.code for part in list_working_commands(command)))
    return " ".join([find_failed_program(command, line) or tool, kind, *words[:_MAX_SIGNATURE_WORDS]])


def _list_signature_words(text: str) -> list[str]:
    """Return the words of a text in lower case; what differs between occurrences becomes one word, such as `path`."""
    folded = normalize_text(text[:MAX_QUOTE_LENGTH])
    for pattern, replacement in _SIGNATURE_FOLDS:
        folded = pattern.sub(replacement, folded)
    return _WORD.findall(folded)
