"""Movements, and which elements of a result are written."""

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN_X4, FLOAT32, UINT8, UINT16, UINT32
from trnsim.errors import UninitializedRead
from trnsim.isa import (
    Activate2,
    Activation,
    AffineSelect,
    BnStats,
    DmaCompute,
    DmaCopy,
    DmaTranspose,
    Dropout,
    Exponential,
    LocalGather,
    Max8,
    NcFindIndex8,
    NcMatchReplace8,
    NcNGather,
    NcStreamShuffle,
    NcTranspose,
    QuantizeMx,
    RangeSelect,
    Reciprocal,
    ReduceCmd,
    ScalarTensorTensor,
    SelectReduce,
    TensorCopy,
    TensorCopyPredicated,
    TensorPartitionReduce,
    TensorReduce,
    TensorScalar,
    TensorScalarCumulative,
    TensorScalarReduce,
    TensorTensor,
    TensorTensorScan,
)
from trnsim.isa.language.definedness import identity, result_flags, transposed_rows

P, F = 32, 16


def test_rearrangements_keep_every_element():
    array = np.arange(12).reshape(2, 3, 2)
    assert identity(array) is array
    assert transposed_rows(array).tolist() == array.reshape(2, 6).T.tolist()


@pytest.mark.parametrize(
    ("axes", "result", "dependence", "expected"),
    [
        ("P F", "P F", "same element", [[1, 1, 0], [1, 1, 1]]),
        ("P F", "F P", "same element", [[1, 1], [1, 1], [0, 1]]),
        ("P F", "P 1", "same element", [[0], [1]]),
        ("P F", "P E", "same element", [[0], [1]]),
        ("P F", "1 F", "same element", [[1, 1, 0]]),
        ("K M", "M N", "same element", [[1], [1], [0]]),
        ("K N", "M N", "same element", [[1, 1, 0]]),
        ("P F", "P F", "elements so far", [[1, 1, 0], [1, 1, 1]]),
        ("P F", "P F", "row", [[0, 0, 0], [1, 1, 1]]),
    ],
)
def test_axes_say_what_a_result_comes_of(axes, result, dependence, expected):
    flags = np.array([[1, 1, 0], [1, 1, 1]], bool)
    found = result_flags(flags, tuple(axes.split()), tuple(result.split()), dependence)
    assert found.astype(int).tolist() == expected


def test_what_comes_after_a_gap_in_a_row_is_not_known_to_a_prefix():
    flags = np.array([[1, 0, 1], [0, 1, 1]], bool)
    found = result_flags(flags, ("P", "F"), ("P", "F"), "elements so far")
    assert found.astype(int).tolist() == [[1, 0, 0], [0, 0, 0]]


# Each instruction with one operand written in part: what depends on the rest is found by giving the
# rest other values, and comparing.


class Tiles:
    """Operands of an instruction; the one called `partial` is unwritten where `holes` are."""

    def __init__(self, work, partial, holes, noise):
        self._work, self._partial, self._holes, self._noise = work, partial, holes, noise
        self._rng = np.random.default_rng(1)
        self.results = []

    def operand(self, name, shape=(P, F), dtype=FLOAT32, low=0.5, high=2.0):
        values = self._rng.uniform(low, high, shape)
        values = np.floor(values) if dtype.is_integer else values
        tile = self._work.tile(values, dtype)
        if name == self._partial:
            holes = self._holes(shape)
            other = np.random.default_rng(self._noise).uniform(low, high, shape)
            other = np.floor(other) if dtype.is_integer else other
            tile.array[holes] = other.astype(tile.array.dtype)[holes]
            tile.mark_written_where(~holes)
        return tile

    def out(self, shape=(P, F), dtype=FLOAT32):
        tile = self._work.empty(shape, dtype)
        tile.storage.data[...] = 0
        self.results.append(tile)
        return tile


def shuffled(t):
    mask = (255, 255, *range(30))
    return NcStreamShuffle(t.out(), t.operand("src"), mask)


CASES = {
    "tensor_copy": (lambda t: TensorCopy(t.out(), t.operand("src")), "src"),
    "dma_copy": (lambda t: DmaCopy(t.out(), t.operand("src")), "src"),
    "dma_transpose": (
        lambda t: DmaTranspose(t.out((F, P), BFLOAT16), t.operand("src", (P, F), BFLOAT16)),
        "src",
    ),
    "dma_compute": (lambda t: DmaCompute(t.out(), (t.operand("a"), t.operand("b")), "add"), "a b"),
    "nc_transpose": (lambda t: NcTranspose(t.out((16, 16)), t.operand("data", (16, 16))), "data"),
    "tensor_tensor": (
        lambda t: TensorTensor(t.out(), t.operand("data1"), t.operand("data2"), "add"),
        "data1 data2",
    ),
    "tensor_scalar": (
        lambda t: TensorScalar(
            t.out(), t.operand("data"), "add", t.operand("operand0", (P, 1)), op1="multiply",
            operand1=t.operand("operand1", (P, 1)),
        ),
        "data operand0 operand1",
    ),
    "scalar_tensor_tensor": (
        lambda t: ScalarTensorTensor(
            t.out(), t.operand("data"), "add", t.operand("o", (P, 1)), "add", t.operand("operand1")
        ),
        "data o operand1",
    ),
    "reciprocal": (lambda t: Reciprocal(t.out(), t.operand("data")), "data"),
    "activation": (
        lambda t: Activation(
            t.out(), "exp", t.operand("data"), t.operand("bias", (P, 1)),
            t.operand("scale", (P, 1)), reduce_res=t.out((P, 1)), reduce_cmd=ReduceCmd.reset_reduce,
        ),
        "data bias scale",
    ),
    "activate2": (
        lambda t: Activate2(t.out(), "exp", t.operand("data"), 1.0, 0.0, "multiply", "add"),
        "data",
    ),
    "exponential": (
        lambda t: Exponential(
            t.out(), t.operand("src"), t.operand("max", (P, 1)), t.out((P, 1)),
            ReduceCmd.reset_reduce,
        ),
        "src max",
    ),
    "tensor_scalar_reduce": (
        lambda t: TensorScalarReduce(t.out(), t.operand("data"), "add", 1.0, "add", t.out((P, 1))),
        "data",
    ),
    "tensor_reduce": (
        lambda t: TensorReduce(t.out((P, 4)), "add", t.operand("data", (P, 4, 4)), 2), "data",
    ),
    "tensor_partition_reduce": (
        lambda t: TensorPartitionReduce(t.out((1, F)), "add", t.operand("data")), "data",
    ),
    "tensor_tensor_scan": (
        lambda t: TensorTensorScan(
            t.out(), t.operand("data0"), t.operand("data1"), t.operand("initial", (P, 1)),
            "multiply", "add",
        ),
        "data0 data1 initial",
    ),
    "tensor_scalar_cumulative": (
        lambda t: TensorScalarCumulative(t.out(), t.operand("src"), "multiply", "add", 1.0), "src",
    ),
    "range_select": (
        lambda t: RangeSelect(
            t.out(), t.operand("x"), "greater_equal", "less", t.operand("low", (P, 1), high=0.6),
            t.operand("high", (P, 1), low=20.0, high=30.0),
        ),
        "x",
    ),
    "affine_select": (
        lambda t: AffineSelect(t.out(), ((-1, F),), 1, t.operand("x"), -1.0, "greater_equal"), "x",
    ),
    "select_reduce": (
        lambda t: SelectReduce(
            t.out(), t.operand("predicate", dtype=UINT8, low=0, high=2), t.operand("x"), -1.0,
        ),
        "x",
    ),
    "dropout": (lambda t: Dropout(t.out(), t.operand("data"), 0.0), "data"),
    "nc_find_index8": (
        lambda t: NcFindIndex8(t.out((P, 8), UINT32), t.operand("d"), t.operand("vals", (P, 8))),
        "d vals",
    ),
    "nc_match_replace8": (
        lambda t: NcMatchReplace8(t.out(), t.operand("d"), t.operand("vals", (P, 8)), -1.0),
        "d vals",
    ),
    "tensor_copy_predicated": (
        lambda t: TensorCopyPredicated(
            t.out(), t.operand("src"), t.operand("predicate", dtype=UINT32, low=0, high=2)
        ),
        "src",
    ),
    "local_gather": (
        lambda t: LocalGather(
            t.out((P, 32)), t.operand("src"), t.operand("index", (P, 2), UINT16, 0, F)
        ),
        "src",
    ),
    "nc_n_gather": (
        lambda t: NcNGather(
            t.out((P, 8)), t.operand("data"), t.operand("indices", (P, 8), UINT32, 0, F)
        ),
        "data",
    ),
    "nc_stream_shuffle": (shuffled, "src"),
    "quantize_mx": (
        lambda t: QuantizeMx(
            t.out((P, F // 4), FLOAT8_E4M3FN_X4), t.operand("src", dtype=BFLOAT16),
            t.out((4, F // 4), UINT8),
        ),
        "src",
    ),
    "bn_stats": (lambda t: BnStats(t.out((P, 6)), t.operand("data")), "data"),
    "max8": (lambda t: Max8(t.out((P, 8)), t.operand("src")), "src"),
}  # fmt: skip
HOLES = {
    "one element": lambda shape: np.indices(shape).sum(axis=0) == 0,
    "the last element": lambda shape: np.indices(shape).sum(axis=0) == sum(shape) - len(shape),
    "a column": lambda shape: np.indices(shape)[-1] == 1,
    "rows": lambda shape: np.indices(shape)[0] >= 20,
    "here and there": lambda shape: np.random.default_rng(7).random(shape) < 0.03,
}
EACH = [(name, operand) for name, (_, operands) in CASES.items() for operand in operands.split()]


def outcome(work, name, operand, holes, noise):
    tiles = Tiles(work, operand, holes, noise)
    work.issue(CASES[name][0](tiles))
    raw = [np.ascontiguousarray(tile.array).view(np.uint8).copy() for tile in tiles.results]
    cells = [bits.reshape(*tile.shape, -1) for bits, tile in zip(raw, tiles.results, strict=True)]
    return cells, [tile.written_flags() for tile in tiles.results]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("where", HOLES)
@pytest.mark.parametrize(("name", "operand"), EACH)
def test_written_is_what_no_unwritten_element_can_change(bench, core_v4, name, operand, where):
    holes, noises = HOLES[where], range(4)
    shown = []

    def seen(shape):
        shown.append(holes(shape))
        return shown[-1]

    try:
        found = [outcome(bench(core_v4), name, operand, seen, noise) for noise in noises]
    except UninitializedRead:  # nothing is left that does not depend on it
        assert (name, where) in LEAVES_NOTHING
        return
    first_cells, first_flags = found[0]
    for place, flags in enumerate(first_flags):
        changed = np.zeros(flags.shape, bool)
        for cells, other in found:
            changed |= (cells[place] != first_cells[place]).any(axis=-1)
            np.testing.assert_array_equal(other[place], flags)
        assert not (flags & changed).any(), "marked as written, and depends on what is not"
        kept = ~flags & ~changed
        if name in PRECISE and shown[0].any():
            assert not kept.any(), "marked as unwritten, and depends on nothing unwritten"


# Those of which every element changes with each of those that it comes of. An MX block may round
# to the same bits, a maximum stays, and what a predicate or a shuffle leaves nothing has written.
PRECISE = set(CASES) - {
    *("quantize_mx", "max8", "nc_find_index8", "nc_match_replace8", "bn_stats"),
    *("tensor_copy_predicated", "nc_stream_shuffle"),
}
LEAVES_NOTHING = {
    ("tensor_reduce", "a column"),
    ("tensor_partition_reduce", "rows"),
    ("bn_stats", "a column"),
    ("max8", "a column"),
    ("nc_find_index8", "a column"),
    ("nc_match_replace8", "a column"),
}
