"""The screenshots in the documents match the current viewer."""

from __future__ import annotations

import os
import re

from tests.rules.tree import ROOT, page


def test_the_screenshots_match_the_current_templates_and_styles() -> None:
    from scripts import screenshots  # here: it loads Playwright

    assert page("docs/images/sources.sha256").strip() == screenshots.hash_sources(), "to fix: make screenshots"


def test_every_picture_is_shown_and_every_shown_picture_exists() -> None:
    documents = [
        "README.md",
        *(f"docs/{name}" for name in os.listdir(os.path.join(ROOT, "docs")) if name[-3:] == ".md"),
    ]
    shown_images = {name for document in documents for name in re.findall(r"images/([\w-]+\.png)", page(document))}
    assert shown_images == {name for name in os.listdir(os.path.join(ROOT, "docs", "images")) if name.endswith(".png")}
