"""XLA's HLO, as text or as a HloModuleProto, as a portable artifact of StableHLO.

jaxlib converts it, in a process of its own: its reader trusts its input, so a harmful file ends
that process, or takes all memory that the process may have.

Source: openxla/xla xla/service/hlo.proto; docs/hlo_to_stablehlo in openxla/stablehlo.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from trnsim.errors import BadInput
from trnsim.jax import wire

CONVERTER: Final = "trnsim.jax.stablehlo.hlo_conversion"
"""The module that the other process runs."""
TEXT_KIND, PROTO_KIND = "text", "proto"
_TEXT_START: Final = re.compile(rb"(?:\s|//[^\n]*+|/\*(?>.*?\*/))*+HloModule\s", re.DOTALL)
"""The first word of a text of HLO, after comments; in time linear in the length of any text."""
_HEAD_BYTES: Final = 1 << 16
_NAME, _ENTRY_NAME, _COMPUTATIONS = 1, 2, 3
"""Fields of a HloModuleProto. A HloProto has the module in its first field."""
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
        process = subprocess.run(  # noqa: S603  our own module
            [sys.executable, "-P", "-m", CONVERTER, kind],
            input=content,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"{path}: XLA read this HLO for {_TIMEOUT_S} s", fix=HLO_FIX) from error
    status = process.returncode
    if status == 0:
        return process.stdout
    stderr_lines = process.stderr.decode(errors="replace").strip().splitlines()
    if status == 1 and stderr_lines:
        message = " ".join(line.strip() for line in stderr_lines[-3:])[:500]
        raise BadInput(f"{path} is no program of HLO: {message}", fix=HLO_FIX)
    ending = f"signal {-status}" if status < 0 else f"status {status}"
    raise BadInput(
        f"{path}: XLA's reader ended on it ({ending}); the file is damaged, or names tensors that "
        "no memory holds",
        fix=HLO_FIX,
    )


def _module_in(content: bytes) -> bytes | None:
    """The HloModuleProto that the bytes are, or hold; None where there is none."""
    for _ in range(_MOST_WRAPS + 1):
        first_fields = _fields_of(content)
        if first_fields is None or _NAME not in first_fields:
            return None
        if _COMPUTATIONS in first_fields and _is_name(first_fields[_NAME]):
            return content
        content = first_fields[_NAME]
    return None


def _is_name(content: bytes) -> bool:
    """True if bytes are a module's name."""
    try:
        return len(content) < _NAME_MOST and content.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _fields_of(message: bytes) -> dict[int, bytes] | None:
    """The first bytes field of each number; None if `message` is not a message."""
    contents: dict[int, bytes] = {}
    try:
        for number, content in wire.bytes_fields(message):
            contents.setdefault(number, content)
    except ValueError:
        return None
    return contents
