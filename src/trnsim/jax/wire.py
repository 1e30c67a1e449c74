"""Protocol buffers as bytes: the few messages of XLA that this room reads and writes itself.

jaxlib brings no classes for them. A message is a sequence of fields; a field is a number or bytes,
which may be a message again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
"""Wire types; a field of bytes has its length first."""
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_MOST_BYTES: Final = 10
_HOST_PROGRAM_SHAPE: Final = 4  # of HloModuleProto
_MODULE, _CONFIG = 1, 2  # of HloModuleProtoWithConfig; HloProto has its module in field 1 too
_ENTRY_LAYOUT: Final = 1  # of HloModuleConfigProto
_DEVICE_IDS: Final = 1  # of DeviceAssignmentProto.ComputationDevice
_REPLICAS, _PARTITIONS, _PARTITION_DEVICES = 1, 2, 3  # of DeviceAssignmentProto


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    content = bytearray()
    while number >> 7:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def number_field(field: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field << 3) + varint(value)


def bytes_field(field: int, value: bytes) -> bytes:
    """A field with bytes, or with a message."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message that are numbers or bytes; fields of fixed width are left out.

    Raises:
        ValueError: for bytes that are not a field, or a field that is longer than the message.
    """
    offset = 0
    while offset < len(message):
        tag, offset = _read_varint(message, offset)
        number, wire_type = tag >> 3, tag & 7
        if number and wire_type == _VARINT:
            value, offset = _read_varint(message, offset)
            yield number, value
            continue
        size = _FIXED_SIZES.get(wire_type)
        if wire_type == _LENGTH_DELIMITED:
            size, offset = _read_varint(message, offset)
        if size is None or not number or offset + size > len(message):
            raise ValueError(f"no field at byte {offset}")
        if wire_type == _LENGTH_DELIMITED:
            yield number, message[offset : offset + size]
        offset += size


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    """The number that begins at `offset`, and the offset of its end.

    Raises:
        ValueError: if the message ends before the number, or the number has more than 64 bits.
    """
    value = 0
    for index, byte in enumerate(message[offset : offset + _VARINT_MOST_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, offset + index + 1
    raise ValueError(f"no number at byte {offset}")


def _repeated_numbers(values: Iterable[int | bytes]) -> list[int]:
    """The numbers of a repeated field, packed or one by one."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
        else:
            offset = 0
            while offset < len(value):
                number, offset = _read_varint(value, offset)
                numbers.append(number)
    return numbers


def assignment(message: bytes) -> npt.NDArray[np.int32]:
    """[replica, partition] -> device number, from XLA's DeviceAssignmentProto."""
    columns = [value for field, value in fields(message) if field == _PARTITION_DEVICES]
    rows = [
        _repeated_numbers(value for _, value in fields(column))
        for column in columns
        if isinstance(column, bytes)
    ]
    return np.array(rows, np.int32).T


def assignment_message(devices: npt.NDArray[np.int32]) -> bytes:
    """XLA's DeviceAssignmentProto of [replica, partition] -> device number."""
    replicas, partitions = devices.shape
    message = number_field(_REPLICAS, replicas) + number_field(_PARTITIONS, partitions)
    for column in devices.T:
        packed_ids = b"".join(varint(int(device)) for device in column)
        message += bytes_field(_PARTITION_DEVICES, bytes_field(_DEVICE_IDS, packed_ids))
    return message


def hlo_with_config(module: bytes) -> bytes:
    """XLA's HloModuleProtoWithConfig: a module, and the layout of its arguments and results."""
    shape = next(value for field, value in bytes_fields(module) if field == _HOST_PROGRAM_SHAPE)
    return bytes_field(_MODULE, module) + bytes_field(_CONFIG, bytes_field(_ENTRY_LAYOUT, shape))


def module_in(hlo: bytes) -> bytes:
    """The HloModuleProto in XLA's HloProto, which has other fields beside it."""
    return next(value for field, value in bytes_fields(hlo) if field == _MODULE)


def bytes_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are bytes; raises as `fields`."""
    for field, value in fields(message):
        if isinstance(value, bytes):
            yield field, value
