"""neuron-ls and neuron-monitor as AWS's pages show them, on instances of each chip.

tests/tools compares trn2n.48xlarge, which is the pages' own, to the letter.
"""

import json
import sys
from functools import cache

import pytest
from found_programs import FOLDER, TRNSIM, printed
from instance_shells import needs_namespace, shell

from trnsim.instance.model import instance_model

# Instance, LNC, devices, cores of each, GB of each, version of its cores.
ROWS = [
    ("inf1.6xlarge", None, 4, 4, 8, "v1"),
    ("inf2.48xlarge", None, 12, 2, 32, "v2"),
    ("trn1.32xlarge", None, 16, 2, 32, "v2"),
    ("trn2.48xlarge", None, 16, 4, 96, "v3d"),
    ("trn2.48xlarge", "1", 16, 8, 96, "v3"),
    ("trn2n.48xlarge", None, 16, 4, 96, "v3d"),
]
PAIRED = ("trn2.48xlarge", "trn2n.48xlarge")
rows = pytest.mark.parametrize(("instance", "lnc", "devices", "cores", "gb", "version"), ROWS)

TITLES = ["NEURON DEVICE", "NEURON CORES", "NEURON CORE IDS", "NEURON MEMORY", "CONNECTED DEVICES",
          "PCI BDF", "CPU AFFINITY", "NUMA NODE"]  # fmt: skip
FIELDS = ["neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to", "nc_count",
          "logical_neuroncore_config", "memory_size", "neuroncore_ids",
          "neuron_processes"]  # fmt: skip
SYSTEM = {"vcpu_usage", "memory_info", "neuron_hw_counters"}


@cache
def tools(instance, lnc):
    """What the tools print by their bare names in an instance: table, JSON, a report."""
    options = ("--instance", instance, *(("--lnc", lnc) if lnc else ()))
    commands = "neuron-ls; echo =; neuron-ls -j; echo =; neuron-monitor | head -1"
    done = shell("sh", "-c", commands, options=options)
    assert (done.returncode, done.stderr) == (0, "emulated by trnsim\n" * 3)
    return done.stdout.split("=\n")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@needs_namespace
@rows
def test_the_table_has_the_pages_columns(instance, lnc, devices, cores, gb, version):
    del version  # of reports alone
    lines = tools(instance, lnc)[0].splitlines()
    head = [line for line in lines if ": " in line]
    named = ["instance-type", "instance-id"]
    named += ["logical-neuroncore-config"] if instance in PAIRED else []
    assert [line.partition(":")[0] for line in head] == named
    assert head[0] == f"instance-type: {instance}"
    table = [cells(line) for line in lines if line.startswith("|")]
    assert [" ".join(pair) for pair in zip(*table[:2], strict=True)] == TITLES
    model = instance_model(instance, int(lnc) if lnc else None)
    ids = [range(cores * number, cores * (number + 1)) for number in range(devices)]
    assert table[2:] == [
        [
            str(number),
            str(cores),
            f"{own[0]}-{own[-1]}",
            f"{gb} GB",
            ", ".join(map(str, device.connected)),
            device.bdf,
            device.cpu_affinity,
            str(device.numa_node),
        ]
        for number, (own, device) in enumerate(zip(ids, model.devices, strict=True))
    ]


@needs_namespace
@rows
def test_the_json_has_the_pages_fields(instance, lnc, devices, cores, gb, version):
    del version  # of reports alone
    found = json.loads(tools(instance, lnc)[1])
    fields = [name for name in FIELDS if instance in PAIRED or "logical" not in name]
    assert [list(one) for one in found] == [fields] * devices
    assert [one["nc_count"] for one in found] == [cores] * devices
    assert {one["memory_size"] for one in found} == {gb << 30}
    assert [core for one in found for core in one["neuroncore_ids"]] == list(range(devices * cores))
    assert all(isinstance(one["numa_node"], str) for one in found)


@needs_namespace
@rows
def test_a_report_has_the_pages_groups(instance, lnc, devices, cores, gb, version):
    report = json.loads(tools(instance, lnc)[2])
    assert list(report) == [
        "neuron_runtime_data",
        "system_data",
        "instance_info",
        "neuron_hardware_info",
    ]
    assert set(report["system_data"]) == SYSTEM
    counted = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    assert [one["neuron_device_index"] for one in counted] == list(range(devices))
    assert report["instance_info"]["instance_type"] == instance
    hardware = report["neuron_hardware_info"]
    assert hardware["neuroncore_version"] == version
    assert hardware["neuron_device_count"] == devices
    assert hardware["neuroncore_per_device_count"] == cores
    assert hardware["neuron_device_memory_size"] == gb << 30
    assert ("logical_neuroncore_config" in hardware) == (instance in PAIRED)
    assert hardware["error"] == ""


@needs_namespace
def test_a_kernel_does_not_run_on_inf1_and_the_error_says_so():
    program = [sys.executable, str(FOLDER / "kernel_program.py")]
    done = shell(*program, options=("--instance", "inf1.6xlarge"))
    assert done.returncode == 1
    assert "TRNSIM_INSTANCE=inf1.6xlarge has Inferentia1, a chip that is" in done.stderr


def test_an_instance_that_does_not_exist_is_named_with_those_near_it():
    with pytest.raises(
        AssertionError,
        match=r"'trn2.49xlarge' is no chip, family or instance type(.|\n)*trn2.48xlarge",
    ):
        printed(*TRNSIM, "shell", "--instance", "trn2.49xlarge", "--", "true")
