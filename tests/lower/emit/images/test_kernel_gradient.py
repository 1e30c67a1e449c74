"""Gradients of kernels as convolutions of few windows, against float64, and their time."""

import numpy as np
import pytest

from trnsim import arch
from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.building.convolution import batch_groups_in_channels
from trnsim.graph.ops.contraction import Convolution
from trnsim.lower.emit.images.kernel_gradient import is_kernel_gradient

WITHIN = {"bfloat16": 5e-3, "float32": 1e-5}


def counts_of(size, kernel, strides, low, dilations):
    """How many windows there are along each dimension."""
    spans = zip(size, kernel, strides, low, dilations, strict=True)
    return tuple((n + 2 * a - d * (k - 1) - 1) // s + 1 for n, k, s, a, d in spans)


def graph_of(image, outputs, kernel, *, strides=(1, 1), low=(0, 0), dilations=(1, 1), dtype=""):
    """The gradient of kernels [outputs, C, *kernel] of images [N, C, *D]."""
    graph, counts = Graph(), counts_of(image[2:], kernel, strides, low, dilations)
    x = graph.input(image, dtype or "bfloat16")
    slopes = graph.input((image[0], outputs, *counts), x.dtype)
    spans = zip(image[2:], kernel, counts, strides, low, dilations, strict=True)
    high = tuple((c - 1) * s + (k - 1) * d + 1 - a - n for n, k, c, s, a, d in spans)
    operation = Convolution(dilations, low, high, (0,) * len(kernel), strides)
    order = (1, 0, *range(2, len(image)))
    sides = (graph.transpose(side, order) for side in (x, slopes))
    sums = graph.transpose(graph.apply(operation, *sides, dtype="float32"), order)
    graph.outputs = [graph.elementwise("convert", sums, dtype=x.dtype)]
    return graph


def gradient(x, slopes, kernel, strides, low, dilations):
    """The sum over images and positions, each tap by itself, in float64."""
    x, slopes = x.astype(np.float64), slopes.astype(np.float64)
    counts = slopes.shape[2:]
    wide = [(a, (c - 1) * s + k * d) for a, c, s, k, d in zip(low, counts, strides, kernel, dilations, strict=True)]  # fmt: skip  # noqa: E501
    padded = np.pad(x, ((0, 0), (0, 0), *wide))
    found = np.zeros((slopes.shape[1], x.shape[1], *kernel))
    for tap in np.ndindex(*kernel):
        spans = zip(tap, dilations, counts, strides, strict=True)
        seen = padded[(..., *(slice(i * d, i * d + (c - 1) * s + 1, s) for i, d, c, s in spans))]
        flat = (one.swapaxes(0, 1).reshape(one.shape[1], -1) for one in (slopes, seen))
        found[(..., *tap)] = np.matmul(next(flat), next(flat).T)
    return found


CASES = {
    "few channels": ((4, 3, 8, 8), 5, (3, 3), {"low": (1, 1)}),
    "one channel": ((2, 1, 9, 8), 1, (2, 2), {}),
    "many channels": ((4, 130, 6, 5), 140, (3, 3), {"low": (1, 1)}),
    "strides": ((3, 3, 20, 31), 8, (7, 7), {"strides": (2, 2), "low": (3, 3)}),
    "wide rows": ((5, 16, 9, 140), 16, (3, 1), {"low": (1, 0)}),
    "dilations": (
        (1, 7, 16, 12),
        9,
        (3, 5),
        {"strides": (1, 2), "low": (2, 1), "dilations": (2, 3)},
    ),
    "sequences": ((2, 5, 40), 6, (5,), {"strides": (2,), "low": (2,), "dilations": (1,)}),
    "many kernels": ((3, 200, 3, 3), 600, (3, 3), {"low": (1, 1)}),
    "one tap": ((33, 4, 5, 7), 6, (1, 1), {"strides": (2, 3)}),
    "chunks in PSUM": ((8, 40, 28, 28), 20, (3, 3), {"low": (1, 1)}),
    "chunks in SBUF": ((20, 260, 14, 14), 260, (3, 3), {"low": (1, 1)}),
}
SHORT = ("few channels", "one channel", "dilations", "sequences", "one tap")


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize(
    "case",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_a_gradient_is_the_sum_over_images_and_positions(case, dtype):
    image, outputs, kernel, given = CASES[case]
    options = {"strides": (1, 1), "low": (0, 0), "dilations": (1, 1), **given}
    graph = graph_of(image, outputs, kernel, **options, dtype=dtype)
    (node,) = [node for node in graph.nodes if isinstance(node.operation, Convolution)]
    assert is_kernel_gradient(node)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.shape).astype(v.type.numpy_dtype()) for v in graph.inputs]
    expected = gradient(*arrays, kernel, *options.values())
    (found,) = evaluate_program(graph, arrays)
    assert np.abs(found - expected).max() <= WITHIN[dtype] * max(np.abs(expected).max(), 1)


def test_a_convolution_of_many_channels_is_no_gradient_of_a_kernel():
    graph = Graph()
    x, w = graph.input((4, 128, 8, 8), "bfloat16"), graph.input((64, 128, 3, 3), "bfloat16")
    pairs = (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)
    graph.apply(Convolution(*pairs), x, w)
    assert not is_kernel_gradient(graph.nodes[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "kernels", "taps"),
    [((4, 512, 7, 7), 512, 3), ((4, 64, 56, 56), 64, 3), ((4, 3, 64, 64), 64, 7)],
)
def test_a_gradient_takes_little_more_than_its_products_and_bytes(image, kernels, taps):
    for target in ("trn1", "trn2", "trn3"):
        graph = graph_of(image, kernels, (taps, taps), low=(taps // 2,) * 2)
        core = arch.target(target).core
        columns = image[1] * taps**2
        blocks = -(-image[0] * image[2] * image[3] // 128)
        product_s = blocks * columns * -(-kernels // 128) / float(core.tensor_clock_hz)
        copy_s = blocks * columns / float(core.vector_clock_hz)
        nbytes = sum(value.type.nbytes for value in (*graph.inputs, *graph.outputs))
        bytes_s = nbytes / float(core.dma_bytes_per_s)
        time_s = compile(graph, target=target).device_time_s
        assert time_s <= 2.5 * (product_s + copy_s + bytes_s) + 40e-6


def convolved(x, w, operation):
    """The windows of images by kernels in float64, tap by tap."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    sizes = [(n - 1) * (gap + 1) + 1 for n, gap in zip(x.shape[2:], operation.gaps, strict=True)]
    wide = np.zeros((*x.shape[:2], *sizes))
    wide[(..., *(slice(None, None, gap + 1) for gap in operation.gaps))] = x
    sides = zip(operation.low, operation.high, strict=True)
    wide = np.pad(wide, ((0, 0), (0, 0), *sides))
    w = np.flip(w, (2, 3)) if operation.is_reversed else w
    high, wide_count = (n - k + 1 for n, k in zip(wide.shape[2:], w.shape[2:], strict=True))
    found = []
    for images, kernels in zip(
        np.split(wide, operation.groups, 1), np.split(w, operation.groups), strict=True
    ):
        found.append(
            sum(
                np.einsum("nchw,oc->nohw", images[..., y : y + high, x : x + wide_count], tap)
                for y, x in np.ndindex(*w.shape[2:])
                for tap in [kernels[:, :, y, x]]
            )
        )
    return np.concatenate(found, 1)


STILL, ONES, AROUND = (0, 0), (1, 1), (1, 1)


@pytest.mark.parametrize(
    ("image", "kernel", "operation", "is_gradient"),
    [
        ((3, 4, 8, 7), (5, 4, 8, 7), Convolution(ONES, AROUND, AROUND, STILL, ONES), True),
        (
            (3, 4, 8, 7),
            (5, 4, 8, 7),
            Convolution(ONES, AROUND, AROUND, STILL, ONES, 1, True),
            False,
        ),
        ((3, 4, 8, 7), (6, 2, 8, 7), Convolution(ONES, AROUND, AROUND, STILL, ONES, 2), True),
        ((3, 4, 8, 7), (6, 2, 3, 3), Convolution(ONES, AROUND, AROUND, STILL, ONES, 2), False),
        ((3, 4, 5, 7), (5, 4, 8, 7), Convolution(ONES, AROUND, AROUND, (1, 0), ONES), False),
        ((3, 4, 20, 15), (5, 4, 8, 7), Convolution(ONES, STILL, STILL, STILL, ONES), True),
        ((3, 4, 20, 16), (5, 4, 8, 7), Convolution(ONES, STILL, STILL, STILL, ONES), False),
    ],
    ids=[
        "plain",
        "reversed",
        "groups",
        "groups of many windows",
        "gaps",
        "117 windows",
        "130 windows",
    ],
)
def test_only_a_convolution_of_few_windows_without_gaps_is_a_gradient(
    image, kernel, operation, is_gradient
):
    graph = Graph()
    graph.outputs = [graph.apply(operation, *(graph.input(s, "float32") for s in (image, kernel)))]
    assert is_kernel_gradient(graph.nodes[-1]) == is_gradient
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (image, kernel))
    (found,) = evaluate_program(graph, [x, w])
    np.testing.assert_allclose(found, convolved(x, w, operation), rtol=1e-4, atol=1e-4)


SWAPS = {
    "of all dimensions": (
        lambda g, v: g.transpose(v, (1, 0, 3, 2)),
        lambda a: a.swapaxes(0, 1).swapaxes(2, 3),
    ),
    "of images and channels": (
        lambda g, v: g.transpose(v, (1, 0, 2, 3)),
        lambda a: a.swapaxes(0, 1),
    ),
    "a reshape": (lambda g, v: g.reshape(v, (3, 4, 5, 5)), lambda a: a.reshape(3, 4, 5, 5)),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_operands_that_look_like_exchanged_images_and_channels(swap):
    in_graph, in_numpy = SWAPS[swap]
    graph = Graph()
    x, w = graph.input((4, 3, 5, 5), "float32"), graph.input((4, 3, 5, 5), "float32")
    operation = Convolution(ONES, AROUND, AROUND, STILL, ONES)
    graph.outputs = [graph.apply(operation, in_graph(graph, x), in_graph(graph, w))]
    assert is_kernel_gradient(graph.nodes[-1])
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((4, 3, 5, 5)).astype(np.float32) for _ in range(2)]
    expected = convolved(*map(in_numpy, arrays), operation)
    (found,) = evaluate_program(graph, arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


READERS = {
    "an integer": (
        lambda g, v: [g.elementwise("convert", v, dtype="int32")],
        lambda a: [np.trunc(a)],
    ),
    "a slice": (lambda g, v: [g.slice(v, (1, 0, 0, 1), (2, 5, 3, 2))], lambda a: [a[1:, :, :, 1:]]),
    "a sum of copies": (
        lambda g, v: [
            g.reduce("add", g.broadcast_in_dim(v, (2, *v.shape), (1, 2, 3, 4)), (0, 1, 2))
        ],
        lambda a: [2 * a.sum((0, 1))],
    ),
    "two": (
        lambda g, v: [g.elementwise("convert", v, dtype="bfloat16"), g.elementwise("negate", v)],
        lambda a: [a, -a],
    ),
    "an output and a conversion": (
        lambda g, v: [v, g.elementwise("convert", v, dtype="bfloat16")],
        lambda a: [a, a],
    ),
    "a transpose of two readers": (
        lambda g, v: [v, g.transpose(v, (3, 1, 0, 2))],
        lambda a: [a, a.transpose(3, 1, 0, 2)],
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_each_reader_of_a_gradient_has_its_values(kind):
    in_graph, in_numpy = READERS[kind]
    graph = Graph()
    x, w = graph.input((3, 4, 8, 7), "float32"), graph.input((5, 4, 8, 7), "float32")
    operation = Convolution(ONES, AROUND, AROUND, STILL, ONES)
    sums = graph.apply(operation, x, w)
    assert is_kernel_gradient(graph.nodes[-1])
    graph.outputs = in_graph(graph, sums)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(value.shape).astype(np.float32) for value in (x, w)]
    expected = in_numpy(convolved(*arrays, operation))
    for value, ours, theirs in zip(
        graph.outputs, evaluate_program(graph, arrays), expected, strict=True
    ):
        rate = 1e-4 if value.dtype == "float32" else 5e-3
        within = 0 if value.dtype == "int32" else rate
        np.testing.assert_allclose(np.asarray(ours, float), theirs, rtol=within, atol=within)


GROUPED = {
    "one block": ((2, 12, 6, 5), 12, 12, {"low": (1, 1)}),
    "blocks": ((1, 130, 4, 4), 130, 130, {"low": (1, 1)}),
    "groups of several": ((2, 12, 6, 6), 18, 6, {"low": (1, 1), "strides": (2, 2)}),
    "channels of no whole block": ((1, 150, 4, 4), 50, 50, {"low": (1, 1)}),
    "large groups": ((1, 160, 4, 4), 160, 2, {"low": (1, 1)}),
}


def grouped_graph(image, outputs, groups, *, strides=(1, 1), low=(0, 0), dtype="bfloat16"):
    """The gradient of kernels [outputs, C / groups, 3, 3]."""
    graph, counts = Graph(), counts_of(image[2:], (3, 3), strides, low, (1, 1))
    x, slopes = graph.input(image, dtype), graph.input((image[0], outputs, *counts), dtype)
    spans = zip(image[2:], counts, strides, low, strict=True)
    high = tuple((c - 1) * s + 3 - a - n for n, c, s, a in spans)
    operation = Convolution((1, 1), low, high, (0, 0), strides, groups)
    images = batch_groups_in_channels(graph, graph.transpose(x, (1, 0, 2, 3)), groups)
    sums = graph.apply(operation, images, graph.transpose(slopes, (1, 0, 2, 3)), dtype="float32")
    graph.outputs = [graph.elementwise("convert", graph.transpose(sums, (1, 0, 2, 3)), dtype=dtype)]
    return graph


@pytest.mark.slow_cases("blocks", "groups of several", "channels of no whole block", "large groups")
@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("case", GROUPED)
def test_a_gradient_of_groups_is_that_of_each_group(case, dtype):
    image, outputs, groups, options = GROUPED[case]
    graph = grouped_graph(image, outputs, groups, dtype=dtype, **options)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(v.shape).astype(v.type.numpy_dtype()) for v in graph.inputs]
    strides, low = options.get("strides", (1, 1)), options["low"]
    pairs = zip(*(np.split(array, groups, 1) for array in arrays), strict=True)
    parts = [gradient(*pair, (3, 3), strides, low, (1, 1)) for pair in pairs]
    (found,) = evaluate_program(graph, arrays)
    expected = np.concatenate(parts)
    error = np.abs(found.astype(np.float64) - expected).max()
    assert error < WITHIN[dtype] * np.abs(expected).max()


def test_an_infinite_channel_reaches_no_other_group():
    graph = grouped_graph((1, 4, 4, 4), 4, 4, low=(1, 1))
    arrays = [np.ones(v.shape, v.type.numpy_dtype()) for v in graph.inputs]
    arrays[0][0, 1] = np.inf
    (found,) = evaluate_program(graph, arrays)
    assert np.isfinite(found[[0, 2, 3]].astype(np.float32)).all()


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_gradient_of_groups_takes_no_multiple_of_a_dense_one(chip):
    """Every group by itself took 1.7 ms on trn2."""
    graph = grouped_graph((4, 64, 14, 14), 64, 64, low=(1, 1))
    dense = graph_of((4, 64, 14, 14), 64, (3, 3), low=(1, 1))
    grouped_s, dense_s = (compile(g, chip).device_time_s for g in (graph, dense))
    assert grouped_s < 1.5 * dense_s
