"""Images one behind the other by channels, wherever they lie and whoever else reads them."""

import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.contraction import Convolution


def convolved(made, x, channels, size=3):
    """Windows of odd size around each element, in float32."""
    rank = len(x.shape) - 2
    ones, zeros, beside = (1,) * rank, (0,) * rank, (size // 2,) * rank
    kernel = made.weight(channels, x.shape[1], *(size,) * rank, scale=x.shape[1] ** -0.5 / size)
    operation = Convolution(ones, beside, beside, zeros, ones, 1)
    return made.graph.apply(operation, x, kernel, dtype="float32")


def biased(made, x):
    """A number to a channel added, and what is below zero cut off."""
    bias = made.repeated(made.weight(x.shape[1]), x, [1])
    return made.of("relu", made.of("add", x, bias))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("channels", [(64, 64), (130, 3), (1, 1), (20, 128, 5), (128, 256), (3,)])
@pytest.mark.parametrize(("batch", "size"), [(1, (7, 9)), (3, (5, 4)), (2, (1, 1)), (2, (11,))])
def test_images_that_are_computed_and_given_are_joined(channels, batch, size):
    made = Made()
    x = made.given(batch, 6, *size)
    parts = [
        biased(made, convolved(made, x, n)) if place % 2 == 0 else made.given(batch, n, *size)
        for place, n in enumerate(channels)
    ]
    joined = made.graph.concatenate(parts, 1)
    made.check(convolved(made, joined, 7), chip=CHIPS[len(channels)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_part_that_others_read_too_is_moved(dtype):
    made = Made(dtype)
    skip = made.of("convert", convolved(made, made.given(2, 5, 6, 6), 40), dtype=dtype)
    up = made.of("convert", convolved(made, skip, 24, 1), dtype=dtype)
    joined = made.graph.concatenate([skip, made.of("add", up, 1.0), skip], 1)
    made.check(convolved(made, joined, 6), convolved(made, skip, 3), joined)


def test_parts_that_are_converted_are_converted_on_their_way():
    made = Made("float32")
    skip = biased(made, convolved(made, made.given(1, 3, 12, 13), 70))
    up = convolved(made, skip, 70, 1)
    narrow = [made.of("convert", one, dtype="bfloat16") for one in (skip, up)]
    kernel = made.given(4, 140, 1, 1, dtype="bfloat16", scale=0.1)
    made.weights.add(kernel.number)
    operation = Convolution((1, 1), (0, 0), (0, 0), (0, 0), (1, 1), 1)
    joined = made.graph.concatenate(narrow, 1)
    made.check(made.graph.apply(operation, joined, kernel, dtype="float32"), skip, near=2e-2)


@pytest.mark.slow
def test_images_beyond_sbuf_are_joined_in_hbm():
    made = Made()
    x = made.given(1, 3, 200, 210)
    first = biased(made, convolved(made, x, 8))
    second = biased(made, convolved(made, first, 5, 1))
    joined = made.graph.concatenate([first, second, x], 1)
    made.check(convolved(made, joined, 2), chip="trn1")


@pytest.mark.slow
def test_channels_of_other_kinds_are_joined_by_a_kernel():
    made = Made()
    x, y = made.given(2, 5, 6), made.given(2, 3, 6)
    made.check(made.graph.concatenate([x, y], 1))
    whole = Made("int32")
    ones = [whole.given(2, n, 6, array=[[[n] * 6] * n] * 2) for n in (5, 3)]
    whole.check(whole.graph.concatenate(ones, 1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("dim", "shape"), [(0, (1, 130, 70)), (0, (40, 7)), (1, (20, 130))])
def test_parts_of_a_result_go_to_their_places(dtype, dim, shape):
    """As gradients of equal layers that a program returns as one tensor."""
    made = Made(dtype)
    flat = shape[-2:]
    parts = [
        made.graph.reshape(
            made.of("multiply", made.given(*flat), float(place + 2))
            if place
            else made.given(*flat),
            shape,
        )
        for place in range(4)
    ]
    sides = made.given(flat[0], 33), made.given(33, flat[1])
    parts.append(made.graph.reshape(made.graph.dot_general(*sides, (1, 0)), shape))
    made.check(made.graph.concatenate(parts, dim), near=2e-2 if dtype == "bfloat16" else 2e-5)


@pytest.mark.parametrize("dims", [(0, 1, 2), (0, 1, 3), (1,), (0, 2, 3), (2, 3)])
def test_images_beside_images_that_repeat_elements(dims):
    made, shape = Made(), (2, 3, 6, 5)
    x = made.given(*(shape[dim] for dim in dims))
    repeated = made.graph.broadcast_in_dim(x, shape, dims)
    joined = made.graph.concatenate([made.of("tanh", made.given(2, 4, 6, 5)), repeated], 1)
    ones = (1, 1)
    convolution = Convolution(ones, ones, ones, (0, 0), ones, 1)
    made.check(made.graph.apply(convolution, joined, made.given(5, 7, 3, 3)))
