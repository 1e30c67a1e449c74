"""What ran on the device, in order: the record from which device time is computed afterwards.

Recording costs a few microseconds a call, so it happens only inside `recording`. In the forward
pass a call belongs to the module that the program is in (`whereabouts`); one of the backward pass
to the module whose operator it is the gradient of, by the sequence number that autograd gives both.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from trnsim.torch import pytorch
from trnsim.torch.api.memory import core_memory
from trnsim.torch.aten.calls import Call, call_of, tensors_in
from trnsim.torch.dispatch.exact import exactly, mode
from trnsim.torch.dispatch.rounding import rounding
from trnsim.torch.whereabouts import whereabouts

if TYPE_CHECKING:
    from trnsim.torch.compile.compiled_graph import CompiledGraph
    from trnsim.torch.dispatch.nki_calls import KernelCall
    from trnsim.torch.distributed.collectives import Collective
    from trnsim.torch.pytorch import Kernel


Recorded: TypeAlias = "Call | CompiledGraph | KernelCall"
"""An operator, a compiled graph or an NKI kernel."""


class Phase(Enum):
    """The part of a training step that a call belongs to."""

    forward = "forward"
    backward = "backward"
    optimizer = "optimizer"


@dataclass(frozen=True, slots=True)
class Event:
    """A call on the device.

    Attributes:
        call: the operator, graph or kernel, and its shapes.
        module: the module that it belongs to ("encoder.layers.0"), or "".
        phase: the part of the step.
        live_bytes: the HBM in use on core 0 when it returned.
    """

    call: Recorded
    module: str
    phase: Phase
    live_bytes: int


@dataclass
class Recording:
    """The calls inside a `with recording()`, collectives, and bytes from and to the host."""

    events: list[Event] = field(default_factory=list[Event])
    from_host_bytes: int = 0
    to_host_bytes: int = 0
    collectives: list[Collective] = field(default_factory=list["Collective"])
    _calls: dict[Call, Call] = field(default_factory=dict[Call, Call])
    _starts: list[int] = field(default_factory=list[int])
    _modules: list[str] = field(default_factory=list[str])

    def note(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Write down a call."""
        call = call_of(name, args, kwargs, result)
        self.note_call(self._calls.setdefault(call, call), _core(args, kwargs, result))

    def note_call(self, call: Recorded, core: int) -> None:
        """Write down what is known already, and on which core it ran."""
        del core
        module, phase = self._place()
        self.events.append(Event(call, module, phase, core_memory(0).live_bytes))

    def _place(self) -> tuple[str, Phase]:
        sequence = pytorch.backward_sequence_number()
        if sequence is not None:
            place = bisect_right(self._starts, sequence) - 1
            return self._modules[place] if place >= 0 else "", Phase.backward
        if whereabouts.is_stepping:
            return "", Phase.optimizer
        module = whereabouts.path()
        number = pytorch.next_sequence_number()
        # Autograd has numbered this operator just before it came here.
        if not self._modules or self._modules[-1] != module:
            self._starts.append(max(number - 1, 0))
            self._modules.append(module)
        return module, Phase.forward


def _core(*values: Any) -> int:
    """The core of the first neuron tensor in a call."""
    given = (list(value.values()) if isinstance(value, dict) else value for value in values)
    return next((tensor.get_device() for tensor in tensors_in([*given]) if not tensor.is_cpu), 0)


recordings: list[Recording] = []
"""Those under way; empty almost always."""


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
        for one in recordings:
            one.note(name, args, kwargs, result)
        return result

    return noting


def note_transfer(source: torch.Tensor, destination: torch.Tensor) -> None:
    """Write down a copy: within the device a call, else bytes across the host's link."""
    nbytes = source.numel() * source.element_size()
    for one in recordings:
        if source.is_cpu:
            one.from_host_bytes += nbytes
        elif destination.is_cpu:
            one.to_host_bytes += nbytes
        else:
            one.note("aten::_copy_from", (source,), {}, destination)


RECORD_VARIABLE: Final = "TRNSIM_RECORD"
"""Set to 1 before the device is loaded, it records the whole program, as `whole_program`."""


def record_whole_program() -> None:
    """Begin the recording of the whole program, if it was asked for."""
    if os.environ.get(RECORD_VARIABLE) == "1" and not whole_program:
        whole_program.append(Recording())
        whereabouts.watch()
        recordings.extend(whole_program)


whole_program: Final[list[Recording]] = []
"""The recording of the whole program, if there is one."""


@contextmanager
def without_recording() -> Generator[None]:
    """Inside, calls are not written down: they belong to something larger that will be."""
    kept = recordings.copy()
    recordings.clear()
    try:
        yield
    finally:
        recordings[:] = kept


@contextmanager
def recording() -> Generator[Recording]:
    """The calls on the device inside.

    Not inside another thread's `with`: every thread's calls are written down.
    """
    found = Recording()
    recordings.append(found)
    try:
        with whereabouts.watched():
            yield found
    finally:
        recordings.remove(found)
