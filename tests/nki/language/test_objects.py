"""`nl.NKIObject`: keywords become attributes, whatever @dataclass says."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.nki import language as nl
from trnsim.nki.language.objects import FieldsMisused


def test_keywords_become_attributes_and_class_attributes_are_defaults():
    class Plain(nl.NKIObject):
        rows = 3

    made = Plain(columns=4)
    assert (made.rows, made.columns) == (3, 4)


def test_a_dataclass_that_is_called_as_declared_is_a_dataclass():
    @dataclass
    class Declared(nl.NKIObject):
        rows: int
        columns: int = 4
        names: list = field(default_factory=list)

    made = Declared(2)
    assert (made.rows, made.columns, made.names) == (2, 4, [])
    assert made == Declared(rows=2)


def test_a_dataclass_takes_keywords_that_it_does_not_annotate():
    @dataclass
    class Loose(nl.NKIObject):
        rows: int = 1
        depth = 2

    made = Loose(depth=7)
    assert (made.rows, made.depth) == (1, 7)


def test_a_required_field_may_be_left_out_and_is_then_none():
    @dataclass
    class Lacking(nl.NKIObject):
        rows: int
        columns: int = 4
        names: list = field(default_factory=list)

    made = Lacking(names=["a"])
    assert (made.columns, made.names) == (4, ["a"])
    assert made.rows is None
    assert Lacking().names is not Lacking().names


def test_without_a_decorator_the_annotated_names_are_the_fields():
    class Base(nl.NKIObject):
        known: ClassVar[int] = 0
        rows: int

    class Derived(Base):
        columns: int
        is_causal: bool = False

        def __post_init__(self):
            self.size = self.rows * (self.columns or 1)

    made = Derived(2, 3, depth=5)
    assert (made.rows, made.columns, made.is_causal, made.depth, made.size) == (2, 3, False, 5, 6)
    assert Derived(rows=4).columns is None
    assert "known" not in vars(made)
    with pytest.raises(TypeError, match="Derived takes 3 positional arguments but 4 were given"):
        Derived(1, 2, True, 4)


def test_an_init_that_someone_wrote_may_call_that_of_nki_object():
    class Own(nl.NKIObject):
        def __init__(self, rows):
            super().__init__(rows=2 * rows)

    assert Own(3).rows == 6


def test_positional_arguments_fill_the_fields_in_their_order():
    @dataclass
    class Ordered(nl.NKIObject):
        rows: int
        columns: int
        depth: int

    made = Ordered(1, 2)
    assert (made.rows, made.columns) == (1, 2)
    with pytest.raises(TypeError, match="Ordered takes 3 positional arguments but 4 were given"):
        Ordered(1, 2, 3, 4)


@pytest.mark.parametrize("decorate", [dataclass, lambda cls: cls])
def test_a_field_by_position_and_by_name_is_refused(decorate):
    @decorate
    class Twice(nl.NKIObject):
        rows: int
        columns: int = 4

    with pytest.raises(FieldsMisused, match="Twice with 'rows' by position and by name") as caught:
        Twice(1, rows=2)
    assert "legal: rows, columns" in str(caught.value)
    assert "leave out one of them: rows=2" in caught.value.fix
    assert caught.value.line.file == __file__


def test_arguments_of_a_class_without_fields_are_told_how_to_be_passed():
    class Bare(nl.NKIObject):
        pass

    with pytest.raises(FieldsMisused, match="the class annotates no names") as caught:
        Bare(1)
    assert "pass them by name" in caught.value.fix
    assert caught.value.line.file == __file__


def test_post_init_is_called_on_every_way_in():
    @dataclass
    class Finished(nl.NKIObject):
        rows: int = 1

        def __post_init__(self):
            self.twice = 2 * self.rows

    class Plain(nl.NKIObject):
        rows = 3

        def __post_init__(self):
            self.twice = 2 * self.rows

    assert Finished(4).twice == 8
    assert Finished(rows=4, other=1).twice == 8
    assert Plain(rows=5).twice == 10


@pytest.mark.parametrize("decorate", [dataclass, lambda cls: cls])
def test_an_init_that_someone_wrote_is_left_alone(decorate):
    @decorate
    class Own(nl.NKIObject):
        rows: int

        def __init__(self, rows, *, scale=1):
            self.rows = rows * scale

    assert Own(3, scale=2).rows == 6
    with pytest.raises(TypeError, match="columns"):
        Own(3, columns=2)


def test_a_frozen_dataclass_can_be_made():
    @dataclass(frozen=True)
    class Frozen(nl.NKIObject):
        rows: int = 1

    assert Frozen(rows=2).rows == 2
    assert Frozen(other=3).other == 3
    with pytest.raises(AttributeError):
        Frozen(rows=2).rows = 5


def test_a_class_that_makes_its_own_instances_does_so():
    class Shared(nl.NKIObject):
        width: int = 4
        kept = None

        def __new__(cls, *args, **kwargs):
            del args, kwargs
            cls.kept = cls.kept or super().__new__(cls)
            return cls.kept

    first = Shared(8)
    assert (Shared(depth=2) is first, vars(first)) == (True, {"width": 4, "depth": 2})


class Tiling(nl.NKIObject):
    rows: int = 1
    columns: int = 1


class OtherTiling(Tiling):
    pass


@pytest.mark.parametrize("version", ["0.2", "0.6", "0.7"])
def test_equality_is_structural_in_kernels_before_07(version):
    found = []

    @nki.jit
    def kernel(x):
        one = Tiling(2, 3)
        others = (one, Tiling(2, 3), Tiling(2, 4), OtherTiling(2, 3), 2)
        found.append([one == other for other in others])
        found.append([one != other for other in others])
        found.append([hash(one) == hash(one), len({one, one})])
        return x

    trnsim.run(kernel, np.ones((2, 2), np.float32), nki=version)
    equal = [True, version != "0.7", False, False, False]
    assert found == [equal, [not is_equal for is_equal in equal], [True, 1]]
    assert Tiling(2, 3) != Tiling(2, 3)
