import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution
from trnsim.lower import bound

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
    assert one.hbm_s == pytest.approx(2 * two.hbm_s)


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
