import pytest

from trnsim.isa import DmaCopy
from trnsim.memory import Memory
from trnsim.profile.measures.core import Core
from trnsim.profile.tables import memory


def test_usage_counts_bytes_by_partition(kernel):
    kernel.load(64, 1024)
    table = memory.sbuf_usage(Core(kernel.timeline(), 0))
    share = 100 * 2048 / (224 * 1024)
    assert table["partition_0_util_percent"][0] == pytest.approx(share)
    assert table["partition_32_util_percent"][0] == pytest.approx(share)
    assert table["partition_64_util_percent"][0] == 0
    assert table["avg_util_percent"][0] == pytest.approx(share / 2)
    assert table["avg_util_percent"][-1] == 0


def test_psum_fills_with_results(timeline):
    table = memory.psum_usage(Core(timeline, 0))
    assert max(table["avg_util_percent"]) >= 100 * 2048 / 16384
    assert table["avg_util_percent"][-1] == 0


def test_allocations_name_who_wrote_first(kernel):
    kernel.copy(kernel.load(40, 8))
    table = memory.sbuf_allocations(Core(kernel.timeline(), 0))
    assert table["partition"] == [0, 32, 0, 32]
    assert table["op_source_type"] == ["dma", "dma", "instruction", "instruction"]
    assert table["opcode"] == [None, None, "tensor_copy", "tensor_copy"]
    assert table["queue_name"][0] == "qDefault"
    assert table["block_id"][0] == 0
    assert all(end > start for start, end in zip(table["start_ts"], table["end_ts"], strict=True))


def test_a_tensor_that_is_loaded_twice_says_so(kernel):
    source = kernel.tile(Memory.HBM, 128, 64, name="weights")
    tile = kernel.tile(Memory.SBUF, 128, 64)
    kernel.do(DmaCopy(tile, source))
    kernel.do(DmaCopy(tile, source))
    kernel.store(tile)
    table = memory.tensors(Core(kernel.timeline(), 0))
    assert table["variable_name"] == ["weights", None]
    assert table["type"] == ["IN", "OUT"]
    assert table["load_to_sbuf_repeat_factor"] == [2, 0]
    assert table["load_to_sbuf_dma_count"] == [2, 0]
    assert table["load_to_sbuf_avg_size_bytes"] == [128 * 64 * 2, 0]


def test_scratch_space_is_neither_input_nor_output(kernel):
    scratch = kernel.tile(Memory.HBM, 8, 8)
    tile = kernel.load(8, 8)
    kernel.do(DmaCopy(scratch, tile))
    kernel.do(DmaCopy(tile, scratch))
    assert memory.tensors(Core(kernel.timeline(), 0))["type"] == ["IN", None]


def test_spills_are_tensors_of_no_role_and_sbuf_never_holds_more_than_fits(spilling):
    core = Core(spilling, 0)
    table = memory.tensors(core)
    roles = dict(zip(table["variable_name"], table["type"], strict=True))
    assert roles == {"spill of a": None, "target": "OUT"}
    assert table["load_to_sbuf_dma_count"][table["variable_name"].index("spill of a")] == 1
    assert 50 < max(memory.sbuf_usage(core)["avg_util_percent"]) <= 100
