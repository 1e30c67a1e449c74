"""The profile as one HTML file: data in columns, embedded; no network, no server.

The script draws what is visible and merges spans narrower than a pixel, so that a hundred thousand
instructions stay usable. Text from the user's program reaches the page as JSON without any
character that HTML reads, and the script writes it as text, never as markup.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnsim.errors import SourceLine
from trnsim.memory import Memory
from trnsim.profile.advice import advise
from trnsim.profile.lines import line_text, time_by_line
from trnsim.profile.summary import summarize
from trnsim.timing.occupancy import columns, critical_steps, occupancy

if TYPE_CHECKING:
    from trnsim.isa import Instruction
    from trnsim.profile.advice import Advice
    from trnsim.profile.lines import LineTime
    from trnsim.timing import Timeline
    from trnsim.timing.occupancy import Integers, Seconds

_MARKER: Final = re.compile(r"\{\{(\w+)\}\}")
_NS_PER_S: Final = 1e9
_DECIMALS: Final = 2
_MAX_STEPS: Final = 4096
"""Steps of a memory's occupancy that the page is given; beyond, the highest of each stretch."""
# "</script>", "<!--" and U+2028 cannot occur in JSON that has none of these characters.
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def html(timeline: Timeline, title: str) -> str:
    """One self-contained HTML page of `timeline`, headed `title`."""
    parts = {
        "title": escape(title),
        "data": as_json(page_data(timeline, title)),
        "script": _resource("page.js") + _resource("timeline.js"),
    }
    # One pass over the template: what is inserted is never searched for markers.
    return _MARKER.sub(lambda marker: parts[marker[1]], _resource("page.html"))


def as_json(value: Any) -> str:
    """`value` as JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(timeline: Timeline, title: str) -> dict[str, Any]:
    """All that the page shows. Times in nanoseconds, from the first instruction on."""
    program = timeline.program
    numbers = {line: number for number, line in enumerate(program.lines)}
    return {
        "title": title,
        "summary": summarize(timeline).as_dict(),
        "semaphore_ns": _ns(float(program.core.engine_semaphore_s)),
        "device_ns": _ns(timeline.device_time_s),
        "distinct": [
            {
                "opcode": checked.opcode,
                "engine": checked.engine.label,
                "operands": _operands(checked.instruction),
            }
            for checked in program.checked
        ],
        "lines": [_line(line) for line in program.lines],
        "spans": _spans(timeline),
        "critical": critical_steps(timeline).index.tolist(),
        "memories": _memories(timeline),
        "by_line": [_line_time(row, numbers) for row in time_by_line(timeline)],
        "advice": [_advice(advice, numbers) for advice in advise(timeline)],
        "facts": [
            {"name": name, "value": float(fact), "kind": kind.value, "source": source}
            for kind, facts in timeline.facts().items()
            for name, fact in facts
            for source in [fact.provenance.source]
        ],
    }


def _resource(name: str) -> str:
    return (resources.files("trnsim.profile") / name).read_text(encoding="utf-8")


def _ns(time_s: float) -> float:
    return round(time_s * _NS_PER_S, _DECIMALS)


def _column_ns(times_s: Seconds) -> list[float]:
    rounded: list[float] = np.round(times_s * _NS_PER_S, _DECIMALS).tolist()
    return rounded


def _spans(timeline: Timeline) -> dict[str, Any]:
    """One list a property; the predecessors of i are waits[waits_from[i]:waits_from[i + 1]]."""
    spans, program = columns(timeline), timeline.program
    waits = [program.predecessors(index) for index in range(len(program))]
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
    """Tiles and numbers first, then what else differs from its default."""
    given = [f"{name} = {getattr(instruction, name)}" for name in instruction.operands]
    rest = [
        f"{name} = {getattr(value, 'name', value)}"
        for name, value in vars(instruction).items()
        if name not in instruction.operands and value != getattr(type(instruction), name, None)
    ]
    return [text for text in given if not text.endswith(" = None")] + rest


def _line(line: SourceLine) -> dict[str, Any]:
    return {"file": line.file, "line": line.line, "text": line_text(line)}


def _number(line: SourceLine | None, numbers: dict[SourceLine, int]) -> int:
    return -1 if line is None else numbers[line]


def _line_time(row: LineTime, numbers: dict[SourceLine, int]) -> dict[str, Any]:
    return {
        "line": _number(row.line, numbers),
        "instructions": row.instructions,
        "busy_ns": _ns(row.busy_s),
        "critical_ns": _ns(row.critical_s),
        "waiting_ns": _ns(row.waiting_s),
    }


def _advice(advice: Advice, numbers: dict[SourceLine, int]) -> dict[str, Any]:
    return {
        "rule": advice.rule,
        "text": advice.text,
        "line": _number(advice.line, numbers),
        "gain_ns": _ns(advice.gain_s),
        "source": advice.source,
    }


def _memories(timeline: Timeline) -> list[dict[str, Any]]:
    core = timeline.program.core
    capacities = {
        Memory.SBUF: int(core.sbuf_partition_bytes),
        Memory.PSUM: core.psum_banks * core.psum_bank_bytes,
    }
    rows: list[dict[str, Any]] = []
    for memory, capacity in capacities.items():
        used = occupancy(timeline, memory)
        time_s, level_bytes = _thinned(used.time_s, used.level_bytes)
        rows.append(
            {
                "name": memory.value,
                "capacity_bytes": capacity,
                "time": _column_ns(time_s),
                "bytes": level_bytes.tolist(),
            }
        )
    return rows


def _thinned(time_s: Seconds, level_bytes: Integers) -> tuple[Seconds, Integers]:
    """At most `_MAX_STEPS` steps, each the highest of its stretch."""
    if len(time_s) <= _MAX_STEPS:
        return time_s, level_bytes
    first = np.linspace(0, len(time_s), _MAX_STEPS, endpoint=False).astype(np.int64)
    return time_s[first], np.maximum.reduceat(level_bytes, first)
