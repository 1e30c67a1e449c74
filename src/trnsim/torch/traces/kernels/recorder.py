"""The stored form of a kernel, recorded in a run without values.

In such a run no instruction depends on a value: if the kernel's Python reads one, the run ends with
an error that names the line.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NoReturn

import torch

from trnsim.behaviours.chosen import VersionChoice
from trnsim.device.kernel_call import KernelCall
from trnsim.dtypes import Array, Dtype
from trnsim.errors import NotModelled, SourceLine, user_line
from trnsim.isa import Instruction, Scalar, VirtualRegister
from trnsim.isa.language.fields import converted_fields
from trnsim.memory import AccessPattern, CoreMemory, Memory, Storage, Tile, TileLayout
from trnsim.nki.boundary import Boundary
from trnsim.nki.kernel import Kernel, emulate
from trnsim.nki.precision import WideDtype
from trnsim.nki.tensor import NkiTensor
from trnsim.program import CoreContext, Team
from trnsim.runs import OBSERVERS, collecting
from trnsim.torch.traces.kernels.stored_kernel import (
    KernelResult,
    KernelTensor,
    StoredCore,
    StoredEdge,
    StoredInstruction,
    StoredKernel,
    StoredLine,
    StoredRegister,
    StoredTile,
    TensorPlace,
    is_storable,
)

_NO_FORM: Final = object()
"""The form of an operand that cannot be stored."""
_FIX: Final = "save the model's weights, and trace it where it runs: that takes seconds"


def record_kernel(call: KernelCall, chip: str) -> tuple[StoredKernel, list[int]]:
    """The stored form of a call's kernel; for each argument, its number among the call's tensors.

    Raises:
        NotModelled: for a kernel with an instruction that has no form.
        EmulatorError: where the chip or its compiler refuses the kernel.
    """
    tensors = [torch.empty(spec.shape, dtype=spec.dtype) for spec in call.specs]
    recorder = KernelRecorder(call.kernel, tensors)
    args, kwargs = call.arguments(tensors)
    with collecting(), OBSERVERS.paused():  # the user did not launch this run
        emulate(recorder, args, kwargs, target=chip, is_simulator=False, numerics=False)
    return recorder.kernel, recorder.arguments


class KernelRecorder:
    """A kernel that keeps its stored form as it is launched (`trnsim.runs.Launchable`).

    Attributes:
        records: None, as it is launched once and keeps no records of calls.
        may_spill: False if an exceeded SBUF or PSUM is an error.
        kernel: the stored form, once the kernel is launched.
        arguments: for each argument, its number among the tensors of the call.
    """

    kernel: StoredKernel
    arguments: list[int]

    def __init__(self, kernel: Kernel, tensors: Sequence[Any]) -> None:
        """A recorder of `kernel` as it is launched on arguments with `tensors` in them."""
        self._kernel = kernel
        self._tensors = tensors
        self.title = kernel.title
        self.cores = kernel.cores
        self.records = None
        self.may_spill = kernel.may_spill

    def version(self) -> VersionChoice:
        """The version of NKI whose rules it follows."""
        return self._kernel.version()

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions, and keep them."""
        kernel, lines = self._kernel, _Lines()
        numbers: dict[int, int] = {}
        cores = [_RecordedCore(kernel, core, lines, numbers) for core in team.contexts]
        team.contexts[:] = cores
        boundary = Boundary(cores[0])
        result = kernel.issue(team, boundary, args, kwargs)
        self.arguments = [n for n in boundary.positions(self._tensors) if n is not None]
        if len(self.arguments) < len(boundary.tensors):
            _refuse(self.title, "takes an object that holds tensors", kernel.line)
        result_tiles = list(_tensors_in(result))
        self.kernel = StoredKernel(
            title=self.title,
            version=self.version().version.name,
            may_spill=self.may_spill,
            line=lines.number(kernel.line),
            arguments=tuple(cores[0].tensors.arguments),
            cores=tuple(core.stored_core() for core in cores),
            results=tuple(KernelResult(cores[0].tile(tile), tile.buffer) for tile in result_tiles),
            lines=tuple(lines.stored_lines),
        )
        return boundary.leave(result)


class _Lines:
    """The lines of a kernel's program, each kept once."""

    def __init__(self) -> None:
        self.stored_lines: list[StoredLine] = []
        self._numbers: dict[SourceLine, int] = {}

    def number(self, line: SourceLine | None) -> int | None:
        """The index of a line."""
        if line is None:
            return None
        if line not in self._numbers:
            self._numbers[line] = len(self.stored_lines)
            self.stored_lines.append(StoredLine(*line))
        return self._numbers[line]


class _RecordedMemory(CoreMemory):
    """The memories of a core, with the stored form of each tensor.

    Attributes:
        arguments: the kernel's arguments.
        created_tensors: the tensors that the core created.
    """

    def __init__(self, core: CoreContext, lines: _Lines, argument_numbers: dict[int, int]) -> None:
        """The memories that replace the memories of `core`.

        `argument_numbers` maps the serial of an argument's storage to the argument's number. All
        cores share the dictionary.
        """
        shared_memory = core.peer.shared if core.peer is not None else None
        super().__init__(core.core, has_values=False, shared=shared_memory)
        self.arguments: list[KernelTensor] = []
        self.created_tensors: list[KernelTensor] = []
        self._lines = lines
        self._argument_numbers = argument_numbers
        self._numbers: dict[int, int] = {}

    def number(self, storage: Storage) -> int:
        """The number of a storage among the arguments and the tensors that the core created."""
        argument = self._argument_numbers.get(storage.serial)
        if argument is not None:
            return argument
        return len(self._argument_numbers) + self._numbers[storage.serial]

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: Dtype,
        memory: Memory,
        *,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> tuple[Storage, TileLayout]:
        """As `CoreMemory.allocate`."""
        storage, layout = super().allocate(shape, dtype, memory, name=name, address=address)
        self._keep(storage, TensorPlace(memory.value), shape, dtype, address)
        return storage, layout

    def allocate_shared(
        self, shape: tuple[int, ...], dtype: Dtype, *, name: str = ""
    ) -> tuple[Storage, TileLayout]:
        """As `CoreMemory.allocate_shared`."""
        storage, layout = super().allocate_shared(shape, dtype, name=name)
        if storage.serial in self._numbers:  # `allocate` has kept it: this core asks first
            self.created_tensors.pop()
        self._keep(storage, TensorPlace.shared_hbm, shape, dtype)
        return storage, layout

    def adopt(
        self, array: Array, name: str, dtype: Dtype, *, is_constant: bool = False
    ) -> tuple[Storage, AccessPattern]:
        """As `CoreMemory.adopt`."""
        storage, pattern = super().adopt(array, name, dtype, is_constant=is_constant)
        if is_constant:
            content = b64encode(array.tobytes()).decode()
            self._keep(storage, TensorPlace.constant, pattern.shape, dtype, content=content)
        else:
            self._argument_numbers[storage.serial] = len(self.arguments)
            form = self._form(storage, TensorPlace.argument, pattern.shape, dtype)
            self.arguments.append(form)
        return storage, pattern

    def _keep(self, storage: Storage, *parts: Any, **options: Any) -> None:
        """Keep a tensor that the core created."""
        self._numbers[storage.serial] = len(self.created_tensors)
        self.created_tensors.append(self._form(storage, *parts, **options))

    def _form(
        self,
        storage: Storage,
        place: TensorPlace,
        shape: tuple[int, ...],
        dtype: Dtype,
        address: tuple[int, int] | None = None,
        content: str = "",
    ) -> KernelTensor:
        lengths, line = tuple(map(int, shape)), self._lines.number(storage.line)
        return KernelTensor(place, lengths, dtype.name, storage.name, address, content, line)


class _RecordedCore(CoreContext):
    """A core that keeps the instructions that are issued to it.

    Attributes:
        tensors: its memories.
    """

    def __init__(
        self,
        kernel: Kernel,
        core: CoreContext,
        lines: _Lines,
        argument_numbers: dict[int, int],
    ) -> None:
        """A core in the place of `core`, without values."""
        super().__init__(core.core, has_values=False, peer=core.peer, loops=core.loops)
        self.memory = self.tensors = _RecordedMemory(core, lines, argument_numbers)
        self.instructions: list[StoredInstruction] = []
        self._kernel = kernel
        self._lines = lines

    def stored_core(self) -> StoredCore:
        """The instructions, tensors, blocks and edges that the core has issued."""
        edges = (
            StoredEdge(e.consumer, e.producer, e.waits, e.form, e.text, self._lines.number(e.line))
            for e in self.ordering.edges
        )
        blocks = tuple(self.ordering.blocks)
        return StoredCore(
            tuple(self.tensors.created_tensors), blocks, tuple(edges), tuple(self.instructions)
        )

    def issue(self, instruction: Instruction) -> None:
        """As `CoreContext.issue`."""
        line = user_line()
        operands = {**vars(instruction), **converted_fields(instruction)}
        forms = {
            name: _stored_register(value)
            if instruction.registers.get(name) == "write"
            else self._form(value)
            for name, value in operands.items()
        }
        if not is_storable(type(instruction)) or _NO_FORM in forms.values():
            _refuse(self._kernel.title, f"issues {instruction.opcode}, which has no form", line)
        super().issue(instruction)
        number = self._lines.number(line)
        self.instructions.append(StoredInstruction(instruction.opcode, forms, number))

    def tile(self, tile: Tile) -> StoredTile:
        """The form of a tile."""
        if isinstance(tile.dtype, WideDtype):
            _refuse(self._kernel.title, "is run under NKI_PRECISE_FP=0", self._kernel.line)
        shape, strides, offset = tile.pattern
        index: Any = tile.index
        if index is not None:
            index = replace(index, source=self._form(index.source))
        return StoredTile(
            self.tensors.number(tile.storage),
            tile.dtype.name,
            tuple(map(int, shape)),
            tuple(map(int, strides)),
            int(offset),
            index,
        )

    def _form(self, value: Any) -> Any:
        """The form of an operand."""
        if isinstance(value, Tile):
            return self.tile(value)
        if isinstance(value, VirtualRegister | Scalar):
            return self._register(value)
        if isinstance(value, tuple | list):
            forms = tuple(map(self._form, value))
            return _NO_FORM if _NO_FORM in forms else forms
        is_plain = value is None or isinstance(value, bool | int | float | str | Enum)
        return value if is_plain else _NO_FORM

    def _register(self, register: VirtualRegister | Scalar) -> StoredRegister:
        """The form of a register that is read."""
        first_serial = self.program.first_serial
        origins = tuple(place for serial, place in register.origins if serial == first_serial)
        try:
            value = register.value
        except NotModelled:  # it comes from memory
            value = None
        return _stored_register(register, value, origins)


def _stored_register(
    register: VirtualRegister | Scalar, value: int | None = None, origins: tuple[int, ...] = ()
) -> StoredRegister:
    if isinstance(register, Scalar):
        return StoredRegister(value, origins, register.dtype.name, register.is_comparison)
    return StoredRegister(value, origins, None, is_comparison=False)


def _tensors_in(result: Any) -> Iterator[NkiTensor]:
    """The tensors in a kernel's result, in the order of its leaves."""
    if isinstance(result, NkiTensor):
        yield result
    elif isinstance(result, tuple | list | dict):
        for item in result.values() if isinstance(result, dict) else result:
            yield from _tensors_in(item)


def _refuse(title: str, reason: str, line: SourceLine | None) -> NoReturn:
    raise NotModelled(
        f"a traced module that calls the NKI kernel {title} is not saved: the kernel {reason}",
        fix=_FIX,
        line=line,
    )
