"""A table is added to a person's TOML and removed again; comments and formatting of the rest stay."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.codex.install import append_table, get_toml_value, remove_table
from hardwon.agents.settings_files import SettingsError

PATH = ["mcp_servers", "hardwon"]
VALUES: dict[str, Any] = {"command": "/usr/bin/python3", "seconds": 30, "args": ["-m", 'a "b" \\ \x7f é']}
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


def is_restored(new_text: str, old_text: str) -> bool:
    """Compare two files but for the blank lines at their end."""
    return new_text.rstrip() == old_text.rstrip()


def test_a_table_is_added_and_removed_and_the_rest_stays() -> None:
    for text in TEXTS:
        for path in (PATH, STATE):
            changed_text = append_table(text, path, VALUES)
            assert get_toml_value(changed_text, path) == VALUES, text
            assert all(line in changed_text for line in text.splitlines()), text
            assert is_restored(remove_table(changed_text, path), text), text


def test_several_tables_can_be_removed_in_any_order() -> None:
    other = [*STATE[:2], "other"]
    for text in TEXTS:
        changed_text = append_table(
            append_table(append_table(text, PATH, VALUES), STATE, {"h": "1"}), other, {"h": "2"}
        )
        for order in ([PATH, other, STATE], [STATE, PATH, other]):
            restored = changed_text
            for path in order:
                restored = remove_table(restored, path)
            assert is_restored(restored, text), text


def test_a_persons_keys_in_our_table_are_removed_with_it() -> None:
    text = append_table("a = 1\n", PATH, VALUES) + 'startup_timeout_sec = 20\nmore = [\n  "]",\n]\n'
    text += '\n[mcp_servers.hardwon.env]\nA = "b"\n\n# theirs\n[mcp_servers.other]\ncommand = "x"\n'
    assert tomllib.loads(remove_table(text, PATH)) == {"a": 1, "mcp_servers": {"other": {"command": "x"}}}


def test_a_persons_text_after_our_table_stays() -> None:
    added = "\n# a last word\n[last]\nx = 1\n"
    changed_text = append_table(BY_HAND, PATH, VALUES) + added
    assert remove_table(changed_text, PATH) == BY_HAND + added
    assert "[last]\nx = 1\n" in remove_table(append_table("", PATH, VALUES) + added, PATH)


def test_tables_out_of_order_keep_their_values() -> None:
    text = '[mcp_servers.a]\ncommand = "a"\n\n[other]\nx = 1\n\n[mcp_servers.b]\ncommand = "b"\n'
    changed_text = append_table(text, PATH, VALUES)
    expected = tomllib.loads(text)
    expected["mcp_servers"]["hardwon"] = VALUES
    assert tomllib.loads(changed_text) == expected
    assert tomllib.loads(remove_table(changed_text, PATH)) == tomllib.loads(text)


def test_removing_a_missing_table_changes_nothing() -> None:
    assert remove_table(BY_HAND, PATH) == BY_HAND
    assert get_toml_value(BY_HAND, PATH) is None and get_toml_value(BY_HAND, ["model", "x"]) is None


@pytest.mark.parametrize("text", ["a = ", "[a", "a = 1\na = 2", "\ufeffa = 1", '{"a": 1}', "x = " + "[" * 5_000])
def test_invalid_toml_is_refused(text: str) -> None:
    for act in (
        lambda: append_table(text, PATH, VALUES),
        lambda: remove_table(text, PATH),
        lambda: get_toml_value(text, PATH),
    ):
        with pytest.raises(SettingsError):
            act()


def test_the_refusal_has_line_and_column() -> None:
    with pytest.raises(SettingsError, match="line 2, column 5: invalid value"):
        get_toml_value("a = 1\nb = \n", PATH)


@pytest.mark.parametrize(
    "text", ["mcp_servers = {}", "mcp_servers = 1", "mcp_servers = []", '[[mcp_servers]]\na = "b"']
)
def test_a_table_is_not_added_below_another_value(text: str) -> None:
    with pytest.raises(SettingsError, match="mcp_servers"):
        append_table(text, PATH, VALUES)


def test_a_server_in_another_form_is_removed_too() -> None:
    for text in (
        'mcp_servers.hardwon.command = "x"',
        'mcp_servers = { hardwon = { command = "x" } }',
        '[mcp_servers]\nhardwon = { command = "x" }',
        '[mcp_servers]\nhardwon.command = "x"\n',
    ):
        with pytest.raises(SettingsError, match=r"mcp_servers\.hardwon"):
            append_table(text, PATH, VALUES)
        assert get_toml_value(remove_table(text, PATH), PATH) is None, text


@given(st.text(), st.lists(st.text()), st.lists(st.text(min_size=1), min_size=1, max_size=3), st.sampled_from(TEXTS))
def test_any_words_can_be_a_key_or_a_value(value: str, words: list[str], path: list[str], text: str) -> None:
    path = ["ours", *path]
    changed_text = append_table(text, path, {"value": value, "words": words})
    assert get_toml_value(changed_text, path) == {"value": value, "words": words}
    assert is_restored(remove_table(changed_text, path), text)
