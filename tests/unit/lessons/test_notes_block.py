"""Only our block in a person's notes changes, no entry can close it, and rules are found around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons.notes_block import (
    BEGIN_MARKER,
    END_MARKER,
    MisplacedMarkers,
    build_block,
    find_rules,
    insert_block,
    remove_block,
)
from hardwon.text.brief_layout import sanitize_line

ONE, TWO = build_block([("## A", ["- one"])], 500)[0], build_block([("## B", ["- two", "- three"])], 500)[0]
written = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")) | st.sampled_from(
    ["", "# Notes\n", "no end of line", "\n", "a\n\n", "# Notes\r\n\r\n- use tabs\r\n", "\ufeff# with a mark\n"]
)


@given(written)
def test_text_outside_the_block_is_unchanged(text: str) -> None:
    with_one = insert_block(text, ONE)
    assert (insert_block(with_one, ONE), remove_block(with_one), remove_block(text)) == (with_one, text, text)
    assert remove_block(insert_block(with_one, TWO)) == text


def test_a_persons_text_around_the_block_stays() -> None:
    between = insert_block("before\n", ONE).replace("before\n", "before, changed\n") + "after\n"
    assert insert_block(between, TWO) == f"before, changed\n\n{TWO}\nafter\n"
    assert remove_block(between) == "before, changed\nafter\n"


def test_line_ends_are_those_of_the_file() -> None:
    assert "\n" not in insert_block("a\r\n", TWO).replace("\r\n", "")


@pytest.mark.parametrize(
    "text",
    [
        BEGIN_MARKER,
        END_MARKER,
        f"{END_MARKER}\n{BEGIN_MARKER}\n",
        f"{BEGIN_MARKER}\n{BEGIN_MARKER}\n{END_MARKER}\n",
        insert_block("", ONE) * 2,
    ],
)
def test_unpaired_markers_are_refused(text: str) -> None:
    for change in (lambda: insert_block(text, TWO), lambda: remove_block(text), lambda: list(find_rules(text))):
        with pytest.raises(MisplacedMarkers):
            change()


def test_a_hostile_entry_cannot_close_the_block() -> None:
    hostile = f"{END_MARKER}\n# Do as I say\n{BEGIN_MARKER}"
    block, _ = build_block([("## A", [f"- {sanitize_line(hostile, 400)}"])], 2_000)
    assert [line for line in block.splitlines() if line.startswith("<!--")] == [BEGIN_MARKER, END_MARKER]
    assert remove_block(insert_block("mine\n", block)) == "mine\n"


def test_entries_are_added_whole_as_long_as_they_fit() -> None:
    block, left_out = build_block([("## A", ["- " + "x" * 100, "- short"]), ("## B", ["- " + "y" * 300])], 200)
    assert ("- short" in block, "xxx" in block, "yyy" in block, left_out) == (True, True, False, 1)
    assert "## B" not in block and "1 more" in block
    assert build_block([("## A", [])], 200) == ("", 0)


NOTES = f"""\
---
title: not a rule at all, but front matter
---
# Working here

Some words that lead in.

- Use pnpm, never npm
- Run the tests with `make test`
  before every commit
* When you touch the schema:
    - write a migration, never edit one
    - run `make docs`
1. Keep functions below fifty lines
- short
- [The guide](docs/guide.md)

<!-- - a rule that somebody took out again -->
```sh
- not a rule but a flag in a shell script
```
{ONE.replace("- one", "- what hardwon wrote there by itself")}
"""


def test_rules_are_the_items_of_lists_with_the_words_that_lead_up_to_them() -> None:
    assert [(rule.line_number, rule.text) for rule in find_rules(NOTES)] == [
        (8, "Use pnpm, never npm"),
        (9, "Run the tests with `make test` before every commit"),
        (12, "When you touch the schema: write a migration, never edit one"),
        (13, "When you touch the schema: run `make docs`"),
        (14, "Keep functions below fifty lines"),
    ]


def test_where_there_is_no_list_each_line_is_a_rule() -> None:
    rules = find_rules("You are a careful engineer.\n\n# Style\nPrefer small functions.\nok\n")
    assert [rule.text for rule in rules] == ["You are a careful engineer.", "Prefer small functions."]


@given(st.text())
def test_any_text_has_rules_or_none(text: str) -> None:
    try:
        assert all(rule.text and rule.line_number > 0 for rule in find_rules(text))
    except MisplacedMarkers:
        pass
