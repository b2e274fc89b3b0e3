"""Every section of the page of figures has its date, machine and command."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from scripts import numbers
from scripts.numbers import BENCHMARKS

from tests.rules.tree import ROOT, page


def split_sections(text: str) -> dict[str, str]:
    parts = re.split(r"(?m)^## +(.*)$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_figure_names_its_command_and_date() -> None:
    for heading, body in split_sections(page("docs/numbers.md")).items():
        assert re.search(r"\d{4}-\d\d-\d\d, ", body), f"{heading}: no date"
        assert re.search(r"`[^`]*\bmake bench-[\w-]+`", body), f"{heading}: no command"
        assert re.search(r"\bcores\b", body), f"{heading}: no machine"
        assert re.search(r"(?ms)^(\||```\n).*\d", body), f"{heading}: no figure"


def test_every_benchmark_is_on_the_page() -> None:
    text = page("docs/numbers.md")
    benchmarks = [name for name in os.listdir(os.path.join(ROOT, "bench")) if name.endswith(".py")]
    names = {name.removesuffix(".py") for name in benchmarks if '__name__ == "__main__"' in page(f"bench/{name}")}
    # These are started by the benchmark whose name they begin with.
    names -= {"meaning_product", "meaning_product_010"}
    assert names == BENCHMARKS.keys(), "to fix: scripts/numbers.py, BENCHMARKS"
    assert [name for name in sorted(names) if not re.search(rf"make bench-{name}`", text)] == [], "to fix: make numbers"


def test_a_new_measurement_replaces_only_its_own_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "PAGE", str(tmp_path / "numbers.md"))
    cli, hook = "## What a command costs\n\nold\n", "## What a hook costs\n\nold\n"
    text = f"# Numbers\n\nBy hand.\n\n{numbers.BEGIN}\n\n{hook}\n{cli}\n{numbers.END}\n"
    (tmp_path / "numbers.md").write_text(text)
    sections = numbers.read_sections(text)
    assert sections == {"cli": cli, "hook": hook}
    numbers.write_page({**sections, "cli": "## What a command costs\n\nnew\n"})
    written = (tmp_path / "numbers.md").read_text()
    assert written.startswith("# Numbers\n\nBy hand.\n") and hook in written and "costs\n\nnew\n" in written
    assert written.count("Not measured for this page yet: `make bench-") == 1
    assert numbers.read_sections(written) == {"cli": "## What a command costs\n\nnew\n", "hook": hook}


def test_every_command_of_a_figure_is_a_benchmark() -> None:
    for name in ("docs/numbers.md", "README.md"):
        for benchmark in set(re.findall(r"make bench-([\w-]+)", page(name))):
            assert os.path.exists(os.path.join(ROOT, "bench", f"{benchmark}.py")), f"{name}: make bench-{benchmark}"


def test_the_figures_of_the_readme_name_their_commands() -> None:
    rows = re.findall(r"(?m)^\| .*\d.* \|$", page("README.md").partition("## Measured")[2].partition("\n## ")[0])
    assert rows and all("`make bench-" in row or "docs/" in row for row in rows)
