"""Steps of a job never share a device, and a lock ends with its process."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from slurm_cases import FIRST, STEP

from trnsim.cluster.slurm import claim
from trnsim.cluster.slurm.claim import claimed_devices
from trnsim.errors import BadInput

DEVICES = tuple(range(8, 16))


@pytest.fixture(autouse=True)
def _released():
    yield
    while claim._lock_files:
        os.close(claim._lock_files.pop())


def test_steps_take_sets_that_are_disjoint_until_none_is_left(tmp_path):
    other = replace(FIRST, step=1)
    assert claimed_devices(FIRST, "trn2.48xlarge", 4, DEVICES, tmp_path) == (8, 9, 10, 11)
    assert claimed_devices(other, "trn2.48xlarge", 4, DEVICES, tmp_path) == (12, 13, 14, 15)
    with pytest.raises(BadInput) as raised:
        claimed_devices(replace(FIRST, step=2), "trn2.48xlarge", 1, DEVICES, tmp_path)
    assert raised.value.reason == (
        "step 7.2 has 1 device on n1; no legal set of as many is among the free ones of its job: "
        "none"
    )


def test_other_tasks_read_what_the_first_of_their_node_took(tmp_path):
    second = replace(FIRST, tasks_per_node=(2, 2), task=1, local_task=1)
    with pytest.raises(BadInput, match="has taken no devices in 0 s"):
        claimed_devices(second, "trn2.48xlarge", 4, DEVICES, tmp_path, wait_s=0)
    first = claimed_devices(FIRST, "trn2.48xlarge", 4, DEVICES, tmp_path)
    assert claimed_devices(second, "trn2.48xlarge", 4, DEVICES, tmp_path, wait_s=0) == first


def test_nodes_and_restarts_have_locks_of_their_own(tmp_path):
    sets = [
        claimed_devices(step, "trn2.48xlarge", 8, DEVICES, tmp_path)
        for step in (FIRST, STEP, replace(FIRST, restart=1))
    ]
    assert sets == [DEVICES] * 3


HOLDING = """
import sys
from pathlib import Path
from trnsim.cluster.slurm.claim import claimed_devices
from trnsim.cluster.slurm.step import SlurmStep
step = SlurmStep(7, 9, ("n1", "n2"), (1, 1), 0, 0, 0)
claimed_devices(step, "trn2.48xlarge", 4, tuple(range(8, 16)), Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_devices_of_a_killed_step_are_free_again(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # fmt: skip
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BadInput, match="among the free ones of its job: 12, 13, 14, 15"):
            claimed_devices(FIRST, "trn2.48xlarge", 8, DEVICES, tmp_path)
        other.kill()
    assert claimed_devices(FIRST, "trn2.48xlarge", 8, DEVICES, tmp_path) == DEVICES


def test_a_folder_that_is_not_ones_own_is_refused(tmp_path):
    name = f"trnsim-slurm-{os.getuid()}-7.0-n1"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="is a link or another user's"):
        claimed_devices(FIRST, "trn2.48xlarge", 4, DEVICES, tmp_path)
    with pytest.raises(BadInput, match="cannot make the folder"):
        claimed_devices(FIRST, "trn2.48xlarge", 4, DEVICES, tmp_path / "none")
