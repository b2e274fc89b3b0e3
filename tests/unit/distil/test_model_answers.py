"""A model's answer is parsed leniently, and nothing it was not asked for is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hardwon.distil import refinement
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


def parse_answer(text: str) -> tuple[refinement.ModelObservation, ...]:
    return refinement.parse_observations(text, TYPES, CONCEPTS)


def test_a_valid_answer_is_parsed_completely() -> None:
    assert parse_answer(GOOD) == (
        refinement.ModelObservation(
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


def test_an_answer_may_have_several_observations() -> None:
    assert len(parse_answer(GOOD * 4)) == 4


def test_a_skip_gives_nothing_and_is_no_error() -> None:
    assert parse_answer(" <skip/>\n") == ()
    assert refinement.parse_summary("<skip></skip>") is None


def test_a_summary_needs_its_request_and_a_quote() -> None:
    summary = refinement.parse_summary(SUMMARY)
    assert summary == refinement.ModelSummary("Fly", learned="Wind helps", quotes=("3 passed",))
    for broken_text in (
        SUMMARY.replace("<request>Fly</request>", ""),
        SUMMARY.replace("<quotes><quote>3 passed</quote></quotes>", ""),
        GOOD,
        SUMMARY.replace("summary", "report"),
    ):
        with pytest.raises(Broken):
            refinement.parse_summary(broken_text)


WRAPPED = {
    "a fence": f"```xml\n{GOOD}\n```",
    "a fence without a name": f"```\n{GOOD}```",
    "words before": f"Here it is:\n{GOOD}",
    "words behind": f"{GOOD}\nI hope this helps. 1 < 2 & so on.",
    "a byte order mark": f"\ufeff{GOOD}",
    "a declaration": f"<?xml version='1.0' encoding='UTF-8'?>{GOOD}",
    "an element around": f"<observations>{GOOD}</observations>",
    "attributes": GOOD.replace("<observation>", "<observation id='1'>").replace("<title>", '<title lang="en">'),
    "blanks in tags": GOOD.replace("<title>", "<title >").replace("</quotes>", "</quotes >"),
    "another element": GOOD.replace("<narrative>", "<mood>calm</mood><narrative>"),
    "a comment": GOOD.replace("<narrative>", "<!-- how --><narrative>"),
    "a section": GOOD.replace("Tried twice.", "<![CDATA[Tried twice.]]>"),
    "a concept that is none": GOOD.replace("<concept>gotcha", "<concept>astrology</concept><concept>gotcha"),
    "an element twice": GOOD.replace("<subtitle>", "<title>another</title><subtitle>"),
    "text between": GOOD.replace("<narrative>", "and then <narrative>"),
    "an ampersand as it is": GOOD.replace("&amp;", "&"),
    "half an answer behind it": f"{GOOD}<observation><type>bugfix</type><title>cut o",
    "an answer that is no XML beside it": f"<observation><title>a</facts></observation>{GOOD}",
    "one without a quote beside it": GOOD.replace("unknown option", "abc") + GOOD,
    "one without a title beside it": "<observation><type>bugfix</type></observation>" + GOOD,
    "a skip beside it": f"<skip/>{GOOD}",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_text_around_an_observation_and_broken_neighbours_are_ignored(name: str) -> None:
    assert parse_answer(WRAPPED[name]) == parse_answer(GOOD)


def test_markup_that_is_not_ours_is_text() -> None:
    for text in ("Tried <b>twice</b> & List<String> won", "&b; stays", "a < b > c", "<script>alert(1)</script>"):
        assert parse_answer(GOOD.replace("Tried twice.", text))[0].narrative == text


def test_long_text_is_cut_and_long_paths_are_dropped() -> None:
    long_text = "word " * 500
    observation = parse_answer(
        GOOD.replace("Tried twice.", long_text).replace("unknown option", long_text).replace("docs/kites.md", "k" * 401)
    )[0]
    assert 1_900 < len(observation.narrative) <= 2_000 and observation.narrative.endswith("…")
    assert observation.quotes == (long_text[:400].strip(),) and observation.files_read == ()
    many_facts = "".join(f"<fact>fact {number}</fact>" for number in range(30))
    assert len(parse_answer(GOOD.replace("<fact>two</fact>", many_facts))[0].facts) == 15
    assert len(parse_answer(GOOD * 5)) == 4


def test_an_unknown_type_is_a_discovery() -> None:
    assert [parse_answer(GOOD.replace(">bugfix<", text))[0].type for text in (">miracle<", "><")] == ["discovery"] * 2


@pytest.mark.parametrize("wrap", ["```xml\n{}\n```", "Sure:\n{}\nDone.", "\ufeff{}", "<?xml version='1.0'?>{}"])
def test_a_wrapped_summary_is_read(wrap: str) -> None:
    assert refinement.parse_summary(wrap.format(SUMMARY)) == refinement.parse_summary(SUMMARY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I will not.",
        "null",
        "```xml\n```",
        GOOD.replace("kite launch has no --height &amp; needs --string", " "),
        GOOD.replace("unknown option", "abc"),
        GOOD.replace("<quotes><quote>unknown option</quote></quotes>", ""),
        GOOD.replace("</observation>", ""),
        GOOD.replace("observation>", "report>"),
        "<skip>nothing</skip>",
        "<a>" * 5_000,
        "<observation>" * 2_000,
        GOOD + " " * 40_000,
        SUMMARY,
    ],
)
def test_an_answer_without_an_observation_is_refused(text: str) -> None:
    with pytest.raises(Broken) as refused:
        parse_answer(text)
    assert refused.value.outcome == "malformed"


@given(some.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for answer_text in (text, f"<observation>{text}</observation>", GOOD.replace("Tried twice.", text)):
        try:
            parse_answer(answer_text)
        except Broken:
            continue


def test_a_lone_surrogate_is_replaced() -> None:
    assert parse_answer(GOOD.replace("Tried", "\ud83d Tried"))[0].narrative == "? Tried twice."


def test_a_secret_in_an_answer_is_not_kept() -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
    observation = parse_answer(GOOD.replace("Tried twice.", f"It used {secret} twice."))[0]
    assert secret not in observation.narrative and "redacted" in observation.narrative
