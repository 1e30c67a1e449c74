"""XLA's HLO, as text or as a HloModuleProto, as a portable artifact of StableHLO.

jaxlib converts it, in a process of its own: its reader trusts what it reads, and a harmful file
ends that process, or takes all memory that the process may have.

Source: openxla/xla xla/service/hlo.proto; docs/hlo_to_stablehlo in openxla/stablehlo.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from trnsim.errors import BadInput

CONVERTER: Final = "trnsim.jax.stablehlo.hlo_conversion"
"""The module that the other process runs."""
TEXT_KIND, PROTO_KIND = "text", "proto"
_TEXT_START: Final = re.compile(rb"(?:\s|//[^\n]*+|/\*(?>.*?\*/))*+HloModule\s", re.DOTALL)
"""The first word of a text of HLO, behind comments; in time linear in the length of any text."""
_HEAD_BYTES: Final = 1 << 16
_NAME, _ENTRY_NAME, _COMPUTATIONS = 1, 2, 3
"""Fields of a HloModuleProto. A HloProto has the module in its first field."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_MOST: Final = 10
_MOST_WRAPS: Final = 2
"""A HloSnapshot holds a HloProto, which holds a module."""
_TIMEOUT_S: Final = 600
_NAME_MOST: Final = 10_000
HLO_FIX: Final = (
    "save jax.jit(f).lower(*args).compiler_ir('hlo').as_serialized_hlo_module_proto(), "
    "or its as_hlo_text()"
)


def kind_of_hlo(content: bytes) -> str:
    """TEXT_KIND, PROTO_KIND, or "" for bytes that are no HLO."""
    if _TEXT_START.match(content[:_HEAD_BYTES]):
        return TEXT_KIND
    return PROTO_KIND if _module_in(content) is not None else ""


def stablehlo_of_hlo(content: bytes, path: str) -> bytes:
    """The portable artifact of a program of HLO.

    Raises:
        BadInput: XLA does not read it, or ends while it does.
    """
    kind = kind_of_hlo(content)
    if kind == PROTO_KIND:
        content = _module_in(content) or content
    try:
        done = subprocess.run(  # noqa: S603  our own module
            [sys.executable, "-P", "-m", CONVERTER, kind],
            input=content,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"{path}: XLA read this HLO for {_TIMEOUT_S} s", fix=HLO_FIX) from error
    if done.returncode == 0:
        return done.stdout
    stderr_lines = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode == 1 and stderr_lines:
        raise BadInput(f"{path} is no program of HLO: {_shown(stderr_lines)}", fix=HLO_FIX)
    raise BadInput(
        f"{path}: XLA's reader ended on it ({_ending(done.returncode)}); the file is damaged, or "
        "names tensors that no memory holds",
        fix=HLO_FIX,
    )


def _shown(lines: list[str]) -> str:
    """The lines of an error, without a trace of Python."""
    return " ".join(line.strip() for line in lines[-3:])[:500]


def _ending(status: int) -> str:
    """The ending of a process in words."""
    return f"signal {-status}" if status < 0 else f"status {status}"


def _module_in(content: bytes) -> bytes | None:
    """The HloModuleProto that the bytes are, or hold; None where there is none."""
    for _ in range(_MOST_WRAPS + 1):
        first = _fields_of(content)
        if first is None or _NAME not in first:
            return None
        if _COMPUTATIONS in first and _is_name(first[_NAME]):
            return content
        content = first[_NAME]
    return None


def _is_name(content: bytes) -> bool:
    """True if bytes are a module's name."""
    try:
        return len(content) < _NAME_MOST and content.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _fields_of(message: bytes) -> dict[int, bytes] | None:
    """The first field of bytes of each number; None if the bytes are no message."""
    found: dict[int, bytes] = {}
    try:
        for number, value in _fields(message):
            found.setdefault(number, value)
    except (ValueError, IndexError):
        return None
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of bytes in a message.

    Raises:
        ValueError: for what is no field, or is longer than the message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            _, at = _varint(message, at)
            continue
        size = _FIXED_SIZES.get(wire_type)
        if wire_type == _BYTES:
            size, at = _varint(message, at)
        if size is None or not number or at + size > len(message):
            raise ValueError(f"no field at byte {at}")
        if wire_type == _BYTES:
            yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, and the byte behind it."""
    value = 0
    for index in range(_VARINT_MOST):
        byte = message[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 1 << 7:
            return value, at + index + 1
    raise ValueError(f"no number at byte {at}")
