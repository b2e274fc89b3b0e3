"""Read the rules for secrets from `secret_rules.txt`, which explains them and has examples of each."""

from __future__ import annotations

import os

from hardwon.types import frozen

TABLE_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "secret_rules.txt")
# Base64 in a URL goes on after a percent-encoded sign.
_BASE64_SIGNS = "[A-Za-z0-9+/=_-]"
_ENCODED_REST = rf"(?:%[23][0-9A-F]{_BASE64_SIGNS}*+)*+"

Fields = dict[str, list[str]]  # the lines of a block, by the name before the colon


@frozen
class SecretRule:
    """One kind of secret; the table says what each field means."""

    kind: str
    literals: tuple[str, ...]
    pattern: str
    flags: str
    not_after: str | None
    lead_length: int
    also_required: tuple[str, ...]


def _read_blocks() -> list[tuple[str, Fields]]:
    """Return the blocks of the table, each with its kind, without the examples."""
    # The hook reads this as well. It takes 0.2 ms; JSON or TOML would take several, and escape every backslash.
    blocks: list[tuple[str, Fields]] = []
    fields: Fields = {}  # of the last block
    with open(TABLE_PATH, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line in lines:
        if not line or line[0] in "#>":
            continue
        if line[0] == "[":
            fields = {}
            blocks.append((line[1:-1], fields))
        else:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value[1:])
    return blocks


def _build_rule(kind: str, fields: Fields) -> SecretRule:
    """Build a rule from a block of the table.

    Its pattern is made from `keys`, which are a vendor's prefixes, or from `command` and `option`; else it is written
    out. The prefixes of keys are the literals at the same time.
    """
    literals = _split_list(fields, "literals")
    pattern = "".join(fields.get("pattern", []))
    if "keys" in fields:
        all_prefixes = []
        alternatives = []
        for row in fields["keys"]:
            signs, *prefixes = row.split()  # the signs that a key has, then how it may begin
            all_prefixes += prefixes
            alternatives.append(_build_key_pattern(signs, prefixes))
        literals = tuple(all_prefixes)
        pattern = f"(?:{'|'.join(alternatives)})"
    elif "command" in fields:
        pattern = _build_option_pattern(*fields["command"], *fields["option"], *fields.get("before_value", []))
    return SecretRule(
        kind,
        literals,
        pattern,
        flags="".join(fields.get("flags", [])),
        not_after=fields["not_after"][0] if "not_after" in fields else None,
        lead_length=int(fields.get("lead", ["0"])[0]),
        also_required=_split_list(fields, "also") or ("",),
    )


def _split_list(fields: Fields, name: str) -> tuple[str, ...]:
    """Return the words of a field, from all its lines; the table writes a space within a word as `␣`."""
    words = []
    for line in fields.get(name, []):
        for word in line.split():
            words.append(word.replace("␣", " "))
    return tuple(words)


def _build_key_pattern(signs: str, prefixes: list[str]) -> str:
    """Return a pattern for keys with one of these prefixes; keys in base64 may go on with encoded signs."""
    alternatives = "|".join(prefixes).replace(".", r"\.")
    encoded_rest = _ENCODED_REST if signs.startswith(_BASE64_SIGNS) else ""
    return f"(?:{alternatives}){signs}{encoded_rest}"


def _build_option_pattern(command: str, option: str, value_prefix: str = "") -> str:
    """Return a pattern for a command, its other words up to `;`, `|` or `&`, then the option and its value.

    The value is quoted or one word; in JSON text a quote has backslashes.
    """
    value = (
        rf"""(?:\\{{0,8}}'{value_prefix}(?P<single>[^'\s\\][^'\r\n\\]{{0,200}})"""
        rf"""|\\{{0,8}}"{value_prefix}(?P<double>[^"\s\\][^"\r\n\\]{{0,200}})"""
        rf"""|{value_prefix}(?P<word>[^\s"'\\;&|<>][^\s"'\\]{{1,200}}))"""
    )
    return rf"(?:{command})(?:[ \t]{{1,8}}(?!(?-i:{option})|[|;&])\S+){{0,40}}+[ \t]{{1,8}}(?-i:{option}){value}"


*_RULE_BLOCKS, (_, _NAME_FIELDS), (_, _WORDS) = _read_blocks()
RULES = tuple([_build_rule(kind, fields) for kind, fields in _RULE_BLOCKS])
NAMED_SECRET_RULE = _build_rule("secret", _NAME_FIELDS)
NAME_STEMS = NAMED_SECRET_RULE.literals  # every ending of a name contains one
STRONG_ENDINGS = _split_list(_WORDS, "strong_endings")
WEAK_ENDINGS = _split_list(_WORDS, "weak_endings")
SHORT_ENDINGS = _split_list(_WORDS, "short_endings")
KEY_NAME_PREFIXES = _split_list(_WORDS, "key_prefixes")
NAME_SUFFIXES = ("", *_split_list(_WORDS, "suffixes"))
PLAIN_VALUES = frozenset(_split_list(_WORDS, "plain_values"))
PLACEHOLDER_PARTS = _split_list(_WORDS, "placeholder_parts")
SENTENCE_WORDS = frozenset(_split_list(_WORDS, "sentence_words"))
SECRET_NAME_PARTS = _split_list(_WORDS, "name_parts")
SECRET_NAME_WORDS = frozenset(_split_list(_WORDS, "name_words"))
WRAPPING_CALLS = _split_list(_WORDS, "wrapping_calls")
