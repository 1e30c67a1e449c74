"""The device's rows in the Chrome trace of PyTorch's profiler.

Each core is a process, "neuron:0", with one track of kernels, and an arrow to each kernel from the
operator on the host that called it. `device.placement` places them.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from trnsim.device.placement import PlacedKernel
from trnsim.files import write
from trnsim.profile.formats.trace_events import Point, TraceEvent, arrow, metadata, span
from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.torch.profiler.profiled import ProfiledWindow
from trnsim.torch.pytorch import KinetoEvent

_NS_IN_US: Final = 1000
_FIRST_SORT_INDEX: Final = 5_000_000  # Kineto's sort index of devices, below the host
_ARROW_CATEGORY: Final = "ac2g"  # Kineto's name of an arrow from the host to a device
_FUNCTION_CATEGORY: Final = "python_function"


def add_device_rows(path: Path, window: ProfiledWindow, target: str) -> None:
    """Rewrite the trace at `path`, plain or .gz, with the device's rows, less hidden events."""
    is_packed = path.suffix == ".gz"
    stored = path.read_bytes()
    trace = json.loads(gzip.decompress(stored) if is_packed else stored)
    base_ns = trace.get("baseTimeNanoseconds", 0)
    hidden = {_key(event) for event in window.hidden_events}
    events = [event for event in trace["traceEvents"] if _stored_key(event) not in hidden]
    trace["traceEvents"] = [*events, *_processes(window, target), *_rows(window, base_ns)]
    trace[DEVICE_TYPE] = {
        "chip": target,
        "clock": "a kernel starts when the one before it ends, and not before the host's call; "
        "lengths are estimates, gaps are the emulator's",
        "not_timed": dict(window.missing),
    }
    text = json.dumps(trace).encode()
    write(path, gzip.compress(text) if is_packed else text)


def _key(event: KinetoEvent) -> tuple[str, int]:
    """The key of an event of the host, by which the trace also knows it."""
    if event.is_python_function():
        return _FUNCTION_CATEGORY, event.python_id()
    return "", event.correlation_id()


def _stored_key(event: dict[str, Any]) -> tuple[str, int] | None:
    arguments = event.get("args", {})
    if event.get("cat") == _FUNCTION_CATEGORY:
        return _FUNCTION_CATEGORY, arguments.get("Python id", -1)
    return ("", arguments["External id"]) if "External id" in arguments else None


def _processes(window: ProfiledWindow, target: str) -> Iterator[TraceEvent]:
    """The names of the cores and of their tracks."""
    for core in sorted({kernel.core for kernel in window.spans}):
        process = _process_id(core)
        yield metadata("process_name", process, name=process)
        yield metadata("process_labels", process, labels=f"{target}, estimated")
        yield metadata("process_sort_index", process, sort_index=_FIRST_SORT_INDEX + core)
        yield metadata("thread_name", process, name="kernels")


def _process_id(core: int) -> str:
    """A core's process id: a name, since the host's process may have any number."""
    return f"{DEVICE_TYPE}:{core}"


def _rows(window: ProfiledWindow, base_ns: int) -> Iterator[TraceEvent]:
    """The kernels, and the arrows to them."""
    arrows = count(1)
    for kernel in window.spans:
        start = Point(_process_id(kernel.core), 0, (kernel.start_ns - base_ns) / _NS_IN_US)
        length_us = (kernel.end_ns - kernel.start_ns) / _NS_IN_US
        yield span(kernel.name, start, length_us, _kernel_arguments(kernel), "kernel")
        if kernel.launcher is not None:
            yield from arrow(
                _ARROW_CATEGORY, next(arrows), _launch_point(kernel.launcher, base_ns), start
            )


def _kernel_arguments(kernel: PlacedKernel) -> dict[str, Any]:
    arguments: dict[str, Any] = {"device": kernel.core, "stream": 0}
    if kernel.launcher is not None:
        called_by = kernel.launcher.correlation_id()
        arguments |= {"External id": called_by, "correlation": called_by}
    return arguments | ({"not timed": kernel.missing} if kernel.missing else {})


def _launch_point(launcher: KinetoEvent, base_ns: int) -> Point:
    time_us = (launcher.start_ns() - base_ns) / _NS_IN_US
    return Point(os.getpid(), launcher.device_resource_id(), time_us)
