"""Parse program output: test counts, commits, and the line that explains an error."""

from __future__ import annotations

import re
from typing import NamedTuple

from hardwon.shell.failures import cut_middle, find_failure_line
from hardwon.text.excerpts import shorten_line, to_plain_line
from hardwon.types import frozen

MAX_ERROR_CHARS = 200  # shown part of an error
_COUNT = (
    r"\d+ (?:passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|pending|todo|flaky|ignored|issues?"
    r"|problems?|warnings?|tests?|examples?|xfailed|xpassed)"
)
# Matches the line in which a test runner sums up its run.
_SUMMARY_LINE = re.compile(
    rf"^[^\w\n]{{0,40}}(?:Tests:?\s{{1,10}}|test result: \w+\. )?{_COUNT}\b"
    rf"(?:[,;|\s(]{{1,12}}(?:{_COUNT}|\d+ total|\d+ (?:measured|filtered out))\b)*\)?"
    r"(?=[^\w\n]{0,40}(?:$|in \d|\(\d|\[|across|from|total|;|finished))",
    re.M,
)
_VERDICT_LINE = re.compile(
    r"^[^\w\n]{0,40}(Success: no issues found(?: in \d+ source files?)?|All checks passed!?"
    r"|Found \d+ (?:errors?|warnings?)\b[^\n]{0,60}|Ran \d+ tests? in [\d.]+s"
    r"|FAILED \((?:failures|errors)=[^)\n]{0,60}\)|(?:Passed|Failed)!\s+- Failed:[^\n]{0,80}"
    r"|BUILD (?:SUCCESSFUL|FAILED)|Test Suites: \d+ failed[^\n]{0,60})",
    re.M,
)
_FAILED_RESULT = re.compile(
    r"\b[1-9]\d* (?:failed|failing|fail|failures?|errors?|issues?|problems?)\b|FAILED|Failed!|[=:] *[1-9]\d* error"
)
_COUNT_PARTS = re.compile(
    r"(\d+) (passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|ignored|issues?|problems?)\b"
)
_GO_RESULT = re.compile(r"^(ok|FAIL|---? FAIL:)[ \t]+(\S+)", re.M)
_TYPE_ERROR = re.compile(r"\berror TS\d+:")
_SOURCE_LOCATION = re.compile(
    r"^(?:\[[\w:.-]+\] )?[^\s:(]*\w\.\w{1,5}(?::\d+(?::\d+)?:?|\(\d+,\d+\):)\s+\S[^\n]*", re.M
)
_PYTEST_ERROR = re.compile(r"^E  +(\w*(?:Error|Exception|Exit|assert)\b[^\n]*)", re.M)
# Lines of the wrapper that started the failing program, and lines about success.
_RUNNER_NOISE = re.compile(
    r"^(?:\[\S+\] )?(?:(?:ERROR )?(?:\[\S+\] )?task failed.*|.*\brun with -\S+ .*for more (?:information|details).*"
    r"|make(?:\[\d+\])?: \*\*\*.*|error: Recipe .*|.*ELIFECYCLE.*|ok\s+\S+.*"
    r"|npm (?:ERR!|error) (?:code|errno|syscall|path|command|workspace|location|A complete log|Lifecycle)\b.*"
    r"|.*(?:exited with code|Command failed with exit code) \d+.*|\[\S+\] \$ .*|FAIL|PASS|\? .*\[no test files\]"
    r"|\s*\d*\s*[│┃].*)$\n?",  # the last is a line of code that a linter shows
    re.M | re.I,
)
_EXIT_CODE = re.compile(r"\A(?:Error: )?(?:Exit code|Process exited with code):? (-?\d+)")
_COMMIT = re.compile(r"^\[([^\]\s]+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$", re.M)
_DIFF_STAT = re.compile(r"(\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")
_PULL_REQUEST = re.compile(r"https?://[^\s/]+/[^\s]+?/(?:pull|merge_requests)/\d+")


@frozen
class CheckResult:
    """The result of a check, in the runner's words."""

    text: str
    has_failed: bool


def parse_check_result(text: str) -> CheckResult | None:
    """Parse the summary of a check's output; None if it has none."""
    excerpt = cut_middle(text)
    summary_lines = [to_plain_line(match[0]).lstrip("=-✖×✓ℹ# ") for match in _SUMMARY_LINE.finditer(excerpt)]
    test_lines = [line for line in summary_lines if line.startswith("Tests")] or summary_lines
    if len([line for line in test_lines if line.startswith("test result")]) > 1:
        test_lines = [_sum_crate_results(test_lines)]
    if test_lines:
        result_text = (
            ", ".join(test_lines)
            if all(line.count(" ") == 1 for line in test_lines[:3]) and len(test_lines) <= 3
            else test_lines[-1]
        )
        result_text = re.sub(r"^Tests:?\s+|^test result: \w+\. ", "", result_text)
        return CheckResult(shorten_line(result_text, 90), bool(_FAILED_RESULT.search(result_text)))
    if go_results := _GO_RESULT.findall(excerpt):
        return _summarize_go_results(go_results)
    if type_errors := len(_TYPE_ERROR.findall(excerpt)):
        return CheckResult(f"{type_errors} type error{'s' * (type_errors > 1)}", True)
    result_text = ", ".join(dict.fromkeys(to_plain_line(match[1]) for match in _VERDICT_LINE.finditer(excerpt)))
    return CheckResult(shorten_line(result_text, 90), bool(_FAILED_RESULT.search(result_text))) if result_text else None


def _sum_crate_results(test_lines: list[str]) -> str:
    """Add up the results of all crates, because Cargo reports each separately."""
    totals = dict[str, int]()
    for line in test_lines:
        for count, label in _COUNT_PARTS.findall(line):
            totals[label] = totals.get(label, 0) + int(count)
    return ", ".join(f"{count} {label}" for label, count in totals.items() if count or label in ("passed", "failed"))


def _summarize_go_results(go_results: list[tuple[str, str]]) -> CheckResult:
    ok_count = len({name for state, name in go_results if state == "ok"})
    failed_tests = list(dict.fromkeys(name for state, name in go_results if state != "ok" and state != "FAIL"))
    failed_packages = list(dict.fromkeys(name for state, name in go_results if state == "FAIL"))
    parts = [f"{ok_count} package{'s' * (ok_count > 1)} ok"] if ok_count else []
    if failed_names := failed_tests or failed_packages:
        more = f" and {len(failed_names) - 2} more" if len(failed_names) > 2 else ""
        parts.insert(0, f"FAIL {', '.join(failed_names[:2])}{more}")
    return CheckResult("; ".join(parts), bool(failed_tests or failed_packages))


def find_error_line(text: str, *, is_shell: bool) -> str:
    """Return the most informative error line: one with a file position and a message, else the first."""
    excerpt = cut_middle(text)
    if is_shell:
        program_output = _RUNNER_NOISE.sub("", excerpt)
        excerpt = program_output if program_output.strip() else excerpt
        assertion = _PYTEST_ERROR.search(excerpt)
        location = _SOURCE_LOCATION.search(excerpt)
        if assertion or location:
            return shorten_line(assertion[1] if assertion else location[0] if location else "", MAX_ERROR_CHARS)
    return shorten_line(find_failure_line(excerpt, is_shell=is_shell).removeprefix("Error: "), MAX_ERROR_CHARS)


def has_complaint(text: str) -> bool:
    """Return whether an output has a line with a file position and a message, as compilers and linters print."""
    return bool(_SOURCE_LOCATION.search(cut_middle(text)))


def is_source_location(line: str) -> bool:
    return bool(_SOURCE_LOCATION.match(line))


def find_exit_code(text: str) -> str:
    match = _EXIT_CODE.match(text)
    return match[1] if match else ""


class Commit(NamedTuple):
    """A commit as git reports it, with the size of its diff."""

    branch: str
    short_hash: str
    subject: str
    size: str


def parse_commits(text: str) -> list[Commit]:
    """Parse the commits that git reports."""
    matches = list(_COMMIT.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)] * bool(matches)
    return [
        Commit(
            to_plain_line(match[1]), match[2][:12], to_plain_line(match[3]), _format_diff_stat(text[match.end() : end])
        )
        for match, end in zip(matches, ends, strict=True)
    ]


def _format_diff_stat(text: str) -> str:
    stat = _DIFF_STAT.search(text)
    if not stat:
        return ""
    changes = [f"{sign}{count}" for sign, count in (("+", stat[2]), ("-", stat[3])) if count]
    return " ".join([f"{stat[1]} file{'s' * (stat[1] != '1')}", *changes])


def find_pull_request(text: str) -> str:
    match = _PULL_REQUEST.search(text)
    return match[0] if match else ""
