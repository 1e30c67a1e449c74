"""A program whose work on one engine takes longer than its limit is not issued to its end."""

from math import inf, nextafter

import nki.isa as nisa
import nki.language as nl
import pytest

from trnsim import arch
from trnsim.nki.kernel import Kernel
from trnsim.program import current_core
from trnsim.runs import launch
from trnsim.timing import time_limit
from trnsim.timing.time_limit import TimeLimitExceededError, limit_time

COPIES = 3000


def copies(limit_s, issued):
    """A run of a kernel of `COPIES` copies on the Vector Engine, within a limit."""

    def kernel():
        source, target = (nl.ndarray((128, 512), nl.float32, nl.sbuf) for _ in range(2))
        nisa.memset(source, 0.0)
        try:
            with limit_time(current_core(), limit_s):
                for _ in range(COPIES):
                    nisa.tensor_copy(target, source, engine=nisa.engine.vector)
        finally:
            issued.append(current_core().issued())

    return launch(Kernel(kernel, {}), (), {}, arch.target("trn2"), numerics=False)


def vector_s(run):
    """Sum of the intervals of the copies, from the schedule."""
    timeline = run.timeline
    spans = [span for span in timeline.spans() if span.opcode == "tensor_copy"]
    return sum(span.busy_until_s - span.start_s for span in spans)


def test_a_program_within_its_limit_is_issued_to_its_end():
    issued = []
    run = copies(inf, issued)
    assert copies(vector_s(run), issued).timeline.device_time_s == run.timeline.device_time_s
    assert issued == [COPIES + 1, COPIES + 1]


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_the_rest_of_a_program_beyond_its_limit_is_not_issued(part):
    work_s = vector_s(copies(inf, []))
    issued = []
    with pytest.raises(TimeLimitExceededError):
        copies(part * work_s, issued)
    assert part * COPIES <= issued[0] <= part * COPIES + 1025


def test_the_last_instructions_count_too():
    issued = []
    with pytest.raises(TimeLimitExceededError):
        copies(0.999 * vector_s(copies(inf, [])), issued)
    assert issued == [COPIES + 1]


def test_a_limit_missed_by_rounding_is_kept(monkeypatch):
    work_s = vector_s(copies(inf, []))
    copies(nextafter(work_s, 0), [])
    monkeypatch.setattr(time_limit, "_ROUNDING", 1)
    with pytest.raises(TimeLimitExceededError):
        copies(work_s * (1 - 1e-6), [])


def test_progress_is_still_reported_and_restored():
    told = []

    def kernel():
        core = current_core()
        core.report_progress = told.append
        source, target = (nl.ndarray((128, 512), nl.float32, nl.sbuf) for _ in range(2))
        nisa.memset(source, 0.0)
        with limit_time(core, 1.0):
            for _ in range(COPIES):
                nisa.tensor_copy(target, source, engine=nisa.engine.vector)
        assert core.report_progress == told.append

    launch(Kernel(kernel, {}), (), {}, arch.target("trn2"), numerics=False)
    assert told == [0, 1024, 2048]
