"""Check that lessons about changed code are delivered correctly: `make bench-staleness`; part of `make bench-efficacy`.

A scripted repository in six languages. A lesson about a function of each file is approved, then the file is changed in
ten ways, and the lesson's call is asked about through the worker's answer to the hook.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import add_lesson
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE
from hardwon.worker.hook_responder import HookResponder

FRESH, CHANGED, GONE = "fresh", "changed", "gone"
NOTE = "has changed since"


@dataclass(frozen=True)
class Source:
    """A file, the function in it that a lesson names, and that function as a formatter would write it."""

    name: str
    text: str
    symbol: str
    reformatted: str
    comment: str
    edit: tuple[str, str]


SOURCES = (
    Source(
        "src/kite.py",
        """\
LIMIT = 3


def lift(kite, wind=2):
    \"\"\"Lift it.\"\"\"
    if wind > LIMIT:
        return kite.land("now")
    return kite.rise(wind)


def land(kite):
    return kite
""",
        "lift",
        """\
LIMIT = 3


def lift(
    kite,
    wind=2,
):
    '''Lift it.'''
    if wind>LIMIT:
        return kite.land('now')
    return (kite.rise(wind))


def land(kite):
    return kite
""",
        "# as the tower wants it\n",
        ("rise(wind)", "rise(wind + 1)"),
    ),
    Source(
        "src/tower.py",
        """\
class Tower:
    def call(self, name: str) -> str:
        return f'{name} over'

    def end(self) -> None:
        self.open = False
""",
        "call",
        """\
class Tower:

    def call(
        self, name: str
    ) -> str:
        return f"{name} over"

    def end(self) -> None:
        self.open = False
""",
        "    # short and clear\n",
        ("{name} over", "{name} out"),
    ),
    Source(
        "web/kite.ts",
        """\
export function liftKite(wind: number) {
  const lines = ['a', 'b'];
  return lines.map((line) => line + wind);
}

export function landKite() {
  return 1;
}
""",
        "liftKite",
        """\
export function liftKite(
  wind: number,
) {
  const lines = [
    "a",
    "b",
  ]
  return lines.map((line) => line + wind)
}

export function landKite() {
  return 1;
}
""",
        "// called by the page\n",
        ("line + wind", "line - wind"),
    ),
    Source(
        "web/tower.js",
        """\
class Tower {
  callKite(name) {
    return this.send({ name, at: 1 });
  }

  close() {
    this.open = 0;
  }
}
""",
        "callKite",
        """\
class Tower {
  callKite(name) {
    return this.send({
      name,
      at: 1,
    });
  }

  close() { this.open = 0; }
}
""",
        "/* one kite at a time */\n",
        ("at: 1", "at: 2"),
    ),
    Source(
        "cmd/kite.go",
        """\
package main

func LiftKite(wind int) int {
\tif wind > 3 {
\t\treturn 0
\t}
\treturn wind * 2
}

func main() {
\tprintln("up")
}
""",
        "LiftKite",
        """\
package main

func LiftKite( wind int ) int {
    if wind>3 { return 0 }
    return wind*2
}

func main() {
\tprintln("up")
}
""",
        "// LiftKite is for calm days.\n",
        ("wind * 2", "wind * 3"),
    ),
    Source(
        "src/kite.rs",
        """\
pub fn lift_kite(wind: u32) -> u32 {
    let line = wind + 1;
    line * 2
}

fn main() {
    lift_kite(2);
}
""",
        "lift_kite",
        """\
pub fn lift_kite(
    wind: u32,
) -> u32 {
    let line = wind + 1;
    line * 2
}

fn main() { lift_kite(2); }
""",
        "/// Lifts it.\n",
        ("line * 2", "line * 4"),
    ),
)


def add_at_end(source: Source) -> str:
    return f"{source.text}\n{source.comment.strip().replace('it', 'all')}\n"


def insert_above(source: Source, comment: str) -> str:
    lines = source.text.splitlines(keepends=True)
    line_number = next(number for number, line in enumerate(lines) if source.symbol in line)
    return "".join([*lines[:line_number], comment, *lines[line_number:]])


def edit_reformatted(source: Source) -> str:
    old, new = source.edit
    for old_text, new_text in ((old, new), (old.replace(" ", ""), new.replace(" ", ""))):
        if old_text in source.reformatted:
            return source.reformatted.replace(old_text, new_text)
    raise AssertionError(f"{source.name}: {old} is not in the reformatted text")


# What is done to the file, what becomes of its text (None: deleted), and what an agent must be told.
CHANGES: dict[str, tuple[Callable[[Source], str | None], str]] = {
    "reformat": (lambda source: source.reformatted, FRESH),
    "comment above": (lambda source: insert_above(source, source.comment), FRESH),
    "comment at the end": (add_at_end, FRESH),
    "blank lines": (lambda source: source.text.replace("\n\n", "\n\n\n\n"), FRESH),
    "touched": (lambda source: source.text, FRESH),
    "edit": (lambda source: source.text.replace(*source.edit), CHANGED),
    "reformat and edit": (edit_reformatted, CHANGED),
    "rename": (lambda source: source.text.replace(source.symbol, "quiteAnother"), GONE),
    "move": (lambda source: None, GONE),
    "delete": (lambda source: "", GONE),
}


def run_cases() -> Iterator[tuple[str, str, str]]:
    """Yield each case with what the agent must be told and what it was told."""
    with tempfile.TemporaryDirectory() as folder:
        home, root = os.path.join(folder, "home"), os.path.join(folder, "repository")
        for source in SOURCES:
            os.makedirs(os.path.dirname(os.path.join(root, source.name)), exist_ok=True)
            write_file(root, source.name, source.text)
        commit_all(root)
        with closing(db.connect(home)) as connection:
            for number, source in enumerate(SOURCES):
                add_lesson(open_decider(home, connection, COMMAND_LINE), build_record(number, source, root))
            responder = HookResponder(home, connection)
            for name, (change, expected) in CHANGES.items():
                for number, source in enumerate(SOURCES):
                    text = change(source)
                    if text is None:
                        os.rename(os.path.join(root, source.name), os.path.join(root, f"{source.name}.moved"))
                    else:
                        write_file(root, source.name, text)
                    actual = ask_about(responder, number, f"{name} {number}", root)
                    yield f"{source.name}: {name}", expected, actual
                    write_file(root, source.name, source.text)


def build_record(number: int, source: Source, root: str) -> dict[str, object]:
    return {
        "summary": f"tool{number} must not be run while the code of case{number} is used",
        "problem": f"`{source.symbol}()` in {source.name} does not survive tool{number} being run{number} at once",
        "solution": f"wait until `{source.symbol}` of {source.name} has returned{number}, then run tool{number}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [rf"\btool{number}\b"]},
        "scope": {"type": "project", "path": root},
        "delivery": "hold",
    }


def ask_about(responder: HookResponder, number: int, session: str, root: str) -> str:
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": root,
        "tool_name": "Bash",
        "tool_input": {"command": f"tool{number} --now"},
        "tool_use_id": f"toolu_{session}",
    }
    head = f"hardwon 1 claude-code PreToolUse {os.urandom(16).hex()}\n".encode()
    answer = responder.answer(head + json.dumps(payload).encode())
    if answer == b"{}":
        return GONE
    return CHANGED if NOTE.encode() in answer else FRESH


def write_file(root: str, name: str, text: str) -> None:
    with open(os.path.join(root, name), "w") as file:
        file.write(text)


def commit_all(root: str) -> None:
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", "-C", root, *words], check=True)


def main() -> int:
    cases = list(run_cases())
    wrong = [f"{name}: {actual}, not {expected}" for name, expected, actual in cases if actual != expected]
    for line in wrong:
        print(line, file=sys.stderr)
    print(json.dumps({"changes": len(cases), "right": len(cases) - len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
