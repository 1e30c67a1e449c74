"""The calls on the device, in order: the record from which device time is computed afterwards.

A framework passes each call, its core, and a function that finds its place in the program.
Recording costs a few microseconds a call, so it happens only inside `recording`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from trnsim.device.call_time import DeviceCall
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.hbm import device_memory


class StepPhase(Enum):
    """The part of a training step that a call belongs to."""

    forward = "forward"
    backward = "backward"
    optimizer = "optimizer"


@dataclass(frozen=True, slots=True)
class Scope:
    """The place in the program where a call was made.

    Attributes:
        module: the module that it belongs to ("encoder.layers.0"), or "".
    """

    module: str
    phase: StepPhase


FindScope: TypeAlias = Callable[[], Scope]
"""A framework's function that finds the current scope; called only by recordings that keep it."""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call on the device.

    Attributes:
        call: the operator, graph or kernel, and its shapes.
        module: the module that it belongs to ("encoder.layers.0"), or "".
        live_bytes: the HBM in use on core 0 when it returned.
        core: the logical core that it was on.
    """

    call: DeviceCall
    module: str
    phase: StepPhase
    live_bytes: int
    core: int = 0


@dataclass
class CallSpan:
    """When a collective began and was waited for, as numbers of calls.

    Attributes:
        begun: number of the call before which it began.
        awaited: number of the call that first touched its tensors; None if none has.
    """

    begun: int
    awaited: int | None = None


@dataclass(eq=False)
class Recording:
    """The calls inside a `with recording()`, collectives, and bytes from and to the host.

    Attributes:
        events: the calls, without the first `forgotten` ones.
        spans: when each collective began and was waited for.
        forgotten: number of calls that were dropped.
    """

    events: list[CallEvent] = field(default_factory=list[CallEvent])
    from_host_bytes: int = 0
    to_host_bytes: int = 0
    collectives: list[CollectiveCall] = field(default_factory=list[CollectiveCall])
    spans: list[CallSpan] = field(default_factory=list[CallSpan])
    forgotten: int = 0
    _in_flight: dict[int, CallSpan] = field(default_factory=dict[int, CallSpan])
    _calls: dict[DeviceCall, DeviceCall] = field(default_factory=dict[DeviceCall, DeviceCall])

    @property
    def is_listening(self) -> bool:
        """True if calls are to be recorded."""
        return True

    def note(self, call: DeviceCall, core: int, find_scope: FindScope) -> None:
        """Record a call on a core; equal calls share one object."""
        scope, live_bytes = find_scope(), device_memory(0).live_bytes
        shared_call = self._calls.setdefault(call, call)
        self.events.append(CallEvent(shared_call, scope.module, scope.phase, live_bytes, core))

    def note_collective(
        self, collective: CollectiveCall, buffers: Iterable[int], is_async: bool
    ) -> None:
        """Record a collective on tensors in these buffers; `is_async` if the program goes on."""
        span = CallSpan(self.next_number, None if is_async else self.next_number)
        self.collectives.append(collective)
        self.spans.append(span)
        if is_async:
            self._in_flight.update(dict.fromkeys(buffers, span))

    def note_buffer_use(self, buffers: Iterable[int]) -> None:
        """Note that the next call touches these buffers, and so waits for their collectives."""
        for buffer in buffers:
            span = self._in_flight.pop(buffer, None)
            if span is not None and span.awaited is None:
                span.awaited = self.next_number

    @property
    def next_number(self) -> int:
        """The number of the next call; dropped calls count too."""
        return self.forgotten + len(self.events)

    def forget(self, before: int) -> None:
        """Drop the calls before number `before`."""
        dropped = max(before - self.forgotten, 0)
        del self.events[:dropped]
        self.forgotten += dropped


recordings: list[Recording] = []
"""The recordings in progress; empty almost always."""


def listening_recordings() -> list[Recording]:
    """The recordings that take calls."""
    return [log for log in recordings if log.is_listening]


def note(call: DeviceCall, core: int, find_scope: FindScope) -> None:
    """Add a call to every recording."""
    for log in listening_recordings():
        log.note(call, core, find_scope)


def note_from_host(nbytes: int) -> None:
    """Add bytes copied from the host to the device to every recording."""
    for log in recordings:
        log.from_host_bytes += nbytes


def note_to_host(nbytes: int) -> None:
    """Add bytes copied from the device to the host to every recording."""
    for log in recordings:
        log.to_host_bytes += nbytes


def note_collective(
    collective: CollectiveCall, buffers: Iterable[int] = (), *, is_async: bool = False
) -> None:
    """Add a collective to every recording."""
    for log in recordings:
        log.note_collective(collective, buffers, is_async)


def are_collectives_under_way() -> bool:
    """True if calls may wait for collectives, so that their buffers matter."""
    return any(log._in_flight for log in recordings)  # noqa: SLF001  of this file


def note_buffer_use(buffers: Iterable[int]) -> None:
    """Tell every recording which buffers the next call touches."""
    touched_buffers = list(buffers)
    for log in recordings:
        log.note_buffer_use(touched_buffers)


RECORD_VARIABLE: Final = "TRNSIM_RECORD"
"""Variable that is 1, before the device is loaded, to record the program in `whole_program`."""

RANK_FIGURES_VARIABLE: Final = "TRNSIM_RANK_FIGURES"
"""Variable for the folder of ranks' figures (`rank_figures`); it requests the recording too."""

whole_program: Final[list[Recording]] = []
"""The recording of the whole program as the only item; empty where none was requested."""


def record_whole_program() -> bool:
    """Begin to record the whole program where a variable requests it; True if one does."""
    is_requested = os.environ.get(RECORD_VARIABLE) == "1" or bool(
        os.environ.get(RANK_FIGURES_VARIABLE)
    )
    if is_requested and not whole_program:
        whole_program.append(Recording())
        recordings.extend(whole_program)
    return bool(whole_program)


@contextmanager
def without_recording() -> Generator[None]:
    """Context without recording: the caller records a larger call that contains the inner ones."""
    earlier_recordings = recordings.copy()
    recordings.clear()
    try:
        yield
    finally:
        recordings[:] = earlier_recordings


@contextmanager
def recording() -> Generator[Recording]:
    """Context that records the calls on the device.

    Calls of every thread are recorded, so `with` blocks of two threads must not overlap.
    """
    log = Recording()
    recordings.append(log)
    try:
        yield log
    finally:
        recordings.remove(log)
