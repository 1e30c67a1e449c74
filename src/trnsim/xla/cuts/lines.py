"""The line of the program that makes a call; in a backward pass that of the forward call."""

from __future__ import annotations

from bisect import bisect_right

from trnsim.device.program_line import program_place
from trnsim.torch import pytorch
from trnsim.xla.cuts.values import Place


class Lines:
    """The lines whose calls were recorded, each with autograd's sequence number at its start.

    Attributes:
        latest_place: the latest line; None before the first.
    """

    def __init__(self) -> None:
        self.latest_place: Place | None = None
        self._starts: list[int] = []
        self._places: list[Place] = []

    def place(self) -> Place | None:
        """The line of the program that makes this call; in a backward pass the forward call's."""
        place = program_place()
        if place is not None:
            self.begin(place)
            return place
        sequence = pytorch.backward_sequence_number()
        if sequence is None:
            return None
        position = bisect_right(self._starts, sequence) - 1
        return self._places[position] if position >= 0 else None

    def begin(self, place: Place) -> None:
        """Note that the operators of a line begin, for the backward pass."""
        if self.latest_place != place:
            self._starts.append(pytorch.next_sequence_number() - 1)
            self._places.append(place)
        self.latest_place = place

    def settle(self) -> None:
        """Forget all lines but the latest."""
        del self._starts[:-1], self._places[:-1]
