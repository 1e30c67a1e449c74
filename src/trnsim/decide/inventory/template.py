"""An inventory to fill in: all fields with meaning, unit and legal values."""

from __future__ import annotations

from typing import Final

from trnsim.decide.inventory.fields import InventoryRow
from trnsim.reader import row_template

_HEAD_COMMENT: Final = """\
# An inventory for `trnsim assess`: a row for each workload. The same fields as the first line of a
# CSV file are legal too. A field that stands behind a # may be left out or filled in; one with a *
# has to be there. Of the three volumes a row has one. Paths lie in or below this file's folder.
"""


def template() -> str:
    """A YAML inventory of one workload, whose comments explain each field.

    It is legal if a ``config.json`` lies beside it.
    """
    return _HEAD_COMMENT + row_template(InventoryRow)
