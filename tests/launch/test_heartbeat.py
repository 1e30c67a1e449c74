"""Which rank is named while others wait, and which is not."""

import os
import subprocess
import sys

import pytest

from trnsim.launch.heartbeat import AGAIN_S, AWAITED_S, SILENT_S, STOPPED_S, Beat, Heartbeats
from trnsim.launch.supervisor import state_of


class Job:
    """Three ranks whose beats a test tells."""

    def __init__(self):
        self.said = []
        self.heartbeats = Heartbeats(self.said.append)

    def beat(self, now_s, **states):
        """A beat of each rank at `now_s`; of rank 1 with what is given."""
        for rank in range(3):
            known = {"state": "S", "cpu_s": 0.0, "step": 7, "is_waiting": rank != 1}
            known |= states if rank == 1 else {}
            self.heartbeats.hear(rank, f"rank {rank}", Beat(now_s, 100 + rank, **known))
        self.heartbeats.look(now_s)
        told, self.said[:] = list(self.said), []
        return told


@pytest.fixture
def job():
    return Job()


def test_a_stopped_rank_is_named_once_with_its_step_and_how_it_goes_on(job):
    assert job.beat(0, state="T") == []
    assert job.beat(STOPPED_S - 1, state="T") == []
    assert job.beat(STOPPED_S, state="T") == [
        "rank 1 at step 7 has been stopped by a signal for 3 s; kill -CONT 101 lets it go on"
    ]
    assert job.beat(STOPPED_S + 1, state="T") == []
    assert len(job.beat(STOPPED_S + AGAIN_S, state="T")) == 1
    assert job.beat(STOPPED_S + AGAIN_S + 1, state="R") == ["rank 1 goes on"]


def test_a_rank_that_is_stopped_for_a_moment_is_not_named(job):
    assert job.beat(0, state="T") == []
    assert job.beat(1) == []


def test_a_debugger_is_told_from_a_signal(job):
    job.beat(0, state="t")
    assert "stopped by a debugger" in job.beat(STOPPED_S, state="t")[0]


def test_a_rank_that_computes_while_others_wait_is_said_to_compute(job):
    assert job.beat(0, cpu_s=5.0) == []
    assert job.beat(AWAITED_S - 1, cpu_s=34.0) == []
    assert job.beat(AWAITED_S, cpu_s=35.0) == [
        "rank 1 at step 7 lets 2 other ranks wait for 30 s: it computes (30 s of CPU meanwhile)"
    ]


def test_a_rank_that_does_nothing_while_others_wait_is_said_to_do_nothing(job):
    job.beat(0)
    told = job.beat(AWAITED_S, cpu_s=0.1)
    assert told[0].endswith("takes no processor time; py-spy dump --pid 101 shows where it is")


def test_who_goes_on_from_step_to_step_is_not_named(job):
    for second in range(100):
        assert job.beat(second, step=second // 10) == []


def test_nobody_is_named_where_nobody_or_everybody_waits():
    job = Job()
    for second in range(0, 100, 10):
        assert job.beat(second, is_waiting=True) == []
    alone = Heartbeats(job.said.append)
    for second in range(0, 100, 10):
        alone.hear(0, "rank 0", Beat(second, 1, "S", 0.0, 3, is_waiting=False))
        alone.look(second)
    assert job.said == []


def test_a_supervisor_that_says_nothing_is_named_until_its_rank_has_ended(job):
    job.beat(0, is_waiting=True)
    job.heartbeats.look(SILENT_S)
    assert job.said[0] == "rank 0 at step 7: its supervisor has said nothing for 15 s"
    for rank in range(3):
        job.heartbeats.forget(rank)
    job.said.clear()
    job.heartbeats.look(10 * SILENT_S)
    assert job.said == []


def test_a_rank_that_tells_no_steps_is_named_without_one():
    said = []
    heartbeats = Heartbeats(said.append)
    for second in (0.0, STOPPED_S):
        heartbeats.hear(0, "rank 0", Beat(second, 1, "T", 0.0, 0, is_waiting=False))
        heartbeats.look(second)
    assert said[0].startswith("rank 0 has been stopped")


@pytest.mark.skipif(sys.platform != "linux", reason="proc(5)")
def test_the_state_and_the_time_of_a_process_are_the_systems():
    state, cpu_s = state_of(os.getpid())
    assert state == "R"
    times = os.times()
    assert cpu_s == pytest.approx(times.user + times.system, abs=0.1)


def test_of_a_process_that_has_ended_nothing_is_known():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert state_of(process.pid) == ("", 0.0)
