"""Keep anchors to the code that approved texts name, and tell at delivery whether that code has changed or is gone.

Code is hashed so that comments and formatting make no difference.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
from dataclasses import dataclass

from hardwon import projects
from hardwon.store import efficacy
from hardwon.store.db import Connection, transaction
from hardwon.types import Lesson

FRESH, CHANGED_CODE, GONE_CODE = "fresh", "changed", "gone"
LESSON, MEMORY, HANDOFF = "lesson", "memory", "handoff"
_MAX_FILE_BYTES = 200_000  # parsing a larger file takes more of a hook's second than it is worth
_MAX_ANCHORS = 8  # of one text
GONE = ""  # in place of a hash
EXISTS = "exists"  # in place of the hash of a file that is named without a symbol
_PATH = re.compile(r"(?<![\w/.~-])(?:[\w.@+-]+/)*[\w@+-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,5}\b")
_SYMBOL = re.compile(
    r"`([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)(?:\(\))?`|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(\)|::?([A-Za-z_]\w+)"
)
_HASH_COMMENTS = frozenset([".sh", ".bash", ".rb", ".pl", ".yml", ".yaml", ".toml", ".r", ".ex", ".exs", ".py", ".mk"])
_DASH_COMMENTS = frozenset((".sql", ".lua", ".hs"))
_STRINGS = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"
_SLASH_TOKENS = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|{_STRINGS}|[\w$]+|[^\s\w$]", re.S)
_HASH_TOKENS = re.compile(rf"(?P<comment>#[^\n]*)|{_STRINGS}|[\w$]+|[^\s\w$]")
_DASH_TOKENS = re.compile(rf"(?P<comment>--[^\n]*|/\*.*?\*/)|{_STRINGS}|[\w$]+|[^\s\w$]", re.S)
_DEFINING_WORDS = frozenset(
    (
        *("function", "def", "class", "fn", "func", "interface", "type", "struct", "enum", "const", "let", "var"),
        *("trait", "impl", "module", "sub", "proc", "table"),
    )
)
_CLOSERS = {"{": "}", "(": ")", "[": "]"}


def save_anchors(connection: Connection, kind: str, subject: str, text: str, root: str, now: float) -> None:
    """Remember the code that a text names, as it is now that a person approved the text."""
    if not root or not os.path.isdir(root):
        return
    anchors = find_anchors(text, root)
    revision = _read_revision(root) if anchors else ""
    with transaction(connection):
        rows = [(anchor.path, anchor.symbol, anchor.hash, revision) for anchor in anchors]
        efficacy.replace_anchors(connection, kind, subject, rows, now)


def save_lesson_anchors(connection: Connection, lesson: Lesson, now: float) -> None:
    """Remember the code that a lesson of one project names; a lesson for every project names none in particular."""
    text = "\n".join((lesson.summary, lesson.problem, lesson.solution, lesson.injection))
    root = projects.find_git_root(os.path.expanduser(lesson.project)) if lesson.project else ""
    save_anchors(connection, LESSON, lesson.id, text, root, now)


class StalenessChecker:
    """Compares anchors with the files; a file is read again only after its time or size has changed."""

    def __init__(self, connection: Connection, kind: str) -> None:
        self._anchors = efficacy.list_anchors(connection, kind)
        self._hashes: dict[tuple[str, str], tuple[tuple[int, int], str]] = {}

    def check(self, subject: str, text: str = "") -> str:
        """Return whether the code that a subject names is fresh, changed or gone.

        With a text, only the code that this text names counts: one line of a handoff.
        """
        state = FRESH
        for path, symbol, approved_hash in self._anchors.get(subject, ()):
            if text and os.path.basename(path) not in text:
                continue
            current_hash = self._hash(path, symbol)
            if current_hash == GONE:
                return GONE_CODE
            if current_hash != approved_hash:
                state = CHANGED_CODE
        return state

    def _hash(self, path: str, symbol: str) -> str:
        """Return the present hash of a symbol's code, of EXISTS for a file; GONE if either is not there."""
        try:
            stat = os.stat(path)
        except OSError:
            return GONE
        if not symbol:
            return EXISTS
        stamp = (stat.st_mtime_ns, stat.st_size)
        cached = self._hashes.get((path, symbol))
        if cached is None or cached[0] != stamp:
            cached = self._hashes[path, symbol] = (stamp, hash_symbol(path, symbol))
        return cached[1]


def find_gone_subjects(connection: Connection, kind: str) -> dict[str, str]:
    """Return the subjects whose code is gone for good, each with the name of that code.

    A file that is missing on another branch comes back, so its commit must be behind the present one.
    """
    gone: dict[str, str] = {}
    for subject, path, symbol, revision in efficacy.list_anchor_rows(connection, kind):
        if hash_symbol(path, symbol) == GONE and _is_ahead_of(_find_existing_folder(path), revision):
            gone[subject] = f"{symbol} in {os.path.basename(path)}" if symbol else os.path.basename(path)
    return gone


def _find_existing_folder(path: str) -> str:
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


@dataclass(frozen=True, slots=True)
class CodeAnchor:
    """A symbol in a file, or the whole file, and the hash of its normalised code."""

    path: str
    symbol: str
    hash: str


def find_anchors(text: str, root: str) -> list[CodeAnchor]:
    """Return the files of a project that a text names, with the symbols of these files that it names.

    A file named without a symbol is only watched for its disappearance: some line of it changes every day.
    """
    anchors: list[CodeAnchor] = []
    # Each form of a symbol has its own group in the pattern, and the others are empty.
    symbols = ["".join(groups) for groups in _SYMBOL.findall(text)]
    for name in dict.fromkeys(_PATH.findall(text)):
        path = os.path.join(root, name)
        if not os.path.isfile(path):
            continue
        file_anchors = []
        for symbol in dict.fromkeys(symbols):
            if symbol == name:
                continue  # a file name in backquotes looks like a symbol
            code_hash = hash_symbol(path, symbol)
            if code_hash != GONE:
                file_anchors.append(CodeAnchor(path, symbol, code_hash))
        anchors += file_anchors or [CodeAnchor(path, "", EXISTS)]
    return anchors[:_MAX_ANCHORS]


def hash_symbol(path: str, symbol: str) -> str:
    """Return the hash of a symbol's code; GONE if the file or the symbol is not there.

    EXISTS without a symbol, and for a file that is too large to parse.
    """
    try:
        if not symbol or os.path.getsize(path) > _MAX_FILE_BYTES:
            return EXISTS if os.path.isfile(path) else GONE
        with open(path, encoding="utf-8", errors="replace") as file:
            source = file.read()
    except OSError:
        return GONE
    normalized = None
    if path.endswith((".py", ".pyi")):
        normalized = _normalize_python(source, symbol)
    if normalized is None:
        extension = os.path.splitext(path)[1].lower()
        normalized = _normalize_tokens(_tokenize(source, extension), symbol)
    if not normalized:
        return GONE
    return hashlib.sha256(normalized.encode("utf-8", "replace")).hexdigest()[:16]


def _normalize_python(source: str, symbol: str) -> str | None:
    """Return the syntax tree of a definition without docstrings; empty if there is none, None if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    node = _find_definition(tree, symbol.split("."))
    if node is None:
        return ""
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        match body:
            case [ast.Expr(value=ast.Constant(value=str())), *_]:  # a docstring, which says nothing to the machine
                del body[0]
    return ast.dump(node, annotate_fields=False)


def _find_definition(tree: ast.AST, names: list[str]) -> ast.AST | None:
    """Return the function, class or assignment of a dotted name, outer ones first; None if there is none.

    If the whole name is not found its last part is looked for, so that `client.send` finds the method `send`.
    """
    first_name, *inner_names = names
    for node in ast.walk(tree):
        if node is tree or first_name not in _list_defined_names(node):
            continue
        definition = _find_definition(node, inner_names) if inner_names else node
        if definition is not None:
            return definition
    if inner_names and isinstance(tree, ast.Module):
        return _find_definition(tree, names[-1:])
    return None


def _list_defined_names(node: ast.AST) -> list[str]:
    """Return the names that a function, class or assignment defines; none for other nodes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _tokenize(source: str, extension: str) -> list[str]:
    """Split code into tokens without comments, in a form that formatters do not change."""
    pattern = _SLASH_TOKENS
    if extension in _HASH_COMMENTS or not extension:
        pattern = _HASH_TOKENS
    elif extension in _DASH_COMMENTS:
        pattern = _DASH_TOKENS
    tokens: list[str] = []
    for match in pattern.finditer(source):
        token = match[0]
        if match["comment"] is not None or token == ";":
            continue
        if token in ("}", ")", "]") and tokens and tokens[-1] == ",":
            tokens.pop()  # a trailing comma is the formatter's choice, like quotes and semicolons
        if token[0] in "'\"" and len(token) > 1:
            token = f'"{token[1:-1]}"'
        tokens.append(token)
    return tokens


def _normalize_tokens(tokens: list[str], symbol: str) -> str:
    """Return the tokens of a definition, up to the bracket that closes it; empty if there is none."""
    name = symbol.rpartition(".")[2]
    for index, token in enumerate(tokens):
        if token != name or not _is_definition(tokens, index):
            continue
        end = _find_end(tokens, index + 1)
        return " ".join(tokens[index:end])
    return ""


def _is_definition(tokens: list[str], index: int) -> bool:
    """Return whether the name at `index` is defined there: by a keyword, a value or a method's body."""
    previous = tokens[index - 1] if index else ""
    following = tokens[index + 1] if index + 1 < len(tokens) else ""
    if previous in _DEFINING_WORDS:
        return True
    if following in ("=", ":"):
        return previous not in (".", "?")  # `object.name = …` and `condition ? name : …` define nothing
    if following != "(" or previous in (".", "new", "return", "=", "(", ","):
        return False
    arguments_end = _skip_brackets(tokens, index + 1)
    # A method: `name(arguments) {`, with a return type before the brace in some languages.
    return "{" in tokens[arguments_end : arguments_end + 4]


def _find_end(tokens: list[str], index: int) -> int:
    """Return where a definition ends: after its block, or for one without a block where the next one begins."""
    for position in range(index, len(tokens)):
        if tokens[position] == "{":
            return _skip_brackets(tokens, position)
        if position > index and tokens[position] in _DEFINING_WORDS:
            return position
    return len(tokens)


def _skip_brackets(tokens: list[str], index: int) -> int:
    """Return the position after the bracket that closes the one at `index`."""
    opening = tokens[index]
    closing = _CLOSERS[tokens[index]]
    depth = 0
    for position in range(index, len(tokens)):
        depth += (tokens[position] == opening) - (tokens[position] == closing)
        if depth == 0:
            return position + 1
    return len(tokens)


def _read_revision(root: str) -> str:
    """Return the commit that a project is at; empty outside git."""
    return _run_git(root, "rev-parse", "HEAD")


def _is_ahead_of(root: str, revision: str) -> bool:
    """Return whether the project is at a commit that follows this one, and not on a branch beside it."""
    return bool(revision) and _run_git(root, "merge-base", revision, "HEAD") == revision


def _run_git(root: str, *words: str) -> str:
    """Return what git prints; empty if it fails, is not installed or takes longer than five seconds."""
    try:
        run = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""
