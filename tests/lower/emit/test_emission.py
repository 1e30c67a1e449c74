"""Whole programs: where values lie, and for how long."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.errors import NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.control_flow import If


def layer(made, x, heads=3, *, is_causal=False):
    """One layer of a transformer [B, T, W], its norms before."""
    width = x.shape[-1]
    norm = made.layer_norm(x)
    query, key, value = (made.heads(made.linear(norm, width), heads) for _ in range(3))
    attended = made.joined(made.attention(query, key, value, is_causal=is_causal))
    x = made.of("add", x, made.linear(attended, width))
    hidden = made.of("gelu", made.linear(made.layer_norm(x), 2 * width))
    return made.of("add", x, made.linear(hidden, width))


@pytest.mark.parametrize(
    ("chip", "dtype"), [("trn1", "bfloat16"), ("trn2", "float32"), ("trn3", "bfloat16")]
)
def test_layers_of_a_transformer(chip, dtype):
    made = Made(dtype)
    x = made.given(2, 43, 96)
    made.check(layer(made, layer(made, x), is_causal=True), chip=chip)


def test_an_activation_never_leaves_the_chip_where_it_fits():
    made = Made("bfloat16")
    x = made.given(1, 128, 192)
    run = made.run(layer(made, x))
    written = [u for u in run.timeline.program.uses.values() if u.memory.name == "HBM"]
    assert sum(use.written_bytes for use in written) == 128 * 192 * 2


@pytest.mark.slow_cases("2000-trn1", "2600-trn2")
@pytest.mark.parametrize(("tokens", "chip"), [(700, "trn3"), (2000, "trn1"), (2600, "trn2")])
def test_no_program_needs_more_sbuf_than_there_is(tokens, chip):
    made = Made("bfloat16")
    x = made.given(1, tokens, 768)
    hidden = made.of("gelu", made.linear(made.layer_norm(x), 3072))
    x = made.layer_norm(made.of("add", x, made.linear(hidden, 768)))
    assert made.run(x, chip=chip).warnings == ()


@pytest.mark.parametrize("heads", [1, 4])
def test_values_of_attention_that_stand_are_computed_for_a_reader_of_their_heads(heads):
    made = Made("bfloat16")
    x = made.given(1, 20, 64)
    sides = [made.heads(made.linear(x, 16 * heads, has_bias=False), heads) for _ in range(3)]
    made.check(made.attention(*sides))


def test_an_operation_without_a_kernel_is_refused_by_name():
    branch = Graph()
    one = branch.input((3,), "float32")
    branch.outputs = [branch.elementwise("negate", one)]
    made = Made()
    said = made.given(dtype="bool", array=np.array(True))
    x = made.given(3)
    found = made.graph.apply(If((branch, branch)), said, x)
    with pytest.raises(NotModelled, match=r"^if has no kernel yet; there are kernels for chains"):
        made.run(found)


@pytest.mark.slow_cases("trn1")
@pytest.mark.parametrize("chip", CHIPS)
def test_a_row_of_a_bias_is_one_number_to_a_partition(chip):
    # The same row in two layouts, and beside a scalar that every partition holds.
    made = Made()
    x, row = made.given(20, 130), made.weight(130)
    product = made.linear(x, 130)
    first = made.of("add", product, made.row(row, product))
    second = made.of("add", x, made.row(row, x))
    split = made.graph.reshape(made.row(row, x), (2, 10, 130))
    third = made.of("multiply", made.graph.reshape(product, (2, 10, 130)), split)
    total = made.graph.reduce("add", made.graph.reduce("maximum", x, [1]), [0])
    limit = made.of("compare", total, made.given(), direction="LT")
    made.check(first, second, third, limit, chip=chip)


@pytest.mark.parametrize("period", [1, 4, 32, 130])
def test_rows_that_blocks_repeat_are_loaded_once(period):
    made = Made()
    x, table = made.given(6, period, 40), made.given(period, 40)
    wide = made.graph.broadcast_in_dim(table, x.shape, (1, 2))
    made.check(made.of("add", x, wide), made.of("multiply", made.of("tanh", x), wide))


@pytest.mark.slow
def test_a_long_chain_is_computed_in_parts():
    made = Made()
    x = y = made.given(4, 32)
    for _ in range(600):
        x, y = made.of("multiply", y, 0.5), made.of("multiply", made.of("add", x, y), 0.5)
    made.check(y)


@pytest.mark.parametrize("rows", [43, 128, 300])
def test_a_bias_that_all_rows_share_is_moved_at_once(rows):
    """That of values of attention, whose rows lie along the partitions."""
    made = Made("bfloat16")
    x = made.given(1, rows, 128)
    query, key, value = (made.heads(made.linear(x, 128), 2) for _ in range(3))
    found = made.attention(query, key, value)
    made.check(found)
    run = made.run(found)
    moves = [
        checked.instruction
        for checked in map(run.program.instruction, range(len(run.program)))
        if checked.opcode == "dma_copy"
    ]
    assert len(moves) < 24
    assert sum(move.dst.shape[0] == 1 for move in moves) <= 4


@pytest.mark.parametrize("rows", [5, 128, 300])
def test_a_row_comes_to_all_partitions_by_one_transfer(rows):
    made = Made("bfloat16")
    x = made.given(rows, 200)
    scale, shift = made.weight(200), made.weight(200)
    found = made.of("add", made.of("multiply", x, made.row(scale, x)), made.row(shift, x))
    blocks = -(-rows // 128)
    assert made.opcodes(found).count("dma_copy") <= 2 * blocks + 2
    made.check(found, chip=CHIPS[rows % 4])
