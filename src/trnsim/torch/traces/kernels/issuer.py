"""A kernel from a file: it issues the stored instructions to the core on which it runs.

Each instruction is issued like an instruction of a user's kernel, so the chip's rules, memories and
times also hold for a file from elsewhere.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from types import FunctionType
from typing import Any, Final

import numpy as np

from trnsim.behaviours.chosen import VersionChoice
from trnsim.behaviours.version import VERSIONS
from trnsim.dtypes import BY_NAME
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.isa import Instruction, Scalar, VirtualRegister
from trnsim.memory import AccessPattern, Memory, Storage, Tile
from trnsim.nki.boundary import Boundary
from trnsim.nki.instruction import add_edge
from trnsim.nki.kernel import Kernel
from trnsim.nki.precision import widening_context
from trnsim.nki.tensor import NkiTensor
from trnsim.program import CoreContext, Team, current_core
from trnsim.program.edges import Edge
from trnsim.torch.traces.kernels.stored_kernel import (
    KernelTensor,
    StoredCore,
    StoredInstruction,
    StoredKernel,
    StoredRegister,
    StoredTile,
    TensorPlace,
)

_MEMORIES: Final = {
    TensorPlace.hbm: Memory.HBM,
    TensorPlace.sbuf: Memory.SBUF,
    TensorPlace.psum: Memory.PSUM,
}
_FIX: Final = "do not trust the file; or trace the model again"


class SavedKernel(Kernel):
    """A kernel that issues the instructions of its stored form, `StoredKernel`."""

    def __init__(self, stored_kernel: StoredKernel) -> None:
        self.stored_kernel = stored_kernel
        super().__init__(_KernelFunction(stored_kernel), {}, len(stored_kernel.cores))

    def version(self) -> VersionChoice:
        """The version of NKI that it followed when it was saved."""
        return VersionChoice(VERSIONS[self.stored_kernel.version], "its file", is_chosen=True)

    @property
    def line(self) -> SourceLine | None:
        """The line of the function's definition, where it was saved."""
        return _line(self.stored_kernel, self.stored_kernel.line)

    @property
    def may_spill(self) -> bool:
        """False if a kernel whose tensors exceed SBUF or PSUM is refused."""
        return self.stored_kernel.may_spill

    def issue(
        self, team: Team, boundary: Boundary, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> object:
        """Issue its instructions; NKI_PRECISE_FP=0 does not change the dtypes of the file."""
        with widening_context(is_on=False):
            return super().issue(team, boundary, args, kwargs)


class _KernelFunction:
    """The function of a saved kernel."""

    def __init__(self, stored_kernel: StoredKernel) -> None:
        self._stored_kernel = stored_kernel
        self.__name__ = stored_kernel.title

    def __call__(self, *tensors: NkiTensor) -> tuple[NkiTensor, ...]:
        """Issue the instructions to the current core; returns the kernel's results."""
        for number, (tensor, form) in enumerate(
            zip(tensors, self._stored_kernel.arguments, strict=False)
        ):
            if tensor.shape != form.shape or tensor.dtype.name != form.dtype:
                self._refuse(f"{tensor} as tensor {number}", f"{list(form.shape)} {form.dtype}")
        if len(tensors) != len(self._stored_kernel.arguments):
            self._refuse(f"{len(tensors)} tensors", str(len(self._stored_kernel.arguments)))
        core = current_core()
        rank = core.peer.rank if core.peer is not None and len(self._stored_kernel.cores) > 1 else 0
        issue = _Issue(self._stored_kernel, self._stored_kernel.cores[rank], core, tensors)
        issue.run()
        return issue.results() if rank == 0 else ()

    def _refuse(self, usage: str, legal: str) -> None:
        raise BadInput(
            f"the saved kernel {self.__name__} is given {usage}; legal: {legal}", fix=_FIX
        )


class _Issue:
    """The issue of a stored core's instructions to a running core."""

    def __init__(
        self,
        stored_kernel: StoredKernel,
        stored_core: StoredCore,
        core: CoreContext,
        arguments: Sequence[NkiTensor],
    ) -> None:
        self._stored_kernel = stored_kernel
        self._stored_core = stored_core
        self._core = core
        self._storages = [tensor.storage for tensor in arguments]
        self._registers: dict[int, VirtualRegister | Scalar] = {}
        """Number of an instruction -> the register that it fills."""

    def run(self) -> None:
        """Make the tensors, and issue the instructions."""
        stored_kernel, stored_core, core, end = (
            self._stored_kernel,
            self._stored_core,
            self._core,
            0,
        )
        for tensor in stored_core.tensors:
            call = _caller(stored_kernel.title, _line(stored_kernel, tensor.line))
            self._storages.append(call(self._allocate, tensor))
        for block_start, block_end in stored_core.blocks:
            self._issue(end, block_start)
            with core.in_order():
                self._issue(block_start, block_end)
            end = block_end
        self._issue(end, len(stored_core.instructions))
        for edge in stored_core.edges:
            line = _line(stored_kernel, edge.line)
            ends = edge.consumer, edge.producer
            add_edge(core, Edge(*ends, edge.waits, edge.form, line, edge.text), "its file")

    def results(self) -> tuple[NkiTensor, ...]:
        """The tensors that the kernel returns."""
        stored_kernel = self._stored_kernel
        return tuple(
            NkiTensor(tile.storage, tile.dtype, tile.pattern, result.region)
            for result in stored_kernel.results
            for tile in [self._tile(result.tile)]
        )

    def _allocate(self, tensor: KernelTensor) -> Storage:
        """The storage of a tensor that is no argument."""
        memory, dtype = self._core.memory, BY_NAME[tensor.dtype]
        if tensor.place is TensorPlace.constant:
            content = np.frombuffer(bytearray(b64decode(tensor.content)), dtype.dtype)
            array = content.reshape(tensor.shape)
            return memory.adopt(array, tensor.name, dtype, is_constant=True)[0]
        if tensor.place is TensorPlace.shared_hbm:
            return memory.allocate_shared(tensor.shape, dtype, name=tensor.name)[0]
        place = _MEMORIES[tensor.place]
        name, address = tensor.name, tensor.address
        return memory.allocate(tensor.shape, dtype, place, name=name, address=address)[0]

    def _issue(self, start: int, end: int) -> None:
        """Issue the instructions from `start` to `end` (exclusive)."""
        stored_kernel, core = self._stored_kernel, self._core
        for number in range(start, end):
            form = self._stored_core.instructions[number]
            line = _line(stored_kernel, form.line)
            try:
                _caller(stored_kernel.title, line)(self._issue_instruction, core, form, number)
            except EmulatorError:
                raise
            except _UNREADABLE as error:
                raise BadInput(
                    f"the saved kernel {stored_kernel.title} has instruction {number}, "
                    f"{form.opcode}, which its class cannot read: {error}",
                    fix=_FIX,
                    line=line,
                ) from error

    def _issue_instruction(self, core: CoreContext, form: StoredInstruction, number: int) -> None:
        instruction_class, operands = Instruction.registry[form.opcode], dict[str, Any]()
        for name, value in form.operands.items():
            if instruction_class.registers.get(name) == "write":
                operands[name] = self._registers[number] = _empty_register(value)
            else:
                operands[name] = self._operand(value)
        instruction = instruction_class(**operands)
        if not core.issue_next(instruction):
            core.issue(instruction)

    def _operand(self, form: Any) -> Any:
        """An operand: a tile on the storages of this issue, a register, or a plain value."""
        if isinstance(form, StoredTile):
            return self._tile(form)
        if isinstance(form, StoredRegister):
            return self._register(form)
        if isinstance(form, tuple):
            return tuple(map(self._operand, form))
        return form

    def _tile(self, form: StoredTile) -> Tile:
        pattern = AccessPattern(form.shape, form.strides_bytes, form.offset_bytes)
        index = form.index
        if index is not None:
            index = replace(index, source=self._operand(index.source))
        return Tile(self._storages[form.tensor], BY_NAME[form.dtype], pattern, index)

    def _register(self, form: StoredRegister) -> VirtualRegister | Scalar:
        """A register that an instruction reads."""
        if form.value is None:  # an earlier instruction loaded it from memory
            return self._registers[form.origins[-1]]
        register = _empty_register(form)
        register.put(form.value)
        register.origins = tuple(
            chain.from_iterable(self._registers[origin].origins for origin in form.origins)
        )
        return register


def _empty_register(form: StoredRegister) -> VirtualRegister | Scalar:
    if form.dtype is None:
        return VirtualRegister()
    return Scalar(BY_NAME[form.dtype], is_comparison=form.is_comparison)


_UNREADABLE: Final = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError),
)
"""Errors of Python and numpy for operands that no function of `nki.isa` makes."""


def _line(stored_kernel: StoredKernel, line: int | None) -> SourceLine | None:
    if line is None:
        return None
    return SourceLine(stored_kernel.lines[line].file, stored_kernel.lines[line].line)


def _call(function: Callable[..., Any], *operands: Any) -> Any:
    return function(*operands)


@cache
def _caller(title: str, line: SourceLine | None) -> Callable[..., Any]:
    """A function that calls its first argument in a stack frame at `line` of the kernel's file.

    Errors, reports and the records of calls read the kernel's line from the stack.
    """
    if line is None:
        return _call
    code = (lambda function, *operands: _call(function, *operands)).__code__  # noqa: PLW0108  # pyright: ignore[reportUnknownLambdaType]  a frame
    code_at_line = code.replace(co_filename=line.file, co_firstlineno=line.line, co_name=title)
    return FunctionType(code_at_line, globals())
