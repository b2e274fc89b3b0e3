"""Private parts and secrets of an event are removed in any shape."""

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


def build_event(kind: str = "PostToolUse", **fields: Any) -> Event:
    defaults = {"host": "claude-code", "session": "s1", "cwd": "/home/dev/app", "id": "e1", "at": 1.0, "tool": "Bash"}
    return Event(**{**defaults, "kind": kind, **fields})


def filter_event(home: str, event: Event, **values: Any) -> Event | None:
    return event_filter.filter_hook_event(event, home, values)


def test_a_call_before_it_runs_is_not_stored(own_home: str) -> None:
    assert filter_event(own_home, build_event("PreToolUse", command="ls")) is None


def test_an_event_without_a_session_is_not_stored(own_home: str) -> None:
    assert filter_event(own_home, build_event(session="")) is None


def test_path_and_content_for_matching_are_not_stored(own_home: str) -> None:
    filtered = filter_event(
        own_home,
        build_event("PostToolUse", tool="Write", path=f"/x/{HIDDEN}", content=HIDDEN, input={"file_path": "/x"}),
    )
    assert filtered is not None and PLANTED not in repr(filtered)


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
    tmp_path_factory: pytest.TempPathFactory, tool_input: Any, response: Any
) -> None:
    home = str(tmp_path_factory.getbasetemp())
    filtered = filter_event(home, build_event(input=tool_input, response=response))
    assert filtered is not None and PLANTED not in json.dumps([filtered.input, filtered.response])


@given(
    st.lists(st.sampled_from(["-a", "+b", " c"]), max_size=4),
    st.lists(st.sampled_from(["-a", f"+{PLANTED}", ""]), max_size=4),
)
def test_a_private_part_that_spans_lines_of_a_list_is_found(
    tmp_path_factory: pytest.TempPathFactory, public_lines: list[str], private_lines: list[str]
) -> None:
    lines = [*public_lines, "+<private>", *private_lines, "+</private>", *public_lines, "+end"]
    filtered = filter_event(str(tmp_path_factory.getbasetemp()), build_event(response={"hunks": [{"lines": lines}]}))
    assert (
        filtered is not None
        and PLANTED not in json.dumps(filtered.response)
        and "+end" in filtered.response["hunks"][0]["lines"]
    )


def test_lists_without_anything_to_hide_stay_as_they_are(own_home: str) -> None:
    value = {"files": ["a", "b\nc", ""], "more": [["x", "y"], [1, "z"], []]}
    filtered = filter_event(own_home, build_event(response=value))
    assert filtered is not None and filtered.response == value


@pytest.mark.parametrize("depth", [60, 300, 900])
def test_a_value_nested_deeply_is_kept_as_far_as_it_goes(own_home: str, depth: int) -> None:
    value: Any = f"seen {HIDDEN}"
    for _ in range(depth):
        value = {"a": [value, "x"]}
    filtered = filter_event(own_home, build_event(response=value))
    assert filtered is not None and PLANTED not in json.dumps(filtered.response)


def test_a_private_part_is_gone_before_long_text_is_cut(own_home: str) -> None:
    long_text = "a" * 900 + "<private>" + f"{PLANTED} " * 2000 + "</private>" + "b" * 900
    filtered = filter_event(
        own_home, build_event(response=long_text, input={"x": long_text}, command=long_text), maxEventChars=1000
    )
    assert filtered is not None and PLANTED not in repr(filtered)
    assert 900 < len(filtered.response) <= 1000 and "characters cut" in filtered.response


def test_a_private_turn_ends_only_with_the_persons_next_prompt(own_home: str) -> None:
    def is_kept() -> bool:
        return filter_event(own_home, build_event(command="ls")) is not None

    assert filter_event(own_home, build_event("UserPromptSubmit", prompt=HIDDEN)) is None
    assert not is_kept()
    filter_event(own_home, build_event("UserPromptSubmit", prompt="<system-reminder>noon</system-reminder>"))
    filter_event(own_home, build_event("UserPromptSubmit", prompt=""))
    assert not is_kept()
    filter_event(own_home, build_event("UserPromptSubmit", prompt="go on"))
    assert is_kept()


def test_the_end_of_a_private_turn_is_stored_without_its_content(own_home: str) -> None:
    filter_event(own_home, build_event("UserPromptSubmit", prompt=HIDDEN))
    for kind in ("Stop", "SubagentStop", "PreCompact", "SessionEnd"):
        filtered = filter_event(own_home, build_event(kind, message=PLANTED, response=PLANTED, tool=""))
        assert filtered is not None and filtered.kind == kind and PLANTED not in repr(filtered)


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
@pytest.mark.parametrize("wrap_blocks", [lambda blocks: blocks, lambda blocks: {"content": blocks, "isError": False}])
def test_a_private_part_that_spans_content_blocks_is_found(own_home: str, blocks: list[Any], wrap_blocks: Any) -> None:
    filtered = filter_event(
        own_home, build_event(response=wrap_blocks(blocks), input={"messages": wrap_blocks(blocks)})
    )
    assert filtered is not None
    filtered_text = json.dumps([filtered.input, filtered.response])
    assert PLANTED not in filtered_text and "seen" in filtered_text
    assert ("after" in filtered_text) == ("after" in json.dumps(blocks))


def test_content_blocks_without_a_private_part_stay_as_they_are(own_home: str) -> None:
    blocks = [{"type": "text", "text": "int private = 1;"}, {"type": "text", "text": "the end"}]
    filtered = filter_event(own_home, build_event(response={"content": blocks}))
    assert filtered is not None and filtered.response == {"content": blocks}


def test_a_secret_in_the_folder_is_not_kept(own_home: str) -> None:
    filtered = filter_event(own_home, build_event(cwd=f"/src/{KEY}/app", transcript=f"/src/{KEY}.jsonl"))
    assert filtered is not None and KEY not in repr(filtered)
    assert filtered.cwd == "/src/[redacted:github]/app" and filtered.transcript == ""
