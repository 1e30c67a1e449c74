"""Buffers: arrays in a memory of a device, from and to the host, and between memories.

A buffer's elements are an array of the private client (`trnsim.jax.host_client`). An array of the
host is copied at once, as to a chip: a program may change its numpy array afterwards. On the way
back elements are copied into the memory that JAX names.
"""

from __future__ import annotations

import ctypes
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.device.call_log import note_from_host, note_to_host
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.hbm import LINE_FROM_BYTES, device_memory
from trnsim.device.program_line import program_line
from trnsim.device.steps import steps
from trnsim.errors import BadInput, NotModelled, SourceLine
from trnsim.jax.dlpack import DLPACK_SOURCE
from trnsim.jax.host_client import HostArray, as_numpy, host
from trnsim.jax.pjrt.devices import memory_at
from trnsim.jax.pjrt.element_types import dtype_of, hbm_bytes, type_of
from trnsim.jax.pjrt.events import READY, event_of, failed_event
from trnsim.jax.pjrt.handles import Numbers, numbers_at
from trnsim.jax.pjrt.memories import PjrtMemory
from trnsim.jax.pjrt.structs import enumeration, struct
from trnsim.jax.pjrt.sweep import Place, buffers, place_above, sweep, track_buffer
from trnsim.jax.pjrt.table import quick_number, slot

_STRIDES: Final = enumeration("Buffer_MemoryLayout_Type")["Strides"]
_TILED: Final = enumeration("Buffer_MemoryLayout_Type")["Tiled"]


class BufferType:
    """The properties that equal buffers share.

    Attributes:
        dtype: the dtype of their elements, or None for a token.
        nbytes: the bytes of each in that memory.
        hbm: the HBM that counts their bytes; None in the host's memory.
        device_address: the handle of the device that reaches it.
    """

    def __init__(
        self, memory: PjrtMemory, shape: tuple[int, ...], dtype: np.dtype[Any] | None
    ) -> None:
        self.memory = memory
        self.shape = shape
        self.dtype = dtype
        self.nbytes = hbm_bytes(shape, dtype)
        self.hbm = device_memory(memory.core) if memory.is_hbm else None
        self.memory_address = memory.address
        self.device_address = memory.owner.address

    @cached_property
    def dims(self) -> Numbers:
        """Their shape, as C reads it."""
        return Numbers(ctypes.c_int64, self.shape)

    @cached_property
    def minor_to_major(self) -> Numbers:
        """Their dimensions, the fastest first."""
        return Numbers(ctypes.c_int64, range(len(self.shape))[::-1])


@lru_cache(maxsize=4096)
def buffer_type(
    memory: PjrtMemory, shape: tuple[int, ...], dtype: np.dtype[Any] | None
) -> BufferType:
    """The type of buffers of a shape and dtype in a memory."""
    return BufferType(memory, shape, dtype)


class Buffer:
    """An array in a memory of a device; until `free` it counts in HBM if it lies there.

    Attributes:
        type: the properties that it shares with equal buffers.
        elements: an array of the private client; None once it is deleted, donated or dead.
        line: the line of the program that made it; None for a small buffer.
    """

    __slots__ = ("address", "elements", "line", "type")

    def __init__(self, elements: HostArray, shared_type: BufferType) -> None:
        self.address = address = id(self)
        self.elements: HostArray | None = elements
        self.type = shared_type
        self.line: SourceLine | None = None
        hbm = shared_type.hbm
        if hbm is not None:
            nbytes = shared_type.nbytes
            if nbytes >= LINE_FROM_BYTES:
                self.line = program_line()
            hbm.count(address, self, nbytes)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.type.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of its elements, or None for a token."""
        return self.type.dtype

    @property
    def memory(self) -> PjrtMemory:
        """Its memory."""
        return self.type.memory

    @property
    def array(self) -> HostArray:
        """Its elements.

        Raises:
            BadInput: if it was deleted or donated.
        """
        if self.elements is None:
            raise BadInput(f"an array {self.dtype}{list(self.shape)} was deleted or donated")
        return self.elements

    def free(self) -> None:
        """Release its memory; a second call does nothing."""
        self.elements = None
        if self.type.hbm is not None:
            self.type.hbm.release(self.address)

    def free_if_donated(self) -> None:
        """Release its memory if it was donated to an execution."""
        if self.elements is not None and self.elements.is_deleted():
            self.free()


def require_room(nbytes: int, memory: PjrtMemory) -> None:
    """Refuse an allocation that does not fit in a core's HBM; the host's memory is not counted.

    Raises:
        OutOfMemory: with a table of the arrays in memory.
    """
    if not memory.is_hbm:
        return
    hbm = device_memory(memory.core)
    if hbm.live_bytes + nbytes > hbm.capacity_bytes:
        sweep()
        hbm.require_room(nbytes)


def new_buffer(
    array: HostArray, memory: PjrtMemory, place: Place, *, is_token: bool = False
) -> int:
    """The handle of an array that a call at `place` has made."""
    sharing_type = (
        buffer_type(memory, (), None) if is_token else buffer_type(memory, array.shape, array.dtype)
    )
    buffer = Buffer(array, sharing_type)
    track_buffer(buffer, place)
    return buffer.address


def buffer_at(handle: int) -> Buffer:
    """The buffer of a handle.

    Raises:
        BadInput: if it is dead.
    """
    buffer = buffers.get(handle)
    if buffer is None:
        raise BadInput("an array that was freed is used")
    return buffer


def _buffer(args: Any) -> Buffer:
    return buffer_at(args.buffer)


def _host_view(
    address: int | None, dims: list[int], strides: list[int], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """The caller's memory as an array; strides may be negative."""
    if not address or 0 in dims:
        return np.empty(dims, dtype)
    steps = strides or _dense_strides(dims, dtype.itemsize)
    offsets = [(side - 1) * step for side, step in zip(dims, steps, strict=True)]
    low, high = sum(min(offset, 0) for offset in offsets), sum(max(offset, 0) for offset in offsets)
    memory: Any = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(address + low)
    return np.ndarray(dims, dtype, memory, offset=-low, strides=steps)


def _dense_strides(dims: list[int], itemsize: int) -> list[int]:
    """Byte strides of rows in order."""
    steps = [itemsize] * len(dims)
    for dim in range(len(dims) - 1, 0, -1):
        steps[dim - 1] = steps[dim] * dims[dim]
    return steps


@slot("Client_BufferFromHostBuffer")
def _copy_from_host(args: Any) -> None:
    place = place_above(2)
    dims = numbers_at(args.dims, args.num_dims)
    dtype = dtype_of(args.type)
    memory = memory_at(args.device, args.memory)
    if pending_faults:
        strike_fault(memory.core)
    nbytes = hbm_bytes(tuple(dims), dtype)
    require_room(nbytes, memory)
    strides = numbers_at(args.byte_strides, args.num_byte_strides)
    array = host().put(_host_view(args.data, dims, strides, dtype), memory.core)
    args.buffer = new_buffer(array, memory, place)
    args.done_with_host_buffer = READY
    if memory.is_hbm:
        note_from_host(nbytes)


@slot("Buffer_ToHostBuffer")
def _copy_to_host(args: Any) -> None:
    buffer = buffer_at(args.src)
    if buffer.dtype is None:
        raise BadInput("a token has no elements")
    nbytes = buffer.dtype.itemsize
    for side in buffer.shape:
        nbytes *= side
    if not args.dst:
        args.dst_size = nbytes
        return
    if args.dst_size < nbytes:
        raise BadInput(f"{nbytes} bytes do not fit into {args.dst_size}")
    if pending_faults:
        strike_fault(buffer.memory.core)
    steps.note_wait()
    try:
        array = as_numpy(buffer.array)
    except Exception as error:  # noqa: BLE001  of the computation: it belongs to the array
        args.event = failed_event(error)
        return
    _write(args.dst, args.host_layout, array)
    args.event = READY
    if buffer.memory.is_hbm:
        note_to_host(buffer.nbytes)


def _write(address: int, layout_at: int | None, array: npt.NDArray[Any]) -> None:
    """Copy an array into the caller's memory, in the caller's layout."""
    order = list(range(array.ndim))
    if layout_at:
        layout = struct("Buffer_MemoryLayout").from_address(layout_at)
        if layout.type == _STRIDES:
            steps = numbers_at(layout.strides.byte_strides, layout.strides.num_byte_strides)
            _host_view(address, list(array.shape), steps, array.dtype)[...] = array
            return
        order = numbers_at(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)[::-1]
    if array.size:
        ordered_array = np.ascontiguousarray(array.transpose(order))
        ctypes.memmove(address, ordered_array.ctypes.data, ordered_array.nbytes)


@slot("Buffer_ElementType")
def _element_type(args: Any) -> None:
    args.type = type_of(_buffer(args).dtype)


@slot("Buffer_Dimensions")
def _dimensions(args: Any) -> None:
    dims = _buffer(args).type.dims
    args.dims, args.num_dims = dims.address, dims.size


@slot("Buffer_UnpaddedDimensions")
def _unpadded_dimensions(args: Any) -> None:
    dims = _buffer(args).type.dims
    args.unpadded_dims, args.num_dims = dims.address, dims.size


@slot("Buffer_DynamicDimensionIndices")
def _dynamic_dimensions(args: Any) -> None:
    args.dynamic_dim_indices, args.num_dynamic_dims = None, 0


@slot("Buffer_GetMemoryLayout")
def _layout(args: Any) -> None:
    order = _buffer(args).type.minor_to_major
    layout = args.layout
    layout.type = _TILED
    layout.tiled.minor_to_major = order.address
    layout.tiled.minor_to_major_size = order.size
    layout.tiled.num_tiles = 0


@slot("Buffer_OnDeviceSizeInBytes")
def _size(args: Any) -> None:
    args.on_device_size_in_bytes = _buffer(args).nbytes


@slot("Buffer_Device")
def _device(args: Any) -> None:
    args.device = _buffer(args).type.device_address


@slot("Buffer_Memory")
def _memory(args: Any) -> None:
    args.memory = _buffer(args).type.memory_address


quick_number("Buffer_Device", buffers, "buffer", "device", "type.device_address")
quick_number("Buffer_Memory", buffers, "buffer", "memory", "type.memory_address")


@slot("Buffer_Delete")
def _delete(args: Any) -> None:
    buffer = buffers.get(args.buffer)
    if buffer is not None:
        buffer.free()


@slot("Buffer_IsDeleted")
def _is_deleted(args: Any) -> None:
    buffer = buffers.get(args.buffer)
    args.is_deleted = buffer is None or buffer.elements is None


@slot("Buffer_IsOnCpu")
def _is_on_cpu(args: Any) -> None:
    args.is_on_cpu = False


@slot("Buffer_ReadyEvent")
def _ready_event(args: Any) -> None:
    buffer = buffers.get(args.buffer)
    elements = None if buffer is None else buffer.elements
    args.event = READY if elements is None else event_of([elements])


@slot("Buffer_UnsafePointer")
def _unsafe_pointer(args: Any) -> None:
    args.buffer_pointer = args.buffer


@slot("Buffer_CopyToDevice")
def _copy_to_device(args: Any) -> None:
    args.dst_buffer = _copy_buffer(args, memory_at(args.dst_device, None), place_above(2))


@slot("Buffer_CopyToMemory")
def _copy_to_memory(args: Any) -> None:
    args.dst_buffer = _copy_buffer(args, memory_at(None, args.dst_memory), place_above(2))


def _copy_buffer(args: Any, memory: PjrtMemory, place: Place) -> int:
    """The handle of a copy in another memory."""
    source = _buffer(args)
    if pending_faults:
        for core in {source.memory.core, memory.core}:
            strike_fault(core)
    require_room(source.nbytes, memory)
    handle = new_buffer(host().copy(source.array, memory.core), memory, place)
    if source.memory.is_hbm and not memory.is_hbm:
        note_to_host(source.nbytes)
    elif memory.is_hbm and not source.memory.is_hbm:
        note_from_host(source.nbytes)
    return handle


@slot("Buffer_IncreaseExternalReferenceCount")
def _refuse_pointers(args: Any) -> None:
    """Refuse to share memory of a device; `x.__dlpack__()` gives a copy.

    Raises:
        NotModelled: always.
    """
    del args
    raise NotModelled(
        "memory of a neuron device cannot be shared with another framework",
        fix="take a copy: np.asarray(x), np.from_dlpack(x) or torch.from_dlpack(x)",
        source=DLPACK_SOURCE,
    )
