"""The part of the protocol buffers wire format that traces use: a message is its fields, joined.

Source: protobuf.dev, Encoding: a field is a key (number * 8 + wire type) and a value.
"""

from __future__ import annotations

import struct
from typing import Final

_VARINT_WIRE_TYPE: Final = 0
_FIXED64_WIRE_TYPE: Final = 1
_BYTES_WIRE_TYPE: Final = 2
_SEVEN_BITS: Final = 0x7F
_MORE_FOLLOWS_BIT: Final = 0x80
_WORD_VALUES: Final = 1 << 64


def varint(value: int) -> bytes:
    """An integer in groups of seven bits, lowest first; a negative one as 64 bits."""
    value %= _WORD_VALUES
    content = bytearray()
    while value > _SEVEN_BITS:
        content.append(value & _SEVEN_BITS | _MORE_FOLLOWS_BIT)
        value >>= 7
    content.append(value)
    return bytes(content)


def number(field: int, value: int) -> bytes:
    """A field that holds an int, a bool or an enum."""
    return varint(field << 3 | _VARINT_WIRE_TYPE) + varint(value)


def double(field: int, value: float) -> bytes:
    """A field that holds a double."""
    return varint(field << 3 | _FIXED64_WIRE_TYPE) + struct.pack("<d", value)


def fixed64(field: int, value: int) -> bytes:
    """A field that holds a fixed64."""
    return varint(field << 3 | _FIXED64_WIRE_TYPE) + struct.pack("<Q", value)


def length_delimited(field: int, *parts: bytes) -> bytes:
    """A field that holds a message whose fields are `parts`, or bytes."""
    payload = b"".join(parts)
    return varint(field << 3 | _BYTES_WIRE_TYPE) + varint(len(payload)) + payload


def text(field: int, value: str) -> bytes:
    """A field that holds a string; surrogates, which names of files may have, are escaped."""
    return length_delimited(field, value.encode(errors="backslashreplace"))
