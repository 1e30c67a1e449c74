"""Memories that a device reaches: its HBM, and its host's memory that DMA engines reach.

Their kinds have JAX's names: "device", the default, and "pinned_host". An array in the host's
memory takes no HBM; programs read and write it as any other.

Source: docs.jax.dev, JAX Memories and Host Offloading (the two kinds), which AWS does not document
for JAX; aws-neuron-sdk nki/guides/architecture, DMA (transfers with the host's memory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import BadInput
from trnsim.jax.memory_kinds import HBM, KINDS
from trnsim.jax.pjrt.handles import Handle, Text, words
from trnsim.jax.pjrt.structs import word_places
from trnsim.jax.pjrt.table import Call, address_slot, error_handle, quick, value_slot

if TYPE_CHECKING:
    from trnsim.jax.pjrt.devices import PjrtDevice

_NAMES: Final = ("HBM of {}", "host memory that {} reaches")


class PjrtMemory(Handle):
    """A memory of a device.

    Attributes:
        core: its device's index among the devices of its process.
        number: its id in JAX, among all memories of all processes.
        kind_number: the index of its kind in `KINDS`.
        is_hbm: True if it is HBM, so that arrays in it take HBM.
        kind: its kind, as C reads it.
        text: its name.
    """

    __slots__ = ("core", "is_hbm", "kind", "kind_number", "number", "owner", "text")

    def __init__(self, owner: PjrtDevice, kind: str, devices: int) -> None:
        """`devices` is the number of devices of all processes."""
        super().__init__()
        self.owner = owner
        self.core = owner.core
        self.kind_number = KINDS.index(kind)
        self.number = owner.number + self.kind_number * devices
        self.is_hbm = kind == HBM
        self.kind = Text(kind)
        self.text = Text(_NAMES[self.kind_number].format(f"NeuronDevice(id={owner.number})"))


memories: Final[dict[int, PjrtMemory]] = {}
"""Memories of this process's devices by their handles, in order."""


def _memory_of(args: Any) -> PjrtMemory:
    """The memory of a call.

    Raises:
        BadInput: it is another process's.
    """
    memory = memories.get(args.memory)
    if memory is None:
        raise BadInput("a memory of another process's device is asked for its properties")
    return memory


_MEMORY_AT, _KIND_AT, _KIND_SIZE_AT = word_places("Memory_Kind_Args", "memory", "kind", "kind_size")


@quick("Memory_Kind")
def _quick_kind(call_slot: Call) -> Call:
    def call(address: int) -> int:
        try:
            at = address >> 3
            memory = memories.get(words[at + _MEMORY_AT])
            if memory is None:
                return call_slot(address)
            kind = memory.kind
            words[at + _KIND_AT], words[at + _KIND_SIZE_AT] = kind.address, kind.size
        except BaseException as error:  # noqa: BLE001  an exception cannot pass through C
            return error_handle(error)
        return 0

    return call


value_slot("Memory_Id", "id", _memory_of, "number")
value_slot("Memory_Kind_Id", "kind_id", _memory_of, "kind_number")
address_slot("Memory_Kind", "kind", _memory_of, "kind")
address_slot("Memory_DebugString", "debug_string", _memory_of, "text")
address_slot("Memory_ToString", "to_string", _memory_of, "text")
address_slot("Memory_AddressableByDevices", "devices", _memory_of, "owner.owners")
