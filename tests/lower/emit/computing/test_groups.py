import numpy as np
import pytest

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.lower.emit.computing.groups import ones_by_group
from trnsim.lower.kernels.tiles import new
from trnsim.lower.program import run_graph
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.kernel import Kernel
from trnsim.runner import run


def sums_of_groups(groups, size, rows, *, is_spread=True):
    """Columns of a product summed by groups, which come back to each column: [rows, columns]."""
    graph = Graph()
    x, w = graph.input((rows, 16), "float32"), graph.input((16, groups * size), "float32")
    wide = graph.apply(DotGeneral(), x, w)
    parts = graph.reshape(wide, (rows, groups, size))
    total = graph.reduce("add", parts, (2,))
    if is_spread:
        back = graph.broadcast_in_dim(total, parts.shape, (0, 1))
        back = graph.reshape(back, wide.shape)
        graph.outputs = [graph.elementwise("subtract", wide, back)]
    else:
        graph.outputs = [total]
    return graph, frozenset({w.number})


def arrays_of(graph):
    rng = np.random.default_rng(0)
    return [np.rint(4 * rng.standard_normal(one.shape)).astype(np.float32) for one in graph.inputs]


SIZES = [(2, 64), (32, 4), (16, 10), (2, 130), (3, 100), (32, 10), (1, 140), (7, 1)]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize(("groups", "size"), SIZES)
def test_each_column_has_the_sum_of_its_group(groups, size, rows):
    graph, weights = sums_of_groups(groups, size, rows)
    x, w = arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    parts = (x @ w).reshape(rows, groups, size)
    wanted = parts - parts.sum(-1, keepdims=True)
    assert np.array_equal(found, wanted.reshape(rows, -1))


@pytest.mark.parametrize(("groups", "size"), SIZES)
def test_the_sums_themselves_are_one_to_a_group(groups, size):
    graph, weights = sums_of_groups(groups, size, 5, is_spread=False)
    x, w = arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    assert np.array_equal(found, (x @ w).reshape(5, groups, size).sum(-1))


def test_sums_that_come_back_do_not_leave_the_chip():
    graph, weights = sums_of_groups(16, 10, 5)
    made = run_graph(graph, arrays_of(graph), "trn1", weights, numerics=False)
    moved = [one for one in made.timeline.spans() if one.operands.startswith("dst=HBM")]
    ends = ("[5, 160]", "[5, 1, 160]", "[5, 128]")
    assert all(one.operands.removeprefix("dst=HBM ").startswith(ends) for one in moved)


@pytest.mark.parametrize(
    ("size", "block", "rows", "columns"),
    [(10, 128, 0, 0), (10, 128, 1, 0), (10, 128, 0, 1), (10, 128, 2, 1), (130, 128, 1, 0),
     (4, 120, 1, 1), (64, 128, 0, 1)],
)  # fmt: skip
def test_ones_stand_where_a_row_and_a_column_are_of_one_group(size, block, rows, columns):
    def kernel(like):
        out = nl.ndarray(tuple(like.shape), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = new((block, block))
        nisa.tensor_copy(dst=tile, src=ones_by_group(size, block, rows, columns))
        nisa.dma_copy(dst=out, src=tile)
        return out

    found = run(Kernel(kernel, {}), np.zeros((block, block), np.float32), target="trn1").outputs
    row = (rows * block + np.arange(block)) // size
    column = (columns * block + np.arange(block)) // size
    assert np.array_equal(found, row[:, None] == column)
