"""Secrets do not survive, and ordinary code does."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.privacy.redaction import redact_text, redact_value
from tests.support.secret_examples import OF_NAMES, OF_RULES

EXAMPLES = [(row.kind, prefix, secret) for row, examples in OF_RULES for prefix, secret, _ in examples.secrets]
EXAMPLES += [("secret", prefix, secret) for prefix, secret, suffix in OF_NAMES.secrets if not suffix]
ORDINARY = os.path.join(os.path.dirname(__file__), "ordinary_code.txt")
KEY = "A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6"
FISH = "swordfish"
LARGE = 1_000_000 if os.environ.get("HARDWON_LONG") else 100_000  # a pass in quadratic time takes minutes on either


def read_ordinary_lines() -> list[str]:
    with open(ORDINARY, encoding="utf-8") as file:
        return file.read().splitlines()


def get_middle(secret: str) -> str:
    """Return the middle of a secret; its ends may stay."""
    body = secret.partition("@")[0].replace("\n", "")
    return body[len(body) // 3 : len(body) // 3 + 12] if len(body) > 24 else body


def test_the_table_catches_its_own_examples() -> None:
    for kind, prefix, secret in EXAMPLES:
        text = prefix + secret
        assert f"[redacted:{kind}]" in redact_text(text), text
        nested = json.dumps({"out": json.dumps({"log": f"line\n{text}\nend"})})
        for around in (
            text,
            f"ordinary words before {text} and after",
            f"line\n{text}\nline",
            json.dumps({"out": f"line\n{text}\nend"}),
            nested,
            json.dumps(nested),
            f"export VALUE={text}",
            f"+    1→{text}",
        ):
            assert get_middle(secret) not in redact_text(around), around


def test_a_key_in_an_address_is_caught() -> None:
    for _, prefix, secret in EXAMPLES:
        if prefix == "" and "\n" not in secret:
            assert get_middle(secret) not in redact_text(f"https://example.org/path?q={secret}&page=2"), secret
            assert get_middle(secret) not in redact_text(f"https%3A%2F%2Fexample.org%2F%3Fq%3D{secret}"), secret


def test_every_row_needs_one_of_its_literals() -> None:
    for row, examples in OF_RULES:
        for prefix, secret, _ in examples.secrets:
            text = prefix + secret
            low = text.lower() if "folded" in row.flags else text
            assert any(literal in low for literal in row.literals), row.kind


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        (f"password={FISH}9", "password=[redacted:secret]"),
        (f"PASSWORD={FISH}", "PASSWORD=[redacted:secret]"),
        (f"PGPASSWORD={FISH} psql", "PGPASSWORD=[redacted:secret] psql"),
        (f"password: {FISH}\nuser: ada", "password: [redacted:secret]\nuser: ada"),
        (f'"password": "{FISH}", "a": 1', '"password": "[redacted:secret]", "a": 1'),
        (r"{\"password\": \"sword\\\"fish\", \"a\": 1}", r"{\"password\": \"[redacted:secret]\", \"a\": 1}"),
        (f"'password' => '{FISH}'", "'password' => '[redacted:secret]'"),
        (f'data["secret"] = "{FISH}"', 'data["secret"] = "[redacted:secret]"'),
        (f"password='{FISH} with blanks'", "password='[redacted:secret]'"),
        (f'if password == "{FISH}":', 'if password == "[redacted:secret]":'),
        (f'.password("{FISH}")', '.password("[redacted:secret]")'),
        (f"<password>{FISH}</password>", "<password>[redacted:secret]</password>"),
        (f"--password {FISH} --user ada", "--password [redacted:secret] --user ada"),
        (f"--db-password={FISH}9", "--db-password=[redacted:secret]"),
        (f"?password={FISH}&a=b", "?password=[redacted:secret]&a=b"),
        (f"db.password={FISH}", "db.password=[redacted:secret]"),
        (f"Server=db;User=ada;Pwd={FISH};", "Server=db;User=ada;Pwd=[redacted:secret];"),
        (f"api_key: {KEY[:20]}", "api_key: [redacted:secret]"),
        ('token = "9f86d081884c7d659a2feaa0c55ad015"', 'token = "[redacted:secret]"'),
        (f"aws_secret_access_key = {KEY[:19]}/{KEY[:20]}", "aws_secret_access_key = [redacted:secret]"),
        (f'"secretAccessKey": "/{KEY[:19]}/{KEY[:19]}"', '"secretAccessKey": "[redacted:secret]"'),
        (f"DATABASE_URL=postgres://ada:{FISH}@db/app", "DATABASE_URL=postgres://ada:[redacted:url-password]@db/app"),
        ("postgres://ada:p@ss@db/app", "postgres://ada:[redacted:url-password]@db/app"),
        (f"redis://:{FISH}@localhost", "redis://:[redacted:url-password]@localhost"),
        (f"mysqldump -uroot -p'{FISH}' app", "mysqldump -uroot -p'[redacted:login]' app"),
        (f"sshpass -p {FISH} ssh db", "sshpass -p [redacted:login] ssh db"),
        (f"curl -s -u 'ada:{FISH}' http://db", "curl -s -u 'ada:[redacted:login]' http://db"),
        (f"CREATE USER a IDENTIFIED BY '{FISH}';", "CREATE USER a IDENTIFIED BY '[redacted:login]';"),
        (f"export DB_PASS={FISH}", "export DB_PASS=[redacted:secret]"),
        (f"smtp_pass = '{FISH}'", "smtp_pass = '[redacted:secret]'"),
        (f"docker login -u ada -p {FISH} ghcr.io", "docker login -u ada -p [redacted:login] ghcr.io"),
        (f"my key is {KEY}.", "my key is [redacted:said]."),
        (f"I have {KEY}.", "I have [redacted:random]."),
        (f"a\\n{KEY}", "a\\n[redacted:random]"),
        ("-H 'Cookie: a=b; c=d' -v", "-H 'Cookie: [redacted:cookie]' -v"),
        (f"the db password is {FISH}9", "the db password is [redacted:said]"),
        (f"the passphrase of the old key is '{FISH}!x'.", "the passphrase of the old key is '[redacted:said]'."),
        ("the password is 'Tr0ub4dor-Xq7z', as ever", "the password is '[redacted:said]', as ever"),
        ("we set the passphrase to `correct-horse-battery`.", "we set the passphrase to `[redacted:said]`."),
        (f"my token is {KEY[:20]}", "my token is [redacted:said]"),
    ],
)
def test_the_value_is_redacted_and_the_name_stays(text: str, expected_text: str) -> None:
    assert redact_text(text) == expected_text


HEX = "0f1e2d3c4b5a6978" * 4


@pytest.mark.parametrize(
    "key",
    [
        *(
            "shpat_" + HEX[:32],
            "shpss_" + HEX[:32],
            "sq0atp-" + KEY[:22],
            "sq0csp-" + KEY + KEY[:11],
            "pplx-" + KEY * 2,
        ),
        *("sbp_" + HEX[:40], f"PMAK-{HEX[:24]}-{HEX[:34]}", "NRAK-" + KEY[:27].upper(), "bkua_" + HEX[:40]),
        *("AGE-SECRET-KEY-1" + (KEY * 2)[:58].upper(), "pat-na1-0f1e2d3c-4b5a-6978-0f1e-2d3c4b5a6978"),
        *(
            "rubygems_" + HEX[:48],
            "sntryu_" + HEX,
            "sntrys_" + "eyJ" + KEY * 2,
            f"dapi{HEX[:32]}-2",
            "gsk_" + KEY + KEY[:20],
        ),
        *(
            "figd_" + KEY,
            "lin_api_" + KEY + KEY[:8],
            f"tfp_{KEY}_{KEY[:20]}",
            "pscale_tkn_" + KEY,
            "dp.pt." + KEY + KEY[:11],
        ),
        *("GOCSPX-" + KEY[:28], "hvs." + KEY * 2, "fo1_" + KEY, "vcp_" + KEY * 2, "dckr_pat_" + KEY[:27]),
    ],
)
def test_a_bare_key_of_a_service_is_redacted(key: str) -> None:
    assert get_middle(key) not in redact_text(f"I logged in with {key}, then it worked")


@pytest.mark.parametrize(
    "line",
    [
        "the token is expired.",
        "the secret is base64-encoded",
        "the token limit is 128000",
        "the secret is sha256",
        "the password is case-sensitive!",
        "the password is in vault/v1",
        "the token is user?.token",
        "the secret is process.env.SECRET_V2",
        "the api key is at https://kite.example/v1",
        "the password is ${DB_PASS1}",
    ],
)
def test_a_sentence_about_a_secret_is_unchanged(line: str) -> None:
    assert redact_text(line) == line


def test_an_ordinary_line_survives_unchanged() -> None:
    changed = [(line, redact_text(line)) for line in read_ordinary_lines() if redact_text(line) != line]
    assert changed == []


def test_a_file_of_ordinary_code_survives_unchanged() -> None:
    text = "\n".join(read_ordinary_lines())
    assert len(read_ordinary_lines()) >= 500
    assert redact_text(text) == text
    assert redact_value({"out": text}) == {"out": text}


def test_a_key_that_is_cut_off_is_hidden_to_the_end() -> None:
    for row, examples in OF_RULES:
        if row.kind == "private-key":
            closed = f"a {examples.secrets[0][1]} b"
            assert redact_text(closed) == "a [redacted:private-key] b"
            assert redact_text(closed[:80]) == "a [redacted:private-key]"


def test_all_under_the_name_of_a_secret_is_replaced() -> None:
    value = {
        "password": "plain",
        "apiKey": "plain",
        "X-Auth-Token": "plain",
        "Authorization": "plain",
        "secrets": ["plain", {"user": "ada"}],
        "db_password": {"value": "plain", "deep": [{"er": "plain"}], "rotated": True, "old": None},
        "pin": {"password": 12345678, "token": 120},
        "env": [{"name": "DB_PASSWORD", "value": "plain"}, {"name": "HOME", "value": "kept"}],
        "empty": {"token": "", "secret": None, "password": 0},
        "input_tokens": "kept",
        "token_type": "kept",
    }
    replacement = "[redacted:secret]"
    assert redact_value(value) == {
        "password": replacement,
        "apiKey": replacement,
        "X-Auth-Token": replacement,
        "Authorization": replacement,
        "secrets": [replacement, {"user": replacement}],
        "db_password": {"value": replacement, "deep": [{"er": replacement}], "rotated": True, "old": None},
        "pin": {"password": replacement, "token": 120},
        "env": [{"name": "DB_PASSWORD", "value": replacement}, {"name": "HOME", "value": "kept"}],
        "empty": {"token": "", "secret": None, "password": 0},
        "input_tokens": "kept",
        "token_type": "kept",
    }


@given(st.sampled_from(EXAMPLES), st.lists(st.sampled_from(["list", "key", "text", "value"]), max_size=5))
def test_a_secret_in_any_nesting_does_not_survive(example: tuple[str, str, str], path: list[str]) -> None:
    _, prefix, secret = example
    value: Any = prefix + secret
    for step in path:
        inner = json.dumps(value) if path.count("text") + path.count("key") < 3 else "x"
        value = {"list": [1, value], "key": {inner: 1}, "text": inner, "value": {"k": value}}[step]
    assert get_middle(secret) not in json.dumps(redact_value(value))


def test_a_value_nested_a_hundred_thousand_deep_is_redacted() -> None:
    value: Any = f"password={FISH}9"
    for _ in range(100_000):
        value = [value]
    redacted = redact_value(value)
    while isinstance(redacted, list):
        redacted = redacted[0]
    assert redacted == "password=[redacted:secret]"


PIECES = [prefix + secret for _, prefix, secret in EXAMPLES]
PIECES += [
    "password",
    "token",
    "secret",
    "=",
    ":",
    " ",
    '"',
    "'",
    "\\",
    "\n",
    "://",
    "@",
    "-",
    "--",
    "a",
    "Z",
    "9",
    "é",
    "[redacted:",
]
PIECES += [
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "%41",
    "\\n",
    KEY,
    "bearer ",
    " is ",
    "cookie: ",
    "eyJ",
    ".",
    "/",
    "]",
    ",",
    ";",
    "\0",
    "\udc80",
    "İ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_redacting_again_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_is_read_and_prose_is_kept(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


HOSTILE = [
    "password=",
    'password="',
    'password=\\\\\\\\\\\\\\\\"',
    "token:",
    "token ",
    "--token ",
    "eyJaaaaaaaa.",
    "-eyJ",
    "sk-",
    "-sk-a",
    "tvly-",
    "dp.pt.",
    "docker login ",
]
HOSTILE += [
    "://a:",
    "://a:b@",
    "-----BEGIN PRIVATE KEY-----\n",
    "mysql -p",
    "curl -u ",
    "login a password ",
    "cookie:a=b;",
    "password is ",
    "token is a1b2c3",
]
HOSTILE += ["authorization: basic ", "sig=", "SG.aaaaaaaaaaaaaaaaa.", "A", "a1B2/", "=", "\\", "é", "İ", "-", "\udc80"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_large_hostile_text_is_redacted_in_linear_time(piece: str) -> None:
    text = piece * (LARGE // len(piece))
    assert FISH not in redact_text(f"{text}\npassword={FISH}9\n")


@pytest.mark.parametrize(
    "start", ["password=", 'password="', "token: '", "Cookie: a=", "-----BEGIN PRIVATE KEY-----\n", ""]
)
def test_one_endless_secret_is_replaced_whole(start: str) -> None:
    assert len(redact_text(start + KEY * (5 * LARGE // len(KEY)))) < 100
