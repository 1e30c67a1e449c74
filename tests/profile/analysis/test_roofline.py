from trnsim.isa import NcTranspose
from trnsim.memory import Memory
from trnsim.profile import summarize
from trnsim.profile.analysis.roofline import roofline


def roof(kernel_or_timeline):
    timeline = getattr(kernel_or_timeline, "timeline", lambda: kernel_or_timeline)()
    return roofline(timeline, summarize(timeline))


def test_the_point_lies_under_the_roof(timeline):
    found = roof(timeline)
    assert found["peak_flop_per_s"] == 2 * 128 * 128 * 2.4e9
    assert found["best_flop_per_s"] == found["flop_per_byte"] * found["hbm_bytes_per_s"]
    assert 0 < found["flop_per_s"] < found["best_flop_per_s"] < found["peak_flop_per_s"]


def test_a_matmul_of_whole_tiles_comes_from_half_of_the_peak_near_to_it(timeline):
    (piece,) = roof(timeline)["opcodes"]
    assert piece["opcode"] == "nc_matmul"
    assert 0.5 < piece["flop_per_s"] / (2 * 128 * 128 * 2.4e9) < 1


def test_transposes_are_no_points(kernel):
    kernel.do(NcTranspose(kernel.tile(Memory.PSUM, 128, 128), kernel.load(128, 128)))
    found = roof(kernel)
    assert found["opcodes"] == []
    assert found["flop_per_s"] == 0


def test_without_hbm_there_is_no_point(kernel):
    found = roof(kernel)
    assert found["flop_per_byte"] is None
    assert found["best_flop_per_s"] == 0
