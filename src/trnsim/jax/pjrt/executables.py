"""Executables: programs that JAX has compiled, and their properties."""

from __future__ import annotations

import ctypes
import time
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnsim.errors import BadInput
from trnsim.jax import private, wire
from trnsim.jax.execution import DeviceProgram
from trnsim.jax.memory_kinds import HBM
from trnsim.jax.pjrt.devices import local_devices
from trnsim.jax.pjrt.element_types import hbm_bytes, type_of
from trnsim.jax.pjrt.handles import Handle, Numbers, Text, Texts, pointers, string_at
from trnsim.jax.pjrt.named_values import NamedValues
from trnsim.jax.pjrt.structs import fill_struct, struct
from trnsim.jax.pjrt.table import (
    address_slot,
    extension,
    noop_address,
    quick_number,
    slot,
    value_slot,
)

if TYPE_CHECKING:
    from trnsim.jax.pjrt.calls import PlainCall

_program_numbers: Final = count()


class PjrtExecutable(Handle):
    """A loaded program; the properties that JAX reads live in memory as long as it does.

    It is the handle of a program and the handle of a loaded program, which PJRT distinguishes.
    """

    def __init__(self, program: DeviceProgram) -> None:
        super().__init__()
        self.program = program
        self.name = Text(program.name)
        self.identity = f"trnsim-{next(_program_numbers)}".encode()
        self.fingerprint = Text(self.identity)
        self.creation_s = time.monotonic()
        self.is_deleted = False
        self.output_count = len(program.results)
        self.plain_calls: dict[int, PlainCall | None] = {}
        self.devices = pointers([local_devices[core].address for core in program.cores])
        self.output_bytes = sum(
            hbm_bytes(result.shape, result.dtype)
            for result, kind in zip(program.results, program.result_kinds, strict=True)
            if kind == HBM
        )

    @cached_property
    def output_types(self) -> Numbers:
        """The element type of each output."""
        return Numbers(ctypes.c_int32, [type_of(result.dtype) for result in self.program.results])

    @cached_property
    def output_dims(self) -> tuple[Numbers, Numbers]:
        """The lengths of all outputs' dimensions in a row, and the rank of each output."""
        shapes = [result.shape for result in self.program.results]
        sides = Numbers(ctypes.c_int64, [side for shape in shapes for side in shape])
        return sides, Numbers(ctypes.c_size_t, [len(shape) for shape in shapes])

    @cached_property
    def output_kinds(self) -> Texts:
        """The memory of each output."""
        return Texts(self.program.result_kinds)

    @cached_property
    def parameter_kinds(self) -> Texts:
        """The memory of each argument."""
        return Texts(self.program.argument_kinds)

    @cached_property
    def shardings(self) -> dict[str, Texts | None]:
        """Shardings of arguments and results; None where there is one device or no argument."""
        loaded_program = self.program.loaded
        shardings = {
            "parameters": loaded_program.get_parameter_shardings(),
            "outputs": loaded_program.get_output_shardings()
            if self.program.results
            else [private.no_results_sharding()],
        }
        is_split = len(self.program.numbers) > 1
        return {
            name: Texts([sharding.SerializeToString() for sharding in protos])
            if protos and is_split
            else None
            for name, protos in shardings.items()
        }

    @cached_property
    def cost(self) -> NamedValues:
        """XLA's own count of operations and bytes."""
        return NamedValues(self.program.loaded.cost_analysis())

    @cached_property
    def optimized_hlo(self) -> tuple[Text, Text]:
        """The program as HLO, and the name of its format."""
        return Text(wire.hlo_with_config(self.program.hlo)), Text("hlo_with_config")

    @cached_property
    def logical_ids(self) -> Any:
        """Replica and partition of each device of this process."""
        ids_type = struct("LogicalDeviceIds") * len(self.program.cores)
        return ids_type(*[divmod(at, self.program.partitions) for at in self.program.positions])

    @cached_property
    def assignment(self) -> Text:
        """Its devices, as XLA writes them."""
        program = self.program
        shape = program.replicas, program.partitions
        return Text(wire.assignment_message(np.array(program.numbers, np.int32).reshape(shape)))

    @cached_property
    def serialized(self) -> Text:
        """The program as JAX sent it: lengths, options, module."""
        options, code = self.program.options, self.program.code
        return Text(_SERIALIZED_PREFIX + len(options).to_bytes(8, "little") + options + code)


_SERIALIZED_PREFIX: Final = b"trnsim-jax-1\n"
"""The first bytes of a serialized program."""


executables: Final[dict[int, PjrtExecutable]] = {}
"""Executables by their handles."""

_EXECUTABLES_BETWEEN_SWEEPS: Final = 64
_YOUNG_S: Final = 60.0
"""Time after compiling within which JAX may not yet list an executable."""


def new_executable(program: DeviceProgram) -> int:
    """The handle of a program."""
    executable = PjrtExecutable(program)
    executables[executable.address] = executable
    if len(executables) % _EXECUTABLES_BETWEEN_SWEEPS == 0:
        sweep_executables(time.monotonic() - _YOUNG_S)
    return executable.address


def sweep_executables(latest_creation_s: float) -> None:
    """Free executables that JAX no longer lists and that were made before a monotonic time."""
    client = private.client()
    live_fingerprints = (
        {exe.fingerprint for exe in client.live_executables()} if client is not None else set()
    )
    for address, executable in list(executables.items()):
        if (
            executable.creation_s < latest_creation_s
            and executable.identity not in live_fingerprints
        ):
            executables.pop(address, None)


def executable_of(args: Any) -> PjrtExecutable:
    """The executable of a call.

    Raises:
        BadInput: if it is gone.
    """
    executable = executables.get(args.executable)
    if executable is None:
        raise BadInput("an executable of a client that is gone")
    return executable


@slot("Client_Compile")
def _compile(args: Any) -> None:
    program = struct("Program").from_address(args.program)
    form = string_at(program.format, program.format_size)
    if form != b"mlir":
        raise BadInput(f"a program of format {form.decode()!r}; legal: 'mlir'")
    code = string_at(program.code, program.code_size)
    options = string_at(args.compile_options, args.compile_options_size)
    args.executable = new_executable(DeviceProgram(code, options))


@slot("Executable_DeserializeAndLoad")
def _deserialize(args: Any) -> None:
    serialized = string_at(args.serialized_executable, args.serialized_executable_size)
    start = len(_SERIALIZED_PREFIX) + 8
    if not serialized.startswith(_SERIALIZED_PREFIX) or len(serialized) < start:
        raise BadInput("this is no executable that the neuron device wrote")
    size = int.from_bytes(serialized[len(_SERIALIZED_PREFIX) : start], "little")
    options, code = serialized[start : start + size], serialized[start + size :]
    args.loaded_executable = new_executable(DeviceProgram(code, options))


@slot("Executable_Serialize")
def _serialize(args: Any) -> None:
    serialized = executable_of(args).serialized
    args.serialized_bytes, args.serialized_bytes_size = serialized.address, serialized.size
    args.serialized_executable = args.executable
    args.serialized_executable_deleter = noop_address()


for _slot, _field, _number in (
    ("Executable_NumReplicas", "num_replicas", "program.replicas"),
    ("Executable_NumPartitions", "num_partitions", "program.partitions"),
    ("Executable_NumOutputs", "num_outputs", "output_count"),
):
    value_slot(_slot, _field, executable_of, _number)
    quick_number(_slot, executables, "executable", _field, _number)

value_slot("LoadedExecutable_GetExecutable", "executable", lambda args: args, "loaded_executable")
value_slot("LoadedExecutable_IsDeleted", "is_deleted", executable_of, "is_deleted")
for _slot, _field, _attribute in (
    ("Executable_Name", "executable_name", "name"),
    ("Executable_Fingerprint", "executable_fingerprint", "fingerprint"),
    ("LoadedExecutable_Fingerprint", "executable_fingerprint", "fingerprint"),
    ("Executable_GetCostAnalysis", "properties", "cost"),
    ("Executable_OutputElementTypes", "output_types", "output_types"),
    ("LoadedExecutable_AddressableDevices", "addressable_devices", "devices"),
):
    address_slot(_slot, _field, executable_of, _attribute)


@slot("Executable_SizeOfGeneratedCodeInBytes")
def _code_size(args: Any) -> None:
    args.size_in_bytes = executable_of(args).program.loaded.size_of_generated_code_in_bytes()


@slot("Executable_GetCompiledMemoryStats")
def _memory_stats(args: Any) -> None:
    stats = executable_of(args).program.loaded.get_compiled_memory_stats()
    names = [name for name, _ in type(args)._fields_[3:] if hasattr(stats, name)]
    fill_struct(args, **{name: getattr(stats, name) for name in names})


@slot("Executable_OutputDimensions")
def _output_dims(args: Any) -> None:
    sides, ranks = executable_of(args).output_dims
    args.num_outputs, args.dims, args.dim_sizes = ranks.size, sides.address, ranks.address


@slot("Executable_OutputMemoryKinds")
def _output_kinds(args: Any) -> None:
    kinds = executable_of(args).output_kinds
    args.num_outputs = kinds.addresses.size
    args.memory_kinds, args.memory_kind_sizes = kinds.addresses.address, kinds.sizes.address


@slot("Executable_ParameterMemoryKinds")
def _parameter_kinds(args: Any) -> None:
    kinds = executable_of(args).parameter_kinds
    args.num_parameters = kinds.addresses.size
    args.memory_kinds, args.memory_kind_sizes = kinds.addresses.address, kinds.sizes.address


@slot("Executable_OptimizedProgram")
def _optimized_program(args: Any) -> None:
    code, form = executable_of(args).optimized_hlo
    program = struct("Program").from_address(args.program)
    program.code_size, program.format_size = code.size, form.size
    if program.code:
        ctypes.memmove(program.code, code.address, code.size)
    program.format = form.address


@slot("LoadedExecutable_AddressableDeviceLogicalIds")
def _logical_ids(args: Any) -> None:
    ids = executable_of(args).logical_ids
    args.addressable_device_logical_ids = ctypes.addressof(ids)
    args.num_addressable_device_logical_ids = len(ids)


@slot("LoadedExecutable_GetDeviceAssignment")
def _assignment(args: Any) -> None:
    assignment = executable_of(args).assignment
    args.serialized_bytes, args.serialized_bytes_size = assignment.address, assignment.size
    args.serialized_device_assignment = args.executable
    args.serialized_device_assignment_deleter = noop_address()


@slot("LoadedExecutable_Delete")
def _delete(args: Any) -> None:
    executable_of(args).is_deleted = True


@slot("Shardings_PJRT_Executable_ParameterShardings")
def _parameter_shardings(args: Any) -> None:
    args.num_parameters = len(executable_of(args).program.arguments)
    _write_shardings(args, executable_of(args).shardings["parameters"])


@slot("Shardings_PJRT_Executable_OutputShardings")
def _output_shardings(args: Any) -> None:
    shardings = executable_of(args).shardings["outputs"]
    args.num_outputs = shardings.addresses.size if shardings else 0
    _write_shardings(args, shardings)


def _write_shardings(args: Any, shardings: Texts | None) -> None:
    """Write serialized shardings; NULL says that there are none."""
    args.shardings = shardings.addresses.address if shardings else None
    args.sharding_sizes = shardings.sizes.address if shardings else None


extension("Shardings")
