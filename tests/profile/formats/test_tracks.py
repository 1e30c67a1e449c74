from itertools import pairwise

from trnsim.isa import DgeMode, DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.profile.formats.tracks import CoreTracks


def test_every_instruction_is_on_one_track(timeline):
    core = CoreTracks(timeline, 0)
    found = sorted(index for track in core.tracks for index in track.indices)
    assert found == list(range(len(timeline)))
    names = [track.name for track in core.tracks]
    assert names == ["Tensor Engine", "Vector Engine", "DMA qDefault"]


def test_slices_of_a_track_never_overlap(timeline):
    core = CoreTracks(timeline, 0)
    for track in core.tracks:
        pieces = list(core.slices(track))
        for before, after in pairwise(pieces):
            assert before.end_ns <= after.start_ns


def test_what_overlaps_gets_a_track_of_its_own(timeline):
    core = CoreTracks(timeline, 0)
    spans = core._core.spans
    spans.start_s[:] = 0.0
    lanes = list(core._lanes("queue", core._core.transfers.index))
    assert [lane.name for lane in lanes[:2]] == ["queue", "queue (2)"]
    assert len(lanes) == 9


def test_queues_are_tracks(kernel):
    kernel.load(8, 8)
    tile = kernel.tile(Memory.SBUF, 8, 8)
    source = kernel.tile(Memory.HBM, 8, 8)
    kernel.do(DmaCopy(tile, source, dge_mode=DgeMode.hwdge, engine=Engine.sync))
    names = [track.name for track in CoreTracks(kernel.timeline(), 0).tracks]
    assert names == ["DMA qDefault", "DMA qSyncDynamicHW"]


def test_a_slice_knows_its_source_and_its_cause_on_another_track(timeline):
    core = CoreTracks(timeline, 0)
    first, *_ = core.slices(core.tracks[1])
    span = timeline.span(first.instruction)
    assert (first.opcode, first.line, first.operands) == (span.opcode, span.line, span.operands)
    assert "TensorCopy" in first.source
    assert first.cause == span.waited_for
    assert core.describe(first.cause) == f"#{first.cause} nc_matmul, Tensor Engine"
    assert first.start_ns <= first.end_ns <= first.readable_ns


def test_counters_start_and_end_with_the_program(timeline):
    hbm, sbuf, psum = CoreTracks(timeline, 0).counters
    assert (hbm.name, hbm.unit) == ("HBM", "GB/s")
    assert 200 < hbm.values.max() < 369
    for counter in (sbuf, psum):
        assert counter.values[-1] == 0 < counter.values.max()
