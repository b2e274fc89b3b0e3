"""A table is put into somebody's TOML and taken out again, and not one other byte changes."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.json_edit import EditConflictError
from hardwon.agents.toml_edit import InvalidTomlError, TomlValue, append_table, get_value, remove_table

PATH = ["mcp_servers", "hardwon"]
VALUES: dict[str, TomlValue] = {"command": "/usr/bin/python3", "seconds": 30, "args": ["-m", 'a "b" \\ \x7f é']}
STATE = ["hooks", "state", "/home/dev/.codex/hooks.json:pre_tool_use:0:0"]

BY_HAND = '''# mine
model = "a"   # the good one
notes = """
[mcp_servers.hardwon]
  "quoted" \\""" and so on
""""
odd = \'\'\'
[not.a.table]
it's
\'\'\'
lists = [
  [1, 2],  # a "note
  ["x]"],
]
inline = { a = [ "}" ], "b c" = 1 }

  [ projects . "/home/dev/my [project]" ]  # trusted
trust_level = "trusted"

# what follows is somebody else's
[mcp_servers.other]
command = "other"

[[steps]]
name = "one"
[[steps]]
'''
TEXTS = [
    "",
    "\n",
    "# a note",
    "# a note\n",
    "a = 1",
    "a = 1\n",
    "a = 1\n\n\n",
    "a = 1\r\n[b]\r\nc = 2\r\n",
    "[b]\n",
    "[mcp_servers]\n",
    '[mcp_servers.other]\ncommand = "x"',
    "[hooks.state]\n",
    BY_HAND,
    BY_HAND.rstrip("\n"),
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("path", [PATH, STATE])
def test_a_table_that_is_put_in_and_taken_out_leaves_no_trace(text: str, path: list[str]) -> None:
    after = append_table(text, path, VALUES)
    assert get_value(after, path) == VALUES
    assert after.startswith(text.rstrip("\r\n")) and remove_table(after, path) == text


@pytest.mark.parametrize("text", TEXTS)
def test_several_tables_can_be_taken_out_in_any_order(text: str) -> None:
    after = append_table(
        append_table(append_table(text, PATH, VALUES), STATE, {"h": "1"}), [*STATE[:2], "other"], {"h": "2"}
    )
    assert remove_table(remove_table(remove_table(after, PATH), [*STATE[:2], "other"]), STATE) == text
    assert remove_table(remove_table(remove_table(after, STATE), PATH), [*STATE[:2], "other"]) == text


def test_what_a_person_put_into_our_table_or_below_it_goes_with_it() -> None:
    ours = append_table("a = 1\n", PATH, VALUES) + 'startup_timeout_sec = 20\nmore = [\n  "]",\n]\n'
    ours += '\n[mcp_servers.hardwon.env]\nA = "b"\n\n# theirs\n[mcp_servers.other]\ncommand = "x"\n'
    assert remove_table(ours, PATH) == 'a = 1\n\n# theirs\n[mcp_servers.other]\ncommand = "x"\n'


def test_what_a_person_wrote_behind_our_table_stays_where_it_is() -> None:
    after = append_table(BY_HAND, PATH, VALUES) + "\n# a last word\n[last]\nx = 1\n"
    assert remove_table(after, PATH) == BY_HAND + "\n# a last word\n[last]\nx = 1\n"
    assert remove_table(append_table("", PATH, VALUES) + "\n[last]\nx = 1\n", PATH) == "[last]\nx = 1\n"


def test_what_is_not_there_is_not_taken_out() -> None:
    assert remove_table(BY_HAND, PATH) == BY_HAND
    assert get_value(BY_HAND, PATH) is None and get_value(BY_HAND, ["model", "x"]) is None


@pytest.mark.parametrize("text", ["a = ", "[a", "a = 1\na = 2", "\ufeffa = 1", '{"a": 1}', "x = " + "[" * 5_000])
def test_what_is_no_toml_is_refused(text: str) -> None:
    for act in (
        lambda: append_table(text, PATH, VALUES),
        lambda: remove_table(text, PATH),
        lambda: get_value(text, PATH),
    ):
        with pytest.raises(InvalidTomlError):
            act()


def test_the_refusal_says_where() -> None:
    with pytest.raises(InvalidTomlError, match="line 2, column 5: invalid value"):
        get_value("a = 1\nb = \n", PATH)


@pytest.mark.parametrize(
    "text", ["mcp_servers = {}", "mcp_servers = 1", "mcp_servers = []", '[[mcp_servers]]\na = "b"']
)
def test_where_no_table_can_be_added_none_is(text: str) -> None:
    with pytest.raises(EditConflictError, match="mcp_servers"):
        append_table(text, PATH, VALUES)


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.hardwon.command = "x"',
        'mcp_servers = { hardwon = { command = "x" } }',
        '[mcp_servers]\nhardwon = { command = "x" }',
        '[mcp_servers]\nhardwon.command = "x"\n',
    ],
)
def test_what_is_written_in_another_form_is_left_to_the_person(text: str) -> None:
    with pytest.raises(EditConflictError, match=r"mcp_servers\.hardwon"):
        remove_table(text, PATH)
    with pytest.raises(EditConflictError, match=r"mcp_servers\.hardwon"):
        append_table(text, PATH, VALUES)


@given(st.text(), st.lists(st.text()), st.lists(st.text(min_size=1), min_size=1, max_size=3), st.sampled_from(TEXTS))
def test_any_words_can_be_a_key_or_a_value(value: str, words: list[str], path: list[str], text: str) -> None:
    path = ["ours", *path]
    after = append_table(text, path, {"value": value, "words": words})
    assert get_value(after, path) == {"value": value, "words": words}
    assert remove_table(after, path) == text
    assert tomllib.loads(text) == {key: inner for key, inner in tomllib.loads(after).items() if key != "ours"}
