"""A run as plain data: everything that a page, a summary and a comparison show.

Values are stored in columns, so that a hundred thousand instructions take a few megabytes of JSON.
Times are nanoseconds from the first instruction on.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from trnsim.arch import Target
from trnsim.errors import SourceLine
from trnsim.isa import Instruction
from trnsim.memory import Memory, capacity_bytes
from trnsim.profile.analysis.advice import Advice, advise
from trnsim.profile.analysis.edges import EdgeEffect, edge_effects
from trnsim.profile.analysis.gains import gains
from trnsim.profile.analysis.placement import placement
from trnsim.profile.analysis.roofline import roofline
from trnsim.profile.analysis.summary import Summary
from trnsim.profile.measures.core import Core
from trnsim.profile.measures.lines import LineTime, line_text, time_by_line
from trnsim.profile.measures.throughput import Throughput
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, Seconds, columns, critical_steps, occupancy

_NS_PER_S: Final = 1e9
_DECIMALS: Final = 2
_MAX_STEPS: Final = 4096
"""Maximum steps of a quantity over time; a longer series is cut into as many maxima."""
_MOST_SOURCES: Final = 16
_MOST_SOURCE_LETTERS: Final = 400_000
_MAX_PAIRS: Final = 1024
"""Maximum number of drawn edges of one statement of the kernel that adds edges."""

JsonObject = dict[str, Any]
"""A JSON object."""


class ProfiledRun(Protocol):
    """A run of a kernel, with all that a report shows of it."""

    @property
    def title(self) -> str:
        """The kernel's name."""
        ...

    @property
    def target(self) -> Target:
        """The chip that it ran for."""
        ...

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """The timeline of each core."""
        ...

    @property
    def timeline(self) -> Timeline:
        """The timeline of the core that took longest."""
        ...

    @property
    def summary(self) -> Summary:
        """The summary of that core."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Legal uses with a documented risk."""
        ...


def profile_data(run: ProfiledRun) -> JsonObject:
    """The data of one run's report, for the core that took longest."""
    timeline, warnings, summary = run.timeline, run.warnings, run.summary
    program = timeline.program
    effects = edge_effects(timeline)
    edge_lines = (effect.line for effect in effects if effect.line is not None)
    lines = list(dict.fromkeys([*program.lines, *edge_lines]))
    numbers = {line: number for number, line in enumerate(lines)}
    texts, hbm, line_times = [*map(_line, lines)], Core(timeline, 0).hbm, time_by_line(timeline)
    return {
        "title": f"{run.title} on {run.target.name}",
        "kernel": run.title,
        "target": run.target.name,
        "summary": summary.as_dict(),
        "warnings": list(warnings),
        "semaphore_ns": rounded_ns(float(program.core.engine_semaphore_s)),
        "device_ns": rounded_ns(timeline.device_time_s),
        "distinct": [
            {
                "opcode": checked.opcode,
                "engine": checked.engine.label,
                "operands": _operands(checked.instruction),
            }
            for checked in program.checked
        ],
        "lines": texts,
        "sources": _sources(lines),
        "spans": _spans(timeline),
        "critical": critical_steps(timeline).index.tolist(),
        "memories": _memories(timeline),
        "placements": [placement(timeline, memory) for memory in (Memory.SBUF, Memory.PSUM)],
        "hbm": _hbm(hbm),
        "roofline": roofline(timeline, summary),
        "opcodes": _opcodes(timeline),
        "by_line": [_line_time(row, numbers) for row in line_times],
        "advice": [_advice(advice, numbers) for advice in advise(timeline)],
        "edges": [_edge(effect, numbers) for effect in effects],
        "gains": [
            {
                "change": gain.change,
                "line": -1 if gain.line is None else numbers[gain.line],
                "gain_ns": rounded_ns(gain.gain_s),
            }
            for gain in gains(timeline)
        ],
        "facts": [
            {"name": name, "value": float(fact), "kind": kind.value, "source": source}
            for kind, facts in timeline.facts().items()
            for name, fact in facts
            for source in [fact.provenance.source]
        ],
    }


def rounded_ns(time_s: float) -> float:
    """Nanoseconds with the decimals that reports keep."""
    return round(time_s * _NS_PER_S, _DECIMALS)


def _column_ns(times_s: Seconds) -> list[float]:
    rounded: list[float] = np.round(times_s * _NS_PER_S, _DECIMALS).tolist()
    return rounded


def _spans(timeline: Timeline) -> JsonObject:
    """Columns of issued instructions; i waits for waits[waits_from[i]:waits_from[i + 1]]."""
    spans, program = columns(timeline), timeline.program
    waits = [program.waits_for(index) for index in range(len(program))]
    return {
        "start": _column_ns(spans.start_s),
        "busy": _column_ns(spans.busy_until_s - spans.start_s),
        "latency": _column_ns(spans.end_s - spans.busy_until_s),
        "waited_for": spans.waited_for.tolist(),
        "which": spans.which.tolist(),
        "line": spans.line_of.tolist(),
        "waits_from": [0, *np.cumsum([len(w) for w in waits], dtype=np.int64).tolist()],
        "waits": [earlier for w in waits for earlier in w],
    }


def _operands(instruction: Instruction) -> list[str]:
    """Tiles and numbers, then other operands that differ from their defaults."""
    operands = [f"{name} = {getattr(instruction, name)}" for name in instruction.operands]
    others = [
        f"{name} = {getattr(value, 'name', value)}"
        for name, value in vars(instruction).items()
        if name not in instruction.operands and value != getattr(type(instruction), name, None)
    ]
    return [text for text in operands if not text.endswith(" = None")] + others


def _line(line: SourceLine) -> JsonObject:
    return {"file": line.file, "line": line.line, "text": line_text(line)}


def _sources(lines: Sequence[SourceLine]) -> list[JsonObject]:
    """The whole files of the lines, where they can be read and are of a size that people read."""
    rows: list[JsonObject] = []
    for file in dict.fromkeys(line.file for line in lines):
        text = "".join(linecache.getlines(file))
        if text and len(text) <= _MOST_SOURCE_LETTERS:
            rows.append({"file": file, "text": text})
    return rows[:_MOST_SOURCES]


def _number(line: SourceLine | None, numbers: dict[SourceLine, int]) -> int:
    return -1 if line is None else numbers[line]


def _line_time(row: LineTime, numbers: dict[SourceLine, int]) -> JsonObject:
    return {
        "line": _number(row.line, numbers),
        "instructions": row.instructions,
        "busy_ns": rounded_ns(row.busy_s),
        "critical_ns": rounded_ns(row.critical_s),
        "waiting_ns": rounded_ns(row.waiting_s),
    }


def _advice(advice: Advice, numbers: dict[SourceLine, int]) -> JsonObject:
    return {
        "rule": advice.rule,
        "text": advice.text,
        "line": _number(advice.line, numbers),
        "gain_ns": rounded_ns(advice.gain_s),
        "source": advice.source,
    }


def _edge(effect: EdgeEffect, numbers: dict[SourceLine, int]) -> JsonObject:
    """The edges that a statement of the kernel adds; times if the run without them is known."""
    row: JsonObject = {
        "form": effect.form,
        "kind": effect.kind,
        "text": effect.text,
        "line": _number(effect.line, numbers),
        "pairs": [list(pair) for pair in effect.pairs[:_MAX_PAIRS]],
        "edges": len(effect.pairs),
    }
    if effect.without_s is not None:
        row["with_ns"], row["without_ns"] = rounded_ns(effect.with_s), rounded_ns(effect.without_s)
        row["gain_ns"] = rounded_ns(effect.without_s - effect.with_s)
    return row


def _memories(timeline: Timeline) -> list[JsonObject]:
    rows: list[JsonObject] = []
    for memory in (Memory.SBUF, Memory.PSUM):
        level = occupancy(timeline, memory)
        time_s, level_bytes = _downsampled(level.time_s, level.level_bytes)
        rows.append(
            {
                "name": memory.value,
                "capacity_bytes": capacity_bytes(timeline.program.core, memory),
                "time": _column_ns(time_s),
                "bytes": level_bytes.tolist(),
            }
        )
    return rows


def _downsampled(time_s: Seconds, level_bytes: Integers) -> tuple[Seconds, Integers]:
    """At most `_MAX_STEPS` steps, each the maximum of the steps that it replaces."""
    if len(time_s) <= _MAX_STEPS:
        return time_s, level_bytes
    first = np.linspace(0, len(time_s), _MAX_STEPS, endpoint=False).astype(np.int64)
    return time_s[first], np.maximum.reduceat(level_bytes, first)


def _hbm(hbm: Throughput) -> JsonObject:
    """Bytes a second into and out of HBM, in steps."""
    time_s, level = _downsampled(hbm.time_s, np.round(hbm.bytes_per_s).astype(np.int64))
    return {"time": _column_ns(time_s), "bytes_per_s": level.tolist()}


def _opcodes(timeline: Timeline) -> list[JsonObject]:
    """Count and busy time of each opcode on each engine, busiest first."""
    spans, checked = columns(timeline), timeline.program.checked
    busy_s = np.bincount(spans.which, spans.busy_until_s - spans.start_s, len(checked))
    counts = np.bincount(spans.which, minlength=len(checked))
    rows: dict[tuple[str, str], JsonObject] = {}
    for which, distinct in enumerate(checked):
        key = (distinct.opcode, distinct.engine.label)
        row = rows.setdefault(key, {"opcode": key[0], "engine": key[1], "count": 0, "busy_ns": 0.0})
        row["count"] += int(counts[which])
        row["busy_ns"] += rounded_ns(float(busy_s[which]))
    return sorted(rows.values(), key=lambda row: -row["busy_ns"])
