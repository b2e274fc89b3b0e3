"""The page of figures is whole: every section says when, on which machine and by which command it was measured."""

from __future__ import annotations

import os
import re

from tests.rules.tree import ROOT, page


def split_sections(text: str) -> dict[str, str]:
    parts = re.split(r"(?m)^## +(.*)$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_figure_names_its_command_and_date() -> None:
    for heading, body in split_sections(page("docs/numbers.md")).items():
        assert re.search(r"\d{4}-\d\d-\d\d, ", body), f"{heading}: no date"
        assert re.search(r"`[^`]*\bmake bench-[\w-]+`", body), f"{heading}: no command"
        assert re.search(r"\bcores\b", body), f"{heading}: no machine"


def test_every_command_of_a_figure_is_a_benchmark() -> None:
    for name in ("docs/numbers.md", "README.md"):
        for benchmark in set(re.findall(r"make bench-([\w-]+)", page(name))):
            assert os.path.exists(os.path.join(ROOT, "bench", f"{benchmark}.py")), f"{name}: make bench-{benchmark}"


def test_the_figures_of_the_readme_name_their_commands() -> None:
    rows = re.findall(r"(?m)^\| .*\d.* \|$", page("README.md").partition("## Measured")[2].partition("\n## ")[0])
    assert rows and all("`make bench-" in row or "docs/" in row for row in rows)
