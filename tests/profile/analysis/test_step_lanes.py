"""Lanes of a step: kernels behind their launches, HBM at their ends."""

from trnsim.profile.analysis.step_lanes import step_lanes
from trnsim.profile.analysis.step_program import StepKernel, StepProgram

PROGRAM = StepProgram(
    [
        StepKernel("dot", "dot", "up", "forward", 3.0, 1.0),
        StepKernel("add", "add", "", "elsewhere", 0.5, 2.0),
    ],
    [0, 1, 1],
    [(0, 256), (1, 1024), (3, 512)],
    4096,
)


def test_kernels_stand_where_the_device_runs_them():
    kernels, launches, hbm = step_lanes(PROGRAM, {"dot": "dot.html"})
    assert [(row.start_s, row.length_s, row.kind, row.href) for row in kernels.spans] == [
        (1.0, 3.0, "forward", "dot.html"), (4.0, 0.5, "work", ""), (5.0, 0.5, "work", ""),
    ]  # fmt: skip
    assert [(row.start_s, row.length_s) for row in launches.spans] == [(0, 1), (1, 2), (3, 2)]
    assert (kernels.words, launches.words) == ("4 s", "5 s")
    assert kernels.spans[0].words == "dot, up: 3 s"
    assert kernels.spans[1].words == "add: 500 ms"
    assert hbm.points == [(0.0, 256), (4.0, 1024), (5.5, 512)]
    assert hbm.words == "1 KiB at most of 4 KiB"


def test_a_step_of_no_kernels_has_empty_lanes():
    kernels, launches, hbm = step_lanes(StepProgram([], [], [(0, 7)], 9))
    assert not kernels.spans
    assert not launches.spans
    assert hbm.points == [(0.0, 7)]
