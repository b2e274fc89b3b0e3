"""`hook.py` is short, and the modules it can load are fast to import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from hardwon.agents import AGENT_NAMES, get_package
from tests.rules.tree import SRC, Import, Source, assert_rule, find_imports, page, python_files

HOOK = "src/hardwon/hook.py"
HOOK_LINES = 40
HOOK_IMPORTS = frozenset({"sys", "os", "posix", "_socket", "time"})

# Importing any of these takes longer than starting an empty interpreter. Inside a function, only a call that needs
# the module pays for it.
SLOW = frozenset(
    {
        *("asyncio", "dataclasses", "enum", "hashlib", "inspect", "json"),
        *("pathlib", "re", "socket", "subprocess", "typing"),
    }
)


# What only some events need: each of these costs every call between 0.1 and 0.5 ms when a hook loads it.
NEEDED_BY_FEW_CALLS = frozenset(
    {
        *("hardwon.shell.parsing", "hardwon.lessons.matching", "hardwon.lessons.session_replies"),
        *("hardwon.lessons.typed_prompts", "hardwon.sessions.spool", "hardwon.privacy.redaction", "hardwon.pauses"),
        *("hardwon.fallback.worker_start", "hardwon.text.brief_layout"),
    }
)


def find_hook_excess(hook: Source) -> list[str]:
    """Return what makes the hook too long or too slow to load."""
    lines = len(hook.text.splitlines())
    breaches = [f"{hook.path}: {lines} lines, at most {HOOK_LINES}"] if lines > HOOK_LINES else []
    for statement in find_imports(hook, {"hardwon.fallback.answering"}):
        location = f"{hook.path}:{statement.line}"
        if statement.target == "hardwon.fallback.answering":
            breaches += (
                []
                if statement.nested
                else [f"{location}: hardwon.fallback.answering is imported even when the worker is up"]
            )
        elif statement.target not in HOOK_IMPORTS:
            breaches.append(f"{location}: imports {statement.target}")
    return breaches


def find_reachable_sources(start: str, sources: Iterable[Source], at_load: bool = False) -> list[Source]:
    """Return the module and every module of ours that it can import, parent packages included."""
    sources_by_module = {source.module: source for source in sources}
    reached: dict[str, Source] = {}
    pending_modules = [start]
    while pending_modules:
        name = pending_modules.pop()
        if name in sources_by_module and name not in reached:
            reached[name] = sources_by_module[name]
            statements = find_imports(sources_by_module[name], sources_by_module)
            pending_modules += [
                statement.target
                for statement in statements
                if not statement.for_types and (statement.at_load or not at_load)
            ]
        if "." in name:
            pending_modules.append(name.rpartition(".")[0])
    return sorted(reached.values(), key=lambda source: source.module)


def find_library_imports(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.path}:{statement.line}: imports {statement.target}"
        for source, statement in list_outside_imports(sources)
        if get_top_package(statement.target) not in sys.stdlib_module_names
    ]


def find_slow_imports(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.path}:{statement.line}: imports {statement.target} when it is loaded"
        for source, statement in list_outside_imports(sources)
        if statement.at_load and not statement.fallback and get_top_package(statement.target) in SLOW
    ]


def list_outside_imports(sources: Iterable[Source]) -> list[tuple[Source, Import]]:
    sources = list(sources)
    modules = {source.module for source in sources}
    return [
        (source, statement)
        for source in sources
        for statement in find_imports(source, modules)
        if not statement.for_types and get_top_package(statement.target) != "hardwon"
    ]


def get_top_package(module: str) -> str:
    return module.split(".")[0]


def list_cold_path_sources(*, at_load: bool = False) -> list[Source]:
    """List the modules a hook can load without the worker; with `at_load`, without imports inside functions."""
    page("src/hardwon/fallback/answering.py")
    agent_sources = [
        find_reachable_sources(get_package(name), python_files("src/hardwon"), at_load) for name in AGENT_NAMES
    ]
    fallback_sources = find_reachable_sources("hardwon.fallback.answering", python_files("src/hardwon"), at_load)
    return sorted(
        {source.module: source for reachable in [fallback_sources, *agent_sources] for source in reachable}.values(),
        key=lambda s: s.module,
    )


def test_the_hook_is_short_and_imports_little() -> None:
    assert_rule(
        f"hook.py is at most {HOOK_LINES} lines, imports {', '.join(sorted(HOOK_IMPORTS))}, "
        "and hardwon.fallback.answering only when the worker is away",
        find_hook_excess(Source(HOOK, "hardwon.hook", page(HOOK))),
        "move it to fallback/answering.py, which is byte-compiled and read only when the worker is away",
    )


def test_the_cold_path_needs_no_library() -> None:
    assert_rule(
        "all that fallback/answering.py can come to import is standard library: with -S, nothing else is there",
        find_library_imports(list_cold_path_sources()),
        "leave it to the worker, or do it with the standard library",
    )


def test_the_cold_path_loads_nothing_slow() -> None:
    assert_rule(
        f"no module behind fallback/answering.py imports {', '.join(sorted(SLOW))} when it is loaded",
        find_slow_imports(list_cold_path_sources(at_load=True)),
        "import it in the function that needs it, or use the light forms instead (types.word, text.light_json)",
    )


def test_the_standard_library_pulls_in_nothing_slow() -> None:
    names = [source.module for source in list_cold_path_sources(at_load=True)]
    code = (
        f"import sys\nsys.path.insert(0, {SRC!r})\nbefore = set(sys.modules)\n"
        f"for name in {names!r}:\n    __import__(name)\n"
        "after = set(sys.modules) - before\nimport json\nprint(json.dumps(sorted(after)))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert_rule(
        "loading every module behind fallback/answering.py brings in nothing slow, not even through another import",
        (name for name in json.loads(run.stdout) if name in SLOW),
        "see who brings it in (python -X importtime -c 'import hardwon.fallback.answering'), and import that in a function",
    )


def test_a_call_that_matches_nothing_loads_only_what_finds_that_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    payload = {
        "session_id": "0f0e0d0c-0b0a-4908-8706-050403020100",
        "cwd": "/home/dev/kite",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "cargo test --all"},
        "tool_use_id": "toolu_1",
    }
    code = (
        f"import sys\nsys.path.insert(0, {SRC!r})\nfrom hardwon.fallback import answering\n"
        f"from hardwon.lessons import manifest_index\nopen({str(home / 'lesson-index.bin')!r}, 'wb').write("
        "manifest_index.build([], [], settings={}, source_stats=[]))\n"
        f"answer = answering.answer_event('claude-code', 'PreToolUse', {str(home)!r}, '1', {json.dumps(payload).encode()!r}, "
        "lambda *_: None)\nassert answer == b'{}', answer\n"
        "import json\nprint(json.dumps([name for name in sys.modules if name.startswith('hardwon.')]))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loaded = set(json.loads(run.stdout))
    assert "hardwon.lessons.call_replies" in loaded
    assert_rule(
        "without a worker, a call that matches no lesson loads neither what parses commands nor what records events",
        sorted(loaded & NEEDED_BY_FEW_CALLS),
        "import it in the function that needs it",
    )


def test_a_hook_that_is_long_or_imports_too_much_is_found() -> None:
    text = "import sys\nimport json\nimport hardwon.fallback.answering\n" + "pass\n" * 40
    excess = find_hook_excess(Source(HOOK, "hardwon.hook", text))
    assert excess == [
        f"{HOOK}: 43 lines, at most 40",
        f"{HOOK}:2: imports json",
        f"{HOOK}:3: hardwon.fallback.answering is imported even when the worker is up",
    ]


def test_importing_the_fallback_late_is_allowed() -> None:
    text = "import sys\ntry:\n    ask()\nexcept OSError:\n    from hardwon.fallback import answering\n"
    assert find_hook_excess(Source(HOOK, "hardwon.hook", text)) == []


def test_a_library_imported_indirectly_is_found() -> None:
    sources = [
        Source(
            "fallback/answering.py",
            "hardwon.fallback.answering",
            "def answer():\n    from hardwon.lessons import matching",
        ),
        Source("lessons/__init__.py", "hardwon.lessons", "import click"),
        Source("lessons/matching.py", "hardwon.lessons.matching", "def find():\n    import regex"),
        Source("other.py", "hardwon.other", "import rich"),
    ]
    library_imports = find_library_imports(find_reachable_sources("hardwon.fallback.answering", sources))
    assert library_imports == ["lessons/__init__.py:1: imports click", "lessons/matching.py:2: imports regex"]


def test_a_slow_import_is_found_where_it_runs_at_load() -> None:
    text = (
        "import re\nif True:\n    from json import loads\ndef f():\n    import enum\n"
        "if TYPE_CHECKING:\n    import typing\n"
        "try:\n    import _json\nexcept ImportError:\n    import json.scanner\n"
    )
    slow_imports = find_slow_imports([Source("fallback/answering.py", "hardwon.fallback.answering", text)])
    assert slow_imports == [
        "fallback/answering.py:1: imports re when it is loaded",
        "fallback/answering.py:3: imports json when it is loaded",
    ]
