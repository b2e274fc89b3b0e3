"""Plain names, and no inheritance among our own classes."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from tests.rules.tree import Function, Source, full_name, origins, python_files, uphold

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


def poorly_named(source: Source) -> list[str]:
    """Names we give (modules, classes, functions, arguments, variables) that say nothing, or say it twice."""
    wrong = []
    stem = source.module.rpartition(".")[2]
    for name, line, kind in [(stem, 1, "module"), *given_names(source.nodes)]:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
        plain = "_".join(word.lower().removesuffix("s") for word in words)
        vague = VAGUE & set(plain.split("_")) if kind in ("module", "class") else set()
        wrong += [f"{source.place}:{line}: {kind} {name} says {word}" for word in sorted(vague)]
        wrong += [
            f"{source.place}:{line}: {kind} {name} says {synonym.replace('_', ' ')}; the word is {word}"
            for synonym, word in SYNONYMS.items()
            if f"_{synonym}_" in f"_{plain}_"
        ]
        if kind == "class" and name in SECOND_CLASSES:
            wrong.append(f"{source.place}:{line}: class {name}; the word is {SECOND_CLASSES[name]}")
    return wrong


def given_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno, "class"
        elif isinstance(node, Function):
            yield node.name, node.lineno, "function"
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, "variable"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, "variable"


def heirs(sources: Iterable[Source]) -> list[str]:
    """Each class of ours that inherits from a class of ours, exceptions excepted."""
    ours: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for source in sources:
        known = origins(source)
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        known.update({node.name: f"{source.module}.{node.name}" for node in classes})
        for node in classes:
            name = f"{source.module}.{node.name}"
            ours[name] = [full_name(base, known) for base in node.bases]
            places[name] = f"{source.place}:{node.lineno}"

    def is_error(name: str) -> bool:
        if name in ours:
            return any(is_error(base) for base in ours[name])
        kind = getattr(builtins, name, None)
        builtin = isinstance(kind, type) and issubclass(kind, BaseException)
        return builtin or name.endswith(("Error", "Exception"))

    return [
        f"{places[name]}: {name.rpartition('.')[2]} inherits from {base}"
        for name, bases in ours.items()
        for base in bases
        if base in ours and not is_error(base)
    ]


def ours() -> list[Source]:
    return python_files("src/hardwon")


def test_names_are_words_of_the_glossary() -> None:
    uphold(
        f"no module or class is called {', '.join(sorted(VAGUE))}, and each concept has one word",
        (breach for source in ours() for breach in poorly_named(source)),
        "say what it does, in the words of docs/glossary.md",
    )


def test_nothing_of_ours_inherits_from_ours() -> None:
    uphold(
        "frozen values and plain functions; no inheritance among our classes, exceptions excepted",
        heirs(ours()),
        "hand the difference in as a function or a value",
    )


def test_vague_and_second_names_are_found() -> None:
    text = "class SessionManager: ...\ndef base_url(platform): ...\nclass Tip: ...\nsdk_session = 1\n"
    found = poorly_named(Source("path_utils.py", "hardwon.path_utils", text))
    assert {line.partition(": ")[2] for line in found} == {
        "module path_utils says util",
        "class SessionManager says manager",
        "class Tip; the word is Lesson",
        "variable sdk_session says sdk session; the word is session",
        "variable platform says platform; the word is agent",
    }


def test_names_that_only_contain_a_banned_word_pass() -> None:
    text = "import platform\ndatabase = base64 = serviced = sys.platform\ndef handle(): ...\n"
    assert poorly_named(Source("a.py", "hardwon.a", text)) == []


def test_an_heir_is_found_and_an_exception_or_library_class_is_not() -> None:
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
    assert heirs([parent, child]) == [
        "b.py:5: One inherits from hardwon.a.Parent",
        "b.py:6: Two inherits from hardwon.a.Parent",
        "b.py:7: Three inherits from hardwon.b.One",
    ]
