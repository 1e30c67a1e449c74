"""The topology of the chips of an instance: links, routes, and the cycles of rings.

A link is one direction of a connection. AWS states the bandwidth of a chip over all its links; the
two directions of each are taken to share it evenly.

Source: aws-neuron-sdk, the pages of instances (*-arch.rst), about/collectives.rst.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias

from trnsim.arch.catalogue import Accelerator, Instance
from trnsim.errors import BadInput

Route = tuple[int, ...]
"""The numbers of the links from one chip to another, in order; empty on one chip."""
Cycle = tuple[int, ...]
"""Chips in the order of a ring, which the last one closes."""

DIRECTIONS: Final = 2
"""Directions of a connection, whose published bandwidth counts both."""
_MOST_SEARCH_STEPS: Final = 20_000
"""Steps after which a search for a ring of neighbours gives up."""
_PAIR: Final = 2
_RING_OF_BITS: Final = {2: (0, 1), 4: (0b00, 0b01, 0b11, 0b10)}
"""For each length of a ring the number of each place: neighbours differ in one bit."""


@dataclass(frozen=True, slots=True)
class ChipLink:
    """One direction of a connection.

    Attributes:
        name: source and target, such as "chip 0 to chip 1".
    """

    name: str
    bytes_per_s: float


@dataclass(frozen=True)
class Grid:
    """Chips in a line, a ring, or a torus of any dimensions, each linked to its neighbours.

    Attributes:
        sizes: chips along each dimension; the last varies fastest.
        rates: bytes per second of one direction of a link, for each dimension.
        is_closed: whether the last chip of a line is joined to the first.
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    is_closed: bool = True
    _link_numbers: dict[tuple[int, int], int] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def chips(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @cached_property
    def links(self) -> Sequence[ChipLink]:
        """Each chip's links by dimension and direction; routes refer to their indices."""
        links: list[ChipLink] = []
        for axis, rate in enumerate(self.rates):
            for chip in range(self.chips):
                for step in (1, -1):
                    neighbour = self._neighbour(chip, axis, step)
                    if neighbour is None or (chip, neighbour) in self._link_numbers:
                        continue
                    self._link_numbers[chip, neighbour] = len(links)
                    links.append(ChipLink(f"chip {chip} to chip {neighbour}", rate))
        return tuple(links)

    @property
    def chip_bytes_per_s(self) -> float:
        """Rate of all links of a chip: two along each dimension of more than one chip."""
        pairs = zip(self.sizes, self.rates, strict=True)
        return sum(2 * rate for size, rate in pairs if size > 1)

    def route(self, source: int, target: int) -> Route:
        """The shortest route, one dimension after the other.

        The order of dimensions, and the direction where both are equally long, depend on the chips,
        so that an exchange of all with all loads every link alike.
        """
        numbers = self._link_numbers if self.links else {}
        origin, destination = self._coordinates(source), self._coordinates(target)
        order = range(len(self.sizes))
        at, chips = list(origin), [source]
        for axis in order if (source + target) % 2 else reversed(order):
            step = self._shorter_direction(origin, destination, axis)
            while at[axis] != destination[axis]:
                at[axis] = (at[axis] + step) % self.sizes[axis]
                chips.append(self._chip_at(at))
        return tuple(numbers[pair] for pair in pairwise(chips))

    def is_direct(self, source: int, target: int) -> bool:
        """True if the chips are neighbours."""
        return len(self.route(source, target)) == 1

    def neighbours(self, chip: int) -> tuple[int, ...]:
        """Neighbours of `chip`: those before it along each dimension, then those behind it.

        In a line the one behind comes first, as neuron-ls lists inf1's (aws-neuron-sdk@93e9f5d8
        tools/neuron-sys-tools/neuron-ls.rst).
        """
        steps = (-1, 1) if self.is_closed else (1, -1)
        candidates = [
            self._neighbour(chip, axis, step) for step in steps for axis in range(len(self.sizes))
        ]
        return tuple(dict.fromkeys(neighbour for neighbour in candidates if neighbour is not None))

    def cycles(self, chips: Sequence[int]) -> list[Cycle]:
        """Rings through `chips` that share no connection.

        A square torus has two; else there is one, through neighbours if such a ring is found.
        """
        if len(chips) <= _PAIR:
            return [tuple(chips)]
        is_full_torus = len(chips) == self.chips and self.is_closed
        if is_full_torus and len(self.sizes) == _PAIR and len(set(self.sizes)) == 1:
            return _two_rings(self.sizes[0])
        ring = self._ring_of(tuple(chips))
        return [ring or tuple(chips)]

    def axes(self, chips: Sequence[int]) -> list[dict[int, int]]:
        """For each axis of a hypercube of `chips` the neighbour of each chip; [] for no hypercube.

        A line of two or four neighbours is one or two axes: its places, numbered in bits.
        """
        places = [self._coordinates(chip) for chip in chips]
        values = [sorted({place[axis] for place in places}) for axis in range(len(self.sizes))]
        if prod(map(len, values)) != len(chips):
            return []  # no box
        partners: list[dict[int, int]] = []
        for axis, row in enumerate(values):
            if len(row) == 1:
                continue
            bits = _RING_OF_BITS.get(len(row))
            adjacent = len(row) == self.sizes[axis] and self.is_closed
            if bits is None or not (adjacent or row[-1] - row[0] == 1):
                return []
            count = len(row).bit_length() - 1
            partners += [
                self._partners_by_bit(places, axis, row, bits, bit) for bit in range(count)
            ]
        return partners

    def _partners_by_bit(
        self,
        places: Iterable[tuple[int, ...]],
        axis: int,
        row: list[int],
        bits: tuple[int, ...],
        bit: int,
    ) -> dict[int, int]:
        """For each chip the one whose number along `axis` differs in that bit."""
        partner = {
            at: row[bits.index(number ^ (1 << bit))] for at, number in zip(row, bits, strict=True)
        }
        flipped = {}
        for place in places:
            flipped_place = list(place)
            flipped_place[axis] = partner[place[axis]]
            flipped[self._chip_at(place)] = self._chip_at(flipped_place)
        return flipped

    def _coordinates(self, chip: int) -> tuple[int, ...]:
        place = []
        for size in reversed(self.sizes):
            chip, at = divmod(chip, size)
            place.append(at)
        return tuple(reversed(place))

    def _chip_at(self, place: Sequence[int]) -> int:
        chip = 0
        for at, size in zip(place, self.sizes, strict=True):
            chip = chip * size + at
        return chip

    def _neighbour(self, chip: int, axis: int, step: int) -> int | None:
        place = list(self._coordinates(chip))
        at, size = place[axis] + step, self.sizes[axis]
        if size == 1 or (not self.is_closed and not 0 <= at < size):
            return None
        place[axis] = at % size
        return self._chip_at(place)

    def _shorter_direction(
        self, origin: Sequence[int], destination: Sequence[int], axis: int
    ) -> int:
        """+1 or -1: the direction of the shorter way round."""
        size = self.sizes[axis]
        distance = (destination[axis] - origin[axis]) % size
        if not self.is_closed:
            return 1 if destination[axis] > origin[axis] else -1
        if 2 * distance == size:
            return 1 if sum(origin) % 2 else -1
        return 1 if 2 * distance < size else -1

    def _ring_of(self, chips: Cycle) -> Cycle | None:
        """A ring through neighbours that has each of `chips` once; None where none was found."""
        members = set(chips)
        neighbours = {
            chip: [
                neighbour
                for axis, step in product(range(len(self.sizes)), (1, -1))
                if (neighbour := self._neighbour(chip, axis, step)) in members
            ]
            for chip in chips
        }
        path, branches, steps_left = [chips[0]], [iter(neighbours[chips[0]])], _MOST_SEARCH_STEPS
        while path and steps_left:
            steps_left -= 1
            next_chip = next((chip for chip in branches[-1] if chip not in path), None)
            if next_chip is None:
                path.pop()
                branches.pop()
                continue
            path.append(next_chip)
            branches.append(iter(neighbours[next_chip]))
            if len(path) == len(chips) and chips[0] in neighbours[next_chip]:
                return tuple(path)
        return None


def _two_rings(size: int) -> list[Cycle]:
    """Two rings of a square torus that share no connection.

    One goes all along each row and then down; the other all along each column and then to the side,
    over the connections that the first leaves out.
    """
    steps, at = [], 0
    for line in range(size):
        for _ in range(size):
            steps.append((line, at))
            at = (at + 1) % size
        at = (at - 1) % size
    row_by_row = tuple(line * size + at for line, at in steps)
    column_by_column = tuple(at * size + line for line, at in steps)
    return [row_by_row, column_by_column]


@dataclass(frozen=True)
class Racks:
    """Chips behind switches: one in each server, one in each rack; chips of racks are joined.

    Chips of two racks at the same place have a connection of their own; a transfer to another place
    changes the place in its own rack first.

    Attributes:
        racks: racks of the UltraServer.
        per_server: chips in a server.
        server_rate: bytes per second of a chip to the switch of its server, one direction.
        rack_rate: the same to the switch of its rack.
        between_rate: the same to the chip at its place in another rack.
    """

    racks: int
    servers: int
    per_server: int
    server_rate: float
    rack_rate: float
    between_rate: float

    @property
    def chips(self) -> int:
        """Chips of all racks."""
        return self.racks * self.servers * self.per_server

    @cached_property
    def links(self) -> Sequence[ChipLink]:
        """Four links a chip, to and from the two switches, then those between racks."""
        links = []
        for chip in range(self.chips):
            links += [
                ChipLink(f"chip {chip} to its server's switch", self.server_rate),
                ChipLink(f"server's switch to chip {chip}", self.server_rate),
                ChipLink(f"chip {chip} to its rack's switch", self.rack_rate),
                ChipLink(f"rack's switch to chip {chip}", self.rack_rate),
            ]
        links += [
            ChipLink(f"chip {source} to chip {target}", self.between_rate)
            for source, target in self._links_between_racks
        ]
        return tuple(links)

    @cached_property
    def _links_between_racks(self) -> dict[tuple[int, int], int]:
        """The connections between racks, and their numbers."""
        size = self.servers * self.per_server
        pairs = [
            (rack * size + at, other_rack * size + at)
            for rack, other_rack in product(range(self.racks), repeat=2)
            for at in range(size)
            if rack != other_rack
        ]
        return {pair: 4 * self.chips + index for index, pair in enumerate(pairs)}

    @property
    def chip_bytes_per_s(self) -> float:
        """Rate of all links of a chip: to both switches and to every other rack."""
        return self.server_rate + self.rack_rate + self.between_rate * (self.racks - 1)

    def route(self, source: int, target: int) -> Route:
        """The route through the nearest switch that both chips share.

        Between racks it goes to the chip at the target's place in the source's rack, and from there
        over the direct connection.
        """
        if source == target:
            return ()
        size = self.servers * self.per_server
        rack, at = divmod(target, size)
        if source // size != rack:
            same_rack_chip = source // size * size + at
            return (
                *self.route(source, same_rack_chip),
                self._links_between_racks[same_rack_chip, target],
            )
        first = 0 if source // self.per_server == target // self.per_server else 2
        return (4 * source + first, 4 * target + first + 1)

    def is_direct(self, source: int, target: int) -> bool:
        """True if they have a common switch, or a connection between two racks."""
        return len(self.route(source, target)) <= _PAIR

    def neighbours(self, chip: int) -> tuple[int, ...]:
        """The other chips behind the switch of its server."""
        first = chip // self.per_server * self.per_server
        return tuple(peer for peer in range(first, first + self.per_server) if peer != chip)

    def cycles(self, chips: Sequence[int]) -> list[Cycle]:
        """One ring in the order of the chips, through a server's switch where possible."""
        return [tuple(chips)]

    def axes(self, chips: Sequence[int]) -> list[dict[int, int]]:
        """An axis for each bit of a chip's place; [] for a group whose size is no power of two."""
        count = len(chips)
        if count & (count - 1):
            return []
        return [
            {chip: chips[index ^ (1 << bit)] for index, chip in enumerate(chips)}
            for bit in range(count.bit_length() - 1)
        ]


Topology: TypeAlias = Grid | Racks
"""The chips of an instance, which count from 0, and the links between them."""


def topology_of(instance: Instance, chip: Accelerator) -> Topology:
    """The topology of the chips of an instance.

    Raises:
        BadInput: for an instance whose links the catalogue does not describe.
    """
    kind, _, text = instance.shape.partition(" ")
    sizes = tuple(int(size) for size in text.split("x") if size)
    link_rate = (
        instance.link_bytes_per_s or chip.server_link_bytes_per_s or chip.link_bytes_per_s or 0
    )
    server_rate = chip.between_servers_bytes_per_s or 0.0
    if kind == "single":
        return Grid((1,), (0.0,))
    if kind == "racks":
        rack_rate = chip.between_racks_bytes_per_s or 0.0
        racks, servers, per_server = sizes
        return Racks(racks, servers, per_server, link_rate, server_rate, rack_rate)
    if kind not in ("torus", "chain"):
        raise BadInput(f"the links of {instance.name} are not modelled")
    in_server = min(len(sizes), 2)  # a third dimension joins the servers of an UltraServer
    planar = link_rate / (2 * in_server) / DIRECTIONS
    rates = (server_rate / 2 / DIRECTIONS,) * (len(sizes) - in_server) + (planar,) * in_server
    return Grid(sizes, rates, is_closed=kind == "torus")
