"""Many texts are cleaned with one look at all of them, which misses nothing that a look at each would find."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.core.clean import clean, clean_all
from hardwon.core.private import KINDS
from hardwon.core.randomness import runs
from hardwon.core.redact import SECRETS, SHORTEST, Secret

EXAMPLES = [before + secret for row in SECRETS for before, secret in row.examples]
pieces = (
    st.sampled_from(EXAMPLES)
    | st.sampled_from([tag for kind in KINDS for tag in (f"<{kind}>", f"</{kind}>", f"<{kind.upper()}>")])
    | st.sampled_from(["--token ", "password", "ſecret=", "é", "\u212aey", "İ", " ", "\n", "-", "%", "0f1e" * 20])
    | st.text(max_size=5)
)
texts = st.lists(pieces, max_size=4).map("".join)


@example([EXAMPLES[0][:60], EXAMPLES[0][60:]])
@example(["--", "token Zx9Qw8Er7Ty6Ui5"])
@given(st.lists(texts, max_size=6))
def test_cleaning_many_texts_is_cleaning_each(many: list[str]) -> None:
    assert clean_all(many) == [clean(text) for text in many]


@pytest.mark.parametrize("row", [row for row in SECRETS if "unbroken" in row.how], ids=lambda row: row.name)
@given(st.data())
def test_what_is_called_unbroken_is_one_stretch(row: Secret, data: st.DataObject) -> None:
    pattern = re.compile(row.pattern, re.VERBOSE | re.ASCII)
    found = data.draw(st.from_regex(pattern, fullmatch=True))
    assert runs(f"({found})", SHORTEST) == [found]
    assert any(found.startswith(literal) for literal in row.literals) or row.name in (
        "gitlab",
        "aws-id",
        "digitalocean",
    )
