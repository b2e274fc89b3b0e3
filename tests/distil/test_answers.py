"""What of a model's answer counts: the form that was asked for, and nothing that only resembles it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hardwon.distil import answers
from hardwon.distil.llm import Broken

TYPES, CONCEPTS = ("bugfix", "discovery"), ("gotcha", "what-changed")
GOOD = """
<observation>
<type>bugfix</type>
<title>kite launch has no --height &amp; needs --string</title>
<subtitle>The red kite should fly</subtitle>
<facts><fact>a  &lt;b&gt;
 c</fact><fact>two</fact></facts>
<narrative>Tried twice.</narrative>
<concepts><concept>gotcha</concept></concepts>
<files_read><file>docs/kites.md</file></files_read>
<files_modified><file>src/launch.py</file></files_modified>
<quotes><quote>unknown option</quote></quotes>
</observation>
"""
SUMMARY = (
    "<summary><request>Fly</request><learned>Wind helps</learned><quotes><quote>3 passed</quote></quotes></summary>"
)


def read(text: str) -> tuple[answers.Told, ...]:
    return answers.observations(text, TYPES, CONCEPTS)


def test_an_answer_in_the_right_form_is_read_whole() -> None:
    assert read(GOOD) == (
        answers.Told(
            type="bugfix",
            title="kite launch has no --height & needs --string",
            subtitle="The red kite should fly",
            narrative="Tried twice.",
            facts=("a <b> c", "two"),
            concepts=("gotcha",),
            files_read=("docs/kites.md",),
            files_modified=("src/launch.py",),
            quotes=("unknown option",),
        ),
    )


def test_several_observations_stand_beside_each_other() -> None:
    assert len(read(GOOD * 4)) == 4


def test_a_skip_gives_nothing_and_is_no_fault() -> None:
    assert read(" <skip/>\n") == ()
    assert answers.summary("<skip></skip>") is None


def test_a_summary_needs_its_request_and_a_quote() -> None:
    told = answers.summary(SUMMARY)
    assert told == answers.ToldSummary("Fly", learned="Wind helps", quotes=("3 passed",))
    for broken in (
        SUMMARY.replace("<request>Fly</request>", ""),
        SUMMARY.replace("<quotes><quote>3 passed</quote></quotes>", ""),
        SUMMARY * 2,
        GOOD,
        SUMMARY.replace("learned", "guessed"),
    ):
        with pytest.raises(Broken):
            answers.summary(broken)


ENTITY = '<!DOCTYPE a [<!ENTITY b "boom">]>'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I will not.",
        "null",
        f"Here it is:\n{GOOD}",
        f"{GOOD}\nI hope this helps.",
        f"```xml\n{GOOD}\n```",
        GOOD.replace("bugfix", "miracle"),
        GOOD.replace("<type>bugfix</type>", ""),
        GOOD.replace("<title>kite launch has no --height &amp; needs --string</title>", ""),
        GOOD.replace("kite launch has no --height &amp; needs --string", " "),
        GOOD.replace("gotcha", "astrology"),
        GOOD.replace("<type>", "<type>bugfix</type><type>"),
        GOOD.replace("<observation>", "<observation id='1'>"),
        GOOD.replace("<title>", "<title lang='en'>"),
        GOOD.replace("Tried twice.", "Tried <b>twice</b>."),
        GOOD.replace("Tried twice.", "x" * 2_001),
        GOOD.replace("two", "x" * 401),
        GOOD.replace("<fact>two</fact>", "<fact>n</fact>" * 15),
        GOOD.replace("<fact>two</fact>", "two"),
        GOOD.replace("<fact>two</fact>", "<file>two</file>"),
        GOOD.replace("<narrative>", "<run>rm -rf .</run><narrative>"),
        GOOD.replace("unknown option", "abc"),
        GOOD.replace("<quotes><quote>unknown option</quote></quotes>", ""),
        GOOD.replace("</observation>", ""),
        GOOD.replace("&amp;", "&"),
        GOOD.replace("&amp;", "&b;"),
        ENTITY + GOOD.replace("&amp;", "&b;"),
        GOOD.replace("Tried twice.", "<![CDATA[Tried]]>"),
        GOOD.replace("Tried twice.", "<!-- Tried -->"),
        "<?xml version='1.0'?>" + GOOD,
        "</answer><answer>" + GOOD,
        GOOD * 5,
        "<skip/><skip/>",
        "<skip>nothing</skip>",
        f"<skip/>{GOOD}",
        "<observations>" + GOOD + "</observations>",
        GOOD.replace("Tried twice.", "\x00"),
        "<a>" * 5_000,
        GOOD + " " * 40_000,
    ],
)  # fmt: skip
def test_an_answer_in_any_other_form_is_refused(text: str) -> None:
    with pytest.raises(Broken) as refused:
        read(text)
    assert refused.value.outcome == "malformed"


@given(some.text(max_size=200))
def test_no_text_makes_the_reading_fall_over(text: str) -> None:
    for made in (text, f"<observation>{text}</observation>", GOOD.replace("Tried twice.", text)):
        try:
            read(made)
        except Broken:
            continue


def test_half_a_character_is_read_as_a_mark_for_it() -> None:
    assert read(GOOD.replace("Tried", "\ud83d Tried"))[0].narrative == "? Tried twice."


def test_a_secret_in_an_answer_is_not_kept() -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
    told = read(GOOD.replace("Tried twice.", f"It used {secret} twice."))[0]
    assert secret not in told.narrative and "redacted" in told.narrative
