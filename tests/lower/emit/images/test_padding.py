"""Padding on the chip and sums of padded images, against the reference, and their time."""

import numpy as np
import pytest

from trnsim import arch
from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.graph.building.build import Build
from trnsim.graph.building.windows import Windows
from trnsim.graph.ops.contraction import Convolution


def arrays_of(graph):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(v.shape).astype(v.type.numpy_dtype()) for v in graph.inputs]


def put_back(outer, size, kernel, strides, padding, dtype="float32", *, follow=""):
    """What each window adds under its taps: twice, thrice... what belongs to the window."""
    build = Build()
    windows = Windows(kernel, strides, padding, (1,) * len(kernel))
    slopes = build.graph.input((*outer, *windows.counts(size)), dtype)
    taps = range(len(list(windows.offsets())))
    parts = [build.ew("multiply", slopes, float(tap + 1)) for tap in taps]
    total = windows.sum_tap_gradients(build, parts, size)
    if follow:
        total = build.ew(follow, total)
    build.graph.outputs = [total]
    return build.graph


def added(slopes, size, kernel, strides, padding):
    """The same by numpy: each tap added to every so many elements of the padded images."""
    counts = slopes.shape[2:]
    ends = [2 * p + n + s * k for p, n, s, k in zip(padding, size, strides, kernel, strict=True)]
    wide = np.zeros((*slopes.shape[:2], *ends))
    for number, tap in enumerate(np.ndindex(*kernel)):
        spans = zip(tap, counts, strides, strict=True)
        at = tuple(slice(a, a + (c - 1) * s + 1, s) for a, c, s in spans)
        wide[(..., *at)] += (number + 1) * slopes.astype(np.float64)
    inner = tuple(slice(p, p + n) for p, n in zip(padding, size, strict=True))
    return wide[(..., *inner)]


CASES = {
    "overlapping": ((2, 3), (9, 8), (3, 3), (2, 2), (1, 1)),
    "apart": ((1, 130), (7, 9), (2, 2), (3, 3), (0, 0)),
    "one channel": ((70, 1), (6, 5), (2, 2), (2, 2), (0, 0)),
    "sequences": ((3, 70), (31,), (3,), (2,), (1,)),
    "long rows": ((2, 64), (3, 2100), (2, 3), (1, 2), (0, 1)),
    "large images": ((2, 2), (200, 100), (3, 2), (2, 2), (1, 0)),
    "too large images": ((1, 2), (160, 160), (3, 2), (2, 2), (1, 0)),
}
SLOW = ("long rows", "large images", "too large images")


@pytest.mark.parametrize("follow", ["", "negate"])
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CASES]
)
def test_a_sum_of_padded_images_adds_each_tap_where_it_belongs(case, follow):
    outer, *others = CASES[case]
    graph = put_back(outer, *others, follow=follow)
    (slopes,) = arrays_of(graph)
    expected = added(slopes, *others) * (-1 if follow else 1)
    (found,) = evaluate_program(graph, [slopes])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def convolved_and_padded(image, padding, step, dtype="bfloat16"):
    """A convolution, its result padded, and the sum of its largest under windows of 3x3."""
    build = Build()
    graph = build.graph
    channels = image[1]
    x, w = graph.input(image, dtype), graph.input((channels, channels, 1, 1), dtype)
    still, ones = (0, 0), (1, 1)
    sums = graph.apply(Convolution(ones, still, still, still, ones), x, w)
    windows = Windows((3, 3), (step, step), (padding, padding), ones)
    counts = windows.counts(image[2:])
    taps = windows.taps(build, windows.pad_to_windows(build, sums, counts, -1e30), counts)
    best = taps[0]
    for tap in taps[1:]:
        best = build.ew("maximum", best, tap)
    graph.outputs = [best]
    return graph


@pytest.mark.parametrize(("padding", "step"), [(1, 2), (0, 3), (1, 1)])
def test_images_that_are_padded_on_the_chip_are_read_by_windows(padding, step):
    graph = convolved_and_padded((2, 5, 8, 9), padding, step, "float32")
    x, w = arrays_of(graph)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.float64), w[:, :, 0, 0])
    wide = np.pad(sums, ((0, 0), (0, 0), *((padding, padding),) * 2), constant_values=-1e30)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::step, ::step]
    (found,) = evaluate_program(graph, [x, w])
    np.testing.assert_allclose(found, seen.max((-2, -1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("taps", [2, 3])
def test_a_sum_of_padded_images_takes_a_few_operations_for_each_tap(target, taps):
    graph = put_back((8, 64), (56, 56), (taps, taps), (2, 2), (taps // 2,) * 2, "bfloat16")
    elements = 8 * 28 * 28 * taps**2
    core = arch.target(target).core
    nbytes = sum(value.type.nbytes for value in (*graph.inputs, *graph.outputs))
    bytes_s = nbytes / float(core.dma_bytes_per_s)
    least_s = 3 * elements / float(core.vector_clock_hz) + bytes_s
    assert compile(graph, target=target).device_time_s <= 1.5 * least_s + 40e-6


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_windows_over_what_was_computed_are_copied_by_engines(target):
    graph = convolved_and_padded((8, 64, 56, 56), 1, 2)
    elements = 8 * 56 * 56 + 9 * 8 * 28 * 28
    least_s = 3 * elements / float(arch.target(target).core.vector_clock_hz)
    assert compile(graph, target=target).device_time_s <= 1.5 * least_s + 60e-6


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_windows_over_images_in_hbm_are_loaded_with_what_lies_between(target):
    build = Build()
    windows = Windows((3, 3), (2, 2), (1, 1), (1, 1))
    x = build.graph.input((8, 64, 56, 56), "bfloat16")
    taps = windows.taps(build, windows.pad_to_windows(build, x, (28, 28)), (28, 28))
    best = taps[0]
    for tap in taps[1:]:
        best = build.ew("maximum", best, tap)
    build.graph.outputs = [best]
    assert compile(build.graph, target=target).device_time_s <= 400e-6
    small = Build()
    x = small.graph.input((2, 5, 9, 31), "float32")
    taps = windows.taps(small, windows.pad_to_windows(small, x, (5, 16)), (5, 16))
    small.graph.outputs = [small.ew("maximum", taps[0], taps[5]), small.ew("negate", taps[8])]
    (array,) = arrays_of(small.graph)
    wide = np.pad(array, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = [wide[:, :, a : a + 9 : 2, b : b + 31 : 2] for a, b in ((0, 0), (1, 2), (2, 2))]
    found = evaluate_program(small.graph, [array])
    np.testing.assert_array_equal(found[0], np.maximum(seen[0], seen[1]))
    np.testing.assert_array_equal(found[1], -seen[2])


def numpy_padded(array, low, high, interior, number):
    """An array with elements put between, and then added or removed at both ends."""
    sizes = [(n - 1) * (gap + 1) + 1 for n, gap in zip(array.shape, interior, strict=True)]
    wide = np.full(sizes, number)
    wide[tuple(slice(None, None, gap + 1) for gap in interior)] = array
    added = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    wide = np.pad(wide, added, constant_values=number)
    return wide[
        tuple(
            slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, wide.shape, strict=True)
        )
    ]


PADS = {
    "between": ((0, 0, 1, 2), (0, 0, 0, 3), (0, 0, 1, 2)),
    "cut between": ((0, 0, -3, -4), (0, 0, 2, -1), (0, 0, 1, 2)),
    "nothing is kept": ((0, 0, -9, 0), (0, 0, 14, 1), (0, 0, 0, 0)),
    "no column is kept": ((0, 0, 1, 11), (0, 0, 0, -10), (0, 0, 0, 0)),
    "images too": ((1, 0, 1, 0), (2, 0, 0, 1), (0, 0, 0, 0)),
    "channels too": ((0, 1, 1, 0), (0, 2, 0, 1), (0, 1, 0, 0)),
    "more than SBUF holds": ((0, 0, 150, 151), (0, 0, 152, 150), (0, 0, 0, 0)),
}


@pytest.mark.parametrize("is_output", [False, True])
@pytest.mark.parametrize("case", PADS)
def test_padded_results_have_each_element_in_its_place(case, is_output):
    build = Build()
    graph = build.graph
    x, w = graph.input((2, 5, 7, 9), "float32"), graph.input((3, 5, 1, 1), "float32")
    sums = graph.apply(Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1)), x, w)
    padded = graph.pad(sums, *PADS[case], number=-2.5)
    part = tuple(max(n - 1, 1) for n in padded.shape)
    graph.outputs = [build.ew("negate", graph.slice(padded, (0,) * 4, part))]
    graph.outputs += [padded] if is_output else []
    arrays = arrays_of(graph)
    product = np.einsum("nchw,oc->nohw", arrays[0].astype(np.float64), arrays[1][:, :, 0, 0])
    whole = numpy_padded(product, *PADS[case], -2.5)
    found = evaluate_program(graph, arrays)
    expected = [-whole[tuple(slice(n) for n in part)], whole][: len(found)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["between", "cut between", "nothing is kept", "no column is kept"])
def test_a_sum_of_images_that_padding_cuts(case):
    build = Build()
    graph = build.graph
    x = graph.input((3, 5, 7, 9), "float32")
    pads = [PADS[case], ((0, 0, 2, 1), (0, 0, 0, 0), (0, 0, 0, 0))]
    size = numpy_padded(np.zeros(x.shape), *pads[0], 0.0).shape
    rest = tuple(a - b - c for a, b, c in zip(size, x.shape, pads[1][0], strict=True))
    pads[1] = pads[1][0], rest, pads[1][2]
    total = build.ew("add", *(graph.pad(build.ew("multiply", x, k), *p) for k, p in zip((2.0, 3.0), pads, strict=True)))  # fmt: skip  # noqa: E501
    graph.outputs = [total]
    (array,) = arrays_of(graph)
    expected = sum(
        k * numpy_padded(array.astype(np.float64), *p, 0.0)
        for k, p in zip((2, 3), pads, strict=True)
    )
    (found,) = evaluate_program(graph, [array])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def windows_of_stored(image, kernel, step, dtype="float32", *, is_computed=False):
    """The largest under windows of an input, or of its negative, padded on all sides."""
    build = Build()
    x = build.graph.input(image, dtype)
    value = build.ew("negate", x) if is_computed else x
    rank = len(image) - 2
    sides = tuple(k // 2 for k in kernel)
    windows = Windows(kernel, (step,) * rank, sides, (1,) * rank)
    counts = windows.counts(image[2:])
    taps = windows.taps(build, windows.pad_to_windows(build, value, counts, -1e30), counts)
    best = taps[0]
    for tap in taps[1:]:
        best = build.ew("maximum", best, tap)
    build.graph.outputs = [best]
    return build.graph, sides


@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(
    "image",
    [
        (1, 130, 7, 9),
        (3, 5, 8, 6),
        (40, 4, 5, 7),
        (2, 64, 9, 8),
        (2, 70, 31),
        pytest.param((1, 129, 120, 110), marks=pytest.mark.slow),
        pytest.param((9, 130, 60, 57), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_stored_images_are_padded_on_the_chip(image, step, is_computed):
    kernel = (3, 5)[: len(image) - 2]
    graph, sides = windows_of_stored(image, kernel, step, is_computed=is_computed)
    (x,) = arrays_of(graph)
    wide = np.pad(
        -x if is_computed else x,
        ((0, 0), (0, 0), *((side, side) for side in sides)),
        constant_values=-1e30,
    )
    axes = tuple(range(2, len(image)))
    seen = np.lib.stride_tricks.sliding_window_view(wide, kernel, axes)
    seen = seen[(..., *(slice(None, None, step) for _ in axes), *(slice(None) for _ in axes))]
    (found,) = evaluate_program(graph, [x])
    np.testing.assert_array_equal(found, seen.max(tuple(-1 - axis for axis in range(len(axes)))))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("is_computed", [False, True])
def test_windows_over_stored_images_take_a_few_operations_for_each_tap(target, is_computed):
    image = (1, 512, 20, 20)
    graph, _ = windows_of_stored(image, (5, 5), 1, "bfloat16", is_computed=is_computed)
    least_s = 25 * 4 * 400 / float(arch.target(target).core.vector_clock_hz)
    assert compile(graph, target=target).device_time_s <= 3 * least_s + 40e-6
