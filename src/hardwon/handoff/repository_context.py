"""Read the code that a repository's written conventions quote."""

from __future__ import annotations

import os
import re

from hardwon.paths import open_plain_file

CONVENTION_FOLDERS = ("docs/conventions", "conventions")
INSTRUCTION_FILES = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")  # treated as conventions too
MAX_PAGES, MAX_PAGE_CHARS = 200, 64_000
_QUOTED_CODE = re.compile(r"`([^`\n]{2,120})`|^(?:    |\t)?\$ (.{2,120})$", re.M)
_FENCED_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)


def read_documented_code(project: str) -> tuple[str, ...]:
    """Return what the conventions of a repository quote as code; nothing without a repository."""
    paths = [os.path.join(project, name) for name in INSTRUCTION_FILES]
    for folder in CONVENTION_FOLDERS:
        try:
            names = sorted(os.listdir(os.path.join(project, folder)))[:MAX_PAGES]
        except OSError:
            continue
        paths += [os.path.join(project, folder, name) for name in names if name.endswith(".md")]
    code: list[str] = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
                text = file.read(MAX_PAGE_CHARS)
        except OSError:
            continue
        code += [inline or prompted for inline, prompted in _QUOTED_CODE.findall(text)]
        for block in _FENCED_BLOCK.findall(text):
            code += [line.strip() for line in block.splitlines() if line.strip()]
    return tuple(code)
