"""Reference pages: what a reader finds on them, in a fixed order."""

import re
from dataclasses import fields

import pytest

from trnsim.arch import NEURONCORE_V3, NEURONCORE_V4
from trnsim.isa import DmaCopy, Engine, Instruction, NcMatmul
from trnsim.isa.reference.example import examples
from trnsim.isa.reference.page import call, description, facts_read, page, support

ORDER = [
    "Operands",
    "Parameters",
    "State",
    "Where it runs",
    "Constraints",
    "Values",
    "Cost",
    "Approximate, open or contradictory",
    "Source",
]
CLASSES = Instruction.registry.values()


def declared(opcode):
    return Instruction.registry[opcode]


@pytest.mark.parametrize("made", CLASSES, ids=lambda c: c.opcode)
def test_the_parts_of_a_page_stand_in_one_order(made):
    titles = re.findall(r"^## (.*)$", page(made), re.MULTILINE)
    assert titles == [title for title in ORDER if title in titles]
    assert {"Operands", "Where it runs", "Values", "Cost", "Source"} <= set(titles)


@pytest.mark.parametrize("made", CLASSES, ids=lambda c: c.opcode)
def test_a_page_names_every_operand_and_parameter(made):
    text = page(made)
    for field in fields(made):
        is_hidden = "is_hidden" in field.metadata and field.name not in made.operands
        assert (f"| `{field.name}`" in text) is not is_hidden


def test_a_page_says_what_an_instruction_touches_beside_its_tiles():
    for opcode, row in {
        "rng": r"random number generators of its engine +\| updates",
        "rand_get_state": r"random number generators of its engine +\| reads",
        "exponential": r"accumulator registers of its engine +\| updates",
        "iota": r"`offset`, where it is a register +\| reads",
        "register_load": r"`dst`, where it is a register +\| writes",
        "sendrecv": r"the other cores of its group +\| waits for",
    }.items():
        assert re.search(rf"## State\n\n.*\n.*\n\| [^\n]*{row} +\|", page(declared(opcode)))
    assert "## State" not in page(declared("tensor_copy"))


def test_a_call_shows_the_defaults_under_awss_names():
    assert call(declared("tensor_copy")) == (
        "nisa.tensor_copy(dst, src, engine=nisa.engine.unknown)"
    )
    assert "reduce_cmd=nisa.reduce_cmd.idle" in call(declared("activation"))
    assert call(declared("nc_matmul_sparse")).startswith("trnsim.isa.nc_matmul_sparse(")


def test_a_long_call_is_broken_as_the_formatter_would():
    _, middle, last = call(declared("tensor_scalar_cumulative")).splitlines()
    assert middle.startswith("    dst, src, op0, ")
    assert last == ")"
    assert call(declared("nc_matmul")).splitlines()[1] == "    dst,"


def test_the_operand_table_says_memory_axes_and_dtypes():
    text = page(declared("quantize_mx"))
    assert re.search(r"`src` +\| reads +\| \[P, F\] +\| SBUF +\| float16, bfloat16 ", text)
    assert "[P, 1], or a number" in page(declared("tensor_scalar"))
    assert "several, any" in page(declared("dma_compute"))


def test_an_instruction_without_operands_says_so():
    assert "## Operands\n\nIt has none." in page(declared("register_alloc"))


def test_where_it_runs_is_found_by_asking_the_class(core_v2, core_v3, core_v4):
    assert support(declared("rng")) == {
        Engine.vector: [core_v2, core_v3, core_v4],
        Engine.gpsimd: [core_v3, core_v4],
    }
    assert support(declared("activate2")) == {Engine.scalar: [core_v4]}


def test_a_price_is_what_cost_says_of_real_tiles():
    seconds = 512 / NEURONCORE_V3.tensor_clock_hz
    assert f"| {seconds * 1e9:.0f} + 168 ns " in page(NcMatmul)


def test_a_transfer_has_a_time_in_a_queue_besides():
    assert "Before the slash: the time in a DMA queue." in page(DmaCopy)
    assert "| 600 / 356 + 1,350 ns " in page(DmaCopy)
    assert "slash" not in page(NcMatmul)


def test_the_facts_behind_a_price_are_those_that_cost_reads():
    transpose = next(examples(declared("nc_transpose")))
    assert "background_transpose_speedup" in facts_read(transpose)
    assert "vector_clock_hz" not in facts_read(transpose)
    assert "| `tensor_clock_hz` " in page(declared("nc_transpose"))
    assert f"{NEURONCORE_V4.access_latency_cycles:g} assumed" in page(declared("nc_transpose"))


def test_a_case_is_described_by_its_tiles_and_what_is_not_default():
    made = next(examples(declared("activation")))
    assert description(made) == (
        "dst bfloat16 [128, 512] in SBUF, op=nl.exp, data bfloat16 [128, 512] in SBUF"
    )


def test_a_formula_keeps_its_source():
    assert "Formula: trainium3_arch.rst, Fast Exponential" in page(declared("exponential"))


def test_the_engines_that_a_kernel_may_name_are_those_that_the_class_takes():
    assert "| scalar, sync " in page(declared("dma_copy"))
    assert "| scalar, gpsimd, vector " in page(declared("tensor_copy"))


def test_constraints_are_a_list_of_the_declared_and_the_checked_ones():
    (constraints,) = re.findall(r"## Constraints\n\n(.*?)\n\n##", page(NcMatmul), re.DOTALL)
    assert constraints.startswith("- K and M up to 128, N up to 512;")
    assert "\n- Axes of one letter have one length: K, M, N.\n" in constraints
    assert ".indirect()" in constraints
    assert "No operand may be an `.indirect()` view." in page(declared("max8"))
    assert "`dst` and `src` may be `.indirect()` views." in page(declared("tensor_copy"))
