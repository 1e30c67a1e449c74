"""The device's rows in the trace that PyTorch's profiler writes, in Chrome's format.

Each core is a process, "neuron:0", with one track of kernels, and an arrow to each from the host's
operator that called it. Where they are placed: see `profiled`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from trnsim.files import write
from trnsim.torch.profiler.profiled import Profiled, Span
from trnsim.torch.pytorch import DEVICE_TYPE, KinetoEvent

_NS_IN_US: Final = 1000
_FIRST_PLACE: Final = 5_000_000  # where Kineto sorts devices in, below the host
_ARROW: Final = "ac2g"  # Kineto's name of an arrow from the host to a device
_FUNCTION: Final = "python_function"


def add_device_rows(path: Path, found: Profiled, target: str) -> None:
    """Rewrite the trace at `path`, plain or .gz, with the device's rows, less what is hidden."""
    is_packed = path.suffix == ".gz"
    stored = path.read_bytes()
    trace = json.loads(gzip.decompress(stored) if is_packed else stored)
    base_ns = trace.get("baseTimeNanoseconds", 0)
    hidden = {_key(event) for event in found.hidden}
    events = [event for event in trace["traceEvents"] if _stored_key(event) not in hidden]
    trace["traceEvents"] = [*events, *_processes(found, target), *_rows(found, base_ns)]
    trace[DEVICE_TYPE] = {
        "chip": target,
        "clock": "a kernel starts when the one before it ends, and not before the host's call; "
        "lengths are estimates, gaps are the emulator's",
        "not_timed": dict(found.missing),
    }
    text = json.dumps(trace).encode()
    write(path, gzip.compress(text) if is_packed else text)


def _key(event: KinetoEvent) -> tuple[str, int]:
    """What finds an event of the host in the trace."""
    if event.is_python_function():
        return _FUNCTION, event.python_id()
    return "", event.correlation_id()


def _stored_key(event: dict[str, Any]) -> tuple[str, int] | None:
    about = event.get("args", {})
    if event.get("cat") == _FUNCTION:
        return _FUNCTION, about.get("Python id", -1)
    return ("", about["External id"]) if "External id" in about else None


def _processes(found: Profiled, target: str) -> Iterator[dict[str, Any]]:
    """The names of the cores and of their track."""
    for core in sorted({span.core for span in found.spans}):
        about = {
            "process_name": {"name": _process(core)},
            "process_labels": {"labels": f"{target}, estimated"},
            "process_sort_index": {"sort_index": _FIRST_PLACE + core},
            "thread_name": {"name": "kernels"},
        }
        for name, args in about.items():
            yield {"ph": "M", "name": name, "pid": _process(core), "tid": 0, "args": args}


def _process(core: int) -> str:
    """A name and no number: the host's process may have any number."""
    return f"{DEVICE_TYPE}:{core}"


def _rows(found: Profiled, base_ns: int) -> Iterator[dict[str, Any]]:
    """The kernels, and the arrows to them."""
    arrows = count(1)
    for span in found.spans:
        start_us = (span.start_ns - base_ns) / _NS_IN_US
        place = {"pid": _process(span.core), "tid": 0, "ts": start_us}
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": span.name,
            **place,
            "dur": (span.end_ns - span.start_ns) / _NS_IN_US,
            "args": _about(span),
        }
        if span.launcher is not None:
            arrow = {"id": next(arrows), "cat": _ARROW, "name": _ARROW}
            yield {"ph": "s", **arrow, **_caller(span.launcher, base_ns)}
            yield {"ph": "f", **arrow, **place, "bp": "e"}


def _about(span: Span) -> dict[str, Any]:
    about: dict[str, Any] = {"device": span.core, "stream": 0}
    if span.launcher is not None:
        called_by = span.launcher.correlation_id()
        about |= {"External id": called_by, "correlation": called_by}
    return about | ({"not timed": span.missing} if span.missing else {})


def _caller(launcher: KinetoEvent, base_ns: int) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "tid": launcher.device_resource_id(),
        "ts": (launcher.start_ns() - base_ns) / _NS_IN_US,
    }
