"""The recording of PyTorch's calls, with their modules and phases.

A call in the forward pass belongs to the module being run; a call in the backward pass belongs to
the module of the operator whose gradient it computes (`scope_tracker`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import torch.optim.optimizer as optimizers

from trnsim.device import call_log
from trnsim.device.call_log import Recording
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.numerics import mode
from trnsim.device.steps import are_watched, steps
from trnsim.torch.aten.operator_call import call_of, tensors_in
from trnsim.torch.device_name import is_neuron
from trnsim.torch.dispatch.exact import call_exactly
from trnsim.torch.dispatch.stochastic_rounding import call_with_rounding
from trnsim.torch.narrowing import bytes_on_device, narrow_numbers, narrow_results, narrowed_dtypes
from trnsim.torch.pytorch import Kernel
from trnsim.torch.scope_tracker import scope_tracker

if TYPE_CHECKING:
    import torch

    from trnsim.device.kernel_call import KernelCall


class RecordedExchange(NamedTuple):
    """A collective or a message that has run.

    Attributes:
        kind: its plain name ("allreduce", "send").
        arguments: its arguments by name.
        reduction: the name of its reduction; "" if it has none, or if it was called from C++, where
            the name is not seen.
        pair: sender and receiver of a message; () for a collective.
        is_root: True if this rank receives a reduction or a gather.
    """

    kind: str
    arguments: dict[str, Any]
    reduction: str
    ranks: tuple[int, ...]
    group_name: str
    pair: tuple[int, ...]
    is_root: bool


class CallWatcher(Protocol):
    """An object that is told of every call on the device, with its tensors.

    While a watcher is in `watchers`, calls are not added to the recordings of `call_log`.
    """

    def note_call(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Note a call that has run."""

    def note_kernel(self, call: KernelCall, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Note an NKI kernel that has run, with the tensors that it has written or made."""

    def note_exchange(self, exchange: RecordedExchange) -> None:
        """Note a collective or a message that has run."""


watchers: Final[list[CallWatcher]] = []
"""The watchers of this program: empty unless it has imported `torch_xla`, then one."""


def watched_kernel(name: str, kernel: Kernel) -> Kernel:
    """`kernel`, whose calls are told to `watchers` but not added to recordings."""

    def call_and_tell(*args: Any, **kwargs: Any) -> Any:
        result = kernel(*args, **kwargs)
        for watcher in watchers:
            watcher.note_call(name, args, kwargs, result)
        return result

    return call_and_tell


def recorded_kernel(name: str, kernel: Kernel, shaped: Kernel | None = None) -> Kernel:
    """`kernel` in the current numerics, whose calls are recorded and told to `watchers`.

    `shaped` is the kernel of the mode `shapes`; None for `kernel` itself.
    """
    return lazy_recorded_kernel(name, lambda: (kernel, shaped))


def lazy_recorded_kernel(name: str, make: Callable[[], tuple[Kernel, Kernel | None]]) -> Kernel:
    """`recorded_kernel` of the kernels that `make` returns at the first call: plain and shaped."""
    kernels = cache(make)

    def call_and_record(*args: Any, **kwargs: Any) -> Any:
        kernel, shaped = kernels()
        if pending_faults:
            strike_fault(call_core(args, kwargs))
        if narrowed_dtypes:
            kwargs = {key: narrow_numbers(value, args) for key, value in kwargs.items()}
            args = narrow_numbers(args, args)
        if mode.kind == "exact":
            result = call_exactly(name, kernel, args, kwargs)
        elif mode.kind == "shapes" and shaped is not None:
            result = shaped(*args, **kwargs)
        elif mode.is_stochastic:
            result = call_with_rounding(name, kernel, args, kwargs)
        else:
            result = kernel(*args, **kwargs)
        if narrowed_dtypes:
            narrow_results(name, args, kwargs, result)
        if call_log.recordings:
            _record_call(name, args, kwargs, result)
        for watcher in watchers:
            watcher.note_call(name, args, kwargs, result)
        return result

    return call_and_record


def _record_call(name: str, args: Any, kwargs: Any, result: Any) -> None:
    """Add a call to every recording; the call is built only if a recording takes calls."""
    if call_log.are_collectives_under_way():
        call_log.note_buffer_use(buffers_of([args, kwargs]))
    if not watchers and call_log.listening_recordings():
        call = call_of(name, args, kwargs, result)
        call_log.note(call, call_core(args, kwargs, result), scope_tracker.scope)


def buffers_of(values: Any) -> list[int]:
    """The memory address of each tensor of the device in nested values."""
    tensors = (tensor for tensor in tensors_in(values) if is_neuron(tensor.device))
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


def call_core(*values: Any) -> int:
    """The core of the first neuron tensor in a call; 0 without one."""
    groups = (list(value.values()) if isinstance(value, dict) else value for value in values)
    return next((tensor.get_device() for tensor in tensors_in([*groups]) if not tensor.is_cpu), 0)


def note_transfer(source: torch.Tensor, destination: torch.Tensor) -> None:
    """Record a copy: a call if both tensors are on the device, else bytes to or from the host."""
    nbytes = bytes_on_device(source.numel() * source.element_size(), source.dtype)
    if call_log.are_collectives_under_way():
        call_log.note_buffer_use(buffers_of([source, destination]))
    if source.is_cpu:
        call_log.note_from_host(nbytes)
    elif destination.is_cpu:
        call_log.note_to_host(nbytes)
    else:
        _record_call("aten::_copy_from", (source,), {}, destination)


def record_whole_program() -> None:
    """Begin to record the whole program, and to count its steps, if that is requested."""
    if call_log.record_whole_program():
        scope_tracker.watch()
    if os.environ.get(call_log.RANK_FIGURES_VARIABLE):
        from trnsim.device import rank_figures  # noqa: PLC0415  few programs are such ranks

        rank_figures.write_at_end()
    if are_watched():
        optimizers.register_optimizer_step_pre_hook(_note_optimizer_step)


def _note_optimizer_step(*_: object) -> None:
    steps.note_optimizer_step()


@contextmanager
def recording() -> Generator[Recording]:
    """A recording of the calls on the device inside the `with`, with modules and phases.

    Calls of every thread are recorded, so `with` blocks of two threads must not overlap.
    """
    with scope_tracker.watched(), call_log.recording() as calls:
        yield calls
