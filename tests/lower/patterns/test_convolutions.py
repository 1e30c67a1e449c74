"""Convolutions as simpler operations: which are replaced, and their values."""

import numpy as np
import pytest
from made_graphs import Made

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution, DotGeneral
from trnsim.graph.rewriting import rewrite_graph
from trnsim.lower.patterns.convolutions import SINGLE_WINDOW, VOLUME

ONES, ZEROS = (1, 1, 1), (0, 0, 0)
PLAIN = Convolution(strides=ONES, low=ZEROS, high=ZEROS, gaps=ZEROS, dilations=ONES)
PATCHES = Convolution(strides=(2, 3, 4), low=ZEROS, high=ZEROS, gaps=ZEROS, dilations=ONES)
VOLUMES = {
    "plain": (PLAIN, (1, 2, 5, 4, 6), (3, 2, 3, 2, 3)),
    "one of everything": (PLAIN, (1, 1, 1, 1, 2), (1, 1, 1, 1, 1)),
    "one tap along the depth": (PLAIN, (2, 3, 4, 5, 6), (7, 3, 1, 3, 3)),
    "one window along the depth": (PLAIN, (2, 3, 4, 5, 6), (7, 3, 4, 3, 3)),
    "patches": (PATCHES, (2, 3, 5, 7, 8), (6, 3, 2, 3, 4)),
    "padded and strided": (
        Convolution((2, 1, 3), (1, 0, 2), (2, 1, 0), ZEROS, ONES),
        (2, 3, 6, 5, 7),
        (4, 3, 3, 2, 2),
    ),
    "cut": (Convolution(ONES, (-1, 0, -2), (-2, -1, 0), ZEROS, ONES), (1, 2, 7, 5, 6), (2,) * 5),
    "dilated": (
        Convolution(ONES, ZEROS, ZEROS, ZEROS, (3, 1, 2)),
        (1, 2, 8, 4, 6),
        (2, 2, 3, 2, 2),
    ),
    "groups": (
        Convolution(ONES, ONES, ONES, ZEROS, ONES, groups=3),
        (2, 6, 4, 3, 3),
        (9, 2, 3, 3, 3),
    ),
    "gradient of a strided one": (
        Convolution(ONES, (2, 1, 1), (1, 1, 2), (2, 0, 1), ONES, groups=2, is_reversed=True),
        (1, 4, 3, 4, 3),
        (6, 2, 3, 2, 3),
    ),
}


def graph_of(operation, image, kernels, dtype="float32"):
    graph = Graph()
    sides = (graph.input(shape, dtype) for shape in (image, kernels))
    graph.outputs = [graph.apply(operation, *sides, dtype="float32")]
    return graph


def random_inputs(graph):
    random = np.random.default_rng(0)
    return [
        random.standard_normal(value.shape).astype(value.type.numpy_dtype())
        for value in graph.inputs
    ]


def check_equal(graph, rewritten):
    assert rewritten.inputs == graph.inputs
    assert [value.type for value in rewritten.outputs] == [value.type for value in graph.outputs]
    arrays = random_inputs(graph)
    (expected,), (computed,) = graph.reference(arrays), rewritten.reference(arrays)
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", VOLUMES.values(), ids=VOLUMES)
def test_a_convolution_of_volumes_is_one_of_images(case, dtype):
    graph = graph_of(*case, dtype)
    rewritten = rewrite_graph(graph, [VOLUME])
    ranks = [
        len(node.values[0].shape)
        for node in rewritten.nodes
        if isinstance(node.operation, Convolution)
    ]
    assert ranks == [4]
    check_equal(graph, rewritten)


@pytest.mark.parametrize("sizes", [(3,), (3, 5), (2, 3, 4), (1, 1)])
def test_a_window_of_the_whole_image_is_a_product(sizes):
    rank = len(sizes)
    ones, zeros = (1,) * rank, (0,) * rank
    operation = Convolution(ones, zeros, zeros, zeros, ones)
    graph = graph_of(operation, (4, 3, *sizes), (6, 3, *sizes))
    rewritten = rewrite_graph(graph, [SINGLE_WINDOW])
    kinds = [type(node.operation) for node in rewritten.nodes]
    assert Convolution not in kinds
    assert kinds.count(DotGeneral) == 1
    check_equal(graph, rewritten)


@pytest.mark.parametrize(
    ("operation", "image", "kernels"),
    [
        (Convolution((1, 1), (1, 0), (0, 1), (0, 0), (1, 1)), (2, 3, 4, 4), (5, 3, 4, 4)),
        (Convolution((4, 4), (1, 0), (0, 1), (0, 0), (1, 1)), (2, 3, 4, 4), (5, 3, 5, 5)),
        (Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1), groups=3), (2, 3, 4, 4), (6, 1, 4, 4)),
        (
            Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1), is_reversed=True),
            (2, 3, 4, 4),
            (5, 3, 4, 4),
        ),
        (Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1)), (2, 3, 4, 5), (5, 3, 4, 4)),
        (Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1)), (0, 3, 4, 4), (5, 3, 4, 4)),
    ],
    ids=["padded", "padded, strided", "groups", "reversed", "two windows", "no images"],
)
def test_other_convolutions_stay(operation, image, kernels):
    graph = graph_of(operation, image, kernels)
    assert rewrite_graph(graph, [SINGLE_WINDOW, VOLUME]) is graph


def test_volumes_without_elements_stay():
    graph = graph_of(PLAIN, (0, 2, 5, 4, 6), (3, 2, 3, 2, 3))
    assert rewrite_graph(graph, [VOLUME]) is graph


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("name", ["padded and strided", "groups", "gradient of a strided one"])
def test_a_program_of_volumes_has_their_values(name, chip):
    operation, image, kernels = VOLUMES[name]
    model = Made("bfloat16")
    sides = model.given(*image), model.weight(*kernels)
    model.check(model.graph.apply(operation, *sides, dtype="float32"), chip=chip)
