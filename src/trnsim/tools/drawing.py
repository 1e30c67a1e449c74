"""Devices and the links between them as text, in the form of ``neuron-ls --topology``.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-ls.rst, which draws a torus of 4x4. Rings and
chains are drawn as one row of a torus, a torus of three dimensions as squares. Devices behind a
switch are not drawn: a sentence says how many the switch joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from trnsim.instance.model import InstanceModel

_DEVICE_CHARS: Final = 9
"""Characters from one device to the next."""
_MARGIN_CHARS: Final = 6
"""Characters before the column of the first device."""
_MARKS_BETWEEN_ROWS: Final = ("▲", "│", "▼")
_WRAP_OUT: Final = "*\u2013\u2013►"
_WRAP_IN: Final = "◄\u2013\u2013*"
_LINK: Final = "◄\u2013\u2013►"
_LEGEND: Final = f"\nLegend:\n\n        {_WRAP_OUT} = Wrap-around link"
_PAIR_DEVICES: Final = 2
"""Number of devices that one link joins; a ring has more."""

Row = list[int]


def drawing(model: InstanceModel) -> str:
    """The devices of `model` and their links; "" for a single device."""
    if len(model.devices) == 1:
        return ""
    if _is_switched(model):
        size = len(model.devices[0].connected) + 1
        return f"Neuron Device Topology\n  {size} devices of a server are joined by its switch"
    squares = _squares(model)
    lines = ["Neuron Device Topology"]
    for square in squares:
        lines += _square(model, square)
    if len(squares) > 1:
        lines.append(
            "The squares form a ring: a device is joined to those at its place in the squares "
            "before and after its own."
        )
    if any("*" in line for line in lines):
        lines.append(_LEGEND)
    return "\n".join(lines)


def _is_switched(model: InstanceModel) -> bool:
    """True if all devices of a server are joined to each other, by a switch.

    Two devices joined to each other are a pair, and three are a ring: they need no switch.
    """
    group = {0, *model.devices[0].connected}
    is_all_to_all = all({device, *model.devices[device].connected} == group for device in group)
    return is_all_to_all and len(group) > _PAIR_DEVICES + 1


def _squares(model: InstanceModel) -> list[list[Row]]:
    """The devices as squares, each a list of rows of device numbers."""
    rows: list[Row] = [[0]]
    for device in model.devices[1:]:
        is_next = device.index - 1 in device.connected
        if is_next and (len(rows) == 1 or len(rows[-1]) < len(rows[0])):
            rows[-1].append(device.index)
        else:
            rows.append([device.index])
    squares = [[rows[0]]]
    for before, row in pairwise(rows):
        if row[0] in model.devices[before[0]].connected:
            squares[-1].append(row)
        else:
            squares.append([row])
    return squares


def _square(model: InstanceModel, rows: Sequence[Row]) -> list[str]:
    """The drawing of a square, as lines."""
    is_torus = len(rows) > 1
    first = rows[0]
    lines = [_marks(mark, first) for mark in ("*", "│", "▼")] if is_torus else []
    for row in rows:
        is_closed = len(row) > _PAIR_DEVICES and row[-1] in model.devices[row[0]].connected
        if row is not first:
            lines += [_marks(mark, row) for mark in _MARKS_BETWEEN_ROWS]
        cells = _LINK.join(f"[{index:>2} ]" for index in row)
        lines.append(f"{_WRAP_OUT}{cells}{_WRAP_IN}" if is_closed else f"    {cells}")
    if is_torus:
        lines += [_marks(mark, first) for mark in ("▲", "│", "*")]
    return lines


def _marks(mark: str, row: Row) -> str:
    """`mark` above each device of a row."""
    return (
        " " * _MARGIN_CHARS
        + mark.ljust(_DEVICE_CHARS) * (len(row) - 1)
        + mark
        + " " * _MARGIN_CHARS
    )
