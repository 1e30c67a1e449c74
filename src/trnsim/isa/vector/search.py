"""The eight largest values and their indices: max8, nc_find_index8, nc_match_replace8.

Values are compared in float32. AWS's cost formulas of max8 and nc_find_index8 give less than MIN_II
for few elements; here MIN_II is the minimum. Its formula of nc_match_replace8, min(MIN_II, N), is
taken as max(MIN_II, N).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.simulator import FIND_ALL_ONES, REPLACE_FROM_END
from trnsim.dtypes import UINT16, UINT32, Array, Float32Array, round_to
from trnsim.errors import UndefinedBehavior, Unspecified
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operands import is_number
from trnsim.memory import Tile

_EIGHT = 8
_MOST_DIMENSIONS = 3
_NOT_FOUND = -1
_OLDER_SOURCE = "aws-neuron-sdk@0521004c (SDK 2.26) nki.isa.nc_match_replace8"


class Max8(Instruction, engines=(Engine.vector,)):
    """``dst = the 8 largest values of src, descending``, duplicates kept: [P, 8].

    Note:
        The order of NaN is not documented; NaN is refused. AWS's older formula is below MIN_II for
        few elements; MIN_II is the minimum here.
    """

    result_depends_on = "same element"

    dst: Tile = writes("P E", SBUF, PSUM)
    src: Tile = reads("P F", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """8 to 16,384 elements per partition, in up to 3 dimensions.

        - dst is [P, 8].
        """
        _check_length(self, "src", core, n.F, _EIGHT)
        _check_eight(self, "dst", n.E)
        _check_dimensions(self, "dst", 2)
        _check_dimensions(self, "src", _MOST_DIMENSIONS)

    def execute(self, machine: Machine) -> None:
        """Compared in float32, rounded once on write."""
        del machine
        values = _rows(self.src)
        largest = np.sort(np.partition(values, -_EIGHT, axis=1)[:, -_EIGHT:], axis=1)[:, ::-1]
        if np.isnan(largest).any():
            raise Unspecified(
                "max8: src holds NaN, whose order AWS does not document",
                fix="replace NaN first",
                source=self.source,
            )
        self.dst.store(largest)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F, and at least MIN_II."""
        return lane_cost(core, Engine.vector, n.F)


class NcFindIndex8(Instruction, engines=(Engine.vector,)):
    """``dst[:, j] = index of vals[:, j] in data`` along the flattened free axis: [P, 8].

    The k-th of equal values finds the k-th occurrence. A value that does not occur, or not that
    often, gives an index of all ones.
    """

    result_depends_on = "row"

    dst: Tile = writes("P E", SBUF, PSUM, dtypes=(UINT16, UINT32))
    data: Tile = reads("P F", SBUF, PSUM)
    vals: Tile = reads("P E", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`data` has 8 to 16,384 elements per partition, in up to 3 dimensions.

        - vals has 8 elements per partition, in up to 3 dimensions; dst is [P, 8].
        """
        _check_length(self, "data", core, n.F, _EIGHT)
        _check_eight(self, "vals", n.E)
        _check_dimensions(self, "dst", 2)
        _check_dimensions(self, "data", _MOST_DIMENSIONS)
        _check_dimensions(self, "vals", _MOST_DIMENSIONS)

    def execute(self, machine: Machine) -> None:
        """Equal values find successive occurrences."""
        if not machine.core.does(FIND_ALL_ONES):
            matches = _rows(self.data)[:, None, :] == _rows(self.vals)[:, :, None]
            self.dst.put(matches.argmax(axis=-1).astype(self.dst.dtype.dtype))
            return
        indices = _find(_rows(self.data).copy(), _rows(self.vals), range(_EIGHT))
        dtype = self.dst.dtype.dtype
        self.dst.put(np.where(indices == _NOT_FOUND, np.iinfo(dtype).max, indices).astype(dtype))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """F, and at least MIN_II."""
        return lane_cost(core, Engine.vector, n.F)


class NcMatchReplace8(Instruction, engines=(Engine.vector,)):
    """``dst = data with the first occurrence of each of vals replaced by imm``.

    The columns of vals are searched from the last to the first, so that of equal values the last
    finds the first occurrence. ``dst_idx[:, j]`` is the index where vals[:, j] was found: [P, 8].

    Note:
        The limits on data and vals, and that the index of a missing value is undefined, are from
        SDK 2.26; today's page has neither. The older price reads min(MIN_II, N) and is taken as
        max(MIN_II, N).
    """

    result_depends_on = "row"

    dst: Tile = writes("P F", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    vals: Tile = reads("P E", SBUF, PSUM)
    imm: float
    dst_idx: Tile | None = writes("P E", SBUF, PSUM, default=None)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`vals` has 8 elements per partition, in up to 3 dimensions.

        - data has up to 16,384 elements per partition.
        - `imm` is a number.
        """
        _check_length(self, "data", core, n.F, 1, _OLDER_SOURCE)
        _check_eight(self, "vals", n.E)
        _check_dimensions(self, "vals", _MOST_DIMENSIONS, _OLDER_SOURCE)
        if not is_number(self.imm):
            self.refuse(f"imm is {self.imm}; legal: a number", "pass a float")

    def execute(self, machine: Machine) -> None:
        """Elements that are not replaced keep their bits if the dtypes agree."""
        values = _rows(self.data)
        columns = range(_EIGHT)
        if machine.core.does(REPLACE_FROM_END):
            columns = columns[::-1]
        indices = _find(values.copy(), _rows(self.vals), columns)
        if self.dst_idx is not None and (indices == _NOT_FOUND).any():
            lane, column = (int(i[0]) for i in np.nonzero(indices == _NOT_FOUND))
            raise UndefinedBehavior(
                f"nc_match_replace8: vals[{lane}, {column}] is not in data, or not often enough; "
                "its index in dst_idx is undefined",
                fix="take vals from data, for example with nisa.max8, or leave out dst_idx",
                source=_OLDER_SOURCE,
            )
        lanes, columns_found = np.nonzero(indices != _NOT_FOUND)
        matches = lanes, indices[lanes, columns_found]
        if self.dst.dtype == self.data.dtype:
            bits = self.data.bits().reshape(values.shape).copy()
            bits[matches] = round_to(np.asarray([self.imm], np.float64), self.dst.dtype)[0]
            self.dst.put(bits)
        else:
            new_values = values.copy()
            new_values[matches] = self.imm
            self.dst.store(new_values)
        if self.dst_idx is not None:
            self.dst_idx.store(indices)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F)."""
        return lane_cost(core, Engine.vector, n.F)


def _rows(tile: Tile) -> Float32Array:
    """The values of `tile` in float32, as [P, F]."""
    return tile.load().reshape(tile.partitions, -1)


def _find(data: Float32Array, values: Float32Array, order: Iterable[int]) -> Array:
    """The index in its row of `data` at which each value first occurs, or -1: [P, 8].

    An element that a value has found becomes NaN, which equals nothing, so that no later value
    finds it.

    Args:
        data: [P, F], changed in place.
        values: [P, 8].
        order: columns of `values` in the order of their search.
    """
    indices = np.full(values.shape, _NOT_FOUND)
    lanes = np.arange(len(data))
    for column in order:
        matches = data == values[:, column : column + 1]
        first_match = matches.argmax(axis=1)
        has_match = matches[lanes, first_match]
        indices[has_match, column] = first_match[has_match]
        data[lanes[has_match], first_match[has_match]] = np.nan
    return indices


def _check_length(
    instruction: Instruction, name: str, core: NeuronCore, F: int, min_length: int, source: str = ""
) -> None:
    if not min_length <= F <= core.search_free_max:
        instruction.refuse(
            f"{name} is {getattr(instruction, name)}, {F} elements a partition; legal on "
            f"{core.name}: {min_length} to {core.search_free_max}",
            "split the tile, or pad it",
            source,
        )


def _check_eight(instruction: Instruction, name: str, E: int) -> None:
    if E != _EIGHT:
        instruction.refuse(
            f"{name} is {getattr(instruction, name)}; legal: {_EIGHT} elements a partition",
            f"use a tile with {_EIGHT} elements a partition",
        )


def _check_dimensions(instruction: Instruction, name: str, limit: int, source: str = "") -> None:
    tile: Tile = getattr(instruction, name)
    if len(tile.shape) > limit:
        instruction.refuse(
            f"{name} is {tile}, of {len(tile.shape)} dimensions; legal: up to {limit}",
            "reshape the tile",
            source,
        )
