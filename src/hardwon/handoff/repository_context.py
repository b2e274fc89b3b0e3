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
_QUOTED_CODE = re.compile(r"`([^`\n]{2,120})`|^(?:    |\t)?\$ (.{2,120})$", re.M)
_FENCED_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
_DEPENDENCY_FIELD = re.compile(r"^(?:blocked[_-]by|depends[_-]on|after)\s*:(.*(?:\n\s+-.*)*)", re.M | re.I)
_DEPENDENCY_NAME = re.compile(r"#?[\w.-]*\w")


def add_repository_context(
    past: ReflectionContext, project: str, started_at: float, ended_at: float
) -> ReflectionContext:
    """The past, and what the repository says beside it."""
    if not os.path.isdir(project):
        return past
    return replace(
        past,
        conventions=(*_read_pages(project, CONVENTION_FOLDERS), *_read_instructions(project)),
        workstreams=tuple(_read_pages(project, WORKSTREAM_FOLDERS)),
        commits=tuple(_list_commit_files(project, started_at, ended_at)),
        folder_file_counts=_count_folder_files(project),
    )


def _read_pages(project: str, folders: tuple[str, ...]) -> Iterator[RepositoryPage]:
    for folder in folders:
        try:
            names = sorted(os.listdir(os.path.join(project, folder)))[:MAX_PAGES]
        except OSError:
            continue
        for name in names:
            if name.endswith(".md") and (page := _read_page(os.path.join(project, folder, name))):
                yield page


def _read_instructions(project: str) -> Iterator[RepositoryPage]:
    for name in INSTRUCTION_FILES:
        if page := _read_page(os.path.join(project, name)):
            yield page


def _read_page(path: str) -> RepositoryPage | None:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
            text = file.read(MAX_PAGE_CHARS)
    except OSError:
        return None
    lines = text.splitlines()
    heading_line = next((number for number, content in enumerate(lines, 1) if content.startswith("#")), 0)
    heading_line = heading_line or next((number for number, content in enumerate(lines, 1) if content.strip(" -")), 0)
    if not heading_line:
        return None
    quoted = [content or other for content, other in _QUOTED_CODE.findall(text)]
    fenced = [
        content.strip() for block in _FENCED_BLOCK.findall(text) for content in block.splitlines() if content.strip()
    ]
    dependencies = [
        name for field in _DEPENDENCY_FIELD.findall(text[:4_000]) for name in _DEPENDENCY_NAME.findall(field)
    ]
    name = os.path.splitext(os.path.basename(path))[0]
    return RepositoryPage(
        path, name, heading_line, lines[heading_line - 1].strip()[:200], (*quoted, *fenced), tuple(dependencies)
    )


def _list_commit_files(project: str, started_at: float, ended_at: float) -> Iterator[tuple[str, ...]]:
    """The files of each commit that was made while the session ran."""
    if not started_at:
        return
    time_range = (f"--since=@{int(started_at)}", f"--until=@{int(ended_at + COMMIT_LEEWAY_SECONDS)}")
    for block in _run_git(
        project, "log", "--no-merges", "--format=%x01", "--name-only", "-z", *time_range, "HEAD"
    ).split("\x01"):
        if files := tuple(name for name in block.replace("\n", "").split("\0") if name):
            yield files


def _count_folder_files(project: str) -> dict[str, int]:
    names = _run_git(project, "ls-files", "-z").split("\0")
    return dict(Counter(os.path.dirname(name) or "." for name in names if name))


def _run_git(project: str, *args: str) -> str:
    """What git says; nothing if it fails. Nothing that the repository's own settings name is run."""
    options = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
    try:
        result = subprocess.run(
            ["git", *options, *args],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode("utf-8", "replace") if result.returncode == 0 else ""
