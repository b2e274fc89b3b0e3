"""Failures are classified, and the line that names the error is found."""

from __future__ import annotations

import pytest

from hardwon.mining.corrections import diff_arguments, find_reason, is_correction
from hardwon.shell.failures import (
    FailureKind,
    build_signature,
    classify_failure,
    find_failed_program,
    find_failure_line,
    has_hidden_failure,
    is_unreported_failure,
)
from hardwon.shell.working_commands import is_read_only

CASES: tuple[tuple[FailureKind, str, str], ...] = (
    ("interface", "kite fly --loop", "error: unexpected argument '--loop' found"),
    ("interface", "kite -Z", "kite: illegal option -- Z\nusage: kite [-abc]"),
    ("interface", "wind up", "bash: line 1: wind: command not found"),
    (
        "interface",
        "kite api -f q='{ a(n: 1) }'",
        '{"errors":[{"message":"Field \'a\' doesn\'t accept argument \'n\'"}]}',
    ),
    ("interface", "python -m gale", "/usr/bin/python: No module named gale"),
    ("interface", "kite deploy", "kite: --region is required"),
    ("interface", "kite deploy", "kite: unrecognized   arguments:\t--high"),
    ("environment", "kite up", "kite: listen 127.0.0.1:80: address already in use"),
    ("environment", "gust list", "open /var/cache/gust: operation not permitted"),
    ("environment", "kite pull", "kite: unauthorized, log in again"),
    ("path", "cat wind.txt", "cat: wind.txt: No such file or directory"),
    ("path", "ls *.kite", "(eval):1: no matches found: *.kite"),
    ("path", "node -e 'require(\"./a\")'", "Error: Cannot find module './a'"),
    ("code", "gust vet", "wind.gu:12:4: must be lower case"),
    ("code", "npm run build", "src/a.ts(2,17): error TS7006: Parameter 'p' implicitly has an 'any' type."),
    ("code", "pytest -q", "FAILED tests/test_wind.py::test_lift - assert 1 == 2\n1 failed, 3 passed"),
    ("code", "kite run lint", 'error: script "lint" exited with code 1'),
    ("other", "git commit -m 'run the tests'", "error: the signer refused"),
    ("other", "gust run a_test.gu", "gust: cannot run *_test.gu files"),
    ("silent", "grep wind a.txt", "Exit code 1"),
    ("silent", "kite poll", "Error"),
)


@pytest.mark.parametrize(("kind", "command", "text"), CASES)
def test_an_error_is_classified_by_its_text_and_command(kind: FailureKind, command: str, text: str) -> None:
    line = find_failure_line(text, is_shell=True)
    assert classify_failure(text, line, command) == kind
    assert line in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Exit code 1\nreading\n3 files\nkite: cannot lift\n", "kite: cannot lift"),
        ("4: if missing: stop\nkite: unknown wind\n", "kite: unknown wind"),
        ("Traceback (most recent call last):\n  File 'a', line 1\nValueError: no wind\n", "ValueError: no wind"),
        ("\x1b[31;1mError: no wind\x1b[0m", "Error: no wind"),
        ("Exit code 7\n", ""),
        ("", ""),
    ],
)
def test_the_line_that_names_the_failure_is_found(text: str, line: str) -> None:
    assert find_failure_line(text, is_shell=True) == line


def test_the_error_of_another_tool_is_its_first_line() -> None:
    text = "<tool_use_error>String to replace not found in file.\nString: raise ValueError('no wind')</tool_use_error>"
    assert find_failure_line(text, is_shell=False) == "String to replace not found in file."


def test_the_ends_of_a_long_result_are_read() -> None:
    for text in ("kite: cannot lift\n" + "a line\n" * 9_000, "a line\n" * 9_000 + "kite: cannot lift"):
        assert find_failure_line(text, is_shell=True) == "kite: cannot lift"


def test_a_hidden_failure_needs_a_reason_to_be_hidden() -> None:
    assert has_hidden_failure("wind up | tail", "bash: line 1: wind: command not found")
    assert has_hidden_failure("kite fly; true", "kite: fatal: no wind")
    assert not has_hidden_failure("kite fly", "kite: fatal: no wind")
    assert not has_hidden_failure("cat log | tail; gh run view", "error: no wind")
    assert not has_hidden_failure("kite fly | tail", "it was an error: no wind")


def test_the_program_that_failed_is_found() -> None:
    assert find_failed_program("cd x && kite fly | grep -P a", "error: no wind") == "kite"
    assert find_failed_program("kite fly && gust list", "gust: no wind") == "gust"
    assert find_failed_program("A=1 sudo /usr/bin/kite fly", "") == "kite"
    assert find_failed_program("$p = 1", "") == ""


def test_a_command_that_only_reads_is_recognised() -> None:
    assert is_read_only("cd x && ls -la | head; cat a")
    assert not is_read_only("cat a | kite fly")


def test_an_error_without_words_is_signed_by_its_command() -> None:
    assert build_signature("Bash", "kite fly 1", "silent", "") != build_signature("Bash", "kite land 1", "silent", "")
    assert build_signature("Bash", "kite fly 1", "silent", "") == build_signature("Bash", "kite fly 2", "silent", "")


def test_the_difference_is_in_the_arguments() -> None:
    assert diff_arguments("cd a && kite fly --hi 2>&1", "kite launch --hi | tail -1") == (["fly"], ["launch"])
    assert diff_arguments("kite fly | grep -P a", "kite fly | grep -E a") == (["-P"], ["-E"])


def test_a_reason_is_quoted_verbatim() -> None:
    agent_text = "Hm. It fails because v1.2 has no wind.txt option. Let me try on."
    assert find_reason(agent_text) == "It fails because v1.2 has no wind.txt option."
    assert find_reason("Let me fix the lint.") == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("use pnpm, not npm", True),
        ("No. That is the old branch", True),
        ("why not a symlink?", True),
        ("continue", False),
        ("please add the logo too", False),
    ],
)
def test_a_persons_correction_is_recognised(words: str, expected: bool) -> None:
    assert is_correction(words) is expected


@pytest.mark.parametrize(
    ("tool", "command", "text"),
    [
        ("Bash", "kite fly", "Error: no wind today\nusage: kite fly"),
        ("Bash", "kite fly 2>&1 | tail -5", "error: no wind today"),
        ("Bash", "node serve.js", "TypeError: kite.fly is not a function\n    at serve.js:3"),
        ("Bash", "node migrate.js", "Error: connect ECONNREFUSED 127.0.0.1:5432"),
        ("Bash", "npm run migrate", "> migrate\n> node migrate.js\nconnect ECONNREFUSED 127.0.0.1:5432"),
        ("Bash", "npm run migrate", "running\n  errno: -111,\n  code: 'ECONNREFUSED',\n}"),
        ("Bash", "make test", "Exit code 2\nno rule to make target"),
        ("Bash", 'make test; echo "exit code: $?"', "2 failed\nexit code: 1"),
        ("Bash", "cat -A src/kite.py | head", "error: unexpected argument '-A' found"),
        ("Bash", "git diff HEAD~1 kite.py | grep wind", "fatal: ambiguous argument 'kite.py': unknown revision"),
        ("Bash", "gust --filter tail fly", 'No projects matched the filters in "/srv/kite"'),
        ("Bash", "gust fly --filter=tail 2>&1 | tail -5", "  x No package found with name 'tail' in workspace"),
        ("Bash", "gust fly --crew=north 2>&1 | tail -5", "reading crews: couldn't find profile north"),
        ("Bash", "gust add sail-cli 2>&1 | tail -5", "ERROR: unable to add:\n  sail-cli (no such package):"),
        ("Bash", "gust add sail-dev | tail -5", "Failed to add\nNo match for argument: sail-dev"),
        ("Bash", "gust-cli FLYY", "(error) ERR unknown command 'FLYY', with args beginning with:"),
        ("mcp__kite__fly", "", "Error: no wind today"),
    ],
)
def test_a_result_that_reports_a_failure_is_one_even_if_the_agent_does_not_say_so(
    tool: str, command: str, text: str
) -> None:
    assert is_unreported_failure(tool, command, text)


@pytest.mark.parametrize(
    ("tool", "command", "text"),
    [
        ("Bash", "kite fly", ""),
        ("Bash", "kite fly", "no Error: at all"),
        ("Bash", "kite status", "error: 0\nwarnings: 2"),
        ("Bash", "cat log.txt", "Error: what a file says"),
        ("Bash", "tail -5 server.log", "listening\nconnect ECONNREFUSED 127.0.0.1:5432"),
        ("Bash", "npm run dev", "\n".join(["ready", "line"] + ["connect ECONNREFUSED 127.0.0.1:1"] + ["line"] * 9)),
        ("Bash", "git log --format=%s", "fatal: fix the crash"),
        ("Bash", "gh run view 3 --log", "Error: what a run on another machine said"),
        ("Bash", "cat notes.txt", "No projects matched the filters"),
        ("Read", "", "Error: what a file says"),
        ("Grep", "", "Error: what a file says"),
        ("Task", "", "Error: handling is in src/errors.py"),
    ],
)
def test_a_result_that_shows_text_of_others_is_no_failure(tool: str, command: str, text: str) -> None:
    assert not is_unreported_failure(tool, command, text)
