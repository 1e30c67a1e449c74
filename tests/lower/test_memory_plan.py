import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.calls import CustomCall
from trnsim.lower import memory_plan

KIB = 1024
TILE = (16, 16)  # 1 KiB of float32


def product(g, value):
    return g.dot_general(value, value, (1, 0))


def test_a_tensor_lives_from_its_kernel_to_its_last_reader():
    g = Graph()
    x = g.input(TILE, "float32")
    first = product(g, x)
    second = product(g, first)
    g.outputs = [product(g, second)]
    plan = memory_plan(g, {x.number: "x"})
    lives = [(one.label, one.first, one.last) for one in plan.lifetimes]
    assert lives == [
        ("x", -1, 2),
        ("dot_general", 0, 1),
        ("dot_general", 1, 2),
        ("dot_general", 2, 2),
    ]
    assert plan.in_use_bytes == [2 * KIB, 3 * KIB, 3 * KIB]
    assert (plan.peak_bytes, plan.input_bytes, plan.fresh_bytes) == (3 * KIB, KIB, 2 * KIB)


def test_what_a_fused_kernel_keeps_on_chip_takes_no_hbm():
    g = Graph()
    x = g.input(TILE, "float32")
    chain = x
    for name in ("exponential", "tanh", "abs", "sqrt"):
        chain = g.elementwise(name, chain)
    g.outputs = [chain]
    assert memory_plan(g).peak_bytes == 2 * KIB


def test_a_result_that_the_caller_keeps_lives_to_the_end():
    g = Graph()
    x = g.input(TILE, "float32")
    kept = product(g, x)
    g.outputs = [kept, product(g, product(g, kept))]
    assert memory_plan(g).in_use_bytes == [2 * KIB, 3 * KIB, 4 * KIB]


def test_a_reshape_holds_what_it_is_of():
    g = Graph()
    x = g.input(TILE, "float32")
    flat = g.reshape(product(g, x), (256,))
    product(g, x)
    g.outputs = [g.elementwise("abs", flat)]
    made = memory_plan(g).lifetimes[1]
    assert made.last > made.first


def test_every_result_of_a_users_kernel_takes_memory():
    g = Graph()
    x = g.input(TILE, "float32")
    first, second = g.apply_to_all(CustomCall(None, (x.type, x.type)), (x,))
    g.outputs = [g.elementwise("add", first, second)]
    assert memory_plan(g).in_use_bytes == [3 * KIB, 4 * KIB]


def test_the_table_has_the_largest_first_and_joins_what_is_alike():
    g = Graph()
    inputs = [g.input(TILE, "float32") for _ in range(3)]
    wide = g.input((16, 64), "float32")
    g.outputs = [g.dot_general(inputs[0], wide, (1, 0))]
    rows = memory_plan(g).table().splitlines()
    assert rows[1].split() == ["4", "KiB", "1", "tensor<16x64xfloat32>", "input"]
    assert rows[3].split() == ["3", "KiB", "3", "tensor<16x16xfloat32>", "input"]


def test_what_dies_inside_shares_an_arena_and_what_the_caller_has_does_not():
    g = Graph()
    x = g.input(TILE, "float32")
    chain = [product(g, x)]
    for _ in range(4):
        chain.append(product(g, chain[-1]))
    kept = g.reshape(chain[1], (256,))
    g.outputs = [kept, chain[-1]]
    plan = memory_plan(g)
    assert [one.is_returned for one in plan.lifetimes] == [False, False, True, False, False, True]
    assert [(one.first, one.last) for one in plan.inner_tensors] == [(0, 1), (2, 3), (3, 4)]
    assert plan.arena.offsets_bytes == (0, 0, KIB)
    assert (plan.arena.nbytes, plan.arena.least_bytes) == (2 * KIB, 2 * KIB)
    words = "2 KiB for 3 tensors that die inside; at least 2 KiB wherever they lie"
    assert plan.arena_text() == words


@pytest.mark.parametrize("has_input", [False, True])
def test_a_graph_without_kernels_holds_its_inputs(has_input):
    g = Graph()
    g.outputs = [g.input(TILE, "float32")] if has_input else []
    plan = memory_plan(g)
    assert plan.peak_bytes == KIB * has_input
    assert "bytes" in plan.table()
    assert plan.arena.nbytes == 0
