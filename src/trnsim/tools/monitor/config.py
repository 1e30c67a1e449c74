"""The configuration of neuron-monitor: groups of metrics, their periods, and the programs.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from trnsim.reader import FileRecord, declared
from trnsim.reader import read as read_record

_RuntimeGroup = Literal[
    "neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage", "execution_stats"
]
_SystemGroup = Literal["vcpu_usage", "memory_info", "neuron_hw_counters"]
RUNTIME_GROUPS: Final[tuple[str, ...]] = get_args(_RuntimeGroup)
SYSTEM_GROUPS: Final[tuple[str, ...]] = get_args(_SystemGroup)
PERIOD_S: Final = 5.0
_UNITS_S: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S: Final = 3600.0
_FIX: Final = (
    'write {"period": "5s", "system_metrics": [{"type": "memory_info"}]} or the like; '
    "docs/generated/user-files.md, Configurations of neuron-monitor, has all fields"
)


@dataclass(frozen=True)
class MetricGroup:
    """A group of metrics, measured once in `period_s` seconds."""

    name: str
    period_s: float = PERIOD_S


@dataclass(frozen=True)
class ProgramRule:
    """The groups of metrics to measure for programs whose tag matches a pattern.

    Attributes:
        tag_filter: pattern that is searched for in a program's tag.
    """

    tag_filter: re.Pattern[str]
    groups: tuple[MetricGroup, ...]


@dataclass(frozen=True)
class Config:
    """The groups of metrics to measure, for programs and for the system.

    A program has the groups of the first rule whose filter matches its tag.
    """

    programs: tuple[ProgramRule, ...]
    system: tuple[MetricGroup, ...]

    @property
    def shortest_s(self) -> float:
        """The shortest period of all groups."""
        return min(self._periods_s)

    @property
    def longest_s(self) -> float:
        """The longest period of all groups."""
        return max(self._periods_s)

    @property
    def _periods_s(self) -> list[float]:
        groups = [*self.system, *(group for rule in self.programs for group in rule.groups)]
        return [group.period_s for group in groups]

    def groups_of(self, tag: str) -> tuple[MetricGroup, ...]:
        """The groups of the program with the tag `tag`; none where no filter matches."""
        return next((rule.groups for rule in self.programs if rule.tag_filter.search(tag)), ())


def all_groups(period_s: float = PERIOD_S) -> Config:
    """All groups of all programs, all with one period."""
    programs = tuple(MetricGroup(name, period_s) for name in RUNTIME_GROUPS)
    system = tuple(MetricGroup(name, period_s) for name in SYSTEM_GROUPS)
    return Config((ProgramRule(re.compile(""), programs),), system)


ALL_GROUPS: Final = all_groups()
"""The default configuration."""


def _period(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    period_s = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not 0 < period_s <= _LONGEST_S:
        raise ValueError(text)
    return period_s


def _pattern(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets that may mean more some day
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"legal: a regular expression ({error})") from error


def _period_field(help_text: str) -> Any:
    legal = f'above 0, up to 1h, with its unit ({", ".join(_UNITS_S)}): "1s"'
    return declared(None, help=help_text, parse=_period, legal=legal)


@dataclass(frozen=True, kw_only=True)
class RuntimeGroupFields(FileRecord):
    """A group of metrics of a program."""

    type: _RuntimeGroup = declared(help="its name")
    period: float | None = _period_field("time between measurements; its program's if empty")


@dataclass(frozen=True, kw_only=True)
class SystemGroupFields(FileRecord):
    """A group of metrics of the instance."""

    type: _SystemGroup = declared(help="its name")
    period: float | None = _period_field("time between measurements; the file's if empty")


@dataclass(frozen=True, kw_only=True)
class ProgramFields(FileRecord):
    """Programs that are measured in one way."""

    tag_filter: re.Pattern[str] = declared(
        re.compile(""),
        help="pattern that is searched for in a program's tag",
        parse=_pattern,
        legal="a regular expression",
    )
    metrics: tuple[RuntimeGroupFields, ...] = declared((), help="groups of metrics")
    period: float | None = _period_field("time between measurements; the file's if empty")


@dataclass(frozen=True, kw_only=True)
class ConfigFields(FileRecord):
    """The configuration of neuron-monitor."""

    period: float | None = _period_field(f"time between measurements; {PERIOD_S:g}s if empty")
    neuron_runtimes: tuple[ProgramFields, ...] = declared((), help="programs")
    system_metrics: tuple[SystemGroupFields, ...] = declared((), help="groups of the instance")


def read(path: Path) -> Config:
    """The configuration in the JSON file at `path`.

    Raises:
        BadInput: the file cannot be read, or a field is not legal; the error has the field's path.
    """
    config = read_record(ConfigFields, path, _FIX)
    period_s = config.period or PERIOD_S
    programs = tuple(
        ProgramRule(runtime.tag_filter, _groups(runtime.metrics, runtime.period or period_s))
        for runtime in config.neuron_runtimes
    )
    system = _groups(config.system_metrics, period_s)
    if not system and not any(program.groups for program in programs):
        raise config.record_error("no group of metrics is asked for")
    return Config(programs, system)


def _groups(
    fields: Sequence[RuntimeGroupFields | SystemGroupFields], period_s: float
) -> tuple[MetricGroup, ...]:
    groups: dict[str, MetricGroup] = {}
    for field in fields:
        if field.type in groups:
            raise field.refused("type", "legal: each group once")
        groups[field.type] = MetricGroup(field.type, field.period or period_s)
    return tuple(groups.values())
