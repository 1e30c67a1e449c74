"""What counts of a call's arguments."""

import enum
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

from trnsim.nki import language as nl
from trnsim.nki.reads import Unforeseeable
from trnsim.nki.signature import Signature


class Kind(enum.IntEnum):
    ONE = 1


class Pair(NamedTuple):
    x: object
    factor: float = 1.0


class Plain:
    def __init__(self, held):
        self.held = held


class Config(nl.NKIObject):
    weights: object


def of(value):
    return Signature().of(value)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 1.0, -0.0, 2**80, 1j, "a", b"a", (1, [2]), {"a": (1,)}, Kind.ONE, range(3),
        slice(1, 2), np.float32(1), np.bool_(True), np.dtype("f4"), np.float32, ml_dtypes.bfloat16,
        nl.float32, nl.exp, np.zeros((2, 3)), Pair(np.zeros(3)), Plain((1, 2)), np.add, abs,
        Config(weights=np.zeros(3)), lambda x: x,
    ],
)  # fmt: skip
def test_equal_arguments_count_the_same(value):
    assert of(value) == of(value)
    assert hash(of(value)) == hash(of(value))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (np.float32(1), np.float64(1)),
        ((1,), [1]),
        ({1: 2}, {True: 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (range(0, 3, 2), range(0, 4, 2)),
        (Kind.ONE, 1),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(3, np.float32), np.zeros(3, np.float64)),
        (Pair(1), (1, 1.0)),
        (Plain(1), Plain(2)),
        (lambda x: x, lambda x: x),
    ],
)
def test_other_arguments_count_otherwise(one, other):
    assert of(one) != of(other)


def test_the_values_of_tensors_do_not_count():
    assert of([np.zeros(3)]) == of([np.ones(3)])
    assert of(Config(weights=np.zeros(3))) == of(Config(weights=np.ones(3)))


def test_an_array_in_a_plain_object_is_the_hosts():
    with pytest.raises(Unforeseeable):
        of(Plain(np.zeros(3)))


def test_the_same_object_twice_is_not_two_equal_ones():
    plain, items = Plain(1), [1]
    assert of((plain, plain)) != of((plain, Plain(1)))
    assert of(Plain((items, items))) != of(Plain(([1], [1])))
    assert of((items, items)) == of(([1], [1]))  # lists among the arguments are copied


def test_classes_and_functions_come_along():
    signature = Signature()
    signature.of((Plain(Kind.ONE), np.add))
    assert {id(value) for value in (Plain, Kind.ONE, np.add)} <= signature.named.keys()
    assert [type(value) for value in signature.objects] == [Plain, dict]


@pytest.mark.parametrize("value", [object(), iter([1]), np.void(b"a"), np.timedelta64(1, "s")])
def test_what_may_hold_anything_is_not_foreseeable(value):
    with pytest.raises(Unforeseeable):
        of(value)


def test_torch_dtypes_and_sizes_count_by_name():
    torch = pytest.importorskip("torch")
    assert of(torch.float32) != of(torch.float16)
    assert of(torch.Size([1, 2])) == of(torch.Size([1, 2])) != of(torch.Size([2, 1]))
