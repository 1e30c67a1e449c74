"""Kernels on the host's clock, for profilers that show host and device side by side.

A kernel starts when the one before it on its core ends, but not before the host's call. Its length
is the estimate, in whole nanoseconds. Gaps between kernels are the time that *emulating* took: they
say nothing about a chip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from trnsim.device.call_time import CallTime, DeviceCall, time_of

_NS: Final = 1e9


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call on the device, with the time at which the host made it.

    Attributes:
        call: the operator, graph or kernel.
        called_ns: the host's clock when it was called.
        launcher: the framework's event of the call, or None where events were not recorded.
    """

    call: DeviceCall
    core: int
    called_ns: int
    launcher: Any


@dataclass(frozen=True, slots=True)
class PlacedKernel:
    """A kernel on the device's time axis.

    Attributes:
        start_ns: its start, on the host's clock.
        end_ns: its end, on the host's clock.
        launcher: the framework's event of its call, or None.
        missing: the reason why it has no time, or "".
    """

    name: str
    core: int
    start_ns: int
    end_ns: int
    launcher: Any
    missing: str = ""


def place_kernels(calls: Iterable[HostCall], target: str) -> list[PlacedKernel]:
    """The kernels of all calls, one after the other on each core."""
    free_ns: dict[int, int] = {}
    times: dict[DeviceCall, CallTime] = {}
    kernels: list[PlacedKernel] = []
    for host_call in calls:
        if host_call.call not in times:
            times[host_call.call] = time_of(host_call.call, target)
        for name, time_s, missing in _rows(host_call.call.name, times[host_call.call]):
            start_ns = max(host_call.called_ns, free_ns.get(host_call.core, 0))
            end_ns = free_ns[host_call.core] = start_ns + round(time_s * _NS)
            kernels.append(
                PlacedKernel(name, host_call.core, start_ns, end_ns, host_call.launcher, missing)
            )
    return kernels


def _rows(name: str, time: CallTime) -> Iterator[tuple[str, float, str]]:
    """The rows of one call: name, time, and why a time is missing.

    A compiled graph is one row, as it is one launch. A missing time gets a row of its own that
    says so, since a zero beside the operator's name would look like a measurement.
    """
    if time.is_one_launch and time.kernels:
        yield name, time.device_time_s, ""
    else:
        yield from ((kernel.name, kernel.device_time_s, "") for kernel in time.kernels)
    if time.missing_reason:
        yield f"not timed: {name}", 0.0, time.missing_reason
