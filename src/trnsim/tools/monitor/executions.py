"""Executions, errors and latencies of programs, from one report of neuron-monitor to the next.

A report counts one period; these are the sums of such counts for each tag, in each pod where pods
are shown. They grow as long as any program with the tag runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.tools.monitor.metrics import METRICS, Series, gauge, joined
from trnsim.tools.monitor.pod_labels import PodLabels

_Key = tuple[tuple[str, str], ...]
"""The labels of a tag: its own, and those of its pod."""


_NO_PODS: Final = PodLabels()


@dataclass
class _Tag:
    """Counts and latencies of the programs of a tag.

    Attributes:
        since_s: time of the first report with one of them, seconds since 1970.
        measured: by pid, the group of the last report.
        latency_s: by pid, the last latencies by percentile.
    """

    since_s: float
    by_status: Counter[str] = field(default_factory=Counter[str])
    by_error: Counter[str] = field(default_factory=Counter[str])
    measured: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    latency_s: dict[int, Mapping[str, float]] = field(
        default_factory=dict[int, Mapping[str, float]]
    )

    def add(self, pid: int, group: Mapping[str, Any]) -> None:
        """Add a program's group; a group that a report repeats counts once."""
        # The period of a group, in nanoseconds, tells a new measurement from a repeated one.
        if self.measured.get(pid) != group:
            self.measured[pid] = group
            self.by_status.update(group["execution_summary"])
            self.by_error.update(group["error_summary"])
        # As with AWS's script, the last latencies stay while nothing is executed.
        self.latency_s[pid] = (
            group["latency_stats"]["total_latency"] or self.latency_s.get(pid) or {}
        )

    def keep(self, pids: set[int]) -> None:
        """Forget the latencies of programs that have ended; their counts stay."""
        self.measured = {pid: group for pid, group in self.measured.items() if pid in pids}
        self.latency_s = {pid: latency for pid, latency in self.latency_s.items() if pid in pids}


@dataclass
class Executions:
    """The executions of all tags."""

    _tags: dict[_Key, _Tag] = field(default_factory=dict[_Key, _Tag])

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
            group = program["report"].get("execution_stats", {})
            if "execution_summary" in group:
                counts = self._tags.setdefault(_key(program, pods), _Tag(now_s))
                counts.add(program["pid"], group)

    def series(self) -> Iterator[Series]:
        """Counts and latencies of each tag."""
        for key, counts in self._tags.items():
            tag = dict(key)
            yield from _counter(
                "execution_status", "status_type", counts.by_status, tag, counts.since_s
            )
            yield from _counter(
                "execution_errors", "error_type", counts.by_error, tag, counts.since_s
            )
            yield from joined(
                gauge("execution_latency_seconds", {"percentile": name, **tag}, value)
                for percentiles in counts.latency_s.values()
                for name, value in percentiles.items()
            )


def _key(program: Mapping[str, Any], pods: PodLabels) -> _Key:
    return (("runtime_tag", program["neuron_runtime_tag"]), *pods.of_program(program).items())


def _counter(
    name: str, label: str, counts: Mapping[str, int], tag: Mapping[str, str], since_s: float
) -> Iterator[Series]:
    for kind, count in counts.items():
        yield Series(METRICS[name], {label: kind, **tag}, count, since_s)
