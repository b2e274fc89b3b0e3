"""Every row of the rules takes out its examples and leaves its counter-examples as they are."""

from __future__ import annotations

import pytest

from hardwon.privacy.redaction import is_secret_name, redact_text
from hardwon.privacy.secret_rules import NAME_STEMS, STRONG_ENDINGS, WEAK_ENDINGS, SecretRule
from tests.support.secret_examples import OF_NAMES, OF_RULES, BlockExamples

NAMES = [f"{rule.kind} {rule.literals[0]}" for rule, _ in OF_RULES]


@pytest.mark.parametrize(("row", "examples"), OF_RULES, ids=NAMES)
def test_a_row_takes_out_its_examples(row: SecretRule, examples: BlockExamples) -> None:
    assert row.kind == examples.kind and examples.secrets
    for before, secret, _ in examples.secrets:
        cleaned = redact_text(before + secret)
        assert cleaned.startswith(before)
        assert f"[redacted:{row.kind}]" in cleaned
        assert secret.partition("@")[0] not in cleaned


@pytest.mark.parametrize(("row", "examples"), OF_RULES, ids=NAMES)
def test_a_row_leaves_its_counter_examples(row: SecretRule, examples: BlockExamples) -> None:
    assert examples.kept
    for line in examples.kept:
        assert redact_text(line) == line


@pytest.mark.parametrize(("before", "secret", "after"), OF_NAMES.secrets)
def test_what_follows_a_promising_name_goes(before: str, secret: str, after: str) -> None:
    assert redact_text(before + secret + after) == f"{before}[redacted:secret]{after}"


@pytest.mark.parametrize("line", OF_NAMES.kept)
def test_code_templates_and_placeholders_stay(line: str) -> None:
    assert redact_text(line) == line


def test_every_ending_of_a_name_holds_a_stem() -> None:
    for ending in (*STRONG_ENDINGS, *WEAK_ENDINGS):
        assert ending.startswith(NAME_STEMS)


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "secret_key_base", "X-Auth-Token", "smtpPass", "auth"]
)
def test_a_name_that_promises_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["primary_key", "max_tokens", "bypass", "password_hash", "token_type", "author", "keyboard", ""]
)
def test_a_name_that_promises_none(name: str) -> None:
    assert not is_secret_name(name)
