"""Many texts are cleaned with one look at all of them, which misses nothing that a look at each would find."""

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

EXAMPLES = [before + secret for _, examples in OF_RULES for before, secret, _ in examples.secrets]
EXAMPLES += [before + secret + after for before, secret, after in OF_NAMES.secrets]
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
def test_cleaning_many_texts_is_cleaning_each(many: list[str]) -> None:
    assert clean_texts(many) == [clean_text(text) for text in many]


@pytest.mark.parametrize("row", [row for row in RULES if "unbroken" in row.flags], ids=lambda row: row.kind)
@given(st.data())
def test_the_literal_of_what_is_called_unbroken_is_in_a_stretch(row: SecretRule, data: st.DataObject) -> None:
    pattern = re.compile(row.pattern, re.VERBOSE | re.ASCII)
    found = data.draw(st.from_regex(pattern, fullmatch=True))
    assert any(
        literal in stretch for stretch in find_unbroken_runs(f"({found})", MIN_RUN_LENGTH) for literal in row.literals
    )
