"""The frozen rule that says when two failed calls failed in the same way.

This is how version 0.1.0 compared failures, written down here once so that what counts as a repeat stays where it is
while the rules that mine lessons change. Do not improve it: a better rule would be another measurement. On the corpus
it only tells failed calls from others; which of them are repeats stands in `repeats.jsonl`, judged by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_COMMAND = 4_000
TEXT_END = 4_000  # characters of a result that are looked at, from each end
LONGEST_LINE = 300
MOST_WORDS, FEWEST_WORDS = 12, 2

_THINGS = (
    r"(?:option|flag|argument|(?:sub)?command|parameter|field|property|attribute|method|script|key|version|syntax|format"
    r"|column)s?\b"
)
# Tried in this order on the line that names the failure; the first that matches is the class of the failure.
_CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cancelled", (r"sibling tool call", r"parallel tool call", r"^cancelled\b", r"(?:interrupted|aborted) by user")),
    (
        "anchor",
        (
            r"string to replace not found",
            r"matches of the string to replace",
            r"failed to find (?:expected lines|context)",
        ),
    ),
    (
        "precondition",
        (
            r"not been read yet",
            r"modified since read",
            r"InputValidationError",
            r"\b(?:unknown|no such|unavailable) (?:skill|agent|tool)\b",
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
            r"ENOENT|EISDIR",
            r"(?:is|not) a directory",
            r"no matches found",
            r"not a git repository",
            r"(?:file|path|directory)(?: or directory)? (?:does not exist|not found)",
            r"did not match any",
            r"not in the working tree",
            r"cannot find (?:the |main |path |module ['\"][./\\])",
        ),
    ),
    (
        "interface",
        (
            r"\b(?:un(?:recogni[sz]ed|known|supported|expected)|invalid|illegal|ambiguous|missing|no such|bad"
            r"|deprecated|conflicting|too (?:many|few)) (?:\w+ ){0,2}" + _THINGS,
            r"(?:does|do|did)(?:n't| not) (?:accept|support|take|recogni[sz]e|allow)",
            r"is not (?:supported|allowed|recogni[sz]ed|a valid|valid|available|a \S+ command)",
            r"(?:is|are) (?:required|deprecated)",
            r"requires? (?:a|an|at|the|that)\b",
            r"\bmust (?:be|have|use|specify|provide)\b",
            r"can(?:not| only) be",
            r"mutually exclusive",
            r"command not found",
            r"\busage:",
            r"no module named",
            r"cannot find module",
            r"no rule to make target",
        ),
    ),
    (
        "environment",
        (
            r"permission denied|access denied|not permitted|EACCES|EPERM",
            r"forbidden|unauthori[sz]ed|authenticat|not logged in|certificate",
            r"requires approval|haven't granted|was blocked|sandbox|protected branch",
            r"connection (?:refused|reset|timed out)|cannot connect|could not resolve host|unreachable|ECONNREFUSED",
            r"timed out|timeout|rate limit",
            r"already in use|EADDRINUSE|database is locked",
            r"not installed|externally-managed",
            r"no space left|out of memory|read-only file system",
        ),
    ),
)
_CLASS_PATTERNS = tuple((name, re.compile("|".join(phrases), re.I)) for name, phrases in _CLASSES)

_SOURCE_PLACE = re.compile(r"^\S*\w\.\w{1,5}[:(]\d+[:,)]")
_CODE_FINDING = re.compile(
    _SOURCE_PLACE.pattern
    + r"|\berror(?: TS\d+|\[E\d+\])|^\s*(?:--- )?FAIL(?:ED)?\b|\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)?\b"
    r"|\bAssertionError\b|^\s*[×✗✖✕] |^CONFLICT \(|\b\d+ (?:issues|errors|problems)\b|could not compile"
    r"|need to be formatted",
    re.M,
)
_CHECKING_COMMAND = re.compile(
    r"\b(?:tests?|lint|tsc|typecheck|pytest|jest|vitest|eslint|biome|ruff|mypy|clippy|vet|build|check|fmt|format)\b"
)
_NAMES_FAILURE = re.compile(
    r"\b(?:error|fatal|failed|failure|panic|exception|cannot|can't|could not|unable|denied|refused|rejected|invalid"
    r"|illegal|unknown|unrecogni[sz]ed|unexpected|unsupported|not found|no such|no matches|missing|usage|required"
    r"|conflict|undefined)\b"
    r"|n't (?:accept|support|have|exist|find)\b|(?:does|is|has) not\b|\w(?:Error|Exception)\b|(?-i:\bE[A-Z]{4,}\b)",
    re.I,
)
_PROGRAM_SPEAKS = re.compile(
    r"^(?!\d+:)(?:[\w.()/\\@+-]+:\s?)+|^\W*(?:error|fatal|panic|usage|npm err!)\b|^\w*(?:Error|Exception):", re.I
)
_AGENT_MARKS = re.compile(r"</?tool_use_error>|\A(?:Error: )?(?:Exit code|Process exited with code) -?\d+")
_JSON_MESSAGE = re.compile(r"\"(?:message|error|detail)\"\s*:\s*\"([^\"\\]+)")
_COLOUR = re.compile(r"(?:\x1b?\[[\d;]*[mK])+")
_CLEAR_FAILURE = re.compile(
    r"^(?:(?:[\w./-]+: )?(?:error|fatal): \S|(?:[\w./()-]+: )*(?:line \d+: )?\S+: command not found$"
    r"|Traceback \(most recent|(?:[\w./-]+: )?(?:illegal|unrecogni[sz]ed|unknown|invalid) option\b"
    r"|npm (?:ERR!|error) code )"
)
_SHOWS_OTHERS = frozenset(
    ("git", "gh", "curl", "docker", "kubectl", "journalctl", "rg", "find", "ls", "less", "bat", "diff", "tree")
)
_SHELL_FILTERS = "cd echo head tail grep sed awk sort uniq wc cat tee true xargs cut tr printf export set sleep pwd"
_POWERSHELL_FILTERS = (
    "Set-Location Select-String Select-Object Where-Object ForEach-Object Measure-Object Out-File Write-Output"
    " Get-Content"
)
_FILTERS = frozenset((*_SHELL_FILTERS.split(), *_POWERSHELL_FILTERS.split()))
_FOLDS = (
    (re.compile(r"https?://\S+"), " url "),
    (re.compile(r"(?<!\w)(['\"`]).{0,200}?\1(?!\w)"), " quoted "),
    (re.compile(r"(?:\b[a-z]:|(?<![\w.@~*-]))[\w.@~*-]*[/\\][^\s:,;)\]]*"), " path "),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,}\b"), " hash "),
    (re.compile(r"\d+"), " "),
)
_PROGRAM_NAME = re.compile(r"[\w.@+-]*[A-Za-z][\w.@+-]*$")
_WORD = re.compile(r"[a-z][a-z_-]+")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_OPENS_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_WRAPPERS = frozenset(("sudo", "env", "time", "nice", "nohup", "command", "exec", "timeout", "xargs", "builtin"))
_GRAMMAR = frozenset(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}"))

# Kinds in which repeats are counted, for data without a judged list. Tried on the line that names the failure.
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "host-mechanics",
        (
            r"not been read yet|modified since read|exceeds maximum allowed|no changes to make|shell cwd recovered",
            r"string to replace|failed to find (?:expected lines|context)|stdin is closed",
        ),
    ),
    ("wrong-name", (r"\b(?:unknown|no such|unavailable) (?:skill|agent|tool)\b", r"InputValidationError")),
    ("missing-program", (r"command not found", r"not installed", r"No version is set for command", r": not found$")),
    (
        "wrong-subcommand",
        (
            r"(?:unrecogni[sz]ed|unknown|invalid|no such) (?:sub)?command|is not a \S+ command",
            r"missing script|no task \S+ found|no rule to make target",
        ),
    ),
    (
        "wrong-option",
        (
            r"(?:un(?:recogni[sz]ed|known|expected|supported)|invalid|illegal|ambiguous|no such) (?:\w+ )?"
            r"(?:option|flag|argument|switch|parameter)",
        ),
    ),
    (
        "wrong-name",
        (
            r"(?:un(?:recogni[sz]ed|known|supported)|invalid|no such) (?:\w+ ){0,2}"
            r"(?:field|property|attribute|column|key|method)",
            r"no module named|cannot find module",
        ),
    ),
)
_KIND_PATTERNS = tuple((kind, re.compile("|".join(phrases), re.I)) for kind, phrases in _KINDS)
_KIND_OF_CLASS = {
    "anchor": "host-mechanics",
    "precondition": "precondition",
    "path": "path",
    "interface": "other",
    "environment": "environment",
    "code": "code-under-work",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call failed: equal signatures are the same failure."""

    signature: str
    kind: str
    line: str


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its arguments, without the text of quotes and heredocs."""

    program: str
    code: str


def describe_failure(tool: str, command: str, text: str) -> Failure:
    """Return the signature and kind of a failed call with this result."""
    command = command[:LONGEST_COMMAND]
    line = _find_failure_line(text, is_shell=tool == "Bash")
    failure_class = _classify(text, line, command)
    words = _fold_words(line)
    if len(words) < FEWEST_WORDS:
        # A failure that says nothing is known by its command; else all of these would be one.
        words += _fold_words(" ".join(part.code for part in _working_parts(command)))
    program = _find_program(command, line) or tool
    signature = " ".join([program, failure_class, *words[:MOST_WORDS]])
    return Failure(signature, _find_kind(line, failure_class), line)


def is_cancelled(tool: str, text: str) -> bool:
    """Return whether a failed call did not fail itself, but was cancelled with another one."""
    line = _find_failure_line(text, is_shell=tool == "Bash")
    return bool(_CLASS_PATTERNS[0][1].search(line))


def has_hidden_failure(tool: str, command: str, text: str) -> bool:
    """Return whether a result that is not marked as failed begins or ends with a failure that a pipe or `;` hid."""
    if tool != "Bash" or not text or not ("|" in command or ";" in command):
        return False
    first_line = text[:LONGEST_LINE].lstrip().partition("\n")[0]
    last_line = text[-LONGEST_LINE:].rstrip().rpartition("\n")[2]
    if not (_CLEAR_FAILURE.match(first_line) or _CLEAR_FAILURE.match(last_line)):
        return False
    programs = {part.program for part in split_command(command[:LONGEST_COMMAND])}
    return programs.isdisjoint(_SHOWS_OTHERS)


def split_command(command: str) -> list[SimpleCommand]:
    """Return the simple commands in reading order; approximate where shell syntax is unusual."""
    parts: list[SimpleCommand] = []
    for code in re.split(r"[;|&\n()`]+|\$\(", _remove_quoted_text(command)):
        words = [word for word in code.split() if word not in _GRAMMAR]
        while words and (_ASSIGNMENT.match(words[0]) or words[0].rpartition("/")[2] in _WRAPPERS):
            wrapper = words.pop(0)
            if _ASSIGNMENT.match(wrapper):
                continue
            if words[:1] == ["-v"]:  # `command -v gh` starts nothing
                words.insert(0, wrapper)
                break
            while words and (words[0].startswith("-") or words[0].rstrip("smhd").isdigit()):
                words.pop(0)
        if words or code.strip():  # assignments alone start no program, and are a part all the same
            program = words[0].rpartition("/")[2] if words else ""
            parts.append(SimpleCommand(program, " ".join(words) or code.strip()))
    return parts


def _remove_quoted_text(command: str) -> str:
    """Return the command without comments and without what stands in quotes and heredocs."""
    lines: list[str] = []
    heredoc_end = ""
    for line in command.split("\n"):
        if heredoc_end:
            if line.strip() == heredoc_end:
                heredoc_end = ""
            continue
        lines.append(line)
        if opening := _OPENS_HEREDOC.search(line):
            heredoc_end = opening[2]
    text = "\n".join(lines).replace("\\\n", " ")
    characters: list[str] = []
    quote = ""
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\" and quote != "'":
            if not quote:
                characters.append(text[position + 1 : position + 2])
            position += 2
            continue
        if quote:
            if character == quote:
                characters.append(quote)  # an empty pair of quotes stays, and is folded to one word
                quote = ""
        elif character in "'\"":
            quote = character
            characters.append(quote)
        elif character == "#" and (not characters or characters[-1].isspace()):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
            continue
        else:
            characters.append(character)
        position += 1
    return "".join(characters)


def _working_parts(command: str) -> list[SimpleCommand]:
    """Return the simple commands that do the work, without changes of folder and filters around them."""
    parts = split_command(command)
    return [part for part in parts if part.program not in _FILTERS] or parts


def _find_program(command: str, line: str) -> str:
    """Return the program that failed: the one the line begins with, else the first that does work."""
    programs = [part.program for part in _working_parts(command) if _PROGRAM_NAME.match(part.program)]
    line_program = line.partition(":")[0].rpartition("/")[2]
    if line_program in programs:
        return line_program
    return programs[0] if programs else ""


def _find_failure_line(text: str, *, is_shell: bool) -> str:
    """Return the line that names the failure; a tool that is no shell begins with it."""
    lines = list(_read_lines(_take_ends(text)))
    if not is_shell:
        return _trim_line(lines[0]) if lines else ""
    if any(line.startswith("Traceback (most recent") for line in lines):
        lines.reverse()  # Python names the failure last
    for line in lines:
        start = line[:LONGEST_LINE]
        if _PROGRAM_SPEAKS.match(start) and _NAMES_FAILURE.search(start):
            return _trim_line(line)
    for line in reversed(lines):
        if _NAMES_FAILURE.search(line[:LONGEST_LINE]):
            return _trim_line(line)
    return _trim_line(lines[-1]) if lines else ""


def _take_ends(text: str) -> str:
    """Return the two ends of a long text, cut at lines."""
    if len(text) <= 2 * TEXT_END:
        return text
    head, tail = text[:TEXT_END], text[-TEXT_END:]
    return (head.rpartition("\n")[0] or head) + "\n" + (tail.partition("\n")[2] or tail)


def _read_lines(text: str) -> Iterator[str]:
    for whole_line in text.splitlines():
        line = _AGENT_MARKS.sub("", whole_line).strip()
        if line:
            yield line


def _trim_line(line: str) -> str:
    """Return the sentence in a line: no colours, and of a JSON object its message."""
    if line.startswith(("{", "[")) and (message := _JSON_MESSAGE.search(line)):
        line = message[1]
    return max(_COLOUR.split(line), key=len).strip()[:LONGEST_LINE].rstrip()


def _classify(text: str, line: str, command: str) -> str:
    if _SOURCE_PLACE.match(line):
        return "code"
    for name, pattern in _CLASS_PATTERNS:
        if pattern.search(line):
            return name
    speaks_for_itself = line.startswith(tuple(f"{part.program}: " for part in _working_parts(command)))
    is_check = bool(_CHECKING_COMMAND.search(_remove_quoted_text(command)))
    if not speaks_for_itself and (is_check or _CODE_FINDING.search(_take_ends(text))):
        return "code"
    return "other" if " " in line and _NAMES_FAILURE.search(line) else "silent"


def _find_kind(line: str, failure_class: str) -> str:
    if failure_class in ("code", "silent"):
        return _KIND_OF_CLASS.get(failure_class, "other")
    for kind, pattern in _KIND_PATTERNS:
        if pattern.search(line):
            return kind
    return _KIND_OF_CLASS.get(failure_class, "other")


def _fold_words(text: str) -> list[str]:
    folded = " ".join(text[:LONGEST_LINE].casefold().split())
    for pattern, replacement in _FOLDS:
        folded = pattern.sub(replacement, folded)
    return _WORD.findall(folded)
