"""Rule 1: rooms share a corridor, not doors. Imports run one way, counted at any depth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

from .tree import SRC, Source, imports, python_files, uphold

ROOMS = frozenset({"capture", "distil", "recall"})
BOTTOM = frozenset({"words", "errors", "clock", "paths", "core", "settings", "switches", "claims", "projects"})

# Who may import whom, lowest first. A part is a module or package directly below `hardwon`; its own modules
# are always open to it. A part that is not in the table breaks the rule until somebody decides where it goes.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "__init__": frozenset(),
    "words": frozenset(),
    "errors": frozenset({"words"}),
    "clock": frozenset({"words"}),
    "paths": frozenset({"words", "errors"}),
    "core": frozenset({"words"}),
    "settings": BOTTOM - {"switches", "claims"},
    "switches": BOTTOM,
    "claims": BOTTOM,
    "projects": frozenset({"paths"}),
    "hosts": BOTTOM - {"clock", "switches", "claims"},
    "store": BOTTOM,
    "transcript": BOTTOM | {"hosts", "store"},
    "capture": BOTTOM | {"hosts", "store", "transcript"},
    "distil": BOTTOM | {"hosts", "store", "transcript"},
    "recall": BOTTOM | {"hosts", "store"},
    "actions": BOTTOM | {"hosts", "store"} | ROOMS,
    "who": frozenset({"core"}),
    "launch": BOTTOM,
    "cold": BOTTOM | {"hosts", "store", "launch"} | ROOMS,
    "viewer": BOTTOM | {"hosts", "store", "who", "actions"} | ROOMS,
    "worker": BOTTOM | {"hosts", "store", "launch", "who", "viewer", "actions"} | ROOMS,
    "mcp": BOTTOM | {"hosts", "store", "who", "actions"} | ROOMS,
    "hook": frozenset({"cold"}),
    "cli": BOTTOM
    | {"hosts", "store", "transcript", "who", "launch", "cold", "viewer", "worker", "mcp", "actions"}
    | ROOMS,
    "__main__": frozenset({"cli"}),
}


def part(module: str) -> str:
    """The part of the house a module belongs to: `hardwon.core.match` is in `core`."""
    return [*module.split("."), "__init__"][1]


def doors(sources: Iterable[Source], may: Mapping[str, frozenset[str]] = MAY_IMPORT) -> list[str]:
    """Each import that goes where the table does not let it."""
    sources = list(sources)
    modules = {source.module for source in sources}
    wrong = []
    for source in sources:
        here = part(source.module)
        if here not in may:
            wrong.append(f"{source.place}: {here} has no place in the table of layers")
            continue
        for each in imports(source, modules):
            there = part(each.target)
            if each.target.split(".")[0] != "hardwon" or there in may[here] | {here, "__init__"}:
                continue
            kind = "room to room" if {here, there} <= ROOMS else "not below it"
            wrong.append(f"{source.place}:{each.line}: {here} imports {each.target} ({kind})")
    return wrong


def not_pure(sources: Iterable[Source]) -> list[str]:
    """Each import of a module of `core/` that is not standard library, words or core; types excepted."""
    sources = list(sources)
    modules = {source.module for source in sources}
    return [
        f"{source.place}:{each.line}: imports {each.target}"
        for source in sources
        if part(source.module) == "core"
        for each in imports(source, modules)
        if not each.for_types
        and each.target.split(".")[0] not in sys.stdlib_module_names
        and part(each.target) not in ("core", "words")
    ]


def circles(sources: Iterable[Source]) -> list[str]:
    """Each import cycle, found by leaving out what imports nothing that is left until nothing changes."""
    sources = list(sources)
    modules = {source.module for source in sources}
    left = {
        source.module: {each.target for each in imports(source, modules)} & modules - {source.module}
        for source in sources
    }
    while free := {module for module, wants in left.items() if not wants & left.keys()}:
        left = {module: wants for module, wants in left.items() if module not in free}
    return [f"{module} -> {', '.join(sorted(wants & left.keys()))}" for module, wants in left.items()]


def loaded_by(code: str) -> list[str]:
    """The modules of hardwon that a fresh interpreter has loaded after the code ran."""
    tail = "\nprint('\\n' + json.dumps([name for name in sys.modules if name.split('.')[0] == 'hardwon']))"
    run = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}{tail}"], capture_output=True, text=True, cwd=SRC
    )
    assert run.returncode == 0, run.stderr
    names: list[str] = json.loads(run.stdout.splitlines()[-1])
    return names


def test_imports_run_one_way() -> None:
    uphold(
        "rooms never import each other, and a lower part never imports a higher one (see MAY_IMPORT)",
        doors(python_files("src/hardwon")),
        "move what both need down (core/ if it is pure, store/ if it is kept), or hand it in as an argument",
    )


def test_core_is_pure() -> None:
    uphold(
        "core/ imports only the standard library, hardwon.words and core/",
        not_pure(python_files("src/hardwon")),
        "hand the clock, the paths and the settings in as arguments",
    )


def test_no_modules_import_each_other_in_a_circle() -> None:
    uphold(
        "there is no import cycle, function-level imports included",
        circles(python_files("src/hardwon")),
        "move what both need into a module below them",
    )


def test_importing_hardwon_loads_nothing_else() -> None:
    assert loaded_by("import hardwon") == ["hardwon"]


def test_help_loads_no_room() -> None:
    help_asked = (
        "from hardwon.cli import main\nsys.argv = ['hardwon', '--help']\ntry:\n    main()\nexcept SystemExit:\n    pass"
    )
    uphold(
        "`hardwon --help` loads no room, no store and no worker",
        (name for name in loaded_by(help_asked) if part(name) in ROOMS | {"store", "worker", "mcp"}),
        "import it inside the command that needs it",
    )


def made_up(**texts: str) -> list[Source]:
    """A small tree: `made_up(recall_brief="import re")` has src/hardwon/recall/brief.py."""
    return [
        Source(f"src/hardwon/{name.replace('_', '/')}.py", f"hardwon.{name.replace('_', '.')}", text)
        for name, text in texts.items()
    ]


def test_a_door_between_rooms_is_found_at_any_depth() -> None:
    deep = "def later():\n    if True:\n        from hardwon.distil import propose\n"
    house = made_up(recall_brief=deep, distil_propose="", distil="")
    found = "src/hardwon/recall/brief.py:3: recall imports hardwon.distil.propose (room to room)"
    assert doors(house) == [found]


def test_a_relative_a_dynamic_and_a_type_only_import_are_doors_too() -> None:
    sly = made_up(
        capture_intake="from ..recall import render",
        capture_spool="__import__('hardwon.recall.render')",
        capture_lines="if TYPE_CHECKING:\n    import hardwon.recall.render",
        recall_render="",
    )
    assert len(doors(sly)) == 3


def test_an_import_upwards_is_found() -> None:
    up = made_up(store_db="from hardwon.cli import main", hosts_codex="from hardwon import store", store="")
    assert [line.split(": ")[1] for line in doors(up)] == [
        "store imports hardwon.cli (not below it)",
        "hosts imports hardwon.store (not below it)",
    ]


def test_a_part_nobody_placed_is_found() -> None:
    assert doors(made_up(attic="")) == ["src/hardwon/attic.py: attic has no place in the table of layers"]


def test_an_import_downwards_is_no_door() -> None:
    down = made_up(recall_deliver="from hardwon.store import db\nfrom hardwon import words", words="")
    assert doors(down) == []


def test_core_reaching_for_a_library_or_the_clock_is_found() -> None:
    text = "import regex\nfrom hardwon import clock\nimport re\nfrom hardwon.core import globs"
    house = made_up(core_match=text, clock="")
    assert [line.split(" ")[-1] for line in not_pure(house)] == ["regex", "hardwon.clock"]


def test_a_circle_is_found_and_a_line_is_not() -> None:
    back = "def f():\n    import hardwon.core.a"
    ring = made_up(core_a="from hardwon.core import b", core_b=back, core_c="")
    assert circles(ring) == ["hardwon.core.a -> hardwon.core.b", "hardwon.core.b -> hardwon.core.a"]
    assert circles(made_up(core_a="import hardwon.core.b", core_b="")) == []
