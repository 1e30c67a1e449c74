"""Messages against bytes that were written by hand, from the numbers in kubelet's .proto files."""

import sys

import pytest

from trnsim.cluster.kubernetes.messages import DEVICE_PLUGIN, POD_RESOURCES, grpc, message
from trnsim.errors import BadInput


def test_a_registration_is_the_bytes_that_kubelet_reads():
    request = message(DEVICE_PLUGIN, "RegisterRequest")(
        version="v1beta1",
        endpoint="a.sock",
        resource_name="x/y",
        options={"get_preferred_allocation_available": True},
    )
    assert request.SerializeToString() == (
        b"\x0a\x07v1beta1" b"\x12\x06a.sock" b"\x1a\x03x/y" b"\x22\x02\x10\x01"
    )  # fmt: skip


def test_a_table_is_a_list_of_pairs():
    answer = message(DEVICE_PLUGIN, "ContainerAllocateResponse")(envs={"a": "b"})
    assert answer.SerializeToString() == b"\x0a\x06\x0a\x01a\x12\x01b"


def test_fields_of_a_later_kubelet_are_left_out():
    pod = b"\x0a\x01p" b"\x12\x01n" b"\x52\x01z"  # fmt: skip
    answer = message(POD_RESOURCES, "ListPodResourcesResponse").FromString(
        b"\x0a" + bytes([len(pod)]) + pod
    )
    (read,) = answer.pod_resources
    assert (read.name, read.namespace, list(read.containers)) == ("p", "n", [])


def test_a_negative_number_is_read():
    assert message(POD_RESOURCES, "NUMANode").FromString(b"\x08" + b"\xff" * 9 + b"\x01").ID == -1


def test_a_method_has_the_path_of_its_service():
    assert DEVICE_PLUGIN.method("DevicePlugin", "Allocate") == "/v1beta1.DevicePlugin/Allocate"


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(BadInput, match="grpc is not installed") as refused:
        grpc()
    assert refused.value.fix == "pip install 'trnsim[kubernetes]'"
