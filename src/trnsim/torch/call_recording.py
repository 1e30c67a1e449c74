"""PyTorch's calls as recordings take them, and whose they are.

In the forward pass a call belongs to the module that the program is in; one of the backward pass to
the module whose operator it is the gradient of (`scope_tracker`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trnsim.device import call_log
from trnsim.device.call_log import Recording
from trnsim.torch.aten.operator_call import call_of, tensors_in
from trnsim.torch.dispatch.numerics_mode import exactly, mode
from trnsim.torch.dispatch.stochastic_rounding import rounding
from trnsim.torch.scope_tracker import scope_tracker

if TYPE_CHECKING:
    import torch

    from trnsim.torch.pytorch import Kernel


def noted(name: str, kernel: Kernel, shaped: Kernel | None = None) -> Kernel:
    """`kernel`, or its stand-in for the numerics in force, telling every recording of its calls."""

    def noting(*args: Any, **kwargs: Any) -> Any:
        if mode.kind == "exact":
            result = exactly(name, kernel, args, kwargs)
        elif mode.kind == "shapes" and shaped is not None:
            result = shaped(*args, **kwargs)
        elif mode.is_stochastic:
            result = rounding(name, kernel, args, kwargs)
        else:
            result = kernel(*args, **kwargs)
        if call_log.recordings:
            _note(name, args, kwargs, result)
        return result

    return noting


def _note(name: str, args: Any, kwargs: Any, result: Any) -> None:
    """Tell every recording of an operator; what it was is worked out for one that listens."""
    if call_log.listening():
        call = call_of(name, args, kwargs, result)
        call_log.note(call, _core(args, kwargs, result), scope_tracker.scope)


def _core(*values: Any) -> int:
    """The core of the first neuron tensor in a call."""
    given = (list(value.values()) if isinstance(value, dict) else value for value in values)
    return next((tensor.get_device() for tensor in tensors_in([*given]) if not tensor.is_cpu), 0)


def note_transfer(source: torch.Tensor, destination: torch.Tensor) -> None:
    """Write down a copy: within the device a call, else bytes across the host's link."""
    nbytes = source.numel() * source.element_size()
    if source.is_cpu:
        call_log.note_from_host(nbytes)
    elif destination.is_cpu:
        call_log.note_to_host(nbytes)
    else:
        _note("aten::_copy_from", (source,), {}, destination)


def record_whole_program() -> None:
    """Begin the recording of the whole program, if it was asked for."""
    if call_log.record_whole_program():
        scope_tracker.watch()


@contextmanager
def recording() -> Generator[Recording]:
    """The calls on the device inside, with their modules and phases.

    Not inside another thread's `with`: every thread's calls are written down.
    """
    with scope_tracker.watched(), call_log.recording() as found:
        yield found
