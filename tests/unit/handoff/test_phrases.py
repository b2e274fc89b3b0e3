"""Every row of the phrase tables matches its own example, so that a reader sees what it is for."""

from __future__ import annotations

import pytest

from hardwon.handoff import phrases
from hardwon.handoff.phrases import PhraseTable, compile_rows

TABLES = {name: table for name, table in vars(phrases).items() if isinstance(table, PhraseTable)}
ROWS = [(name, expression, example) for name, table in TABLES.items() for expression, example in table.rows]


@pytest.mark.parametrize(("name", "expression", "example"), ROWS)
def test_a_row_matches_its_example(name: str, expression: str, example: str) -> None:
    assert compile_rows(TABLES[name].frame, [expression]).search(example)


@pytest.mark.parametrize(("name", "expression", "example"), ROWS)
def test_no_other_row_is_needed_for_an_example(name: str, expression: str, example: str) -> None:
    others = [other for other, _ in TABLES[name].rows if other != expression]
    assert not others or not compile_rows(TABLES[name].frame, others).search(example)
