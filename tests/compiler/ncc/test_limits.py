import pytest

from trnsim.compiler.ncc.limits import INSTRUCTIONS_MAX, instruction_refusals, memory_refusals
from trnsim.graph import Graph
from trnsim.lower import memory_plan


def plan():
    """Inputs of 4 KiB, outputs of 256 bytes, one tensor of 4 KiB inside."""
    graph = Graph()
    x = graph.input((64, 16), "float32")
    graph.outputs = [graph.reduce("maximum", graph.scan("add", x), (1,))]
    found = memory_plan(graph)
    assert (found.input_bytes, found.arena.nbytes, found.peak_bytes) == (4096, 4096, 8448)
    return found


@pytest.mark.parametrize(
    ("hbm_bytes", "codes"),
    [
        (8448, []),
        (8447, ["NCC_EOOM001"]),
        (4352, ["NCC_EOOM001"]),
        (4351, ["NCC_EVRF009"]),
        (0, ["NCC_EVRF009"]),
    ],
)
def test_a_graph_that_does_not_fit_has_the_first_code_that_holds(hbm_bytes, codes):
    assert [code for code, _ in memory_refusals(plan(), hbm_bytes)] == codes


def test_what_dies_inside_may_be_all_that_does_not_fit():
    graph = Graph()
    x, y = graph.input((64, 1), "float32"), graph.input((1, 64), "float32")
    outer = graph.dot_general(x, y, (1, 0))
    graph.outputs = [graph.reduce("maximum", graph.scan("add", outer), (1,))]
    ((code, what),) = memory_refusals(memory_plan(graph), 16384)
    assert code == "NCC_EXSP001"
    assert what == "32 KiB of tensors that die inside, in 16 KiB of HBM"


def test_a_program_has_a_limited_number_of_instructions():
    assert INSTRUCTIONS_MAX == 5_000_000
    assert not [*instruction_refusals(0)]
    assert not [*instruction_refusals(5_000_000)]
    assert [*instruction_refusals(5_000_001)] == [
        ("NCC_EVRF007", "5,000,001 instructions, of 5,000,000 at most")
    ]
