import subprocess
import sys

import pytest

from trnsim import arch
from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel, instance_model

GIB = 2**30


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in ("TRNSIM_INSTANCE", "NEURON_LOGICAL_NC_CONFIG", "NEURON_PLATFORM_TARGET_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)


def near(device):
    return device.cpu_affinity, device.numa_node


def test_the_page_s_own_instance_is_as_its_table_says():
    """Rows 0, 5 and 15 of aws-neuron-sdk tools/neuron-sys-tools/neuron-ls.rst, typed from it."""
    model = instance_model("trn2n.48xlarge")
    assert (len(model.devices), model.cores, model.lnc, model.is_assumed) == (16, 64, 2, ())
    rows = [
        (d.index, d.cores, d.core_ids, d.memory_bytes, d.connected, d.bdf, *near(d))
        for d in (model.devices[0], model.devices[5], model.devices[15])
    ]
    assert rows == [
        (0, 4, range(4), 103079215104, (12, 3, 4, 1), "0000:cc:00.0", "48-95,144-191", 1),
        (5, 4, range(20, 24), 103079215104, (1, 4, 9, 6), "0000:58:00.0", "0-47,96-143", 0),
        (15, 4, range(60, 64), 103079215104, (11, 14, 3, 12), "0000:f7:00.0", "48-95,144-191", 1),
    ]


@pytest.mark.parametrize(
    ("name", "lnc", "devices", "cores", "gib", "first", "version"),
    [
        ("inf1.6xlarge", 1, 4, 16, 8, (1,), "v1"),
        ("inf2.48xlarge", 1, 12, 24, 32, (11, 1), "v2"),
        ("trn1.2xlarge", 1, 1, 2, 32, (), "v2"),
        ("trn1.32xlarge", 1, 16, 32, 32, (12, 3, 4, 1), "v2"),
        ("trn2.3xlarge", 2, 1, 4, 96, (), "v3d"),
        ("trn2.48xlarge", 1, 16, 128, 96, (12, 3, 4, 1), "v3"),
        ("Trn2 UltraServer (u-trn2x64)", 2, 64, 256, 96, (48, 12, 3, 16, 4, 1), "v3d"),
        ("Trn3 Gen1 UltraServer", 2, 64, 256, 144, (1, 2, 3), "v4d"),
        ("Trn3 Gen2 UltraServer", 2, 144, 576, 144, (1, 2, 3), "v4d"),
    ],
)
def test_devices_cores_memory_and_links(name, lnc, devices, cores, gib, first, version):
    model = instance_model(name, lnc)
    assert (len(model.devices), model.cores) == (devices, cores)
    assert {device.memory_bytes for device in model.devices} == {gib * GIB}
    assert model.devices[0].connected == first
    assert model.core_version == version
    numbers = [core for device in model.devices for core in device.core_ids]
    assert numbers == list(range(cores))


def test_links_join_both_sides():
    for row in catalogue().instances.values():
        if row.accelerator in catalogue().chips:
            devices = instance_model(row.name).devices
            for one in devices:
                assert one.index not in one.connected
                assert all(one.index in devices[other].connected for other in one.connected)


def test_what_no_page_lists_for_an_instance_is_named():
    host = ("bdf", "numa_node", "cpu_affinity")
    assert instance_model("trn2.48xlarge").is_assumed == ()
    assert instance_model("trn2u.48xlarge").is_assumed == host
    assert instance_model("Trn3 Gen1 UltraServer").is_assumed == (*host, "connected")


def test_the_host_is_the_catalogue_s():
    model = instance_model("trn2.48xlarge")
    assert (model.vcpus, model.host_bytes, model.efa_adapters) == (192, 2048 * GIB, 16)
    tools_alone = instance_model("trn2n.48xlarge")
    assert (tools_alone.vcpus, tools_alone.host_bytes, tools_alone.efa_adapters) == (192, 0, 0)


@pytest.mark.parametrize(
    ("target", "cores", "expected"),
    [
        (None, 1, "trn2.3xlarge"),
        (None, 4, "trn2.3xlarge"),
        (None, 5, "trn2.48xlarge"),
        (None, 64, "trn2.48xlarge"),
        (None, 65, "trn2.48xlarge"),
        ("trn1", 1, "trn1.2xlarge"),
        ("trn1", 3, "trn1.32xlarge"),
        ("inf2", 1, "inf2.xlarge"),
        ("trn3", 1, "Trn3 Gen1 UltraServer"),
    ],
)
def test_the_default_is_the_smallest_of_the_target_chip(monkeypatch, target, cores, expected):
    if target:
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    assert instance_model(least_cores=cores).name == expected


def test_the_environment_names_an_instance_and_an_argument_wins(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.32xlarge")
    assert instance_model().name == "trn1.32xlarge"
    assert instance_model("inf1.xlarge").name == "inf1.xlarge"
    assert instance_model(chip=arch.target("trn1")).lnc == 1


def test_logical_cores_are_the_environment_s(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert instance_model("trn2.3xlarge").cores == 8
    assert instance_model("trn2.3xlarge", 2).cores == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "trn2.48xlrage",
            r"'trn2.48xlrage' is not known; legal: inf(?s:.*)perhaps 'trn2.48xlarge'",
        ),
        ("TRN2.48XLARGE", "instance 'TRN2.48XLARGE' is not known; legal: inf1"),
        ("p5.48xlarge", "instance 'p5.48xlarge' has h100, no Neuron devices; legal: inf1"),
    ],
)
def test_an_unknown_instance_is_refused_with_near_names(name, message):
    with pytest.raises(BadInput, match=message):
        instance_model(name)


@pytest.mark.parametrize(
    ("name", "lnc", "message"),
    [
        ("trn1.32xlarge", 2, "lnc is 2 on trn1; legal: 1\n"),
        ("trn2.48xlarge", 0, "lnc is 0 on trn2; legal: 1 or 2"),
        ("trn2.48xlarge", 3, "lnc is 3 on trn2; legal: 1 or 2"),
        ("inf1.xlarge", 2, "lnc is 2 on inferentia1; legal: 1\n"),
    ],
)
def test_an_lnc_that_the_chip_lacks_is_refused(name, lnc, message):
    with pytest.raises(BadInput, match=message):
        instance_model(name, lnc)


def test_logical_cores_have_an_older_name(monkeypatch):
    """As in aws-neuron-sdk libraries/nxd-inference/tutorials/trn2-llama3.3-70b-tutorial.rst."""
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1")
    assert instance_model("trn2.48xlarge").cores == 128
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "4")
    with pytest.raises(BadInput, match=r"(?s)VIRTUAL_CORE_SIZE='4' on trn2.*VIRTUAL_CORE_SIZE=1"):
        instance_model("trn2.48xlarge")


def test_an_lnc_of_the_environment_is_refused_by_its_variable(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    with pytest.raises(BadInput, match="NEURON_LOGICAL_NC_CONFIG='2' on inf2; legal: 1\n"):
        instance_model("inf2.xlarge")


def test_a_device_is_found_or_refused():
    model = instance_model("trn2.48xlarge")
    assert isinstance(model, InstanceModel)
    assert model.device(15).index == 15
    with pytest.raises(BadInput, match=r"device 16; legal on trn2.48xlarge: 0 to 15"):
        model.device(16)
    with pytest.raises(BadInput, match=r"device 1; legal on trn2.3xlarge: 0 alone"):
        instance_model("trn2.3xlarge").device(1)


def test_an_instance_that_is_named_needs_no_nki():
    """A tool such as neuron-ls starts in half the time without."""
    code = (
        "import sys; from trnsim.instance.model import instance_model; "
        "instance_model('trn2.48xlarge', 2); print([m for m in sys.modules if m == 'trnsim.nki'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
