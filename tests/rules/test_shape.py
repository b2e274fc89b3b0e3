"""Plain names, and no inheritance among our own classes."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from tests.rules.tree import Function, Source, assert_rule, map_imported_names, python_files, resolve_full_name

VAGUE = frozenset({"manager", "service", "handler", "helper", "util", "base"})
SYNONYMS = {
    "platform": "agent",
    "harness": "agent",
    "sdk_session": "session",
    "memory_session": "session",
    "context_dump": "brief",
}
# A class is a word of the glossary, so one named by the glossary's "not" column is a second word for it.
SECOND_CLASSES = {
    "Task": "Job",
    "Tip": "Lesson",
}


def find_poor_names(source: Source) -> list[str]:
    """Return our names (modules, classes, functions, variables) that are vague or synonyms of a glossary word."""
    breaches = []
    stem = source.module.rpartition(".")[2]
    for name, line, kind in [(stem, 1, "module"), *iter_names(source.nodes)]:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
        normalized = "_".join(word.lower().removesuffix("s") for word in words)
        vague = VAGUE & set(normalized.split("_")) if kind in ("module", "class") else set()
        breaches += [f"{source.path}:{line}: {kind} {name} says {word}" for word in sorted(vague)]
        breaches += [
            f"{source.path}:{line}: {kind} {name} says {synonym.replace('_', ' ')}; the word is {word}"
            for synonym, word in SYNONYMS.items()
            if f"_{synonym}_" in f"_{normalized}_"
        ]
        if kind == "class" and name in SECOND_CLASSES:
            breaches.append(f"{source.path}:{line}: class {name}; the word is {SECOND_CLASSES[name]}")
    return breaches


def iter_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno, "class"
        elif isinstance(node, Function):
            yield node.name, node.lineno, "function"
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, "variable"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, "variable"


def find_heirs(sources: Iterable[Source]) -> list[str]:
    """Return each class of ours that inherits from a class of ours, exceptions excepted."""
    base_names: dict[str, list[str]] = {}
    locations: dict[str, str] = {}
    for source in sources:
        imported_names = map_imported_names(source)
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        imported_names.update({node.name: f"{source.module}.{node.name}" for node in classes})
        for node in classes:
            name = f"{source.module}.{node.name}"
            base_names[name] = [resolve_full_name(base, imported_names) for base in node.bases]
            locations[name] = f"{source.path}:{node.lineno}"

    def is_error(name: str) -> bool:
        if name in base_names:
            return any(is_error(base) for base in base_names[name])
        builtin = getattr(builtins, name, None)
        is_builtin_error = isinstance(builtin, type) and issubclass(builtin, BaseException)
        return is_builtin_error or name.endswith(("Error", "Exception"))

    return [
        f"{locations[name]}: {name.rpartition('.')[2]} inherits from {base}"
        for name, bases in base_names.items()
        for base in bases
        if base in base_names and not is_error(base)
    ]


def list_sources() -> list[Source]:
    return python_files("src/hardwon")


def test_names_are_words_of_the_glossary() -> None:
    assert_rule(
        f"no module or class is called {', '.join(sorted(VAGUE))}, and each concept has one word",
        (breach for source in list_sources() for breach in find_poor_names(source)),
        "say what it does, in the words of docs/glossary.md",
    )


def test_no_class_inherits_from_a_class_of_ours() -> None:
    assert_rule(
        "frozen values and plain functions; no inheritance among our classes, exceptions excepted",
        find_heirs(list_sources()),
        "hand the difference in as a function or a value",
    )


def test_vague_names_and_synonyms_are_found() -> None:
    text = "class SessionManager: ...\ndef base_url(platform): ...\nclass Tip: ...\nsdk_session = 1\n"
    breaches = find_poor_names(Source("path_utils.py", "hardwon.path_utils", text))
    assert {line.partition(": ")[2] for line in breaches} == {
        "module path_utils says util",
        "class SessionManager says manager",
        "class Tip; the word is Lesson",
        "variable sdk_session says sdk session; the word is session",
        "variable platform says platform; the word is agent",
    }


def test_names_that_only_contain_a_banned_word_pass() -> None:
    text = "import platform\ndatabase = base64 = serviced = sys.platform\ndef handle(): ...\n"
    assert find_poor_names(Source("a.py", "hardwon.a", text)) == []


def test_inheritance_is_found_except_from_exceptions_and_libraries() -> None:
    classes = "class Parent: ...\nclass Bad(Exception): ...\nclass Worse(Bad): ..."
    parent = Source("a.py", "hardwon.a", classes)
    child = Source(
        "b.py",
        "hardwon.b",
        "import click\nfrom hardwon import a\nfrom hardwon.a import Bad, Parent as P\n"
        "from typing import Protocol\n"
        "class One(P): ...\nclass Two(a.Parent): ...\nclass Three(One): ...\nclass Worst(Bad): ...\n"
        "class Group(click.Group): ...\nclass Says(Protocol): ...\n",
    )
    assert find_heirs([parent, child]) == [
        "b.py:5: One inherits from hardwon.a.Parent",
        "b.py:6: Two inherits from hardwon.a.Parent",
        "b.py:7: Three inherits from hardwon.b.One",
    ]
