"""Every command in the README is run, and what it prints is what the README shows."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from hardwon.types import frozen
from tests.rules.tree import ROOT, page
from tests.support.claude_transcript import TAG, TranscriptWriter
from tests.support.house import House, bash, failed, happened, prompt, used, wait_for

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:hardwon|make) [^`]+)`")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
LEFT_OUT = "…"
# What differs from one home, run or hour to the next.
VARIES = (
    (r"-[a-z0-9]{4}\b", "-SLUG"),
    (r"\d{4}-\d{2}-\d{2}", "DATE"),
    (r"\d{2}-\d{2} \d{2}:\d{2}(:\d{2})?", "TIME"),
    (r"\d{2}:\d{2}(:\d{2})?", "TIME"),
    (r"\d+ \w{3};", "DAY;"),
    (r"/\S*/kite\b", "KITE"),
    (r"[\d.]+ kB", "SIZE"),
    (r"localhost:\d+/open\?code=\S+", "LINK"),
    (r"cost \d+|\d+>\d+|about \d+|~\d+", "TOKENS"),
    (r"\s+", " "),
)
# A person is asked, or a name stands for any.
GIVEN = {
    "install claude-code": " --yes",
    "install copilot": " --yes",
    "uninstall --all --data": " --yes",
    "uninstall claude-code": " --yes",
    "export notes": " --yes",
}
TALKS = ("hardwon review",)
INSTALLERS = ("uv ", "pipx ")  # `make dist` tries these with the wheel


@frozen
class Example:
    """A command on a page, and the output that the page shows for it."""

    command: str
    output: tuple[str, ...] = ()


def find_examples(text: str, *, inline: bool = True) -> Iterator[Example]:
    """Yield the commands in blocks, then those in sentences, each once; commands that remove everything come last."""
    blocks = [example for kind, body in BLOCK.findall(text) for example in _parse_block(kind, body)]
    in_sentences = list(dict.fromkeys(INLINE.findall(BLOCK.sub("", text)))) if inline else []
    yield from blocks
    last_of_all = sorted(in_sentences, key=lambda command: command.startswith("hardwon uninstall"))
    yield from (Example(command) for command in last_of_all if Example(command) not in blocks)


def _parse_block(kind: str, body: str) -> Iterator[Example]:
    if kind == "sh":
        yield from (Example(line.partition(" #")[0].strip().removeprefix(".venv/bin/")) for line in body.splitlines())
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:] if kind == "console" else ():
        lines = part.splitlines()
        last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        yield Example("\n".join(lines[: last + 1]), tuple(lines[last + 1 :]))


def normalize_output(text: str) -> str:
    text = re.sub(r"/\n\s+", "/", text)  # a long path is broken behind a slash
    for pattern, stand_in in VARIES:
        text = re.sub(pattern, stand_in, text)
    return text.strip()


def is_shown(expected: Sequence[str], printed: str) -> bool:
    """Return whether the lines are in the output, wherever a long path broke them.

    An ellipsis alone on a line stands for any lines."""
    normalized, position = normalize_output(printed), 0
    for part in "\n".join(expected).split(f"{LEFT_OUT}\n"):
        position = normalized.find(normalize_output(part), position)
        if position < 0:
            return False
    return True


class Desk:
    """Owns a home in which two sessions made the same mistake, and runs commands there as a person would."""

    def __init__(self, house: House, own_home: str) -> None:
        # Not below pytest's folder: in /tmp/pytest-of-test the search for "tail test" finds the path as well.
        self.house, self.kite = house, os.path.join(tempfile.mkdtemp(), "kite")
        subprocess.run(["git", "init", "-q", self.kite], check=True)
        TranscriptWriter(own_home, project=self.kite, session="monday").person("show me the log").mistake().write()
        TranscriptWriter(own_home, project=self.kite, session="tuesday").person(
            "what changed lately?"
        ).mistake().write()
        self.env = {
            **house.environment(),
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "COLUMNS": "80",
            "BROWSER": "true",
        }

    def run(self, command: str) -> tuple[int, str]:
        if command.startswith("make "):
            return self._make(command.split()[1])
        if command.startswith("hardwon allow "):
            return 0, self.house.ask("typed", prompt(self._fill_in_names(command), cwd=self.kite)).notice
        full_command = next((f"{command}{more}" for end, more in GIVEN.items() if command.endswith(end)), command)
        if command in TALKS:
            return self._run_at_terminal(full_command)
        run = subprocess.run(
            ["bash", "-c", self._fill_in_names(full_command)],
            cwd=self.kite,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return run.returncode, run.stdout

    def _fill_in_names(self, command: str) -> str:
        """Return the command with real names in place of SLUG and N; each decision gets a candidate of its own."""
        if command.endswith(" SLUG"):
            listed: list[dict[str, str]] = self.house.ok("lessons", "list", "--json").json()
            return command.replace("SLUG", listed[0]["slug"])
        if command.endswith("reject N"):
            TranscriptWriter(os.environ["HOME"], project=self.kite).agent(TAG).write()
            self.house.ok("scan")
        if command.endswith(" N"):
            listed = self.house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
            return command.replace("N", str(listed[0]["index"]))
        return command

    def _make(self, target: str) -> tuple[int, str]:
        """Run a target of the Makefile; targets that take minutes are only checked with `make -n`."""
        if target.startswith(("test", "check", "bench-")):
            run = subprocess.run(["make", "-n", target], cwd=ROOT, env=self.env, capture_output=True, text=True)
            return run.returncode, run.stdout + run.stderr
        words = [
            "make",
            "-o",
            ".venv/.installed",
            "-o",
            ".venv/.ready",
            f"BIN={os.path.dirname(sys.executable)}",
            target,
        ]
        run = subprocess.run(words, cwd=ROOT, env=self.env, capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def _run_at_terminal(self, command: str) -> tuple[int, str]:
        """Run a command at a terminal and type `q`; return its exit code and output."""
        our_end, their_end = pty.openpty()
        with subprocess.Popen(
            ["bash", "-c", command], cwd=self.kite, env=self.env, stdin=their_end, stdout=their_end, stderr=their_end
        ) as talk:
            os.close(their_end)
            os.write(our_end, b"q\n")
            output = b""
            try:
                while part := os.read(our_end, 65536):
                    output += part
            except OSError:  # the other end is closed
                pass
            os.close(our_end)
        return talk.returncode, output.decode("utf-8", "replace")


@pytest.fixture
def desk(house: House, own_home: str) -> Iterator[Desk]:
    desk = Desk(house, own_home)
    yield desk
    shutil.rmtree(os.path.dirname(desk.kite))


def test_every_command_in_the_readme_does_what_it_shows(desk: Desk) -> None:
    examples = list(find_examples(page("README.md")))
    assert len(examples) > 15
    for example in examples:
        if example.command.startswith(INSTALLERS):
            continue
        code, printed = desk.run(example.command)
        # The doctor may find the hook slow, with other tests beside it.
        assert code == 0 or example.command in ("hardwon doctor", 'hardwon search "why did the login test fail"'), (
            f"{example.command}\n{printed}"
        )
        assert is_shown(example.output, printed), f"{example.command}\n{printed}"


def test_taking_it_out_with_the_data_leaves_nothing(desk: Desk) -> None:
    for command in ("hardwon up", "hardwon install claude-code", "hardwon view --print", "hardwon brief"):
        assert desk.run(command)[0] == 0
    code, printed = desk.run("hardwon uninstall --all --data")
    assert code == 0 and "left      nothing" in printed
    assert not os.path.exists(desk.house.home)


def test_what_the_readme_says_the_model_reads_is_what_it_reads(desk: Desk) -> None:
    text = page("README.md")
    lesson = next(example for example in find_examples(text) if example.command.startswith("hardwon lessons add"))
    assert desk.run(lesson.command)[0] == 0
    denial = desk.house.ask("s1", bash("git stash", cwd=desk.kite)).denied
    assert normalize_output(denial) == read_lesson_text(text)


def test_the_story_of_how_it_works_goes_as_it_is_told(desk: Desk) -> None:
    text = page("docs/how-it-works.md")
    for example in find_examples(text, inline=False):
        code, printed = desk.run(example.command)
        assert code == 0 and is_shown(example.output, printed), f"{example.command}\n{printed}"
        if example.command.startswith("hardwon accept"):
            assert normalize_output(play_wednesday(desk)) == read_lesson_text(text)


def read_lesson_text(text: str) -> str:
    """Return the lesson as a page shows it, in its fence."""
    [shown_lesson] = [body for _, body in BLOCK.findall(text) if body.startswith("Held once by hardwon")]
    return f"<hardwon-context> {normalize_output(shown_lesson)} </hardwon-context>"


def play_wednesday(desk: Desk) -> str:
    """Play the session of the story until it is distilled; return why its call was held."""
    project_field: dict[str, Any] = {"cwd": desk.kite}
    log, test = {"command": "git log --color=always -3 tail.py"}, {"command": "pytest tests/test_tail.py -q"}
    wrong = "Exit code 1\nE   AssertionError: tail is 3, not 2\nFAILED tests/test_tail.py::test_tail"
    edit = {"file_path": f"{desk.kite}/tail.py", "old_string": "TAIL = 3", "new_string": "TAIL = 2"}
    last_message = (
        "The tail was changed last by 3f9c2aa. Its test failed because TAIL was 3; it is 2 now and the test passes. "
        "Next: fly it in light wind."
    )

    def ask(payload: dict[str, Any]) -> str:
        return desk.house.ask("wednesday", payload).denied

    desk.house.ok("start")
    desk.house.session_start("wednesday", **project_field)
    ask(prompt("Show me who changed the tail last, in colours", **project_field))
    denial = ask(bash("git log --colour=always -3 tail.py", **project_field))
    ask(used("Bash", log, {"stdout": "3f9c2aa shorten the tail", "stderr": ""}, **project_field))
    ask(failed("Bash", test, wrong, **project_field))
    ask(used("Edit", edit, "edited", **project_field))
    ask(used("Bash", test, {"stdout": "1 passed", "stderr": ""}, **project_field))
    ask(happened("Stop", last_assistant_message=last_message, **project_field))
    ask(happened("SessionEnd", reason="exit", **project_field))
    wait_for(lambda: bool(desk.house.stored("summaries")) and not desk.house.stored("jobs"))
    return denial


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md", "docs/hooks.md", "docs/security.md"])
def test_links_lead_to_what_is_there(name: str) -> None:
    links = [link for link in LINK.findall(page(name)) if "://" not in link]
    broken_links = [link for link in links if not os.path.exists(os.path.join(ROOT, os.path.dirname(name), link))]
    assert links and broken_links == []
