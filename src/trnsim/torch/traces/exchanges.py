"""Exchanges between ranks in a traced program: PyTorch's functional collectives over named groups.

A group's name lists the ranks of all groups, as "0,1/2,3": a stored program needs nothing else. A
rank's functions compute the exchanges when the program runs (`trnsim.torch.traces.communicators`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, fx

from trnsim.torch.traces.encoding import MalformedProgram

LIBRARY: Final = "_c10d_functional"
"""PyTorch's library of functional collectives."""
Groups = tuple[tuple[int, ...], ...]
"""The ranks of each group."""
Exchange = Callable[[str, Groups, tuple[Any, ...], Tensor], Tensor]
"""A function of a collective's name, its groups, its further arguments and the rank's tensor."""

_GROUPS: Final = re.compile(r"\d{1,6}(,\d{1,6})*(/\d{1,6}(,\d{1,6})*)*")
_GATHER: Final = "all_gather_into_tensor"
_COLLECTIVES: Final = ("all_reduce", _GATHER, "reduce_scatter_tensor", "all_to_all_single")
_WAIT: Final = "wait_tensor"
REDUCTIONS: Final = ("sum", "product", "min", "max", "avg", "band", "bor")
"""PyTorch's names of reductions."""


class _ExchangeTracing:
    """The trace in progress of a function whose collectives become calls of a program.

    Attributes:
        is_on: True during such a trace.
    """

    is_on = False

    @contextmanager
    def on(self) -> Generator[None]:
        """Context in which collectives of `torch_xla` are calls of the traced program."""
        was_on, self.is_on = self.is_on, True
        try:
            yield
        finally:
            self.is_on = was_on


exchange_tracing: Final = _ExchangeTracing()


def group_name(groups: Sequence[Sequence[int]]) -> str:
    """The name of groups of ranks."""
    return "/".join(",".join(map(str, group)) for group in groups)


def groups_of(name: object) -> Groups:
    """The groups of ranks that a name has.

    Raises:
        MalformedProgram: for a name of no groups, or of groups that are no partition of the ranks.
    """
    if not isinstance(name, str) or not _GROUPS.fullmatch(name):
        raise MalformedProgram(f"an exchange of the group {str(name)[:40]!r}")
    groups = tuple(tuple(map(int, group.split(","))) for group in name.split("/"))
    members = sorted(rank for group in groups for rank in group)
    if members != list(range(len(members))) or len({len(group) for group in groups}) > 1:
        raise MalformedProgram(f"an exchange of groups {name[:40]}, which are no equal parts")
    return groups


def all_reduce(tensor: Tensor, operation: str, groups: Sequence[Sequence[int]]) -> Tensor:
    """The reduction over a group, as a call of the traced program."""
    return _call("all_reduce", tensor, operation, group_name(groups))


def all_gather(tensor: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """The tensors of a group's ranks along the first dimension."""
    return _call("all_gather_into_tensor", tensor, len(groups[0]), group_name(groups))


def reduce_scatter(tensor: Tensor, operation: str, groups: Sequence[Sequence[int]]) -> Tensor:
    """The rank's part, along the first dimension, of the reduction over a group."""
    return _call("reduce_scatter_tensor", tensor, operation, len(groups[0]), group_name(groups))


def all_to_all(tensor: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """Part i of each rank for rank i, in equal parts along the first dimension."""
    parts = [tensor.shape[0] // len(groups[0])] * len(groups[0])
    return _call("all_to_all_single", tensor, parts, parts, group_name(groups))


def _call(name: str, *args: Any) -> Tensor:
    library: Any = getattr(torch.ops, LIBRARY)
    result: Tensor = getattr(library, _WAIT)(getattr(library, name)(*args))
    return result


def replica_groups(module: fx.GraphModule) -> dict[str, Groups]:
    """The groups of a graph's exchanges by their names.

    Raises:
        MalformedProgram: for a collective that no trace writes.
    """
    return {str(node.args[-1]): groups_of(node.args[-1]) for node in _exchanges(module)}


def rank_count(module: fx.GraphModule) -> int:
    """The number of ranks that run a graph together.

    Raises:
        MalformedProgram: for exchanges of different numbers of ranks.
    """
    counts = {sum(map(len, groups)) for groups in replica_groups(module).values()}
    if len(counts) > 1:
        raise MalformedProgram(f"exchanges of {' and '.join(map(str, sorted(counts)))} ranks")
    return counts.pop() if counts else 1


def _exchanges(module: fx.GraphModule) -> list[fx.Node]:
    nodes: list[fx.Node] = []
    for node in module.graph.nodes:
        name = _collective(node)
        if not name:
            continue
        if name not in (*_COLLECTIVES, _WAIT) or node.kwargs:
            raise MalformedProgram(f"an exchange {name[:40]!r}")
        if not isinstance(_operand(node), Tensor):
            raise MalformedProgram(f"an exchange {name} of no tensor")
        if name == _WAIT:
            continue
        _check_arguments(name, node)
        nodes.append(node)
    return nodes


def _operand(node: fx.Node) -> Any:
    """The value of a call's first argument, without elements; None where that is no node."""
    first_argument = node.args[0] if node.args else None
    return first_argument.meta.get("val") if isinstance(first_argument, fx.Node) else None


def _check_arguments(name: str, node: fx.Node) -> None:
    """Check the arguments of a collective: a stored program may come from anywhere.

    Raises:
        MalformedProgram: for arguments that a trace does not write.
    """
    arguments = list(node.args[1:-1])
    size = len(groups_of(node.args[-1])[0])
    shape = tuple(_operand(node).shape)
    length = next(iter(shape), 0)
    if name != "all_reduce" and (not shape or (name != _GATHER and length % size)):
        raise MalformedProgram(f"an exchange {name} of shape {shape} between {size} ranks")
    operation = arguments[0] if arguments and arguments[0] in REDUCTIONS else REDUCTIONS[0]
    legal_arguments: dict[str, list[Any]] = {
        "all_reduce": [operation],
        "reduce_scatter_tensor": [operation, size],
        _GATHER: [size],
        "all_to_all_single": [[length // size] * size] * 2,
    }
    if arguments != legal_arguments[name]:
        raise MalformedProgram(f"an exchange {name} with {str(arguments)[:40]}")


def _collective(node: fx.Node) -> str:
    """The name of the functional collective that a node calls, or ""."""
    if node.op != "call_function":
        return ""
    full_name = str(getattr(node.target, "name", lambda: "")())
    library, _, name = full_name.partition("::")
    return name.partition(".")[0] if library == LIBRARY else ""


def with_exchanges(module: fx.GraphModule, exchange: Exchange) -> fx.GraphModule:
    """A graph whose exchanges are made by a function; the graph itself if it has none."""
    if not _exchanges(module):
        return module
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        name = _collective(node)
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if name == _WAIT:
            copies[node] = copies[node.all_input_nodes[0]]
        elif name:
            groups = groups_of(node.args[-1])
            copies[node].target = _exchange_function(exchange, name, groups, tuple(node.args[1:-1]))
            copies[node].args = (copies[node].args[0],)
    for node in reversed(list(graph.nodes)):
        if not node.users and _collective(node) == _WAIT:
            graph.erase_node(node)
    return fx.GraphModule(module, graph)


def _exchange_function(
    exchange: Exchange, name: str, groups: Groups, arguments: tuple[Any, ...]
) -> Callable[[Tensor], Tensor]:
    def make_exchange(tensor: Tensor) -> Tensor:
        return exchange(name, groups, arguments, tensor)

    make_exchange.__name__ = make_exchange.__qualname__ = f"exchange_{name}"
    return make_exchange
