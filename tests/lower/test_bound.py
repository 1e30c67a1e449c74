import pytest

from trnsim import arch
from trnsim.arch.peaks import hbm_stack_bytes_per_s
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, Convolution
from trnsim.graph.ops.layout import DynamicSlice, DynamicUpdateSlice
from trnsim.lower import bound
from trnsim.lower.bound import copied_bytes, hbm_rate

SIZES = (256, 512, 384)


def product(dtype):
    """[M, K] x [K, N]."""
    graph, (rows, inner, columns) = Graph(), SIZES
    left, right = graph.input((rows, inner), dtype), graph.input((inner, columns), dtype)
    graph.outputs = [graph.dot_general(left, right, (1, 0), "float32")]
    return graph, right.number


def test_products_at_the_peak_of_the_clock():
    graph, _ = product("bfloat16")
    found = bound(graph, "trn2")
    rows, inner, columns = SIZES
    assert found.flop == 2 * rows * inner * columns
    assert found.products_s == pytest.approx(found.flop / (2 * 128 * 128 * 2.4e9))


def test_float32_passes_four_times_unless_it_is_cast():
    graph, weight = product("float32")
    plain = bound(graph, "trn2")
    cast = bound(graph, "trn2", weights={weight}, is_cast=True)
    assert plain.products_s == pytest.approx(4 * cast.products_s)
    rows, inner, columns = SIZES
    assert plain.hbm_bytes == 4 * (rows * inner + inner * columns + rows * columns)
    assert cast.hbm_bytes == plain.hbm_bytes - 2 * inner * columns


@pytest.mark.parametrize(
    ("gap", "low", "dilation", "taps"), [(1, 1, 1, 2), (1, 2, 1, 3), (2, 0, 2, 4), (0, 1, 1, 3)]
)
def test_a_product_with_the_zeros_of_a_gap_is_none(gap, low, dilation, taps):
    graph, count = Graph(), 9
    x, weight = graph.input((2, 3, count), "bfloat16"), graph.input((5, 3, taps), "bfloat16")
    operation = Convolution((1,), (low,), (low,), (gap,), (dilation,), 1)
    graph.outputs = [graph.apply(operation, x, weight)]
    (length,) = graph.outputs[0].shape[2:]
    met = sum(
        (window + tap * dilation - low) % (gap + 1) == 0
        for window in range(length)
        for tap in range(taps)
    )
    assert bound(graph, "trn2").flop == 2 * 2 * 5 * 3 * met


def test_two_cores_of_a_logical_one_have_twice_the_peak_and_the_whole_stack():
    graph, _ = product("bfloat16")
    one, two = bound(graph, "trn2"), bound(graph, "trn2", lnc=2)
    assert one.products_s == pytest.approx(2 * two.products_s)
    # 23 B/ns on each of 16 DMA engines of one core; of two, the stack's 2.9 TB/s / 4.
    assert one.hbm_s == pytest.approx(one.hbm_bytes / 368e9)
    assert two.hbm_s == pytest.approx(two.hbm_bytes / 725e9)


def test_of_a_table_the_rows_that_are_looked_up_cross():
    graph = Graph()
    table, places = graph.input((1000, 16), "float32"), graph.input((3,), "int32")
    graph.outputs = [graph.gather(table, places)]
    assert bound(graph, "trn1").hbm_bytes == 4 * (3 * 16) + 4 * 3 + 4 * (3 * 16)


def test_what_nobody_reads_does_not_cross():
    graph = Graph()
    graph.input((1000, 16), "float32")
    graph.outputs = [graph.elementwise("abs", graph.input((8,), "float32"))]
    assert bound(graph, "trn1").hbm_bytes == 2 * 4 * 8


def test_the_longest_side_binds():
    graph, _ = product("bfloat16")
    found = bound(graph, "trn2", links_s=1.0)
    assert (found.binds, found.seconds) == ("links", 1.0)
    assert bound(graph, "trn2").binds == "HBM"


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2", "trn3"])
def test_no_core_is_slower_than_its_transfers_or_faster_than_its_stack(chip):
    core = arch.target(chip).core
    stack = hbm_stack_bytes_per_s(core)
    for cores in range(1, core.logical_core_max + 1):
        rate = hbm_rate(chip, cores)
        assert min(stack, cores * core.dma_bytes_per_s) <= rate <= stack


def read(graph, *outputs):
    """The inputs' bytes that must cross."""
    graph.outputs = list(outputs)
    return bound(graph, "trn2").hbm_bytes - sum(value.type.nbytes for value in outputs)


def test_of_what_is_cut_the_part_that_is_needed_crosses_and_is_computed():
    graph = Graph()
    x = graph.input((8, 100), "float32")
    top, left = graph.slice(x, (0, 0), (2, 100)), graph.slice(x, (0, 0), (8, 10))
    assert read(graph, top) == 4 * 200
    assert read(graph, top, left) == 4 * 200  # what both read may be all that the second one does
    assert read(graph, graph.slice(graph.elementwise("abs", x), (0, 0), (1, 3))) == 4 * 3
    assert read(graph, graph.slice(graph.pad(x, (8, 0), (0, 0)), (0, 0), (8, 100))) == 0
    both = graph.concatenate([x, graph.elementwise("abs", x)], 0)
    assert read(graph, graph.slice(both, (0, 0), (12, 100))) == 4 * 800
    assert read(graph, graph.slice(both, (8, 0), (3, 100))) == 4 * 300
    product = graph.dot_general(x, graph.input((100, 6), "float32"), (1, 0))
    graph.outputs = [graph.slice(product, (0, 0), (2, 6))]
    assert bound(graph, "trn2").flop == 2 * 2 * 100 * 6
    graph.outputs = [x]
    assert bound(graph, "trn2").flop == 0


def test_of_an_image_what_windows_see_crosses():
    graph = Graph()
    x, w = graph.input((2, 3, 9), "bfloat16"), graph.input((5, 3, 2), "bfloat16")
    apart = Convolution((4,), (0,), (0,), (0,), (1,), 1)
    assert read(graph, graph.apply(apart, x, w)) == 2 * (2 * 3 * 4 + 5 * 3 * 2)
    wide = Convolution((1,), (1,), (1,), (0,), (1,), 1)
    assert read(graph, graph.apply(wide, x, w)) == 2 * (2 * 3 * 9 + 5 * 3 * 2)


def test_keys_after_the_last_query_are_nobodys():
    graph = Graph()
    q, k = (graph.input((2, n, 16), "bfloat16") for n in (4, 100))
    graph.outputs = graph.apply_to_all(Attention(0.25, is_causal=True), [q, k, k])[:1]
    assert bound(graph, "trn2").flop == 2 * 2 * (4 * 5 / 2) * (16 + 16)


def test_of_what_has_no_elements_nothing_crosses():
    graph = Graph()
    x, none = graph.input((3, 4), "float32"), graph.input((0, 4), "float32")
    assert read(graph, graph.concatenate([x, none], 0)) == 4 * 12


def test_a_row_of_the_last_state_needs_all_keys_and_all_layers_before():
    """A pooler reads one row: of the last layer one query is needed, and all that it attends to."""
    graph = Graph()
    x = graph.input((64, 32), "bfloat16")
    weights = [graph.input((32, 32), "bfloat16") for _ in range(5)]
    before = graph.dot_general(x, weights[0], (1, 0))
    q, k, v = (graph.dot_general(before, one, (1, 0)) for one in weights[1:4])
    heads = [graph.reshape(one, (1, 64, 32)) for one in (q, k, v)]
    attended = graph.apply_to_all(Attention(0.25), heads)[0]
    first = graph.slice(graph.reshape(attended, (64, 32)), (0, 0), (1, 32))
    graph.outputs = [graph.dot_general(first, weights[4], (1, 0))]
    product, row = 2 * 64 * 32 * 32, 2 * 32 * 32
    # All of the layer before, of keys and of values; a row of queries, of scores and of the rest.
    assert bound(graph, "trn2").flop == 3 * product + row + 2 * 64 * (32 + 32) + row
    assert bound(graph, "trn2").hbm_bytes == 2 * (64 * 32 + 5 * 32 * 32 + 32)


def test_an_input_that_is_returned_is_read_where_nodes_read_it():
    graph = Graph()
    table = graph.input((1000, 64), "float32")
    graph.outputs = [graph.elementwise("exponential", graph.slice(table, (3, 0), (1, 64))), table]
    assert bound(graph, "trn2").hbm_bytes == 2 * 64 * 4


def copies(*outputs, graph, target="trn2", **options):
    """The bound's time of HBM for a graph that returns `outputs`."""
    graph.outputs = list(outputs)
    return bound(graph, target, **options).hbm_s


def test_a_copied_byte_is_moved_once_and_read_and_written():
    graph = Graph()
    x = graph.input((128, 1000), "float32")
    nbytes, engines, stack = x.type.nbytes, 368e9, 725e9
    turned = graph.transpose(x, (1, 0))
    assert copies(turned, graph=graph) == pytest.approx(2 * nbytes / stack)
    assert copies(turned, graph=graph, lnc=2) == pytest.approx(2 * nbytes / stack)
    # Of a copy and of computed values the first is read with what the second reads.
    computed = graph.elementwise("abs", x)
    assert copies(computed, graph=graph) == pytest.approx(2 * nbytes / engines)
    assert copies(turned, computed, graph=graph) == pytest.approx(2 * nbytes / engines)
    # A copy of what is computed is none of an input.
    assert copies(graph.transpose(computed, (1, 0)), graph=graph) == pytest.approx(
        2 * nbytes / engines
    )


def test_indices_are_no_source_of_copies():
    graph = Graph()
    x, rows = graph.input((128, 1000), "float32"), graph.input((64,), "int32")
    row, start = graph.input((1, 1000), "float32"), graph.input((), "int32")
    computed, updates = (graph.elementwise("abs", v) for v in (x, graph.gather(x, rows)))
    place = (start, start)

    def copied(value):
        graph.outputs = [value]
        return copied_bytes(graph)

    assert copied(graph.gather(computed, rows)) == 0
    assert copied(graph.apply(DynamicSlice((1, 1000)), computed, *place)) == 0
    assert copied(graph.scatter(x.type, rows, updates)) == 0
    assert copied(graph.scatter(computed, rows, updates)) == 0
    # Tables and updates are.
    assert copied(graph.gather(x, rows)) == 4 * 64 * 1000
    assert copied(graph.apply(DynamicSlice((1, 1000)), x, *place)) == 4 * 1000
    assert copied(graph.apply(DynamicUpdateSlice(), computed, row, *place)) == x.type.nbytes
    assert copied(graph.scatter(x, rows, updates)) == x.type.nbytes
    assert copied(graph.scatter(x.type, rows, graph.gather(x, rows))) == x.type.nbytes


def test_of_a_concatenation_the_copied_operands_are_moved_once():
    graph = Graph()
    x, y = graph.input((128, 1000), "bfloat16"), graph.input((128, 500), "bfloat16")
    both = graph.concatenate([x, graph.elementwise("abs", y)], 1)
    assert copies(both, graph=graph) == pytest.approx(2 * 128 * (1000 + 500 + 500) / 368e9)


def test_copies_of_a_few_elements_save_no_more_than_reading_them():
    graph = Graph()
    x = graph.input((128, 1), "float32")
    wide = graph.broadcast_in_dim(x, (128, 4096), (0, 1))
    assert copies(wide, graph=graph) == pytest.approx(4 * 128 * 4096 / 368e9)
