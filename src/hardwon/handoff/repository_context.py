"""What lies in a session's repository and bears on it: pages that people keep, the commits of that time, full folders.

Read by asking git, and only ever read. Where there is no repository, or git is not there, nothing is known.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

from hardwon.paths import open_plain_file
from hardwon.store.reflection_types import ReflectionContext, RepositoryPage
from hardwon.types import replace

CONVENTION_FOLDERS = ("docs/conventions", "conventions")
WORKSTREAM_FOLDERS = ("docs/workstreams", "workstreams", "plans", "docs/plans")
INSTRUCTION_FILES = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")  # what they say is a convention too
MAX_PAGES, MAX_PAGE_CHARS = 200, 64_000
GIT_TIMEOUT_SECONDS = 10.0
COMMIT_LEEWAY_SECONDS = 60.0  # seconds after the last step in which a commit still belongs to it
_CODE = re.compile(r"`([^`\n]{2,120})`|^(?:    |\t)?\$ (.{2,120})$", re.M)
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
_AFTER = re.compile(r"^(?:blocked[_-]by|depends[_-]on|after)\s*:(.*(?:\n\s+-.*)*)", re.M | re.I)
_NAME = re.compile(r"#?[\w.-]*\w")


def add_repository_context(past: ReflectionContext, project: str, began: float, ended: float) -> ReflectionContext:
    """The past, and what the repository says beside it."""
    if not os.path.isdir(project):
        return past
    return replace(
        past,
        conventions=(*_pages(project, CONVENTION_FOLDERS), *_instructions(project)),
        workstreams=tuple(_pages(project, WORKSTREAM_FOLDERS)),
        commits=tuple(_commits(project, began, ended)),
        folder_file_counts=_folders(project),
    )


def _pages(project: str, folders: tuple[str, ...]) -> Iterator[RepositoryPage]:
    for folder in folders:
        try:
            names = sorted(os.listdir(os.path.join(project, folder)))[:MAX_PAGES]
        except OSError:
            continue
        for name in names:
            if name.endswith(".md") and (page := _page(os.path.join(project, folder, name))):
                yield page


def _instructions(project: str) -> Iterator[RepositoryPage]:
    for name in INSTRUCTION_FILES:
        if page := _page(os.path.join(project, name)):
            yield page


def _page(path: str) -> RepositoryPage | None:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
            text = file.read(MAX_PAGE_CHARS)
    except OSError:
        return None
    lines = text.splitlines()
    line = next((number for number, one in enumerate(lines, 1) if one.startswith("#")), 0)
    line = line or next((number for number, one in enumerate(lines, 1) if one.strip(" -")), 0)
    if not line:
        return None
    quoted = [one or other for one, other in _CODE.findall(text)]
    fenced = [one.strip() for block in _FENCED.findall(text) for one in block.splitlines() if one.strip()]
    after = [name for found in _AFTER.findall(text[:4_000]) for name in _NAME.findall(found)]
    name = os.path.splitext(os.path.basename(path))[0]
    return RepositoryPage(path, name, line, lines[line - 1].strip()[:200], (*quoted, *fenced), tuple(after))


def _commits(project: str, began: float, ended: float) -> Iterator[tuple[str, ...]]:
    """The files of each commit that was made while the session ran."""
    if not began:
        return
    span = (f"--since=@{int(began)}", f"--until=@{int(ended + COMMIT_LEEWAY_SECONDS)}")
    for block in _git(project, "log", "--no-merges", "--format=%x01", "--name-only", "-z", *span, "HEAD").split("\x01"):
        if files := tuple(name for name in block.replace("\n", "").split("\0") if name):
            yield files


def _folders(project: str) -> dict[str, int]:
    names = _git(project, "ls-files", "-z").split("\0")
    return dict(Counter(os.path.dirname(name) or "." for name in names if name))


def _git(project: str, *words: str) -> str:
    """What git says; nothing if it fails. Nothing that the repository's own settings name is run."""
    quiet = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
    try:
        done = subprocess.run(
            ["git", *quiet, *words],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
