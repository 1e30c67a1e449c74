"""What a graph computes and moves, operation by operation, without asking what its outputs need.

It reads shapes and attributes of a graph, and nothing else of the emulator: each formula here is
written down a second time, so that it can disagree with `trnsim.lower.bound`.
"""

from itertools import product
from math import prod


def flop(graph):
    """Multiplications and additions of all products, whole."""
    return sum(flop_of(node) for node in graph.nodes)


def flop_of(node):
    """Those of one operation."""
    count = COUNTS.get(node.name)
    shapes = [value.shape for value in node.values]
    return 2 * count(node.operation, shapes, node.results[0].shape) if count else 0


def nbytes(graph, short=()):
    """Bytes of each input that an operation reads, and of each output that one makes.

    Matrices of float32 among `short` are bfloat16 ahead of time.
    """
    read = {value.number for node in graph.nodes for value in node.values}
    made = {value.number: value for node in graph.nodes for value in node.results}
    total = sum(bytes_of(made[n]) for n in {value.number for value in graph.outputs} & {*made})
    for value in graph.inputs:
        if value.number in read:
            is_matrix = len([n for n in value.shape if n != 1]) >= 2
            halved = value.number in short and value.dtype == "float32" and is_matrix
            total += bytes_of(value) // (2 if halved else 1)
    return total


WIDTHS = {"float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2}
"""Bytes of an element; others have one."""


def bytes_of(value):
    """Bytes of a tensor."""
    return prod(value.shape) * WIDTHS.get(value.dtype, 1)


def dot_general(operation, shapes, made):
    """``B * M * K * N``."""
    (*batch, rows, columns), (*_, first, last) = made, shapes[0]
    inner = first * last // rows
    assert inner == shapes[0][operation.contracting[0]]
    return prod(batch) * rows * inner * columns


def convolution(operation, shapes, made):
    """An image's channels of one group, for each output element and each tap that meets no gap."""
    image, kernel = shapes
    counts = [
        sum(
            (place * stride - low + tap * dilation) % (gap + 1) == 0
            for place, tap in product(range(places), range(taps))
        )
        for places, taps, stride, low, gap, dilation in zip(
            made[2:],
            kernel[2:],
            operation.strides,
            operation.low,
            operation.gaps,
            operation.dilations,
            strict=True,
        )
    ]
    return made[0] * made[1] * (image[1] // operation.groups) * prod(counts)


def pairs(operation, shapes):
    """Queries, each with the keys that it sees, of all heads."""
    (*heads, queries, _), keys = shapes[0], shapes[1][-2]
    places = [operation.first + operation.apart * query for query in range(queries)]
    seen = [sees(operation, place, key) for place in places for key in range(keys)]
    return prod(heads) * sum(seen)


def sees(operation, place, key):
    """Whether no mask hides a key from the query at a place among the keys."""
    if operation.is_causal and key > place:
        return False
    if not operation.window:
        return True
    if operation.is_causal:
        return place - key < operation.window
    return 2 * abs(place - key) < operation.window


def attention(operation, shapes, _):
    """Scores by Q and K, results by weights and V."""
    return pairs(operation, shapes) * (shapes[0][-1] + shapes[2][-1])


def attention_backward(operation, shapes, _):
    """Scores; gradients of weights; gradients of Q, K and V."""
    wide, deep = shapes[0][-1], shapes[2][-1]
    return pairs(operation, shapes) * (wide + deep + wide + wide + deep)


def loop(operation, *_):
    """Of the body, as often as it runs."""
    return (operation.trips or 0) * flop(operation.body) // 2


def branches(operation, *_):
    """Of the branch with least."""
    return min(flop(one) for one in operation.branches) // 2


COUNTS = {
    "dot_general": dot_general,
    "convolution": convolution,
    "attention": attention,
    "attention_backward": attention_backward,
    "while": loop,
    "case": branches,
    "if": branches,
}
"""Multiplications by the operation's name; others have none that the Tensor Engine is for."""
