"""`word` is the part of `dataclass(frozen=True)` that we use, so the real one is the measure of it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwon.types import frozen, replace


class Shape:
    """What both decorators are given: two fields that must be there, two that need not."""

    slug: str
    priority: int
    tags: tuple[str, ...] = ()
    note: str | None = None


def copy_of(cls: type) -> type:
    return type(cls.__name__, (), {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")})


Ours: Any = frozen(copy_of(Shape))
Real: Any = dataclasses.dataclass(frozen=True)(copy_of(Shape))
unhurried = settings(deadline=None)  # a busy machine is no defect
FIELDS = ("slug", "priority", "tags", "note")

values = st.fixed_dictionaries(
    {"slug": st.text(max_size=3), "priority": st.integers(0, 2)},
    optional={"tags": st.tuples(st.text(max_size=2)), "note": st.none() | st.text(max_size=2)},
)
arguments = st.tuples(
    st.lists(st.integers(), max_size=6),
    st.dictionaries(st.sampled_from((*FIELDS, "nothing")), st.integers(), max_size=5),
)


def outcome(cls: Any, args: list[int], kwargs: dict[str, int]) -> dict[str, object] | str:
    """The fields of the value made, or the name of the error."""
    try:
        value = cls(*args, **kwargs)
    except TypeError as error:
        return type(error).__name__
    return {name: getattr(value, name) for name in FIELDS}


@unhurried
@given(arguments)
def test_a_word_takes_the_arguments_a_dataclass_takes(
    given_arguments: tuple[list[int], dict[str, int]],
) -> None:
    args, kwargs = given_arguments
    assert outcome(Ours, args, kwargs) == outcome(Real, args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("a",), {}),
        ((), {"slug": "a"}),
        (("a", 1), {"colour": "red"}),
        (("a", 1, (), None, "more"), {}),
        (("a", 1), {"slug": "b"}),
        (("a", 1, ()), {"tags": ("x",)}),
    ],
    ids=[
        "nothing",
        "one missing",
        "one missing by name",
        "an unknown name",
        "one too many",
        "a field given twice",
        "a default given twice",
    ],
)
def test_wrong_arguments_are_refused(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    for cls in (Real, Ours):
        with pytest.raises(TypeError):
            cls(*args, **kwargs)


@pytest.mark.parametrize(("args", "named"), [((), "slug"), (("a",), "priority")])
def test_the_error_names_the_word_and_the_missing_field(args: tuple[str, ...], named: str) -> None:
    with pytest.raises(TypeError, match=rf"Shape.*{named}"):
        Ours(*args)


def test_the_error_names_the_unknown_field() -> None:
    with pytest.raises(TypeError, match="colour"):
        Ours("a", 1, colour="red")


@unhurried
@given(values, values)
def test_words_are_equal_when_dataclasses_are(one: dict[str, object], other: dict[str, object]) -> None:
    assert (Ours(**one) == Ours(**other)) == (Real(**one) == Real(**other))
    assert (Ours(**one) != Ours(**other)) == (Real(**one) != Real(**other))


@unhurried
@given(values)
def test_a_word_hashes_as_a_dataclass_does(fields: dict[str, object]) -> None:
    assert hash(Ours(**fields)) == hash(Real(**fields))
    assert {Ours(**fields): "found"}[Ours(**fields)] == "found"


@unhurried
@given(values)
def test_a_word_is_shown_as_a_dataclass_is_fields_in_their_order(fields: dict[str, object]) -> None:
    assert repr(Ours(**fields)) == repr(Real(**fields))


@unhurried
@given(values, values)
def test_replace_changes_what_dataclasses_replace_changes(
    fields: dict[str, object], changes: dict[str, object]
) -> None:
    before = Ours(**fields)
    after, real = replace(before, **changes), dataclasses.replace(Real(**fields), **changes)
    assert {n: getattr(after, n) for n in FIELDS} == {n: getattr(real, n) for n in FIELDS}
    assert before == Ours(**fields)


def test_replacing_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        replace(Ours("a", 1), colour="red")


@pytest.mark.parametrize("name", ["slug", "note", "colour"])
def test_a_word_is_frozen(name: str) -> None:
    for value in (Real("a", 1), Ours("a", 1)):
        with pytest.raises(AttributeError):
            setattr(value, name, "b")
        with pytest.raises(AttributeError):
            delattr(value, name)
        assert value.slug == "a"


def test_words_of_two_kinds_are_never_equal() -> None:
    other: Any = frozen(copy_of(Shape))
    assert Ours("a", 1) != other("a", 1)
    assert Ours("a", 1) != ("a", 1, (), None)
    assert Ours("a", 1) != Real("a", 1)


def test_the_other_side_may_decide_whether_it_equals_a_word() -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    assert Real("a", 1) == Anything()
    assert Ours("a", 1) == Anything()


def test_a_word_can_be_matched_by_position() -> None:
    assert Ours.__match_args__ == Real.__match_args__ == FIELDS
    match Ours("a", 7):
        case Ours(slug, priority):
            assert (slug, priority) == ("a", 7)
        case _:
            pytest.fail("a word matches its own pattern")


def test_a_default_is_also_on_the_class_and_is_not_shared_state() -> None:
    assert (Ours.note, Ours.tags) == (Real.note, Real.tags)
    assert Ours("a", 1, note="here").note == "here"
    assert Ours("b", 1).note is None


def test_a_word_keeps_its_methods_and_its_docstring() -> None:
    @frozen
    class Place:
        """A line of a file."""

        file: str
        line: int

        @property
        def said(self) -> str:
            return f"{self.file}:{self.line}"

    assert (Place("a.py", 3).said, Place.__doc__) == ("a.py:3", "A line of a file.")


@unhurried
@given(values)
def test_a_copy_of_a_word_is_equal_to_it(fields: dict[str, object]) -> None:
    value = Ours(**fields)
    assert copy.copy(value) == copy.deepcopy(value) == value


@frozen
class Kept:
    """A word at module level, where pickle can find it."""

    name: str
    count: int = 0


def test_a_word_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", 2))) == Kept("a", 2)


def test_a_word_with_values_that_cannot_be_hashed_cannot_be_hashed_either() -> None:
    for cls in (Real, Ours):
        with pytest.raises(TypeError, match="unhashable"):
            hash(cls(["a"], 1))


@unhurried
@given(st.floats(), st.floats())
def test_values_that_differ_from_themselves_are_compared_as_in_a_dataclass(one: float, other: float) -> None:
    assert (Ours("a", one) == Ours("a", other)) == (Real("a", one) == Real("a", other))
