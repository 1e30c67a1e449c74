"""Products: all sides, sizes and batches; weights that are loaded once; what stays on the chip."""

from itertools import pairwise

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph import Graph
from trnsim.isa import Engine
from trnsim.lower import bound, costs, evaluate
from trnsim.lower.emit import product_operand

SIZES = [1, 127, 128, 129, 512, 513]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("contracting", [(2, 1), (2, 2), (1, 1), (1, 2)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (129, 127, 5), (3, 513, 130), (513, 128, 1)])
@pytest.mark.parametrize("is_weight", [False, True])
def test_either_dimension_of_either_side_is_contracted(contracting, sizes, is_weight):
    rows, inner, columns = sizes
    made = Made()
    left, right = contracting
    x = made.given(2, *((rows, inner) if left == 2 else (inner, rows)))
    make = made.weight if is_weight else made.given
    w = make(2, *((inner, columns) if right == 1 else (columns, inner)))
    found = made.graph.dot_general(x, w, contracting)
    made.check(found, chip=CHIPS[(rows + left) % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("size", "dtype"), [*((size, "bfloat16") for size in SIZES), (129, "float32")]
)
def test_linear_layers_of_any_size(size, dtype):
    made = Made(dtype)
    x = made.given(3, 43, size)
    hidden = made.of("gelu", made.linear(x, 130))
    made.check(made.of("add", made.linear(hidden, size), x), chip=CHIPS[size % 4])


@pytest.mark.parametrize("tokens", SIZES)
def test_any_number_of_tokens(tokens):
    made = Made("bfloat16")
    x = made.given(tokens, 130)
    made.check(made.linear(made.of("silu", made.linear(x, 96)), 33), chip=CHIPS[tokens % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("is_weight", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7, 5, 3), (129, 31, 67), (67, 130, 33), (1, 49, 32)])
def test_panels_hold_several_matrices_of_a_batch(monkeypatch, sizes, dtype, is_weight):
    monkeypatch.setattr(product_operand, "_STATIONARY_PANEL_BYTES", 1024)
    monkeypatch.setattr(product_operand, "_WEIGHT_PANEL_BYTES", 1024)
    monkeypatch.setattr(product_operand, "PANEL_BYTES", 1024)
    rows, inner, columns = sizes
    made = Made(dtype)
    x = made.given(11, rows, inner)
    y = (made.weight if is_weight else made.given)(11, inner, columns)
    summed = made.graph.dot_general(x, y, (2, 1))
    made.check(summed, made.of("exponential", made.of("multiply", summed, 0.1)))


def test_small_matrices_take_few_transfers():
    g = Graph()
    g.outputs = [g.dot_general(*(g.input((512, 32, 32), "bfloat16") for _ in range(2)), (2, 1))]
    (cost,) = costs(g)
    assert cost.device_time_s < 150e-6


@pytest.mark.parametrize("batch", [(5,), (2, 3), (1, 2, 2)])
def test_batches_of_matrices(batch):
    made = Made()
    x, y = made.given(*batch, 20, 33), made.given(*batch, 33, 130)
    rank = len(batch) + 2
    one = made.graph.dot_general(x, y, (rank - 1, rank - 2))
    scores = made.graph.dot_general(one, y, (rank - 1, rank - 1))
    made.check(one, made.softmax(scores))
    biased = made.graph.dot_general(made.of("negate", x), made.of("abs", y), (rank - 1, rank - 2))
    made.check(made.of("add", biased, one))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_chain_of_linear_layers_turns_nothing_between_products(chip):
    made = Made("bfloat16")
    x = made.given(3, 43, 192)
    for width in (320, 129, 64, 192):
        x = made.of("relu", made.linear(x, width))
    names = made.opcodes(x, chip=chip)
    products = [place for place, name in enumerate(names) if name == "nc_matmul"]
    between = names[products[0] : products[-1]]
    assert not {"nc_transpose", "dma_transpose"} & set(between)
    # Between products, transfers bring weights and biases alone: four layers of two.
    made.check(x, chip=chip)


def test_weights_are_loaded_once():
    made = Made("bfloat16")
    x = made.given(2000, 192)
    found = made.linear(x, 320, has_bias=False)
    run = made.run(found)
    read = [
        use.read_bytes
        for use in run.timeline.program.uses.values()
        if use.memory.name == "HBM" and use.read_bytes
    ]
    # All tokens and the weights, in which no row is read twice; the contraction is two blocks.
    assert sorted(read) == sorted([2000 * 192 * 2, 128 * 2 * 320 * 2])


@pytest.mark.parametrize(
    ("tokens", "chunks"),
    [(512, [0]), (513, [0, 512, 0, 512]), (1100, [0, 512, 1024, 512, 0, 512, 1024])],
)
def test_a_product_begins_with_the_rows_that_the_one_before_read_last(tokens, chunks, monkeypatch):
    monkeypatch.setattr(product_operand, "PANEL_BYTES", 1024)  # 512 rows of one block in bfloat16
    loaded, load = [], product_operand.load_in_frame

    def recorded(emission, value, frame, *part):
        loaded.append(part[0] if part else 0)
        return load(emission, value, frame, *part)

    monkeypatch.setattr(product_operand, "load_in_frame", recorded)
    made = Made("bfloat16")
    x = made.given(tokens, 128)
    results = [made.linear(x, columns) for columns in (64, 96, 32)]
    made.run(*results)
    assert loaded == chunks
    made.check(*results)


@pytest.mark.parametrize(("dtype", "least"), [("bfloat16", 1.85), ("float32", 1.99)])
def test_neighbouring_banks_share_the_loads_of_a_weight(dtype, least):
    # 64 cycles load 128 columns for each 512 that pass, or for 1,024; none show in float32.
    busy_s = []
    for tokens in (512, 1024):
        made = Made(dtype)
        found = made.linear(made.given(tokens, 512), 256, has_bias=False)
        busy_s.append(made.run(found, chip="trn1").timeline.busy_s()[Engine.tensor])
    assert least < busy_s[1] / busy_s[0] < least + 0.1


@pytest.mark.parametrize("products", [1, 2, 3, 5])
@pytest.mark.parametrize("tokens", [1023, 1025, 2100])
def test_sums_of_products_that_are_read_together_fit_in_psum(products, tokens):
    made = Made("bfloat16")
    x = made.given(tokens, 130)
    found = made.linear(x, 33)
    for _ in range(products - 1):
        found = made.of("multiply", found, made.linear(x, 33))
    made.check(found, chip=CHIPS[products % 4])


def test_results_stay_on_the_chip_between_products():
    made = Made("bfloat16")
    x = made.given(100, 128)
    found = made.linear(made.of("gelu", made.linear(x, 512)), 128)
    hbm = [u for u in made.run(found).timeline.program.uses.values() if u.memory.name == "HBM"]
    assert sum(use.written_bytes for use in hbm) == 100 * 128 * 2


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_what_does_not_fit_goes_to_hbm_in_its_frames_order(chip, monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 16 * 1024)
    made = Made("bfloat16")
    x = made.given(1100, 128)
    wide = [made.of("relu", made.linear(x, 2560)) for _ in range(4)]
    once, again = ([made.linear(one, 1) for one in wide] for _ in range(2))
    found = once[0]
    for one in (*once[1:], *again):
        found = made.of("add", found, one)
    run = made.run(found, chip=chip)
    written = [u for u in run.timeline.program.uses.values() if u.memory.name == "HBM"]
    assert max(use.written_bytes for use in written) == 1100 * 2560 * 2
    names = [span.opcode for span in run.timeline.spans()]
    first, last = names.index("nc_matmul"), len(names) - names[::-1].index("nc_matmul")
    assert "nc_transpose" not in names[first:last]
    if chip == "trn1":
        made.check(found, chip=chip)


def test_two_products_that_lie_differently_meet():
    made = Made()
    x, y = made.given(130, 130), made.given(130, 130)
    one, other = made.graph.dot_general(x, y, (1, 0)), made.graph.dot_general(y, x, (1, 1))
    made.check(made.of("subtract", one, made.graph.transpose(other, (1, 0))))


@pytest.mark.parametrize("start", [0, 1, 64])
def test_part_of_a_product_is_read(start):
    made = Made()
    x, w = made.given(40, 96), made.weight(192, 96)
    product = made.graph.dot_general(x, w, (1, 1))
    part = made.graph.slice(product, (start % 3, start), (37, 128))
    again = made.graph.dot_general(made.of("negate", x), w, (1, 1))
    apart = made.graph.slice(again, (0, start), (13, 40), (3, 2))
    made.check(made.of("relu", part), made.of("tanh", apart))


def test_a_product_is_repeated():
    made = Made()
    product = made.graph.dot_general(made.given(2, 17, 33), made.given(2, 33, 129), (2, 1))
    wide = made.graph.broadcast_in_dim(product, (2, 3, 17, 129), (0, 2, 3))
    made.check(made.of("relu", wide))


def test_a_repeated_number_is_a_side_of_a_product():
    made = Made()
    total = made.graph.reduce("minimum", made.given(2, 300), [0, 1])
    every = made.graph.broadcast_in_dim(made.of("exponential", total), (2, 3, 5), ())
    made.check(
        made.graph.dot_general(made.given(2, 16, 5), every, (2, 2)),
        made.graph.dot_general(every, made.given(2, 5, 130), (2, 1)),
    )


def test_sums_of_short_formats_are_a_side_of_a_product():
    made = Made("bfloat16")
    total = made.graph.reduce("add", made.given(256, 20), [0])
    row = made.graph.reshape(total, (1, 20))
    made.check(made.graph.dot_general(row, made.given(20, 30), (1, 0)))


def test_operands_with_batches_along_partitions():
    made = Made()
    x = made.of("minimum", -1.0, made.given(2, 8, 4, 96))  # 64 rows along the partitions
    made.check(made.graph.dot_general(made.given(2, 8, 8, 4), x, (3, 2)))


def test_rows_of_products_are_each_others_neighbours():
    for before, after in pairwise(SIZES[::2]):
        made = Made("bfloat16")
        x = made.given(2, before, 40)
        made.check(made.linear(made.linear(x, after), before), chip=CHIPS[before % 4])


@pytest.mark.parametrize("length", [1, 128, 129, 257])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("batch", [2, 3])
def test_each_of_a_batch_has_its_own_row(batch, rows, length):
    made = Made()
    x, y = made.given(batch, 1, length), made.given(batch, rows, length)
    made.check(made.graph.dot_general(x, y, (2, 2)), chip=CHIPS[length % 4])


# Products alone, as eager calls have them


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("is_last", [(True, False), (True, True), (False, False), (False, True)])
def test_either_side_may_lie_either_way(random, is_last, target):
    M, K, N = 150, 200, 600
    a, b = random((M, K)), random((K, N), seed=1)
    left = a if is_last[0] else np.ascontiguousarray(a.T)
    right = np.ascontiguousarray(b.T) if is_last[1] else b
    g = Graph()
    x, y = g.input(left.shape, "float32"), g.input(right.shape, "float32")
    g.outputs = [g.dot_general(x, y, (int(is_last[0]), int(is_last[1])))]
    np.testing.assert_allclose(evaluate(g, [left, right], target)[0], a @ b, atol=1e-3)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("rows", [1, 7, 129])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_rows_pass_while_blocks_of_the_other_side_stay(random, rows, is_last, dtype):
    K, N = 300, 700
    g = Graph()
    x = g.input((rows, K), dtype)
    y = g.input((N, K) if is_last else (K, N), dtype)
    g.outputs = [g.dot_general(x, y, (1, int(is_last)))]
    a, b = (
        random(one.shape, seed=n).astype(one.type.numpy_dtype()) for n, one in enumerate((x, y))
    )
    wide = b.astype(np.float64).T if is_last else b.astype(np.float64)
    found = evaluate(g, [a, b], "trn1")[0].astype(np.float64)
    near = 2e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(found, a.astype(np.float64) @ wide, atol=near * abs(found).max())


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("rows", [1, 128])
def test_few_rows_take_little_more_than_the_weights_over_hbm(rows, is_last):
    g = Graph()
    y = g.input((2048, 1024) if is_last else (1024, 2048), "bfloat16")
    g.outputs = [g.dot_general(g.input((rows, 1024), "bfloat16"), y, (1, int(is_last)))]
    (cost,) = costs(g)
    assert cost.device_time_s < 2 * bound(g, "trn2").seconds + 5e-6  # what the first and last wait


def test_batches(random):
    a, b = random((3, 2, 20, 30)), random((3, 2, 30, 40), seed=1)
    g = Graph()
    x, y = g.input(a.shape, "float32"), g.input(b.shape, "float32")
    g.outputs = [g.dot_general(x, y, (3, 2))]
    np.testing.assert_allclose(evaluate(g, [a, b])[0], a @ b, atol=1e-4)


def test_a_matrix_times_itself(random):
    a, g = random((2, 20, 20)), Graph()
    x = g.input(a.shape, "float32")
    g.outputs = [g.dot_general(x, x, (2, 1))]
    np.testing.assert_allclose(evaluate(g, [a])[0], a @ a, atol=1e-4)


@pytest.mark.slow
def test_long_contractions_are_cut_to_what_fits():
    g = Graph()
    x, y = g.input((256, 32768), "bfloat16"), g.input((32768, 1024), "bfloat16")
    g.outputs = [g.dot_general(x, y, (1, 0))]
    (cost,) = costs(g)
    assert cost.device_time_s > cost.flop / 95e12  # no faster than the array's peak in bfloat16
