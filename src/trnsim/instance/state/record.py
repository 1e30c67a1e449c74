"""The record of a process: cores, memory, busy time, executions, errors.

Counts and times add up from the start of the process; a reader takes differences. Times of the
device are estimates: busy time by engine, and elapsed time on the device's own clock.

Names are neuron-monitor's, source: aws-neuron-sdk
tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import isfinite
from typing import Any, Final

from trnsim.document.values import json_line

TOOLS: Final = ("kernel", "torch", "jax", "server")
STATUSES: Final = (
    "completed",
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)
ERRORS: Final = ("generic", "numerical", "transient", "model", "runtime", "hardware")
MEMORY: Final = ("tensors", "constants", "model_code", "model_shared_scratchpad", "runtime_memory")
"""Categories of a core's device memory."""
HOST_MEMORY: Final = ("application_memory", "constants", "dma_buffers", "tensors")
ENGINES: Final = ("pe", "vector", "scalar", "gpsimd", "sync", "dma")
PERCENTILES: Final = {
    "p0": 0.0, "p1": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p99": 0.99, "p100": 1.0,
}  # fmt: skip
"""neuron-monitor's names of percentiles, as shares of the sorted values."""

Table = Mapping[str, float]


@dataclass(frozen=True)
class LoadedModel:
    """A program that is loaded on a core.

    Attributes:
        number: its number among the models that the process has loaded, from 1.
        core: number of the logical core, on the instance.
        constant_bytes: arrays that are part of it.
        is_running: whether it is known to run now.
    """

    number: int
    name: str
    core: int
    constant_bytes: int
    is_running: bool


@dataclass(frozen=True)
class ProcessRecord:
    """The state of a process.

    Attributes:
        start_time: its start time (`identity.start_time`).
        tool: the kind of program, one of `TOOLS`.
        tag: NEURON_PROCESS_TAG, or else the pid.
        lnc: physical cores in a logical one.
        cores: numbers of the logical cores that it uses, on the instance.
        updated_at: the host's clock when it was written, seconds since 1970.
        memory_bytes: by core, the bytes of each category of `MEMORY`.
        host_bytes: bytes of the host's memory by category of `HOST_MEMORY`.
        busy_s: by core, estimated busy seconds of each engine of `ENGINES`.
        elapsed_s: by core, estimated seconds on the device's clock.
        flop: by core, floating-point operations of matrix products.
        executions: executions by status.
        errors: errors by kind.
        total_latency_s: percentiles of recent executions, launch included; {} where none ran.
        device_latency_s: the same without the launch, on the device.
        latencies: a histogram of all executions: seconds with the launch, seconds on the device
            alone, and their number; seconds to three digits.
        models: the programs that are loaded now.
        loads: by core, number of programs loaded so far.
    """

    pid: int
    start_time: str
    command: str
    tool: str
    tag: str
    instance: str
    lnc: int
    cores: tuple[int, ...]
    updated_at: float
    memory_bytes: Mapping[int, Table] = field(default_factory=dict[int, Table])
    host_bytes: Table = field(default_factory=dict[str, float])
    busy_s: Mapping[int, Table] = field(default_factory=dict[int, Table])
    elapsed_s: Mapping[int, float] = field(default_factory=dict[int, float])
    flop: Mapping[int, float] = field(default_factory=dict[int, float])
    executions: Table = field(default_factory=dict[str, float])
    errors: Table = field(default_factory=dict[str, float])
    total_latency_s: Table = field(default_factory=dict[str, float])
    device_latency_s: Table = field(default_factory=dict[str, float])
    latencies: tuple[tuple[float, float, float], ...] = ()
    models: tuple[LoadedModel, ...] = ()
    loads: Mapping[int, float] = field(default_factory=dict[int, float])

    def utilization(
        self, core: int, engine: str = "", before: ProcessRecord | None = None
    ) -> float:
        """Estimated busy time over estimated elapsed time of a core, 0 to 1.

        Args:
            core: number of the logical core.
            engine: one engine; the busiest where it is "".
            before: an earlier record of the same process; the difference counts.
        """
        elapsed_s = self.elapsed_s.get(core, 0.0)
        busy_s = dict(self.busy_s.get(core, {}))
        if before is not None:
            elapsed_s -= before.elapsed_s.get(core, 0.0)
            earlier_busy_s = before.busy_s.get(core, {})
            busy_s = {
                name: time_s - earlier_busy_s.get(name, 0.0) for name, time_s in busy_s.items()
            }
        most_s = busy_s.get(engine, 0.0) if engine else max(busy_s.values(), default=0.0)
        return min(max(most_s / elapsed_s, 0.0), 1.0) if elapsed_s > 0 else 0.0


def percentiles(counts: Mapping[float, int]) -> dict[str, float]:
    """neuron-monitor's percentiles (nearest rank) of values with their counts; {} for none."""
    ordered_times = sorted(counts)
    ends = list(accumulate(counts[value] for value in ordered_times))
    last_index = ends[-1] - 1 if ends else -1
    return {
        name: ordered_times[bisect_right(ends, round(share * last_index))]
        for name, share in PERCENTILES.items()
        if ends
    }


def latency_percentiles(
    record: ProcessRecord, before: ProcessRecord | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Percentiles of latencies with the launch, and on the device alone; {} where nothing ran.

    Args:
        record: the record of a process.
        before: an earlier one of it; executions since then count.
    """
    counts = Counter({(total_s, device_s): count for total_s, device_s, count in record.latencies})
    if before is not None:
        counts.subtract({(total_s, own_s): count for total_s, own_s, count in before.latencies})
    total_counts, device_counts = Counter[float](), Counter[float]()
    for (total_s, device_s), count in (+counts).items():
        total_counts[total_s] += int(count)
        device_counts[device_s] += int(count)
    return percentiles(total_counts), percentiles(device_counts)


def to_json(record: ProcessRecord) -> str:
    """The record as a line of JSON."""
    return json_line(record) + "\n"


def from_json(text: str | bytes) -> ProcessRecord:
    """The record that `to_json` wrote.

    Raises:
        ValueError: it is cut off, or no record.
    """
    row = json.loads(text)
    try:
        return ProcessRecord(
            pid=_read_whole(row["pid"]),
            start_time=_read_text(row["start_time"]),
            command=_read_text(row["command"]),
            tool=_read_text(row["tool"]),
            tag=_read_text(row["tag"]),
            instance=_read_text(row["instance"]),
            lnc=_read_lnc(row["lnc"]),
            cores=tuple(map(_read_whole, row["cores"])),
            updated_at=_read_number(row["updated_at"]),
            memory_bytes=_read_tables(row["memory_bytes"]),
            host_bytes=_read_table(row["host_bytes"]),
            busy_s=_read_tables(row["busy_s"]),
            elapsed_s=_read_numbers(row["elapsed_s"]),
            flop=_read_numbers(row["flop"]),
            executions=_read_table(row["executions"]),
            errors=_read_table(row["errors"]),
            total_latency_s=_read_table(row["total_latency_s"]),
            device_latency_s=_read_table(row["device_latency_s"]),
            latencies=tuple(map(_read_latency, row["latencies"])),
            models=tuple(map(_read_model, row["models"])),
            loads=_read_numbers(row["loads"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no record: {error!r}") from error


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        # No exporter could send bytes of a command line or a tag that are no UTF-8.
        return value.encode("utf-8", "replace").decode("utf-8")
    raise ValueError(f"{value!r} is no text")


def _read_number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return value
    raise ValueError(f"{value!r} is no number")


def _read_whole(value: Any) -> int:
    if type(value) is int and value >= 0:
        return value
    raise ValueError(f"{value!r} is no whole number")


def _read_lnc(value: Any) -> int:
    if type(value) is int and value in (1, 2):
        return value
    raise ValueError(f"{value!r} is no number of physical cores in a logical one")


def _read_latency(row: Any) -> tuple[float, float, float]:
    total_s, device_s, count = map(_read_number, row)
    return total_s, device_s, count


def _read_model(row: Any) -> LoadedModel:
    return LoadedModel(
        _read_whole(row["number"]),
        _read_text(row["name"]),
        _read_whole(row["core"]),
        _read_whole(row["constant_bytes"]),
        is_running=row["is_running"] is True,
    )


def _read_table(row: Any) -> dict[str, float]:
    return {_read_text(name): _read_number(value) for name, value in row.items()}


def _read_numbers(row: Any) -> dict[int, float]:
    return {int(core): _read_number(value) for core, value in row.items()}


def _read_tables(row: Any) -> dict[int, Table]:
    return {int(core): _read_table(table) for core, table in row.items()}
