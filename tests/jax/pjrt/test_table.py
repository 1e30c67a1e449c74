"""The table that JAX calls: slots, those that are missing, and those that free."""

import ctypes

import pytest

from trnsim.jax.pjrt import errors
from trnsim.jax.pjrt.structs import slots, struct
from trnsim.jax.pjrt.table import FunctionTable, is_destructor, noop_address

FREES = {
    *("Error", "Event", "Client", "Executable", "LoadedExecutable", "Buffer"),
    *("CopyToDeviceStream", "TopologyDescription", "ExecuteContext", "AsyncTrackingEvent"),
    "AsyncHostToDeviceTransferManager",
}


@pytest.fixture(scope="module")
def table(neuron):  # noqa: ARG001  it has loaded every family of slots
    return FunctionTable()


def called(table, name, **values):
    """A slot's error, after a call as C would make it."""
    args = struct(f"{name}_Args")(ctypes.sizeof(struct(f"{name}_Args")), **values)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(getattr(table.api, name))
    return function(ctypes.addressof(args)), args


def test_every_function_of_the_interface_is_there(table):
    assert all(getattr(table.api, name) for name in slots())
    assert table.api.struct_size == ctypes.sizeof(table.api)
    version = table.api.pjrt_api_version
    assert (version.major_version, version.minor_version) == (0, 114)
    assert type(table.capsule()).__name__ == "PyCapsule"


def test_a_missing_function_answers_unimplemented_by_name(table):
    error, _ = called(table, "Client_DmaMap")
    _, code = called(table, "Error_GetCode", error=error)
    assert code.code == 12
    message = struct("Error_Message_Args")(ctypes.sizeof(struct("Error_Message_Args")), error=error)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(table.api.Error_Message)(ctypes.addressof(message))
    text = ctypes.string_at(message.message, message.message_size).decode()
    assert text.startswith("PJRT_Client_DmaMap is not modelled by the neuron device")


def test_functions_that_free_are_not_python(table):
    freeing = {name.removesuffix("_Destroy") for name in slots() if is_destructor(name)}
    assert freeing == FREES
    for name in freeing:
        assert getattr(table.api, f"{name}_Destroy") == noop_address()
        assert called(table, f"{name}_Destroy")[0] is None


def test_what_a_slot_raises_becomes_an_error_of_its_kind(table):
    error, _ = called(table, "Client_LookupDevice", id=99)
    assert errors._errors.get(error).code == 3


def test_a_neutral_table_does_nothing():
    table = FunctionTable()
    table.neutralise()
    assert called(table, "Client_DmaMap")[0] is None


def test_extensions_are_a_chain(table):
    first = struct("Extension_Base").from_address(table.api.extension_start)
    assert (first.type, first.next) == (19, None)


@pytest.mark.parametrize(
    ("name", "handle", "message"),
    [
        ("Executable_NumReplicas", "executable", "an executable of a client that is gone"),
        ("Memory_Kind", "memory", "a memory of another process's device"),
        ("Buffer_Device", "buffer", "an array that was freed is used"),
        ("LoadedExecutable_Execute", "executable", "an executable of a client that is gone"),
    ],
)
def test_a_shorter_function_leaves_what_it_does_not_know_to_the_slot(table, name, handle, message):
    error, _ = called(table, name, **{handle: 8})
    assert errors._errors.get(error).code == 3
    assert ctypes.string_at(errors._errors.get(error).message.address).decode().startswith(message)
