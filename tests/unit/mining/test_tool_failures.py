"""Tools that are called with a wrong parameter or name give the right lesson.

The rows of `tool_failures.jsonl` are written from knowledge of how MCP servers and agents word such errors. They were
divided by chance into two sets before any result was seen; the rules were written with the first in view. Agents check
the parameters of their own tools before they run a hook, so nothing could be held there: those rows expect no lesson.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hardwon.agents.fields import get_call_fields
from tests.support.step_builder import StepBuilder

TABLE = Path(__file__).with_name("tool_failures.jsonl").read_text("utf-8").splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE]
FLOORS = {1: 11, 2: 11}


def read_arguments(tool: str, tool_input: dict[str, Any]) -> dict[str, str]:
    command, path, content = get_call_fields(tool, tool_input)
    return {"command": command, "path": path, "content": content}


def is_right(row: dict[str, Any]) -> bool:
    steps = StepBuilder()
    tool, other_tool = row["tool"], row["cure_tool"]
    steps.result(steps.call(tool, **read_arguments(tool, row["input"])), row["error"], failed=True)
    steps.result(steps.call(other_tool, **read_arguments(other_tool, row["cure"])), "done")
    episode = steps.find_episodes()[0]
    if episode.rejection or not row["is_lesson"]:
        return bool(episode.rejection) is not bool(row["is_lesson"])
    patterns = episode.triggers["contentPatterns"]
    fires_on = {
        name: any(re.search(pattern, read_arguments(tool, row[name])["content"]) for pattern in patterns)
        for name in ("input", "cure", "other")
    }
    return row["says"] in episode.solution and fires_on == {"input": True, "cure": False, "other": False}


@pytest.mark.parametrize("number", FLOORS)
def test_most_wrong_parameters_and_names_of_tools_make_the_right_lesson(number: int) -> None:
    rows = [row for row in ROWS if row["set"] == number]
    wrong_rows = [(row["tool"], row["error"]) for row in rows if not is_right(row)]
    assert len(rows) - len(wrong_rows) >= FLOORS[number], wrong_rows


def test_a_parameter_that_a_tool_requires_is_named() -> None:
    steps = StepBuilder()
    call = steps.call("mcp__hub__read", content="kite\nparameters: repo")
    steps.result(call, "Input validation error: 'owner' is a required property", failed=True)
    steps.result(steps.call("mcp__hub__read", content="dev\nkite\nparameters: owner repo"), "text")
    episode = steps.find_only_episode()
    assert episode.problem.startswith("`mcp__hub__read` without `owner` fails: ")
    assert episode.solution == "Pass the parameter `owner` too."


def test_a_parameter_under_another_name_is_replaced() -> None:
    steps = StepBuilder()
    call = steps.call("mcp__hub__list", content="dev\nkite\nparameters: owner repository")
    steps.result(call, "Input validation error: 'repo' is a required property", failed=True)
    steps.result(steps.call("mcp__hub__list", content="dev\nkite\nparameters: owner repo"), "[]")
    assert steps.find_only_episode().solution == "Use the parameter `repo` instead of `repository`."


def test_a_value_of_the_wrong_type_is_no_trigger() -> None:
    steps = StepBuilder()
    call = steps.call("mcp__hub__search", content="kites\nall\nparameters: query fields")
    steps.result(call, "Input validation error: 'all' is not of type 'array'", failed=True)
    steps.result(steps.call("mcp__hub__search", content="kites\nsummary\nparameters: query fields"), "[]")
    assert steps.find_only_episode().rejection
