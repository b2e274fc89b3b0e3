"""Edits of a settings file touch what they add, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from hardwon.agents.settings_files import (
    SettingsError,
    append_value,
    get_value,
    insert_value,
    remove_children,
    remove_value,
)

KeyPath = tuple[str, ...]
PRE = ("hooks", "PreToolUse")
POST = ("hooks", "PostToolUse")
PATHS = [PRE, POST, ("hooks",), ("hooks", "PreToolUse", "deep"), ("schlüssel",)]
OURS = {"hardwon": 1}


def build_entry(number: int) -> dict[str, Any]:
    return {
        "matcher": "*",
        "hooks": [{"type": "command", "command": f"é \ud800 {number}", "hardwon": number}],
    }


def is_entry(number: int) -> Callable[[Any], bool]:
    return lambda value: bool(value == build_entry(number))


def is_ours(value: Any) -> bool:
    return bool(value == OURS)


def remove_elements(
    text: str, path: Sequence[str], should_remove: Callable[[Any], bool], created_paths: Iterable[Sequence[str]] = ()
) -> str:
    return remove_children(text, path, lambda _, value: should_remove(value), created_paths)


# Documents as trees: a str is a token as it stands in the file, a list an array, a tuple of pairs an object.
Tree = Any
KEYS = ['"hooks"', '"ho\\u006fks"', '"PreToolUse"', '"PostToolUse"', '"deep"', '"schlüssel"', '"a"', '""']
TOKENS = ["1e5", "1.0", "-0", "1E+2", "12345678901234567890", "true", "false", "null"]
STRINGS = ['""', '"\\/\\u00e9\\ud83d\\ude00"', '"// no comment"', '"[{,}]"', '"\\ud800"', '"\u2028😀"']
BLANKS = ["", " ", "\t", "\n", "\r\n", "\r", "\n  ", "  \n\n\t", "\n\r", " \r\n    "]
COMMENTED = [*BLANKS, "/**/", " /* [,] */ ", "\n  // it's \"{\n", "// é\r\n", "\n/* a\n   * b: 1\n   */\n    "]


def build_objects(values: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4).map(tuple)


trees = st.recursive(
    st.sampled_from(TOKENS + STRINGS),
    lambda inner: st.lists(inner, max_size=3) | build_objects(inner),
    max_leaves=8,
)


@st.composite
def documents(draw: st.DrawFn, orderly: bool = False, blanks: list[str] = BLANKS) -> str:
    """Draw a settings file, often with values at our paths, in one of the usual layouts of JSON."""
    arrays = st.lists(trees, max_size=3)
    hooks = st.lists(st.tuples(st.sampled_from(['"PreToolUse"', '"PostToolUse"', '"Stop"']), arrays), max_size=4).map(
        tuple
    )
    members = st.tuples(st.just('"hooks"'), hooks) | st.tuples(st.sampled_from(KEYS), trees)
    tree = draw(st.lists(members, max_size=4).map(tuple))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    unit = draw(st.sampled_from(["", " ", "  ", "   ", "    ", "\t"]))
    usual = ["lines", "one line", "tight"] * (blanks is BLANKS)
    kind = draw(st.sampled_from(usual + ["chaos"] * (not orderly)))
    space = "" if kind == "tight" else " "

    def draw_blank(*usual: str) -> str:
        return draw(st.sampled_from(blanks if kind == "chaos" else usual))

    def render_tree(tree: Tree, depth: int) -> str:
        if isinstance(tree, str):
            return tree
        first, last = ("[", "]") if isinstance(tree, list) else ("{", "}")
        line = newline + unit * depth if kind == "lines" else space
        if not tree:
            return first + draw_blank("", " ", line) + last
        parts = []
        for item in tree:
            key, value = item if isinstance(tree, tuple) else ("", item)
            colon = draw_blank("") + ":" + draw_blank(space) if key else ""
            indent = draw_blank(line + unit if kind == "lines" else space)
            parts.append(indent + key + colon + render_tree(value, depth + 1) + draw_blank(""))
        return first + ",".join(parts) + draw_blank(line) + last

    bom, head = draw(st.sampled_from(["", "\ufeff"])), draw_blank("", newline)
    return bom + head + render_tree(tree, 0) + draw_blank("", newline, "\n\n")


blanks = st.tuples(st.sampled_from(["", "\ufeff"]), st.sampled_from(BLANKS)).map("".join)
texts = documents() | documents() | documents() | blanks


def load_text(text: str) -> Any:
    body = text.removeprefix("\ufeff")
    return json.loads(body) if body.strip() else {}


def apply_append(document: Any, path: KeyPath, value: object) -> Any:
    """Append to the decoded document, for comparison; return None where the path does not fit."""
    parent = document
    for key in path[:-1]:
        if not isinstance(parent, dict):
            return None
        parent = parent.setdefault(key, {})
    if not isinstance(parent, dict) or not isinstance(parent.setdefault(path[-1], []), list):
        return None
    parent[path[-1]].append(value)
    return document


def append_or_reject(text: str, path: KeyPath, number: int) -> tuple[str, list[list[str]]]:
    try:
        return append_value(text, path, build_entry(number))
    except SettingsError:
        reject()


@given(texts, st.sampled_from(PATHS))
def test_append_inserts_one_piece_of_text_and_remove_deletes_it(text: str, path: KeyPath) -> None:
    expected = apply_append(load_text(text), path, build_entry(1))
    if expected is None:
        with pytest.raises(SettingsError):
            append_value(text, path, build_entry(1))
        return
    longer, created_paths = append_value(text, path, build_entry(1))
    assert load_text(longer) == expected
    assert get_value(longer, path)[-1] == build_entry(1)
    assert any(longer[:i] == text[:i] and longer.endswith(text[i:]) for i in range(len(text) + 1))
    longer.encode()
    assert remove_elements(longer, path, is_entry(1), created_paths=created_paths) == text


@given(documents(blanks=COMMENTED), st.sampled_from(PATHS))
def test_comments_stay_where_they_are(text: str, path: KeyPath) -> None:
    expected = apply_append(get_value(text), path, build_entry(1))
    assume(expected is not None)
    longer, created_paths = append_value(text, path, build_entry(1))
    assert get_value(longer) == expected
    assert any(longer[:i] == text[:i] and longer.endswith(text[i:]) for i in range(len(text) + 1))
    assert remove_elements(longer, path, is_entry(1), created_paths=created_paths) == text
    longer, created_paths = insert_value(text, ("mcp", "us"), OURS)
    assert remove_value(longer, ("mcp", "us"), created_paths=created_paths) == text


@given(texts, st.lists(st.sampled_from(PATHS), min_size=2, max_size=4), st.randoms())
def test_several_appends_are_undone_in_any_order(text: str, paths: list[KeyPath], random: Any) -> None:
    longer, appended = text, []
    created_paths: list[list[str]] = []
    for number, path in enumerate(paths):
        try:
            longer, new_paths = append_value(longer, path, build_entry(number))
        except SettingsError:
            continue
        created_paths += new_paths
        appended.append((number, path))
    random.shuffle(appended)
    stored = json.loads(json.dumps(created_paths))
    for number, path in appended:
        longer = remove_elements(longer, path, is_entry(number), created_paths=stored)
    assert longer == text


@given(documents(orderly=True), st.sampled_from([PRE, POST]), st.sampled_from([PRE, POST, ("a",)]))
def test_what_another_tool_added_meanwhile_is_unchanged(text: str, our_path: KeyPath, their_path: KeyPath) -> None:
    text_without_us, _ = append_or_reject(text, their_path, 2)
    longer, created_paths = append_or_reject(text, our_path, 1)
    text_with_both, _ = append_value(longer, their_path, build_entry(2))
    assert remove_elements(text_with_both, our_path, is_entry(1), created_paths=created_paths) == text_without_us


@given(documents(), st.sampled_from([PRE, POST]), st.sampled_from(BLANKS))
def test_what_a_person_changed_meanwhile_stays(text: str, path: KeyPath, blank: str) -> None:
    def edit_by_hand(text: str) -> str:
        return text.replace("{", f'{{{blank}"mine": 1.50,', 1).rstrip() + blank

    longer, created_paths = append_or_reject(text, path, 1)
    assume(load_text(text))
    assert remove_elements(edit_by_hand(longer), path, is_entry(1), created_paths=created_paths) == edit_by_hand(text)


@given(texts, st.sampled_from([PRE, POST]))
def test_our_entry_is_removed_from_a_reformatted_file(text: str, path: KeyPath) -> None:
    longer, created_paths = append_or_reject(text, path, 1)
    rewritten_text = json.dumps(load_text(longer), indent=4)
    assert load_text(remove_elements(rewritten_text, path, is_entry(1), created_paths=created_paths)) == load_text(text)


PRETTY = """\
{
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [{"type": "command", "command": "other-tool check"}]
      }
    ]
  },
  "cleanupPeriodDays": 30.0
}
"""

FRESH = '{\n  "hooks": {\n    "PreToolUse": [\n      {\n        "hardwon": 1\n      }\n    ]\n  }\n}'

SHAPES = {
    "empty file": ("", FRESH),
    "one newline": ("\n", FRESH + "\n"),
    "lone byte order mark": ("\ufeff", "\ufeff" + FRESH),
    "empty object": ("{}\n", FRESH + "\n"),
    "all of it indented": ('\t{\n\t  "hooks": {}\n\t}', "\t" + FRESH.replace("\n", "\n\t")),
    "one line": ('{ "hooks": {} }', '{ "hooks": {"PreToolUse": [{"hardwon": 1}]} }'),
    "one line, a space in an empty object": (
        '{"a": { }, "hooks": { }}',
        '{"a": { }, "hooks": { "PreToolUse": [{"hardwon": 1}] }}',
    ),
    "one line without spaces": ('{"hooks":{"PreToolUse":[]}}', '{"hooks":{"PreToolUse":[{"hardwon":1}]}}'),
    "one line, something else there": (
        '{"hooks":{"PreToolUse":[1,2]},"a":1e5}\n',
        '{"hooks":{"PreToolUse":[1,2,{"hardwon":1}]},"a":1e5}\n',
    ),
    "one line, no hooks": ('{"a": 1}', '{"a": 1, "hooks": {"PreToolUse": [{"hardwon": 1}]}}'),
    "tabs": (
        '{\n\t"a": [\n\t\t1\n\t]\n}',
        '{\n\t"a": [\n\t\t1\n\t],\n\t"hooks": {\n\t\t"PreToolUse": [\n\t\t\t{\n\t\t\t\t"hardwon": 1\n\t\t\t}'
        "\n\t\t]\n\t}\n}",
    ),
    "carriage returns": (
        '\ufeff{\r\n    "hooks": {\r\n        "PreToolUse": []\r\n    }\r\n}\r\n',
        '\ufeff{\r\n    "hooks": {\r\n        "PreToolUse": [\r\n            {\r\n'
        '                "hardwon": 1\r\n            }\r\n        ]\r\n    }\r\n}\r\n',
    ),
    "an array on one line of many": (
        '{\n  "hooks": {"PreToolUse": [{"a": 1}]}\n}',
        '{\n  "hooks": {"PreToolUse": [{"a": 1}, {"hardwon": 1}]}\n}',
    ),
    "hugging brackets": (
        '{\n  "hooks": {"PreToolUse": [{\n    "a": 1\n  }]}\n}',
        '{\n  "hooks": {"PreToolUse": [{\n    "a": 1\n  }, {\n    "hardwon": 1\n  }]}\n}',
    ),
    "other tools' hooks": (
        PRETTY,
        PRETTY.replace("      }\n    ]", '      },\n      {\n        "hardwon": 1\n      }\n    ]'),
    ),
    "the closing brace on its own line": (
        '{\n "hooks": {\n }\n}',
        '{\n "hooks": {\n \n  "PreToolUse": [\n   {\n    "hardwon": 1\n   }\n  ]\n }\n}',
    ),
}


@pytest.mark.parametrize(("original", "expected_text"), SHAPES.values(), ids=SHAPES)
def test_a_settings_file_keeps_its_shape_and_is_restored(original: str, expected_text: str) -> None:
    text, created_paths = append_value(original, PRE, OURS)
    assert text == expected_text
    assert remove_elements(text, PRE, is_ours, created_paths=created_paths) == original


def test_a_container_that_was_empty_before_us_survives() -> None:
    for original in [
        '{"hooks": {}}',
        '{"hooks": {"PreToolUse": []}}',
        "{}",
        '{\n  "hooks": {\n\n  }\n}',
        "{ }",
    ]:
        text, created_paths = append_value(original, PRE, OURS)
        assert remove_elements(text, PRE, is_ours, created_paths=created_paths) == original
    assert (
        remove_elements('{"hooks": {"PreToolUse": [{"hardwon": 1}]}}', PRE, is_ours) == '{"hooks": {"PreToolUse": []}}'
    )


def test_append_names_the_containers_it_made() -> None:
    assert append_value("", PRE, 1)[1] == [[], ["hooks"], [*PRE]]
    assert append_value("{}", PRE, 1)[1] == [["hooks"], [*PRE]]
    assert append_value('{"hooks": {}}', PRE, 1)[1] == [[*PRE]]
    assert append_value('{"hooks": {"PreToolUse": []}}', PRE, 1)[1] == []


def test_a_container_we_made_stays_when_a_person_put_something_in() -> None:
    text, created_paths = append_value("{}", PRE, OURS)
    text = text.replace('"PreToolUse"', '"Stop": [7],\n    "PreToolUse"')
    assert (
        remove_elements(text, PRE, is_ours, created_paths=created_paths) == '{\n  "hooks": {\n    "Stop": [7]\n  }\n}'
    )


def test_only_our_elements_are_removed() -> None:
    def remove_ours(array: str) -> str:
        return remove_elements(f'{{"a": {array}}}', ["a"], is_ours).removeprefix('{"a": ').removesuffix("}")

    our_element = '{"hardwon":1}'
    assert remove_ours(f"[1, {our_element}, 2]") == "[1, 2]"
    assert remove_ours(f"[ {our_element} , 1 , 2 ]") == "[ 1 , 2 ]"
    assert remove_ours(f"[{our_element},{our_element}, 1,{our_element},{our_element} ,2,{our_element}]") == "[1 ,2]"
    assert remove_ours(f"[ {our_element},{our_element} ]") == "[ ]"
    assert remove_ours("[1.0, 2]") == "[1.0, 2]"


def test_of_duplicate_keys_the_last_counts() -> None:
    original = '{"hooks": {"PreToolUse": [1]}, "h\\u006foks": {"PreToolUse": 5, "PreToolUse": [2]}}'
    text, created_paths = append_value(original, PRE, OURS)
    assert text == original.replace("[2]", '[2, {"hardwon": 1}]')
    assert get_value(original, PRE) == [2]
    assert remove_elements(text, PRE, is_ours, created_paths=created_paths) == original
    with pytest.raises(SettingsError):
        append_value('{"hooks": {}, "hooks": null}', PRE, OURS)


def test_a_value_of_another_type_on_the_path_is_refused() -> None:
    rows = {
        "[]": "the file is not an object",
        '"hooks"': "the file is not an object",
        '{"hooks": []}': "hooks is not an object",
        '{"hooks": null}': "hooks is not an object",
        '{"hooks": {"PreToolUse": {}}}': "hooks.PreToolUse is not an array",
        '{"hooks": {"PreToolUse": 1e5}}': "hooks.PreToolUse is not an array",
    }
    for text, message in rows.items():
        with pytest.raises(SettingsError, match=message):
            append_value(text, PRE, OURS)
        assert remove_elements(text, PRE, lambda _: True, created_paths=[(), ("hooks",), PRE]) == text


def test_a_missing_path_gives_none_and_removing_it_changes_nothing() -> None:
    for text in ["", "\ufeff", " \n", "{}", "[]", '{"hooks": {}}', '{"hooks": {"PreToolUse": []}}']:
        assert get_value(text, [*PRE, "deeper"]) is None
        assert remove_elements(text, PRE, lambda _: True, created_paths=[(), ("hooks",), PRE]) == text
    assert get_value('\ufeff{"a": {"b": 1.5}}', ["a", "b"]) == 1.5


def test_invalid_json_is_refused_with_line_and_column() -> None:
    rows = {
        "{}\n# end": "line 2, column 1: extra data",
        '{"a": 1\n "b": 2}': "line 2, column 2: expecting ',' delimiter",
        "{'a': 1}": "line 1, column 2: expecting property name",
        '{"a": "b\n}': "line 1, column 9: invalid control character",
        '{"a": [1,,]}': "line 1, column 10: expecting value",
        "[" * 100_000: "nested too deeply",
    }
    for text, message in rows.items():
        for edit in (
            get_value,
            lambda text: append_value(text, PRE, OURS),
            lambda text: remove_elements(text, PRE, is_ours),
        ):
            with pytest.raises(SettingsError, match=message):
                edit(text)


@pytest.mark.parametrize(
    "original",
    [
        "",
        "{}\n",
        '{"a": 1}',
        '{\n  "a": 1\n}\n',
        '{"mcpServers": {}}',
        '{"mcpServers": {"x": {"command": "y"}}, "z": [ ]}\n\n',
    ],
)
def test_a_value_is_inserted_under_a_key_and_removed_exactly(original: str) -> None:
    path = ["mcpServers", "hardwon"]
    changed_text, created_paths = insert_value(original, path, {"command": "hardwon", "args": ["mcp"]})
    assert get_value(changed_text, path) == {"command": "hardwon", "args": ["mcp"]}
    assert remove_value(changed_text, path, created_paths=created_paths) == original


def test_inserting_over_a_value_or_into_no_object_is_refused() -> None:
    with pytest.raises(SettingsError):
        insert_value('{"a": {"b": 1}}', ["a", "b"], 2)
    with pytest.raises(SettingsError):
        insert_value('{"a": [1]}', ["a", "b"], 2)


def test_removing_a_missing_value_changes_nothing() -> None:
    assert remove_value('{"a": {"b": 1}}', ["a", "c"], created_paths=[["a"]]) == '{"a": {"b": 1}}'
    assert remove_value("", ["a"]) == ""
