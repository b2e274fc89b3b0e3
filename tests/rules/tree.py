"""The source tree as values: which files there are, what each imports and defines.

Nothing of hardwon is imported here. A rule that read the running package would see only what happened to run;
the syntax tree shows every import, also the one inside a function that no test calls.
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
    """One Python file: its place in the repository, its dotted name, its text."""

    place: str
    module: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text, self.place)

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree; several rules read the same file, and `ast.walk` is slow."""
        return walked(self.text, self.place)

    @property
    def package(self) -> str:
        """The package that a relative import starts from."""
        is_package = os.path.basename(self.place) == "__init__.py"
        return self.module if is_package else self.module.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """One imported module, with what a rule may ask about it."""

    target: str
    line: int
    at_load: bool  # runs when the module is loaded, not when a function is called
    for_types: bool  # under `if TYPE_CHECKING:`, so it never runs
    fallback: bool  # under `except ImportError:`, so it runs only where the first choice is missing
    nested: bool  # inside an if, try, with, function or class


@cache
def parsed(text: str, place: str) -> ast.Module:
    return ast.parse(text, place)


@cache
def walked(text: str, place: str) -> list[ast.AST]:
    return list(ast.walk(parsed(text, place)))


def uphold(rule: str, breaches: Iterable[str], mend: str) -> None:
    """Fail with the rule, every place that breaks it, and what to do."""
    __tracebackhide__ = True
    found = sorted(set(breaches))
    if found:
        places = "\n".join(f"  {breach}" for breach in found)
        raise AssertionError(f"rule: {rule}\n{places}\nto mend: {mend}")


def python_files(*folders: str) -> list[Source]:
    """Every Python file below the folders, which are given relative to the repository."""
    return [
        Source(place, dotted(place), read(place))
        for folder in folders
        for place in below(folder)
        if place.endswith(".py")
    ]


def below(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(os.path.join(ROOT, folder)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.relpath(os.path.join(base, name), ROOT) for name in sorted(files))


def read(place: str) -> str:
    with open(os.path.join(ROOT, place), encoding="utf-8") as file:
        return file.read()


def page(place: str) -> str:
    """A page that has to exist; a missing one fails here with a sentence instead of a traceback."""
    __tracebackhide__ = True
    if not os.path.exists(os.path.join(ROOT, place)):
        raise AssertionError(f"rule: the repository has {place}\n  {place} does not exist\nto mend: write it")
    return read(place)


def dotted(place: str) -> str:
    name = place.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def tracked() -> list[str]:
    """Every file that is or would be committed."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode:  # an unpacked archive has no .git
        return [place for place in below(".") if not place.startswith(".venv/")]
    names = [name for name in listing.stdout.split("\0") if name]
    return [name for name in names if os.path.isfile(os.path.join(ROOT, name))]


def imports(source: Source, modules: Iterable[str]) -> list[Import]:
    """All the source imports, at any depth; `from a import b` is a.b where that is one of the modules."""
    known = frozenset(modules)
    found: list[Import] = []

    def visit(node: ast.AST, top: bool, at_load: bool, for_types: bool, fallback: bool) -> None:
        for target in targets(node, source, known):
            line = getattr(node, "lineno", 0)
            found.append(Import(target, line, at_load, for_types, fallback, not top))
        inside = at_load and not isinstance(node, Function | ast.Lambda)
        for field, child in children(node):
            types = for_types or (field == "body" and is_type_checking(node))
            spare = fallback or (isinstance(child, ast.ExceptHandler) and catches_import_error(child))
            visit(child, isinstance(node, ast.Module), inside, types, spare)

    visit(source.tree, True, True, False, False)
    return found


def children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        items = value if isinstance(value, list) else [value]
        yield from ((field, item) for item in items if isinstance(item, ast.AST))


def targets(node: ast.AST, source: Source, known: frozenset[str]) -> list[str]:
    """The modules that this one node imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = origin_of(node, source)
        full = [f"{origin}.{alias.name}" for alias in node.names]
        return [name if name in known else origin for name in full]
    if isinstance(node, ast.Call) and callee(node) in ("__import__", "import_module") and node.args:
        first = node.args[0]
        return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    return []


def origin_of(node: ast.ImportFrom, source: Source) -> str:
    """The module after `from`, with the dots of a relative import worked out."""
    start = source.package.split(".")
    above = start[: len(start) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def callee(call: ast.Call) -> str:
    """The last name of what is called: `execute` in `db.execute(…)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING"


def catches_import_error(node: ast.ExceptHandler) -> bool:
    return last_name(node.type) in ("ImportError", "ModuleNotFoundError")


def last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def origins(source: Source) -> dict[str, str]:
    """What each imported name of a source stands for: `Group` -> `click.Group`."""
    known: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.split(".")[0]
                known[alias.asname or full] = full
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{origin_of(node, source)}.{alias.name}"
    return known


def full_name(node: ast.AST, known: dict[str, str]) -> str:
    """The dotted name of an expression, its first part looked up: `monkeypatch`, `hardwon.paths.home`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Subscript):
        return full_name(node.value, known)
    if isinstance(node, ast.Name):
        parts.append(known.get(node.id, node.id))
    return ".".join(reversed(parts))
