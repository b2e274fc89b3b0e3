"""Imports run one way: entry points -> actions -> features -> store, agents, privacy -> types, settings, paths."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

import pytest

from tests.rules.tree import SRC, Source, assert_rule, find_imports, python_files

# The packages and top-level modules of hardwon, lowest first.
BASE = ("types", "errors", "clock", "paths", "text", "shell", "projects", "claims", "privacy", "settings", "pauses")
# Who may import whom. A name of two parts allows one module of a package. A package that is missing here fails the
# test until somebody decides where it belongs.
MAY_IMPORT: Mapping[str, tuple[str, ...]] = {
    "__init__": (),
    "types": (),
    "errors": (),
    "clock": (),
    "paths": (),
    "text": ("types",),
    "shell": ("types", "text"),
    "projects": ("paths",),
    "claims": ("paths",),
    "privacy": ("types", "paths", "text", "projects", "claims"),
    "settings": ("types", "errors", "paths", "privacy"),
    "pauses": ("clock", "paths", "projects"),
    "store": (*BASE,),
    "agents": (*BASE, "store"),
    "self_protection": (*BASE, "agents"),
    "lessons": (*BASE, "store", "agents", "self_protection"),
    "data": (*BASE, "store", "lessons"),
    "sessions": (*BASE, "store", "agents"),
    "mining": (*BASE, "store", "agents", "lessons"),
    "efficacy": (*BASE, "store", "agents", "lessons"),
    "team": (*BASE, "store", "lessons"),
    "distil": (*BASE, "store", "agents", "mining"),
    "memories": (*BASE, "store"),
    "handoff": (*BASE, "store", "agents", "data", "distil", "mining", "memories"),
    "search": (*BASE, "store", "agents", "lessons", "efficacy", "memories", "handoff"),
    "actions": (
        *BASE,
        "store",
        "agents",
        "lessons",
        "data",
        "sessions",
        "mining",
        "efficacy",
        "distil",
        "memories",
        "handoff",
        "search",
        "team",
    ),
    "fallback": (*BASE, "agents", "lessons", "sessions"),
    "worker": (
        *BASE,
        "store",
        "agents",
        "lessons",
        "sessions",
        "mining",
        "efficacy",
        "distil",
        "memories",
        "handoff",
        "search",
        "team",
        "actions",
        "fallback",
        "web",
    ),
    "web": (
        *BASE,
        "store",
        "agents",
        "lessons",
        "data",
        "efficacy",
        "memories",
        "handoff",
        "search",
        "actions",
        "worker.hook_responder",
    ),
    "mcp": (*BASE, "store", "lessons", "memories", "handoff", "search", "actions"),
    "cli": (
        *BASE,
        "store",
        "agents",
        "self_protection",
        "lessons",
        "data",
        "sessions",
        "mining",
        "efficacy",
        "distil",
        "memories",
        "handoff",
        "search",
        "team",
        "actions",
        "fallback",
        "worker",
        "web",
        "mcp",
    ),
    "hook": ("fallback",),
    "__main__": ("cli",),
}


def get_package(module: str) -> str:
    """Return the package or top-level module that a module belongs to: `hardwon.lessons.matching` is in `lessons`."""
    return [*module.split("."), "__init__"][1]


def find_forbidden_imports(
    sources: Iterable[Source], may_import: Mapping[str, tuple[str, ...]] = MAY_IMPORT
) -> list[str]:
    """Return each import that the table does not allow."""
    sources = list(sources)
    modules = {source.module for source in sources}
    breaches = []
    for source in sources:
        importer = get_package(source.module)
        if importer not in may_import:
            breaches.append(f"{source.path}: {importer} is not in the table of packages")
            continue
        for statement in find_imports(source, modules):
            imported = get_package(statement.target)
            module = ".".join(statement.target.split(".")[1:3])
            allowed = {importer, "__init__", *may_import[importer]}
            if statement.target.split(".")[0] != "hardwon" or imported in allowed or module in allowed:
                continue
            breaches.append(f"{source.path}:{statement.line}: {importer} imports {statement.target}")
    return breaches


def find_import_cycles(sources: Iterable[Source]) -> list[str]:
    """Return each import cycle, by removing modules without remaining imports until nothing changes."""
    sources = list(sources)
    modules = {source.module for source in sources}
    targets = {
        source.module: {statement.target for statement in find_imports(source, modules)} & modules - {source.module}
        for source in sources
    }
    while free := {module for module, imported in targets.items() if not imported & targets.keys()}:
        targets = {module: imported for module, imported in targets.items() if module not in free}
    return [f"{module} -> {', '.join(sorted(imported & targets.keys()))}" for module, imported in targets.items()]


def list_loaded_modules(code: str) -> list[str]:
    """List the modules of hardwon that a fresh interpreter has loaded after running the code."""
    tail = "\nprint('\\n' + json.dumps([name for name in sys.modules if name.split('.')[0] == 'hardwon']))"
    run = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}{tail}"], capture_output=True, text=True, cwd=SRC
    )
    assert run.returncode == 0, run.stderr
    names: list[str] = json.loads(run.stdout.splitlines()[-1])
    return names


def test_imports_run_one_way() -> None:
    assert_rule(
        "a package imports only what MAY_IMPORT allows it",
        find_forbidden_imports(python_files("src/hardwon")),
        "move what both need down, hand it in as an argument, or declare the arrow in the table",
    )


def test_the_table_has_no_cycle_of_packages() -> None:
    """Entry points aside: the worker serves the web pages, which use two modules of the worker."""
    packages = {name: {arrow for arrow in arrows if "." not in arrow} for name, arrows in MAY_IMPORT.items()}
    while free := {name for name, arrows in packages.items() if not arrows & packages.keys()}:
        packages = {name: arrows for name, arrows in packages.items() if name not in free}
    assert packages == {}


def test_the_table_allows_no_more_than_is_used() -> None:
    """An arrow that nothing uses any more is removed, so that the table stays a true picture."""
    sources = python_files("src/hardwon")
    modules = {source.module for source in sources}
    used: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for source in sources:
        for statement in find_imports(source, modules):
            if statement.target.split(".")[0] == "hardwon":
                used[get_package(source.module)] |= {
                    get_package(statement.target),
                    ".".join(statement.target.split(".")[1:3]),
                }
    declared = {
        name: set(arrows) - (set(BASE) if set(BASE) <= set(arrows) else set()) for name, arrows in MAY_IMPORT.items()
    }
    assert_rule(
        "every arrow of MAY_IMPORT beyond the common base is used",
        (
            f"{name} does not import {arrow}"
            for name, arrows in declared.items()
            for arrow in sorted(arrows - used[name])
        ),
        "remove the arrow from the table",
    )


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert_rule(
        "there is no import cycle, function-level imports included",
        find_import_cycles(python_files("src/hardwon")),
        "move what both need into a module below them",
    )


def test_importing_hardwon_loads_nothing_else() -> None:
    assert list_loaded_modules("import hardwon") == ["hardwon"]


def run_command(*words: str) -> str:
    """Return code that runs a command of the command line."""
    return f"from hardwon.cli import main\nsys.argv = {['hardwon', *words]}\ntry:\n    main()\nexcept SystemExit:\n    pass"


def test_help_loads_no_feature() -> None:
    allowed_packages = {*BASE, "__init__", "cli", "self_protection", "agents"}
    assert_rule(
        "`hardwon --help` loads no feature, no store and no worker",
        (name for name in list_loaded_modules(run_command("--help")) if get_package(name) not in allowed_packages),
        "import it inside the command that needs it",
    )


@pytest.mark.parametrize("command", ["lessons list", "scan candidates", "memory list"])
def test_a_list_loads_no_decision(command: str) -> None:
    loaded_modules = list_loaded_modules(run_command(*command.split()))
    assert_rule(
        f"`hardwon {command}` loads none of the code that decides, which takes half as long again",
        (name for name in loaded_modules if name.startswith("hardwon.actions.")),
        "import it inside the function that decides",
    )


def build_tree(**texts: str) -> list[Source]:
    """Return a small tree: `build_tree(search_brief="import re")` has src/hardwon/search/brief.py."""
    return [
        Source(f"src/hardwon/{name.replace('_', '/')}.py", f"hardwon.{name.replace('_', '.')}", text)
        for name, text in texts.items()
    ]


def test_a_forbidden_import_is_found_at_any_depth() -> None:
    deep = "def later():\n    if True:\n        from hardwon.handoff import draft\n"
    tree = build_tree(distil_summaries=deep, handoff_draft="", handoff="")
    assert find_forbidden_imports(tree) == ["src/hardwon/distil/summaries.py:3: distil imports hardwon.handoff.draft"]


def test_a_relative_a_dynamic_and_a_type_only_import_are_found_too() -> None:
    tree = build_tree(
        store_jobs="from ..search import ranking",
        store_runs="__import__('hardwon.search.ranking')",
        store_turns="if TYPE_CHECKING:\n    import hardwon.search.ranking",
        search_ranking="",
    )
    assert len(find_forbidden_imports(tree)) == 3


def test_one_module_of_a_package_may_be_allowed() -> None:
    tree = build_tree(
        web_api="from hardwon.worker import lifecycle\nfrom hardwon.worker import jobs",
        worker_lifecycle="",
        worker_jobs="",
        worker="",
    )
    forbidden = find_forbidden_imports(tree, {"web": ("worker.lifecycle",), "worker": ()})
    assert forbidden == ["src/hardwon/web/api.py:2: web imports hardwon.worker.jobs"]


def test_a_package_missing_from_the_table_is_found() -> None:
    assert find_forbidden_imports(build_tree(attic="")) == [
        "src/hardwon/attic.py: attic is not in the table of packages"
    ]


def test_an_import_downwards_is_allowed() -> None:
    tree = build_tree(
        lessons_delivery="from hardwon.store import db\nfrom hardwon import types", types="", store_db="", store=""
    )
    assert find_forbidden_imports(tree) == []


def test_a_cycle_is_found_and_a_chain_is_not() -> None:
    back = "def f():\n    import hardwon.text.a"
    ring = build_tree(text_a="from hardwon.text import b", text_b=back, text_c="")
    assert find_import_cycles(ring) == ["hardwon.text.a -> hardwon.text.b", "hardwon.text.b -> hardwon.text.a"]
    assert find_import_cycles(build_tree(text_a="import hardwon.text.b", text_b="")) == []
