"""Sums of updates by row of a table, as products with matrices that mark each update's row.

A scatter that adds row by row waits for each transfer before the next, as both may write one row.
Here updates lie along the partitions, each with a mark (1) in the column of its row. The product of
marks and updates adds up the updates of each row in PSUM, for many rows of the table at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from trnsim.graph import Node
from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import binary, copied
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

MULTIPLIED: Final = ("float32", "bfloat16", "float16")
"""Formats of updates that products with marks can add."""
_BANKS: Final = 4
"""Banks of PSUM for sums: half of all, so that the next sums begin while others are stored."""
_MOST_BLOCKS: Final = 16
"""Maximum number of blocks of 128 rows of the table whose updates are marked at once."""
_CHUNK_BYTES: Final = 16 * 1024
"""Bytes of a partition for a chunk of updates."""
_HELD_BYTES: Final = 48 * 1024
"""Bytes of a partition for updates that stay in SBUF while rows of the table pass."""
_NUMBERING_PASSES: Final = 2
"""Passes over the marks' columns that number the table's rows, before any update is marked."""


def are_products_faster(rows: int, count: int, width: int, dtype: str) -> bool:
    """True if products add `count` updates of `width` elements sooner than transfers by index.

    Each transfer, of one row or of 128 rows by one instruction, waits for the one before. A table
    of a short format is then kept in float32, which is written, read and rounded. The Vector Engine
    numbers rows and makes marks at the same time as the Tensor Engine multiplies.
    """
    core = current_core().core
    transfers = 2 * ceil(count / P) if core.features.indirect_dma else count + 2
    transfers_s = transfers * float(core.dma_issue_s + core.dma_start_s + core.dma_end_s)
    if dtype != "float32":
        table_bytes = rows * width * nl.float32.itemsize
        transfers_s += 2 * table_bytes / float(core.dma_bytes_per_s)
    passes = core.fp32_passes if dtype == "float32" else 1
    blocks, parts = ceil(count / P), ceil(width / BANK)
    columns = parts * ceil(rows / P) * max(min(width, BANK), tiles.FEWEST_COLUMNS) * passes
    products_s = blocks * columns / clock_hz(core, Engine.tensor)
    numbered_and_marked = (_NUMBERING_PASSES + blocks) * parts * rows
    marks_s = numbered_and_marked / clock_hz(core, Engine.vector)
    return dtype in MULTIPLIED and max(products_s, marks_s) < transfers_s


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns of a table and of its updates in HBM: `columns` of `width`, from `column` on."""

    column: int
    columns: int
    width: int

    def view(self, tensor: Tensor, start: int, partitions: int, together: int) -> Tensor:
        """A view of rows from `start` on, `together` neighbours on each partition."""
        pattern = [(together * self.width, partitions), (self.width, together), (1, self.columns)]
        return tiles.strided(tensor, pattern, start * self.width + self.column)


class RowSums:
    """The sums of updates [N, W] by row of a table [R, W], added to an operand if there is one."""

    def __init__(
        self, node: Node, updates: Tensor, indices: Tensor, operands: Sequence[Tensor]
    ) -> None:
        shape = node.result.shape
        self.rows, self.count = shape[0], node.values[1].type.elements
        self.width = node.result.type.elements // shape[0]
        self.updates, self.indices, self.operands = updates, indices, operands
        self.out = tiles.output(shape, node.result.dtype)

    def run(self) -> Tensor:
        """Emit the sums, and return the table."""
        for column, columns in tiles.pieces(self.width, BANK):
            self._add_columns(_Part(column, columns, self.width))
        return self.out

    def _add_columns(self, part: _Part) -> None:
        """Emit the sums of a part of the columns."""
        row_bytes = part.columns * self.updates.dtype.itemsize
        chunks = list(tiles.spread(self.count, max(_CHUNK_BYTES // row_bytes, 1)))
        are_held = sum(elements for *_, elements in chunks) * row_bytes <= _HELD_BYTES
        loads = [self._load(part, chunk) for chunk in chunks] if are_held else []
        max_blocks = min(_BANKS * max(BANK // part.columns, 1), _MOST_BLOCKS)
        for start, partitions, blocks in tiles.spread(self.rows, max_blocks):
            table_rows = _table_rows(start, partitions, blocks)
            banks = _new_banks(partitions, blocks, part.columns)
            for number, chunk in enumerate(chunks):
                places, chunk_updates = loads[number] if are_held else self._load(part, chunk)
                for at in range(places.shape[1]):
                    marks = new((places.shape[0], partitions * blocks), chunk_updates.dtype)
                    binary(marks, nl.equal, table_rows[: places.shape[0]], places[:, at : at + 1])
                    _multiply(marks, chunk_updates[:, at], banks)
            self._store(part, start, blocks, banks)

    def _load(self, part: _Part, chunk: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
        """The rows that a chunk's updates are added to, [partitions, updates]; and the updates."""
        start, partitions, together = chunk
        pattern = [(together, partitions), (1, together)]
        places = tiles.load(tiles.strided(self.indices, pattern, start))
        return copied(places, nl.float32), tiles.load(part.view(self.updates, *chunk))

    def _store(self, part: _Part, start: int, blocks: int, banks: Sequence[Tensor]) -> None:
        """Write the sums of rows of the table, added to the rows of the operand."""
        partitions = banks[0].shape[0]
        result = new((partitions, blocks, part.columns), self.out.dtype)
        earlier_sums = [
            tiles.load(part.view(operand, start, partitions, blocks)) for operand in self.operands
        ]
        first = 0
        for bank in banks:
            blocks_of_bank = slice(first, first + bank.shape[1])
            if earlier_sums:
                binary(result[:, blocks_of_bank], nl.add, bank, earlier_sums[0][:, blocks_of_bank])
            else:
                copied(bank, result.dtype, result[:, blocks_of_bank])
            first += bank.shape[1]
        nisa.dma_copy(dst=part.view(self.out, start, partitions, blocks), src=result)


def _table_rows(start: int, partitions: int, blocks: int) -> Tensor:
    """The row of the table that each column of the marks stands for, on every partition.

    A block of columns has every `blocks`-th row, so that neighbouring rows are on one partition of
    the sums.
    """
    counts = new((P, blocks * partitions), nl.int32)
    pattern = [[1, blocks], [blocks, partitions]]
    nisa.iota(dst=counts.reshape((P, blocks, partitions)), pattern=pattern, offset=start)
    return copied(counts, nl.float32)


def _new_banks(partitions: int, blocks: int, columns: int) -> list[Tensor]:
    """New tiles of PSUM for the sums of blocks of rows, [partitions, blocks of a bank, columns]."""
    return [
        new((partitions, number, columns), nl.float32, nl.psum)
        for _, number in tiles.pieces(blocks, BANK // columns)
    ]


def _multiply(marks: Tensor, updates: Tensor, banks: Sequence[Tensor]) -> None:
    """Add the products of marks and updates, block by block of the table's rows."""
    first = 0
    for bank in banks:
        partitions = bank.shape[0]
        for block in range(bank.shape[1]):
            rows = marks[:, first : first + partitions]
            nisa.nc_matmul(dst=bank[:, block], stationary=rows, moving=updates)
            first += partitions
