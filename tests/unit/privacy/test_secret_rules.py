"""Every rule redacts its examples and leaves its counter-examples unchanged."""

from __future__ import annotations

import pytest

from hardwon.privacy.redaction import is_secret_name, redact_text
from hardwon.privacy.secret_rules import NAME_STEMS, STRONG_ENDINGS, WEAK_ENDINGS, SecretRule
from tests.support.secret_examples import OF_NAMES, OF_RULES, BlockExamples

NAMES = [f"{rule.kind} {rule.literals[0]}" for rule, _ in OF_RULES]


@pytest.mark.parametrize(("row", "examples"), OF_RULES, ids=NAMES)
def test_a_rule_redacts_its_examples(row: SecretRule, examples: BlockExamples) -> None:
    assert row.kind == examples.kind and examples.secrets
    for prefix, secret, _ in examples.secrets:
        cleaned = redact_text(prefix + secret)
        assert cleaned.startswith(prefix)
        assert f"[redacted:{row.kind}]" in cleaned
        assert secret.partition("@")[0] not in cleaned


@pytest.mark.parametrize(("row", "examples"), OF_RULES, ids=NAMES)
def test_a_rule_leaves_its_counter_examples(row: SecretRule, examples: BlockExamples) -> None:
    assert examples.kept
    for line in examples.kept:
        assert redact_text(line) == line


@pytest.mark.parametrize(("prefix", "secret", "suffix"), OF_NAMES.secrets)
def test_a_value_after_a_secret_name_is_redacted(prefix: str, secret: str, suffix: str) -> None:
    assert redact_text(prefix + secret + suffix) == f"{prefix}[redacted:secret]{suffix}"


@pytest.mark.parametrize("line", OF_NAMES.kept)
def test_code_templates_and_placeholders_stay(line: str) -> None:
    assert redact_text(line) == line


def test_every_ending_of_a_name_holds_a_stem() -> None:
    for ending in (*STRONG_ENDINGS, *WEAK_ENDINGS):
        assert ending.startswith(NAME_STEMS)


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "secret_key_base", "X-Auth-Token", "smtpPass", "auth"]
)
def test_a_secret_name_is_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["primary_key", "max_tokens", "bypass", "password_hash", "token_type", "author", "keyboard", ""]
)
def test_an_ordinary_name_is_no_secret_name(name: str) -> None:
    assert not is_secret_name(name)
