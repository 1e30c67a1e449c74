import ml_dtypes
import numpy as np
import pytest

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.reductions import ReduceWindow
from trnsim.graph.ops.rounding import Convert
from trnsim.lower import costs
from trnsim.lower.emit.images.pooling import is_emitted
from trnsim.lower.program import run_graph

BODIES = {"add": np.sum, "maximum": np.max, "minimum": np.min, "multiply": np.prod}


def windows(op, shape, lengths, strides=1, low=0, high=0, dilations=1):
    """Windows over the last dimensions; a number stands for each of them."""
    rank = len(lengths)
    spread = lambda one: (one,) * rank if isinstance(one, int) else one  # noqa: E731
    ones, zeros = (1,) * (len(shape) - rank), (0,) * (len(shape) - rank)
    return ReduceWindow(
        (*ones, *lengths),
        (*ones, *spread(strides)),
        (*zeros, *spread(low)),
        (*zeros, *spread(high)),
        op,
        (*ones, *spread(dilations)),
    )


def graph_of(operation, shape, dtype, before=None):
    graph = Graph()
    x = graph.input(shape, dtype)
    graph.outputs = [graph.apply(operation, x if before is None else before(graph, x))]
    return graph


def reduced(op, array, operation):
    """Each window by itself, in float64."""
    start = {"add": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf}[op]
    sides = list(zip(operation.low, operation.high, strict=True))
    wide = np.pad(array.astype(np.float64), sides, constant_values=start)
    reach = [(n - 1) * d + 1 for n, d in zip(operation.lengths, operation.dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(wide, reach)
    seen = seen[tuple(slice(None, None, step) for step in operation.strides)]
    seen = seen[(..., *(slice(None, None, step) for step in operation.dilations))]
    return BODIES[op](seen, tuple(range(array.ndim, 2 * array.ndim)))


SHAPES = [
    ((2, 20, 13, 17), (3, 3), 2, 1, 1, 1),
    ((1, 140, 6, 8), (2, 2), 2, 0, 0, 1),
    ((3, 5, 7, 7), (7, 7), 1, 0, 0, 1),
    ((1, 1, 1, 1), (1, 1), 1, 0, 0, 1),
    ((1, 4, 9, 11), (1, 3), (1, 2), (0, 2), (0, 1), (1, 2)),
    ((1, 4, 9, 11), (4, 1), (3, 1), 0, (2, 0), 1),
    ((2, 130, 37), (3,), 2, 1, 0, 1),
    ((1, 4, 60, 150), (3, 3), 1, 1, 1, 1),
]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", BODIES)
@pytest.mark.parametrize("case", SHAPES)
def test_each_window_gives_its_reduction(case, op, dtype):
    shape, *given = case
    operation = windows(op, shape, *given)
    graph = graph_of(operation, shape, np.dtype(dtype).name)
    assert is_emitted(graph.nodes[0])
    array = np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(dtype)
    (found,) = evaluate_program(graph, [array], "trn1")
    wanted = reduced(op, array, operation)
    atol = 2e-6 if dtype is np.float32 else 2.0**-8
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=atol, atol=0)


def test_a_window_of_padding_alone_gives_the_neutral_element():
    operation = windows("maximum", (1, 2, 3, 3), (1, 1), 1, 1, 1)
    graph = graph_of(operation, (1, 2, 3, 3), "float32")
    (found,) = evaluate_program(graph, [np.ones((1, 2, 3, 3), np.float32)], "trn1")
    assert np.isneginf(found[:, :, 0]).all()
    assert (found[:, :, 1:-1, 1:-1] == 1).all()


def test_what_was_made_wider_is_read_as_it_was():
    shape = (1, 20, 8, 8)
    operation = windows("add", shape, (2, 2), 2)
    graph = graph_of(
        operation, shape, "bfloat16", lambda graph, x: graph.apply(Convert("float32"), x)
    )
    array = np.random.default_rng(0).standard_normal(shape).astype(ml_dtypes.bfloat16)
    (found,) = evaluate_program(graph, [array], "trn1")
    np.testing.assert_allclose(found, reduced("add", array, operation), rtol=1e-6, atol=1e-6)


def test_windows_over_images_and_channels_are_left_to_a_kernel():
    def kept(lengths, shape, dtype="float32"):
        return is_emitted(graph_of(windows("add", shape, lengths), shape, dtype).nodes[0])

    assert kept((2, 2), (1, 3, 4, 4))
    assert not kept((2, 2, 2), (1, 3, 4, 4))
    assert not kept((2, 2), (4, 4))
    assert not kept((2, 2, 2), (1, 3, 4, 4, 4))
    assert not kept((2, 2), (1, 3, 4, 4), "int32")


def test_pooling_takes_a_fraction_of_the_time_of_its_kernels():
    shape = (1, 64, 112, 112)
    graph = graph_of(windows("maximum", shape, (3, 3), 2, 1, 0), shape, "bfloat16")
    array = np.zeros(shape, ml_dtypes.bfloat16)
    run = run_graph(graph, [array], "inf2", frozenset(), numerics=False)
    before_s = sum(one.device_time_s for one in costs(graph, "inf2"))
    assert run.timeline.device_time_s < before_s / 3
