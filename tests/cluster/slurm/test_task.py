"""Tasks of one step as processes, with a scontrol that a test wrote, and no Slurm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slurm_cases import JOB, STEP_TEXT, VARIABLES

ROOT = Path(__file__).parents[3]
SCONTROL = """#!/bin/sh
case "$1 $2" in
  "show hostnames") [ "$3" = "n[1-2]" ] && echo localhost 127.0.0.1 || echo "$3";;
  "show job") cat {folder}/job;;
  "show step") cat {folder}/step;;
esac
"""
SAYS = (
    "import os; print(*(os.environ[name] for name in ('RANK', 'LOCAL_RANK', 'GROUP_RANK', "
    "'WORLD_SIZE', 'NEURON_RT_VISIBLE_CORES', 'MASTER_ADDR', 'TRNSIM_INSTANCE')), "
    "os.environ['NEURON_RT_ROOT_COMM_ID'].partition(':')[0])"
)
SLEEPS = "import os, time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def tasks(tmp_path):
    """Starts a task of the step, and ends what still runs."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "scontrol"
    program.write_text(SCONTROL.format(folder=tmp_path))
    program.chmod(0o755)
    first, second = "neuron:4(IDX:0-3)", "neuron:4(IDX:8-11)"
    job = JOB.format(first=first, second=second)
    job = job.replace("Nodes=n1 ", "Nodes=localhost ").replace("Nodes=n2 ", "Nodes=127.0.0.1 ")
    (tmp_path / "job").write_text(job)
    (tmp_path / "step").write_text(STEP_TEXT.format(more=""))
    started = []

    def start(number, code, *options, **variables):
        own = {"SLURM_NODEID": str(number), "SLURM_PROCID": str(number)}
        path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
        extra = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "TRNSIM_STATE": "off"}
        command = [
            *(sys.executable, "-m", "trnsim", "slurm", "launch", "--on", "trn2.48xlarge"),
            *("--report", "shared", *options, "--", sys.executable, "-c", code),
        ]
        process = subprocess.Popen(
            command, env=os.environ | VARIABLES | own | extra | variables, cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(path, text):
    deadline_s = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline_s, path
        time.sleep(0.05)


@pytest.mark.slow
def test_tasks_of_a_step_start_all_ranks(tasks, tmp_path):
    both = [tasks(number, SAYS, "--ranks-per-node", "2") for number in (1, 0)]
    (out, _), (shown, err) = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], err
    assert out == ""
    assert shown.startswith("4 ranks on 2 x trn2.48xlarge, 2 on each\n0 0 0 4 0 localhost ")
    lines = [(tmp_path / f"shared/logs/rank-{rank}.log").read_text() for rank in range(4)]
    assert lines == [
        "0 0 0 4 0 localhost trn2.48xlarge localhost\n",
        "1 1 0 4 1 localhost trn2.48xlarge localhost\n",
        "2 0 1 4 32 localhost trn2.48xlarge localhost\n",
        "3 1 1 4 33 localhost trn2.48xlarge localhost\n",
    ]
    assert not list((tmp_path / "shared").glob(".step*"))


@pytest.mark.slow
def test_a_lost_node_is_named_with_its_ranks(tasks, tmp_path):
    first, second = [tasks(number, SLEEPS, "--ranks-per-node", "2") for number in (0, 1)]
    for rank in range(4):
        until(tmp_path / f"shared/logs/rank-{rank}.log", "up")
    for pid in children(second.pid):
        os.kill(pid, signal.SIGKILL)
    second.kill()
    _, err = first.communicate(timeout=60)
    assert first.returncode != 0
    assert "trnsim: rank 2 (node 1, 127.0.0.1, local rank 0) " in err or "rank 3 (node 1" in err
    assert "all ranks of 127.0.0.1 ended with it: 2, 3\n" in err


@pytest.mark.slow
def test_a_lost_launcher_ends_the_other_ranks_and_is_named(tasks, tmp_path):
    first, second = [tasks(number, SLEEPS, "--ranks-per-node", "1") for number in (0, 1)]
    until(tmp_path / "shared/logs/rank-1.log", "up")
    first.kill()
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert (
        "trnsim: the launcher of rank 0 on localhost is lost; the ranks here on 127.0.0.1 " in err
    )
    assert err.endswith("ended with it: 1\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_a_task_that_starts_no_ranks_ends_the_others(tasks, number):
    refusing = tasks(number, SLEEPS, NEURON_RT_VISIBLE_CORES="60")
    other = tasks(1 - number, SLEEPS, "--ranks-per-node", "1")
    errors = [process.communicate(timeout=60)[1] for process in (refusing, other)]
    assert (refusing.returncode, other.returncode) == (2, 2), errors
    reason = "NEURON_RT_VISIBLE_CORES='60'; legal: cores "
    assert errors[0].startswith(f"trnsim: error: {reason}")
    assert f"starts no ranks: {reason}" in errors[1]


def children(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]
