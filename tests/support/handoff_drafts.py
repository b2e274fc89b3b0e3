"""A repository with handoff drafts, as reflection would have written them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hardwon import projects
from hardwon.handoff import handoffs, ratification
from hardwon.memories import memories
from hardwon.store import db, reflections
from hardwon.store.reflections import Evidence, Finding, Reflection, WrittenFile
from tests.support.distilled_store import NOON
from tests.support.house import House

AGENT = {"CLAUDECODE": "1"}
PNPM = "from now on always use pnpm, never npm"
DRAFT = f"""---
topic: "Move the kite to pnpm"
workstream: "kite"
session: "s1"
tokens: 1200
confidence: "H"
status: "draft"
mine: "a field of the person's"
---

# Move the kite to pnpm

## Summary

- Asked: move the kite to pnpm (L3)

## Resume Prompt

> Last asked: move the kite to pnpm (L3)  
> First: `make test` fails: no lock file (L9, L12)  

Confidence: H (a check shows where things stand)

## Findings

- **failed experiments** → learning: npm ci was tried and given up (L7)
- **assumptions** → adr: everybody has pnpm (L8)

## Memories to approve

- feedback: {PNPM} (L3)
- project: The wind tables move on Thursday (L5)
"""  # noqa: W291
FOUND = tuple(
    Finding(item, "what was found", 0.8, "learning", (Evidence("/t.jsonl", 7, "x"),))
    for item in ("failed experiments", "assumptions")
)


class DraftWriter:
    """Owns a connection, and writes drafts where reflection would."""

    def __init__(self, house: House, folder: Path) -> None:
        self.home, self.folder = house.home, folder
        self.connection = db.connect(house.home)

    def write_draft(
        self, session: str = "s1", text: str = DRAFT, *, at: float = NOON, folder: Path | None = None
    ) -> Reflection:
        path = (folder or self.folder / "docs" / "sessions") / f"{session}.draft.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        project = projects.find_project_path(str(self.folder))
        written = WrittenFile(str(path), None, handoffs.fingerprint_file(str(path)))
        return reflections.insert(
            self.connection,
            Reflection(
                0,
                f"key-{session}-{at}",
                "claude-code",
                session,
                project,
                at,
                "plain",
                draft=str(path),
                findings=FOUND,
                files=(written,),
            ),
        )

    def propose_memory(self, text: str, session: str = "s1") -> None:
        project = projects.find_project_path(str(self.folder))
        memories.propose(
            self.connection,
            self.home,
            "feedback",
            text,
            project=project,
            source=ratification.REFLECTION_SOURCE,
            session=session,
            now=NOON,
        )

    def get(self, number: int) -> Reflection:
        reflection = reflections.get(self.connection, number)
        assert reflection
        return reflection


def run_git(folder: Path, *words: str) -> str:
    result = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def create_repository(folder: Path, own_home: str) -> Path:
    """Create a repository with one commit, and an identity for git."""
    Path(own_home, ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@kite.example\n")
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "first")
    return folder


def list_handoffs(house: House, folder: Path, *more: str) -> list[dict[str, Any]]:
    handoffs: list[dict[str, Any]] = house.ok("handoff", "list", "--json", *more, cwd=str(folder)).json()
    return handoffs


def print_brief(house: House, folder: Path) -> str:
    return house.ok("brief", cwd=str(folder)).out


def list_memory_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".claude" / "memory").glob("*.md"))
