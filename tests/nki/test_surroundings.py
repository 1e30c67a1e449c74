"""What a kernel reads besides its arguments: what can be foreseen, and when it has changed."""
# Functions here do what one should not.
# ruff: noqa: T201, PLW0108, S311, PTH123, SIM115, S102, ICN001

import abc
import builtins
import collections
import dataclasses
import enum
import functools
import itertools
import math
import operator
import random
import time
import types
from types import GenericAlias
from typing import NamedTuple

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from trnsim.nki.reads import Unforeseeable
from trnsim.nki.surroundings import Surroundings

WIDTH = 4
BF16 = ml_dtypes.bfloat16
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


class Wide(NamedTuple):
    width: int

    def double(self):
        return self.width * WIDTH


class Table(dict):
    pass


class Text(str):
    __slots__ = ("note",)


class Slotted:
    __slots__ = ("width",)

    def __init__(self):
        self.width = 3


class Silent:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


class Scope:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Member(enum.Enum):
    SMALL = {"width": 2}  # noqa: RUF012  as people do

    @property
    def wide(self):
        return self.value["width"] * WIDTH


class Shape(abc.ABC):  # noqa: B024
    pass


class Sub(Plan):
    pass


@functools.cache
def remembered():
    return {"scale": 2.0}


def in_a_scope(x):
    with Scope():
        return helper(x)


def in_silence(x):
    with Silent():
        return helper(x)


class Telling:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        NAMES.append(error)


class Mixed(dict, enum.Enum):
    A = {"scale": 2.0}  # noqa: RUF012  as people do


class Answering(enum.Enum):
    A = 1

    @classmethod
    def _missing_(cls, value):
        return cls.A if value == WIDTH else None


class Defaulted(NamedTuple):
    plan: dict = CONFIG.__dict__


class Loud:
    __slots__ = ("a",)

    def __getattr__(self, name):
        raise KeyError(name)


def in_a_telling_scope(x):
    with Telling():
        return helper(x)


def sees_by_a_cell(x):
    return [x.array[i] for i in range(3)]


def sees_by_its_own_cell(x):
    def shape():
        return x.shape

    return shape() if x.array.sum() else None


def adds_to_a_module(x):
    nl.counted += 1
    return x


def names_what_is_not_emulated(x):
    if x is None:
        return nl.arange, nl.atomic_rmw
    return nl.add(x, x)


def loads_by_a_local_name(x):
    from nki import language  # noqa: PLC0415

    return language.load(x)


def catches_all(x):
    try:
        return helper(x)
    except:  # noqa: E722
        return 0


def returns_in_the_end(x):
    try:
        x = helper(x)
    finally:
        return x  # noqa: B012


def imports_two(x):
    from collections import abc, deque  # noqa: PLC0415

    return abc, deque, x


def imports_a_clock(x):
    from math import ceil  # noqa: PLC0415
    from time import localtime, time  # noqa: PLC0415

    return ceil(x), localtime, time


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
        lambda _: Wide(3).double(),
        lambda _: Sub(3).tiles(),
        in_a_scope,
        names_a_module,
        imports_two,
        closure(Wide(3)),
        closure(Kind.ONE),
        closure(Member.SMALL),
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
        catches_all,
        returns_in_the_end,
        in_silence,
        imports_a_clock,
        lambda x: list(map(print, x)),
        lambda x: remembered()["scale"] * x,
        lambda x: operator.attrgetter("storage")(x),
        lambda x: inner.scale * x,
        in_a_telling_scope,
        sees_by_a_cell,
        sees_by_its_own_cell,
        adds_to_a_module,
        lambda x: x.fill(3),
        lambda x: x.store(ARRAY),
        closure(Mixed.A),
        closure(Loud()),
        closure(np.timedelta64(1, "s")),
        closure(Table(scale=2)),
        closure(collections.defaultdict(int)),
        closure(Text("x")),
        closure(Slotted()),
        closure(np.zeros(1, [("a", "f4")])[0]),
        types.FunctionType(compile("from .a import b", "x.py", "exec"), {"__name__": "p.q"}),
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


def scaled_by(x):
    return scaled_by.factor * x


scaled_by.factor = 2.0


def through(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args) * WIDTH

    return call


@nki.jit
@through
def decorated(x):
    return x


PART = functools.partial(helper, x=3)
PLAN = Plan(3)
WIDE = Wide(3)


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (scaled_by, lambda patch: patch.setattr(scaled_by, "factor", 3.0)),
        (lambda _: Sub(3).width, lambda patch: patch.setattr(Sub, "width", 5, raising=False)),
        (lambda _: Plan(3), lambda patch: patch.setattr(Plan, "_new", 5, raising=False)),
        (lambda _: Plan(), lambda patch: patch.setattr(Plan.__init__, "__defaults__", (9, []))),
        (lambda _: WIDE.double(), lambda patch: patch.setitem(globals(), "WIDTH", 5)),
        (lambda _: Member.SMALL.wide, lambda patch: patch.setitem(globals(), "WIDTH", 5)),
        (lambda _: Member.SMALL, lambda patch: patch.setitem(Member.SMALL.value, "width", 5)),
        (lambda _: PLAN.tiles(), lambda patch: patch.setattr(PLAN, "__dict__", {"width": 3})),
        (lambda _: PLAN.tiles(), lambda patch: patch.setattr(PLAN, "__class__", Sub)),
        (lambda _: PART(), lambda patch: patch.setitem(PART.keywords, "x", 5)),
        (lambda x: decorated(x), lambda patch: patch.setitem(globals(), "WIDTH", 5)),
        (lambda x: isinstance(x, Shape), lambda _: Shape.register(Wide)),
        (lambda _: Defaulted(), lambda patch: patch.setattr(CONFIG, "WIDTH", 9)),
        (lambda x: Answering(x), lambda patch: patch.setitem(globals(), "WIDTH", 5)),
        (lambda x: nl.add(x, x), lambda patch: patch.setattr(nl, "add", nl.multiply)),
        (lambda x: math.ceil(x), lambda patch: patch.setattr(math, "ceil", math.floor)),
        (lambda x: max(x), lambda patch: patch.setattr(builtins, "max", min)),
        (lambda x: print(x), lambda patch: patch.setattr(builtins, "print", min)),
        (lambda _: PART(), lambda patch: patch.setattr(PART, "note", 5, raising=False)),
        (closure(GenericAlias(Plan, (int,))), lambda patch: patch.setattr(Plan, "width", 9)),
        (lambda x: helper(x), lambda patch: patch.setattr(helper, "__doc__", "another")),
    ],
)
def test_a_change_by_another_way_is_seen(function, change, monkeypatch):
    before = Surroundings(function)
    assert before.are_unchanged()
    with monkeypatch.context() as patch:
        change(patch)
        assert not before.are_unchanged()


def test_another_base_class_is_seen():
    before = Surroundings(lambda _: Sub(3))
    try:
        Sub.__bases__ = (Talkative,)
        assert not before.are_unchanged()
    finally:
        Sub.__bases__ = (Plan,)
    assert before.are_unchanged()


def test_a_print_of_the_users_own_is_looked_at(monkeypatch):
    monkeypatch.setattr(builtins, "print", functools.partial(print, flush=True))
    with pytest.raises(Unforeseeable):
        Surroundings(lambda x: print(x))


def test_a_module_that_makes_its_attributes_may_change(monkeypatch):
    monkeypatch.setattr(CONFIG, "__getattr__", lambda _: 3, raising=False)
    with pytest.raises(Unforeseeable):
        Surroundings(lambda x: CONFIG.OTHER * x)


def test_what_is_nested_very_deeply_is_not_foreseeable():
    chain = []
    for _ in range(5000):
        chain = [chain]
    with pytest.raises(Unforeseeable):
        Surroundings(closure(chain))


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
