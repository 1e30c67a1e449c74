import pytest

from trnsim.profile.analysis.gains import gains


def by_change(timeline):
    return {gain.change: gain.gain_s for gain in gains(timeline)}


def test_a_chain_gains_what_a_free_line_took(kernel):
    kernel.store(kernel.copy(kernel.load(128, 512)))
    timeline = kernel.timeline()
    copy = next(s for s in timeline.spans() if s.opcode == "tensor_copy")
    gain_s = by_change(timeline)[f"{copy.line} for nothing"]
    assert gain_s == pytest.approx(copy.end_s - copy.start_s)


def test_a_line_that_hides_behind_another_gains_nothing(kernel):
    tile = kernel.load(128, 16)
    for _ in range(8):
        kernel.load(128, 8192)
    kernel.copy(tile)
    timeline = kernel.timeline()
    copy = next(s for s in timeline.spans() if s.opcode == "tensor_copy")
    assert by_change(timeline).get(f"{copy.line} for nothing", 0.0) == 0.0


def test_a_program_bound_by_dma_gains_most_from_a_faster_dma(kernel):
    for _ in range(32):
        kernel.load(128, 8192)
    timeline = kernel.timeline()
    assert by_change(timeline)["DMA twice as fast"] == pytest.approx(
        timeline.device_time_s / 2, rel=0.05
    )


def test_gains_are_sorted_and_never_negative(timeline):
    found = [gain.gain_s for gain in gains(timeline)]
    assert found == sorted(found, reverse=True)
    assert min(found) > 0
    assert max(found) < timeline.device_time_s


def test_an_empty_program_gains_nothing(kernel):
    assert gains(kernel.timeline()) == []
