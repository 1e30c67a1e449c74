"""Reports of neuron-monitor: each has all groups, measured when their periods have passed.

A group that cannot be measured has the reason in its field `error`, and is tried again. A program
that has ended is in no later report.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.instance import INSTANCE_ID
from trnsim.instance.model import InstanceModel
from trnsim.instance.state.record import ProcessRecord
from trnsim.tools.monitor import groups, host
from trnsim.tools.monitor.config import Config, MetricGroup
from trnsim.tools.monitor.periods import early_s, end_s

_FIRST_S: Final = 0.1
"""Length of the period that the first report counts."""

Ecc = Callable[[int], "Sequence[Mapping[str, int]]"]
"""Function from a number of devices to each device's memory errors so far, by kind."""


@dataclass
class _Sample:
    """The last measurement of one group.

    Attributes:
        measured_s: the clock's time of the measurement.
        due_s: the clock's time of the next measurement.
        counts: counts from which the fields were computed; None if the next sample needs none.
    """

    measured_s: float
    due_s: float
    counts: Any
    fields: dict[str, Any]


@dataclass
class Monitor:
    """The reports of one instance.

    Attributes:
        records: returns the records of all programs that run now.
        model: function from these records to the state of the instance.
        ecc: returns the memory errors of devices so far.
        pods: returns the object ``neuron_k8s_info`` of a report; None for a report without one.
        clock: returns the seconds of a clock that never goes back.
    """

    config: Config
    records: Callable[[], list[ProcessRecord]]
    model: Callable[[list[ProcessRecord]], InstanceModel]
    ecc: Ecc
    clock: Callable[[], float] = time.monotonic
    pods: Callable[[], dict[str, Any] | None] = lambda: None
    _system: dict[str, _Sample] = field(default_factory=dict[str, _Sample])
    _programs: dict[tuple[int, str], dict[str, _Sample]] = field(
        default_factory=dict[tuple[int, str], dict[str, _Sample]]
    )
    _start_s: float | None = None
    _last_report_s: float | None = None

    def report(self) -> dict[str, Any]:
        """A report in which the groups that are due are measured anew.

        The first report counts the programs' work since they began.
        """
        now_s, records = self.clock(), self.records()
        self._start_s = now_s if self._start_s is None else self._start_s
        model = self.model(records)
        alive = {(record.pid, record.start_time): record for record in records}
        self._programs = {key: sample for key, sample in self._programs.items() if key in alive}
        programs = [self._program_data(record, model, now_s) for record in records]
        system = self._system_data(model, now_s)
        self._last_report_s = now_s
        pods = self.pods()
        return {
            "neuron_runtime_data": [program for program in programs if program],
            "system_data": system,
            "instance_info": groups.instance_info(model, INSTANCE_ID),
            "neuron_hardware_info": groups.hardware_info(model),
            **({} if pods is None else {"neuron_k8s_info": pods}),
        }

    def stream(
        self, sleep: Callable[[float], None] = time.sleep, *, is_whole: bool = False
    ) -> Iterator[dict[str, Any]]:
        """The reports without an end, one each time that a group of metrics is due.

        The first report counts the programs' work of the `_FIRST_S` before it; with `is_whole`, all
        of their work.
        """
        if not is_whole:
            self.report()
            self._start_s = None  # periods count from the next report, in which all groups are due
            for sample in self._samples():
                sample.due_s = -math.inf
            sleep(_FIRST_S)
        while True:
            yield self.report()
            sleep(max(0.0, self._next_s() - self.clock()))

    def _samples(self) -> Iterator[_Sample]:
        for table in (self._system, *self._programs.values()):
            yield from table.values()

    def _next_s(self) -> float:
        """Time when a group is due; new programs are looked for once in the shortest period."""
        looked_s = self.clock() if self._last_report_s is None else self._last_report_s
        due_s = [sample.due_s for sample in self._samples()]
        return min([*due_s, self._due_s(looked_s, self.config.shortest_s)])

    def _due_s(self, now_s: float, period_s: float) -> float:
        return end_s(now_s, now_s if self._start_s is None else self._start_s, period_s)

    def _program_data(
        self, record: ProcessRecord, model: InstanceModel, now_s: float
    ) -> dict[str, Any] | None:
        own_groups = self.config.groups_of(record.tag)
        if not own_groups:
            return None
        samples = self._programs.setdefault((record.pid, record.start_time), {})
        for group in _due_groups(own_groups, samples, now_s):
            samples[group.name] = self._measure(
                record, model, samples.get(group.name), group, now_s
            )
        return {
            "pid": record.pid,
            "address": "",
            "neuron_runtime_tag": record.tag,
            "error": "",
            "report": {group.name: samples[group.name].fields for group in own_groups},
        }

    def _measure(
        self,
        record: ProcessRecord,
        model: InstanceModel,
        before: _Sample | None,
        group: MetricGroup,
        now_s: float,
    ) -> _Sample:
        period_s = self._period_s(before, group, now_s)
        try:
            counts, fields = _program_group(group.name, record, before, model, period_s)
        except host.UnknownValue as error:
            counts, fields = before.counts if before else None, {"error": str(error)}
        due_s = self._due_s(now_s, group.period_s)
        return _Sample(now_s, due_s, counts, _group_fields(period_s, fields))

    def _period_s(self, before: _Sample | None, group: MetricGroup, now_s: float) -> float:
        """Seconds since the group was measured; for a new program, since the last report."""
        since_s = before.measured_s if before else self._last_report_s
        return group.period_s if since_s is None else now_s - since_s

    def _system_data(self, model: InstanceModel, now_s: float) -> dict[str, Any]:
        for group in _due_groups(self.config.system, self._system, now_s):
            before = self._system.get(group.name)
            counts, fields = self._system_group(group.name, model, before)
            fields_of_group = _group_fields(self._period_s(before, group, now_s), fields)
            due_s = self._due_s(now_s, group.period_s)
            self._system[group.name] = _Sample(now_s, due_s, counts, fields_of_group)
        return {group.name: self._system[group.name].fields for group in self.config.system}

    def _system_group(
        self, name: str, model: InstanceModel, before: _Sample | None
    ) -> tuple[Any, dict[str, Any]]:
        """The counts from which a group is computed, and its fields."""
        try:
            if name == "vcpu_usage":
                counts = host.counters()
                return counts, host.vcpu_usage(counts, before.counts if before else None)
            if name == "memory_info":
                return None, host.memory_info()
        except host.UnknownValue as error:
            return None, {"error": str(error)}
        errors = self.ecc(len(model.devices))
        devices = [{"neuron_device_index": index, **ecc} for index, ecc in enumerate(errors)]
        return None, {"neuron_devices": devices}


def _due_groups(
    candidates: Sequence[MetricGroup], samples: dict[str, _Sample], now_s: float
) -> list[MetricGroup]:
    """The groups whose period has passed, or that were never measured."""
    return [
        group
        for group in candidates
        if group.name not in samples or now_s >= samples[group.name].due_s - early_s(group.period_s)
    ]


def _group_fields(period_s: float, fields: dict[str, Any]) -> dict[str, Any]:
    """A group as a report has it: its period first, its error last."""
    return {"period": round(period_s, 9), **fields, "error": fields.get("error", "")}


def _program_group(
    name: str, record: ProcessRecord, before: _Sample | None, model: InstanceModel, period_s: float
) -> tuple[Any, dict[str, Any]]:
    """The counts from which a group of a program is computed, and its fields."""
    previous_counts = before.counts if before else None
    if name == "neuroncore_counters":
        return record, groups.neuroncore_counters(record, previous_counts, model)
    if name == "memory_used":
        return record, groups.memory_used(record, model)
    if name == "execution_stats":
        return record, groups.execution_stats(record, previous_counts)
    now = host.process_seconds(record.pid)
    return now, host.process_percent(now, previous_counts or now, period_s)
