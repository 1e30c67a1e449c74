"""The configuration of neuron-monitor: groups of metrics, their periods, and the programs.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trnsim import files
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RUNTIME_GROUPS: Final = (
    "neuroncore_counters",
    "memory_used",
    "neuron_runtime_vcpu_usage",
    "execution_stats",
)
SYSTEM_GROUPS: Final = ("vcpu_usage", "memory_info", "neuron_hw_counters")
PERIOD_S: Final = 5.0
_UNITS_S: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S: Final = 3600.0
_FIELDS: Final = ("period", "neuron_runtimes", "system_metrics")


@dataclass(frozen=True)
class Group:
    """A group of metrics and how often it is measured."""

    name: str
    period_s: float = PERIOD_S


@dataclass(frozen=True)
class Programs:
    """Programs selected by tag, and the groups of metrics that are measured of them.

    Attributes:
        tag_filter: pattern that is searched for in a program's tag.
    """

    tag_filter: re.Pattern[str]
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Config:
    """The groups of metrics. A program has those of the first filter that matches its tag."""

    programs: tuple[Programs, ...]
    system: tuple[Group, ...]

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

    def of(self, tag: str) -> tuple[Group, ...]:
        """The groups of the program with the tag `tag`; none where no filter matches."""
        return next((rule.groups for rule in self.programs if rule.tag_filter.search(tag)), ())


def everything(period_s: float = PERIOD_S) -> Config:
    """All groups of all programs, all with one period."""
    programs = tuple(Group(name, period_s) for name in RUNTIME_GROUPS)
    system = tuple(Group(name, period_s) for name in SYSTEM_GROUPS)
    return Config((Programs(re.compile(""), programs),), system)


EVERYTHING: Final = everything()
"""The default configuration."""


def read(path: Path) -> Config:
    """The configuration in the JSON file at `path`.

    Raises:
        BadInput: it cannot be read, or a field is not legal; named by its path in the file.
    """
    return _Reader(str(path)).config(files.read_json(path))


class _Reader:
    """A reader of one file, whose errors name the field."""

    def __init__(self, path: str) -> None:
        self.path = path

    def config(self, value: Any) -> Config:
        """The whole file."""
        self._check(value, "", _FIELDS)
        period_s = self._period(value, "", PERIOD_S)
        programs = [
            self._programs(entry, f"neuron_runtimes[{index}]", period_s)
            for index, entry in enumerate(self._list(value, "", "neuron_runtimes"))
        ]
        system = self._groups(value, "", "system_metrics", SYSTEM_GROUPS, period_s)
        if not system and not any(rule.groups for rule in programs):
            raise BadInput(f"{self.path}: no group of metrics is asked for")
        return Config(tuple(programs), system)

    def _programs(self, value: Any, at: str, period_s: float) -> Programs:
        self._check(value, at, ("tag_filter", "metrics", "period"))
        tag = value.get("tag_filter", "")
        try:
            pattern = re.compile(tag)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise self._fault(f"{at}.tag_filter", tag, f"a regular expression ({error})") from None
        period_s = self._period(value, at, period_s)
        return Programs(pattern, self._groups(value, at, "metrics", RUNTIME_GROUPS, period_s))

    def _groups(
        self, value: Any, at: str, key: str, legal: Sequence[str], period_s: float
    ) -> tuple[Group, ...]:
        groups: dict[str, Group] = {}
        for index, entry in enumerate(self._list(value, at, key)):
            where = f"{at}.{key}[{index}]".lstrip(".")
            self._check(entry, where, ("type", "period"))
            name = entry.get("type")
            if name not in legal:
                raise self._fault(f"{where}.type", name, ", ".join(legal))
            if name in groups:
                raise self._fault(f"{where}.type", name, "each group once")
            groups[name] = Group(name, self._period(entry, where, period_s))
        return tuple(groups.values())

    def _period(self, value: Any, at: str, otherwise_s: float) -> float:
        """The period of an object, or else that of the object around it."""
        if "period" not in value:
            return otherwise_s
        text = value["period"]
        match = (
            re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
            if isinstance(text, str)
            else None
        )
        period_s = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
        if not 0 < period_s <= _LONGEST_S:
            legal = f'above 0, up to 1h, with its unit ({", ".join(_UNITS_S)}): "1s"'
            raise self._fault(f"{at}.period".lstrip("."), text, legal)
        return period_s

    def _list(self, value: Any, at: str, key: str) -> list[Any]:
        entries = value.get(key, [])
        if not isinstance(entries, list):
            raise self._fault(f"{at}.{key}".lstrip("."), entries, "a list")
        return entries

    def _check(self, value: Any, at: str, legal: Sequence[str]) -> None:
        if not isinstance(value, dict):
            raise self._fault(at or "the file", value, "an object")
        for key in value:
            if key not in legal:
                raise self._fault(
                    f"{at}.{key}".lstrip("."), value[key], f"{', '.join(legal)} alone"
                )

    def _fault(self, at: str, value: object, legal: str) -> BadInput:
        return BadInput(f"{self.path}: {at} is {value!r}; legal: {legal}")
