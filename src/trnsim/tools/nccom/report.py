"""The table that nccom-test prints and the JSON that it writes, in AWS's form.

A row of the JSON has the keys of AWS's example. Other figures of an estimate (P10 and P90, its
floor, the published rows near it) are in a list of their own, ``estimates``, in the same order.

AWS's page names the column of the time in two ways. Its examples of versions with ``--stats``, and
the JSON, have ``time:avg(us)``, as here; the list of columns and older examples ``time(us)``.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Output description, Examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.fabric.floors import Floor
from trnsim.tools.nccom.times import US, SizeTime

AVERAGE: Final = "avg"
"""The statistic of a time without ``--stats``."""
_GAP: Final = 4
_SIZE, _COUNT, _TYPE = "size(B)", "count(elems)", "type"
_INPUT, _OUTPUT = "total_input_size(B)", "total_output_size(B)"
_ALGORITHM_RATE, _BUS_RATE, _ALGORITHM = "algbw(GB/s)", "busbw(GB/s)", "algorithm"
_LOW, _HIGH = "P10(us)", "P90(us)"
_PERCENTILE: Final = re.compile(r"p(\d{1,2}|100)")


class ReportColumns(NamedTuple):
    """The columns of a table that options add to sizes, times and bandwidths.

    Attributes:
        stats: statistics of the time, each a column.
        has_algorithm: whether there is a column of the algorithm.
        has_buffers: whether there are columns of the bytes of a rank's input and output.
        has_interval: whether there are columns of P10 and P90 of the estimate.
    """

    stats: Sequence[str] = (AVERAGE,)
    has_algorithm: bool = False
    has_buffers: bool = False
    has_interval: bool = False


def statistics(names: Sequence[str]) -> tuple[str, ...]:
    """The statistics that ``--stats`` names, without repeats; the average if it names none.

    Raises:
        BadInput: a name is neither the average nor a percentile.
    """
    for name in names:
        if name != AVERAGE and not _PERCENTILE.fullmatch(name):
            raise BadInput(
                f"--stats {name}; legal: avg, and percentiles from p0 to p100",
                fix="for example --stats avg p50 p99; the operation stands before --stats, or "
                "after another option",
            )
    return tuple(dict.fromkeys(names)) or (AVERAGE,)


def _time_key(stat: str) -> str:
    return f"time:{stat}(us)"


def figures(row: SizeTime, columns: ReportColumns) -> dict[str, int | float | str]:
    """The columns of a row by name, in the order of the table."""
    interval = row.interval
    buffers = dict(zip((_INPUT, _OUTPUT), row.buffers, strict=True)) if columns.has_buffers else {}
    ends = {_LOW: round(interval.p10 / US, 2), _HIGH: round(interval.p90 / US, 2)}
    return {
        _SIZE: row.nbytes,
        _COUNT: row.elements,
        **buffers,
        _TYPE: row.dtype,
        **{_time_key(stat): _statistic(row, stat) for stat in columns.stats},
        _ALGORITHM_RATE: row.algorithm_gib_per_s,
        _BUS_RATE: row.bus_gib_per_s,
        **({_ALGORITHM: row.algorithm} if columns.has_algorithm else {}),
        **(ends if columns.has_interval else {}),
    }


def _statistic(row: SizeTime, stat: str) -> float:
    """The time in microseconds: with two decimals as an average, with none as a percentile.

    AWS's examples round so. An estimate has the same time for all iterations.
    """
    return round(row.time_s / US, 2) if stat == AVERAGE else round(row.time_s / US)


def table(rows: Sequence[SizeTime], columns: ReportColumns | None = None) -> str:
    """The table of rows on stdout, and below it the mean of their bus bandwidths."""
    lines = [figures(row, columns or ReportColumns()) for row in rows]
    heads = list(lines[0])
    cells = [heads, *([_cell(head, line[head]) for head in heads] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table_lines = [
        "".join(" " * _GAP + cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    mean = fmean(row.bus_gib_per_s for row in rows)
    return "\n".join([*table_lines, f"Avg bus bandwidth:      {mean:.4f}GB/s"])


def _cell(head: str, figure: float | str) -> str:
    return f"{figure:.2f}" if head in (_ALGORITHM_RATE, _BUS_RATE) else str(figure)


def results(blocks: Sequence[Sequence[SizeTime]], columns: ReportColumns) -> list[dict[str, Any]]:
    """The rows of the JSON, with the keys of AWS's example, and the stream if there are several."""
    objects = []
    for stream, rows in enumerate(blocks):
        for row in rows:
            values = figures(row, columns._replace(has_interval=False))
            times = {key: values.pop(key) for key in list(values) if key.startswith("time:")}
            objects.append(values | times | ({"stream": stream} if len(blocks) > 1 else {}))
    return objects


def estimates(blocks: Sequence[Sequence[SizeTime]]) -> list[dict[str, Any]]:
    """Figures of the estimate beside each row of the JSON, in the same order."""
    return [
        {
            _SIZE: row.nbytes,
            "p10(us)": round(row.interval.p10 / US, 2),
            "p90(us)": round(row.interval.p90 / US, 2),
            "floor": row.time.floors.paid(row.time.floor),
            "placed_on": row.time.placed_on,
            "yours": row.measurements_text,
            "published_rows": len(row.evidence.rows),
            "published_rows_inside_interval": sum(r.is_inside for r in row.evidence.rows),
            "nearest_row": row.evidence.nearest.id,
            "nearest_row_error": row.evidence.nearest.error,
        }
        for rows in blocks
        for row in rows
    ]


def answer(
    blocks: Sequence[Sequence[SizeTime]], columns: ReportColumns, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The file of ``--report-to-json-file``."""
    return {
        "results": results(blocks, columns),
        "config": dict(config),
        "estimates": estimates(blocks),
    }


def floor_text(rows: Sequence[SizeTime]) -> str:
    """The floor that the times paid, in words."""
    slow_sizes = [row.nbytes for row in rows if row.time.time_s > row.time.floors.start_s]
    start = f"each is {Floor.HOST.value}"
    return (
        f"{start}; from {slow_sizes[0]:,} bytes on, transfers take longer" if slow_sizes else start
    )


def interval_lines(rows: Sequence[SizeTime]) -> list[str]:
    """Lines with P10 and P90 of each size, and the published rows behind them."""
    lines = []
    for row in dict.fromkeys(rows):
        ends = [f"{end / US:,.2f}" for end in (row.interval.p10, row.interval.p90)]
        lines.append(f"P10 to P90 at {row.nbytes:,} bytes: {' to '.join(ends)} us; {row.evidence}")
    return lines


def coverage_text(rows: Sequence[SizeTime]) -> str:
    """The number of published rows that lay within P10 to P90 of their estimates, in words."""
    rows_near = rows[0].evidence.rows
    if not rows_near:
        return "no published row says how wide P10 to P90 should be here"
    inside = sum(row.is_inside for row in rows_near)
    return (
        f"of the {len(rows_near)} published rows {inside} are within P10 to P90 of their "
        "estimates (docs/generated/accuracy-collectives.md)"
    )
