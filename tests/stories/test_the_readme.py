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
class Shown:
    """A command as a page has it, and what the page says it prints."""

    command: str
    output: tuple[str, ...] = ()


def shown_in(text: str, *, inline: bool = True) -> Iterator[Shown]:
    """The commands in blocks, then those in sentences, each once; what leaves nothing comes last."""
    blocks = [one for kind, body in BLOCK.findall(text) for one in _of_block(kind, body)]
    in_sentences = list(dict.fromkeys(INLINE.findall(BLOCK.sub("", text)))) if inline else []
    yield from blocks
    last_of_all = sorted(in_sentences, key=lambda command: command.startswith("hardwon uninstall"))
    yield from (Shown(command) for command in last_of_all if Shown(command) not in blocks)


def _of_block(kind: str, body: str) -> Iterator[Shown]:
    if kind == "sh":
        yield from (Shown(line.partition(" #")[0].strip().removeprefix(".venv/bin/")) for line in body.splitlines())
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:] if kind == "console" else ():
        lines = part.splitlines()
        last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        yield Shown("\n".join(lines[: last + 1]), tuple(lines[last + 1 :]))


def same(text: str) -> str:
    text = re.sub(r"/\n\s+", "/", text)  # a long path is broken behind a slash
    for pattern, stand_in in VARIES:
        text = re.sub(pattern, stand_in, text)
    return text.strip()


def is_shown(wanted: Sequence[str], printed: str) -> bool:
    """Whether the lines stand in what was printed, wherever a long path broke them; an ellipsis alone on a line stands
    for some."""
    got, at = same(printed), 0
    for part in "\n".join(wanted).split(f"{LEFT_OUT}\n"):
        at = got.find(same(part), at)
        if at < 0:
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
            return 0, self.house.ask("typed", prompt(self._named(command), cwd=self.kite)).notice
        given = next((f"{command}{more}" for end, more in GIVEN.items() if command.endswith(end)), command)
        if command in TALKS:
            return self._talk(given)
        done = subprocess.run(
            ["bash", "-c", self._named(given)],
            cwd=self.kite,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def _named(self, command: str) -> str:
        """With names for what stands for any; a candidate can be decided about once, so there is another."""
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
        """What sets up, tests or measures for minutes is only looked at; the rest is done with what runs here."""
        if target.startswith(("test", "check", "bench-")):
            done = subprocess.run(["make", "-n", target], cwd=ROOT, env=self.env, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr
        words = [
            "make",
            "-o",
            ".venv/.installed",
            "-o",
            ".venv/.ready",
            f"BIN={os.path.dirname(sys.executable)}",
            target,
        ]
        done = subprocess.run(words, cwd=ROOT, env=self.env, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def _talk(self, command: str) -> tuple[int, str]:
        """At a terminal, whose person has seen enough at once."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            ["bash", "-c", command], cwd=self.kite, env=self.env, stdin=theirs, stdout=theirs, stderr=theirs
        ) as talk:
            os.close(theirs)
            os.write(ours, b"q\n")
            said = b""
            try:
                while part := os.read(ours, 65536):
                    said += part
            except OSError:  # the other end is closed
                pass
            os.close(ours)
        return talk.returncode, said.decode("utf-8", "replace")


@pytest.fixture
def desk(house: House, own_home: str) -> Iterator[Desk]:
    desk = Desk(house, own_home)
    yield desk
    shutil.rmtree(os.path.dirname(desk.kite))


def test_every_command_in_the_readme_does_what_it_shows(desk: Desk) -> None:
    found = list(shown_in(page("README.md")))
    assert len(found) > 15
    for one in found:
        if one.command.startswith(INSTALLERS):
            continue
        code, printed = desk.run(one.command)
        # The doctor may find the hook slow, with other tests beside it.
        assert code == 0 or one.command in ("hardwon doctor", 'hardwon search "why did the login test fail"'), (
            f"{one.command}\n{printed}"
        )
        assert is_shown(one.output, printed), f"{one.command}\n{printed}"


def test_taking_it_out_with_the_data_leaves_nothing(desk: Desk) -> None:
    for command in ("hardwon up", "hardwon install claude-code", "hardwon view --print", "hardwon brief"):
        assert desk.run(command)[0] == 0
    code, printed = desk.run("hardwon uninstall --all --data")
    assert code == 0 and "left      nothing" in printed
    assert not os.path.exists(desk.house.home)


def test_what_the_readme_says_the_model_reads_is_what_it_reads(desk: Desk) -> None:
    text = page("README.md")
    lesson = next(one for one in shown_in(text) if one.command.startswith("hardwon lessons add"))
    assert desk.run(lesson.command)[0] == 0
    held = desk.house.ask("s1", bash("git stash", cwd=desk.kite)).denied
    assert same(held) == what_is_read(text)


def test_the_story_of_how_it_works_goes_as_it_is_told(desk: Desk) -> None:
    text = page("docs/how-it-works.md")
    for one in shown_in(text, inline=False):
        code, printed = desk.run(one.command)
        assert code == 0 and is_shown(one.output, printed), f"{one.command}\n{printed}"
        if one.command.startswith("hardwon accept"):
            assert same(play_wednesday(desk)) == what_is_read(text)


def what_is_read(text: str) -> str:
    """The lesson as a page shows it, in the fence that it comes in."""
    [read] = [body for _, body in BLOCK.findall(text) if body.startswith("Held once by hardwon")]
    return f"<hardwon-context> {same(read)} </hardwon-context>"


def play_wednesday(desk: Desk) -> str:
    """The session of the story up to where it is distilled, and what the model was told when it was held."""
    here: dict[str, Any] = {"cwd": desk.kite}
    log, test = {"command": "git log --color=always -3 tail.py"}, {"command": "pytest tests/test_tail.py -q"}
    wrong = "Exit code 1\nE   AssertionError: tail is 3, not 2\nFAILED tests/test_tail.py::test_tail"
    edit = {"file_path": f"{desk.kite}/tail.py", "old_string": "TAIL = 3", "new_string": "TAIL = 2"}
    said = (
        "The tail was changed last by 3f9c2aa. Its test failed because TAIL was 3; it is 2 now and the test passes. "
        "Next: fly it in light wind."
    )

    def ask(payload: dict[str, Any]) -> str:
        return desk.house.ask("wednesday", payload).denied

    desk.house.ok("start")
    desk.house.session_start("wednesday", **here)
    ask(prompt("Show me who changed the tail last, in colours", **here))
    held = ask(bash("git log --colour=always -3 tail.py", **here))
    ask(used("Bash", log, {"stdout": "3f9c2aa shorten the tail", "stderr": ""}, **here))
    ask(failed("Bash", test, wrong, **here))
    ask(used("Edit", edit, "edited", **here))
    ask(used("Bash", test, {"stdout": "1 passed", "stderr": ""}, **here))
    ask(happened("Stop", last_assistant_message=said, **here))
    ask(happened("SessionEnd", reason="exit", **here))
    wait_for(lambda: bool(desk.house.stored("summaries")) and not desk.house.stored("jobs"))
    return held


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md", "docs/hooks.md", "docs/security.md"])
def test_links_lead_to_what_is_there(name: str) -> None:
    places = [link for link in LINK.findall(page(name)) if "://" not in link]
    gone = [link for link in places if not os.path.exists(os.path.join(ROOT, os.path.dirname(name), link))]
    assert places and gone == []
