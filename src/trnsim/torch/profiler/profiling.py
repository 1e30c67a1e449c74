"""`torch.profiler` with device time, for programs that ask for the device's activity.

PyTorch takes device events from Kineto, which takes them from C++. Its profiler in Python reads
Kineto's events and writes Kineto's trace to a file; here the estimated kernels are added to both.
Everything else is PyTorch's own: nesting, averages, tables, stacks, schedules.

Calls are recorded only inside a profiler with `ProfilerActivity.PrivateUse1`, or with all.
"""

from __future__ import annotations

import time
import warnings
from itertools import count
from pathlib import Path
from typing import Any, Final

import torch.autograd.profiler as pytorch_profiler

from trnsim.device.call_log import FindScope, Recording, recordings
from trnsim.device.call_time import DeviceCall
from trnsim.device.device_core import target
from trnsim.device.program_line import program_line
from trnsim.errors import SourceLine
from trnsim.formatting import counted, plural
from trnsim.torch import pytorch
from trnsim.torch.profiler.profiled import (
    MARK,
    DeviceEvent,
    Launch,
    ProfiledWindow,
    profiled_window,
)
from trnsim.torch.profiler.profiled_trace import add_device_rows

_LISTED_REASONS: Final = 3


class NotTimed(UserWarning):
    """Calls in a profile that have no device time, which its totals leave out."""


class Launches(Recording):
    """A recording that puts a mark among the host's events for each call."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: list[Launch] = []
        self._numbers = count()

    def note(self, call: DeviceCall, core: int, find_scope: FindScope) -> None:
        """Record a call, and mark it while the operator that calls it is still open."""
        del find_scope
        number = next(self._numbers)
        self.launches.append(Launch(number, call, core, time.time_ns()))
        with pytorch.profiler_scope(f"{MARK}{number}"):
            pass


class _ResultsWithDevice:
    """Kineto's results as PyTorch's profiler reads them, with the device's events."""

    def __init__(self, results: Any, window: ProfiledWindow) -> None:
        self.trace_start_ns = results.trace_start_ns
        self._events = [*window.host_events, *map(DeviceEvent, window.spans)]

    def events(self) -> list[Any]:
        """All events."""
        return self._events


_Base: Any = pytorch_profiler.profile


class DeviceProfile(_Base):  # type: ignore[misc]
    """`torch.autograd.profiler.profile`, on which `torch.profiler` is built, with device time."""

    _launches: Launches | None = None
    _window: ProfiledWindow | None = None

    def _prepare_trace(self) -> None:
        pytorch.watch_through_kineto(self)
        super()._prepare_trace()

    def _start_trace(self) -> None:
        super()._start_trace()
        filters: Any = self.activity_filters
        is_requested = pytorch.PROFILED_ACTIVITY in self.kineto_activities
        if is_requested and filters.get(pytorch.PROFILED_ACTIVITY) != set():
            self._launches, self._window = Launches(), None
            recordings.append(self._launches)

    def __exit__(self, *error: object) -> Any:
        if self._launches in recordings:
            recordings.remove(self._launches)
        return super().__exit__(*error)

    def _with_device(self, results: Any) -> ProfiledWindow | None:
        """The window's events, computed once; None without the device's activity.

        Times are computed after the window, so that lowering does not show in the host's time.
        """
        if self._window is None and self._launches is not None:
            self._window = profiled_window(results.events(), self._launches.launches, target().name)
            _warn_of(self._window)
        return self._window

    def _parse_kineto_results(self, result: Any, timeout_s: float | None = None) -> Any:
        window = self._with_device(result)
        answer = result if window is None else _ResultsWithDevice(result, window)
        return super()._parse_kineto_results(answer, timeout_s)

    def export_chrome_trace(
        self, path: str, metadata: dict[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write the trace of the last window, with the device's rows if they were requested."""
        super().export_chrome_trace(path, metadata, use_python_export)
        window = self._with_device(self.kineto_results)
        if window is not None:
            add_device_rows(Path(path), window, target().name)


def _warn_of(window: ProfiledWindow) -> None:
    if not window.missing:
        return
    reasons = [why for why, _ in window.missing.most_common(_LISTED_REASONS)]
    count, hidden_count = window.missing.total(), len(window.missing) - len(reasons)
    line = program_line() or SourceLine("torch.profiler", 0)
    warnings.warn_explicit(
        f"no device time, or not all of it, for {counted(count, 'call')}; the profile's "
        f"totals are short by what {plural(count, 'it takes', 'they take')}: {'; '.join(reasons)}"
        + (f"; and {hidden_count} other {plural(hidden_count, 'reason')}" if hidden_count else ""),
        NotTimed,
        line.file,
        line.line,
    )


def register() -> None:
    """Replace PyTorch's profiler class by ours."""
    holder: Any = pytorch_profiler
    holder.profile = DeviceProfile
