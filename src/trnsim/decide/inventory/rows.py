"""Workloads from the rows of an inventory; a refusal names file, line and field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide.inventory.fields import InventoryRow
from trnsim.decide.inventory.workload import (
    VOLUME_UNITS,
    CurrentDeployment,
    Kind,
    Shape,
    VolumeUnit,
    Workload,
)
from trnsim.errors import EmulatorError
from trnsim.place.machine import platforms
from trnsim.price.quotes import today
from trnsim.reader import fault
from trnsim.system.serve.demand import Slo
from trnsim.workload import config
from trnsim.workload.architecture import Architecture
from trnsim.workload.model_names import named_file

_VOLUME_UNITS_BY_KIND: Final[dict[Kind, tuple[VolumeUnit, ...]]] = {
    "train": ("tokens_per_month", "gpu_hours"),
    "serve": ("tokens_per_month", "gpu_hours"),
    "infer": ("items_per_month", "gpu_hours"),
}


def workloads(
    path: Path, rows: Sequence[InventoryRow], hardware: Catalogue | None = None
) -> list[Workload]:
    """Workloads of the inventory at `path`, from its rows.

    Raises:
        BadInput: there is no row, a name is not unique, or a cell is not legal.
    """
    if not rows:
        raise fault(path, "no workloads", fix="add a row for each workload")
    _check_names(rows)
    return [workload(path, row, hardware) for row in rows]


def _check_names(rows: Sequence[InventoryRow]) -> None:
    lines: dict[str, int] = {}
    for row in rows:
        if row.workload in lines:
            raise row.refused("workload", f"the name stands in line {lines[row.workload]} too")
        lines[row.workload] = row.line.line


def workload(path: Path, row: InventoryRow, hardware: Catalogue | None = None) -> Workload:
    """Workload of a row of the inventory at `path`.

    Raises:
        BadInput: a cell is not legal: file, line, field, legal values.
    """
    hardware = hardware or catalogue()
    volume, unit = _volume(row)
    model_path = _model_file(path, row)
    if row.as_of is not None and row.as_of > (latest := today(hardware)):
        raise row.refused("as_of", f"a day in the future; legal: up to {latest}")
    return Workload(
        name=row.workload,
        kind=row.kind,
        model=_model(row, model_path),
        model_path=model_path,
        volume=volume,
        volume_unit=unit,
        current=_current(row, hardware),
        line=row.line,
        shape=Shape(row.sequence, row.input_len, row.output_len, row.batch, row.image, row.steps),
        slo=Slo(row.ttft_s, row.tpot_s, row.latency_s, row.percentile),
        deadline_hours=row.deadline_hours,
        sources=tuple(path_inside(path, row, "sources", source) for source in row.sources),
        staff_weeks=row.staff_weeks,
        other_clouds=row.other_clouds,
        is_portability_needed=row.portability_needed,
        framework=row.framework,
        is_committed_to_aws=row.committed_to_aws,
        peak_ratio=row.peak_ratio,
        port_state=row.port_state,
        as_of=row.as_of,
        assumptions=_assumptions(row),
    )


def _volume(row: InventoryRow) -> tuple[float, VolumeUnit]:
    """Volume of a row, and its unit."""
    amounts = {unit: amount for unit in VOLUME_UNITS if (amount := getattr(row, unit)) is not None}
    legal = _VOLUME_UNITS_BY_KIND[row.kind]
    if len(amounts) != 1:
        units = " and ".join(amounts) or "no volume"
        raise row.record_error(f"{units} given; legal: exactly one of {' and '.join(legal)}")
    ((unit, amount),) = amounts.items()
    if unit not in legal:
        raise row.refused(unit, f"not of kind {row.kind}; legal: {' or '.join(legal)}")
    return amount, unit


def path_inside(path: Path, row: InventoryRow, field: str, text: str) -> Path:
    """Path in a cell, which must lie in the folder of the inventory.

    Args:
        path: the inventory.
        row: row of the cell, for errors.
        field: field of the cell, for errors.
        text: content of the cell, a path relative to the inventory's folder.

    Raises:
        BadInput: it leads out of the folder, or does not exist.
    """
    folder = path.parent.resolve()
    try:
        target = (folder / text).resolve()
        exists = target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, or a loop of links
        raise row.refused(field, f"no path: {error}") from error
    if not target.is_relative_to(folder):
        raise row.refused(field, f"it leads out of the inventory's folder {path.parent}")
    if not exists:
        raise row.refused(field, f"no such file in {path.parent}", "paths are relative to it")
    return path.parent / text


def _model_file(path: Path, row: InventoryRow) -> Path:
    """The configuration that a row names: a file beside the inventory, else a model by its name.

    Raises:
        BadInput: there is neither.
    """
    file = named_file(row.model_config)
    if file is not None and not (path.parent / row.model_config).exists():
        return file
    return path_inside(path, row, "model_config", row.model_config)


def _model(row: InventoryRow, path: Path) -> Architecture:
    try:
        model = config.read(path)
    except EmulatorError as error:
        raise row.refused("model_config", error.reason, error.fix) from error
    if row.port_state != "tuned" and (row.kind != "serve" or model.experts is None):
        raise row.refused(
            "port_state",
            f"legal for servers of mixtures of experts, which were measured; the workload is to "
            f"{row.kind} {model.name}",
            "leave it out",
        )
    return model


def _current(row: InventoryRow, hardware: Catalogue) -> CurrentDeployment:
    """Instances, bill and region of a row; short names of instances such as p5 are legal."""
    name = platforms().get(row.current_instance, row.current_instance)
    if name not in hardware.instances:
        name = row.choice("current_instance", hardware.instances)
    return CurrentDeployment(
        name, row.current_count, row.purchase_kind, row.usd_per_month, row.region
    )


def _assumptions(row: InventoryRow) -> tuple[str, ...]:
    """Assumptions in place of empty cells."""
    notes: list[str] = []
    if "purchase_kind" not in row:
        notes.append("bought on demand: the inventory names no purchase_kind")
    has_limit = any(limit in row for limit in ("ttft_s", "tpot_s", "latency_s"))
    if has_limit and "percentile" not in row:
        notes.append(
            "limits of latency hold for 99 % of requests: the inventory names no percentile"
        )
    return tuple(notes)
