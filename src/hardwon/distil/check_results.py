"""What the output of a program says in numbers: tests passed and failed, commits made, where an error is."""

from __future__ import annotations

import re

from hardwon.shell.failures import cut_middle, find_failure_line
from hardwon.text.excerpts import shorten_line, to_plain_line
from hardwon.types import frozen

MAX_ERROR_CHARS = 200  # characters of an error that are shown
_COUNT = (
    r"\d+ (?:passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|pending|todo|flaky|ignored|issues?"
    r"|problems?|warnings?|tests?|examples?|xfailed|xpassed)"
)
# A line that sums a run up, as the runners write it.
_SUMS = re.compile(
    rf"^[^\w\n]{{0,40}}(?:Tests:?\s{{1,10}}|test result: \w+\. )?{_COUNT}\b"
    rf"(?:[,;|\s(]{{1,12}}(?:{_COUNT}|\d+ total|\d+ (?:measured|filtered out))\b)*\)?"
    r"(?=[^\w\n]{0,40}(?:$|in \d|\(\d|\[|across|from|total|;|finished))",
    re.M,
)
_SAYS = re.compile(
    r"^[^\w\n]{0,40}(Success: no issues found(?: in \d+ source files?)?|All checks passed!?"
    r"|Found \d+ (?:errors?|warnings?)\b[^\n]{0,60}|Ran \d+ tests? in [\d.]+s"
    r"|FAILED \((?:failures|errors)=[^)\n]{0,60}\)|(?:Passed|Failed)!\s+- Failed:[^\n]{0,80}"
    r"|BUILD (?:SUCCESSFUL|FAILED)|Test Suites: \d+ failed[^\n]{0,60})",
    re.M,
)
_BAD = re.compile(
    r"\b[1-9]\d* (?:failed|failing|fail|failures?|errors?|issues?|problems?)\b|FAILED|Failed!|[=:] *[1-9]\d* error"
)
_PARTS = re.compile(
    r"(\d+) (passed|failed|failures?|errors?|passing|failing|pass|fail|skipped|ignored|issues?|problems?)\b"
)
_GO = re.compile(r"^(ok|FAIL|---? FAIL:)[ \t]+(\S+)", re.M)
_TYPES = re.compile(r"\berror TS\d+:")
_PLACE = re.compile(r"^(?:\[[\w:.-]+\] )?[^\s:(]*\w\.\w{1,5}(?::\d+(?::\d+)?:?|\(\d+,\d+\):)\s+\S[^\n]*", re.M)
_ASSERTS = re.compile(r"^E  +(\w*(?:Error|Exception|Exit|assert)\b[^\n]*)", re.M)
# What those say that started the failing program, and what was fine.
_AROUND = re.compile(
    r"^(?:\[\S+\] )?(?:ERROR task failed.*|make(?:\[\d+\])?: \*\*\*.*|error: Recipe .*|.*ELIFECYCLE.*|ok\s+\S+.*"
    r"|npm (?:ERR!|error) (?:code|errno|syscall|path|command|workspace|location|A complete log|Lifecycle)\b.*"
    r"|.*(?:exited with code|Command failed with exit code) \d+.*|\[\S+\] \$ .*|FAIL|PASS|\? .*\[no test files\])$\n?",
    re.M,
)
_EXIT = re.compile(r"\A(?:Error: )?(?:Exit code|Process exited with code):? (-?\d+)")
_COMMIT = re.compile(r"^\[([^\]\s]+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$", re.M)
_STAT = re.compile(r"(\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")
_PULL = re.compile(r"https?://[^\s/]+/[^\s]+?/(?:pull|merge_requests)/\d+")


@frozen
class CheckResult:
    """How a check came out, in the runner's words."""

    text: str
    has_failed: bool


def parse_check_result(text: str) -> CheckResult | None:
    """What the run of a check says of itself; None if it sums nothing up."""
    seen = cut_middle(text)
    sums = [to_plain_line(found[0]).lstrip("=-✖×✓ℹ# ") for found in _SUMS.finditer(seen)]
    tests = [line for line in sums if line.startswith("Tests")] or sums
    if len([line for line in tests if line.startswith("test result")]) > 1:
        tests = [_added(tests)]
    if tests:
        said = ", ".join(tests) if all(line.count(" ") == 1 for line in tests[:3]) and len(tests) <= 3 else tests[-1]
        said = re.sub(r"^Tests:?\s+|^test result: \w+\. ", "", said)
        return CheckResult(shorten_line(said, 90), bool(_BAD.search(said)))
    if states := _GO.findall(seen):
        return _of_go(states)
    if types := len(_TYPES.findall(seen)):
        return CheckResult(f"{types} type error{'s' * (types > 1)}", True)
    said = ", ".join(dict.fromkeys(to_plain_line(found[1]) for found in _SAYS.finditer(seen)))
    return CheckResult(shorten_line(said, 90), bool(_BAD.search(said))) if said else None


def _added(tests: list[str]) -> str:
    """Cargo sums up each crate by itself."""
    sums = dict[str, int]()
    for line in tests:
        for count, what in _PARTS.findall(line):
            sums[what] = sums.get(what, 0) + int(count)
    return ", ".join(f"{count} {what}" for what, count in sums.items() if count or what in ("passed", "failed"))


def _of_go(states: list[tuple[str, str]]) -> CheckResult:
    fine = len({name for state, name in states if state == "ok"})
    bad = list(dict.fromkeys(name for state, name in states if state != "ok" and state != "FAIL"))
    packages = list(dict.fromkeys(name for state, name in states if state == "FAIL"))
    said = [f"{fine} package{'s' * (fine > 1)} ok"] if fine else []
    if named := bad or packages:
        more = f" and {len(named) - 2} more" if len(named) > 2 else ""
        said.insert(0, f"FAIL {', '.join(named[:2])}{more}")
    return CheckResult("; ".join(said), bool(bad or packages))


def find_error_line(text: str, *, is_shell: bool) -> str:
    """The line that tells most about a failure: the place in a file and what is wrong there, else the one named."""
    seen = cut_middle(text)
    if is_shell:
        inside = _AROUND.sub("", seen)
        seen = inside if inside.strip() else seen
        asserted = _ASSERTS.search(seen)
        placed = _PLACE.search(seen)
        if asserted or placed:
            return shorten_line(asserted[1] if asserted else placed[0] if placed else "", MAX_ERROR_CHARS)
    return shorten_line(find_failure_line(seen, is_shell=is_shell).removeprefix("Error: "), MAX_ERROR_CHARS)


def is_source_location(line: str) -> bool:
    return bool(_PLACE.match(line))


def find_exit_code(text: str) -> str:
    found = _EXIT.match(text)
    return found[1] if found else ""


def parse_commits(text: str) -> list[tuple[str, str, str, str]]:
    """Branch, hash, subject and size of each commit that git reports."""
    found = list(_COMMIT.finditer(text))
    ends_at = [each.start() for each in found[1:]] + [len(text)] * bool(found)
    return [
        (to_plain_line(each[1]), each[2][:12], to_plain_line(each[3]), _size(text[each.end() : end]))
        for each, end in zip(found, ends_at, strict=True)
    ]


def _size(text: str) -> str:
    stat = _STAT.search(text)
    if not stat:
        return ""
    changes = [f"{sign}{count}" for sign, count in (("+", stat[2]), ("-", stat[3])) if count]
    return " ".join([f"{stat[1]} file{'s' * (stat[1] != '1')}", *changes])


def find_pull_request(text: str) -> str:
    found = _PULL.search(text)
    return found[0] if found else ""
