"""A company's inventory: its workloads of today.

An inventory is a CSV or YAML table with a workload in each row and the fields of
`fields.InventoryRow`, or a bill of AWS (`billed`). Nothing is computed here: other rooms predict
times and look up prices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.inventory.bill_rows import is_bill
from trnsim.decide.inventory.billed import billed_workloads
from trnsim.decide.inventory.fields import InventoryRow
from trnsim.decide.inventory.rows import workloads
from trnsim.decide.inventory.template import template
from trnsim.decide.inventory.workload import CurrentDeployment, Shape, Workload
from trnsim.reader import read_rows

__all__ = ["CurrentDeployment", "Shape", "Workload", "read", "template"]

_FIX: Final = "trnsim assess --template prints an inventory to fill in"


def read(path: Path | str, rows: Catalogue | None = None) -> list[Workload]:
    """The workloads of the inventory at `path`, in its order.

    Args:
        path: a CSV or YAML table, or a cost and usage report of AWS with a file beside it that
            assigns its usage to models; paths within are relative to the folder.
        rows: catalogue of instances; by default trnsim's.

    Raises:
        BadInput: the file, or a cell of it, cannot be used: file, line, field, legal values.
    """
    path = Path(path)
    if is_bill(path):
        return billed_workloads(path, rows)
    return workloads(path, read_rows(InventoryRow, path, _FIX), rows)
