"""What a peer's calls get, ours get: cases captured from lessons-learned, through the warm and the cold path.

The cases live beside the checkout; without them the made-up ones below are run alone. Deviations are listed with why.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.support.house import House

SHARED = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "conformance", "hook_cases.json")
PASSED_OVER = "Gemini CLI passes over what a hook says to the model before a call, so it is told after the call"
DEVIATIONS = {
    "codex edit inject": "Codex's hooks have the patch as it is, not the fields of another agent's edit",
    **dict.fromkeys(["gemini shell inject", "gemini edit inject"], PASSED_OVER),
}
MADE_UP: dict[str, Any] = {
    "manifest": {
        "type": "lessons-learned-manifest",
        "version": 1,
        "config": {},
        "lessons": {
            "01MADEUP0000000000000001": {
                "slug": "no-force-push-made",
                "type": "guard",
                "priority": 9,
                "toolNames": ["Bash"],
                "commandRegexSources": [{"source": "git push.*--force(?!-with-lease)", "flags": "i"}],
                "pathRegexSources": [],
                "message": "## REQUIRED: lease\\nUse --force-with-lease, so that nobody's work is lost.",
                "summary": "a forced push loses what others pushed",
            },
            "01MADEUP0000000000000002": {
                "slug": "console-log-made",
                "type": "hint",
                "priority": 5,
                "toolNames": ["Bash", "Edit", "Write"],
                "commandRegexSources": [{"source": "console\\.log\\(", "flags": ""}],
                "pathRegexSources": [{"source": "src/.*\\.ts$", "flags": "i"}],
                "message": "## Lesson: logging\\nUse the logger, its lines carry the request id.",
                "summary": "console.log lines cannot be traced to a request",
            },
        },
    },
    "cases": [
        {
            "name": "guard",
            "call": ["Bash", {"command": "git push --FORCE"}],
            "expect": {"decision": "deny", "reason_contains": "Use --force-with-lease"},
        },
        {
            "name": "guard, right flag",
            "call": ["Bash", {"command": "git push --force-with-lease"}],
            "expect": {"decision": "none"},
        },
        {
            "name": "guard, quoted",
            "call": ["Bash", {"command": "echo 'git push --force'"}],
            "expect": {"decision": "none"},
        },
        {
            "name": "hint, quoted",
            "call": ["Bash", {"command": "grep 'console.log(' x"}],
            "expect": {"decision": "note", "lessons": ["console-log-made"]},
        },
        {
            "name": "path and content",
            "call": ["Edit", {"file_path": "/p/src/A.TS", "new_string": "console.log(1)"}],
            "expect": {"decision": "note", "lessons": ["console-log-made"]},
        },
        {
            "name": "path alone",
            "call": ["Edit", {"file_path": "/p/src/a.ts", "new_string": "log.info(1)"}],
            "expect": {"decision": "none"},
        },
        {
            "name": "content alone",
            "call": ["Write", {"file_path": "/p/a.md", "content": "console.log(1)"}],
            "expect": {"decision": "none"},
        },
        {"name": "another tool", "call": ["Grep", {"pattern": "console.log("}], "expect": {"decision": "none"}},
    ],
}


def read_captured_cases() -> dict[str, Any]:
    if not os.path.exists(SHARED):
        return {}
    with open(SHARED, encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


def read_decision(raw: bytes) -> dict[str, Any]:
    answer = json.loads(raw)
    if answer.get("decision") == "deny":  # as Gemini CLI is told
        return {"decision": "deny", "text": answer["reason"]}
    hook_output = answer.get("hookSpecificOutput", {})
    if hook_output.get("permissionDecision") == "deny":
        return {"decision": "deny", "text": hook_output["permissionDecisionReason"]}
    return (
        {"decision": "note", "text": hook_output["additionalContext"]}
        if hook_output
        else {"decision": "none", "text": ""}
    )


def run_case(house: House, host: str, case: dict[str, Any], number: int) -> bytes:
    """Run the case in a new session, with its settings made as a user would."""
    payload = case["stdin"].replace('"conf-1"', f'"conf-{number}"').encode()
    settings_given = case.get("given", {})
    if "LESSONS_SEEN" in settings_given:
        house.hook("PreToolUse", payload, host=host)
    if "LESSONS_MAX_LESSONS_PER_INJECTION" in settings_given:
        house.ok("config", "set", "maxLessonsPerInjection", settings_given["LESSONS_MAX_LESSONS_PER_INJECTION"])
    try:
        return house.hook("PreToolUse", payload, host=host)
    finally:
        if "LESSONS_MAX_LESSONS_PER_INJECTION" in settings_given:
            house.ok("config", "set", "maxLessonsPerInjection", "null")


def check_cases(house: House, document: dict[str, Any]) -> None:
    path = os.path.join(os.path.dirname(house.home), "manifest.json")
    with open(path, "w") as file:
        json.dump(document["manifest"], file)
    assert house.ok("lessons", "import", path, "--confirm", "--json").json()["refused"] == {}
    answers: dict[str, list[bytes]] = {}
    for path_taken in ("cold", "warm"):
        if path_taken == "warm":
            house.ok("start")
        for number, case in enumerate(document["cases"]):
            session = number + 1000 * (path_taken == "warm")
            answers.setdefault(case["name"], []).append(run_case(house, case.get("host", "claude-code"), case, session))
    wrong_cases = {}
    for case in document["cases"]:
        cold, warm = answers[case["name"]]
        assert cold == warm, f"{case['name']}: the two paths differ"
        actual, expect = read_decision(warm), case["expect"]
        is_right = actual["decision"] == expect["decision"] and expect.get("reason_contains", "") in actual["text"]
        if not is_right or not all(slug in actual["text"] for slug in expect.get("lessons", ())):
            wrong_cases[case["name"]] = actual
    assert set(wrong_cases) == {name for name in DEVIATIONS if name in answers}, wrong_cases


def test_made_up_cases_get_what_they_should(house: House) -> None:
    for number, case in enumerate(MADE_UP["cases"]):
        tool, tool_input = case["call"]
        wire = {
            "tool_name": tool,
            "tool_input": tool_input,
            "session_id": "conf-1",
            "cwd": "/p",
            "tool_use_id": f"t{number}",
        }
        case["stdin"] = json.dumps(wire)
    check_cases(house, MADE_UP)


def test_cases_captured_from_a_peer_get_the_same_decisions(house: House) -> None:
    document = read_captured_cases()
    if not document:
        pytest.skip("the captured cases are not beside this checkout (../shared/conformance)")
    check_cases(house, document)
