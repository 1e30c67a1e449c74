"""Streams and events of a device on which every call has finished when it returns."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Self

import torch

from trnsim.device.clock import clock
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled
from trnsim.torch.api.core_index import Device, core_index
from trnsim.torch.device_name import DEVICE_TYPE

_MS: Final = 1e3


class Event(torch.Event):
    """A point in a stream; all work before it has finished.

    With `enable_timing` the calls between two events are counted, for `elapsed_time`.
    """

    enable_timing: bool

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: Device = None,
    ) -> Self:
        """An event of a core; waiting for it takes no time."""
        del blocking, interprocess
        event = super().__new__(cls, device=torch.device(DEVICE_TYPE, core_index(device)))
        event.enable_timing = enable_timing
        event._mark = None
        return event

    _mark: int | None

    def record(self, stream: Any = None) -> None:
        """Mark this point among the calls on the device."""
        del stream
        if self.enable_timing:
            self._mark = clock().mark(self)

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: the work before it has finished."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(  # pyright: ignore[reportIncompatibleMethodOverride]  torch.cuda's name
        self, end_event: torch.Event
    ) -> float:
        """Estimated device time from this event to another, in ms; negative to an earlier one.

        Raises:
            BadInput: if an event was not recorded, or was created without enable_timing.
            NotModelled: if a call in between has no time; the error names it.
        """
        end = getattr(end_event, "_mark", None)
        if self._mark is None or end is None:
            raise BadInput(
                "elapsed_time of an event that was not recorded with enable_timing=True",
                fix="make both with Event(enable_timing=True), and call record() on each",
                line=program_line(),
            )
        start, end = sorted((self._mark, end))
        lap = clock().between(start, end)
        if lap.missing:
            raise NotModelled(
                f"no time between the events: {next(iter(lap.missing))}",
                fix="time the other calls, or see trnsim run SCRIPT for all that have a time",
                line=program_line(),
            )
        sign = 1 if start == self._mark else -1
        return sign * lap.device_time_s * _MS


class Stream(torch.Stream):
    """A queue of work on a core, which is always empty."""

    def __new__(cls, device: Device = None, priority: int = 0, **options: Any) -> Self:
        """A stream of a core."""
        del priority, options
        return super().__new__(cls, device=torch.device(DEVICE_TYPE, core_index(device)))

    def wait_stream(  # pyright: ignore[reportIncompatibleMethodOverride]  torch.cuda's name
        self, stream: Any
    ) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Any:
        """`event`, or a new one, recorded at this point."""
        recorded_event = Event() if event is None else event
        recorded_event.record(self)
        return recorded_event

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: all work has finished."""
        return True

    def __enter__(self) -> Self:
        _current.outer_streams.append(current_stream(self.device))
        set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_stream(_current.outer_streams.pop())


class _ThreadStreams(threading.local):
    """The streams of this thread.

    Attributes:
        streams: the current stream by core; the default stream for a core without an entry.
        outer_streams: for each open `with`, the stream that was current before it.
    """

    def __init__(self) -> None:
        self.streams: dict[int, torch.Stream] = {}
        self.outer_streams: list[torch.Stream] = []


_current: Final = _ThreadStreams()


def current_stream(device: Device = None) -> torch.Stream:
    """The current stream of a core."""
    index = core_index(device)
    return _current.streams.get(index) or default_stream(index)


@cache
def _default(index: int) -> Stream:
    return Stream(index)


def default_stream(device: Device = None) -> Stream:
    """The default stream of a core."""
    return _default(core_index(device))


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream current on its core in this thread; None changes nothing."""
    if stream is not None:
        _current.streams[core_index(stream.device)] = stream


@contextmanager
def stream(stream: torch.Stream | None) -> Generator[torch.Stream | None]:
    """Context in which `stream` is current."""
    if stream is None:
        yield None
        return
    previous_stream = current_stream(stream.device)
    set_stream(stream)
    try:
        yield stream
    finally:
        set_stream(previous_stream)
