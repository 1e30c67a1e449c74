"""Gathers that their reader computes: values on odd sizes, and that no copy is written to HBM."""

from types import SimpleNamespace

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim import compiler
from trnsim.lower.emit import graph_facts, product_operand
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.residents import Residents

TABLE = 7


@pytest.fixture(autouse=True)
def small_matrices_are_not_copied(monkeypatch):
    monkeypatch.setattr(graph_facts, "_LEAST_MATRIX_BYTES", 0)


def indices(made, *shape, end=TABLE):
    array = np.random.default_rng(len(made.arrays)).integers(0, end, shape)
    return made.given(*shape, dtype="int32", array=array)


def product_of_matrices(made, sizes, *, is_weight=False):
    matrices, rows, inner, columns = sizes
    x = made.given(matrices, rows, inner)
    table = (made.weight if is_weight else made.given)(TABLE, inner, columns)
    chosen = made.graph.gather(table, indices(made, matrices))
    return made.graph.dot_general(x, chosen, (2, 1))


SIZES = [(1, 1, 1, 1), (5, 3, 129, 130), (130, 2, 5, 3), (3, 130, 128, 513), (2, 64, 300, 96)]
SIZES += [(1, 128, 1, 1), (5, 128, 129, 130), (2, 256, 40, 1100)]
SIZES += [(130, 2, 128, 1), (3, 5, 256, 96), (2, 128, 384, 50)]


@pytest.mark.parametrize("is_weight", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_load_the_matrices_that_indices_choose(sizes, dtype, is_weight):
    made = Made(dtype)
    result = product_of_matrices(made, sizes, is_weight=is_weight)
    made.check(result, chip=CHIPS[sum(sizes) % 4])


def test_short_rows_of_weights_are_one_run_of_each_partition():
    """Transfers of 192 bytes take longer than the bytes do."""
    times = []
    for is_weight in (False, True):
        made = Made("bfloat16")
        result = product_of_matrices(made, (16, 128, 2048, 96), is_weight=is_weight)
        times.append(made.run(result).timeline.device_time_s)
    assert times[1] < 0.9 * times[0]


@pytest.mark.parametrize("is_weight", [False, True])
@pytest.mark.parametrize("sizes", [(9, 3, 130, 70), (9, 70, 3, 20), (9, 3, 256, 70)])
def test_several_matrices_or_a_part_of_one_lie_in_a_panel(monkeypatch, sizes, is_weight):
    monkeypatch.setattr(product_operand, "_STATIONARY_PANEL_BYTES", 256)
    monkeypatch.setattr(product_operand, "PANEL_BYTES", 512)
    for is_read_later in (False, True):
        made = Made()
        result = product_of_matrices(made, sizes, is_weight=is_weight)
        made.check(made.of("exponential", result) if is_read_later else result)


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("width", [24, 520])
def test_a_bias_is_added_to_products_of_blocks_on_the_chip(rows, width):
    """The bias of each block's matrix comes from a product; only the sums are stored."""
    made, blocks = Made("bfloat16"), 3
    chosen = indices(made, blocks)
    rows_of_x = made.graph.gather(made.given(40, 70), indices(made, blocks * rows, end=40))
    x = made.graph.reshape(rows_of_x, (blocks, rows, 70))
    products = made.graph.dot_general(
        x, made.graph.gather(made.given(TABLE, 70, width), chosen), (2, 1)
    )
    flat = made.graph.reshape(products, (blocks * rows, width))
    spread = made.graph.broadcast_in_dim(chosen, (blocks, rows, TABLE), (0,))
    numbers = made.graph.iota(spread.shape, 2)
    is_matrix = made.of("compare", spread, numbers, dtype="bfloat16", direction="EQ")
    is_matrix = made.graph.reshape(is_matrix, (blocks * rows, TABLE))
    bias = made.graph.dot_general(is_matrix, made.given(TABLE, width), (1, 0))
    found = made.of("add", flat, bias)
    names = made.opcodes(found)
    assert names.count("dma_copy") < 40
    made.check(found)


def test_a_product_of_blocks_transposes_its_rows_only():
    made = Made("bfloat16")
    names = made.opcodes(product_of_matrices(made, (4, 128, 128, 1024)))
    assert names.count("nc_transpose") <= 4


@pytest.mark.parametrize("rows", [1, 127, 128, 130, 300])
@pytest.mark.parametrize("chip", CHIPS)
def test_products_load_rows_by_their_indices(rows, chip):
    made = Made("bfloat16")
    taken = made.graph.gather(made.given(TABLE, 130), indices(made, 3 * rows))
    batch = made.graph.reshape(taken, (3, rows, 130))
    made.check(made.graph.dot_general(batch, made.weight(3, 130, 33), (2, 1)), chip=chip)


def test_a_matrix_of_rows_is_multiplied():
    made = Made()
    taken = made.graph.gather(made.given(TABLE, 40), indices(made, 150))
    made.check(made.graph.dot_general(taken, made.given(40, 20), (1, 0)))


@pytest.mark.parametrize("width", [1, 96, 2500])
@pytest.mark.parametrize("chip", CHIPS)
def test_elementwise_operations_load_rows_by_their_indices(width, chip):
    made, rows = Made("bfloat16"), 261
    table = made.given(TABLE, width)
    factor = made.given(rows, dtype="float32")
    wide = made.of("convert", made.graph.gather(table, indices(made, rows)), dtype="float32")
    scaled = made.of("multiply", wide, made.repeated(factor, wide, [0]))
    other = made.of("convert", made.graph.gather(table, indices(made, rows)), dtype="float32")
    made.check(made.of("convert", made.of("add", scaled, other), dtype="bfloat16"), chip=chip)


def weighted_rows(made, rows, width, experts=2, summands=0):
    """The weighted sum of the rows that indices choose, and of a product of `summands` terms."""
    table = made.given(TABLE, width)
    total = None
    for _ in range(experts):
        wide = made.of("convert", made.graph.gather(table, indices(made, rows)), dtype="float32")
        factor = made.given(rows, dtype="float32")
        part = made.of("multiply", wide, made.repeated(factor, wide, [0]))
        total = part if total is None else made.of("add", total, part)
    total = made.of("convert", total, dtype="bfloat16")
    if not summands:
        return total
    shares = made.given(rows, summands)
    bias = made.graph.dot_general(shares, made.weight(summands, width), (1, 0))
    return made.of("add", total, bias)


@pytest.mark.parametrize("width", [1, 511, 512, 2100])
@pytest.mark.parametrize("rows", [1, 128, 129, 300])
def test_weighted_rows_are_added_to_a_product(rows, width):
    made = Made("bfloat16")
    made.check(weighted_rows(made, rows, width, 3, summands=5), chip=CHIPS[(rows + width) % 4])


READERS = {
    "sum": lambda made, x: made.graph.reduce("add", x, [1]),
    "largest": lambda made, x: made.graph.reduce("maximum", x, [1]),
    "sum of rows": lambda made, x: made.graph.reduce("add", x, [0]),
    "softmax": lambda made, x: made.softmax(x),
    "norm": lambda made, x: made.layer_norm(x),
    "product": lambda made, x: made.linear(x, 5),
    "transpose": lambda made, x: made.of("tanh", made.graph.transpose(x, (1, 0))),
    "slice": lambda made, x: made.graph.slice(
        x, (x.shape[0] // 2, 0), (x.shape[0] // 2, x.shape[1])
    ),
    "joined": lambda made, x: made.graph.concatenate([x, made.given(3, x.shape[1])], 0),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("rows", "width"), [(128, 16), (129, 16), (256, 1), (640, 16), (258, 513)])
def test_a_reader_has_the_rows_of_each_block(rows, width, reader):
    made = Made()
    chosen = made.graph.gather(made.given(TABLE, width), indices(made, rows))
    weighted = made.of("multiply", chosen, made.given(rows, width))
    made.check(READERS[reader](made, weighted), chip=CHIPS[(rows + len(reader)) % 4])


def test_a_product_that_is_added_to_rows_has_its_rows_along_the_partitions():
    """No sums or rows are transposed, only the few terms of the product."""
    made = Made("bfloat16")
    names = made.opcodes(weighted_rows(made, 256, 1440, 2, summands=32))
    assert names.count("nc_transpose") <= 2
    assert names.count("dma_copy") < 25


def test_long_rows_are_weighted_block_by_block():
    """A weight for each row is a number of one instruction, which the Scalar Engine has too."""
    made = Made("bfloat16")
    names = made.opcodes(weighted_rows(made, 512, 1024, 2))
    assert names.count("tensor_scalar") + names.count("scalar_tensor_tensor") >= 8


def test_indices_in_sbuf_and_in_columns_of_a_matrix():
    made = Made()
    table, both = made.given(TABLE, 96), indices(made, 200, 2, end=TABLE - 1)
    following = made.of("add", both, 1.0, dtype="int32")
    parts = []
    for column in (0, 1):
        chosen = made.graph.reshape(made.graph.slice(following, (0, column), (200, 1)), (200,))
        parts.append(made.graph.gather(table, chosen))
    made.check(made.of("subtract", *parts), made.of("multiply", following, 2.0, dtype="int32"))


@pytest.mark.parametrize("other", ["output", "reader", "sum over rows", "reduction"])
def test_other_readers_read_a_copy_in_hbm(other):
    made = Made()
    taken = made.graph.gather(made.given(TABLE, 64), indices(made, 64))
    contracting = (0, 0) if other == "sum over rows" else (1, 0)
    outputs = [made.graph.dot_general(taken, made.given(64, 20), contracting)]
    outputs += [taken] if other == "output" else []
    outputs += [made.of("exponential", taken)] if other == "reader" else []
    outputs += [made.graph.reduce("add", taken, (1,))] if other == "reduction" else []
    made.check(*outputs)


def test_rows_that_a_product_needs_transposed_are_read_from_a_copy():
    made = Made()
    taken = made.graph.gather(made.given(TABLE, 150), indices(made, 200))
    wide = made.of("multiply", taken, made.given(200, 150))
    made.check(made.graph.dot_general(wide, made.given(150, 20), (1, 0)))


@pytest.mark.parametrize("table", [(TABLE, 5, 6, 4), (TABLE,)])
def test_tables_of_other_ranks(table):
    made = Made()
    taken = made.graph.gather(made.given(*table), indices(made, 9))
    made.check(made.of("exponential", taken))


def test_a_computed_table_leaves_sbuf_after_its_reader():
    made = Made("bfloat16")
    table = made.of("exponential", made.given(128, 256, scale=0.1))
    taken = made.graph.gather(table, indices(made, 128, end=128))
    result = made.graph.dot_general(taken, made.given(256, 64), (1, 0))
    facts = GraphFacts(made.graph)
    assert taken.number in facts.deferred_gathers
    residents = Residents(facts, {}, lambda _: None, 1 << 16)
    assert residents.is_unread(table, {})
    residents.places[result.number] = [SimpleNamespace(is_pending=False, is_on_chip=False)]
    assert not residents.is_unread(table, {})


@pytest.mark.parametrize(("columns", "is_deferred"), [(95, False), (96, True)])
def test_small_matrices_are_copied_together(monkeypatch, columns, is_deferred):
    monkeypatch.undo()
    made = Made()
    product_of_matrices(made, (3, 2, 128, columns))
    assert bool(GraphFacts(made.graph).deferred_gathers) == is_deferred


def test_a_layer_of_experts_moves_its_matrices_once():
    """The bytes that a product moves in HBM are those of its operands and its result."""
    made, sizes = Made("bfloat16"), (64, 32, 256, 512)
    made.graph.outputs = [product_of_matrices(made, sizes)]
    program = compiler.compile(made.graph, "trn2")
    matrices, rows, inner, columns = sizes
    elements = matrices * (rows * inner + inner * columns + rows * columns)
    nbytes = sum(sum(share.part.hbm_bytes.values()) for share in program.shares)
    assert nbytes == pytest.approx(2 * elements, rel=0.01)


def test_the_last_row_of_a_matrix_in_sbuf_is_transposed_for_a_product():
    """A row along the columns of SBUF is not transferred element by element."""
    made, tokens, width = Made("bfloat16"), 130, 512
    x = made.given(tokens, width)
    y = made.of("multiply", x, made.repeated(made.graph.reduce("add", x, (1,)), x, [0]))
    last = made.graph.slice(y, (tokens - 1, 0), (1, width))
    result = made.graph.dot_general(last, made.given(96, width), (1, 1))
    made.check(y, result)
    assert made.opcodes(y, result).count("dma_copy") < 20


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_many_short_rows_are_gathered_to_hbm_before_they_are_added(chip):
    made = Made()
    table = made.given(300, 9)
    left, right = (made.graph.gather(table, indices(made, 3000, end=300)) for _ in range(2))
    found = made.of("add", left, right)
    names = made.opcodes(found, chip=chip)
    assert (names.count("dma_copy") < 30) == (chip == "trn2")
    made.check(found, chip=chip)
