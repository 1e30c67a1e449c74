"""xpustat, which reads neuron-ls alone. It has no memory in use of Neuron devices: 0, always."""

import json
import os
import sys
from pathlib import Path

from found_programs import kernel, printed
from instance_shells import needs_namespace, shell

BIG = ("--instance", "trn2.48xlarge")
MIB_OF_A_DEVICE = 98_304


@needs_namespace
def test_xpustat_lists_devices_their_memory_and_the_process_of_a_running_kernel():
    with kernel(TRNSIM_INSTANCE="trn2.48xlarge", NEURON_RT_VISIBLE_CORES="20-23") as process:
        done = shell("xpustat", "--json", "-f", "neuron", options=BIG)
    assert done.returncode == 0, done.stderr
    devices = json.loads(done.stdout)["neuron"]
    assert [one["neuron_device"] for one in devices] == list(range(16))
    assert {one["mem_total_mb"] for one in devices} == {MIB_OF_A_DEVICE}
    assert {one["nc_count"] for one in devices} == {4}
    assert [core for one in devices for core in one["neuroncore_ids"]] == list(range(64))
    found = {one["neuron_device"]: [each["pid"] for each in one["processes"]] for one in devices}
    assert found == {index: [] for index in range(16)} | {5: [process.pid]}


def test_without_a_shell_neuron_ls_is_not_found():
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    text = printed("xpustat", "--json", "-f", "neuron", env=os.environ | {"PATH": path})
    assert json.loads(text)["neuron"] == []
