"""The values of the counters in sysfs, from the state of the processes on the instance.

Values that a process does not give by core belong to its first core, and values of a logical core
to the first of its physical cores, so that sums over cores and devices equal the sums of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from trnsim.instance.model import InstanceModel
from trnsim.instance.shell.sysfs import ECC_FILES, core_folder, device_folder
from trnsim.instance.state.hardware import StoredFault, counters
from trnsim.instance.state.record import ProcessRecord

_SYSFS_STATUSES: Final = {
    "completed": "success",
    "completed_with_err": "infer_completed_with_error",
    "completed_with_num_err": "infer_completed_with_num_error",
    "timed_out": "timeout",
    "incorrect_input": "exec_bad_input",
    "failed_to_queue": "infer_failed_to_queue",
}
"""sysfs's names of statuses of executions, by neuron-monitor's."""
_SYSFS_ERRORS: Final = {"generic": "generic_error", "hardware": "hw_error"}
_US_PER_S: Final = 1e6


def counts_of(record: ProcessRecord, model: InstanceModel) -> Counter[str]:
    """Counts of a process since it began, by counter; they stay when the process ends."""
    counts: Counter[str] = Counter()
    if not record.cores:
        return counts
    first_folder = _folder(record.cores[0], record.lnc, model)
    for table, names in ((record.executions, _SYSFS_STATUSES), (record.errors, _SYSFS_ERRORS)):
        for status, name in names.items():
            counts[f"{first_folder}/stats/status/{name}"] += int(table.get(status, 0))
    counts[f"{first_folder}/stats/other_info/inference_count"] += int(
        record.executions.get("completed", 0)
    )
    for core, flop in record.flop.items():
        counts[f"{_folder(core, record.lnc, model)}/stats/other_info/flop_count"] += int(flop)
    for core, number in record.loads.items():
        loads = f"{_folder(core, record.lnc, model)}/stats/other_info/model_load_count"
        counts[loads] += int(number)
    return +counts


def errors_of(faults: Iterable[StoredFault], model: InstanceModel) -> Counter[str]:
    """Injected errors of the devices' memories, by counter."""
    return Counter(
        {
            f"{device_folder(device)}/stats/hardware/{name}": count
            for device, row in enumerate(counters(faults, len(model.devices)))
            for name, count in row.items()
            if count and name in ECC_FILES
        }
    )


def levels_of(records: Iterable[ProcessRecord], model: InstanceModel) -> Counter[str]:
    """Current levels of processes, by counter: bytes, and median device times of executions."""
    levels: Counter[str] = Counter()
    for record in records:
        for core, table in record.memory_bytes.items():
            memory = f"{_folder(core, record.lnc, model)}/stats/memory_usage/device_mem"
            for category, size in table.items():
                levels[f"{memory}/{category}"] += int(size)
                levels[memory] += int(size)
        if record.cores:
            first_folder = _folder(record.cores[0], record.lnc, model)
            device = first_folder.partition("/")[0]
            for category, size in record.host_bytes.items():
                levels[f"{device}/stats/memory_usage/host_mem/{category}"] += int(size)
                levels[f"{first_folder}/stats/memory_usage/host_mem"] += int(size)
            time_us = int(record.device_latency_s.get("p50", 0.0) * _US_PER_S)
            levels[f"{first_folder}/stats/other_info/nc_time_in_use"] += time_us
    return +levels


def _folder(core: int, lnc: int, model: InstanceModel) -> str:
    """The folder of the first physical core of a logical one."""
    device, device_core = divmod(core * lnc, model.devices[0].cores * model.lnc)
    return core_folder(device, device_core)


@dataclass
class _CounterValue:
    """The values of a counter's files, each of which a program can set to 0 by itself."""

    total: int = 0
    present: int = 0
    peak: int = 0

    def change(self, difference: int) -> None:
        self.total = max(self.total + difference, 0)
        self.present = abs(difference)
        self.peak = max(self.peak, self.total)


class Counters:
    """The counters of an instance, updated from successive states of it."""

    def __init__(self, model: InstanceModel) -> None:
        self._model = model
        self._ended_counts: Counter[str] = Counter()
        self._counts: dict[tuple[int, str], Counter[str]] = {}
        self._last_counts: Counter[str] = Counter()
        self._shown_values: dict[str, _CounterValue] = {}

    def update(
        self, records: Iterable[ProcessRecord], faults: Iterable[StoredFault] = ()
    ) -> set[str]:
        """Update from the current state and all faults so far; the counters that changed."""
        own_records = [record for record in records if record.instance == self._model.name]
        counts = {
            (record.pid, record.start_time): counts_of(record, self._model)
            for record in own_records
        }
        for process in self._counts.keys() - counts.keys():
            self._ended_counts += self._counts[process]
        self._counts = counts
        totals = (
            self._ended_counts
            + levels_of(own_records, self._model)
            + errors_of(faults, self._model)
        )
        for process_counts in counts.values():
            totals += process_counts
        changed_names = {
            name for name in totals | self._last_counts if totals[name] != self._last_counts[name]
        }
        for name in changed_names:
            self._shown_values.setdefault(name, _CounterValue()).change(
                totals[name] - self._last_counts[name]
            )
        self._last_counts = totals
        return changed_names

    def values(self, counter: str) -> Mapping[str, int]:
        """The values of a counter's files, by name; a plain file has the total."""
        shown_value = self._shown_values.get(counter, _CounterValue())
        return {
            "total": shown_value.total,
            "present": shown_value.present,
            "peak": shown_value.peak,
        }

    def clear(self, counter: str, file: str) -> None:
        """Set one file of a counter to 0."""
        setattr(self._shown_values.setdefault(counter, _CounterValue()), file, 0)

    def reset(self, device: int) -> set[str]:
        """Count the request to reset a device; the counters that changed."""
        cores = self._model.devices[device].cores * self._model.lnc
        names = {
            f"{core_folder(device, core)}/stats/other_info/reset_req_count" for core in range(cores)
        }
        for name in names:
            self._ended_counts[name] += 1
            self._last_counts[name] += 1
            self._shown_values.setdefault(name, _CounterValue()).change(1)
        return names
