"""Made-up sessions in the form of hooks and of transcripts, with the facts that observations must contain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from hardwon.types import Call, Turn

ROOT = "/home/dev/kite"
_numbers = count(1)


class Session(NamedTuple):
    """Turns, and the texts that observations, summary and each part of the summary must contain."""

    name: str
    turns: tuple[Turn, ...]
    told: tuple[str, ...]
    learned: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def call(
    tool: str, tool_input: dict[str, Any], response: object = "", outcome: str = "fine", subagent_id: str = ""
) -> Call:
    number = next(_numbers)
    text = response if isinstance(response, str) else json.dumps(response)
    return Call(f"k{number}", float(number), tool, tool_input, text, outcome, subagent_id=subagent_id)


def bash(command: str, output: str = "", *, code: int = 0, subagent_id: str = "") -> Call:
    """Return a shell call as a transcript has it."""
    text = f"Exit code {code}\n{output}" if code else output
    return call("Bash", {"command": command}, text, "failed" if code else "fine", subagent_id)


def bash_by_hook(command: str, stdout: str = "", stderr: str = "") -> Call:
    """Return a shell call as a hook reports it."""
    return call("Bash", {"command": command}, {"stdout": stdout, "stderr": stderr, "interrupted": False})


def read(path: str, text: str = "import os\n", *, subagent_id: str = "") -> Call:
    return call("Read", {"file_path": f"{ROOT}/{path}"}, text, subagent_id=subagent_id)


def edit(path: str, old_text: str, new_text: str, line: int = 1) -> Call:
    """Return an edit as a hook reports it, with the patch."""
    patch = [{"oldStart": line, "newStart": line, "lines": [f"-{old_text}", f"+{new_text}"]}]
    tool_input = {"file_path": f"{ROOT}/{path}", "old_string": old_text, "new_string": new_text}
    return call("Edit", tool_input, {"filePath": f"{ROOT}/{path}", "structuredPatch": patch})


def write(path: str, text: str) -> Call:
    tool_input = {"file_path": f"{ROOT}/{path}", "content": text}
    return call("Write", tool_input, {"type": "create", "filePath": f"{ROOT}/{path}", "content": text})


def turn(prompt: str, calls: Iterable[Call] = (), answer: str = "", number: int = 1, name: str = "s-1") -> Turn:
    turn_calls = tuple(calls)
    at = turn_calls[0].at if turn_calls else float(next(_numbers))
    return Turn(1, number, at, "claude-code", name, ROOT, ROOT, prompt, answer, turn_calls)


LONG_OUTPUT = "\n".join(f"src/kite/part_{line}.py:{line}: nothing to say about this line" for line in range(300))


def build_sessions() -> list[Session]:
    return [
        _build_token_session(),
        _build_option_session(),
        _build_release_session(),
        _build_reading_session(),
        _build_unfinished_session(),
    ]


def _build_token_session() -> Session:
    """Return a session in which a test fails until the code is fixed, and the fix is committed."""
    failing = "E   AssertionError: assert 'old' == 'new'\n===== 1 failed, 11 passed in 0.31s ====="
    calls = [
        bash("ls -la", LONG_OUTPUT),
        bash(f"cd {ROOT} && cat src/auth/token.py", LONG_OUTPUT),
        read("src/auth/token.py", LONG_OUTPUT),
        read("src/auth/token.py", LONG_OUTPUT),
        bash("pytest tests/test_auth.py", failing, code=1),
        edit("src/auth/token.py", "return old", "def refresh(token):\n    return new", 41),
        bash("pytest tests/test_auth.py", failing, code=1),
        edit("src/auth/token.py", "x = 1", "x = 2", 60),
        bash("pytest tests/test_auth.py 2>&1 | tail -5", failing),
        edit("src/auth/token.py", "x = 2", "x = 3", 60),
        bash("pytest tests/test_auth.py", "===== 12 passed in 0.30s ====="),
    ]
    commit = bash_by_hook(
        'git add -A && git commit -m "Refresh tokens once"',
        "[main 1a2b3c4] Refresh tokens once\n 1 file changed, 9 insertions(+), 2 deletions(-)\n",
    )
    return Session(
        "token",
        (turn("The refresh of tokens is broken, fix it", calls), turn("commit it", [commit], number=2)),
        told=(
            "`pytest tests/test_auth.py` failed 3 times: 1 failed, 11 passed; AssertionError",
            "; edited token.py; passes",
            "edited src/auth/token.py 3 times",
            "refresh",
            "1 failed, 11 passed",
            "AssertionError: assert 'old' == 'new'",
            "12 passed",
            "Committed 1a2b3c4 on main: “Refresh tokens once” (1 file +9 -2)",
        ),
        learned=("pytest tests/test_auth.py", "token.py"),
        completed=("1a2b3c4", "src/auth/token.py", "12 passed"),
        never=("ls -la", "nothing to say about this line"),
    )


def _build_option_session() -> Session:
    """Return a session in which another form of the call works and nothing is edited."""
    calls = [
        bash("git log --colour=always -3", "error: unrecognized argument: --colour=always", code=128),
        bash("git log --color=always -3", "commit 77aa88bb"),
        bash("mise install go@1.24.1", "mise ERROR unknown option '--fast'", code=1),
        bash_by_hook("npm instal --colour", "", ""),
        bash("deploy --fast production", "error: unknown option --fast", code=2),
        bash("deploy --speed=fast production", "deployed " + LONG_OUTPUT),
    ]
    return Session(
        "option",
        (turn("deploy it to production", calls),),
        told=("`deploy --fast …` failed", "`deploy --speed=fast …` worked", "unknown option --fast"),
        learned=("deploy --fast …",),
    )


def _build_release_session() -> Session:
    """Return a session with new files, a pull request, a sub-agent and a stated next step."""
    source = "class Kite:\n    def fly(self):\n        return 1\n" + "\n".join(f"# {n}" for n in range(300))
    calls = [
        call("Grep", {"pattern": "class Kite", "path": f"{ROOT}/src"}, "src/a.py\n" + LONG_OUTPUT),
        call(
            "Task",
            {"description": "Find every caller of fly", "prompt": "Find them"},
            {"status": "completed", "agentId": "agent-7", "content": [{"type": "text", "text": "Two callers."}]},
        ),
        read("src/wind.py", LONG_OUTPUT, subagent_id="agent-7"),
        bash("rg 'fly\\(' src", LONG_OUTPUT, subagent_id="agent-7"),
        write("src/kite/kite.py", source),
        bash_by_hook("npm test", "Tests:       2 failed, 40 passed, 42 total"),
        write("tests/kite.test.js", "test('flies', () => {})\n"),
        bash_by_hook("npm test", "Tests:       42 passed, 42 total"),
        call("TodoWrite", {"todos": []}, "ok"),
        bash_by_hook("gh pr create --title 'Add kites' --body x", "https://github.com/dev/kite/pull/12\n"),
    ]
    return Session(
        "release",
        (turn("Add a Kite class with tests", calls, "Done! `Kite` now flies.\n\n## Next steps\n- Document `fly`"),),
        told=(
            "Opened https://github.com/dev/kite/pull/12: “Add kites”",
            "Wrote src/kite/kite.py (303 lines): Kite and fly",
            "42 passed, 42 total",
            "`npm test` passed: 42 passed, 42 total (failed before)",
        ),
        completed=("https://github.com/dev/kite/pull/12", "src/kite/kite.py", "“`Kite` now flies.”"),
        next_steps=("Document `fly`",),
        never=("TodoWrite",),
    )


def _build_reading_session() -> Session:
    """Return a session that only reads, and ends with a decision."""
    calls = [
        read("src/store/db.py", LONG_OUTPUT),
        read("src/store/db.py", LONG_OUTPUT),
        call("WebFetch", {"url": "https://sqlite.org/wal.html"}, LONG_OUTPUT),
    ]
    answer = "The busy timeout is 5 s. We'll keep WAL mode, because readers of `db.py` never wait."
    return Session(
        "look",
        (turn("How long does a writer wait for the database?", calls, answer),),
        told=("because readers of `db.py` never wait", "src/store/db.py", "The busy timeout is 5 s."),
        learned=("because readers of `db.py` never wait",),
        never=("Read src/store/db.py", "Looked up"),
    )


def _build_unfinished_session() -> Session:
    """Return a session that ends while a check still fails."""
    calls = [
        edit("src/a.ts", "let a", "let b", 3),
        bash(
            "npx tsc --noEmit", "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.", code=2
        ),
        read("src/a.ts", LONG_OUTPUT),
    ]
    return Session(
        "unfinished",
        (turn("rename a to b", calls),),
        told=("Edited src/a.ts", "`npx tsc --noEmit` still fails", "error TS2322"),
        next_steps=("npx tsc --noEmit", "TS2322"),
    )
