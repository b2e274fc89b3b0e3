"""The generated pages agree with the code."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from types import ModuleType

import pytest

from tests.rules.tree import ROOT


@pytest.mark.parametrize("name", ["../README.md", "hosts.md", "settings.md", "cli.md", "api.md", "architecture.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        assert file.read() == load_generator().PAGES[name](), "to fix: make docs"


@cache
def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", os.path.join(ROOT, "docs", "generate.py"))
    assert spec and spec.loader
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    return generator
