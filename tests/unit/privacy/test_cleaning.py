"""Cleaning many texts at once finds everything that cleaning each would find."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.privacy.cleaning import clean_text, clean_texts
from hardwon.privacy.private_tags import TAG_NAMES
from hardwon.privacy.randomness import find_unbroken_runs
from hardwon.privacy.redaction import MIN_RUN_LENGTH
from hardwon.privacy.secret_rules import RULES, SecretRule
from tests.support.secret_examples import OF_NAMES, OF_RULES

EXAMPLES = [prefix + secret for _, examples in OF_RULES for prefix, secret, _ in examples.secrets]
EXAMPLES += [prefix + secret + suffix for prefix, secret, suffix in OF_NAMES.secrets]
pieces = (
    st.sampled_from(EXAMPLES)
    | st.sampled_from([tag for kind in TAG_NAMES for tag in (f"<{kind}>", f"</{kind}>", f"<{kind.upper()}>")])
    | st.sampled_from(["--token ", "password", "ſecret=", "é", "\u212aey", "İ", " ", "\n", "-", "%", "0f1e" * 20])
    | st.text(max_size=5)
)
texts = st.lists(pieces, max_size=4).map("".join)


@example([EXAMPLES[0][:60], EXAMPLES[0][60:]])
@example(["--", "token Zx9Qw8Er7Ty6Ui5"])
@given(st.lists(texts, max_size=6))
def test_cleaning_many_texts_equals_cleaning_each(many_texts: list[str]) -> None:
    assert clean_texts(many_texts) == [clean_text(text) for text in many_texts]


@pytest.mark.parametrize("row", [row for row in RULES if "unbroken" in row.flags], ids=lambda row: row.kind)
@given(st.data())
def test_an_unbroken_secret_contains_its_literal_in_one_run(row: SecretRule, data: st.DataObject) -> None:
    pattern = re.compile(row.pattern, re.VERBOSE | re.ASCII)
    secret = data.draw(st.from_regex(pattern, fullmatch=True))
    assert any(
        literal in stretch for stretch in find_unbroken_runs(f"({secret})", MIN_RUN_LENGTH) for literal in row.literals
    )
