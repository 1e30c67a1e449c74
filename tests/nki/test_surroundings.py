"""What a kernel reads besides its arguments: what can be foreseen, and when it has changed."""
# Functions here do what one should not.
# ruff: noqa: T201, PLW0108, S311, PTH123, SIM115, S102, ICN001

import dataclasses
import enum
import functools
import itertools
import math
import random
import time
import types

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from trnsim.nki.surroundings import Surroundings, Unforeseeable

WIDTH = 4
NAMES = ["a", "b"]
ARRAY = np.zeros(3)
CONFIG = types.ModuleType("a_config")
CONFIG.WIDTH = 8
clock = itertools.count()


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Plan:
    width: int = WIDTH
    parts: list = dataclasses.field(default_factory=list)

    def _double(self):
        return 2 * self.width

    def tiles(self):
        return range(self._double())


@dataclasses.dataclass
class Talkative:
    width: int = WIDTH

    def __post_init__(self):
        print(self.width)


class Counter:
    made = 0

    def __init__(self):
        Counter.made += 1


def helper(x):
    return math.ceil(x / WIDTH)


def talks(x):
    print(x)


@nki.jit
def inner(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)


def closure(value):
    return lambda x: x * value


def counting():
    count = 0

    def count_up(x):
        nonlocal count
        count += 1
        return x

    return count_up


def catches(x):
    try:
        return helper(x)
    except ValueError:
        return 0


def names_a_module(x):
    import numpy as host  # noqa: PLC0415

    return host.zeros(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + WIDTH,
        lambda x: [name for name in NAMES if x],
        lambda x: nl.ndarray((nl.tile_size.pmax, x), dtype=nl.float32, buffer=nl.sbuf),
        lambda x: nisa.tensor_copy(dst=x, src=x),
        lambda x: helper(x) + np.float32(1) + np.pi + np.prod((1, 2)),
        lambda x: Kind.ONE if x == Kind.TWO else Kind(1),
        lambda _: Plan(3).tiles(),
        lambda x: inner(x),
        lambda x: CONFIG.WIDTH * x,
        lambda x: functools.partial(helper, x)(),
        lambda x: max(sorted(str(i) for i in range(x)), key=len),
        lambda x: talks(x),
        lambda _: Talkative(),
        closure(3),
        closure({"axis": [1, 2]}),
        closure(helper),
        closure(Plan(2)),
        functools.partial(helper, 3),
    ],
)
def test_what_cannot_change_unseen_is_foreseeable(function):
    assert Surroundings(function).are_unchanged()


@pytest.mark.parametrize(
    "function",
    [
        closure(print),
        lambda _: Counter() if clock else None,
        lambda x: random.random() * x,
        lambda x: np.random.default_rng().random() * x,
        lambda x: time.time() * x,
        lambda _: next(clock),
        lambda x: ARRAY * x,
        lambda x: np.load(x),
        lambda x: open(x),
        lambda x: getattr(nl, x),
        lambda x: x.array.sum(),
        lambda x: exec(x),
        closure(np.zeros(3)),
        closure(np.random.default_rng(0)),
        closure(iter([1])),
        counting(),
        catches,
        names_a_module,
        CONFIG.__dict__.get,
    ],
)
def test_what_may_change_unseen_is_not(function):
    with pytest.raises(Unforeseeable):
        Surroundings(function)


def test_a_change_of_what_a_function_names_is_seen(monkeypatch):
    def kernel(x):
        return helper(x) + len(NAMES) + CONFIG.WIDTH + inner(x)

    before = Surroundings(kernel)
    assert before.are_unchanged()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "WIDTH", 5)
        assert not before.are_unchanged()
    NAMES.append("c")
    assert not before.are_unchanged()
    NAMES.pop()
    with monkeypatch.context() as patch:
        patch.setattr(CONFIG, "WIDTH", 9)
        assert not before.are_unchanged()
    with monkeypatch.context() as patch:
        patch.setattr(helper, "__code__", (lambda x: x).__code__)
        assert not before.are_unchanged()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "helper", closure(1))
        assert not before.are_unchanged()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "len", lambda _: 1)
        assert not before.are_unchanged()
    assert before.are_unchanged()


def test_a_change_in_a_closure_is_seen():
    plan, factor = Plan(2), 3

    def kernel(x):
        return x * factor * plan.width

    before = Surroundings(kernel)
    plan.width = 5
    assert not before.are_unchanged()
    plan.width = 2
    assert before.are_unchanged()
    factor = 4
    assert not before.are_unchanged()


def test_a_change_of_a_class_is_seen(monkeypatch):
    def kernel(_):
        return Plan(3).tiles()

    before = Surroundings(kernel)
    monkeypatch.setattr(Plan, "_double", lambda self: self.width)
    assert not before.are_unchanged()
