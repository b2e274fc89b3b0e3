"""Read the source tree: its files, and what each of them imports and defines.

This module does not import hardwon. The running package shows only the code that ran; the syntax tree shows every
import, including those inside functions that no test calls.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SRC = os.path.join(ROOT, "src")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A Python file: its path in the repository, its dotted name and its text."""

    path: str
    module: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return parse_source(self.text, self.path)

    @property
    def nodes(self) -> list[ast.AST]:
        """Return every node of the tree, cached: several rules read the same file, and `ast.walk` is slow."""
        return walk_source(self.text, self.path)

    @property
    def package(self) -> str:
        """Return the package that a relative import starts from."""
        is_package = os.path.basename(self.path) == "__init__.py"
        return self.module if is_package else self.module.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """An imported module and the context of its import statement."""

    target: str
    line: int
    at_load: bool  # runs when the module is loaded, not when a function is called
    for_types: bool  # under `if TYPE_CHECKING:`, so it never runs
    fallback: bool  # under `except ImportError:`, so it runs only where the first choice is missing
    nested: bool  # inside an if, try, with, function or class


@cache
def parse_source(text: str, path: str) -> ast.Module:
    return ast.parse(text, path)


@cache
def walk_source(text: str, path: str) -> list[ast.AST]:
    return list(ast.walk(parse_source(text, path)))


def assert_rule(rule: str, breaches: Iterable[str], fix: str) -> None:
    """Fail with the rule, every breach of it, and how to fix them."""
    __tracebackhide__ = True
    sorted_breaches = sorted(set(breaches))
    if sorted_breaches:
        breach_lines = "\n".join(f"  {breach}" for breach in sorted_breaches)
        raise AssertionError(f"rule: {rule}\n{breach_lines}\nto fix: {fix}")


def python_files(*folders: str) -> list[Source]:
    """Return every Python file below the folders, which are relative to the repository."""
    return [
        Source(path, get_module_name(path), read_file(path))
        for folder in folders
        for path in list_files_below(folder)
        if path.endswith(".py")
    ]


def list_files_below(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(os.path.join(ROOT, folder)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.relpath(os.path.join(base, name), ROOT) for name in sorted(files))


def read_file(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def page(path: str) -> str:
    """Return the text of a page that must exist; if it is missing, fail with a message instead of a traceback."""
    __tracebackhide__ = True
    if not os.path.exists(os.path.join(ROOT, path)):
        raise AssertionError(f"rule: the repository has {path}\n  {path} does not exist\nto fix: write it")
    return read_file(path)


def get_module_name(path: str) -> str:
    module_path = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return module_path.replace("/", ".")


def list_tracked_files() -> list[str]:
    """List every file that is committed or would be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode:  # an unpacked archive has no .git
        return [path for path in list_files_below(".") if not path.startswith(".venv/")]
    paths = [name for name in listing.stdout.split("\0") if name]
    return [name for name in paths if os.path.isfile(os.path.join(ROOT, name))]


def find_imports(source: Source, modules: Iterable[str]) -> list[Import]:
    """Return all imports of the source, at any depth; `from a import b` is a.b where that is one of the modules."""
    return _find_imports(source, frozenset(modules))


@cache
def _find_imports(source: Source, known_modules: frozenset[str]) -> list[Import]:
    found_imports: list[Import] = []
    # Only a call can import inside an expression, and most nodes of a tree are expressions.
    may_import_by_call = "__import__" in source.text or "import_module" in source.text

    def visit(node: ast.AST, top: bool, at_load: bool, for_types: bool, fallback: bool) -> None:
        for target in list_import_targets(node, source, known_modules):
            line = getattr(node, "lineno", 0)
            found_imports.append(Import(target, line, at_load, for_types, fallback, not top))
        child_at_load = at_load and not isinstance(node, Function | ast.Lambda)
        for field, child in iter_children(node):
            if isinstance(child, ast.expr) and not may_import_by_call:
                continue
            child_for_types = for_types or (field == "body" and is_type_checking(node))
            child_fallback = fallback or (isinstance(child, ast.ExceptHandler) and catches_import_error(child))
            visit(child, isinstance(node, ast.Module), child_at_load, child_for_types, child_fallback)

    visit(source.tree, True, True, False, False)
    return found_imports


def iter_children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        items = value if isinstance(value, list) else [value]
        yield from ((field, item) for item in items if isinstance(item, ast.AST))


def list_import_targets(node: ast.AST, source: Source, known_modules: frozenset[str]) -> list[str]:
    """Return the modules that this node imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = resolve_origin(node, source)
        full_names = [f"{origin}.{alias.name}" for alias in node.names]
        return [name if name in known_modules else origin for name in full_names]
    if isinstance(node, ast.Call) and get_callee_name(node) in ("__import__", "import_module") and node.args:
        first = node.args[0]
        return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    return []


def resolve_origin(node: ast.ImportFrom, source: Source) -> str:
    """Return the module after `from`, with the dots of a relative import resolved."""
    start = source.package.split(".")
    above = start[: len(start) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def get_callee_name(call: ast.Call) -> str:
    """Return the last name of the called expression: `execute` in `db.execute(…)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and get_last_name(node.test) == "TYPE_CHECKING"


def catches_import_error(node: ast.ExceptHandler) -> bool:
    return get_last_name(node.type) in ("ImportError", "ModuleNotFoundError")


def get_last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def map_imported_names(source: Source) -> dict[str, str]:
    """Map each imported name of a source to its full name: `Group` -> `click.Group`."""
    imported_names: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.split(".")[0]
                imported_names[alias.asname or module] = module
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported_names[alias.asname or alias.name] = f"{resolve_origin(node, source)}.{alias.name}"
    return imported_names


def resolve_full_name(node: ast.AST, imported_names: dict[str, str]) -> str:
    """Return the dotted name of an expression with its first part looked up: `monkeypatch`, `hardwon.paths.home`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Subscript):
        return resolve_full_name(node.value, imported_names)
    if isinstance(node, ast.Name):
        parts.append(imported_names.get(node.id, node.id))
    return ".".join(reversed(parts))
