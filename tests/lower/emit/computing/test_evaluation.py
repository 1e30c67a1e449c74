"""Trees of elementwise operations over leaves that lie anywhere."""

import re
from math import prod

import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.contraction import Convolution

SHAPES = [(1,), (130,), (3, 1), (129, 40), (2, 3, 130), (4, 1, 33, 2)]


def leaves(made, shape):
    """Tensors of a shape that lie in HBM, on the chip, across, pending, and repeated."""
    rank = len(shape)
    x = made.given(*shape)
    yield x
    kept = made.of("tanh", x)
    yield made.of("add", kept, made.of("exponential", kept))
    flipped = made.given(*shape[::-1])
    yield made.graph.transpose(made.of("tanh", flipped), tuple(range(rank))[::-1])
    rows = made.given(*shape[:-1], 20)
    if rank > 1:
        yield made.linear(rows, shape[-1])
        yield made.row(made.given(shape[-1]), x)
        column = made.graph.reduce("maximum", x, [rank - 1])
        yield made.repeated(column, x, range(rank - 1))
    yield made.graph.broadcast_in_dim(made.graph.reduce("add", x, range(rank)), shape, ())
    yield made.graph.reshape(made.of("negate", made.given(*shape[::-1])), shape)
    half = made.graph.constant(0.5, x.type)
    yield half
    yield made.of("add", half, made.of("exponential", half))


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("float32-shape3", "float32-shape5", "bfloat16-shape3", "bfloat16-shape5")
@pytest.mark.slow_cases("bfloat16-shape4", "float32-shape4")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_pair_of_leaves_meets(shape, dtype):
    chip = CHIPS[len(shape) % 4]
    made = Made(dtype)
    every = list(leaves(made, shape))
    pairs = [
        made.of("multiply", one, made.of("logistic", other))
        for number, one in enumerate(every)
        for other in (every[number - 1], every[number - 3])
    ]
    made.check(*pairs, chip=chip)


@pytest.mark.parametrize("lengths", [(130, 6), (2, 3, 130), (780,), (1, 780, 1), (13, 10, 6)])
def test_operations_go_on_through_reshapes(lengths):
    made = Made()
    x, row = made.given(130, 6), made.given(6)
    y = made.of("divide", made.repeated(row, x, [1]), made.of("exponential", x))
    other = made.given(*lengths)
    product = made.graph.reshape(made.linear(x, 6), lengths)
    wide = made.graph.reshape(made.repeated(row, x, [1]), lengths)
    made.check(
        made.of("minimum", other, made.graph.reshape(y, lengths)),
        made.of("add", made.of("relu", product), wide),
    )


def test_a_repeated_row_of_what_lies_on_partitions():
    # The same tensor lies along and across once a product has read it.
    made = Made()
    x = made.given(20, 33)
    scores = made.graph.dot_general(x, x, (1, 1))
    made.check(made.softmax(x), made.softmax(scores), made.softmax(scores, 0))


def test_a_product_with_several_readers_is_computed_once():
    made = Made("bfloat16")
    x = made.given(40, 128)
    product = made.linear(x, 128)
    outputs = [made.of(name, product) for name in ("tanh", "exponential")]
    names = made.opcodes(*outputs)
    assert names.count("nc_matmul") == 1
    norm = made.rms_norm(product)
    # Beside the product, one with ones for the sum of squares.
    assert made.opcodes(norm, *outputs).count("nc_matmul") == 2
    made.check(norm, *outputs)


def test_pending_products_in_chunks():
    made = Made()
    x, y = made.given(600, 2100), made.given(600, 130)
    one, other = made.linear(x, 130), made.linear(y, 130)
    made.check(made.of("add", made.of("relu", one), made.of("relu", other)))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_chains_of_residuals(chip):
    made = Made("bfloat16")
    x = made.given(2, 43, 130)
    for _ in range(3):
        hidden = made.linear(made.rms_norm(x), 96, has_bias=False)
        gate = made.of("silu", made.linear(made.rms_norm(x), 96, has_bias=False))
        x = made.of("add", x, made.linear(made.of("multiply", gate, hidden), 130))
    made.check(x, chip=chip)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 150, 170), (3, 75, 90)])
def test_images_in_hbm_are_read_and_written_in_long_runs(size):
    """A residual beyond SBUF, in float32, beside convolutions that are converted."""
    made = Made()
    batch, *places = size
    x = made.given(batch, 3, *places)
    same = Convolution((1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1)

    def convolved(image, channels):
        kernel = made.given(channels, image.shape[1], 3, 3, dtype="bfloat16", scale=0.2)
        made.weights.add(kernel.number)
        narrow = made.of("convert", image, dtype="bfloat16")
        return made.graph.apply(same, narrow, kernel, dtype="float32")

    first = made.of("relu", convolved(x, 20))
    second = made.of("relu", made.of("add", convolved(first, 20), first))
    third = made.of("relu", made.of("add", convolved(second, 20), second))
    made.check(convolved(third, 2), chip="trn1", near=2e-2)
    moved = [s.operands for s in made.run(*made.graph.outputs, chip="trn1").timeline.spans()]
    writes = [one for one in moved if one.startswith("dst=HBM [20,")]
    columns = sorted(prod(map(int, re.findall(r"\d+", one.split("]")[0])[1:])) for one in writes)
    assert columns[len(columns) // 2] > 512  # more than one bank of PSUM holds


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("tokens", [12, 130])
@pytest.mark.parametrize("parts", [1, 2])
def test_what_is_read_by_views_that_no_steps_can_say_is_computed_once(batch, tokens, parts):
    made, shape = Made(), (batch, 2, tokens, 16)
    x, y = (made.given(*shape) for _ in range(2))
    if parts == 2:
        low, high = (made.graph.slice(one, (0, 0, 0, 0), (*shape[:3], 8)) for one in (x, y))
        sides = (
            made.graph.pad(low, (0, 0, 0, 8), (0,) * 4),
            made.graph.pad(high, (0,) * 4, (0, 0, 0, 8)),
        )
        computed = made.of("add", *sides)
    else:
        computed = made.of("tanh", made.of("multiply", x, y))
    turned = made.graph.transpose(computed, (0, 2, 1, 3))
    rows = made.graph.reshape(turned, (batch * tokens, 32))
    made.check(made.graph.reduce("add", rows, [0]), made.graph.reduce("maximum", rows, [1]), rows)


@pytest.mark.parametrize("shape", [(1,), (40, 33), (64, 1, 64)])
@pytest.mark.parametrize("to", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_number_is_converted(shape, dtype, to):
    made = Made(dtype)
    number = made.graph.constant(2.5 if to != "int32" else 2.0, made.given(*shape).type)
    wide = made.graph.reshape(number, (1, *shape))
    made.check(*(made.of("convert", one, dtype=to) for one in (number, wide)), chip="trn2")


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_norms_of_each_head_of_a_query_take_few_transfers(heads):
    """One number for each head is not sent to each of its partitions by a transfer."""
    made, width = Made("bfloat16"), 128
    rows = made.linear(made.given(4, 96), heads * width, has_bias=False)
    apart = made.graph.transpose(made.graph.reshape(rows, (4, 1, heads, width)), (0, 2, 1, 3))
    norm = made.rms_norm(apart)
    made.check(norm, chip=CHIPS[heads % 4])
    assert made.opcodes(norm).count("dma_copy") < 12 + 4 * heads
