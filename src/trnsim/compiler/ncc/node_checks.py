"""Which nodes of a graph neuronx-cc refuses.

A node that came from a framework's call is judged here by its types and by the places that it
reads; what else the call asked for is in `call_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from trnsim.arch import has_dtype
from trnsim.compiler.ncc.calls import Asked
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.bits import ShiftRightArithmetic
from trnsim.graph.ops.collectives import AllReduce, ReduceScatter
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import ReduceWindow, TopK
from trnsim.graph.types import Array
from trnsim.lower.control import graphs

_WIDE: Final = ("int32", "uint32")
_SHORT: Final = ("int16", "int8", "uint8", "bool")
_OF_TYPES: Final = "NCC_EVRF051"
_E4M3FN: Final = "float8_e4m3fn"
_UNKNOWN: Final = (Kind.CONTROL, Kind.COLLECTIVE, Kind.CALL, Kind.CONTRACTION)
_PLACES_MAX: Final = 1 << 18
"""Places that are computed to compare them with a tensor's length."""


def nodes_refused(
    graph: Graph, asked: Asked, called: frozenset[int]
) -> Iterator[tuple[str, str, int]]:
    """The codes of what is refused, what that is, and the number of the value it makes.

    `called` are values that came from a framework's call. Graphs that a node runs are looked into.
    """
    places, is_said = _Places(), False
    for node in graph.nodes:
        number = node.result.number
        for code, check in (_OF_ANY if number in called else _OF_GRAPHS).items():
            if check(node, asked) and not (code == _OF_TYPES and is_said):
                is_said = is_said or code == _OF_TYPES
                yield code, _text(node), number
        for code, what in places.past_the_end(node):
            yield code, f"{_text(node)}: {what}", number
        for branch in graphs(node.operation):
            for code, what, _ in nodes_refused(branch, asked, frozenset()):
                yield code, f"{what}, in {node.name}", number


def _text(node: Node) -> str:
    """A node and its operands."""
    return f"{node.name} of {', '.join(map(str, node.given)) or node.result.type}"


def _has_gaps_twice(node: Node, _: Asked) -> bool:
    one = node.operation
    return isinstance(one, Convolution) and max(one.gaps, default=0) > 0 and _above(one.dilations)


def _has_gaps_and_strides(node: Node, _: Asked) -> bool:
    one = node.operation
    return isinstance(one, Convolution) and max(one.gaps, default=0) > 0 and _above(one.strides)


def _above(steps: tuple[int, ...]) -> bool:
    return max(steps, default=1) > 1


def _is_topk_of_integers(node: Node, _: Asked) -> bool:
    return isinstance(node.operation, TopK) and node.given[0].dtype in _WIDE


def _has_dilated_windows(node: Node, _: Asked) -> bool:
    return isinstance(node.operation, ReduceWindow) and _above(node.operation.dilations)


def _shifts_short(node: Node, _: Asked) -> bool:
    return isinstance(node.operation, ShiftRightArithmetic) and node.given[0].dtype in _SHORT


def _combines(dtypes: tuple[str, ...]) -> Callable[[Node, Asked], bool]:
    def check(node: Node, asked: Asked) -> bool:
        is_permitted = dtypes is _WIDE and "scatter" in asked.flags.implicit_integer_downcast
        one = node.operation
        is_it = isinstance(one, Scatter) and one.op != "assign"
        return is_it and not is_permitted and node.result.dtype in dtypes

    return check


def _adds_integers(kind: Any, flag: str) -> Callable[[Node, Asked], bool]:
    def check(node: Node, asked: Asked) -> bool:
        is_permitted = flag in asked.flags.implicit_integer_downcast
        is_it = isinstance(node.operation, kind)
        return is_it and not is_permitted and node.given[0].dtype in _WIDE

    return check


def _is_of_e4m3fn(node: Node, asked: Asked) -> bool:
    """Whether a node reads or makes a tensor of the type; the first such node is said."""
    if has_dtype(_E4M3FN)(asked.target.core) or asked.flags.fp8_e4m3fn_as_e4m3:
        return False
    return any(value.dtype == _E4M3FN for value in (*node.values, *node.results))


_OF_ANY: Final[dict[str, Callable[[Node, Asked], bool]]] = {
    _OF_TYPES: _is_of_e4m3fn,
}
_OF_GRAPHS: Final[dict[str, Callable[[Node, Asked], bool]]] = {
    **_OF_ANY,
    "NCC_EVRF010": _has_gaps_twice,
    "NCC_EVRF011": _has_gaps_and_strides,
    "NCC_EVRF013": _is_topk_of_integers,
    "NCC_EVRF016": _combines(_SHORT),
    "NCC_EVRF018": _has_dilated_windows,
    "NCC_EVRF022": _shifts_short,
    "NCC_EVRF060": _combines(_WIDE),
    "NCC_EVRF061": _adds_integers(AllReduce, "all_reduce"),
    "NCC_EVRF063": _adds_integers(ReduceScatter, "reduce_scatter"),
}


class _Places:
    """Tensors of a graph that follow from counting alone, as far as they are few."""

    def __init__(self) -> None:
        self._maker: dict[int, Node] = {}
        """Of what comes of iotas and constants alone."""
        self._counted: set[int] = set()
        """What of that comes of an iota."""
        self._known: dict[int, Array] = {}

    def past_the_end(self, node: Node) -> Iterator[tuple[str, str]]:
        """The code, and how far counted places reach, if that is past a tensor's end."""
        self._note(node)
        one = node.operation
        if not isinstance(one, Gather | Scatter) or node.values[1].number not in self._counted:
            return
        found = self._of(node.values[1])
        if not found.size:
            return
        is_gather = isinstance(one, Gather)
        shape = node.given[0].shape if is_gather else node.result.shape
        vectors = found[..., None] if one.index_vector_dim == found.ndim else found
        for place, dim in enumerate(one.start_index_map):
            highest = int(vectors.take(place, one.index_vector_dim).max())
            if highest >= shape[dim]:
                code = "NCC_EVRF056" if is_gather else "NCC_EVRF031"
                yield code, f"places to {highest} in a length of {shape[dim]}"

    def _note(self, node: Node) -> None:
        """Remember a node that reads nothing but what comes of iotas and constants."""
        one = node.operation
        is_first = isinstance(one, Iota | Constant)
        if node.kind in _UNKNOWN or node.result.type.elements > _PLACES_MAX:
            return
        if is_first or (node.values and all(v.number in self._maker for v in node.values)):
            self._maker.update({value.number: node for value in node.results})
            if isinstance(one, Iota) or any(v.number in self._counted for v in node.values):
                self._counted |= {value.number for value in node.results}

    def _of(self, value: Value) -> Array:
        """The numbers of a value that comes of iotas and constants alone."""
        if value.number not in self._known:
            node = self._maker[value.number]
            given = [self._of(one) if isinstance(one, Value) else one for one in node.operands]
            results = zip(node.results, reference_of(node, given), strict=True)
            self._known.update((one.number, found) for one, found in results)
        return self._known[value.number]
