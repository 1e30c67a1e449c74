import pytest

from trnsim.instance.model import instance_model
from trnsim.tools import columns


def titles(name, which):
    return [
        one.title.replace("\n", " ")
        for one in columns.instance_columns(instance_model(name), which)
    ]


@pytest.mark.parametrize("name", ["trn1.2xlarge", "trn2.3xlarge", "inf2.8xlarge", "inf1.xlarge"])
def test_one_device_has_no_column_of_connections(name):
    """aws-neuron-sdk setup/multiframework-dlami.rst, and deploy/environments/docker-setup.rst."""
    assert titles(name, columns.DEVICES_ALONE) == [
        "NEURON DEVICE", "NEURON CORES", "NEURON CORE IDS", "NEURON MEMORY", "PCI BDF",
        "CPU AFFINITY", "NUMA NODE",
    ]  # fmt: skip
    assert titles(name, columns.WITH_PROCESSES) == [
        "NEURON DEVICE", "NEURON CORES", "NEURON MEMORY", "PCI BDF",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["inf1.6xlarge", "inf2.24xlarge", "trn1.32xlarge"])
def test_joined_devices_have_it_before_their_place(name):
    assert titles(name, columns.DEVICES_ALONE)[4:6] == ["CONNECTED DEVICES", "PCI BDF"]
    assert titles(name, columns.WITH_PROCESSES)[3:] == ["CONNECTED DEVICES", "PCI BDF"]


def cells(name, lnc=None):
    model = instance_model(name, lnc)
    return [
        one.text(model.devices[-1])
        for one in columns.instance_columns(model, columns.DEVICES_ALONE)
    ]


def test_cells_are_the_pages():
    """The last rows of aws-neuron-sdk neuron-runtime/explore/runtime-performance-tips.rst's."""
    assert cells("trn1.32xlarge") == [
        "15", "2", "30-31", "32 GB", "11, 14, 3, 12", "0000:a0:1b.0", "32-63,96-127", "1",
    ]  # fmt: skip
    assert cells("inf2.48xlarge") == [
        "11", "2", "22-23", "32 GB", "10, 0", "0000:20:1d.0", "24-47,120-143", "1",
    ]  # fmt: skip
    assert cells("trn2.48xlarge", 1)[:4] == ["15", "8", "120-127", "96 GB"]
    assert cells("trn1.2xlarge") == ["0", "2", "0-1", "32 GB", "0000:00:1e.0", "0-7", "-1"]


def test_an_address_without_its_domain():
    assert columns.bdf_without_domain("0000:cc:00.0") == "cc:00.0"
