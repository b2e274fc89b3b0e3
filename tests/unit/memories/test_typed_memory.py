"""A prompt that begins with "remember that" states a memory; questions, pasted text and pointers do not."""

from __future__ import annotations

import pytest

from hardwon.lessons.typed_prompts import is_remember_prompt
from hardwon.memories.typed_memory import TypedMemory, find_typed_memory


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("remember that tests need docker", TypedMemory("project", "tests need docker", True)),
        (
            "Remember that we always use pnpm, never npm.",
            TypedMemory("feedback", "we always use pnpm, never npm.", True),
        ),
        ("please remember that I'm new to rust", TypedMemory("user", "I'm new to rust", True)),
        ("remember that: bugs are tracked in Linear", TypedMemory("reference", "bugs are tracked in Linear", True)),
        ("  remember that  the port\tis 8080 ", TypedMemory("project", "the port is 8080", True)),
        ("remember that staging is eu-3. Now fix the test", TypedMemory("project", "staging is eu-3.", False)),
        ("remember that we deploy from main", TypedMemory("project", "we deploy from main", True)),
        ("remember that tests must not sleep", TypedMemory("feedback", "tests must not sleep", True)),
    ],
)
def test_a_statement_is_remembered_as_typed(prompt: str, expected: TypedMemory) -> None:
    assert find_typed_memory(prompt) == expected
    assert is_remember_prompt(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "can you remember what we did?",
        "do you remember that we use pnpm",
        "remember that we use pnpm?",
        "remember that bug we fixed last week",
        "remember that time in May",
        "remember that one",
        "remember that function you wrote, use it here",
        "remember that for now we use the mock",
        "remember that docker",
        "remember to run the tests",
        "I remember that tests need docker",
        "fix the build. remember that tests need docker",
        "remember that tests need docker\n\nand here is a log\nof something",
        "remember that " + "the wind tables move on Thursday and " * 12 + "so on",
        "",
    ],
)
def test_any_other_prompt_is_no_memory(prompt: str) -> None:
    assert find_typed_memory(prompt) is None
