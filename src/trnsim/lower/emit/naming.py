"""Which operations instructions compute, in words, and the node that stands for them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from trnsim.graph import Kind, Node, Value
from trnsim.program import current_core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.lower.emit.places.tensor_place import TensorPlace


class NamedStretch(NamedTuple):
    """From which instruction on a program computes what.

    Attributes:
        first: the instruction's number.
        name: the operations, in words; "" for none.
        node: of a chain of operations, the first product, else the last operation.
    """

    first: int
    name: str
    node: Node | None = None


class StretchNames:
    """The names of a program's stretches.

    Attributes:
        stretches: what each stretch of instructions computes.
    """

    def __init__(self) -> None:
        self.stretches = [NamedStretch(0, "")]

    @contextmanager
    def within(self, name: str, node: Node | None = None) -> Generator[None]:
        """What is issued inside belongs to an operation of that name."""
        outside = self.stretches[-1]
        self.stretches.append(NamedStretch(len(current_core().program), name, node))
        try:
            yield
        finally:
            self.stretches.append(outside._replace(first=len(current_core().program)))


def chain_name(
    producers: Mapping[int, Node], value: Value, leaves: Mapping[int, TensorPlace]
) -> str:
    """The operations that compute a value of leaves, in words: products, then what follows."""
    names: list[str] = [place.storage.name for place in leaves.values() if place.is_pending]
    waiting, seen = [value], set[int]()
    while waiting:
        current = waiting.pop()
        node = producers.get(current.number)
        if node is None or current.number in leaves or current.number in seen:
            continue
        seen.add(current.number)
        if node.kind in (Kind.ELEMENTWISE, Kind.REDUCTION):
            names.append(node.name)
        waiting += node.values
    return "+".join(dict.fromkeys(sorted(names, key=_is_convert))) or "copy"


def chain_node(
    producers: Mapping[int, Node], value: Value, leaves: Mapping[int, TensorPlace]
) -> Node | None:
    """The operation that stands for those that compute a value: the first product, or the last."""
    products = [number for number, place in leaves.items() if place.is_pending]
    return producers.get(min(products, default=value.number))


def _is_convert(name: str) -> bool:
    return name == "convert"
