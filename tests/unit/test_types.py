"""`frozen` does what `dataclass(frozen=True)` does, so it is compared with the real one."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwon.types import Event, dump_record, frozen, load_record, replace


class Shape:
    """Two required and two optional fields, for both decorators."""

    slug: str
    priority: int
    tags: tuple[str, ...] = ()
    note: str | None = None


def copy_class(cls: type) -> type:
    return type(cls.__name__, (), {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")})


Frozen: Any = frozen(copy_class(Shape))
Reference: Any = dataclasses.dataclass(frozen=True)(copy_class(Shape))
without_deadline = settings(deadline=None)  # a busy machine is no defect
FIELDS = ("slug", "priority", "tags", "note")

values = st.fixed_dictionaries(
    {"slug": st.text(max_size=3), "priority": st.integers(0, 2)},
    optional={"tags": st.tuples(st.text(max_size=2)), "note": st.none() | st.text(max_size=2)},
)
arguments = st.tuples(
    st.lists(st.integers(), max_size=6),
    st.dictionaries(st.sampled_from((*FIELDS, "nothing")), st.integers(), max_size=5),
)


def describe_outcome(cls: Any, args: list[int], kwargs: dict[str, int]) -> dict[str, object] | str:
    """Return the fields of the created value, or the name of the error."""
    try:
        value = cls(*args, **kwargs)
    except TypeError as error:
        return type(error).__name__
    return {name: getattr(value, name) for name in FIELDS}


@without_deadline
@given(arguments)
def test_a_frozen_class_takes_the_arguments_a_dataclass_takes(
    given_arguments: tuple[list[int], dict[str, int]],
) -> None:
    args, kwargs = given_arguments
    assert describe_outcome(Frozen, args, kwargs) == describe_outcome(Reference, args, kwargs)


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
    for cls in (Reference, Frozen):
        with pytest.raises(TypeError):
            cls(*args, **kwargs)


@pytest.mark.parametrize(("args", "missing_field"), [((), "slug"), (("a",), "priority")])
def test_the_error_names_the_class_and_the_missing_field(args: tuple[str, ...], missing_field: str) -> None:
    with pytest.raises(TypeError, match=rf"Shape.*{missing_field}"):
        Frozen(*args)


def test_the_error_names_the_unknown_field() -> None:
    with pytest.raises(TypeError, match="colour"):
        Frozen("a", 1, colour="red")


@without_deadline
@given(values, values)
def test_frozen_values_are_equal_when_dataclasses_are(
    first_fields: dict[str, object], second_fields: dict[str, object]
) -> None:
    assert (Frozen(**first_fields) == Frozen(**second_fields)) == (
        Reference(**first_fields) == Reference(**second_fields)
    )
    assert (Frozen(**first_fields) != Frozen(**second_fields)) == (
        Reference(**first_fields) != Reference(**second_fields)
    )


@without_deadline
@given(values)
def test_a_frozen_value_hashes_as_a_dataclass_does(fields: dict[str, object]) -> None:
    assert hash(Frozen(**fields)) == hash(Reference(**fields))
    assert {Frozen(**fields): "found"}[Frozen(**fields)] == "found"


@without_deadline
@given(values)
def test_a_frozen_value_has_the_repr_of_a_dataclass(fields: dict[str, object]) -> None:
    assert repr(Frozen(**fields)) == repr(Reference(**fields))


@without_deadline
@given(values, values)
def test_replace_changes_what_dataclasses_replace_changes(
    fields: dict[str, object], changes: dict[str, object]
) -> None:
    original = Frozen(**fields)
    replaced, replaced_dataclass = replace(original, **changes), dataclasses.replace(Reference(**fields), **changes)
    assert {n: getattr(replaced, n) for n in FIELDS} == {n: getattr(replaced_dataclass, n) for n in FIELDS}
    assert original == Frozen(**fields)


def test_replacing_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        replace(Frozen("a", 1), colour="red")


@pytest.mark.parametrize("name", ["slug", "note", "colour"])
def test_a_frozen_value_cannot_be_changed(name: str) -> None:
    for value in (Reference("a", 1), Frozen("a", 1)):
        with pytest.raises(AttributeError):
            setattr(value, name, "b")
        with pytest.raises(AttributeError):
            delattr(value, name)
        assert value.slug == "a"


def test_values_of_two_frozen_classes_are_never_equal() -> None:
    other: Any = frozen(copy_class(Shape))
    assert Frozen("a", 1) != other("a", 1)
    assert Frozen("a", 1) != ("a", 1, (), None)
    assert Frozen("a", 1) != Reference("a", 1)


def test_another_class_may_equal_a_frozen_value() -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    assert Reference("a", 1) == Anything()
    assert Frozen("a", 1) == Anything()


def test_a_frozen_value_can_be_matched_by_position() -> None:
    assert Frozen.__match_args__ == Reference.__match_args__ == FIELDS
    match Frozen("a", 7):
        case Frozen(slug, priority):
            assert (slug, priority) == ("a", 7)
        case _:
            pytest.fail("a frozen value matches its own pattern")


def test_a_default_is_also_on_the_class_and_is_not_shared_state() -> None:
    assert (Frozen.note, Frozen.tags) == (Reference.note, Reference.tags)
    assert Frozen("a", 1, note="here").note == "here"
    assert Frozen("b", 1).note is None


def test_a_frozen_class_keeps_its_methods_and_its_docstring() -> None:
    @frozen
    class Location:
        """A line of a file."""

        file: str
        line: int

        @property
        def position(self) -> str:
            return f"{self.file}:{self.line}"

    assert (Location("a.py", 3).position, Location.__doc__) == ("a.py:3", "A line of a file.")


@without_deadline
@given(values)
def test_a_copy_of_a_frozen_value_is_equal_to_it(fields: dict[str, object]) -> None:
    value = Frozen(**fields)
    assert copy.copy(value) == copy.deepcopy(value) == value


@frozen
class Pickled:
    """A frozen class at module level, where pickle can find it."""

    name: str
    count: int = 0


def test_a_frozen_value_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Pickled("a", 2))) == Pickled("a", 2)


def test_a_frozen_value_with_unhashable_fields_is_unhashable() -> None:
    for cls in (Reference, Frozen):
        with pytest.raises(TypeError, match="unhashable"):
            hash(cls(["a"], 1))


@without_deadline
@given(st.floats(), st.floats())
def test_values_that_differ_from_themselves_are_compared_as_in_a_dataclass(
    first_value: float, second_value: float
) -> None:
    assert (Frozen("a", first_value) == Frozen("a", second_value)) == (
        Reference("a", first_value) == Reference("a", second_value)
    )


def test_a_subagent_is_called_agent_outside_of_the_code() -> None:
    event = Event("claude-code", "Stop", "s1", "/home/dev/kite", subagent_id="a1")
    record = dump_record(event)
    assert record["agent"] == "a1" and "subagent_id" not in record
    assert load_record(Event, record) == event
