"""Executions, errors and latencies of programs, summed over the reports of neuron-monitor.

A report has the counts of one period. A sum is that of all programs with a tag, in the same pod if
pods are shown, and grows until the last of these programs has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.tools.monitor.metrics import METRICS, Series, gauge, join_gauges
from trnsim.tools.monitor.pod_labels import PodLabels

_Key = tuple[tuple[str, str], ...]
"""Labels of a sum: the tag of its programs, and the labels of their pod where pods are shown."""
_NO_PODS: Final = PodLabels()


@dataclass
class _TagCounts:
    """Counts and latencies of the programs with a tag.

    Attributes:
        since_s: time of the first report of such a program, seconds since 1970.
        by_status: executions by status.
        by_error: errors by type.
        last_stats: the statistics of the last report, by pid.
        latency_s: the last latencies by pid and percentile, seconds.
    """

    since_s: float
    by_status: Counter[str] = field(default_factory=Counter[str])
    by_error: Counter[str] = field(default_factory=Counter[str])
    last_stats: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    latency_s: dict[int, Mapping[str, float]] = field(
        default_factory=dict[int, Mapping[str, float]]
    )

    def add(self, pid: int, stats: Mapping[str, Any]) -> None:
        """Add a program's ``execution_stats``; statistics that a report repeats count once."""
        # Statistics have their period in nanoseconds, so equal ones are the same measurement.
        if self.last_stats.get(pid) != stats:
            self.last_stats[pid] = stats
            self.by_status.update(stats["execution_summary"])
            self.by_error.update(stats["error_summary"])
        # As with AWS's script, the last latencies stay while nothing is executed.
        self.latency_s[pid] = (
            stats["latency_stats"]["total_latency"] or self.latency_s.get(pid) or {}
        )

    def keep(self, pids: set[int]) -> None:
        """Forget the latencies of programs other than `pids`; their counts stay."""
        self.last_stats = {pid: stats for pid, stats in self.last_stats.items() if pid in pids}
        self.latency_s = {pid: latency for pid, latency in self.latency_s.items() if pid in pids}


@dataclass
class Executions:
    """The executions of all tags."""

    _tags: dict[_Key, _TagCounts] = field(default_factory=dict[_Key, _TagCounts])

    def add(
        self, programs: Sequence[Mapping[str, Any]], now_s: float, pods: PodLabels = _NO_PODS
    ) -> None:
        """Add the programs of a report, and forget tags that have none any more.

        Args:
            programs: entries of ``neuron_runtime_data``.
            now_s: the host's clock, seconds since 1970.
            pods: labels of their pods.
        """
        pids: dict[_Key, set[int]] = {}
        for program in programs:
            pids.setdefault(_key(program, pods), set()).add(program["pid"])
        self._tags = {tag: counts for tag, counts in self._tags.items() if tag in pids}
        for tag, counts in self._tags.items():
            counts.keep(pids[tag])
        for program in programs:
            stats = program["report"].get("execution_stats", {})
            if "execution_summary" in stats:
                counts = self._tags.setdefault(_key(program, pods), _TagCounts(now_s))
                counts.add(program["pid"], stats)

    def series(self) -> Iterator[Series]:
        """Counts and latencies of each tag."""
        for key, counts in self._tags.items():
            tag = dict(key)
            yield from _counters(
                "execution_status", "status_type", counts.by_status, tag, counts.since_s
            )
            yield from _counters(
                "execution_errors", "error_type", counts.by_error, tag, counts.since_s
            )
            yield from join_gauges(
                gauge("execution_latency_seconds", {"percentile": name, **tag}, value)
                for percentiles in counts.latency_s.values()
                for name, value in percentiles.items()
            )


def _key(program: Mapping[str, Any], pods: PodLabels) -> _Key:
    return (("runtime_tag", program["neuron_runtime_tag"]), *pods.of_program(program).items())


def _counters(
    name: str, label: str, counts: Mapping[str, int], tag: Mapping[str, str], since_s: float
) -> Iterator[Series]:
    for kind, count in counts.items():
        yield Series(METRICS[name], {label: kind, **tag}, count, since_s)
