import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.arch.peaks import hbm_stack_bytes_per_s, peak_flop_per_s
from trnsim.isa import Activation, DgeMode, DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.profile.measures.metrics import measure
from trnsim.profile.measures.schema import summary_names


def test_every_name_has_a_value_or_a_reason(timeline):
    found = measure(timeline)
    assert tuple(found.values) == summary_names()
    assert found.missing.keys() == {name for name, v in found.values.items() if v is None}
    assert all(found.missing.values())
    assert sum(value is not None for value in found.values.values()) > 60


def test_whole_numbers_are_whole(timeline):
    values = measure(timeline).values
    counts = [name for name in values if name.endswith(("_count", "_bytes", "flops", "_cycles"))]
    assert counts
    for name in set(counts) - {"dma_transfer_average_bytes"}:
        assert values[name] is None or isinstance(values[name], int), name


def test_utilisation_is_against_rows_columns_and_clock(timeline):
    values = measure(timeline).values
    peak = 2 * 128 * 128 * 2.4e9
    assert peak_flop_per_s(NEURONCORE_V3) == peak
    assert values["total_time"] == timeline.device_time_s
    assert values["model_flops"] == 4 * 2 * 128 * 128 * 512
    share = values["model_flops"] / (peak * values["total_time"])
    for name in ("mfu_estimated_percent", "mfu_inst_estimated_percent", "hfu_estimated_percent"):
        assert values[name] == pytest.approx(100 * share), name
    assert values["mfu_hlo_estimated_percent"] == 0


def test_the_roofline_is_flops_a_byte_against_the_machines(timeline):
    values = measure(timeline).values
    moved = values["hbm_read_bytes"] + values["hbm_write_bytes"]
    assert values["mm_arithmetic_intensity"] == values["model_flops"] / moved
    ridge = values["peak_flops_bandwidth_ratio"]
    best = values["mm_arithmetic_intensity"] / ridge
    assert values["mfu_max_achievable_estimated_percent"] == pytest.approx(100 * best)
    assert ridge == peak_flop_per_s(NEURONCORE_V3) / hbm_stack_bytes_per_s(NEURONCORE_V3)


def test_engine_times_agree_with_the_timeline(timeline):
    values = measure(timeline).values
    busy = timeline.busy_s()
    assert values["vector_engine_active_time"] == pytest.approx(busy[Engine.vector])
    assert values["dma_active_time"] == pytest.approx(busy[Engine.dma])
    spans = [s for s in timeline.spans() if s.engine is Engine.vector]
    lasted = sum(s.end_s - s.start_s for s in spans)
    assert values["vector_engine_instruction_time"] == pytest.approx(lasted)
    assert values["vector_engine_instruction_count"] == len(spans) == 4
    assert values["matmul_instruction_count"] == 4
    assert 0 < values["total_active_time_percent"] < 100


def test_activations_are_counted(kernel):
    tile = kernel.load(128, 64)
    kernel.do(Activation(kernel.tile(Memory.SBUF, 128, 64), "exp", tile))
    values = measure(kernel.timeline()).values
    assert values["activate_instruction_count"] == values["scalar_engine_instruction_count"] == 1
    assert values["activate_instruction_time"] == values["scalar_engine_instruction_time"] > 0


def test_inputs_are_what_was_there_before_and_outputs_what_is_never_read(kernel):
    scratch = kernel.tile(Memory.HBM, 128, 64)
    tile = kernel.load(128, 64)
    kernel.do(DmaCopy(scratch, tile))
    kernel.do(DmaCopy(tile, scratch))
    kernel.store(tile)
    values = measure(kernel.timeline()).values
    assert values["inputs_and_weights_size_bytes"] == 128 * 64 * 2
    assert values["inputs_outputs_weights_size_bytes"] == 2 * 128 * 64 * 2


def test_dma_by_who_made_its_descriptors_needs_to_know_who_did(kernel):
    def copy(mode, engine=Engine.unknown):
        tile = kernel.tile(Memory.SBUF, 128, 64)
        kernel.do(DmaCopy(tile, kernel.tile(Memory.HBM, 128, 64), dge_mode=mode, engine=engine))

    copy(DgeMode.hwdge, Engine.sync)
    copy(DgeMode.swdge)
    values = measure(kernel.timeline()).values
    assert values["hardware_dynamic_dma_size"] == values["software_dynamic_dma_size"] == 128 * 128
    assert values["dynamic_dma_size_percent"] == 100
    assert values["static_dma_packet_count"] == 0
    kernel.load(128, 64)
    found = measure(kernel.timeline())
    assert found.values["hardware_dynamic_dma_size"] is None
    assert "1 of 3 transfers leave" in found.missing["hardware_dynamic_dma_size"]


def test_cycles_need_a_published_clock(new_kernel):
    old, new = new_kernel(NEURONCORE_V2), new_kernel(NEURONCORE_V4)
    for kernel in (old, new):
        kernel.load(128, 64)
    values = measure(old.timeline()).values
    assert values["neuroncore_cycle_count"] == round(values["total_time"] * 1.4e9)
    found = measure(new.timeline())
    assert found.values["neuroncore_cycle_count"] is None
    assert "no NeuronCore base clock" in found.missing["dma_active_cycles"]


def test_an_empty_program_has_figures(kernel):
    found = measure(kernel.timeline())
    assert found.values["total_time"] == found.values["total_exec_time"] == 0
    assert found.missing["mm_arithmetic_intensity"]
