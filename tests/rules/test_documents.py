"""Rules 13 and 14, and the habit that docs can fail the build: what a person can use is written down."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping

import click
import pytest
from click.testing import CliRunner

import hardwon
from tests.rules.tree import Source, below, page, python_files, read, uphold

# The left column of the glossary.
WORDS = (
    *(
        "Agent",
        "Session",
        "Turn",
        "Event",
        "Signal",
        "Observation",
        "Summary",
        "Memory",
        "Lesson",
        "Candidate",
    ),
    *("Handoff", "Brief", "Match", "Selection", "Injection", "Manifest", "Spool", "Job", "Run"),
)
COLUMNS = 80


def unwritten(names: Iterable[str], text: str, *, as_code: bool = True) -> list[str]:
    """The names that a page does not have; as code, so that `pause` in a sentence does not count."""
    mark = "`" if as_code else ""
    return [
        name
        for name in names
        if not re.search(rf"{mark}{re.escape(name)}(?![\w-])" if as_code else rf"\b{name}s?\b", text)
    ]


def setting_names(table: object) -> list[str]:
    """The names in the table of settings, whether it is a dict by name or a row of settings."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    assert isinstance(table, list | tuple), "hardwon.settings.SETTINGS is a dict, a list or a tuple"
    return [str(getattr(row, "name", row)) for row in table]


def tables(text: str) -> list[str]:
    """The tables that a text with SQL leaves behind, virtual ones included."""
    pattern = r"(?i)\b(create(?:\s+virtual)?|drop)\s+table\s+(?:if\s+(?:not\s+)?exists\s+)?[\"`\[]?(\w+)"
    left: dict[str, None] = {}
    for verb, name in re.findall(pattern, text):
        if verb.lower() == "drop":
            left.pop(name, None)
        else:
            left[name] = None
    for old, new in re.findall(r"(?i)\balter\s+table\s+(\w+)\s+rename\s+to\s+(\w+)", text):
        left.pop(old, None)
        left[new] = None
    return list(left)


def used_words(sources: Iterable[Source]) -> list[str]:
    """The words of the glossary that our classes, functions and fields are named by."""
    names = " ".join(
        getattr(node, "name", "") or getattr(node, "id", "") or getattr(node, "arg", "") or ""
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.arg | ast.Name)
    )
    said = set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", names).lower()))
    return [word for word in WORDS if {word.lower(), f"{word.lower()}s"} & said]


def cli() -> click.Group:
    module = importlib.import_module("hardwon.cli")
    groups = [value for value in vars(module).values() if isinstance(value, click.Group)]
    assert groups, "hardwon.cli has a click group with every command below it"
    return groups[0]


def commands(command: click.Command, path: tuple[str, ...] = ("hardwon",)) -> Iterator[tuple[str, ...]]:
    """The path of every command and group, loaded as the command line loads them."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below_it = command.get_command(context, name)
            assert below_it is not None, f"`{' '.join(path)} {name}` is listed, but is not there"
            yield from commands(below_it, (*path, name))


def badly_helped(root: click.Group, paths: Iterable[tuple[str, ...]]) -> list[str]:
    """The commands whose `--help` fails, says nothing, or is wider than a terminal."""
    wrong = []
    for path in paths:
        wide = {"COLUMNS": str(COLUMNS)}
        run = CliRunner().invoke(root, [*path[1:], "--help"], prog_name="hardwon", env=wide)
        asked = f"`{' '.join(path)} --help`"
        widest = max(run.output.splitlines(), key=len, default="")
        if run.exit_code:
            wrong.append(f"{asked} exits with {run.exit_code}: {run.output.strip()[-200:]} {run.exception}")
        elif len(widest) > COLUMNS:
            wrong.append(f"{asked} has a line of {len(widest)} columns: {widest.strip()}")
        elif len(path) > 1 and len(run.output.strip().splitlines()) < 3:
            wrong.append(f"{asked} does not say what it does")
    return wrong


def newest_section(changelog: str) -> str:
    found = re.search(r"(?m)^## +(.*)$", changelog)
    return found.group(1) if found else ""


def test_every_setting_is_documented() -> None:
    settings = importlib.import_module("hardwon.settings")
    assert hasattr(settings, "SETTINGS"), "rule: settings are a table, hardwon.settings.SETTINGS"
    uphold(
        "every setting is in docs/settings.md, as `name`",
        unwritten(setting_names(settings.SETTINGS), page("docs/settings.md")),
        "write its name, its default and what it does there",
    )


def test_every_command_is_documented() -> None:
    uphold(
        "every command is in docs/cli.md, as `hardwon … name`",
        unwritten((" ".join(path) for path in commands(cli())), page("docs/cli.md")),
        "write what it does and one example there",
    )


def test_every_hook_is_documented_with_its_budget() -> None:
    host = importlib.import_module("hardwon.agents.claude_code")
    rows = re.findall(r"(?m)^\| `(\w+)` \| (\d+) s \|", page("docs/hooks.md"))
    assert {name: int(seconds) for name, seconds in rows} == host.EVENT_TIMEOUTS, (
        "rule: docs/hooks.md has every hook of EVENT_TIMEOUTS with its budget\nto mend: write its row there"
    )


def test_every_mcp_tool_and_its_arguments_are_documented() -> None:
    tools = importlib.import_module("hardwon.mcp.tools").TOOLS
    arguments = {name for tool in tools for name in inspect.signature(tool).parameters} - {"context"}
    uphold(
        "every MCP tool and argument is in docs/mcp.md, as `name`",
        unwritten([*(tool.__name__ for tool in tools), *sorted(arguments)], page("docs/mcp.md")),
        "write what it gives and takes there",
    )


def test_every_help_runs_and_fits_a_terminal() -> None:
    uphold(
        f"`--help` of every command works and fits {COLUMNS} columns",
        badly_helped(cli(), list(commands(cli()))),
        "shorten the line, or give the command a docstring",
    )


def test_every_table_is_documented() -> None:
    schema = "\n".join(read(place) for place in below("src/hardwon/store") if place.endswith((".py", ".sql")))
    assert tables(schema), "rule: the schema is in src/hardwon/store, as `create table` statements"
    uphold(
        "every table is in docs/architecture.md, as `name`",
        unwritten(tables(schema), page("docs/architecture.md")),
        "write it into the row of what it is about there",
    )


def test_every_word_of_the_glossary_that_the_code_uses_is_explained() -> None:
    uphold(
        "every word of the glossary that names something in the code is in docs/glossary.md",
        unwritten(used_words(python_files("src/hardwon")), page("docs/glossary.md"), as_code=False),
        "write what it means there, in one line",
    )


def test_the_version_is_said_once() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    if "version" in project.get("dynamic", []):
        return
    assert project["version"] == hardwon.__version__, (
        "rule: hardwon.__version__ is pyproject's version\nto mend: change both, or let hatchling read it"
    )


def test_the_changelog_begins_with_this_version_or_the_next() -> None:
    newest = newest_section(page("CHANGELOG.md"))
    assert hardwon.__version__ in newest or "unreleased" in newest.lower(), (
        f"rule: the newest section of CHANGELOG.md names {hardwon.__version__} or Unreleased\n"
        f"  it names {newest!r}\nto mend: write what a user notices under a new heading"
    )


def test_a_missing_name_is_found() -> None:
    text = "Use `pause` or `hardwon lessons add`; a lesson is kept. `pause-for` waits."
    assert unwritten(["pause", "lesson", "hardwon lessons add"], text) == ["lesson"]
    assert unwritten(["pau"], text) == ["pau"]
    assert unwritten(["Brief"], "Briefing", as_code=False) == ["Brief"]


def test_a_missing_page_fails_with_a_sentence() -> None:
    with pytest.raises(AssertionError, match=r"docs/nowhere\.md does not exist"):
        page("docs/nowhere.md")


def test_tables_that_are_dropped_or_renamed_are_not_asked_for() -> None:
    text = (
        'CREATE TABLE IF NOT EXISTS "events" (id)\ncreate virtual table found using fts5(text)\n'
        "create table old (id)\ncreate table gone (id)\ndrop table gone\nalter table old rename to jobs"
    )
    assert tables(text) == ["events", "found", "jobs"]


def test_words_are_found_in_names() -> None:
    text = "class LessonId: ...\ndef read_events(agent_name): ...\njobless = 1"
    assert used_words([Source("a.py", "a", text)]) == ["Agent", "Event", "Lesson"]


def test_a_broken_wide_or_silent_help_is_found() -> None:
    @click.group()
    def root() -> None:
        """A made-up program."""

    @root.command()
    @click.option(f"--{'w' * 90}")
    def wide() -> None:
        """Too wide."""

    @root.command(add_help_option=False)
    def deaf() -> None:
        """Has no help."""

    @root.command()
    def good() -> None:
        """Does what it should."""

    paths = list(commands(root))
    assert paths == [("hardwon",), ("hardwon", "deaf"), ("hardwon", "good"), ("hardwon", "wide")]
    found = [line.split("`")[1] for line in badly_helped(root, paths)]
    assert found == ["hardwon deaf --help", "hardwon wide --help"]


def test_the_newest_section_is_the_first() -> None:
    assert newest_section("# Changelog\n\n## 0.2.0 (soon)\n\n## 0.1.0\n") == "0.2.0 (soon)"
    assert newest_section("") == ""
