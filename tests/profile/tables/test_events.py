import pytest

from trnsim.isa import Activation, Engine
from trnsim.memory import Memory
from trnsim.profile.measures.core import Core
from trnsim.profile.tables import events


def test_instructions_are_those_of_compute_engines(timeline):
    table = events.instructions(Core(timeline, 0))
    spans = [s for s in timeline.spans() if s.engine is not Engine.dma]
    assert table["opcode"] == [span.opcode for span in spans]
    assert table["engine"] == [span.engine.name for span in spans]
    assert table["nki_source_location"] == [str(span.line) for span in spans]
    assert list(table["start_ts"]) == [round(s.start_s * 1e9) for s in spans]
    assert table["pc"] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert min(table["evt_wait_time_ns"]) >= 0
    assert sum(table["raw_flops"]) == 4 * 2 * 128 * 128 * 512
    assert set(table["tensor_instruction_type"]) == {"REGULAR", None}


def test_an_activation_says_its_function(kernel):
    tile = kernel.load(128, 64)
    kernel.do(Activation(kernel.tile(Memory.SBUF, 128, 64), "exp", tile))
    table = events.instructions(Core(kernel.timeline(), 0))
    assert table["scalar_activation_fn"] == ["exp"]


def test_the_tensor_engines_ramp_is_in_steps_up_to_full(timeline):
    table = events.throttles(Core(timeline, 0))
    limits = [k / n for k, n in zip(table["k"], table["n"], strict=True)]
    assert len(limits) % 8 == 0
    assert limits[:8] == sorted(limits[:8])
    assert 0.5 <= limits[0] < limits[7] < 1
    assert sum(table["duration"][:8]) == 3000
    first = next(s for s in timeline.spans() if s.engine is Engine.tensor)
    assert table["timestamp"][0] == round(first.start_s * 1e9)


def test_flows_are_dependences_with_the_gap_between(timeline):
    table = events.flows(Core(timeline, 0))
    edges = list(zip(table["in_id"], table["out_id"], strict=True))
    expected = [(j, i) for i in range(len(timeline)) for j in timeline.program.waits_for(i)]
    assert edges == expected
    assert set(table["in_table"]) == {"dma_block", "instruction"}
    # A semaphore lies between engines.
    assert min(table["gap_time"]) >= 60


def test_a_semaphore_counts_up_in_order_of_time(timeline):
    table = events.semaphore_updates(Core(timeline, 0))
    assert list(table["timestamp"]) == sorted(table["timestamp"])
    from_tensor = [
        value
        for name, value in zip(table["id"], table["value"], strict=True)
        if name == "Tensor to Vector"
    ]
    assert from_tensor == [1, 2, 3, 4]
    assert {"AXI", "Tensor", "Vector"} == set(table["update_source"])


def test_active_times_add_up_to_what_the_engine_was_busy(timeline):
    table = events.active_times(Core(timeline, 0))
    vector = [
        length
        for length, engine in zip(table["duration_ns"], table["engine"], strict=True)
        if engine == "vector"
    ]
    assert sum(vector) == pytest.approx(timeline.busy_s()[Engine.vector] * 1e9, abs=len(vector))
    assert set(table["engine"]) == {"tensor", "vector"}


def test_opcodes_are_counted_by_engine(timeline):
    table = events.opcodes(Core(timeline, 0))
    assert table["opcode"] == ["nc_matmul", "tensor_copy"]
    assert table["instruction_count"] == [4, 4]
    lasted, active = table["instruction_time_ns"], table["active_time_ns"]
    assert all(a <= b for a, b in zip(active, lasted, strict=True))


def test_an_empty_core_has_empty_tables(kernel):
    core = Core(kernel.timeline(), 0)
    for build in (events.instructions, events.flows, events.opcodes, events.active_times):
        assert all(len(column) == 0 for column in build(core).values())
