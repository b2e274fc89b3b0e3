"""The generated pages agree with the code."""

from __future__ import annotations

import importlib.util
import os

import pytest

from tests.rules.tree import ROOT


@pytest.mark.parametrize("name", ["../README.md", "hosts.md", "settings.md", "cli.md", "api.md", "architecture.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    spec = importlib.util.spec_from_file_location("generate", os.path.join(ROOT, "docs", "generate.py"))
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        assert file.read() == generate.PAGES[name](), "to fix: make docs"
