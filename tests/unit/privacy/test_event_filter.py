"""What may be kept of an event: nothing that a person marked or denied, whatever shape it comes in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.privacy import event_filter
from hardwon.types import Event

PLANTED = "zimtwaffel-4711"
HIDDEN = f"<private>{PLANTED}</private>"


def event(kind: str = "PostToolUse", **more: Any) -> Event:
    told = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "id": "e1", "at": 1.0, "tool": "Bash"}
    return Event(**{**told, "kind": kind, **more})


def kept(home: str, told: Event, **values: Any) -> Event | None:
    return event_filter.filter_hook_event(told, home, values)


def test_asking_about_a_call_leaves_nothing(own_home: str) -> None:
    assert kept(own_home, event("PreToolUse", command="ls")) is None


def test_an_event_without_a_session_leaves_nothing(own_home: str) -> None:
    assert kept(own_home, event(session="")) is None


def test_what_was_only_needed_to_match_a_lesson_is_not_kept(own_home: str) -> None:
    told = kept(
        own_home, event("PostToolUse", tool="Write", path=f"/x/{HIDDEN}", content=HIDDEN, input={"file_path": "/x"})
    )
    assert told is not None and PLANTED not in repr(told)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.just(f"seen {HIDDEN}")
    | st.just(f"seen <private>{PLANTED}"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "text", "lines", f"k{HIDDEN}"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, values)
def test_a_private_part_is_found_in_any_value(
    tmp_path_factory: pytest.TempPathFactory, given_: Any, response: Any
) -> None:
    home = str(tmp_path_factory.getbasetemp())
    told = kept(home, event(input=given_, response=response))
    assert told is not None and PLANTED not in json.dumps([told.input, told.response])


@given(
    st.lists(st.sampled_from(["-a", "+b", " c"]), max_size=4),
    st.lists(st.sampled_from(["-a", f"+{PLANTED}", ""]), max_size=4),
)
def test_a_private_part_that_spans_lines_of_a_list_is_found(
    tmp_path_factory: pytest.TempPathFactory, around: list[str], within: list[str]
) -> None:
    lines = [*around, "+<private>", *within, "+</private>", *around, "+end"]
    told = kept(str(tmp_path_factory.getbasetemp()), event(response={"hunks": [{"lines": lines}]}))
    assert (
        told is not None and PLANTED not in json.dumps(told.response) and "+end" in told.response["hunks"][0]["lines"]
    )


def test_lists_without_anything_to_hide_stay_as_they_are(own_home: str) -> None:
    value = {"files": ["a", "b\nc", ""], "more": [["x", "y"], [1, "z"], []]}
    told = kept(own_home, event(response=value))
    assert told is not None and told.response == value


@pytest.mark.parametrize("depth", [60, 300, 900])
def test_a_value_nested_deeply_is_kept_as_far_as_it_goes(own_home: str, depth: int) -> None:
    value: Any = f"seen {HIDDEN}"
    for _ in range(depth):
        value = {"a": [value, "x"]}
    told = kept(own_home, event(response=value))
    assert told is not None and PLANTED not in json.dumps(told.response)


def test_a_private_part_is_gone_before_long_text_is_cut(own_home: str) -> None:
    long = "a" * 900 + "<private>" + f"{PLANTED} " * 2000 + "</private>" + "b" * 900
    told = kept(own_home, event(response=long, input={"x": long}, command=long), maxEventChars=1000)
    assert told is not None and PLANTED not in repr(told)
    assert 900 < len(told.response) <= 1000 and "characters cut" in told.response


def test_a_private_turn_ends_with_the_next_words_of_the_person_only(own_home: str) -> None:
    def is_kept() -> bool:
        return kept(own_home, event(command="ls")) is not None

    assert kept(own_home, event("UserPromptSubmit", prompt=HIDDEN)) is None
    assert not is_kept()
    kept(own_home, event("UserPromptSubmit", prompt="<system-reminder>noon</system-reminder>"))
    kept(own_home, event("UserPromptSubmit", prompt=""))
    assert not is_kept()
    kept(own_home, event("UserPromptSubmit", prompt="go on"))
    assert is_kept()


def test_that_a_private_turn_ended_is_kept_and_nothing_of_what_it_was(own_home: str) -> None:
    kept(own_home, event("UserPromptSubmit", prompt=HIDDEN))
    for kind in ("Stop", "SubagentStop", "PreCompact", "SessionEnd"):
        told = kept(own_home, event(kind, message=PLANTED, response=PLANTED, tool=""))
        assert told is not None and told.kind == kind and PLANTED not in repr(told)


KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0" + "L1m2N3p4Q5r6S7t8"


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": "seen <private>a"}, {"type": "text", "text": f"{PLANTED}</private> after"}],
        [
            {"type": "text", "text": "seen <private>a"},
            {"type": "image", "data": "x"},
            {"type": "text", "text": PLANTED},
        ],
        ["seen <private>", {"text": PLANTED}, "</private> after"],
    ],
)
@pytest.mark.parametrize("around", [lambda blocks: blocks, lambda blocks: {"content": blocks, "isError": False}])
def test_a_private_part_that_spans_content_blocks_is_found(own_home: str, blocks: list[Any], around: Any) -> None:
    told = kept(own_home, event(response=around(blocks), input={"messages": around(blocks)}))
    assert told is not None
    shown = json.dumps([told.input, told.response])
    assert PLANTED not in shown and "seen" in shown
    assert ("after" in shown) == ("after" in json.dumps(blocks))


def test_content_blocks_without_a_private_part_stay_as_they_are(own_home: str) -> None:
    blocks = [{"type": "text", "text": "int private = 1;"}, {"type": "text", "text": "the end"}]
    told = kept(own_home, event(response={"content": blocks}))
    assert told is not None and told.response == {"content": blocks}


def test_a_secret_in_the_folder_is_not_kept(own_home: str) -> None:
    told = kept(own_home, event(cwd=f"/src/{KEY}/app", transcript=f"/src/{KEY}.jsonl"))
    assert told is not None and KEY not in repr(told)
    assert told.cwd == "/src/[redacted:github]/app" and told.transcript == ""
