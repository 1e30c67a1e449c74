"""Every operation of the graph: its reference against the kernel that it becomes, on every chip."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.graph import OPERATIONS, Graph, Kind
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.ops.layout import Transpose
from trnsim.graph.ops.leaves import Rng
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower import evaluate

sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))  # edges.py is a module by its name

from edges import values

np.seterr(over="ignore", invalid="ignore")
CHIPS = ("trn1", "trn2", "trn3")
EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, operation in OPERATIONS.items()
    for number, example in enumerate(operation.examples())
]


def graph_of(example):
    graph = Graph()
    given = [graph.input(one.shape, one.dtype) for one in example.operands]
    graph.outputs = list(graph.apply_to_all(example.operation, given))
    return graph


def finite(example):
    small = tuple("small" if kind == "edges" else kind for kind in example.values)
    return replace(example, values=small)


def arrays_of(example, seed=0):
    rng = np.random.default_rng(seed)
    kinds = example.values or ("edges",) * len(example.operands)
    found = [
        values(kind, wanted, example.limit, rng)
        for kind, wanted in zip(kinds, example.operands, strict=True)
    ]
    operation = example.operation
    if isinstance(operation, Elementwise):
        low, high = operation.domain
        found = [
            inside(one, low, high) if wanted.is_floating else one
            for one, wanted in zip(found, example.operands, strict=True)
        ]
        if np.isfinite(operation.largest_quotient) and example.operands[0].is_floating:
            left, right = (one.astype(np.float64) for one in found)
            with np.errstate(all="ignore"):
                is_beyond = np.abs(left / right) > operation.largest_quotient
            is_beyond &= np.isfinite(left) & (right != 0)
            found[0] = np.where(is_beyond, found[1], found[0])
    return found


def inside(array, low, high):
    """The numbers of a domain; 1 in the place of others, and of NaN where the domain ends."""
    wide = array.astype(np.float64)
    is_legal = (low <= wide) & (wide <= high) | (np.isnan(wide) & np.isinf(low))
    return np.where(is_legal, wide, 1.0).astype(array.dtype)


def assert_near(found, expected, near, unit=1.0):
    """Equal but for the last places; NaN, infinities and zeros' signs where they should be."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
        return
    ours, theirs = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    step = np.spacing(np.abs(expected)).astype(np.float64)
    finite = np.isfinite(theirs)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(ours - theirs) > np.where(
            finite, step + near * np.maximum(np.abs(theirs), unit), 0
        )
    # What rounds to infinity on one side may stay the largest number on the other.
    is_same = (ours == theirs) | np.isnan(theirs)
    assert not (off & ~is_same).any(), (ours[off & ~is_same][:8], theirs[off & ~is_same][:8])


def assert_uniform(found):
    """Numbers from 0 to below 1, as many in each tenth; few of them alike."""
    assert found.min() >= 0
    assert found.max() < 1
    shares, _ = np.histogram(found, 10, (0, 1))
    assert np.abs(shares / found.size - 0.1).max() < 0.02
    assert len(np.unique(found)) > 0.99 * found.size


@pytest.mark.parametrize(
    ("example", "chip"),
    [
        pytest.param(
            *one.values, chip, id=f"{one.id}-{chip}", marks=() if is_daily else pytest.mark.slow
        )
        for place, one in enumerate(EXAMPLES)
        for at, chip in enumerate(CHIPS)
        # Programs of the example run on the chip before (tests/compiler/test_program.py), and
        # examples of an operation stand beside each other: together they meet all chips.
        # The first of an operation and every second one after it are enough.
        for number in [int(one.id.rpartition("-")[2])]
        for is_daily in [at == (place + 1) % len(CHIPS) and number % 2 == 0]
    ],
)
def test_a_kernel_gives_what_the_reference_says(example, chip):
    if chip == "trn1" and isinstance(example.operation, Transpose | Reduce):
        example = finite(example)  # its transposes are products
    graph, given = graph_of(example), arrays_of(example)
    if example.operation.kind is Kind.COLLECTIVE:
        name = example.operation.name
        with pytest.raises(NotModelled, match=f"^{name} has no kernel yet: it exchanges values"):
            evaluate(graph, given, chip)
        return
    types = [*example.operands, *(value.type for value in graph.outputs)]
    if chip != "trn3" and any(one.dtype == "float8_e4m3fn" for one in types):
        with pytest.raises(IllegalInstruction, match="float8_e4m3fn on NeuronCore"):
            evaluate(graph, given, chip)
        return
    found = evaluate(graph, given, chip)
    if isinstance(example.operation, Rng):  # no values are promised
        assert_uniform(found[0])
        return
    with np.errstate(all="ignore"):
        expected = graph.reference(given)
    for ours, theirs in zip(found, expected, strict=True):
        assert_near(ours, theirs, example.operation.tolerance, example.operation.tolerance_floor)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(128, 64), (300, 40), (8192,)])
def test_random_numbers_are_uniform_and_no_draw_is_another(chip, shape):
    graph = Graph()
    draws = graph.rng(shape), graph.rng(shape)
    graph.outputs = [graph.elementwise("negate", draws[0]), graph.elementwise("negate", draws[1])]
    first, second = (-found.astype(np.float64) for found in evaluate(graph, [], chip))
    for found in (first, second):
        assert found.shape == shape
        assert 0 <= found.min() < 0.01
        assert 0.99 < found.max() < 1
        # Five standard deviations of the mean and of the variance of as many numbers.
        assert found.mean() == pytest.approx(1 / 2, abs=5 * (1 / 12 / found.size) ** 0.5)
        assert found.var() == pytest.approx(1 / 12, abs=5 * (1 / 180 / found.size) ** 0.5)
        counts = np.histogram(found, 16, (0, 1))[0]
        assert abs(counts / found.size - 1 / 16).max() < 5 * (15 / 256 / found.size) ** 0.5
        assert len(np.unique(found)) > 0.99 * found.size
        alike = np.corrcoef(found.ravel()[:-1], found.ravel()[1:])[0, 1]
        assert abs(alike) < 5 / found.size**0.5
    assert (first != second).mean() > 0.99
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / first.size**0.5
