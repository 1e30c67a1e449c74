"""Kernels that are no weights, against sums over windows that numpy takes, and their time."""

import ml_dtypes
import numpy as np
import pytest

from trnsim import arch
from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution

BF16 = np.dtype(ml_dtypes.bfloat16)
ORDERS = {"as they lie": (0, 1, 2, 3), "swapped": (1, 0, 2, 3), "taps first": (2, 3, 0, 1)}


def graph_of(image, kernel, order, dtype="bfloat16", *, is_reversed=False):
    """A convolution whose kernels are a transpose of an input that is no weight."""
    graph = Graph()
    x, w = graph.input(image, dtype), graph.input(tuple(kernel[dim] for dim in order), dtype)
    kernels = graph.transpose(w, tuple(order.index(dim) for dim in range(4)))
    edge = tuple(size // 2 for size in kernel[2:])
    operation = Convolution((1, 1), edge, edge, (0, 0), (1, 1), 1, is_reversed)
    graph.outputs = [graph.apply(operation, x, kernels, dtype="float32")]
    return graph


def convolved(image, kernel):
    """The sum over channels and taps in float64; a window around each element."""
    high, wide = image.shape[2:]
    down, across = kernel.shape[2] // 2, kernel.shape[3] // 2
    padded = np.pad(image, ((0, 0), (0, 0), (down, down), (across, across)))
    total = 0.0
    for y, x in np.ndindex(*kernel.shape[2:]):
        seen = padded[:, :, y : y + high, x : x + wide]
        total = total + np.einsum("nchw,oc->nohw", seen, kernel[:, :, y, x])
    return total


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize(
    ("image", "kernel"),
    [
        ((1, 1, 1, 1), (1, 1, 1, 1)),
        ((2, 3, 5, 4), (7, 3, 3, 5)),
        pytest.param((3, 130, 2, 3), (131, 130, 3, 3), marks=pytest.mark.slow),
        pytest.param((1, 257, 3, 2), (5, 257, 7, 7), marks=pytest.mark.slow),
        pytest.param((2, 140, 2, 2), (520, 140, 1, 3), marks=pytest.mark.slow),
    ],
)
def test_kernels_in_any_order_give_the_sum_over_windows(image, kernel, order):
    for dtype, is_reversed in (("bfloat16", False), ("float32", True)):
        graph = graph_of(image, kernel, order, dtype, is_reversed=is_reversed)
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(v.shape).astype(v.type.numpy_dtype()) for v in graph.inputs]
        x, w = (array.astype(np.float64) for array in arrays)
        w = w.transpose([order.index(dim) for dim in range(4)])
        expected = convolved(x, w[:, :, ::-1, ::-1] if is_reversed else w)
        (found,) = evaluate_program(graph, arrays)
        assert np.abs(found - expected).max() <= 1e-4 * max(np.abs(expected).max(), 1.0)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("order", [ORDERS["as they lie"], ORDERS["swapped"]])
def test_kernels_of_tiny_images_take_little_more_than_their_bytes(order, target):
    graph = graph_of((4, 512, 2, 2), (512, 512, 3, 3), order)
    nbytes = 512 * 512 * 9 * BF16.itemsize
    least_s = nbytes / float(arch.target(target).core.dma_bytes_per_s)
    assert compile(graph, target=target).device_time_s <= 2.5 * least_s + 20e-6
