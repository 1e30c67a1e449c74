from trnsim.isa import DmaCopy
from trnsim.memory import Memory
from trnsim.profile.measures.core import Core, ns


def test_a_core_tells_compute_from_dma(timeline):
    core = Core(timeline, 0)
    engines = [timeline.program.instruction(i).engine.name for i in core.compute_indices]
    assert set(engines) == {"tensor", "vector"}
    assert len(core.compute_indices) + len(core.transfers.index) == len(timeline)


def test_ids_of_two_cores_never_meet(timeline):
    first, second = Core(timeline, 0), Core(timeline, 1)
    assert not set(first.ids(first.compute_indices)) & set(second.ids(second.compute_indices))
    assert second.rank_column(2) == [1, 1]


def test_transfers_are_named_after_their_tensor(kernel):
    kernel.load(8, 8)
    kernel.do(DmaCopy(kernel.tile(Memory.SBUF, 8, 8), kernel.tile(Memory.HBM, 8, 8, name="q")))
    core = Core(kernel.timeline(), 0)
    assert core.names(core.transfers.index) == ["unknown", "q"]


def test_times_are_whole_nanoseconds(timeline):
    assert ns(Core(timeline, 0).spans.end_s).tolist() == [
        round(span.end_s * 1e9) for span in timeline.spans()
    ]
