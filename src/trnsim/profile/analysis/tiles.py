"""Larger matmuls: several merged into one, with the instructions that feed it and read its product.

A tile that is loaded, multiplied, evicted and stored by itself grows as a whole, so each of these
instructions becomes a part of a larger one. Instructions on larger tiles stay as they are.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from trnsim.isa import Engine, Instruction
from trnsim.memory import Box, Memory
from trnsim.profile.analysis import what_if
from trnsim.profile.analysis.examination import Examination, Repair
from trnsim.profile.analysis.what_if import Growth
from trnsim.profile.units import percent_text
from trnsim.program import Program
from trnsim.timing import EnginePlacement

_Place = tuple[int, "Box"]
"""(serial number of the storage that holds a tile, the tile's box in it)."""


@dataclass(frozen=True, slots=True)
class Merger:
    """Several matmuls merged into one with larger tiles.

    Attributes:
        placement: engine and cost of the merged matmul.
        inputs: the growth of its stationary and of its moving tile.
    """

    INPUTS: ClassVar = ("stationary", "moving")

    placement: EnginePlacement
    factor: int
    inputs: tuple[Growth, Growth]
    product: Growth


class Reuse(NamedTuple):
    """Mean numbers of matmuls of a kind that share a tile.

    Attributes:
        product: matmuls that accumulate in one product.
        stationary: matmuls that read one stationary tile.
        moving: matmuls that read one moving tile.
    """

    product: int
    stationary: int
    moving: int


def short_streams(examination: Examination, threshold_elements: float) -> Repair | None:
    """Matmuls that share a stationary tile, merged up to a bank of PSUM."""
    mergers: dict[int, Merger] = {}
    shortest = int(threshold_elements)
    for (_, _, N), kinds in _matmuls_by_size(examination).items():
        factor = min(int(threshold_elements) // N, _reuse(examination, kinds).stationary)
        if factor <= 1:
            continue
        wider = Growth(columns=N, column_factor=factor)
        for which in kinds:
            instruction = examination.program.checked[which].instruction
            placement = what_if.merge(instruction, examination.core, factor, "N")
            if placement is not None:
                mergers[which] = Merger(placement, factor, (Growth(), wider), wider)
                shortest = min(shortest, N)
    return _merger_repair(examination, mergers, shortest=shortest)


def part_of_array(examination: Examination, threshold_share: float) -> Repair | None:
    """Matmuls of one product merged along K, matmuls of one moving tile along M."""
    mergers: dict[int, Merger] = {}
    core = examination.core
    smallest_share, smallest_size = threshold_share, ""
    for (K, M, _), kinds in _matmuls_by_size(examination).items():
        share = K * M / (core.pe_rows * core.pe_columns)
        if share >= threshold_share:
            continue
        reuse = _reuse(examination, kinds)
        rows = min(core.pe_rows // K, reuse.product)
        columns = min(core.pe_columns // M, reuse.moving)
        if rows * columns <= 1:
            continue
        inputs = Growth(K, rows, M, columns), Growth(K, rows)
        for which in kinds:
            mergers[which] = Merger(
                examination.recorded_placements[which], rows * columns, inputs, Growth(M, columns)
            )
        if share < smallest_share:
            smallest_share, smallest_size = share, f"K={K}, M={M}"
    return _merger_repair(
        examination, mergers, at=smallest_size, share=percent_text(smallest_share)
    )


def _matmuls_by_size(examination: Examination) -> dict[tuple[int, int, int], set[int]]:
    """(K, M, N) -> the distinct matmuls of this size."""
    by_size: defaultdict[tuple[int, int, int], set[int]] = defaultdict(set)
    for which, checked in enumerate(examination.program.checked):
        dims = checked.dims
        if checked.engine is Engine.tensor and {"K", "M", "N"} <= dims.keys():
            by_size[dims["K"], dims["M"], dims["N"]].add(which)
    return by_size


def _reuse(examination: Examination, kinds: set[int]) -> Reuse:
    """Mean number of matmuls of one size that share a tile; 1 where the tiles are not known.

    Matmuls that wait for each other's results are never merged.
    """
    program = examination.program.issued
    issued_indices = examination.issued_indices(list(kinds)).tolist()
    inputs = (
        []
        if examination.program.is_spilled
        else [_input_places(program, index) for index in issued_indices]
    )
    if not inputs or not all(inputs):
        return Reuse(1, 1, 1)
    products = sum(not _continues_product(program, index, kinds) for index in issued_indices)
    chain_length = _longest_chain(program, kinds)
    stationary, moving = (
        len(issued_indices) // (len(set(tiles)) * chain_length)
        for tiles in zip(*inputs, strict=True)
    )
    return Reuse(len(issued_indices) // products, max(stationary, 1), max(moving, 1))


def _longest_chain(program: Program, kinds: set[int]) -> int:
    """The most instructions of `kinds` that wait for each other's results, one after the other."""
    chain_lengths = array("l", [0]) * len(program)
    for index, which in enumerate(program.which):
        length = max((chain_lengths[i] for i in program.waits_for(index)), default=0)
        chain_lengths[index] = length + (which in kinds)
    return max(chain_lengths)


def _continues_product(program: Program, index: int, kinds: set[int]) -> bool:
    """True if a matmul accumulates in the product of an earlier matmul that nothing has read."""
    predecessors = [*program.waits_for(index), *program.follows(index)]
    matmuls = [i for i in predecessors if program.which[i] in kinds]
    readers = [i for i in predecessors if _reads_psum(program.instruction(i).instruction)]
    return bool(matmuls) and max(matmuls) > max(readers, default=-1)


def _input_places(program: Program, index: int) -> tuple[_Place, ...]:
    """A matmul's stationary and moving tile; () where they are not known."""
    inputs = [place for place, _, is_written in _sbuf_tiles(program, index) if not is_written]
    return tuple(inputs) if len(inputs) == len(Merger.INPUTS) else ()


def _sbuf_tiles(program: Program, index: int) -> list[tuple[_Place, tuple[int, ...], bool]]:
    """(place, shape, True if the instruction writes it) of each tile in SBUF."""
    return [
        ((serial, layout.box), layout.pattern.shape, is_written)
        for serial, layout, is_written in program.touches.tiles_of(index)
        if program.uses[serial].memory is Memory.SBUF
    ]


def _reads_psum(instruction: Instruction) -> bool:
    return any(tile.memory is Memory.PSUM for tile in instruction.accesses()[0])


# Growth spreads from the matmuls to the instructions that feed them or read their products


def _merger_repair(
    examination: Examination, mergers: dict[int, Merger], **figures: Any
) -> Repair | None:
    """The repair that merges matmuls with their surroundings; None where there are none."""
    if not mergers:
        return None
    program = examination.program.issued
    placements = _merged_placements(examination, mergers)
    grown_placements = _grown_placements(
        examination, _growth_of_feeders(program, mergers), first=True
    )
    grown_placements |= _grown_placements(
        examination, _growth_of_readers(program, mergers), first=False
    )
    affected_indices = examination.issued_indices(list(mergers))
    other_opcodes = sorted({program.instruction(index).opcode for index in grown_placements})
    figures |= {
        "n": len(affected_indices),
        "opcodes": ", ".join(sorted({program.checked[which].opcode for which in mergers})),
        "around": f", with {', '.join(other_opcodes)} on tiles as large" if other_opcodes else "",
    }
    after_s = examination.time_after_s({}, placements | grown_placements, keeps_memory_plan=False)
    return Repair(affected_indices, after_s, figures)


def _merged_placements(
    examination: Examination, mergers: dict[int, Merger]
) -> dict[int, EnginePlacement]:
    """The matmuls, each merged with others that share the input that does not grow."""
    groups: defaultdict[tuple[Merger, tuple[_Place, ...]], list[int]] = defaultdict(list)
    for index in examination.issued_indices(list(mergers)).tolist():
        merger = mergers[examination.program.which[index]]
        inputs = zip(merger.inputs, _input_places(examination.program.issued, index), strict=True)
        groups[merger, tuple(place for growth, place in inputs if growth.is_none)].append(index)
    placements: dict[int, EnginePlacement] = {}
    for (merger, _), indices in groups.items():
        factor = min(merger.factor, len(indices))
        placements |= what_if.place_in_groups(indices, factor, merger.placement, first=False)
    return placements


def _grown_placements(
    examination: Examination, growth: dict[int, Growth], *, first: bool
) -> dict[int, EnginePlacement]:
    """The instructions of `growth`, by index, on grown tiles, where that is legal.

    `first` is that of `what_if.place_in_groups`.
    """
    groups = examination.same_shape_groups
    group_of = {which: number for number, group in enumerate(groups) for which in group}
    by_group: defaultdict[tuple[int, Growth], list[int]] = defaultdict(list)
    for index in sorted(growth):
        by_group[group_of[examination.program.which[index]], growth[index]].append(index)
    placements: dict[int, EnginePlacement] = {}
    for (_, grows), indices in by_group.items():
        instruction = examination.program.instruction(indices[0]).instruction
        placement = what_if.grow(instruction, examination.core, grows)
        if placement is not None:
            factor = min(grows.row_factor * grows.column_factor, len(indices))
            placements |= what_if.place_in_groups(indices, factor, placement, first=first)
    return placements


class _GrowingTiles:
    """Tiles that grow: a marked tile in both directions, others in the same rows only in rows."""

    def __init__(self) -> None:
        self._exact: dict[_Place, Growth] = {}
        self._rows: dict[tuple[int, int, int], Growth] = {}

    def mark(self, place: _Place, growth: Growth) -> None:
        """Record that the tile at `place` grows."""
        self._exact[place] = growth
        if growth.row_factor > 1:
            self._rows[_row_key(place)] = Growth(growth.rows, growth.row_factor)

    def find(self, place: _Place, shape: tuple[int, ...]) -> Growth | None:
        """The growth of a tile, if it has any."""
        growth = self._exact.get(place) or self._rows.get(_row_key(place))
        return growth if growth is not None and growth.concerns(shape) else None

    def forget(self, place: _Place) -> None:
        """End the growth of the tile at `place`, which an instruction overwrites."""
        self._exact.pop(place, None)
        self._rows.pop(_row_key(place), None)


def _row_key(place: _Place) -> tuple[int, int, int]:
    serial, box = place
    return serial, box.first_row, box.last_row


def _growth_of_feeders(program: Program, mergers: dict[int, Merger]) -> dict[int, Growth]:
    """Growth, by index, of instructions that write inputs of merged matmuls, last to first."""
    growths: dict[int, Growth] = {}
    growing_tiles = _GrowingTiles()
    for index in reversed(range(len(program))):
        merger = mergers.get(program.which[index])
        if merger is not None:
            for place, growth in zip(_input_places(program, index), merger.inputs, strict=False):
                growing_tiles.mark(place, growth)
            continue
        touched_tiles = _sbuf_tiles(program, index)
        for place, shape, is_written in touched_tiles:
            tile_growth = growing_tiles.find(place, shape) if is_written else None
            if tile_growth is not None:
                growths[index] = tile_growth
                for source, source_shape, is_written_tile in touched_tiles:
                    if not is_written_tile and source_shape == shape:
                        growing_tiles.mark(source, tile_growth)
    return growths


def _growth_of_readers(program: Program, mergers: dict[int, Merger]) -> dict[int, Growth]:
    """Growth, by index, of instructions that read a merged product or results made from one."""
    growth_of: dict[int, Growth] = {}
    growing_tiles = _GrowingTiles()
    for index in range(len(program)):
        if program.instruction(index).engine is Engine.tensor:
            continue
        touched_tiles = _sbuf_tiles(program, index)
        growths = [
            growing_tiles.find(place, shape)
            for place, shape, is_written in touched_tiles
            if not is_written
        ]
        growths.append(_product_read(program, index, mergers))
        growth = next((growth for growth in growths if growth is not None), None)
        for place, shape, is_written in touched_tiles:
            if is_written:
                growing_tiles.forget(place)
                if growth is not None and growth.concerns(shape):
                    growing_tiles.mark(place, growth)
        if growth is not None:
            growth_of[index] = growth
    return growth_of


def _product_read(program: Program, index: int, mergers: dict[int, Merger]) -> Growth | None:
    """The growth of the product of a merged matmul that an instruction reads, or None."""
    instruction = program.instruction(index).instruction
    for producer in program.waits_for(index):
        merger = mergers.get(program.which[producer])
        if merger is None:
            continue
        product, *_ = program.instruction(producer).instruction.accesses()[1]
        read_tiles = [t for t in instruction.accesses()[0] if t.memory is Memory.PSUM]
        if merger.product.concerns(product.shape) and any(
            t.shape == product.shape for t in read_tiles
        ):
            return merger.product
    return None
