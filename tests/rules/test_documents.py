"""Everything a person can use is documented; a missing entry fails the build."""

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
from tests.rules.tree import Source, assert_rule, list_files_below, page, python_files, read_file

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


def find_undocumented_names(names: Iterable[str], text: str, *, as_code: bool = True) -> list[str]:
    """Return the names that a page lacks; with `as_code`, `pause` in plain text does not count."""
    mark = "`" if as_code else ""
    return [
        name
        for name in names
        if not re.search(rf"{mark}{re.escape(name)}(?![\w-])" if as_code else rf"\b{name}s?\b", text)
    ]


def list_setting_names(table: object) -> list[str]:
    """List the names in the table of settings, which is a dict by name or a sequence of settings."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    assert isinstance(table, list | tuple), "hardwon.settings.SETTINGS is a dict, a list or a tuple"
    return [str(getattr(row, "name", row)) for row in table]


def list_tables(text: str) -> list[str]:
    """List the tables that exist after the SQL ran, virtual ones included."""
    pattern = r"(?i)\b(create(?:\s+virtual)?|drop)\s+table\s+(?:if\s+(?:not\s+)?exists\s+)?[\"`\[]?(\w+)"
    table_names: dict[str, None] = {}
    for verb, name in re.findall(pattern, text):
        if verb.lower() == "drop":
            table_names.pop(name, None)
        else:
            table_names[name] = None
    for old, new in re.findall(r"(?i)\balter\s+table\s+(\w+)\s+rename\s+to\s+(\w+)", text):
        table_names.pop(old, None)
        table_names[new] = None
    return list(table_names)


def find_used_words(sources: Iterable[Source]) -> list[str]:
    """Return the glossary words that occur in names of our classes, functions and variables."""
    names = " ".join(
        getattr(node, "name", "") or getattr(node, "id", "") or getattr(node, "arg", "") or ""
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.arg | ast.Name)
    )
    name_words = set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", names).lower()))
    return [word for word in WORDS if {word.lower(), f"{word.lower()}s"} & name_words]


def load_root_command() -> click.Group:
    module = importlib.import_module("hardwon.cli")
    groups = [value for value in vars(module).values() if isinstance(value, click.Group)]
    assert groups, "hardwon.cli has a click group with every command below it"
    return groups[0]


def iter_command_paths(command: click.Command, path: tuple[str, ...] = ("hardwon",)) -> Iterator[tuple[str, ...]]:
    """Yield the path of every command and group, loaded as the command line loads them."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None, f"`{' '.join(path)} {name}` is listed, but does not exist"
            yield from iter_command_paths(subcommand, (*path, name))


def find_bad_help(root: click.Group, paths: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the commands whose `--help` fails, is empty, or is wider than a terminal."""
    problems = []
    for path in paths:
        environment = {"COLUMNS": str(COLUMNS)}
        result = CliRunner().invoke(root, [*path[1:], "--help"], prog_name="hardwon", env=environment)
        help_command = f"`{' '.join(path)} --help`"
        widest_line = max(result.output.splitlines(), key=len, default="")
        if result.exit_code:
            problems.append(
                f"{help_command} exits with {result.exit_code}: {result.output.strip()[-200:]} {result.exception}"
            )
        elif len(widest_line) > COLUMNS:
            problems.append(f"{help_command} has a line of {len(widest_line)} columns: {widest_line.strip()}")
        elif len(path) > 1 and len(result.output.strip().splitlines()) < 3:
            problems.append(f"{help_command} does not say what it does")
    return problems


def find_newest_section(changelog: str) -> str:
    heading = re.search(r"(?m)^## +(.*)$", changelog)
    return heading.group(1) if heading else ""


def test_every_setting_is_documented() -> None:
    settings = importlib.import_module("hardwon.settings")
    assert hasattr(settings, "SETTINGS"), "rule: settings are a table, hardwon.settings.SETTINGS"
    assert_rule(
        "every setting is in docs/settings.md, as `name`",
        find_undocumented_names(list_setting_names(settings.SETTINGS), page("docs/settings.md")),
        "write its name, its default and what it does there",
    )


def test_every_command_is_documented() -> None:
    assert_rule(
        "every command is in docs/cli.md, as `hardwon … name`",
        find_undocumented_names(
            (" ".join(path) for path in iter_command_paths(load_root_command())), page("docs/cli.md")
        ),
        "write what it does and one example there",
    )


def test_every_hook_is_documented_with_its_budget() -> None:
    claude_code = importlib.import_module("hardwon.agents.claude_code")
    rows = re.findall(r"(?m)^\| `(\w+)` \| (\d+) s \|", page("docs/hooks.md"))
    assert {name: int(seconds) for name, seconds in rows} == claude_code.EVENT_TIMEOUTS, (
        "rule: docs/hooks.md has every hook of EVENT_TIMEOUTS with its budget\nto fix: write its row there"
    )


def test_every_mcp_tool_and_its_arguments_are_documented() -> None:
    tools = importlib.import_module("hardwon.mcp.tools").TOOLS
    arguments = {name for tool in tools for name in inspect.signature(tool).parameters} - {"context"}
    assert_rule(
        "every MCP tool and argument is in docs/mcp.md, as `name`",
        find_undocumented_names([*(tool.__name__ for tool in tools), *sorted(arguments)], page("docs/mcp.md")),
        "write what it gives and takes there",
    )


def test_every_help_runs_and_fits_a_terminal() -> None:
    assert_rule(
        f"`--help` of every command works and fits {COLUMNS} columns",
        find_bad_help(load_root_command(), list(iter_command_paths(load_root_command()))),
        "shorten the line, or give the command a docstring",
    )


def test_every_table_is_documented() -> None:
    schema = "\n".join(
        read_file(path) for path in list_files_below("src/hardwon/store") if path.endswith((".py", ".sql"))
    )
    assert list_tables(schema), "rule: the schema is in src/hardwon/store, as `create table` statements"
    assert_rule(
        "every table is in docs/architecture.md, as `name`",
        find_undocumented_names(list_tables(schema), page("docs/architecture.md")),
        "write it into the row of what it is about there",
    )


def test_every_word_of_the_glossary_that_the_code_uses_is_explained() -> None:
    assert_rule(
        "every word of the glossary that names something in the code is in docs/glossary.md",
        find_undocumented_names(find_used_words(python_files("src/hardwon")), page("docs/glossary.md"), as_code=False),
        "write what it means there, in one line",
    )


def test_the_version_is_stated_once() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    if "version" in project.get("dynamic", []):
        return
    assert project["version"] == hardwon.__version__, (
        "rule: hardwon.__version__ is pyproject's version\nto fix: change both, or let hatchling read it"
    )


def test_the_changelog_begins_with_this_version_or_the_next() -> None:
    newest = find_newest_section(page("CHANGELOG.md"))
    assert hardwon.__version__ in newest or "unreleased" in newest.lower(), (
        f"rule: the newest section of CHANGELOG.md names {hardwon.__version__} or Unreleased\n"
        f"  it names {newest!r}\nto fix: write what a user notices under a new heading"
    )


def test_a_missing_name_is_found() -> None:
    text = "Use `pause` or `hardwon lessons add`; a lesson is kept. `pause-for` waits."
    assert find_undocumented_names(["pause", "lesson", "hardwon lessons add"], text) == ["lesson"]
    assert find_undocumented_names(["pau"], text) == ["pau"]
    assert find_undocumented_names(["Brief"], "Briefing", as_code=False) == ["Brief"]


def test_a_missing_page_fails_with_a_sentence() -> None:
    with pytest.raises(AssertionError, match=r"docs/nowhere\.md does not exist"):
        page("docs/nowhere.md")


def test_dropped_and_renamed_tables_need_no_documentation() -> None:
    text = (
        'CREATE TABLE IF NOT EXISTS "events" (id)\ncreate virtual table found using fts5(text)\n'
        "create table old (id)\ncreate table gone (id)\ndrop table gone\nalter table old rename to jobs"
    )
    assert list_tables(text) == ["events", "found", "jobs"]


def test_words_are_found_in_names() -> None:
    text = "class LessonId: ...\ndef read_events(agent_name): ...\njobless = 1"
    assert find_used_words([Source("a.py", "a", text)]) == ["Agent", "Event", "Lesson"]


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

    paths = list(iter_command_paths(root))
    assert paths == [("hardwon",), ("hardwon", "deaf"), ("hardwon", "good"), ("hardwon", "wide")]
    reported_commands = [line.split("`")[1] for line in find_bad_help(root, paths)]
    assert reported_commands == ["hardwon deaf --help", "hardwon wide --help"]


def test_the_newest_section_is_the_first() -> None:
    assert find_newest_section("# Changelog\n\n## 0.2.0 (soon)\n\n## 0.1.0\n") == "0.2.0 (soon)"
    assert find_newest_section("") == ""
