"""Streams and events of a device on which every call has finished when it returns."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import torch

from trnsim.errors import NotModelled
from trnsim.torch.cores import Device, core_index
from trnsim.torch.faults import program_line
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType


class Event:
    """A point in a stream; work before it is done."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        del blocking, interprocess
        self.enable_timing = enable_timing

    def record(self, stream: Stream | None = None) -> None:
        """Nothing to mark: the stream is idle."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether the work before it is done: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Device time between two events.

        Raises:
            NotModelled: always; the host's time would say nothing about a NeuronCore's.
        """
        del end_event
        raise NotModelled(
            "the time between two events on the neuron device is not estimated yet",
            fix="measure the host with time.perf_counter, knowing that it is not device time",
            line=program_line(),
        )


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
