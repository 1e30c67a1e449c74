"""Programs of JAX: compiled when JAX compiles, run when it calls.

In `fast` numerics XLA's CPU client computes the very module that JAX sent, rounding each operation
to its dtype (no excess precision), and partitions it over the devices. In `exact` the chip's
programs, one per device, compute it if they can; in `shapes` results are zeros. A call is recorded
as its graph, which has a time (`trnsim.jax.lowered`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np

from trnsim.device.fallback_policy import state
from trnsim.device.numerics import mode
from trnsim.device.program_cache import keeps_programs
from trnsim.errors import BadInput
from trnsim.jax import private, rounding
from trnsim.jax.host_client import HostArray, as_numpy, host
from trnsim.jax.host_kernels import HostKernels
from trnsim.jax.lowered import Arrays, ArraySpec, LoweredProgram
from trnsim.jax.memory_kinds import forget_kinds, is_placed, kinds_of
from trnsim.jax.partitioning import Override, device_program
from trnsim.jax.snapshots import ask_snapshot, callbacks

_NO_EXCESS_PRECISION: Final = ("xla_allow_excess_precision", "False")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The shape and dtype of an argument or result on each device; a token has no dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None


class PlainRun(NamedTuple):
    """The shortest way to run a program: ``execute(operands).consume_with_handlers(handlers)``.

    Attributes:
        execute: the private client's function of the operands on a device.
        handlers: the makers of the arrays of its results there.
    """

    execute: Callable[[list[HostArray]], Any]
    handlers: list[Any]


class DeviceProgram:
    """A program for the devices that it was compiled for, or for any one device.

    Attributes:
        code: the module as JAX sent it.
        options: the compile options as JAX sent them.
        replicas: number of copies that run, each with data of its own.
        partitions: number of devices over which each copy is split.
        numbers: the numbers of its devices among the devices of all processes, by replica.
        positions: the indices in `numbers` of this process's devices.
        cores: the indices of these devices among the devices of this process.
        is_portable: True if the caller names the device at each call.
        donors: the indices of the arguments whose memory it may take.
        arguments: the types of each device's arguments.
        results: the types of each device's results.
        argument_kinds: the memory of each argument.
        result_kinds: the memory of each result.
    """

    def __init__(self, code: bytes, options: bytes) -> None:
        self.code = code
        self.options = options
        module = private.module_of(code)
        self.name = private.name_of(module)
        self.donors = private.donors(module)
        compile_options = private.options_of(options)
        self.is_portable = bool(compile_options.compile_portable_executable)
        assignment = self._assignment(compile_options)
        self.replicas, self.partitions = assignment.shape
        self.numbers = [int(number) for number in assignment.ravel()]
        local_numbers = range(host().first, host().first + len(host().local))
        self.positions = [
            position for position, number in enumerate(self.numbers) if number in local_numbers
        ]
        self.cores = [self.numbers[position] - host().first for position in self.positions]
        self._kernels = HostKernels(code)
        self._loaded = {tuple(self.cores): self._load(module, assignment)}
        split = self._split_module if self.partitions > 1 else None
        devices = self.replicas * self.partitions
        self.lowered = LoweredProgram(self.name, self._module, split, self._specs, devices)
        types = private.program_shape(self.loaded.hlo_modules()[0])
        self.arguments, self.results = ([ArrayType(*spec) for spec in specs] for specs in types)
        counts = len(self.arguments), len(self.results)
        self.argument_kinds, self.result_kinds = kinds_of(module, *counts)
        if len(self.cores) < len(self.numbers):
            self.lowered.host_reason = "its devices are of several processes"
        if keeps_programs():
            self.lowered.keep()
        if state.policy == "chip":
            self.lowered.imported()  # refused by name, with the program's line

    def _assignment(self, options: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The device of each replica and partition.

        Raises:
            BadInput: for devices that this process does not have.
        """
        assignment = private.assignment_in(options)
        if assignment is None:
            shape = options.num_replicas, options.num_partitions
            count = shape[0] * shape[1]
            first = host().first if count <= len(host().local) else 0
            assignment = np.arange(first, first + count, dtype=np.int32).reshape(shape)
        if int(assignment.max()) >= len(host().devices):
            raise BadInput(
                f"a program for {assignment.size} devices, of {len(host().devices)} that there are",
                fix="set NEURON_RT_NUM_CORES before the program starts",
            )
        return assignment

    def _load(
        self,
        module: Any,
        assignment: np.ndarray[Any, np.dtype[np.int32]],
        overrides: Sequence[Override] = (),
    ) -> Any:
        """A program of the private client, compiled for an assignment of devices."""
        options = private.options_of(self.options)
        options.compile_portable_executable = False
        devices = [host().devices[number] for number in assignment.ravel()]
        ids = np.array([device.id for device in devices], np.int32)
        private.set_assignment(options, ids.reshape(assignment.shape))
        options.env_option_overrides = [
            *options.env_option_overrides,
            _NO_EXCESS_PRECISION,
            *overrides,
        ]
        if is_placed(self.code):
            module = self._module()  # a copy, as the caller's module keeps its memory kinds
            forget_kinds(module)
        callbacks = self._kernels.callbacks(module)
        return private.load(host().client, module, devices, options, callbacks)

    def _loaded_for(self, cores: Sequence[int]) -> Any:
        """The private client's program for these devices."""
        key = tuple(cores)
        loaded = self._loaded.get(key)
        if loaded is None:
            module = private.module_of(self.code)
            assignment = np.array([key], np.int32) + host().first
            loaded = self._loaded[key] = self._load(module, assignment)
        return loaded

    def _module(self) -> Any:
        return private.module_of(self.code)

    def _split_module(self) -> Any:
        """The module of each device, of a program that XLA splits."""
        return private.module_of(self._split_code)

    @cached_property
    def _split_code(self) -> bytes:
        assignment = np.array(self.numbers, np.int32).reshape(self.replicas, self.partitions)
        return device_program(partial(self._load, self._module(), assignment))

    def _specs(self) -> list[ArraySpec]:
        return [ArraySpec(type_.shape, type_.dtype) for type_ in self.arguments]

    @property
    def loaded(self) -> Any:
        """The private client's program for `cores`."""
        return self._loaded[tuple(self.cores)]

    @property
    def hlo(self) -> bytes:
        """The module of HLO that XLA's client runs.

        A module of one device with kernels is the module before optimization, whose kernels are
        AWS's custom calls.
        """
        if self._kernels.has_kernels and len(self.numbers) == 1:
            return private.hlo_of(self._module())
        serialized: bytes = self.loaded.hlo_modules()[0].as_serialized_hlo_module_proto()
        return serialized

    def run(self, cores: Sequence[int], arguments: list[list[HostArray]]) -> list[list[HostArray]]:
        """The results on each device, of the arguments on each device.

        In `fast` it returns while the computation goes on, and the results raise its errors. For a
        program with kernels it waits, and raises their errors.
        """
        for arrays in arguments:
            self._check_donated(arrays)
        if len(self.numbers) > 1:
            self.lowered.note(cores, self.positions, self.numbers)
        else:
            self.lowered.note(cores, [0], [host().first + cores[0]])
        values = self._emulated_results(arguments, cores)
        if values is None:
            results = self._host_results(cores, arguments)
        else:
            pairs = zip(values, cores, strict=True)
            results = [[host().put(array, core) for array in arrays] for arrays, core in pairs]
        for arrays in arguments:
            for number in self.donors:
                arrays[number].delete()  # XLA keeps an array that NumPy has read
        return results

    def _check_donated(self, arrays: list[HostArray]) -> None:
        """Check that no donated array is also another argument.

        Raises:
            BadInput: a donated array is passed twice.
        """
        for number in self.donors:
            positions = [
                position for position, array in enumerate(arrays) if array is arrays[number]
            ]
            if len(positions) > 1:
                positions_text = " and ".join(map(str, positions))
                raise BadInput(
                    f"{self.name} of one array as arguments {positions_text}, of which {number} "
                    "is donated; "
                    "legal: a donated array is one argument",
                    fix="donate a copy, or leave the argument out of donate_argnums",
                )

    def _host_results(
        self, cores: Sequence[int], arguments: list[list[HostArray]]
    ) -> list[list[HostArray]]:
        """The results that XLA computes, on each device."""
        if callbacks:
            for core in cores:
                ask_snapshot(self.name, core)
        loaded = self._loaded_for(cores)
        if len(self.numbers) == 1:
            operands = arguments[0]
        else:
            operands = [host().join(row, self.numbers) for row in zip(*arguments, strict=True)]
        result_rows = self._kernels.run(lambda: _execute(loaded, operands))
        return [list(results) for results in zip(*result_rows, strict=True)] or [[] for _ in cores]

    def plain_run(self, core: int) -> PlainRun | None:
        """The shortest run on a core in `fast`, with the same values; None if it is not possible.

        A program on several devices, with kernels, callbacks or tokens, or without arguments or
        results has no such run.
        """
        dtypes = [type_.dtype for type_ in self.results]
        has_arrays = bool(self.arguments and dtypes) and None not in dtypes
        if len(self.numbers) > 1 or self._kernels.has_kernels or not has_arrays:
            return None
        handlers = [
            host().result_handler(type_.shape, dtype, core)
            for type_, dtype in zip(self.results, dtypes, strict=True)
            if dtype is not None
        ]
        return PlainRun(self._loaded_for([core]).execute_sharded, handlers)

    def _emulated_results(
        self, inputs: list[list[HostArray]], cores: Sequence[int]
    ) -> list[Arrays] | None:
        """The results that XLA does not compute: in `exact`, in `shapes`, and rounded at random.

        None where XLA computes them.
        """
        if mode.kind == "fast":
            rounds_at_random = mode.is_stochastic and self._has_narrow_floats
            return [self._rounded_results(inputs, cores)] if rounds_at_random else None
        if mode.kind == "shapes":
            return [[np.zeros(type_.shape, type_.dtype) for type_ in self.results] for _ in inputs]
        values = self.lowered.values([[as_numpy(array) for array in arrays] for arrays in inputs])
        return None if values is None else [self._as_results(arrays) for arrays in values]

    @cached_property
    def _has_narrow_floats(self) -> bool:
        return rounding.has_narrow_floats(self._module())

    def _rounded_results(
        self, arguments: list[list[HostArray]], cores: Sequence[int]
    ) -> list[np.ndarray[Any, Any]]:
        """Results of the program as it computes them with stochastic rounding.

        Raises:
            NotModelled: for a program of several devices, or without a graph.
        """
        if len(self.numbers) > 1:
            raise rounding.refusal(self.name, "it runs on several devices")
        operands = [as_numpy(array) for array in arguments[0]]
        return self._as_results(rounding.rounded_results(self.lowered, operands, cores[0]))

    def _as_results(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Arrays of a graph in the shapes and dtypes of the results."""
        return [
            array.astype(type_.dtype).reshape(type_.shape)
            for array, type_ in zip(arrays, self.results, strict=True)
        ]


def _execute(loaded: Any, operands: list[HostArray]) -> list[list[HostArray]]:
    """The results of a program of the private client: for each result, the array of each device."""
    results: list[list[HostArray]] = loaded.execute_sharded(
        operands
    ).disassemble_into_single_device_arrays()
    return results
