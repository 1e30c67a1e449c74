"""Checks of a user's measured table against a plan's model, machine and units.

A row belongs to the model if a layer on one of its ranks has the sizes that the row names. A row
without sizes is legal only if ranks have a single size. A time counts as microseconds if it is not
below the least time by the chip's published peak and HBM bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from trnsim.errors import BadInput
from trnsim.estimate.choice import Hardware, largest_peak
from trnsim.estimate.curve import signature
from trnsim.estimate.measured import COLUMNS_REMEDY, MeasuredRow, MeasuredTimes
from trnsim.formatting import amount, enumerated
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_GRADIENT_PRODUCTS: Final = 2
"""Products of a backward pass for each of the forward pass."""
_US_PER_S: Final = 1e6
_MOST_SHOWN: Final = 4
"""Maximum number of shapes or sizes that an error lists."""


def check(
    table: MeasuredTimes,
    machine: Hardware,
    phases: Sequence[Phase],
    models: Iterable[tuple[Architecture, Split]],
) -> None:
    """Refuse a table that cannot be of these models on this machine.

    Args:
        table: the user's table.
        machine: the machine of the plan.
        phases: phases of the plan; rows of other phases are not checked.
        models: each with a split over ranks that the plan may take.

    Raises:
        BadInput: no row is of these phases; or, with the line: sizes of no layer, a row without
            sizes where there are several, a time that the chip cannot reach.
    """
    rows = [row for row in table.rows if row.phase in phases]
    if not rows:
        kinds = enumerated(list(dict.fromkeys(str(row.phase) for row in table.rows)), "and")
        plan = enumerated([str(phase) for phase in phases], "or")
        raise BadInput(
            f"{table.file} has rows of {kinds}; this plan has {plan} alone", fix=COLUMNS_REMEDY
        )
    cases = list(models)
    names = enumerated(list(dict.fromkeys(model.name for model, _ in cases)), "and")
    for row in rows:
        _check_row(row, machine, _by_size(row, cases), names)


def check_used(table: MeasuredTimes, sources: Mapping[str, str], passes: str) -> None:
    """Refuse a table of which no row entered a plan.

    Args:
        table: the user's table.
        sources: sources of the plan's times, by phase.
        passes: the passes of the plan, in words.

    Raises:
        BadInput: with the passes of the plan and those of the table.
    """
    if any(f"measured: {table.file}" in source for source in sources.values()):
        return
    shapes = sorted(
        {f"{row.phase} of {row.batch} x {row.tokens} + {row.past} tokens" for row in table.rows}
    )
    sizes_text = ", ".join(shapes[:_MOST_SHOWN]) + (", ..." if len(shapes) > _MOST_SHOWN else "")
    raise BadInput(
        f"no row of {table.file} is met: this plan asks for {passes}; the file has {sizes_text}",
        fix="times lie between rows, never beyond: measure at least the smallest and the largest",
    )


def _by_size(
    row: MeasuredRow, models: Sequence[tuple[Architecture, Split]]
) -> dict[tuple[str, str], PartSummary]:
    """The parts of the models that have the name of the row's part, by model and sizes."""
    model_pass = Pass(row.phase, row.batch, row.tokens, row.past)
    return {
        (model.name, signature(summary, model_pass)): summary
        for model, split in models
        for summary in summaries(model, model_pass, split)
        if summary.name == row.part
    }


def _check_row(
    row: MeasuredRow,
    machine: Hardware,
    parts: Mapping[tuple[str, str], PartSummary],
    names: str,
) -> None:
    matching_parts = {key: part for key, part in parts.items() if row.layer in ("", key[1])}
    sizes = list(dict.fromkeys(size for _, size in parts))
    sizes_text = " | ".join(sizes[:_MOST_SHOWN]) + (" | ..." if len(sizes) > _MOST_SHOWN else "")
    if not matching_parts:
        raise row.refused(
            "layer",
            f"no {row.part} of {names}; legal: {sizes_text}",
            "trnsim plan layer --json prints the sizes of a layer",
        )
    if len(matching_parts) > 1 and not row.layer:
        raise row.refused(
            "layer",
            f"this plan has {len(matching_parts)} kinds of {row.part}; legal: {sizes_text}",
            "name the sizes, or set the ranks of the layout",
        )
    products_s = min(part.useful_flop for part in matching_parts.values()) / largest_peak(machine)
    weights_s = min(_weights_s(part, machine) for part in matching_parts.values())
    _check_time(row, "time_us", row.forward_s, max(products_s, weights_s), machine)
    if row.backward_s is not None:
        _check_time(row, "backward_us", row.backward_s, _GRADIENT_PRODUCTS * products_s, machine)


def _check_time(
    row: MeasuredRow, column: str, time_s: float, least_s: float, machine: Hardware
) -> None:
    if time_s < least_s:
        raise row.refused(
            column,
            f"legal: from {amount(least_s * _US_PER_S)} us, which {machine.chip.name}'s published "
            "peak and HBM bandwidth allow",
            "give microseconds of one layer on one rank",
        )


def _weights_s(summary: PartSummary, machine: Hardware) -> float:
    """Seconds of a part's weights at the published HBM bandwidth."""
    return summary.weight_bytes * machine.ranks_per_chip / float(machine.chip.memory_bytes_per_s)
