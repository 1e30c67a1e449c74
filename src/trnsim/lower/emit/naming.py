"""Names of stretches of instructions: the graph's operations that each stretch computes."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from trnsim.graph import Kind, Node, Value
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.program import current_core


class NamedStretch(NamedTuple):
    """A named stretch of instructions, which ends where the next stretch begins.

    Attributes:
        first_instruction: position of its first instruction in the program.
        name: the names of its operations, joined by "+"; "" for none.
        node: the node that stands for the stretch: the first product of a chain, else the last
            node.
    """

    first_instruction: int
    name: str
    node: Node | None = None


class StretchNames:
    """The named stretches of a program.

    Attributes:
        stretches: the stretches, in the order of their first instructions.
    """

    def __init__(self) -> None:
        self.stretches = [NamedStretch(0, "")]

    @contextmanager
    def stretch(self, name: str, node: Node | None = None) -> Generator[None]:
        """Attribute the instructions issued in this context to an operation of that name."""
        outer = self.stretches[-1]
        self.stretches.append(NamedStretch(len(current_core().program), name, node))
        try:
            yield
        finally:
            self.stretches.append(outer._replace(first_instruction=len(current_core().program)))


def chain_name(
    producers: Mapping[int, Node], value: Value, leaves: Mapping[int, TensorPlace]
) -> str:
    """The names of the operations that compute a value from leaves, joined by "+".

    Pending products come first and conversions last.
    """
    names: list[str] = [place.storage.name for place in leaves.values() if place.is_pending]
    pending, visited_numbers = [value], set[int]()
    while pending:
        current = pending.pop()
        node = producers.get(current.number)
        if node is None or current.number in leaves or current.number in visited_numbers:
            continue
        visited_numbers.add(current.number)
        if node.kind in (Kind.ELEMENTWISE, Kind.REDUCTION):
            names.append(node.name)
        pending += node.values
    return "+".join(dict.fromkeys(sorted(names, key=_is_convert))) or "copy"


def chain_node(
    producers: Mapping[int, Node], value: Value, leaves: Mapping[int, TensorPlace]
) -> Node | None:
    """The node that stands for a chain: its first pending product, else the value's producer."""
    products = [number for number, place in leaves.items() if place.is_pending]
    return producers.get(min(products, default=value.number))


def _is_convert(name: str) -> bool:
    return name == "convert"
