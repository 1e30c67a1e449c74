"""How many groups share the array, and groups that the graph did not make of channels."""

import numpy as np
import pytest

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution
from trnsim.lower.emit.images.gradient_groups import GradientGroups


def gradient(channels, kernels, groups, taps, images=1, positions=200):
    """A gradient of kernels of sequences, of inputs that are grouped already."""
    graph = Graph()
    x = graph.input((channels, groups * images, positions), "float32")
    slopes = graph.input((groups * kernels, images, positions - taps + 1), "float32")
    operation = Convolution((1,), (0,), (0,), (0,), (1,), groups)
    graph.outputs = [graph.apply(operation, x, slopes)]
    return graph


@pytest.mark.parametrize(
    ("channels", "kernels", "groups", "taps", "together"),
    [
        (1, 1, 130, 9, 128),
        (1, 1, 20, 9, 20),
        (2, 3, 60, 9, 42),
        (48, 48, 16, 128, 1),
        (128, 1, 3, 80, 1),
        (128, 1, 3, 81, 0),
        (129, 1, 3, 2, 0),
    ],
)
def test_as_many_groups_share_the_array_as_it_and_sbuf_hold(
    channels, kernels, groups, taps, together
):
    (node,) = gradient(channels, kernels, groups, taps).nodes
    assert GradientGroups.of(node).groups_at_once == together


@pytest.mark.parametrize(("channels", "kernels"), [(1, 1), (2, 3)])
def test_images_that_are_grouped_already_are_separated(channels, kernels):
    graph = gradient(channels, kernels, 5, 3, images=2, positions=17)
    random = np.random.default_rng(0)
    x, slopes = (random.standard_normal(v.shape).astype("float32") for v in graph.inputs)
    (found,) = evaluate_program(graph, [x, slopes])
    images, kernel = x.reshape(channels, 5, 2, 17), slopes.reshape(5, kernels, 2, 15)
    taps = [images[..., at : at + 15] for at in range(3)]
    sums = [np.einsum("cgnp,gonp->cgo", tap, kernel, dtype=np.float64) for tap in taps]
    expected = np.stack(sums, -1).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
