import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.dtypes import FLOAT32
from trnsim.isa import DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.profile.analysis import what_if
from trnsim.program import Checked


def first(kernel, opcode) -> Checked:
    return next(c for c in kernel.context.program.checked if c.opcode == opcode)


def test_recorded_placements_give_the_recorded_time(timeline):
    placements = what_if.recorded(timeline.program)
    again_s = timeline.device_time_if_s(lambda index: placements[timeline.program.which[index]])
    assert again_s == timeline.device_time_s


def test_a_part_of_merged_transfers_carries_a_part_of_the_fixed_cost(kernel):
    kernel.load(128, 64)
    checked = first(kernel, "dma_copy")
    part = what_if.merged(checked.instruction, NEURONCORE_V3, 8, None)
    assert part is not None
    assert part.engine is Engine.dma
    assert 8 * part.cost.latency_s == pytest.approx(checked.cost.latency_s, rel=0.1)
    assert part.cost.interval_s <= checked.cost.interval_s


def test_merging_beyond_what_is_legal_gives_nothing(kernel):
    kernel.matmul(kernel.load(128, 128), kernel.load(128, 256))
    matmul = first(kernel, "nc_matmul").instruction
    assert what_if.merged(matmul, NEURONCORE_V3, 2, "N") is not None
    assert what_if.merged(matmul, NEURONCORE_V3, 4, "N") is None


def test_narrowing_a_matmul_leaves_one_pass_of_four(kernel):
    kernel.matmul(kernel.load(128, 128, dtype=FLOAT32), kernel.load(128, 512, dtype=FLOAT32))
    checked = first(kernel, "nc_matmul")
    narrow = what_if.narrowed(checked.instruction, NEURONCORE_V3)
    assert narrow is not None
    assert 4 * narrow.cost.interval_s == pytest.approx(checked.cost.interval_s)


def test_nothing_is_narrowed_that_has_no_float32_in_sbuf(kernel):
    kernel.copy(kernel.load(128, 512))
    assert what_if.narrowed(first(kernel, "tensor_copy").instruction, NEURONCORE_V3) is None


def test_an_instruction_moves_only_to_a_legal_engine(kernel):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    kernel.copy(psum)
    copy = first(kernel, "tensor_copy").instruction
    placed = what_if.moved(copy, NEURONCORE_V3, Engine.scalar)
    assert placed is not None
    assert placed.engine is Engine.scalar
    assert what_if.moved(copy, NEURONCORE_V3, Engine.gpsimd) is None, "GpSimd has no way to PSUM"
    assert what_if.moved(copy, NEURONCORE_V3, Engine.tensor) is None
    matmul = first(kernel, "nc_matmul").instruction
    assert what_if.moved(matmul, NEURONCORE_V3, Engine.vector) is None


def test_a_tile_without_a_free_axis_cannot_be_merged(kernel):
    on_chip = kernel.tile(Memory.SBUF, 128)
    copy = DmaCopy(on_chip, kernel.tile(Memory.HBM, 128))
    assert what_if.merged(copy, NEURONCORE_V3, 2, None) is None
