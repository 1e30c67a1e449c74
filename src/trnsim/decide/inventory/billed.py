"""Workloads from a bill, whose usage a YAML file beside the bill assigns to models.

The YAML file is named after the bill, ``october.models.yaml`` for ``october.csv``. It is an
inventory whose instance, purchase kind, region, hours and cost come from the bill. Each row selects
usage by a tag (``tag: team=chat``), by resources, or by instance, purchase kind and region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide.inventory.bill import Bill, Usage, read_bill
from trnsim.decide.inventory.bill_rows import tag_key
from trnsim.decide.inventory.fields import BilledRow, InventoryRow
from trnsim.decide.inventory.rows import workloads
from trnsim.decide.inventory.workload import VOLUME_UNITS, Workload
from trnsim.reader import fault, read_rows

_USAGE_ATTRIBUTES_BY_FIELD: Final = {
    "current_instance": "instance",
    "purchase_kind": "kind",
    "region": "region",
}
"""Fields of a row that select usage, each with the attribute of `Usage` that it must equal."""
_BILL_ENDINGS: Final = (".gz", ".csv", ".parquet")
_FIX: Final = (
    "write it: for each workload a row with workload, model_config, kind and tag, resource or "
    "current_instance"
)


def models_path(bill: Path) -> Path:
    """Path of the file beside a bill that assigns its usage to models."""
    name = bill.name
    for end in _BILL_ENDINGS:
        name = name.removesuffix(end)
    return bill.with_name(f"{name}.models.yaml")


def billed_workloads(path: Path, rows: Catalogue | None = None) -> list[Workload]:
    """The workloads of the cost and usage report at `path`.

    Raises:
        BadInput: the report or the file beside it cannot be used, the report has several months, or
            a row selects no usage, that of another row, or several instance types.
    """
    rows = rows or catalogue()
    bill = read_bill(path, rows)
    if len(bill.months) != 1:
        months = f"the months {', '.join(bill.months)}; legal: one"
        raise fault(path, months, "export one month")
    models = models_path(path)
    if not models.is_file():
        raise fault(path, f"a bill, which names no models: {models} is missing", _FIX)
    billed_rows = read_rows(BilledRow, models)
    usages = _row_usages(bill, billed_rows)
    inventory_rows = [
        _completed_row(row, usage, bill, rows)
        for row, usage in zip(billed_rows, usages, strict=True)
    ]
    inventory_workloads = workloads(models, inventory_rows, rows)
    notes = _assumptions(bill, usages)
    return [
        replace(
            workload, assumptions=(*workload.assumptions, *notes, *_usage_assumptions(row, usage))
        )
        for workload, row, usage in zip(inventory_workloads, billed_rows, usages, strict=True)
    ]


def _row_usages(bill: Bill, rows: Sequence[BilledRow]) -> list[list[Usage]]:
    """Usage that each row selects; no usage belongs to two rows."""
    owners: dict[Usage, BilledRow] = {}
    usages: list[list[Usage]] = []
    for row in rows:
        if not any(name in row for name in ("tag", "resource", *_USAGE_ATTRIBUTES_BY_FIELD)):
            raise row.record_error("the row picks no usage", _FIX)
        usage = [item for item in bill.usage if _selects(row, item)]
        if not usage:
            raise row.record_error(
                f"no usage in {bill.path} is picked; it has {_machine_names(bill.usage)}"
            )
        for item in usage:
            if item in owners:
                overlap = (
                    f"line {item.line} of {bill.path} is also that of line {owners[item].line.line}"
                )
                raise row.record_error(overlap, "pick less: by tag, resource, instance or region")
            owners[item] = row
        usages.append(usage)
    return usages


def _selects(row: BilledRow, usage: Usage) -> bool:
    """True if the tags, resources and fields of a row select a usage of the bill."""
    tags = dict(usage.tags)
    if any(tags.get(tag_key(key)) != value for key, value in row.tag):
        return False
    if row.resource and usage.resource not in row.resource:
        return False
    return all(
        getattr(row, field) == getattr(usage, name)
        for field, name in _USAGE_ATTRIBUTES_BY_FIELD.items()
        if field in row
    )


def _completed_row(row: BilledRow, usage: list[Usage], bill: Bill, rows: Catalogue) -> InventoryRow:
    """Inventory row with the instance, purchase kind, region, hours and cost of its usage."""
    machines = {(item.instance, item.kind, item.region) for item in usage}
    if len(machines) > 1:
        text = f"its usage is of several machines: {_machine_names(usage)}"
        raise row.record_error(
            text, "make a row for each, with current_instance, purchase_kind, region"
        )
    ((instance, kind, region),) = machines
    hours = sum(item.hours for item in usage)
    usd = sum(item.usd for item in usage)
    cells: dict[str, str] = {"current_instance": instance, "purchase_kind": kind}
    if region is not None:
        cells["region"] = region
    if not any(unit in row for unit in VOLUME_UNITS):
        cells["gpu_hours"] = repr(hours * rows.instance(instance).count)
    if usd > 0:
        cells["usd_per_month"] = repr(usd)
    elif "usd_per_month" not in row:
        reason = f"{hours:g} hours of {instance} have no cost: capacity blocks are paid in advance"
        raise row.record_error(reason, "give usd_per_month, the part of the fee for this month")
    cells["as_of"] = str(bill.last_day)
    return row.converted(InventoryRow, cells, "tag", "resource")


def _assumptions(bill: Bill, usages: Sequence[Sequence[Usage]]) -> tuple[str, ...]:
    """Notes on the part of the bill that belongs to no workload."""
    notes: list[str] = []
    unassigned_usd = bill.usd - sum(item.usd for usage in usages for item in usage)
    if unassigned_usd > bill.usd * 1e-9:
        notes.append(
            f"{unassigned_usd:,.0f} USD of accelerators in {bill.path.name} are no workload's"
        )
    if bill.unknown:
        sizes = ", ".join(f"{name} ({usd:,.0f} USD)" for name, usd in bill.unknown)
        notes.append(f"not in the catalogue, and left out: {sizes}")
    return tuple(notes)


def _usage_assumptions(row: BilledRow, usage: Sequence[Usage]) -> tuple[str, ...]:
    """Assumptions about the cost of a row's usage."""
    if not any(item.usd for item in usage):
        return ("hours without a cost of their own are those of a capacity block",)
    if "usd_per_month" in row:
        return ("usd_per_month is that of the bill, not the one beside it",)
    return ()


def _machine_names(usage: Sequence[Usage]) -> str:
    """Instance types, purchase kinds and regions of some usage, for messages."""
    names = {f"{item.instance} {item.kind} {item.region or ''}".strip() for item in usage}
    return ", ".join(sorted(names))
