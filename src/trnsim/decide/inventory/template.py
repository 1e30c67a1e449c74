"""An inventory to fill in: all fields with meaning, unit and legal values."""

from __future__ import annotations

from typing import Final

from trnsim.decide.inventory.fields import InventoryRow
from trnsim.reader import row_template

_HEAD_COMMENT: Final = """\
# An inventory for `trnsim assess`: a row for each workload. A CSV file with these fields in its
# first line is legal too. A field that stands behind a # may be left out or filled in; one with a *
# has to be there. A row has one of the three volumes. Paths lie in or below this file's folder.
"""


def template() -> str:
    """A YAML inventory of one workload, whose comments explain each field.

    It is legal if a ``config.json`` lies beside it.
    """
    return _HEAD_COMMENT + row_template(InventoryRow)
