import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.dtypes import FLOAT32
from trnsim.isa import Cost, DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.profile.analysis import what_if
from trnsim.program import Checked
from trnsim.timing import EnginePlacement, recorded_placements


def first(kernel, opcode) -> Checked:
    return next(c for c in kernel.context.program.checked if c.opcode == opcode)


def test_recorded_placements_give_the_recorded_time(timeline):
    placements = recorded_placements(timeline.program)
    again_s = timeline.same_order_time_s(lambda index: placements[timeline.program.which[index]])
    assert again_s == timeline.device_time_s


def test_merged_transfers_pay_the_fixed_cost_once(kernel):
    kernel.load(128, 64)
    checked = first(kernel, "dma_copy")
    wide = what_if.merge(checked.instruction, NEURONCORE_V3, 8, None)
    assert wide is not None
    assert wide.engine is Engine.dma
    assert wide.cost.issue_s == checked.cost.issue_s
    assert wide.cost.latency_s == pytest.approx(checked.cost.latency_s, rel=0.1)
    assert wide.cost.hbm_bytes == 8 * checked.cost.hbm_bytes


@pytest.mark.parametrize(("first_bears", "bearers"), [(True, [3, 6, 9]), (False, [5, 8, 9])])
def test_one_of_each_group_bears_the_cost_of_the_merged_instruction(first_bears, bearers):
    merged = EnginePlacement(Engine.dma, Cost(3e-6, 2e-6, issue_s=6e-7))
    found = what_if.place_in_groups([3, 4, 5, 6, 7, 8, 9], 3, merged, first=first_bears)
    assert sorted(found) == [3, 4, 5, 6, 7, 8, 9]
    assert [index for index, (_, cost) in found.items() if cost.issue_s] == bearers
    assert sum(cost.interval_s for _, cost in found.values()) == pytest.approx(7e-6)
    assert found[9].cost.interval_s == pytest.approx(1e-6)
    waits_s = [found[index].cost.latency_s for index in (4, 7)]
    assert waits_s == ([2e-6, 2e-6] if first_bears else [0.0, 0.0])


@pytest.mark.parametrize(
    ("growth", "columns"),
    [(what_if.Growth(128, 1, 64, 8), 512), (what_if.Growth(128, 2, 64, 1), None)],
)
def test_tiles_of_the_named_shape_grow_and_no_more_than_is_legal(kernel, growth, columns):
    kernel.copy(kernel.load(128, 64))
    copy = first(kernel, "tensor_copy")
    placement = what_if.grow(copy.instruction, NEURONCORE_V3, growth)
    if columns is None:
        assert placement is None, "a tile has 128 partitions at most"
        return
    kernel.copy(kernel.load(128, columns))
    assert placement.cost == kernel.context.program.checked[-1].cost


def test_merging_beyond_what_is_legal_gives_nothing(kernel):
    kernel.matmul(kernel.load(128, 128), kernel.load(128, 256))
    matmul = first(kernel, "nc_matmul").instruction
    assert what_if.merge(matmul, NEURONCORE_V3, 2, "N") is not None
    assert what_if.merge(matmul, NEURONCORE_V3, 4, "N") is None


def test_narrowing_a_matmul_leaves_one_pass_of_four(kernel):
    kernel.matmul(kernel.load(128, 128, dtype=FLOAT32), kernel.load(128, 512, dtype=FLOAT32))
    checked = first(kernel, "nc_matmul")
    narrow = what_if.narrow(checked.instruction, NEURONCORE_V3)
    assert narrow is not None
    assert 4 * narrow.cost.interval_s == pytest.approx(checked.cost.interval_s)


def test_nothing_is_narrowed_that_has_no_float32_in_sbuf(kernel):
    kernel.copy(kernel.load(128, 512))
    assert what_if.narrow(first(kernel, "tensor_copy").instruction, NEURONCORE_V3) is None


def test_an_instruction_moves_only_to_a_legal_engine(kernel):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    kernel.copy(psum)
    copy = first(kernel, "tensor_copy").instruction
    placed = what_if.move(copy, NEURONCORE_V3, Engine.scalar)
    assert placed is not None
    assert placed.engine is Engine.scalar
    assert what_if.move(copy, NEURONCORE_V3, Engine.gpsimd) is None, "GpSimd has no way to PSUM"
    assert what_if.move(copy, NEURONCORE_V3, Engine.tensor) is None
    matmul = first(kernel, "nc_matmul").instruction
    assert what_if.move(matmul, NEURONCORE_V3, Engine.vector) is None


def test_a_tile_without_a_free_axis_cannot_be_merged(kernel):
    on_chip = kernel.tile(Memory.SBUF, 128)
    copy = DmaCopy(on_chip, kernel.tile(Memory.HBM, 128))
    assert what_if.merge(copy, NEURONCORE_V3, 2, None) is None
