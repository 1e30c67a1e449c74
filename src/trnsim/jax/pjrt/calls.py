"""Calls: the execution of programs by the private client, and the buffers of their results.

A plain call has a way of its own (`PlainCall`): one device, values of `fast`, nothing that listens,
and room for its results. It has the effects of every call, in fewer steps.
"""

from __future__ import annotations

import ctypes
from typing import Any

from trnsim.device.call_log import recordings
from trnsim.device.faults import pending_faults
from trnsim.device.hbm import device_memory
from trnsim.device.numerics import mode
from trnsim.device.steps import steps
from trnsim.errors import BadInput
from trnsim.jax.execution import DeviceProgram, PlainRun
from trnsim.jax.host_client import HostArray, host
from trnsim.jax.pjrt.buffers import Buffer, buffer_at, buffer_type, new_buffer, require_room
from trnsim.jax.pjrt.devices import devices, local_devices
from trnsim.jax.pjrt.events import event_of
from trnsim.jax.pjrt.executables import PjrtExecutable, executable_of, executables
from trnsim.jax.pjrt.handles import numbers_at, words, write_pointers
from trnsim.jax.pjrt.structs import struct, word_places
from trnsim.jax.pjrt.sweep import Place, begin_call, buffers, place_above, track_results
from trnsim.jax.pjrt.table import Call, error_handle, quick, slot
from trnsim.jax.snapshots import callbacks

(
    _EXECUTABLE_AT,
    _OPTIONS_AT,
    _ARGUMENTS_AT,
    _ARGUMENT_COUNT_AT,
    _OUTPUTS_AT,
    _EVENTS_AT,
    _DEVICE_AT,
) = word_places(
    "LoadedExecutable_Execute_Args",
    *("executable", "options", "argument_lists", "num_args", "output_lists"),
    *("device_complete_events", "execute_device"),
)
(_PROTECTED_COUNT_AT,) = word_places("ExecuteOptions", "num_non_donatable_input_indices")


class PlainCall:
    """The part of a plain call that does not change from call to call.

    Attributes:
        execute: the computation of its operands, by the private client.
        handlers: the makers of the arrays of its results.
        donors: the arguments whose memory it may take.
    """

    __slots__ = (
        *("argument_count", "donors", "execute", "handlers", "hbm"),
        *("result_bytes", "result_types"),
    )

    def __init__(self, executable: PjrtExecutable, core: int, run: PlainRun) -> None:
        program = executable.program
        self.execute, self.handlers = run
        self.argument_count = len(program.arguments)
        self.result_types = [
            buffer_type(local_devices[core].of_kind(kind), result.shape, result.dtype)
            for result, kind in zip(program.results, program.result_kinds, strict=True)
        ]
        self.result_bytes = executable.output_bytes
        self.hbm = device_memory(core)
        self.donors = tuple(program.donors)


def _plain_call_of(executable: PjrtExecutable, device: int) -> PlainCall | None:
    """The plain call of a program on a device (0: its own device); None if it has no plain call."""
    calls = executable.plain_calls
    if device not in calls:
        core = devices[device].core if device else executable.program.cores[0]
        run = executable.program.plain_run(core)
        calls[device] = None if run is None else PlainCall(executable, core, run)
    return calls[device]


@quick("LoadedExecutable_Execute")
def _quick_execute(call_slot: Call) -> Call:
    """The function that executes a plain call: each frame less is half a microsecond."""

    def call(address: int) -> int:
        try:
            at = address >> 3
            plain_call = _plain_call(at)
            if plain_call is None:
                return call_slot(address)
            place = place_above(1)
            arguments, operands = [], []
            start = words[words[at + _ARGUMENTS_AT] >> 3] >> 3
            for handle in words[start : start + plain_call.argument_count]:
                buffer = buffers.get(handle)
                if buffer is None or buffer.elements is None:
                    return call_slot(address)  # which says why it cannot be used
                arguments.append(buffer)
                operands.append(buffer.elements)
            steps.has_work = True
            arrays = plain_call.execute(operands).consume_with_handlers(plain_call.handlers)
            for number in plain_call.donors:
                arguments[number].free_if_donated()
            handles = track_results(list(map(Buffer, arrays, plain_call.result_types)), place)
            start = words[words[at + _OUTPUTS_AT] >> 3] >> 3
            words[start : start + len(handles)] = handles
            events_at = words[at + _EVENTS_AT]
            if events_at:
                words[events_at >> 3] = event_of(arrays)
        except BaseException as error:  # noqa: BLE001  an exception cannot pass through C
            return error_handle(error)
        return 0

    return call


def _plain_call(at: int) -> PlainCall | None:
    """The plain call for the arguments at a word of memory; None if the call is not plain."""
    executable = executables.get(words[at + _EXECUTABLE_AT])
    if (
        executable is None
        or recordings
        or pending_faults
        or callbacks
        or mode.kind != "fast"
        or mode.is_stochastic
    ):
        return None
    device = words[at + _DEVICE_AT]
    call = executable.plain_calls.get(device) or _plain_call_of(executable, device)
    if call is None or call.hbm.live_bytes + call.result_bytes > call.hbm.capacity_bytes:
        return None
    if words[at + _ARGUMENT_COUNT_AT] != call.argument_count:
        return None  # the slot refuses it
    if call.donors and _protects_arguments(words[at + _OPTIONS_AT]):
        return None
    return call


def _protects_arguments(options_at: int) -> bool:
    """True if options name arguments whose memory must not be taken."""
    return bool(options_at and words[(options_at >> 3) + _PROTECTED_COUNT_AT])


@slot("LoadedExecutable_Execute")
def _execute(args: Any) -> None:
    place = place_above(3)  # below the slot, and its shorter function, which called it
    begin_call(place)
    steps.note_work()
    executable = executable_of(args)
    program = executable.program
    if args.num_args != len(program.arguments):
        raise BadInput(
            f"{args.num_args} arguments of a program; legal: {len(program.arguments)}, as it was "
            "compiled",
            fix="pass an array for each of its parameters",
        )
    cores = [devices[args.execute_device].core] if args.execute_device else program.cores
    lists = numbers_at(args.argument_lists, args.num_devices, ctypes.c_size_t)
    arguments = [
        [buffer_at(handle) for handle in numbers_at(address, args.num_args, ctypes.c_size_t)]
        for address in lists
    ]
    _require_room(executable, cores, arguments)
    results = program.run(cores, _arrays(args, program, arguments))
    for at in program.donors:
        for device_buffers in arguments:
            device_buffers[at].free_if_donated()
    _write_results(args, program, cores, place, results)


def _require_room(
    executable: PjrtExecutable, cores: list[int], arguments: list[list[Buffer]]
) -> None:
    """Refuse an execution whose results, less its donated arguments, do not fit in HBM.

    Raises:
        OutOfMemory: with a table of the arrays in memory.
    """
    for core, device_buffers in zip(cores, arguments, strict=False):
        donated_buffers = [device_buffers[at] for at in executable.program.donors]
        taken_bytes = sum(buffer.nbytes for buffer in donated_buffers if buffer.memory.is_hbm)
        require_room(max(executable.output_bytes - taken_bytes, 0), local_devices[core].memory)


def _arrays(
    args: Any, program: DeviceProgram, arguments: list[list[Buffer]]
) -> list[list[HostArray]]:
    """The elements of the arguments; copies of arguments whose memory must not be taken."""
    arrays = [[buffer.array for buffer in row] for row in arguments]
    if program.donors and args.options:
        options = struct("ExecuteOptions").from_address(args.options)
        protected_numbers = numbers_at(
            options.non_donatable_input_indices, options.num_non_donatable_input_indices
        )
        for at in program.donors.intersection(protected_numbers):
            for row, sources in zip(arrays, arguments, strict=True):
                row[at] = host().copy(row[at], sources[at].memory.core)
    return arrays


def _write_results(
    args: Any,
    program: DeviceProgram,
    cores: list[int],
    place: Place,
    results: list[list[HostArray]],
) -> None:
    """Write the handles of the results, and the events at which they are computed."""
    if args.output_lists:
        lists = numbers_at(args.output_lists, args.num_devices, ctypes.c_size_t)
        for address, core, arrays in zip(lists, cores, results, strict=True):
            if arrays:
                of_kind = local_devices[core].of_kind
                handles = [
                    new_buffer(array, of_kind(kind), place, is_token=result.dtype is None)
                    for array, result, kind in zip(
                        arrays, program.results, program.result_kinds, strict=True
                    )
                ]
                write_pointers(address, handles)
    if args.device_complete_events:
        events = [event_of(arrays) for arrays in results]
        write_pointers(args.device_complete_events, events)
