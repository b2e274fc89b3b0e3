"""The examples in the table of secrets, with their placeholders filled in."""

from __future__ import annotations

import re

from hardwon.privacy.secret_rules import RULES, TABLE_PATH, SecretRule
from hardwon.types import frozen

SAMPLES = {"key": "A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6" + "S7t8U9v0W1x2Y3z4", "hex": "0f1e2d3c4b5a6978" * 4}
# A key with a vendor's prefix is filled with these, by the characters it may have.
KEY_SAMPLES = {
    "[0-9a-fA-F]": SAMPLES["hex"],
    "[A-Za-z0-9]": SAMPLES["key"],
    "[A-Za-z0-9+/=_-]": SAMPLES["key"],
    r"[\w-]": "0f1e2d3c-4b5a-6978-" * 5,
    r"[\w.-]": "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6." * 3,
}


@frozen
class BlockExamples:
    """The examples of a block: the text before a secret, the secret and the text after it; and what must stay."""

    kind: str
    secrets: list[tuple[str, str, str]]
    kept: list[str]


def fill_in(line: str) -> str:
    line = line.replace("{}", "").replace("⏎", "\n")
    return re.sub(r"\{(key|hex)(\d+)\}", lambda match: (SAMPLES[match[1]] * 2)[: int(match[2])], line)


def read_examples() -> list[BlockExamples]:
    blocks: list[BlockExamples] = []
    with open(TABLE_PATH, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            if line.startswith("["):
                blocks.append(BlockExamples(line[1:-1], [], []))
            elif line.startswith("keys: "):
                signs, *prefixes = line.removeprefix("keys: ").split()
                characters, _, count = signs.removesuffix(",}").rpartition("{")
                sample = KEY_SAMPLES[characters][: int(count)]
                blocks[-1].secrets.extend(("", prefix + sample, "") for prefix in prefixes)
            elif line.startswith("> ") and "«" in line:
                text_before, _, rest = fill_in(line[2:]).partition("«")
                secret, _, text_after = rest.partition("»")
                blocks[-1].secrets.append((text_before, secret, text_after))
            elif line.startswith("> "):
                blocks[-1].kept.append(fill_in(line[2:]))
    return blocks


*_of_rules, OF_NAMES, _ = read_examples()
OF_RULES: list[tuple[SecretRule, BlockExamples]] = list(zip(RULES, _of_rules, strict=True))
