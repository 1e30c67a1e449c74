"""Which sums are those of padded images."""

import pytest

from trnsim.graph import Graph
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.window_sums import is_padded_image, partition_dims


def sum_of(count, *, shape=(2, 3, 4, 4), number=0.0, has_other_reader=False, outer=0):
    """A sum of padded images; one of them is an output too if asked."""
    graph = Graph()
    x = graph.input(shape, "float32")
    twice = graph.elementwise("add", x, x)
    sides = (outer, 0, *(1,) * (len(shape) - 2))
    parts = [graph.pad(twice, sides, sides, number=number) for _ in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.elementwise("add", total, part)
    graph.outputs = [total, parts[-1]] if has_other_reader else [total]
    return graph, total


@pytest.mark.parametrize("count", [2, 5])
def test_a_sum_of_padded_images_has_its_parts_in_order(count):
    graph, total = sum_of(count)
    sums = GraphFacts(graph).window_sums
    pads = [node for node in graph.nodes if node.name == "pad"]
    assert sums.parts == {total.number: pads}
    assert {pad.result.number for pad in pads} <= sums.inner
    assert total.number not in sums.inner
    assert sums.roots == {pad.result.number: total for pad in pads}
    assert graph.nodes[0].result.number in sums.operands


@pytest.mark.parametrize(
    "given",
    [
        {"number": 1.0},
        {"has_other_reader": True},
        {"outer": 1},
        {"shape": (2, 3)},
        {"shape": (1, 1, 200, 200)},
    ],
    ids=str,
)
def test_other_sums_are_added_as_they_are(given):
    graph, total = sum_of(3, **given)
    assert total.number not in GraphFacts(graph).window_sums.parts


@pytest.mark.parametrize("widened", [1, 2])
def test_sums_in_another_dtype_than_their_images_are_added_as_they_are(widened):
    graph = Graph()
    x = graph.input((2, 3, 4, 5), "bfloat16")
    total, *others = (
        graph.pad(graph.elementwise("multiply", x, k), (0, 0, 1, 1), (0, 0, 1, 1))
        for k in (2.0, 3.0, 4.0)
    )
    for number, part in enumerate(others, 1):
        dtype = "float32" if number >= widened else "bfloat16"
        total = graph.elementwise("add", total, part, dtype=dtype)
    graph.outputs = [total]
    assert total.number not in GraphFacts(graph).window_sums.parts


def test_padded_truth_values_are_no_images():
    graph = Graph()
    x = graph.input((1, 2, 3, 3), "int32")
    graph.pad(x, (0, 0, 1, 1), (0, 0, 1, 1))
    assert not is_padded_image(graph.nodes[-1])


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((8, 64, 7, 7), (1,)),
        ((8, 63, 7, 7), (0, 1)),
        ((1, 3, 7, 7), (1,)),
        ((2, 3, 7, 7), (1,)),
        ((3, 3, 7, 7), (0, 1)),
        ((64, 1, 28, 28), (0, 1)),
    ],
)
def test_few_channels_lie_along_the_partitions_with_their_images(shape, dims):
    assert partition_dims(shape) == dims
