"""Read a repository's written conventions and the commits made during a session.

Without a repository or git, both are empty.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from hardwon.paths import open_plain_file
from hardwon.store.reflection_types import ReflectionContext, RepositoryPage
from hardwon.types import replace

CONVENTION_FOLDERS = ("docs/conventions", "conventions")
INSTRUCTION_FILES = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")  # treated as conventions too
MAX_PAGES, MAX_PAGE_CHARS = 200, 64_000
GIT_TIMEOUT_SECONDS = 10.0
COMMIT_LEEWAY_SECONDS = 60.0  # a commit this soon after the last step still belongs to the session
_QUOTED_CODE = re.compile(r"`([^`\n]{2,120})`|^(?:    |\t)?\$ (.{2,120})$", re.M)
_FENCED_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)


def add_repository_context(
    past: ReflectionContext, project: str, started_at: float, ended_at: float
) -> ReflectionContext:
    """Add conventions and commits of the repository to the context."""
    if not os.path.isdir(project):
        return past
    return replace(
        past,
        conventions=tuple(_read_conventions(project)),
        commits=tuple(_list_commit_files(project, started_at, ended_at)),
    )


def _read_conventions(project: str) -> Iterator[RepositoryPage]:
    paths = [os.path.join(project, name) for name in INSTRUCTION_FILES]
    for folder in CONVENTION_FOLDERS:
        try:
            names = sorted(os.listdir(os.path.join(project, folder)))[:MAX_PAGES]
        except OSError:
            continue
        paths += [os.path.join(project, folder, name) for name in names if name.endswith(".md")]
    for path in paths:
        if page := _read_page(path):
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
    name = os.path.splitext(os.path.basename(path))[0]
    return RepositoryPage(path, name, heading_line, lines[heading_line - 1].strip()[:200], (*quoted, *fenced))


def _list_commit_files(project: str, started_at: float, ended_at: float) -> Iterator[tuple[str, ...]]:
    """Yield the files of each commit made while the session ran."""
    if not started_at:
        return
    time_range = (f"--since=@{int(started_at)}", f"--until=@{int(ended_at + COMMIT_LEEWAY_SECONDS)}")
    for block in _run_git(
        project, "log", "--no-merges", "--format=%x01", "--name-only", "-z", *time_range, "HEAD"
    ).split("\x01"):
        if files := tuple(name for name in block.replace("\n", "").split("\0") if name):
            yield files


def _run_git(project: str, *args: str) -> str:
    """Run git without executing anything the repository configures; return an empty text on failure."""
    # An fsmonitor and the check of signatures would run programs that the repository names.
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
