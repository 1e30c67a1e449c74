"""The parts of a stored profile that summaries and comparisons read, checked before they are used.

The page's script reads further parts, in columns; these are not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trnsim.profile.analysis.summary import Summary
from trnsim.reader import ForeignRecord, SourcePlace, declared, record

_MOST_NUMBER: Final = 1e30
"""Maximum of a number, beyond all that trnsim writes."""


@dataclass(frozen=True, kw_only=True)
class _LineRow(ForeignRecord):
    """A row about a source line: the field `line`, as a `FileRecord` has a `line` of its own."""

    number: int = declared(help="number of the line", alias=("line",))


@dataclass(frozen=True, kw_only=True)
class _SourceLine(_LineRow):
    file: str
    text: str


@dataclass(frozen=True, kw_only=True)
class _LineTime(_LineRow):
    instructions: int
    busy_ns: float
    critical_ns: float
    waiting_ns: float


@dataclass(frozen=True, kw_only=True)
class _Gain(_LineRow):
    change: str
    gain_ns: float


@dataclass(frozen=True, kw_only=True)
class _Advice(_LineRow):
    text: str
    gain_ns: float


@dataclass(frozen=True, kw_only=True)
class _EdgeEffect(_LineRow):
    """The effect of a statement's edges; the times are None unless it was timed without them."""

    form: str
    kind: str
    text: str
    edges: int
    with_ns: float | None = None
    without_ns: float | None = None
    gain_ns: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Opcode(ForeignRecord):
    opcode: str
    engine: str
    count: int
    busy_ns: float


@dataclass(frozen=True, kw_only=True)
class _Module(ForeignRecord):
    path: str
    own_ns: float
    bound_by: str
    hbm_bytes: float


@dataclass(frozen=True, kw_only=True)
class _Operation(ForeignRecord):
    name: str
    instructions: int
    time_ns: float
    bound_by: str


@dataclass(frozen=True, kw_only=True)
class _ModelEngine(ForeignRecord):
    engine: str
    critical_ns: float


@dataclass(frozen=True, kw_only=True)
class _Traffic(ForeignRecord):
    reason: str
    bytes: float


@dataclass(frozen=True, kw_only=True)
class _Model(ForeignRecord):
    """The estimate of the model that a kernel is a part of."""

    time_ns: float
    device_ns: float
    exchanges_ns: float
    bound_ns: float
    binds: str
    mfu: float
    mbu: float
    layers: int
    compiled: int
    modules: tuple[_Module, ...]
    operations: tuple[_Operation, ...]
    engines: tuple[_ModelEngine, ...]
    traffic: tuple[_Traffic, ...]


@dataclass(frozen=True, kw_only=True)
class _Profile(ForeignRecord):
    """A profile, without the columns of its page."""

    title: str
    kernel: str
    target: str
    summary: Summary
    warnings: tuple[str, ...]
    lines: tuple[_SourceLine, ...]
    by_line: tuple[_LineTime, ...]
    gains: tuple[_Gain, ...]
    advice: tuple[_Advice, ...]
    opcodes: tuple[_Opcode, ...]
    edges: tuple[_EdgeEffect, ...] = ()
    model: _Model | None = None


def check_profile(place: SourcePlace) -> None:
    """Refuse a profile in a stored report that cannot be shown or compared.

    Raises:
        BadInput: if a value, which the error names, is missing or not legal.
    """
    for name in _Profile.__dataclass_fields__:
        if isinstance(place.value, dict) and name in place.value:
            _check_numbers(place.inner(name))
    profile = record(_Profile, place)
    _check_conditions(profile.summary, place.inner("summary"))
    tables: dict[str, tuple[_LineRow, ...]] = {
        "by_line": profile.by_line,
        "gains": profile.gains,
        "advice": profile.advice,
        "edges": profile.edges,
    }
    for name, rows in tables.items():
        for index, row in enumerate(rows):
            line = place.inner(name).inner(index).inner("line")
            if type(line.value) is not int or not -1 <= row.number < len(profile.lines):
                raise line.refused(f"legal: -1 for no line, or below {len(profile.lines)}")
    for index, edge in enumerate(profile.edges):
        times_ns = (edge.with_ns, edge.without_ns, edge.gain_ns)
        if None in times_ns and any(time_ns is not None for time_ns in times_ns):
            statement = place.inner("edges").inner(index)
            raise statement.refused("legal: with_ns, without_ns and gain_ns, or none of them")


def _check_numbers(place: SourcePlace) -> None:
    """Refuse a number whose size is above `_MOST_NUMBER`, at `place` of the file or inside it."""
    value: Any = place.value
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            _check_numbers(place.inner(key))
    elif isinstance(value, int | float) and abs(value) > _MOST_NUMBER:
        raise place.refused(f"legal: numbers up to {_MOST_NUMBER:g}")


def _check_conditions(summary: Summary, place: SourcePlace) -> None:
    try:
        summary.conditions.text()
    except (KeyError, IndexError):
        raise place.inner("conditions").refused(
            "legal: transfers by hardware, software or none; the order compiler or issued"
        ) from None
