"""A company's inventory: what it runs today, as workloads.

An inventory is a table, CSV or YAML, with one workload a row and the fields of `fields.Row`, or
a bill of AWS (`billed`).
Nothing is computed here: times are predicted, and prices looked up, by the rooms that decide.
"""

from __future__ import annotations

from pathlib import Path

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.bill_rows import is_bill
from trnsim.decide.inventory.billed import billed_workloads
from trnsim.decide.inventory.fields import InventoryRow
from trnsim.decide.inventory.rows import workloads
from trnsim.decide.inventory.template import template
from trnsim.decide.inventory.workload import Current, Shape, Workload, WorkloadSlo
from trnsim.reader import read_rows

__all__ = ["Current", "Shape", "Workload", "WorkloadSlo", "read", "template"]


def read(path: Path | str, rows: Catalogue | None = None) -> list[Workload]:
    """The workloads of the inventory at `path`, in its order.

    Args:
        path: a CSV or YAML table, or a cost and usage report of AWS with a file beside it that
            says which usage is which model's; paths within are relative to the folder.
        rows: the catalogue that knows instances; by default the one that ships with trnsim.

    Raises:
        BadInput: the file, or a cell of it, cannot be used: file, line, field, legal values.
    """
    path = Path(path)
    if is_bill(path):
        return billed_workloads(path, rows)
    return workloads(path, read_rows(InventoryRow, path), rows)
