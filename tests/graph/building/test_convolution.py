"""Products of taps with a weight, beside numpy's sums."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from trnsim.graph.building.build import Build
from trnsim.graph.building.convolution import convolve_taps
from trnsim.graph.building.windows import Windows


@pytest.mark.parametrize(
    ("outputs", "groups", "names"),
    [
        (5, 1, {"dot_general", "concatenate"}),
        (6, 2, {"dot_general", "concatenate"}),
        (4, 4, {"multiply", "add"}),  # each channel has a kernel of its own: no product
        (8, 4, {"dot_general", "concatenate"}),
    ],
)
def test_products_of_taps_are_sums_over_windows(random, outputs, groups, names):
    x, weight = random((2, 4, 6, 7)), random((outputs, 4 // groups, 3, 2))
    windows = Windows((3, 2), (1, 1), (0, 0), (1, 1))
    b = Build()
    image, w = (b.graph.input(one.shape, "float32") for one in (x, weight))
    taps = windows.taps(b, image, windows.counts(x.shape[2:]))
    b.graph.outputs = [convolve_taps(b, taps, w, groups)]
    (found,) = b.graph.reference([x, weight])
    views = sliding_window_view(x, (3, 2), axis=(2, 3)).reshape(2, groups, -1, 4, 6, 3, 2)
    kernels = weight.reshape(groups, outputs // groups, *weight.shape[1:])
    expected = np.einsum("ngchwij,gocij->ngohw", views, kernels).reshape(2, outputs, 4, 6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    arithmetic = {"dot_general", "concatenate", "multiply", "add"}
    assert {node.name for node in b.graph.nodes} & arithmetic == names
