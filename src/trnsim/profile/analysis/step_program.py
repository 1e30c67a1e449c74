"""The program of a step: its kernels in order, which a stored step keeps.

The host starts the kernels one after another. The device runs each launch as soon as it is started
and the launch before has ended:

    start[i] = max(started[i], end[i - 1])        started[i] = launch[0] + ... + launch[i]

So a step can be drawn, and a change of it timed again, without the program that ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_STORED_KERNELS: Final = 100_000
"""The longest program that is stored, of 1 MB or so."""
_MOST_TRIED_OPERATIONS: Final = 8
_LONGEST_S: Final = 1e12
_MOST_BYTES: Final = 1 << 60
_NAMES: Final = ("name", "operation", "module", "phase")
_TIMES: Final = ("time_s", "launch_s")


@dataclass(frozen=True, slots=True)
class StepKernel:
    """A kernel of a step; kernels that are equal take the same time.

    Attributes:
        operation: the operator or graph of the framework that it belongs to.
        module: the module of the program, or "".
        phase: "forward", "backward" or "optimizer".
        launch_s: the host's time to start it; 0 within a compiled graph.
    """

    name: str
    operation: str
    module: str
    phase: str
    time_s: float
    launch_s: float


@dataclass(frozen=True, slots=True)
class StepGain:
    """A change of a step, and by how much it shortens the step."""

    change: str
    gain_s: float


@dataclass(frozen=True)
class StepProgram:
    """The kernels of a step in order, and the HBM in use.

    Attributes:
        order: indices in `kernels` of the kernels that run, in order.
        hbm: (number of kernels that have run, bytes in use from then on) for each change.
        hbm_bytes: capacity of HBM.
    """

    kernels: Sequence[StepKernel]
    order: Sequence[int]
    hbm: Sequence[tuple[int, int]]
    hbm_bytes: int

    @cached_property
    def _order(self) -> Integers:
        return np.asarray(self.order, dtype=np.int64)

    @cached_property
    def times_s(self) -> Seconds:
        """The device time of each kernel that runs."""
        return np.array([kernel.time_s for kernel in self.kernels], np.float64)[self._order]

    @cached_property
    def launches_s(self) -> Seconds:
        """The host's time to start each kernel that runs."""
        return np.array([kernel.launch_s for kernel in self.kernels], np.float64)[self._order]

    @property
    def ends_s(self) -> Seconds:
        """The end of each kernel on the device."""
        work_s = np.cumsum(self.times_s)
        waited_s = np.cumsum(self.launches_s) - (work_s - self.times_s)
        ends_s: Seconds = work_s + np.maximum.accumulate(waited_s)
        return ends_s

    @property
    def total_s(self) -> float:
        """The end of the last kernel."""
        return _total_s(self.times_s, self.launches_s)

    def as_data(self) -> dict[str, Any]:
        """The program as a JSON object."""
        names = (*_NAMES, *_TIMES)
        return {
            "kernels": [{name: getattr(row, name) for name in names} for row in self.kernels],
            "order": list(self.order),
            "hbm": [list(pair) for pair in self.hbm],
            "hbm_bytes": self.hbm_bytes,
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> StepProgram:
        """The program in a file's JSON object.

        Raises:
            KeyError: a field is missing.
            ValueError: a field is not legal.
        """
        kernels = [_kernel(row) for row in data["kernels"]]
        order = _whole_numbers("order", data["order"], len(kernels) - 1)
        hbm = [_whole_numbers("hbm", pair, _MOST_BYTES) for pair in data["hbm"]]
        run = [pair[0] for pair in hbm if len(pair) == 2]  # noqa: PLR2004  kernels, bytes
        if len(run) < len(hbm) or run != sorted(run) or max(run, default=0) > len(order):
            raise ValueError(
                f"hbm of program; legal: pairs of kernels that have run, 0 to {len(order)} in "
                "order, and bytes"
            )
        (hbm_bytes,) = _whole_numbers("hbm_bytes", [data["hbm_bytes"]], _MOST_BYTES)
        return cls(kernels, order, [(pair[0], pair[1]) for pair in hbm], hbm_bytes)


def _total_s(times_s: Seconds, launches_s: Seconds) -> float:
    """The end of the last kernel, from the device times and the launch times of all kernels."""
    if not times_s.size:
        return 0.0
    remaining_s = np.cumsum(times_s[::-1])[::-1]
    return float((np.cumsum(launches_s) + remaining_s).max())


def one_launch_gain_s(program: StepProgram) -> float:
    """The seconds saved if one launch started all kernels, as in a compiled step."""
    launches_s = np.zeros_like(program.launches_s)
    launches_s[:1] = program.launches_s.max(initial=0.0)
    return program.total_s - _total_s(program.times_s, launches_s)


def operation_gain_s(program: StepProgram, operation: str, launches: int = 0) -> float:
    """The seconds saved if the kernels of an operation took no time and `launches` launches."""
    is_operation = np.array([row.operation == operation for row in program.kernels], np.bool_)
    is_operation = is_operation[np.asarray(program.order, dtype=np.int64)]
    number = int(np.count_nonzero(is_operation & (program.launches_s > 0)))
    launch_share = np.where(is_operation, min(launches / max(number, 1), 1.0), 1.0)
    times_s = np.where(is_operation, 0.0, program.times_s)
    return program.total_s - _total_s(times_s, program.launches_s * launch_share)


def step_gains(program: StepProgram) -> list[StepGain]:
    """Gains of changes, each timed again, the largest first; those without a gain are left out.

    One launch for all kernels, a host or a device twice as fast, and each of the longest operations
    with its launches at no cost. Time that the other side hides gains nothing. Gains do not add up.
    """
    times_s, launches_s, total_s = program.times_s, program.launches_s, program.total_s
    gains = [
        StepGain(
            "one launch for all kernels (the step compiled, its kernels as they are)",
            one_launch_gain_s(program),
        ),
        StepGain("the host twice as fast", total_s - _total_s(times_s, launches_s / 2)),
        StepGain("the device twice as fast", total_s - _total_s(times_s / 2, launches_s)),
        *(
            StepGain(f"{name} for nothing", operation_gain_s(program, name))
            for name in _longest_operations(program)
        ),
    ]
    least_s = total_s * np.finfo(np.float64).eps * len(times_s)
    return sorted((row for row in gains if row.gain_s > least_s), key=lambda row: -row.gain_s)


def _longest_operations(program: StepProgram) -> list[str]:
    """The operations whose kernels and launches take longest together."""
    operation_s: dict[str, float] = defaultdict(float)
    order = np.asarray(program.order, dtype=np.int64)
    counts = np.bincount(order, minlength=len(program.kernels))
    for kernel, count in zip(program.kernels, counts.tolist(), strict=True):
        operation_s[kernel.operation] += count * (kernel.time_s + kernel.launch_s)
    return sorted(operation_s, key=lambda name: -operation_s[name])[:_MOST_TRIED_OPERATIONS]


def _kernel(row: Mapping[str, Any]) -> StepKernel:
    for name in _NAMES:
        if not isinstance(row[name], str):
            raise ValueError(  # noqa: TRY004  a value of the file
                f"{name} of a kernel is {row[name]!r}; legal: text"
            )
    for name in _TIMES:
        time_s = row[name]
        is_number = isinstance(time_s, int | float) and not isinstance(time_s, bool)
        if not is_number or not 0 <= time_s <= _LONGEST_S:
            raise ValueError(f"{name} of a kernel is {time_s!r}; legal: seconds, 0 or more")
    return StepKernel(*(row[name] for name in (*_NAMES, *_TIMES)))


def _whole_numbers(name: str, values: Any, limit: int) -> list[int]:
    """Whole numbers from 0 to `limit`."""
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
            legal = (
                f"whole numbers from 0 to {limit}" if limit >= 0 else "none, as it has no kernels"
            )
            raise ValueError(f"{name} of program has {value!r}; legal: {legal}")
    return list(values)
