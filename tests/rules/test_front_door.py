"""Rule 2: the front door carries nothing. `hook.py` is short, and what is behind it loads fast."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

from hardwon.agents import AGENT_NAMES, get_package
from tests.rules.tree import SRC, Import, Source, imports, page, python_files, uphold

HOOK = "src/hardwon/hook.py"
HOOK_LINES = 40
HOOK_IMPORTS = frozenset({"sys", "os", "posix", "_socket", "time"})

# Each of them alone costs more than an empty interpreter's start. Inside a function they are paid for only by
# a call that needs them.
SLOW = frozenset(
    {
        *("asyncio", "dataclasses", "enum", "hashlib", "inspect", "json"),
        *("pathlib", "re", "socket", "subprocess", "typing"),
    }
)


def carried(hook: Source) -> list[str]:
    """What the front door carries too much of."""
    lines = len(hook.text.splitlines())
    wrong = [f"{hook.place}: {lines} lines, at most {HOOK_LINES}"] if lines > HOOK_LINES else []
    for each in imports(hook, {"hardwon.fallback.answering"}):
        place = f"{hook.place}:{each.line}"
        if each.target == "hardwon.fallback.answering":
            wrong += (
                [] if each.nested else [f"{place}: hardwon.fallback.answering is imported even when the worker is up"]
            )
        elif each.target not in HOOK_IMPORTS:
            wrong.append(f"{place}: imports {each.target}")
    return wrong


def behind(start: str, sources: Iterable[Source], at_load: bool = False) -> list[Source]:
    """The module and all it can come to import of ours, packages on the way included."""
    known = {source.module: source for source in sources}
    reached: dict[str, Source] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in known and name not in reached:
            reached[name] = known[name]
            found = imports(known[name], known)
            waiting += [each.target for each in found if not each.for_types and (each.at_load or not at_load)]
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return sorted(reached.values(), key=lambda source: source.module)


def foreign(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.place}:{each.line}: imports {each.target}"
        for source, each in outside(sources)
        if top(each.target) not in sys.stdlib_module_names
    ]


def slow(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.place}:{each.line}: imports {each.target} when it is loaded"
        for source, each in outside(sources)
        if each.at_load and not each.fallback and top(each.target) in SLOW
    ]


def outside(sources: Iterable[Source]) -> list[tuple[Source, Import]]:
    sources = list(sources)
    modules = {source.module for source in sources}
    return [
        (source, each)
        for source in sources
        for each in imports(source, modules)
        if not each.for_types and top(each.target) != "hardwon"
    ]


def top(module: str) -> str:
    return module.split(".")[0]


def cold_path(*, at_load: bool = False) -> list[Source]:
    """With `at_load` what every cold hook loads; what a function imports when a rare case needs it is not in that."""
    page("src/hardwon/fallback/answering.py")
    hosts = [behind(get_package(name), python_files("src/hardwon"), at_load) for name in AGENT_NAMES]
    cold = behind("hardwon.fallback.answering", python_files("src/hardwon"), at_load)
    return sorted(
        {source.module: source for found in [cold, *hosts] for source in found}.values(), key=lambda s: s.module
    )


def test_the_hook_carries_nothing() -> None:
    uphold(
        f"hook.py is at most {HOOK_LINES} lines, imports {', '.join(sorted(HOOK_IMPORTS))}, "
        "and hardwon.fallback.answering only when the worker is away",
        carried(Source(HOOK, "hardwon.hook", page(HOOK))),
        "move it to fallback/answering.py, which is byte-compiled and read only when the worker is away",
    )


def test_the_cold_path_needs_no_library() -> None:
    uphold(
        "all that fallback/answering.py can come to import is standard library: with -S, nothing else is there",
        foreign(cold_path()),
        "leave it to the worker, or do it with the standard library",
    )


def test_the_cold_path_loads_nothing_slow() -> None:
    uphold(
        f"no module behind fallback/answering.py imports {', '.join(sorted(SLOW))} when it is loaded",
        slow(cold_path(at_load=True)),
        "import it in the function that needs it, or use the light forms instead (types.word, text.light_json)",
    )


def test_nothing_slow_comes_in_by_way_of_the_standard_library() -> None:
    names = [source.module for source in cold_path(at_load=True)]
    code = (
        f"import sys\nsys.path.insert(0, {SRC!r})\nbefore = set(sys.modules)\n"
        f"for name in {names!r}:\n    __import__(name)\n"
        "after = set(sys.modules) - before\nimport json\nprint(json.dumps(sorted(after)))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    uphold(
        "loading every module behind fallback/answering.py brings in nothing slow, not even through another import",
        (name for name in json.loads(run.stdout) if name in SLOW),
        "see who brings it in (python -X importtime -c 'import hardwon.fallback.answering'), and import that in a function",
    )


def test_a_long_or_greedy_hook_is_found() -> None:
    text = "import sys\nimport json\nimport hardwon.fallback.answering\n" + "pass\n" * 40
    found = carried(Source(HOOK, "hardwon.hook", text))
    assert found == [
        f"{HOOK}: 43 lines, at most 40",
        f"{HOOK}:2: imports json",
        f"{HOOK}:3: hardwon.fallback.answering is imported even when the worker is up",
    ]


def test_a_lazy_cold_import_is_as_it_should_be() -> None:
    text = "import sys\ntry:\n    ask()\nexcept OSError:\n    from hardwon.fallback import answering\n"
    assert carried(Source(HOOK, "hardwon.hook", text)) == []


def test_a_library_far_behind_the_cold_path_is_found() -> None:
    house = [
        Source(
            "fallback/answering.py",
            "hardwon.fallback.answering",
            "def answer():\n    from hardwon.lessons import matching",
        ),
        Source("lessons/__init__.py", "hardwon.lessons", "import click"),
        Source("lessons/matching.py", "hardwon.lessons.matching", "def find():\n    import regex"),
        Source("other.py", "hardwon.other", "import rich"),
    ]
    found = foreign(behind("hardwon.fallback.answering", house))
    assert found == ["lessons/__init__.py:1: imports click", "lessons/matching.py:2: imports regex"]


def test_a_slow_import_is_found_where_it_runs_at_load() -> None:
    text = (
        "import re\nif True:\n    from json import loads\ndef f():\n    import enum\n"
        "if TYPE_CHECKING:\n    import typing\n"
        "try:\n    import _json\nexcept ImportError:\n    import json.scanner\n"
    )
    found = slow([Source("fallback/answering.py", "hardwon.fallback.answering", text)])
    assert found == [
        "fallback/answering.py:1: imports re when it is loaded",
        "fallback/answering.py:3: imports json when it is loaded",
    ]
