"""`torch_neuronx.pyhlo.hlo_pb2`: a traced program in the place of a module of HLO.

neuronx-distributed passes the module from tracing to the compiler, and searches its computations
for kernels: here the only computation has no instructions.

Source: neuronx-distributed trace/functions.py and trace/hlo_utils.py, which use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from trnsim.arch import target as chip_named
from trnsim.compiler import Flags
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.trace import compile_stored


class HloModuleProto:
    """A traced program.

    Attributes:
        computations: one computation, which shows no instructions.
        frontend_attributes: marks of the caller, which change nothing.
    """

    def __init__(self, content: bytes = b"") -> None:
        self._content = content
        self.entry_computation_id = 0
        self.computations: list[Any] = [SimpleNamespace(id=0, name="main", instructions=[])]
        self.frontend_attributes = SimpleNamespace(map=dict[str, str]())

    def __str__(self) -> str:
        """Its digest, by which neuronx-distributed finds its program in the compiler's cache."""
        return hashlib.sha256(self._content).hexdigest()

    def SerializeToString(self) -> bytes:  # noqa: N802  a protobuf's name
        """The program as stored."""
        return self._content

    def ParseFromString(self, content: bytes) -> None:  # noqa: N802  a protobuf's name
        """Take a stored program.

        Raises:
            BadInput: for bytes that no trace wrote.
        """
        StoredProgram.from_bytes(content)
        self._content = bytes(content)


def compile_content(content: bytes, flags: Sequence[str], chip: str) -> tuple[str, bytes]:
    """The report of `trnsim compile` on a stored program, and the program with its figures.

    Raises:
        BadInput: for bytes that no trace wrote, or flags that are not legal.
    """
    compiler_flags = Flags.parse(list(flags), "compiler_flags")
    program, report = compile_stored(
        StoredProgram.from_bytes(content), compiler_flags, chip_named(chip).name
    )
    return f"{report.long_text()}\n", program.to_bytes()
