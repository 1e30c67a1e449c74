"""Convolutions emitted as products, against sums over windows that numpy takes."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from trnsim import arch
from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.layout import BroadcastInDim
from trnsim.graph.ops.rounding import Convert
from trnsim.lower import costs
from trnsim.lower.emit.images.convolution import is_emitted, window_grid
from trnsim.lower.program import run_graph

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


def attributes(rank, strides=1, low=0, high=None, gaps=0, dilations=1, groups=1, is_reversed=False):
    """The operation; a number stands for as many as there are dimensions."""
    spread = lambda one: (one,) * rank if isinstance(one, int) else one  # noqa: E731
    return Convolution(
        spread(strides),
        spread(low),
        spread(low if high is None else high),
        spread(gaps),
        spread(dilations),
        groups,
        is_reversed,
    )


def graph_of(operation, image, kernel, dtype, *, follow=None, is_weight=True):
    """A graph of one convolution and what follows it, and its weights."""
    graph = Graph()
    x, w = graph.input(image, dtype), graph.input(kernel, dtype)
    found = graph.apply(operation, x, w, dtype="float32")
    weights = {w.number} if is_weight else set()
    if follow is not None:
        found = follow(graph, found, weights)
    graph.outputs = [found]
    return graph, frozenset(weights)


def arrays_of(graph, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(value.shape).astype(value.type.numpy_dtype()) for value in graph.inputs
    ]


def convolved(image, kernel, op):
    """The sum over channels and taps, each window by itself, in float64."""
    image, kernel = image.astype(np.float64), kernel.astype(np.float64)
    rank = image.ndim - 2
    if op.is_reversed:
        kernel = kernel[(slice(None), slice(None), *(slice(None, None, -1),) * rank)]
    steps = [gap + 1 for gap in op.gaps]
    wide = np.zeros(
        (
            *image.shape[:2],
            *(max((n - 1) * s + 1, 0) for n, s in zip(image.shape[2:], steps, strict=True)),
        )
    )
    wide[(..., *(slice(None, None, s) for s in steps))] = image
    sides = list(zip(op.low, op.high, strict=True))
    wide = np.pad(wide, [(0, 0), (0, 0), *((max(a, 0), max(z, 0)) for a, z in sides)])
    for dim, (a, z) in enumerate(sides):
        kept = slice(max(-a, 0), wide.shape[dim + 2] - max(-z, 0))
        wide = wide[(slice(None),) * (dim + 2) + (kept,)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], op.dilations, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(wide.shape[2:], reach, op.strides, strict=True)]
    found = np.zeros((image.shape[0], kernel.shape[0], *counts))
    own, outputs = kernel.shape[1], kernel.shape[0] // op.groups
    for at in product(*map(range, counts)):
        window = wide[
            (
                slice(None),
                slice(None),
                *tuple(
                    slice(a * s, a * s + r, d)
                    for a, s, r, d in zip(at, op.strides, reach, op.dilations, strict=True)
                ),
            )
        ]
        for o in range(kernel.shape[0]):
            group = o // outputs
            part = window[:, group * own : (group + 1) * own]
            found[(slice(None), o, *at)] = (part * kernel[o]).sum(tuple(range(1, rank + 2)))
    return found


CASES = {
    "one tap": (attributes(2), (1, 20, 7, 9), (30, 20, 1, 1)),
    "one tap, every second": (attributes(2, 2), (2, 140, 7, 8), (5, 140, 1, 1)),
    "one of everything": (attributes(2), (1, 1, 1, 1), (1, 1, 1, 1)),
    "three by three": (attributes(2, low=1), (3, 20, 7, 9), (30, 20, 3, 3)),
    "every second, two blocks": (attributes(2, 2, 1), (3, 130, 9, 11), (140, 130, 3, 3)),
    "few channels": (attributes(2, 2, 3), (1, 3, 33, 35), (64, 3, 7, 7)),
    "few channels, three images": (attributes(2, 2, 3), (3, 3, 17, 15), (10, 3, 7, 7)),
    "half of the array": (attributes(2, low=1), (1, 64, 6, 7), (64, 64, 3, 3)),
    "depthwise": (attributes(2, low=1, groups=140), (3, 140, 5, 6), (140, 1, 3, 3)),
    "depthwise, one block": (attributes(2, 2, 1, groups=24), (1, 24, 9, 11), (24, 1, 3, 3)),
    "groups that share no block": (attributes(2, low=1, groups=32), (1, 160, 5, 4), (320, 5, 3, 3)),
    "groups of half a block": (attributes(2, groups=3), (1, 210, 3, 4), (12, 70, 1, 1)),
    "groups that grow": (attributes(2, low=1, groups=2), (1, 2, 5, 6), (16, 1, 3, 3)),
    "apart": (attributes(2, low=2, dilations=2), (1, 20, 9, 8), (30, 20, 3, 3)),
    "rows and columns apart": (
        attributes(2, (2, 1), (0, 2), (1, 2), 0, (1, 3)),
        (2, 20, 7, 19),
        (30, 20, 1, 5),
    ),
    "gaps": (attributes(2, 1, 2, 1, 1), (1, 20, 4, 5), (6, 20, 3, 3)),
    "gaps and strides": (attributes(2, 2, 1, 2, 2), (1, 5, 4, 5), (6, 5, 3, 2)),
    "transposed, side by side": (
        attributes(2, low=1, gaps=1, is_reversed=True),
        (3, 130, 3, 5),
        (140, 130, 2, 2),
    ),
    "transposed, with gaps left": (
        attributes(2, low=1, high=2, gaps=2, is_reversed=True),
        (1, 5, 4, 3),
        (4, 5, 2, 2),
    ),
    "transposed, less than all": (
        attributes(2, low=(-1, 2), high=(0, -2), gaps=(1, 2), is_reversed=True),
        (2, 5, 4, 6),
        (4, 5, 3, 4),
    ),
    "transposed, apart": (
        attributes(2, low=4, gaps=1, dilations=2, is_reversed=True),
        (1, 20, 4, 5),
        (6, 20, 3, 3),
    ),
    "transposed, groups": (
        attributes(2, low=2, gaps=1, groups=70, is_reversed=True),
        (1, 140, 3, 4),
        (140, 2, 3, 3),
    ),
    "transposed, one element": (
        attributes(2, low=3, gaps=1, is_reversed=True),
        (1, 1, 1, 1),
        (1, 1, 4, 4),
    ),
    "transposed, a line": (
        attributes(1, low=3, gaps=3, is_reversed=True),
        (3, 3, 7),
        (5, 3, 4),
    ),
    "transposed, wide": (
        attributes(2, low=1, gaps=1, is_reversed=True),
        (1, 3, 2, 300),
        (2, 3, 2, 2),
    ),
    "taps in reverse": (attributes(2, low=1, is_reversed=True), (2, 3, 5, 6), (4, 3, 3, 2)),
    "less than all": (attributes(2, 1, (-1, 0), (0, -2)), (2, 5, 6, 9), (4, 5, 3, 3)),
    "beyond on one side": (attributes(2, 1, 0, (2, 5)), (1, 5, 3, 3), (4, 5, 3, 3)),
    "a line": (attributes(1, 2, 2), (2, 20, 37), (30, 20, 5)),
    "patches": (attributes(2, 8), (1, 3, 24, 16), (130, 3, 8, 8)),
    "a row beyond a bank": (attributes(2, low=1), (2, 3, 2, 513), (4, 3, 3, 3)),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_convolution_gives_the_sum_over_its_windows(case, dtype):
    operation, image, kernel = case
    graph, weights = graph_of(operation, image, kernel, dtype)
    assert is_emitted(graph.nodes[0], weights)
    arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    wanted = convolved(*arrays, operation)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max(), rtol=1e-5)


@pytest.mark.slow_cases("image1-kernel1-operation1", "image2-kernel2-operation2")
@pytest.mark.parametrize(
    ("image", "kernel", "operation"),
    [
        ((1, 16, 150, 90), (8, 16, 3, 3), attributes(2, 1, 1)),
        ((2, 130, 40, 170), (8, 130, 3, 3), attributes(2, 2, 1)),
        ((1, 16, 150, 90), (8, 16, 3, 3), attributes(2, 1, 2, gaps=1, is_reversed=True)),
    ],
)
def test_images_beyond_a_band_pass_in_bands_of_rows(image, kernel, operation):
    graph, weights = graph_of(operation, image, kernel, "float32")
    arrays = [np.rint(4 * one).astype(np.float32) for one in arrays_of(graph)]
    (found,) = evaluate_program(graph, arrays, "trn2", weights)
    assert np.array_equal(found, graph.reference(arrays)[0])  # whole numbers add up exactly


def test_images_of_few_windows_pass_one_by_one_if_two_are_larger_than_sbuf_holds():
    operation = attributes(2, dilations=(200, 150))
    graph, weights = graph_of(operation, (2, 4, 210, 160), (6, 4, 2, 2), "float32")
    arrays = [np.rint(4 * one).astype(np.float32) for one in arrays_of(graph)]
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    assert np.array_equal(found, convolved(*arrays, operation))  # whole numbers add up exactly
    assert not compile(graph, "trn1", weights=weights).notes


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("image", [(1, 20, 7, 9), (3, 140, 4, 5)])
def test_kernels_that_are_no_weights_turn_on_the_chip(image, is_reversed):
    operation = attributes(2, 2, 1, is_reversed=is_reversed)
    graph, weights = graph_of(operation, image, (30, image[1], 3, 3), "float32", is_weight=False)
    arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    np.testing.assert_allclose(found, convolved(*arrays, operation), atol=1e-4)


def test_of_groups_and_of_three_dimensions_only_some_are_emitted():
    def kept(operation, image, kernel, dtype="float32", *, is_weight=True):
        graph, weights = graph_of(operation, image, kernel, dtype, is_weight=is_weight)
        return is_emitted(graph.nodes[0], weights)

    grouped = attributes(2, groups=2)
    assert kept(grouped, (1, 256, 4, 4), (256, 128, 1, 1))
    assert not kept(grouped, (1, 258, 4, 4), (2, 129, 1, 1))
    assert not kept(grouped, (1, 2, 4, 4), (258, 1, 1, 1))
    assert not kept(grouped, (1, 4, 4, 4), (4, 2, 1, 1), is_weight=False)
    assert not kept(attributes(3), (1, 4, 4, 4, 4), (4, 4, 1, 1, 1))
    assert not kept(attributes(2), (0, 4, 4, 4), (4, 4, 1, 1))
    assert not kept(attributes(2), (1, 4, 4, 4), (4, 4, 1, 1), "float8_e4m3fn")


@pytest.mark.slow
def test_what_is_not_emitted_is_still_right():
    operation = attributes(3, 2, 1)
    graph, weights = graph_of(operation, (1, 3, 4, 5, 3), (2, 3, 3, 2, 3), "float32")
    arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    np.testing.assert_allclose(found, convolved(*arrays, operation), atol=1e-4)


def with_scale_shift_and_other(graph, found, weights):
    """``relu(found * scale + shift + other)``: what follows a convolution in a residual network."""
    channels = found.shape[1]
    scale, shift = (graph.input((channels,), "float32") for _ in range(2))
    weights |= {scale.number, shift.number}
    other = graph.input(found.shape, "float32")
    wide = [graph.apply(BroadcastInDim(found.shape, (1,)), one) for one in (scale, shift)]
    y = graph.elementwise("multiply", found, wide[0])
    y = graph.elementwise("add", y, wide[1])
    return graph.elementwise("relu", graph.elementwise("add", y, other))


@pytest.mark.parametrize("channels", [30, 140])
def test_scale_shift_and_residual_are_applied_on_the_way_out_of_psum(channels):
    operation = attributes(2, low=1)
    graph, weights = graph_of(
        operation, (2, 20, 5, 7), (channels, 20, 3, 3), "float32", follow=with_scale_shift_and_other
    )
    image, kernel, scale, shift, other = arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    columns = (slice(None), None, None)
    wanted = convolved(image, kernel, operation) * scale[columns] + shift[columns] + other
    np.testing.assert_allclose(found, np.maximum(wanted, 0), atol=1e-4)


def test_the_scale_and_the_shift_of_one_block_take_one_instruction_of_the_scalar_engine():
    def follow(graph, found, weights):
        y = found
        for name in ("multiply", "add"):
            column = graph.input((found.shape[1],), "float32")
            weights.add(column.number)
            wide = graph.apply(BroadcastInDim(found.shape, (1,)), column)
            y = graph.elementwise(name, y, wide)
        return graph.elementwise("relu", y)

    graph, weights = graph_of(
        attributes(2), (1, 20, 4, 5), (30, 20, 1, 1), "float32", follow=follow
    )
    made = run_graph(graph, arrays_of(graph), "trn1", weights, numerics=False)
    opcodes = [span.opcode for span in made.timeline.spans()]
    assert opcodes.count("activation") == 1
    assert not {"tensor_scalar", "tensor_tensor"} & set(opcodes)


def test_results_chain_without_transposes():
    def follow(graph, found, weights):
        kernel = graph.input((5, found.shape[1], 3, 3), "float32")
        weights.add(kernel.number)
        return graph.apply(attributes(2, low=1), graph.elementwise("relu", found), kernel)

    graph, weights = graph_of(
        attributes(2, 2, 1), (2, 20, 8, 9), (30, 20, 3, 3), "float32", follow=follow
    )
    arrays = arrays_of(graph)
    run = run_graph(graph, arrays, "trn1", weights, numerics=False)
    spans = list(run.timeline.spans())
    assert "nc_transpose" not in {span.opcode for span in spans}
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    (wanted,) = graph.reference(arrays)
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_the_time_of_three_by_three_stays_within_twice_that_of_its_products():
    graph, weights = graph_of(
        attributes(2, low=1),
        (1, 64, 56, 56),
        (64, 64, 3, 3),
        "bfloat16",
        follow=lambda graph, found, _: graph.apply(Convert("bfloat16"), found),
    )
    arrays = arrays_of(graph)
    run = run_graph(graph, arrays, "inf2", weights, numerics=False)
    core = arch.target("inf2").core
    columns = 9 * 56 * 56  # one at a cycle, with 64 of the 128 rows
    bound_s = columns / core.tensor_clock_hz
    assert run.timeline.device_time_s < 2 * bound_s
    assert 4 * run.timeline.device_time_s < sum(one.device_time_s for one in costs(graph, "inf2"))


def test_a_line_is_an_image_of_one_row():
    graph, _ = graph_of(attributes(1, 2, 3, 1), (2, 5, 9), (4, 5, 3), "float32")
    grid = window_grid(graph.nodes[0])
    assert (grid.image_size, grid.window_counts, grid.kernel) == ((1, 9), (1, 6), (1, 3))
    assert (grid.strides, grid.low_padding) == ((1, 2), (0, 3))


@pytest.mark.parametrize("images", [1, 3])
def test_images_whose_rows_are_images_and_channels_are_brought_into_place(images):
    graph = Graph()
    shape = (images, 20, 4, 6)
    flat, w = graph.input((images * 20, 24), "float32"), graph.input((5, 20, 3, 3), "float32")
    powers = graph.elementwise("exponential", flat)  # lies by rows: it is read by rows too
    image = graph.reshape(powers, shape)
    found = graph.apply(attributes(2, low=1), image, w)
    graph.outputs = [found, powers]
    arrays = arrays_of(graph)
    made = evaluate_program(graph, arrays, "trn1", frozenset({w.number}))
    wanted = convolved(np.exp(arrays[0]).reshape(shape), arrays[1], attributes(2, low=1))
    np.testing.assert_allclose(made[0], wanted, rtol=1e-3, atol=1e-3)


def test_what_is_computed_for_a_convolution_is_computed_with_channels_along_the_partitions():
    graph = Graph()
    x, w = graph.input((2, 20, 4, 6), "float32"), graph.input((5, 20, 3, 3), "float32")
    image = graph.elementwise("exponential", x)
    graph.outputs = [graph.apply(attributes(2, low=1), image, w)]
    run = run_graph(graph, arrays_of(graph), "trn1", frozenset({w.number}), numerics=False)
    stored = [one for one in run.timeline.spans() if one.operands.startswith("dst=HBM")]
    assert {one.operands.split(",")[0] for one in stored} == {"dst=HBM [5"}  # the result alone


@pytest.mark.parametrize("image", [(1, 20, 5, 7), (2, 20, 5, 7)])
def test_a_softmax_over_channels_turns_once_and_stays_so(image):
    def follow(graph, found, weights):
        del weights
        shape, kept = found.shape, (0, 2, 3)
        largest = graph.broadcast_in_dim(graph.reduce("maximum", found, (1,)), shape, kept)
        powers = graph.elementwise("exponential", graph.elementwise("subtract", found, largest))
        total = graph.broadcast_in_dim(graph.reduce("add", powers, (1,)), shape, kept)
        return graph.elementwise("divide", powers, total)

    graph, weights = graph_of(attributes(2), image, (140, 20, 1, 1), "float32", follow=follow)
    arrays = [array / 4 for array in arrays_of(graph)]
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    scores = convolved(*arrays, attributes(2))
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), atol=1e-6)


def copied(graph, image, times):
    """Each row and column so many times."""
    images, channels, rows, columns = image.shape
    high, wide = times
    spread = graph.broadcast_in_dim(
        image, (images, channels, rows, high, columns, wide), (0, 1, 2, 4)
    )
    return graph.reshape(spread, (images, channels, rows * high, columns * wide))


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("shape1-times1")
@pytest.mark.parametrize("times", [(1, 1), (2, 2), (3, 1), (1, 2)])
@pytest.mark.parametrize("shape", [(2, 20, 3, 5), (1, 140, 40, 50)])
def test_images_of_which_each_element_is_copied_are_copied_on_the_chip(shape, times):
    graph = Graph()
    x, w = graph.input(shape, "float32"), graph.input((4, shape[1], 3, 3), "float32")
    graph.outputs = [graph.apply(attributes(2, low=1), copied(graph, x, times), w)]
    arrays = [np.rint(4 * one).astype(np.float32) for one in arrays_of(graph)]
    (found,) = evaluate_program(graph, arrays, "trn1", frozenset({w.number}))
    wide = arrays[0].repeat(times[0], 2).repeat(times[1], 3)
    other = Graph()
    y, v = other.input(wide.shape, "float32"), other.input(w.shape, "float32")
    other.outputs = [other.apply(attributes(2, low=1), y, v)]
    assert np.array_equal(found, other.reference([wide, arrays[1]])[0])


def test_copies_that_are_returned_are_written():
    graph = Graph()
    x, w = graph.input((1, 20, 3, 5), "float32"), graph.input((4, 20, 1, 1), "float32")
    graph.outputs = [copied(graph, graph.apply(attributes(2), x, w), (2, 2))]
    arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn1", frozenset({w.number}))
    wanted = convolved(*arrays, attributes(2)).repeat(2, 2).repeat(2, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("size", [(20, 30), (128, 1024)])
def test_an_image_whose_rows_lie_as_columns_may_be_larger_than_sbuf_holds(size):
    graph = Graph()
    x, w = graph.input((2, 1, *size), "float32"), graph.input((16, 1, 4, 8), "float32")
    flipped = graph.transpose(x, (0, 1, 3, 2))
    graph.outputs = [graph.apply(attributes(2, strides=(8, 4)), flipped, w, dtype="float32")]
    arrays = arrays_of(graph)
    (found,) = evaluate_program(graph, arrays, "trn2", frozenset({w.number}))
    (wanted,) = graph.reference(arrays)
    assert np.abs(found - wanted).max() <= 1e-4


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("size", [(4, 6), (5, 7), (4, 7), (5, 6)])
def test_images_of_which_strides_leave_rows_out_are_read_by_others_as_they_are(images, size):
    graph = Graph()
    x, w = graph.input((images, 20, *size), "float32"), graph.input((6, 20, 1, 1), "float32")
    found = graph.apply(attributes(2, strides=2), x, w)
    graph.outputs = [found, graph.elementwise("multiply", x, 2.0)]
    arrays = arrays_of(graph)
    strided, doubled = evaluate_program(graph, arrays, "trn2", frozenset({w.number}))
    np.testing.assert_allclose(strided, convolved(*arrays, attributes(2, strides=2)), atol=1e-4)
    np.testing.assert_array_equal(doubled, 2 * arrays[0])


@pytest.mark.parametrize("images", [1, 3])
def test_images_that_lie_in_one_row_on_the_chip_come_to_their_partitions(images):
    graph = Graph()
    flat, one = graph.input((images * 140, 1), "float32"), graph.input((1, 1), "float32")
    w, scale = graph.input((6, 140, 1, 1), "float32"), graph.input((140,), "float32")
    sums = graph.reshape(graph.dot_general(flat, one, (1, 1)), (images, 140, 1, 1))
    wide = graph.broadcast_in_dim(scale, sums.shape, (1,))
    image = graph.elementwise("multiply", sums, wide)
    graph.outputs = [graph.apply(attributes(2), image, w), image]
    arrays = arrays_of(graph)
    made = evaluate_program(graph, arrays, "trn2", frozenset({w.number}))
    for found, wanted in zip(made, graph.reference(arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize(
    ("starts", "strides", "size"),
    [((0, 0), (2, 1), (3, 8)), ((0, 0), (1, 2), (6, 4)), ((2, 3), (1, 1), (4, 5))],
)
def test_a_part_of_images_on_the_chip_is_read_where_it_lies(kernel, starts, strides, size):
    graph = Graph()
    x, w = graph.input((3, 20, 6, 8), "float32"), graph.input((5, 20, kernel, kernel), "float32")
    first = graph.apply(
        attributes(2, low=kernel - 1, high=0), graph.elementwise("exponential", x), w
    )
    again = graph.input((4, 5, kernel, kernel), "float32")
    some = graph.slice(first, (0, 0, *starts), (3, 5, *size), (1, 1, *strides))
    graph.outputs = [graph.apply(attributes(2), some, again), first]
    arrays = arrays_of(graph)
    made = evaluate_program(graph, arrays, "trn2", frozenset({w.number, again.number}))
    for found, wanted in zip(made, graph.reference(arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [0, 1])
def test_kernels_that_are_no_weights_may_be_larger_than_sbuf_holds(gaps):
    operation = attributes(1, 1, 4, gaps=gaps)
    graph, weights = graph_of(operation, (2, 600, 5), (1100, 600, 9), "float32", is_weight=False)
    arrays = [np.rint(2 * one).astype(np.float32) for one in arrays_of(graph)]
    (found,) = evaluate_program(graph, arrays, "trn1", weights)
    np.testing.assert_array_equal(found, graph.reference(arrays)[0])  # whole numbers add up exactly
    assert not compile(graph, "trn1", weights=weights).notes
