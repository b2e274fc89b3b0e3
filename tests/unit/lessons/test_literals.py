"""The index may skip a lesson only if its pattern cannot match: a required literal is never missing from a match."""

from __future__ import annotations

import re
import string
import sys

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from hardwon.lessons.patterns import Literals, choose_longest, find_literal_sets
from hardwon.text.characters import fold_case

REQUIRED = [
    (r"git stash", "git stash"),
    (r"\bgit\s+stash\b(?!.*(-u|--include-untracked))", "stash"),
    (r"\bpytest\b(?!.*(--no-header|-p no:faulthandler))", "pytest"),
    (r"npm (install|i)\b", "npm i"),
    (r"curl .*\|\s*(ba)?sh", "curl "),
    (r"TODO|FIXME", "todo | fixme"),
    (r"git stash|git stow", "git stash | git stow"),
    (r"docker[- ]compose", "docker compose | docker-compose"),
    (r"colou?r", "color | colour"),
    (r"(?i)DROP\s+TABLE", "table"),
    (r"(?i:Drop) Table", "drop table"),
    (r"(?x) git \  push  # both words", "git push"),
    (r"[Gg]it", "git"),
    (r"^(?:sudo )?rm$", "rm"),
    (r"x(?:ab)+y", "xab"),
    (r"(?:ab){2}c", "ababc"),
    (r"a\bb\B(?=cc.*dddd)c", "dddd"),
    (r"(?<=sudo )rm", "sudo "),
    (r"(?>git) (?P<verb>push)", "git push"),
    (r"a++bc", "abc"),
    (r"größe", "größe"),
    (r"(?i)größe", "gr"),
    (r"ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    (r"\$\(", "$("),
]

NONE = [
    r".*",
    r"a",
    r"\w+\s",
    r"git|x",
    r"(?:git)?",
    r"(?:git)*push?|.",
    r"(?!git)",
    r"(?<!git)",
    r"(git)?(?(1)push|pull)",
    r"[abcdefghijklmnopqrstuvw]x",
    r"(?i)ßß",
    r"()",
]


def find_longest(source: str, flags: int = 0) -> Literals | None:
    return next(iter(choose_longest(find_literal_sets(source, flags))), None)


def test_a_pattern_requires_the_longest_literal_it_is_sure_of() -> None:
    for source, literals in REQUIRED:
        assert find_longest(source) == frozenset(literals.split(" | ")), source


def test_a_pattern_that_can_match_without_any_literal_requires_none() -> None:
    for source in NONE:
        assert find_longest(source) is None, source


def test_flags_beside_the_pattern_count_like_those_inside() -> None:
    assert find_longest_set("a b c", re.VERBOSE) == {"abc"}
    assert (find_longest_set("ÄÄgit", re.IGNORECASE), find_longest_set("ÄÄgit")) == ({"git"}, {"äägit"})


def test_the_number_and_length_of_alternatives_are_bounded() -> None:
    assert find_longest_set(f"(?:{'|'.join(string.ascii_letters)}|{'|'.join(map(str, range(40)))})or") == {"or"}
    assert find_longest_set(f"(?:{'|'.join(f'word{number}' for number in range(40))}) or") == {"word"}
    assert len(find_longest_set("[abcd]" * 30 + "xyz")) == 16
    assert max(map(len, find_longest_set("(?:(?:(?:(?:ab){4}){4}){4}){4}"))) <= 100


def find_longest_set(source: str, flags: int = 0) -> set[str]:
    return set(find_longest(source, flags) or ())


def build_all_characters() -> str:
    return "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))


def test_fold_case_maps_case_variants_to_their_ascii_letter() -> None:
    equal = set(re.findall(f"(?i)[{string.ascii_letters}]", build_all_characters()))
    assert equal == {*string.ascii_letters, "İ", "ı", "ſ", "\u212a"}
    assert all(
        re.match(fold_case(char), char, re.IGNORECASE) and fold_case(char) in string.ascii_lowercase for char in equal
    )


def test_fold_maps_each_character_by_itself() -> None:
    text = build_all_characters()
    folded_characters = list(map(fold_case, text))
    assert fold_case(text) == "".join(folded_characters)
    assert set(map(len, folded_characters)) == {1}


def draw_patterns(groups: str, quantifiers: str, extra_atoms: str = "") -> st.SearchStrategy[str]:
    atoms = rf"a b c k S i ab Kiss . \d \w \s \b ^ $ [ab] [Ks] [^a] [i-k] é Σ ς ß İ ı {extra_atoms}"
    quantifier = st.just("") | st.just("") | st.sampled_from(quantifiers.split())

    def wrap_in_group(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        branches = st.lists(inside, min_size=1, max_size=3).map("|".join)
        return st.builds(lambda opened, body: f"{opened}{body})", st.sampled_from(groups.split()), branches)

    sequences = st.recursive(
        st.sampled_from(atoms.split()),
        lambda inside: st.lists(st.builds(str.__add__, inside | wrap_in_group(inside), quantifier), max_size=5).map(
            "".join
        ),
    )
    flags = st.sampled_from(["", "(?i)", "(?i)", "(?s)", "(?ai)", "(?ix) "])
    return st.builds(str.__add__, flags, st.lists(sequences, min_size=1, max_size=3).map("|".join))


MATCHABLE = draw_patterns("( (?: (?i: (?-i:", "* + ? {2} {,2} {1,2}? {3,} +?")
ANY = draw_patterns("( (?: (?i: (?-i: (?= (?! (?<= (?<! (?>", "* + ? {2} {,2} {3,} +? *+ ++", r"\1 (?(1)ab|kiss)")
TEXTS = st.text("abcABCkKsSiI\u212aſıİéÉΣςσß1 \n", max_size=14)
SLOWLY = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def compile_or_discard(source: str) -> re.Pattern[str]:
    try:
        return re.compile(source)
    except re.error:
        assume(False)
        raise


def has_required_literals(source: str, text: str) -> bool:
    folded_text = fold_case(text)
    return all(any(literal in folded_text for literal in literals) for literals in find_literal_sets(source))


@SLOWLY
@given(st.data(), MATCHABLE)
def test_every_generated_match_contains_a_required_literal(data: st.DataObject, source: str) -> None:
    text = data.draw(st.from_regex(compile_or_discard(source)))
    assert has_required_literals(source, text), (source, text)


@SLOWLY
@given(ANY, st.lists(TEXTS, min_size=1, max_size=8))
@example("(?i)kiss", ["\u212aIſS"])
@example("ΟΔΟΣ", ["xΟΔΟΣ", "ΟΔΟΣ "])
@example("aİb", ["aİb"])
def test_every_text_that_matches_contains_a_required_literal(source: str, texts: list[str]) -> None:
    pattern = compile_or_discard(source)
    for text in texts:
        try:
            match = pattern.search(text)
        except SystemError:  # Python's re, of a numbered group inside a possessive repeat
            match = None
        assert not match or has_required_literals(source, text), (source, text)
