"""Likeness: which ranks do the same."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.program.likeness import is_plain_data, keeps_classes, rank_classes, timing_classes


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Frozen:
    value: Any


@dataclass
class Open:
    value: Any


class Derived(Frozen):
    """A frozen dataclass whose instances may have more than its fields."""


class Color(Enum):
    red = 1
    green = 2


ones, zeros = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        ("word", str(b"word", "ascii")),
        (0.5, 0.5),
        (float("nan"), float("nan")),
        (None, None),
        (ones, zeros),
        ((1, [ones, {"key": zeros}]), (1, [zeros, {"key": ones}])),
        (Pair(1, ones), Pair(1, zeros)),
        (Frozen([[0, 1], range(2)]), Frozen([[0, 1], range(2)])),
        (np.float32(2), np.float32(2)),
        (Color.red, Color.red),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    ],
)
def test_arguments_that_a_run_without_values_cannot_tell_apart(one, other):
    assert rank_classes([(one,), (other,)]) == [(0, 1)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (ones, ones.T),
        (ones, ones.astype(np.float16)),
        (ones.astype(ml_dtypes.bfloat16), ones.astype(np.float16)),
        (ones, ones.tolist()),
        (ones, np.ma.masked_array(ones)),
        ([1], (1,)),
        ((1, 2), Pair(1, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Frozen(1), Frozen(2)),
        (Frozen(ones), Frozen(zeros)),  # no tensor: the kernel sees its values
        (Open(1), Open(1)),
        (Derived(1), Derived(1)),
        (np.float32(0.0), np.float32(-0.0)),
        (np.float32(1), np.float16(1)),
        (Color.red, Color.green),
        (lambda: 1, lambda: 1),
        (object(), object()),
    ],
)
def test_arguments_that_differ_or_may(one, other):
    assert rank_classes([(one,), (other,)]) == [(0,), (1,)]


def test_an_object_is_like_itself_and_classes_begin_with_their_first_rank():
    same, other = Open(1), object()
    assert rank_classes([(same,), (other,), (same,), (other,)]) == [(0, 2), (1, 3)]


def test_a_list_that_contains_itself_is_like_itself_alone():
    one, other = [1], [1]
    one.append(one)
    other.append(other)
    assert rank_classes([(one,), (other,), (one,)]) == [(0, 2), (1,)]


def test_tensors_of_torch_are_told_apart_by_shape_and_dtype():
    torch = pytest.importorskip("torch")
    a, b = torch.ones(2, 3), torch.zeros(2, 3)
    assert rank_classes([(a,), (b,), (a.bfloat16(),), (a.T,)]) == [(0, 1), (2,), (3,)]


def test_results_without_registers_are_plain():
    assert is_plain_data(([None, 1], {"key": "word"}, 0.5))
    assert not is_plain_data([None, object()])


@pytest.mark.parametrize(
    ("classes", "groups", "kept"),
    [
        ([(0, 1, 2, 3)], [(0, 1), (2, 3)], True),
        ([(0, 2), (1, 3)], [(0, 1, 2, 3)], True),
        ([(0, 2), (1, 3)], [(2, 0), (1, 3)], True),
        ([(0, 2), (1, 3)], [(0, 1), (2, 3)], False),
        ([(0,), (1, 2, 3)], [(0, 1), (2, 3)], False),
        ([(0,), (1, 2, 3)], [(2, 3)], True),
        ([(0,), (1,)], [(0, 1), ()], True),
    ],
)
def test_groups_have_one_class_or_whole_ones(classes, groups, kept):
    assert keeps_classes(classes, groups) is kept


@nki.jit
def reducing(x, groups, extra):
    """Some instructions of its own, then a sum over the group."""
    src, dst = (
        nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in "sd"
    )
    for _ in range(1 + extra):
        nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], groups, nl.add)


@pytest.mark.parametrize(
    ("groups", "extra", "found"),
    [
        ([[0, 1, 2, 3]], [0, 0, 0, 0], [(0, 1, 2, 3)]),
        ([[0, 1], [2, 3]], [0, 0, 0, 0], [(0, 1, 2, 3)]),
        ([[0, 1], [2, 3]], [0, 0, 1, 1], [(0, 1), (2, 3)]),
        ([[0, 1, 2, 3]], [1, 0, 1, 0], [(0, 2), (1, 3)]),
        ([[0, 1], [2, 3]], [1, 0, 1, 0], [(0,), (1,), (2,), (3,)]),
        ([[0, 1, 2], [3]], [1, 0, 0, 0], [(0,), (1,), (2,), (3,)]),
        ([[0, 1, 2], [3]], [1, 0, 0, 2], [(0,), (1, 2), (3,)]),
    ],
)
@pytest.mark.parametrize("lnc", [1, 2])
def test_ranks_keep_step_whose_programs_and_meetings_are_alike(groups, extra, found, lnc):
    group = ncc.ReplicaGroup(groups)
    inputs = [(ones, group, one) for one in extra]
    world = trnsim.run(reducing[lnc], ranks=4, inputs=inputs, races="warn")
    programs = [tuple(timeline.program for timeline in run.timelines) for run in world.runs]
    assert timing_classes(programs) == found
