"""A lesson between #lesson and #/lesson is parsed whatever decoration surrounds it."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons import record as records
from hardwon.lessons import validation
from hardwon.text.lesson_tags import (
    FIELDS,
    LessonBlock,
    build_block_record,
    build_regex,
    build_summary,
    find_cancellations,
    find_lesson_blocks,
    has_unclosed_block,
    is_cancelled,
    is_unfilled_template,
)

CASES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "shared", "conformance", "scan_cases.json")
STASH = """#lesson
tool: Bash
trigger: git stash
mistake: git stash only stashes tracked files — untracked files silently left behind
fix: Use `git stash -u` to include untracked files
tags: tool:git, severity:data-loss
#/lesson"""
AB = {"problem": "a", "solution": "b"}


def parse_fields(text: str) -> list[dict[str, str]]:
    return [tag.fields for tag in find_lesson_blocks(text)]


def build_block(**block_fields: str) -> LessonBlock:
    return LessonBlock(block_fields, 0, 0)


def build_triggers(**block_fields: str) -> dict[str, Any]:
    block_triggers = build_block_record(build_block(**block_fields))["triggers"]
    assert isinstance(block_triggers, dict)
    return block_triggers


DECORATED_BLOCKS = [
    "#lesson\nproblem: a\nsolution: b\n#/lesson",
    "so:\n\n```\n#lesson\nproblem: a\nsolution: b\n#/lesson\n```\nand on",
    "#lesson\n```text\nproblem: a\nsolution: b\n```\n#/lesson",
    "#lesson\nPROBLEM :  a \n  solution:b\n#/lesson",
    "#lesson\r\nproblem: a\r\nsolution: b\r\n#/lesson\r\n",
    "#lesson\n\nproblem: a\n\nsolution: b\n\n#/lesson",
    "#Lesson\nMistake: a\nFix: b\n#/LESSON",
    "#lesson\nmistake: a\nremediation: b\n#/lesson",
    "   #lesson\n   problem: a\n   solution: b\n   #/lesson",
    "> #lesson\n> problem: a\n> solution: b\n> #/lesson",
    "> > #lesson\n>> problem: a\n> >solution: b\n>> #/lesson",
    "- #lesson\n- problem: a\n- solution: b\n- #/lesson",
    "1. #lesson\n2. problem: a\n3. solution: b\n4. #/lesson",
    "**#lesson**\n**problem**: a\n**Solution:** b\n**#/lesson**",
    "`#lesson`\n`problem`: a\n`solution`: b\n`#/lesson`",
    "#lesson problem: a\nsolution: b\n#/lesson",
    "#lesson\nproblem: a\nsolution: b #/lesson",
    "#lesson problem: a solution: b #/lesson",
    "#lesson\nproblem: lost\n#lesson\nproblem: a\nsolution: b\n#/lesson",
    "#lesson\nproblem: a\nsolution: b\n#/lesson\n#lesson\nproblem: never closed",
    "a #lesson tag:\n#lesson\n#/lesson\n#lesson\nproblem: a\nsolution: b\n#/lesson\n#/lesson",
]


@pytest.mark.parametrize("text", DECORATED_BLOCKS)
def test_a_block_is_parsed_in_any_decoration(text: str) -> None:
    assert parse_fields(text) == [AB]
    assert find_lesson_blocks(text)[0].faults == ()


NO_BLOCKS = [
    "",
    "#lesson",
    "#lesson\n#/lesson",
    "#lesson\nproblem: a\nsolution: b",
    "problem: a\nsolution: b\n#/lesson",
    "#lessons\nproblem: a\n#/lesson",
    "#lesson tags are read\nproblem: a\n#/lesson",
    "write #lesson\nproblem: a\n#/lesson",
    "#lesson\nproblem: a\n#/lesson ends it",
    "#lesson:other\nproblem: a\n#/lesson",
]


@pytest.mark.parametrize("text", NO_BLOCKS)
def test_an_unclosed_block_is_ignored(text: str) -> None:
    assert parse_fields(text) == []


VALUES = [
    ("problem: a: with colon", "a: with colon"),
    ("problem: first\n second", "first\nsecond"),
    ("problem: first\n    if x:\n        y()\n", "first\nif x:\n    y()"),
    ("problem:\n  below", "below"),
    ("problem: one\n\n\ntwo\n\n", "one\n\n\ntwo"),
    ("problem: `rm` and **more**", "`rm` and **more**"),
    ("problem: see\n```\ncode\n```", "see\n```\ncode\n```"),
    ("problem: x\nnote: y\nthe solution: z", "x\nnote: y\nthe solution: z"),
    ("problem: the tag `#/lesson`", "the tag `#/lesson`"),
    ("problem: ende – schön 日本", "ende – schön 日本"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_a_value_goes_on_until_the_next_field(text: str, value: str) -> None:
    assert parse_fields(f"#lesson\n{text}\nsolution: b\n#/lesson") == [{"problem": value, "solution": "b"}]


def test_the_one_line_form_is_split_at_its_fields() -> None:
    line = "#lesson tool: Bash trigger: git stash problem: it loses: files solution: use -u tags: tool:git #/lesson"
    assert parse_fields(line) == [
        {"tool": "Bash", "trigger": "git stash", "problem": "it loses: files", "solution": "use -u", "tags": "tool:git"}
    ]


def test_a_span_goes_from_marker_to_marker() -> None:
    text = f"é before\n> {STASH.replace(chr(10), chr(10) + '> ')} \nbetween\n**#lesson**\nfix: x\n**#/lesson**\nend"
    spans = [text[block.start : block.end] for block in find_lesson_blocks(text)]
    assert [(span[:7], span[-8:]) for span in spans] == [("#lesson", "#/lesson")] * 2


def test_a_field_given_twice_is_named_and_its_text_kept() -> None:
    (block,) = find_lesson_blocks("#lesson\nproblem: a\nfix: b\nproblem: c\nsolution: d\n#/lesson")
    assert block.fields == {"problem": "a", "solution": "b\nproblem: c\nsolution: d"}
    assert [fault.split(":")[0] for fault in block.faults] == ["problem is given twice", "solution is given twice"]


def test_text_before_the_first_field_is_named() -> None:
    (block,) = find_lesson_blocks("#lesson\nstashing\nproblem: a\n#/lesson")
    assert block.fields == {"problem": "a"}
    assert "before the first field" in block.faults[0]


A, B = (f"#lesson\nproblem: {name} loses what was not saved\nsolution: b\n#/lesson\n" for name in "AB")
CANCELS = [
    (A + "#lesson:cancel", "", []),
    (A + B + "#lesson:cancel\n", "A", []),
    (A + "#lesson:cancel\n" + B, "B", []),
    (A + B + "#lesson:cancel\n#lesson:cancel\nmore", "", []),
    (A + "#lesson\nproblem: half\n#lesson:cancel\n", "A", []),
    ("#lesson:cancel\n" + A, "A", [""]),
    (
        A + B + "#lesson:cancel\nproblem: a LOSES what was  not saved.\n#/lesson:cancel",
        "B",
        ["a loses what was not saved"],
    ),
    (A + B + "#lesson:cancel\nproblem: A loses what was not…\n#/lesson:cancel", "B", ["a loses what was not"]),
    (A + B + "#lesson:cancel\nproblem: A loses what was not\n", "B", ["a loses what was not"]),
    (A + B + "#lesson:cancel problem: A loses what was not #/lesson:cancel", "B", ["a loses what was not"]),
    (A + B + "#lesson:cancel\nproblem: A\n#/lesson:cancel", "AB", ["a"]),
    ("#lesson:cancel\nproblem: A loses what was not\n#/lesson:cancel\n" + A, "A", ["a loses what was not"]),
    ("#lesson:cancel\nproblem: Foo Bar\n#/lesson:cancel", "", ["foo bar"]),
]


@pytest.mark.parametrize(("text", "remaining_initials", "cancelled_problems"), CANCELS)
def test_a_cancel_removes_the_block_before_it(
    text: str, remaining_initials: str, cancelled_problems: list[str]
) -> None:
    assert "".join(block.fields["problem"][0] for block in find_lesson_blocks(text)) == remaining_initials
    assert find_cancellations(text) == cancelled_problems


def test_a_cancel_names_a_problem_of_an_earlier_text_by_its_beginning() -> None:
    long_problem = "The build takes the cached layer although the lock file changed, so tests run on old code"
    (cancellation,) = find_cancellations(f"#lesson:cancel\nproblem: {long_problem[:70]}\n#/lesson:cancel")
    assert len(cancellation) == 60
    assert [
        is_cancelled(problem, cancellation) for problem in (long_problem, long_problem.upper(), "The build is slow", "")
    ] == [
        True,
        True,
        False,
        False,
    ]
    assert not is_cancelled("anything", "")


def test_a_missing_end_marker_is_recognised() -> None:
    assert has_unclosed_block("#lesson\nproblem: a")
    assert [has_unclosed_block(text) for text in (STASH, "", "see #lesson", STASH + "\n#lesson:cancel")] == [False] * 4


def test_an_unfilled_template_is_distinguished_from_a_lesson() -> None:
    echoes = [
        "<what_went_wrong>",
        "…",
        "...",
        "`<what went wrong>`",
        "{{problem}}",
        "[root cause]",
        "<the cause — brief>",
    ]
    assert [is_unfilled_template(build_block(problem=text, solution="<what to do>")) for text in echoes] == [
        True
    ] * len(echoes)
    assert [is_unfilled_template(build_block(problem=text, solution="use -u")) for text in echoes] == [False] * len(
        echoes
    )
    assert not is_unfilled_template(build_block(problem="it fails", solution="<what_to_do_instead>"))
    real = ["use `<div>` here", "a < b > c", "x…", "git push <remote>", "[a] and [b]"]
    assert [is_unfilled_template(build_block(problem=text, solution=text)) for text in real] == [False] * len(real)
    assert not is_unfilled_template(find_lesson_blocks(STASH)[0])


HOSTILE = {
    "opened": "#lesson\n" * 125_000,
    "one line": "#lesson " + "problem: x " * 90_000,
    "stars": "#lesson\n" + "*" * 1_000_000 + "\n#/lesson",
    "quotes": "> #lesson\n" + "> " * 500_000 + "x\n#/lesson",
    "tails": "#lesson problem: x" + " #/lesson" * 110_000 + " x",
    "brackets": "#lesson\nproblem: " + "<" * 500_000 + "\ntrigger: x" + "[" * 500_000 + "\n#/lesson",
    "blanks": "#lesson\nproblem" + " " * 1_000_000 + "x\n#/lesson",
    "cancels": "".join(
        f"#lesson\nfix: {n}\nproblem: p{n}\n#/lesson\n#lesson:cancel\nproblem: q{n:030}\n#/lesson\n"
        for n in range(9000)
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_megabyte_is_parsed_in_linear_time(name: str) -> None:
    """A quadratic parser would need 10^12 steps: the test would not end."""
    for block in find_lesson_blocks(HOSTILE[name]):
        build_block_record(block)
        is_unfilled_template(block)


texts = st.text(alphabet="abcXYZ 0.,:;-_/`*'\"()é日", min_size=1, max_size=30).map(str.strip)
values = (
    st.lists(texts, min_size=1, max_size=3)
    .map("\n".join)
    .map(lambda text: text.strip())
    .filter(lambda text: bool(text) and "```" not in text)
)


@given(
    st.dictionaries(st.sampled_from(FIELDS), values, min_size=1),
    st.sampled_from(["", "> ", "  "]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_fields_written_as_a_block_are_read_back(block_fields: dict[str, str], prefix: str, end: str) -> None:
    lines = "\n".join(["#lesson", *(f"{name}: {value}" for name, value in block_fields.items()), "#/lesson"])
    text = "".join(f"{prefix}{line}{end}" for line in lines.split("\n"))
    assert parse_fields(f"before{end}{text}after") == [block_fields]


pieces = st.sampled_from(["#lesson", "#/lesson", ":cancel", "problem: ", "\n", ">", "`", "a", " ", "\r"])


@given(st.lists(pieces, max_size=20).map("".join))
def test_any_text_can_be_parsed(text: str) -> None:
    for block in find_lesson_blocks(text):
        assert re.match("#lesson", text[block.start :])
        assert text[: block.end].endswith("#/lesson") or text[: block.end].endswith(":cancel")
        records.parse_lesson(build_block_record(block))


PATTERNS = [
    ("git stash", r"\bgit\s+stash\b"),
    ("git   stash\t-u", r"\bgit\s+stash\s+-u\b"),
    ("--no-verify", r"--no-verify\b"),
    ("rm -rf *", r"\brm\s+-rf\s+\*"),
    ("go test ./...", r"\bgo\s+test\s+\./\.\.\."),
    ("cat x | grep y", r"\bcat\s+x\s+\|\s+grep\s+y\b"),
    ("make || true", r"\bmake\s+\|\|\s+true\b"),
    ("echo $HOME", r"\becho\s+\$HOME\b"),
    ("git reset HEAD^", r"\bgit\s+reset\s+HEAD\^"),
    ("[ -f x ]", r"\[\s+-f\s+x\s+\]"),
    ("find . -exec rm {} \\;", r"\bfind\s+\.\s+-exec\s+rm\s+\{\}\s+\\;"),
    ("g++", r"\bg\+\+"),
    *[
        (pattern, pattern)
        for pattern in (r"\bgit stash\b", r"git\s+stash", "git.*stash", "^git stash", "git stash$", "a|b", "v[0-9]")
    ],
    *[(pattern, pattern) for pattern in ("(?i)git", "git stash( -u)?", r"pytest\b(?!.*-q)")],
]


@pytest.mark.parametrize(("text", "expected_pattern"), PATTERNS)
def test_a_command_becomes_a_pattern_and_a_pattern_stays_one(text: str, expected_pattern: str) -> None:
    assert build_regex(text) == expected_pattern
    assert build_block_record(build_block(trigger=f"`{text}`"))["triggers"] == {
        "toolNames": ["Bash"],
        "commandPatterns": [expected_pattern],
    }


commands = st.text(alphabet="ab -_.*+?$^(){}\\/&|#~'é", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(commands)
def test_a_plain_command_is_found_by_its_own_pattern(text: str) -> None:
    pattern = build_regex(text)
    assert pattern == text or re.search(pattern, f"sudo  {text} ")


TRIGGERS = [
    ({"tool": "bash", "trigger": "npm i …"}, {"toolNames": ["Bash"], "commandPatterns": [r"\bnpm\s+i\b"]}),
    ({"trigger": "npm i\nyarn"}, {"toolNames": ["Bash"], "commandPatterns": [r"\bnpm\s+i\b", r"\byarn\b"]}),
    ({"tool": "Edit, write", "trigger": "src/*.py"}, {"toolNames": ["Edit", "Write"], "pathPatterns": ["src/*.py"]}),
    ({"tool": "Edit", "trigger": "pyproject.toml"}, {"toolNames": ["Edit"], "pathPatterns": ["pyproject.toml"]}),
    ({"tool": "Edit", "trigger": "*.{ts,tsx}"}, {"toolNames": ["Edit"], "pathPatterns": ["*.{ts,tsx}"]}),
    ({"tool": "Edit", "trigger": "console.log"}, {"toolNames": ["Edit"], "contentPatterns": [r"\bconsole\.log\b"]}),
    (
        {"tool": "Edit", "trigger": "from x import *"},
        {"toolNames": ["Edit"], "contentPatterns": [r"\bfrom\s+x\s+import\s+\*"]},
    ),
    ({"tool": "Edit", "trigger": r"print\("}, {"toolNames": ["Edit"], "contentPatterns": [r"print\("]}),
    ({"tool": "Edit", "trigger": r"\bprint\b"}, {"toolNames": ["Edit"], "contentPatterns": [r"\bprint\b"]}),
    ({"tool": "Read", "trigger": "node_modules"}, {"toolNames": ["Read"], "pathPatterns": ["node_modules"]}),
    (
        {"tool": "WebFetch", "trigger": "https://x.example/a"},
        {"toolNames": ["WebFetch"], "contentPatterns": [r"\bhttps://x\.example/a\b"]},
    ),
    ({"tool": "mcp__db__query"}, {"toolNames": ["mcp__db__query"]}),
    (
        {"path": "a/*.py, b.md", "content": "eval("},
        {"pathPatterns": ["a/*.py", "b.md"], "contentPatterns": [r"\beval\("]},
    ),
    ({"trigger": "x", "path": "*.py"}, {"commandPatterns": [r"\bx\b"], "pathPatterns": ["*.py"]}),
    ({"delivery": "start"}, {}),
]


@pytest.mark.parametrize(("block_fields", "expected_triggers"), TRIGGERS)
def test_a_trigger_becomes_the_pattern_of_its_tool(
    block_fields: dict[str, str], expected_triggers: dict[str, list[str]]
) -> None:
    assert build_triggers(**block_fields) == expected_triggers


def test_prose_in_place_of_a_command_is_still_refused() -> None:
    lesson = records.parse_lesson(
        build_block_record(build_block(trigger="running git stash", problem="x" * 30, solution="y" * 30))
    )
    assert [fault for fault in validation.find_lesson_faults(lesson) if "is prose" in fault]


SUMMARIES = [
    ("git stash leaves untracked files. They stay.", "git stash leaves untracked files"),
    ("Some tools, e.g. git stash, lose files", "Some tools, e.g. git stash, lose files"),
    ("it fails.", "it fails: use git stash -u instead"),
    ("It broke. The cache in v1.2 was old and nobody knew. So.", "It broke. The cache in v1.2 was old and nobody knew"),
    ("a line\nand another one here...", "a line and another one here"),
    ("word " * 40, ("word " * 22).strip()),
    ("x" * 200, "x" * 110),
    ("", "use git stash -u instead"),
]


@pytest.mark.parametrize(("problem", "expected_summary"), SUMMARIES)
def test_a_missing_summary_is_the_first_sentence_of_the_problem(problem: str, expected_summary: str) -> None:
    assert build_summary(problem, "use git stash -u instead. Always.") == expected_summary


@given(st.text(), st.text())
def test_a_built_summary_is_one_short_line(problem: str, solution: str) -> None:
    summary = build_summary(problem, solution)
    assert len(summary) <= 110
    assert "\n" not in summary and not summary.endswith(("...", "…"))


def test_a_block_becomes_a_lesson_without_faults() -> None:
    lesson = records.parse_lesson(build_block_record(find_lesson_blocks(STASH)[0]))
    assert validation.find_lesson_faults(lesson) == []
    assert [command.source for command in lesson.commands] == [r"\bgit\s+stash\b"]
    assert (lesson.tools, lesson.tags) == (("Bash",), ("tool:git", "severity:data-loss"))
    assert lesson.summary == "git stash only stashes tracked files — untracked files silently left behind"


def test_every_field_reaches_the_record() -> None:
    block = build_block(
        trigger="git push",
        summary="a\nb",
        problem="p",
        solution="s",
        delivery="Block",
        blockReason="run {command} -n",
        priority="8",
        scope="Project",
        unless="--dry-run\n-n",
        tags="[x:y , ,z]",
    )
    assert build_block_record(block, project="/home/dev/x") == {
        "summary": "a b",
        "problem": "p",
        "solution": "s",
        "delivery": "block",
        "blockReason": "run {command} -n",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit\s+push\b"]},
        "unless": [r"--dry-run\b", r"-n\b"],
        "scope": {"type": "project", "path": "/home/dev/x"},
        "priority": 8,
        "tags": ["x:y", "z"],
    }


@pytest.mark.parametrize(
    ("name", "value"), [("priority", "high"), ("delivery", "loud"), ("scope", "team"), ("scope", "project")]
)
def test_a_value_of_the_wrong_kind_is_named_when_the_record_is_read(name: str, value: str) -> None:
    with pytest.raises(records.BadRecord, match=name):
        records.parse_lesson(build_block_record(build_block(**{name: value})))


# We parse more than lessons-learned: a field on the marker's line, old names, values of several lines.
LENIENT_CASES = {
    "#lesson problem: a\nsolution: b\n#/lesson": AB,
    "#lesson\nmistake: a\nfix: b\n#/lesson": AB,
    "#lesson\nproblem: first\n second\nsolution: x\n#/lesson": {"problem": "first\nsecond", "solution": "x"},
}


def test_blocks_are_parsed_as_lessons_learned_does() -> None:
    if not os.path.exists(CASES):
        pytest.skip("the peer's cases are not beside this checkout")
    with open(CASES, encoding="utf-8") as file:
        cases = json.load(file)["tags"]
    for case in cases:
        our_records = [
            build_block_record(block, project="/home/dev/x") | block.fields
            for block in find_lesson_blocks(case["text"])
        ]
        our_lessons = [
            {key: record.get(key) for key in ("tool", "trigger", "problem", "solution", "scope")}
            for record in our_records
        ]
        peer_lessons = [
            {key: peer_lesson[key] for key in ("tool", "trigger", "problem", "solution", "scope")}
            for peer_lesson in case["lessons"]
        ]
        if case["text"] in LENIENT_CASES:
            peer_lessons = [{"tool": None, "trigger": None, "scope": None, **LENIENT_CASES[case["text"]]}]
        assert (our_lessons, find_cancellations(case["text"])) == (peer_lessons, case["cancels"]), case["text"]
        tags = [build_block_record(block).get("tags", []) for block in find_lesson_blocks(case["text"])]
        assert case["text"] in LENIENT_CASES or tags == [peer_lesson["tags"] for peer_lesson in case["lessons"]]
