"""Every command that a skill or a slash command names is accepted by the product, as it stands there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon.lessons.typed_prompts import parse_decision
from tests.support.handoff_drafts import AGENT, DraftWriter, create_repository
from tests.support.house import House, lesson

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
TEXTS = sorted([*PLUGINS.glob("*/skills/*/SKILL.md"), *PLUGINS.glob("*/commands/*.md")])
FOR_A_PERSON = ("lessons edit", "lessons retire", "lessons restore")


def find_examples(text: str) -> Iterator[tuple[str, str]]:
    """The commands in fenced blocks and in backticks, each with what a here-document gives it."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        here_document = re.search(r"^(hardwon .*) <<'(\w+)'\n(.*?)^\2$", block, re.M | re.S)
        if here_document:
            yield here_document[1], here_document[3]
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("hardwon "):
                yield line, ""
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).replace("\n", " ")
    for line in re.findall(r"`(hardwon [^`]+)`", without_blocks):
        yield line, ""


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(PLUGINS)))
def test_its_examples_run(path: Path, house: House, tmp_path: Path, own_home: str) -> None:
    repository = create_repository(tmp_path / "kite", own_home)
    slug = house.add(lesson(r"\bmake\b"))
    draft_writer = DraftWriter(house, repository)
    number = draft_writer.write_draft().id
    draft_writer.connection.close()
    values = {"SLUG": slug, "ID": f"L:{slug}", "NUMBER": str(number), "WORDS": "kite", "COMMAND": "git stash", "N": "1"}
    examples = list(find_examples(path.read_text()))
    assert examples
    for example, stdin in examples:
        words = [
            re.sub(r"[A-Z]{1,}", lambda match: values.get(match[0], match[0]), word) for word in shlex.split(example)
        ]
        is_for_a_person = example.removeprefix("hardwon ").startswith(FOR_A_PERSON)
        if words[1] in ("accept", "reject"):
            assert parse_decision(words), f"{example} is no decision that can be typed"
            continue
        if words[1:] == ["lessons", "add"]:
            words.append("--help")  # the text names the command, not an example of it
        result = house.cli(*words[1:], env=None if is_for_a_person else AGENT, stdin=stdin, cwd=str(repository))
        is_empty_search = words[1] == "search" and result.code == 1 and "nothing was found" in result.out + result.err
        assert result.code == 0 or is_empty_search, f"{example}\n{result.out}{result.err}"
