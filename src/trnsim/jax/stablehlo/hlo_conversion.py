"""The process that reads HLO on stdin and writes StableHLO on stdout: `hlo.stablehlo_of_hlo`."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from trnsim.jax.stablehlo.hlo import TEXT_KIND

_ADDRESS_BYTES: Final = 16 << 30
"""Address space beside that for the file: XLA's libraries reserve much and use little."""
_BYTES_PER_BYTE: Final = 64


def convert(kind: str, content: bytes) -> bytes:
    """The portable artifact of a program of HLO.

    Raises:
        Exception: jaxlib's own error, for content that it does not read.
    """
    xla: Any = vars(import_module("jaxlib.xla_client"))["_xla"]
    if kind == TEXT_KIND:
        from_text = getattr(xla, "hlo_module_from_text", None)
        if from_text is None:  # since jaxlib 0.9
            from_text = vars(import_module("jaxlib._hlo"))["hlo_module_from_text"]
        content = from_text(content.decode()).as_serialized_hlo_module_proto()
    return bytes(xla.mlir.hlo_to_stablehlo(content))


def main() -> None:
    """Convert, or print the reason of a failure on stderr and exit with status 1."""
    content = sys.stdin.buffer.read()
    _limit_memory(_ADDRESS_BYTES + _BYTES_PER_BYTE * len(content))
    try:
        bytecode = convert(sys.argv[1], content)
    except Exception as error:  # noqa: BLE001  XLA raises its own kinds
        sys.stderr.write(f"{str(error) or type(error).__name__}\n")
        raise SystemExit(1) from None
    sys.stdout.buffer.write(bytecode)


def _limit_memory(nbytes: int) -> None:
    """Limit the memory of this process, where the system has such a limit."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  not on Windows

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = nbytes if hard == resource.RLIM_INFINITY else min(nbytes, hard)
    with suppress(ValueError, OSError):  # macOS has the limit by name alone
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
