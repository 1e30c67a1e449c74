"""The interval of a kernel's time: around the estimate, and wider the less is known of its like."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.errors import SourceLine
from trnsim.isa import DmaCopy, Memset
from trnsim.memory import Memory
from trnsim.timing import interval as intervals
from trnsim.timing.interval import P90_DEVIATIONS, Errors, errors, novelty, publication_of

CORES = (NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V3.paired(), NEURONCORE_V4)
KINDS = ("launch LNC=1", "launch LNC=2", "waiting", "issue of transfers", "dma rows from 4 KiB")
KINDS += ("tensor nc_matmul", "vector tensor_tensor", "gpsimd topk")
KNOWN = Errors(
    near={"library": {"NeuronCore-v3": 0.1}},
    far=0.3,
    growth=2.0,
    largest={"NeuronCore-v3": {"waiting": 0.2, "vector": 0.9, "vector tensor_tensor": 0.5}},
)


@given(
    core=st.sampled_from(CORES),
    parts=st.dictionaries(st.sampled_from(KINDS), st.floats(0.01, 1.0), min_size=1),
    publication=st.sampled_from(["", "nki-library", "NKIBench"]),
)
def test_an_interval_covers_its_own_estimate(core, parts, publication):
    total = sum(parts.values())
    shares = {kind: part / total for kind, part in parts.items()}
    assert 0.05 < errors().half_width(core, shares, publication) < 3


@given(
    core=st.sampled_from(CORES),
    transfers=st.integers(0, 40),
    columns=st.sampled_from([1, 64, 500, 4096]),
    sets=st.integers(0, 20),
)
def test_so_does_that_of_a_kernel(bench, core, transfers, columns, sets):
    work = bench(core, has_values=False)
    for _ in range(transfers):
        source = work.tile(np.ones((128, columns), np.float32), memory=Memory.HBM)
        work.issue(DmaCopy(work.empty((128, columns)), source))
    for _ in range(sets):
        work.issue(Memset(work.empty((128, columns)), 0.0))
    timeline = work.timeline
    found = timeline.interval()
    assert 0 < found.p10 < found.p50 == timeline.total_time_s < found.p90
    assert found.p10 * found.p90 == pytest.approx(found.p50**2)


def test_a_near_kernel_has_the_spread_of_its_library():
    shares = {"vector tensor_tensor": 1.0}
    near = KNOWN.half_width(NEURONCORE_V3, shares, "library")
    # By engine a tenth is new; by instruction half is.
    assert near == pytest.approx(P90_DEVIATIONS * 0.1 * (1 + 2 * 0.1))
    assert KNOWN.half_width(NEURONCORE_V3, shares) == pytest.approx(
        P90_DEVIATIONS * 0.3 * (1 + 2 * 0.5)
    )
    assert KNOWN.is_near(NEURONCORE_V3, "library")
    assert not KNOWN.is_near(NEURONCORE_V2, "library")
    assert not KNOWN.is_near(NEURONCORE_V3, "")


def test_the_launch_has_the_spread_of_its_fact_whoever_wrote_the_kernel():
    spread = NEURONCORE_V3.launch_s.provenance.spread
    shares = {"launch LNC=1": 1.0}
    for publication in ("", "library"):
        assert KNOWN.half_width(NEURONCORE_V3, shares, publication) == P90_DEVIATIONS * spread


def test_all_is_new_on_a_generation_without_published_times():
    shares = {"waiting": 1.0}
    assert KNOWN.half_width(NEURONCORE_V4, shares) == pytest.approx(P90_DEVIATIONS * 0.3 * (1 + 2))
    assert novelty(shares, {}) == 1.0


@given(st.floats(0.0, 1.0))
def test_an_interval_grows_with_the_share_of_what_is_new(share):
    less, more = (
        KNOWN.half_width(NEURONCORE_V3, {"gpsimd topk": part, "vector tensor_tensor": 1 - part})
        for part in (share / 2, share)
    )
    assert share <= 0.5 or less < more
    assert novelty({"gpsimd topk": share}, {"gpsimd topk": 0.25}) == max(share - 0.25, 0.0)


def test_a_kernel_is_of_the_library_that_most_instructions_are_from(bench):
    work = bench()
    for _ in range(3):
        work.issue(Memset(work.empty((4, 4)), 0.0))
    program = work.program
    assert publication_of(program) == ""
    theirs = SourceLine("/home/me/nki-library/src/nkilib/core/mlp.py", 7)
    program = replace(program, lines=[*program.lines, theirs])
    program.line_of[0] = program.line_of[1] = len(program.lines) - 1
    assert publication_of(program) == "nki-library"
    program.line_of[1] = -1
    assert publication_of(program) == ""
    assert publication_of(bench().program) == ""


def test_the_interval_of_a_near_kernel_is_narrower(bench, monkeypatch):
    timeline = bench(has_values=False).timeline
    work = bench(has_values=False)
    for _ in range(50):
        work.issue(Memset(work.empty((128, 4096)), 0.0))
    timeline = work.timeline
    far = timeline.interval()
    monkeypatch.setattr(intervals, "publication_of", lambda _: "nki-library")
    near = timeline.interval()
    assert far.p10 < near.p10 < near.p50 == far.p50 < near.p90 < far.p90
    assert near.p90 / near.p50 < exp(1)
