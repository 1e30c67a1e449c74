"""Windows and their taps, beside numpy's views."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from trnsim.graph.building.build import Build
from trnsim.graph.building.windows import Windows

FORMS = {
    "plain": Windows((3, 2), (1, 1), (0, 0), (1, 1)),
    "strided": Windows((3, 2), (2, 3), (0, 0), (1, 1)),
    "padded": Windows((3, 3), (2, 1), (1, 2), (1, 1)),
    "dilated": Windows((2, 3), (1, 2), (1, 0), (3, 2)),
}


def windowed(x, windows, places):
    """``[N, C, *places, *kernel]`` by numpy."""
    pads = [(0, 0), (0, 0), *((pad, 99) for pad in windows.padding)]
    reach = [(n - 1) * gap + 1 for n, gap in zip(windows.kernel, windows.dilation, strict=True)]
    views = sliding_window_view(np.pad(x, pads), reach, axis=(2, 3))
    views = views[..., :: windows.stride[0], :: windows.stride[1], :, :]
    views = views[..., :: windows.dilation[0], :: windows.dilation[1]]
    return views[:, :, : places[0], : places[1]]


@pytest.mark.parametrize("windows", FORMS.values(), ids=FORMS)
def test_taps_are_the_elements_of_all_windows(random, windows):
    x = random((2, 3, 9, 11))
    b = Build()
    places = windows.counts(x.shape[2:])
    padded = windows.pad_to_windows(b, b.graph.input(x.shape, "float32"), places)
    b.graph.outputs = windows.taps(b, padded, places)
    found = np.stack(b.graph.reference([x]), -1).reshape(2, 3, *places, *windows.kernel)
    np.testing.assert_array_equal(found, windowed(x, windows, places))


@pytest.mark.parametrize("windows", FORMS.values(), ids=FORMS)
def test_what_is_put_back_is_the_transpose_of_what_was_taken(random, windows):
    x = random((1, 2, 9, 11))
    places, count = windows.counts(x.shape[2:]), np.prod(windows.kernel)
    grads = [random((1, 2, *places)) for _ in range(count)]
    b = Build()
    parts = [b.graph.input(grad.shape, "float32") for grad in grads]
    b.graph.outputs = [windows.sum_tap_gradients(b, parts, x.shape[2:])]
    (found,) = b.graph.reference(grads)
    taken = windowed(x, windows, places).reshape(1, 2, *places, count)
    np.testing.assert_allclose((found * x).sum(), (np.stack(grads, -1) * taken).sum(), rtol=1e-5)


@pytest.mark.parametrize("windows", FORMS.values(), ids=FORMS)
def test_a_reduction_of_windows_is_one_operation(random, windows):
    x = random((2, 3, 9, 11))
    places = windows.counts(x.shape[2:])
    b = Build()
    operation = windows.reduction("add", x.shape, places)
    b.graph.outputs = [b.graph.apply(operation, b.graph.input(x.shape, "float32"))]
    (found,) = b.graph.reference([x])
    expected = windowed(x, windows, places).sum((-2, -1))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
