"""neuron-monitor's messages about its own work on the standard error, level 0 (none) to 4.

Levels are those of the option ``--verbose`` on aws-neuron-sdk
tools/neuron-sys-tools/neuron-monitor-user-guide.rst, which leaves their contents open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_LEVEL: Final = 4
_ERRORS, _PROGRAMS, _REPORTS, _PERIODS = range(1, MOST_LEVEL + 1)


@dataclass
class MonitorMessages:
    """The messages about successive reports.

    Attributes:
        level: 0 for no messages; 1 for errors of groups; 2 also for programs that come and go; 3
            also for a line on each report; 4 also for the periods of its groups.
    """

    level: int
    _tags: dict[int, str] = field(default_factory=dict[int, str])

    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        """The lines about the next report."""
        groups = list(_groups(report))
        if self.level >= _ERRORS:
            yield from (f"{name}: {group['error']}" for name, group in groups if group["error"])
        tags = {run["pid"]: run["neuron_runtime_tag"] for run in report["neuron_runtime_data"]}
        if self.level >= _PROGRAMS:
            yield from (
                f"program {tag} began" for pid, tag in tags.items() if pid not in self._tags
            )
            yield from (
                f"program {tag} ended" for pid, tag in self._tags.items() if pid not in tags
            )
        self._tags = tags
        if self.level >= _REPORTS:
            yield f"report of {len(tags)} programs, {len(groups)} groups"
        if self.level >= _PERIODS:
            yield from (f"{name}: measured over {group['period']} s" for name, group in groups)


def _groups(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The name and content of each group; programs with the same tag have groups of one name."""
    for program in report["neuron_runtime_data"]:
        for name, group in program["report"].items():
            yield f"{name} of {program['neuron_runtime_tag']}", group
    yield from report["system_data"].items()
