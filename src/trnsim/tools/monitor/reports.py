"""Reports of neuron-monitor: each group measured when its period has passed, all in each report.

A group that cannot be measured says why in its field `error`, and is tried again. A program that
ends is in no later report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trnsim.arch import makes_pairs
from trnsim.instance.model import runs_on
from trnsim.tools.monitor import groups, host
from trnsim.tools.neuron_ls import INSTANCE_ID

if TYPE_CHECKING:
    from trnsim.instance.model import InstanceModel
    from trnsim.instance.state.record import Record
    from trnsim.tools.monitor.config import Config, Group

_EARLY_S: Final = 0.005
"""A group that is due within this time is measured with those that are due now."""

Ecc = Callable[[int], "Sequence[Mapping[str, int]]"]
"""Memory errors by kind of each of so many devices, since the state began."""


@dataclass
class _Kept:
    """What was measured last of one group.

    Attributes:
        at_s: when.
        due_s: when it is measured again.
        source: from what, where the next is a difference to it.
        shown: its fields in a report.
    """

    at_s: float
    due_s: float
    source: Any
    shown: dict[str, Any]


@dataclass
class Monitor:
    """The reports of one instance.

    Attributes:
        records: the records of all programs that run now.
        model: the instance, from these records.
        ecc: memory errors so far.
        clock: seconds that only grow.
    """

    config: Config
    records: Callable[[], list[Record]]
    model: Callable[[list[Record]], InstanceModel]
    ecc: Ecc
    clock: Callable[[], float] = time.monotonic
    _system: dict[str, _Kept] = field(default_factory=dict[str, _Kept])
    _programs: dict[tuple[int, str], dict[str, _Kept]] = field(
        default_factory=dict[tuple[int, str], dict[str, _Kept]]
    )

    def report(self) -> dict[str, Any]:
        """A report now, in which the groups that are due are measured anew."""
        now_s, records = self.clock(), self.records()
        model = self.model(records)
        alive = {(one.pid, one.start_time): one for one in records}
        self._programs = {key: kept for key, kept in self._programs.items() if key in alive}
        shown = [self._program(one, model, now_s) for one in records]
        runs = runs_on(model.chip)
        has_pairs = runs is not None and makes_pairs(runs.core)
        return {
            "neuron_runtime_data": [one for one in shown if one],
            "system_data": self._system_data(model, now_s),
            "instance_info": groups.instance_info(model, INSTANCE_ID),
            "neuron_hardware_info": groups.hardware_info(model, has_pairs=has_pairs),
        }

    def stream(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[dict[str, Any]]:
        """A report whenever a group is due, the first at once, without an end."""
        while True:
            began_s = self.clock()
            yield self.report()
            sleep(max(0.0, self._next_s(began_s) - self.clock()))

    def _next_s(self, began_s: float) -> float:
        """When a group is due; programs that begin are looked for once in the shortest period."""
        tables = [self._system, *self._programs.values()]
        due = [kept.due_s for table in tables for kept in table.values()]
        return min([*due, began_s + self.config.shortest_s])

    def _program(self, record: Record, model: InstanceModel, now_s: float) -> dict[str, Any] | None:
        asked = self.config.of(record.tag)
        if not asked:
            return None
        kept = self._programs.setdefault((record.pid, record.start_time), {})
        for group in _due(asked, kept, now_s):
            kept[group.name] = _measured(_PROGRAM[group.name], record, model, kept, group, now_s)
        return {
            "pid": record.pid,
            "address": "",
            "neuron_runtime_tag": record.tag,
            "error": "",
            "report": {group.name: kept[group.name].shown for group in asked},
        }

    def _system_data(self, model: InstanceModel, now_s: float) -> dict[str, Any]:
        for group in _due(self.config.system, self._system, now_s):
            before = self._system.get(group.name)
            source, shown = self._system_group(group.name, model, before)
            period_s = now_s - before.at_s if before else group.period_s
            self._system[group.name] = _Kept(
                now_s, now_s + group.period_s, source, _framed(period_s, shown)
            )
        return {group.name: self._system[group.name].shown for group in self.config.system}

    def _system_group(
        self, name: str, model: InstanceModel, before: _Kept | None
    ) -> tuple[Any, dict[str, Any]]:
        """What a group is measured from, and its fields."""
        try:
            if name == "vcpu_usage":
                counted = host.counters()
                return counted, host.vcpu_usage(counted, before.source if before else None)
            if name == "memory_info":
                return None, host.memory_info()
        except host.Unknown as error:
            return None, {"error": str(error)}
        counts = self.ecc(len(model.devices))
        devices = [{"neuron_device_index": index, **one} for index, one in enumerate(counts)]
        return None, {"neuron_devices": devices}


def _due(asked: Sequence[Group], kept: dict[str, _Kept], now_s: float) -> list[Group]:
    """The groups whose period has passed, or that were never measured."""
    return [
        one for one in asked if one.name not in kept or now_s >= kept[one.name].due_s - _EARLY_S
    ]


def _measured(
    measure: _Measure,
    record: Record,
    model: InstanceModel,
    kept: dict[str, _Kept],
    group: Group,
    now_s: float,
) -> _Kept:
    before = kept.get(group.name)
    period_s = now_s - before.at_s if before else group.period_s
    try:
        source, shown = measure(record, before, model, period_s)
    except host.Unknown as error:
        source, shown = before.source if before else None, {"error": str(error)}
    return _Kept(now_s, now_s + group.period_s, source, _framed(period_s, shown))


def _framed(period_s: float, shown: dict[str, Any]) -> dict[str, Any]:
    """A group as a report has it: its period first, its error last."""
    return {"period": round(period_s, 9), **shown, "error": shown.get("error", "")}


def _counters(
    record: Record, before: _Kept | None, model: InstanceModel, _: float
) -> tuple[Any, dict[str, Any]]:
    return record, groups.neuroncore_counters(record, before.source if before else None, model)


def _memory(record: Record, *_: object) -> tuple[Any, dict[str, Any]]:
    return record, groups.memory_used(record)


def _executions(record: Record, before: _Kept | None, *_: object) -> tuple[Any, dict[str, Any]]:
    return record, groups.execution_stats(record, before.source if before else None)


def _vcpu(
    record: Record, before: _Kept | None, _: InstanceModel, period_s: float
) -> tuple[Any, dict[str, Any]]:
    now = host.process_seconds(record.pid)
    earlier = before.source if before and before.source else now
    return now, host.process_percent(now, earlier, period_s)


_Measure = Callable[["Record", "_Kept | None", "InstanceModel", float], tuple[Any, dict[str, Any]]]
_PROGRAM: Final[dict[str, _Measure]] = {
    "neuroncore_counters": _counters,
    "memory_used": _memory,
    "execution_stats": _executions,
    "neuron_runtime_vcpu_usage": _vcpu,
}
