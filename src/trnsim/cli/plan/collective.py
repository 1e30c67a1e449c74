"""``trnsim plan collective``: the time of one collective on instances of one type."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Final

import typer

from trnsim.cli.comparison import Comparison
from trnsim.cli.options import Lnc
from trnsim.cli.plan.shared import On, compared_document, platform_names
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.estimate.site import collective_cause, site_collective
from trnsim.fabric.choice import KINDS
from trnsim.fabric.floors import MOST_PUBLISHED_RANKS, Floor
from trnsim.formatting import amount, durations, enumerated, seconds
from trnsim.place.links import Spread, exchange
from trnsim.place.links.exchange import ranks_of
from trnsim.place.machine import Machine, machine

_COLUMNS: Final = columns(
    "platform | instances | ranks | time P50 (P10 to P90) | algorithm | farthest | bus GB/s"
)
_FLOOR_COLUMNS: Final = columns(
    "platform | inside a program | host's start | floor of the time",
    numbers_to=3,
)
_FLOOR_NOTE: Final = (
    "The time is that of a program of its own, which the host starts, as nccom-test and eager "
    "ranks do: the longer of the start and the transfers. Inside a running program (compiled "
    "graphs, kernels, plans) the transfers alone count."
)
_BEYOND_NOTE: Final = (
    f"extrapolated: no start of more than {MOST_PUBLISHED_RANKS} ranks is published"
)
_SPLIT_PASSES: Final = {
    **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "scatter", "gather"), 1.0),
    "all_reduce": 2.0,
}
"""Passes over a rank's links of the parts that other ranks hold: passes * (n - 1) / n of a message.

Source: nccl-tests, doc/PERFORMANCE.md; gather and scatter, src/gather.cu and src/scatter.cu.
"""
_MESSAGELESS: Final = ("barrier",)
"""Collectives that move no message; of others the whole message crosses a rank's links once."""


@answering
def collective(
    kind: Annotated[str, typer.Argument(help=f"{enumerated(list(KINDS), 'or')}.", metavar="KIND")],
    nbytes: Annotated[
        int,
        whole(
            "Bytes of the whole message: the larger of a rank's input and output.",
            "--bytes",
            unit="bytes",
            minimum=1,
        ),
    ],
    ranks: Annotated[
        int | None,
        whole("Ranks of a group; default: all of the instances.", minimum=1),
    ] = None,
    instances: Annotated[
        int | None,
        whole("Instances on which the ranks lie; default: as many as they need.", minimum=1),
    ] = None,
    stride: Annotated[
        int,
        whole(
            "Ranks from one member of a group to the next; groups between work at once.", minimum=1
        ),
    ] = 1,
    lnc: Lnc = None,
    on: On = None,
) -> Document:
    """Time, algorithm and bus bandwidth of one collective, platform by platform.

    Two times: of a program of its own that the host starts, and inside a running program. Inside an
    instance the fabric's links decide, between instances EFA, between buildings what
    joins them. The algorithm is the one with the shortest time.

    Example: trnsim plan collective all_reduce --on trn2.48xlarge --ranks 64 --bytes 1MiB
    """
    if kind not in KINDS:
        (similar_kind,) = get_close_matches(kind, KINDS, 1) or ["all_reduce"]
        raise BadInput(
            f"collective {kind!r} is not known; legal: {', '.join(KINDS)}",
            fix=f"perhaps {similar_kind}",
        )
    comparison = Comparison()

    def row_on(name: str) -> dict[str, Any]:
        return _row(kind, nbytes, machine(name, lnc=lnc), ranks, instances, stride)

    rows = [
        row for name in platform_names(on) for row in comparison.ask(name, partial(row_on, name))
    ]
    comparison.check(rows)
    title = f"{kind} of {amount(nbytes)} bytes"
    sections = [Section("", [Note(title, place="text")]), Section("", [_table(rows)])]
    if any(row["host_start_s"] is not None for row in rows):
        notes = [_FLOOR_NOTE]
        if max(row["ranks"] for row in rows) > MOST_PUBLISHED_RANKS:
            notes.append(_BEYOND_NOTE)
        sections.append(Section("", [_floor_table(rows), *map(Note, notes)]))
    schema = "plan-collective/1"
    return compared_document(title, rows, sections, None, schema, comparison.refusals)


def _row(
    kind: str,
    nbytes: int,
    machine: Machine,
    ranks: int | None,
    instances: int | None,
    stride: int,
) -> dict[str, Any]:
    instance = machine.instance.name
    cores = machine.lnc
    per_node, _ = ranks_of(instance, cores)
    group_ranks = ranks or (instances or 1) * per_node // stride
    instance_count = -(-group_ranks * stride // per_node)
    if group_ranks < 1 or (instances is not None and instance_count > instances):
        most_ranks = (instances or 1) * per_node
        fitting_ranks, most_stride = most_ranks // stride, most_ranks // max(group_ranks, 1)
        applies_by_fix = {
            f"at most {fitting_ranks} ranks": fitting_ranks,
            f"at most --stride {most_stride}": most_stride and not fitting_ranks,
            f"--instances {instance_count}": instance_count,
        }
        raise BadInput(
            f"{group_ranks} ranks, {stride} apart, on {instances or 1} x {instance}, which has "
            f"{most_ranks} ranks{f' with LNC={cores}' if cores else ''}",
            fix=", or ".join(text for text, applies in applies_by_fix.items() if applies),
        )
    exchange_time = exchange(instance, cores, kind, nbytes, Spread(group_ranks, stride))
    floors = exchange_time.floors
    floor = floors.paid(Floor.HOST if cores else Floor.PROGRAM)
    host_s = floors.interval(Floor.HOST)
    time_s, yours = site_collective(machine.chip, host_s, collective_cause(floor))
    factor = time_s.p50 / host_s.p50 if host_s.p50 else 1.0
    program_time_s, _ = site_collective(machine.chip, floors.interval(Floor.PROGRAM), "")
    bus_bytes_per_s = 0.0  # as nccl-tests and nccom-test count them
    if own_time_s := floors.time_s(Floor.HOST) * factor:
        bus_bytes_per_s = _bus_factor(kind, group_ranks) * nbytes / own_time_s
    return {
        "collective": kind,
        "bytes": nbytes,
        "platform": machine.name,
        "instance": instance,
        "instances": instances or instance_count,
        "ranks": group_ranks,
        "stride": stride,
        "lnc": cores,
        "time_s": time_s,
        "floor": floor,
        "inside_s": program_time_s,
        "host_start_s": float(floors.start_s) if cores else None,
        **picked(exchange_time, "latency_s=fixed_s bytes_s algorithm level"),
        "bus_bytes_per_s": bus_bytes_per_s,
        "yours": yours,
    }


def _bus_factor(kind: str, ranks: int) -> float:
    """Bytes on a rank's links over the bytes of the message."""
    if kind in _MESSAGELESS:
        return 0.0
    return _SPLIT_PASSES[kind] * (ranks - 1) / ranks if kind in _SPLIT_PASSES else 1.0


def _floor_table(rows: Sequence[dict[str, Any]]) -> Table:
    lines = [
        (
            row["platform"],
            durations(row["inside_s"]),
            "-" if row["host_start_s"] is None else seconds(row["host_start_s"]),
            row["floor"],
        )
        for row in rows
    ]
    return Table(_FLOOR_COLUMNS, lines)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    lines = [
        (
            row["platform"],
            f"{row['instances']} x {row['instance']}",
            str(row["ranks"]),
            durations(row["time_s"]),
            row["algorithm"] or "-",
            row["level"],
            f"{row['bus_bytes_per_s'] / 1e9:.1f}" if row["bus_bytes_per_s"] else "-",
        )
        for row in rows
    ]
    return Table(_COLUMNS, lines)
