"""Streams and events of a device on which every call has finished when it returns."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

import torch

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.cores import Device, core_index, target
from trnsim.torch.device_time import step_time
from trnsim.torch.faults import program_line
from trnsim.torch.pytorch import DEVICE_TYPE
from trnsim.torch.recording import clock

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType


_MS: Final = 1e3


class Event:
    """A point in a stream; work before it is done.

    With `enable_timing` the calls between two events are recorded, so that their time can be asked.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        del blocking, interprocess
        self.enable_timing = enable_timing
        self._place: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Mark this point among the calls on the device."""
        del stream
        if self.enable_timing:
            self._place = len(clock().events)

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether the work before it is done: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Estimated device time between two recorded events, in milliseconds.

        Raises:
            BadInput: if one was not recorded, or without enable_timing.
            NotModelled: if a call in between has no time, by name.
        """
        if self._place is None or end_event._place is None:
            raise BadInput(
                "elapsed_time of an event that was not recorded with enable_timing=True",
                fix="make both with Event(enable_timing=True), and call record() on each",
                line=program_line(),
            )
        time = step_time(clock().events[self._place : end_event._place], target().name)
        if time.missing:
            raise NotModelled(
                f"no time between the events: {next(iter(time.missing))}",
                fix="time the other calls, or see trnsim run SCRIPT for all that have a time",
                line=program_line(),
            )
        return time.device_time_s * _MS


class Stream:
    """A queue of work on one core, which is always empty."""

    def __init__(self, device: Device = None, priority: int = 0) -> None:
        self.device = torch.device(DEVICE_TYPE, core_index(device))
        self.priority = priority
        self.stream_id = 0

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Event | None = None) -> Event:
        """`event`, or a new one."""
        return event if event is not None else Event()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, error, traceback


def current_stream(device: Device = None) -> Stream:
    """The stream that work goes to."""
    return Stream(device)


def default_stream(device: Device = None) -> Stream:
    """The stream that work goes to unless told otherwise."""
    return Stream(device)


def set_stream(stream: Stream) -> None:
    """Nothing changes: all streams are alike."""


@contextmanager
def stream(stream: Stream | None) -> Generator[Stream | None]:
    """Inside, work goes to `stream`."""
    yield stream
