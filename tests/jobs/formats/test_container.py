import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.container import (
    ContainerReader,
    common_fields,
    device_numbers,
    with_kept_places,
)
from trnsim.jobs.job import KeptField, Role
from trnsim.jobs.spec import SpecReader
from trnsim.reader import FileContent


def container(**fields):
    reader = SpecReader(FileContent.of({"c": fields}, "a.json").root)
    return ContainerReader(reader, ("c",), "roles.0")


def devices(*paths):
    return {"devices": [{"hostPath": path} for path in paths]}


@pytest.mark.parametrize(
    ("paths", "indexes", "efa"),
    [
        ((), (), None),
        (("/dev/neuron0", "/dev/neuron15"), (0, 15), None),
        (("/dev/infiniband/uverbs1", "/dev/infiniband/uverbs0"), (), 2),
        (("/dev/infiniband/uverbs1",), (), None),
        (("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"), (), None),
        (("/dev/neuron", "/dev/neuron1x", "/dev/neuron-1", "/dev/neuron99999", 5), (), None),
        (("/dev/neuron٣",), (), None),
    ],
)
def test_devices_have_numbers(paths, indexes, efa):
    fields = container(linuxParameters=devices(*paths)).common()
    assert fields["device_indexes"] == indexes
    assert fields["devices"] == (len(indexes) or None)
    assert fields["efa"] == efa


@pytest.mark.parametrize(
    ("limits", "is_unlimited"),
    [
        ([], False),
        ([{"name": "memlock", "softLimit": -1, "hardLimit": -1}], True),
        ([{"name": "memlock", "softLimit": 64, "hardLimit": -1}], False),
        ([{"name": "stack", "softLimit": -1, "hardLimit": -1}], False),
        ([{"name": "memlock"}], False),
    ],
)
def test_locked_memory(limits, is_unlimited):
    assert container(ulimits=limits).common()["is_memlock_unlimited"] is is_unlimited


def test_the_first_amount_of_a_resource_counts():
    rows = [{"type": "GPU", "value": "1"}, {"type": "GPU", "value": "2"}]
    reader = container(resourceRequirements=rows)
    assert reader.required_amount("GPU", "gpus") == 1
    assert reader.required_amount("VCPU", "vcpus") is None
    assert reader.names == {("c", "resourceRequirements"): {0: "GPU"}}
    assert len(reader.reader.kept_fields()) == 2


def test_numbers_of_all_devices_are_known():
    assert device_numbers(Role()) == ()
    assert device_numbers(Role(devices=2, device_indexes=(3, 5))) == (3, 5)
    assert device_numbers(Role(instance="inf2.24xlarge", devices=6)) == tuple(range(6))
    assert device_numbers(Role(instance="inf2.24xlarge", devices=5)) == ()
    assert device_numbers(Role(instance="unheard", devices=5)) == ()
    with pytest.raises(BadInput, match=r"'main' has None devices and the numbers \(3,\)"):
        device_numbers(Role(device_indexes=(3,)))


def test_lists_have_room_for_items_kept_whole():
    role = Role(environment=(("A", "1"),), efa=1, image="i")
    kept = (
        KeptField(("c", "environment", 0, "name"), "kept"),
        KeptField(("c", "linuxParameters", "devices", 0, "hostPath"), "/dev/kmsg"),
    )
    assert with_kept_places(common_fields(role), kept, ("c",)) == {
        "image": "i",
        "environment": [{}, {"name": "A", "value": "1"}],
        "linuxParameters": {
            "devices": [
                {},
                {
                    "hostPath": "/dev/infiniband/uverbs0",
                    "containerPath": "/dev/infiniband/uverbs0",
                },
            ]
        },
    }
