"""`graph_of`: a module of StableHLO as a graph.

Functions are inlined, what is known is computed, loops with few known trips are unrolled. Every
operation of the graph knows the scope and the line of the program that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trnsim.errors import BadInput, NotModelled
from trnsim.graph import Graph, TensorType, Value, verify
from trnsim.graph.types import Array
from trnsim.jax.stablehlo import (
    calls,
    collectives,
    composites,
    contraction,
    control,
    devices,
    drawing,
    elementwise,
    factorization,
    lookup,
    mlir,
    normalization,
    reductions,
    shapes,
)
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.origins import Path
from trnsim.jax.stablehlo.scope import Device, NoCounterpart, Scope, Target
from trnsim.jax.stablehlo.tidying import tidied

RULES_IN: Final = (
    calls,
    collectives,
    composites,
    contraction,
    control,
    devices,
    drawing,
    elementwise,
    factorization,
    lookup,
    normalization,
    reductions,
    shapes,
)
"""Importing them fills the table of rules."""


@dataclass(frozen=True)
class Imported:
    """A module as a graph.

    Attributes:
        graph: its inputs are those of the module's main function, in order, then its constants.
        inputs: of the main function.
        outputs: what it returns, in order.
        constants: numbers of the program that are inputs of the graph, by the value's number.
        names: the names of the inputs, by the value's number.
        operators: StableHLO's operations, in order, those of every trip of a loop.
        is_own: whether another device's graph may be another one.
    """

    graph: Graph = field(repr=False)
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: dict[int, Array] = field(repr=False)
    names: dict[int, str] = field(repr=False)
    operators: tuple[str, ...] = field(repr=False)
    is_own: bool = False

    def arguments(self, given: Sequence[Array]) -> list[Array]:
        """The arrays of all inputs of the graph: those given for the main function's, constants."""
        return [*given, *(self.constants[one.number] for one in self.graph.inputs[len(given) :])]

    def reference(self, given: Sequence[Array]) -> list[Array]:
        """What the main function returns, by the references of the graph's operations."""
        return self.graph.reference(self.arguments(given))


def graph_of(module: Op, device: Device = Device()) -> Imported:  # noqa: B008  frozen
    """The graph of a module of StableHLO on a device; nothing of it keeps the module.

    Raises:
        NotModelled: for an operation or a type that a graph has not, with the program's line.
        BadInput: the module has no main function.
    """
    functions = mlir.functions(module)
    if "main" not in functions:
        raise BadInput("a module without a function main", fix="lower a function with jax.jit")
    block = _of_one_device(functions["main"].regions[0].blocks[0])
    into = Target(functions, device)
    types = [_argument(one, place) for place, one in enumerate(block.arguments)]
    inputs = [into.b.graph.input(one.shape, one.dtype) for one in types]
    names = {one.number: _name(block.arguments[at], at) for at, one in enumerate(inputs)}
    scope = Scope(into, None, Path())
    found = scope.run(block, inputs)
    into.b.graph.came_from = None
    into.b.graph.outputs = [scope.tensor(one) for one in found]
    into.b.graph = graph = tidied(into.b.graph)
    _drop_unread(into, set(names))
    verify(graph)
    names |= {number: f"constant{at}" for at, number in enumerate(into.constants)}
    operators, is_own = tuple(into.operators), bool(into.asked)
    outputs = tuple(graph.outputs)
    return Imported(graph, tuple(inputs), outputs, into.constants, names, operators, is_own)


def is_of_a_device(module: Op, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a module says itself what each device computes, of arguments of these shapes.

    All of main is then one program on shares (`shard_map`, `pmap`), which lie as the arguments do.
    """
    main = mlir.functions(module)["main"]
    manual = _manual(main.regions[0].blocks[0])
    if manual is None:
        return False
    own = [mlir.shape_of(one.type) for one in manual.regions[0].blocks[0].arguments]
    return own == [tuple(one) for one in shapes] and _lie_alike(main, manual)


def _lie_alike(main: Op, manual: Op) -> bool:
    """Whether no argument or result of main is said to lie elsewhere than the shares."""
    for side, attribute in (("arg_attrs", "in_shardings"), ("res_attrs", "out_shardings")):
        wanted = _SHARDING.findall(str(manual.attributes[attribute]))
        given = list(main.attributes[side]) if side in main.attributes else []
        for notes, one in zip(given, wanted, strict=False):
            said = _SHARDING.findall(str(notes["sdy.sharding"])) if "sdy.sharding" in notes else []
            if said not in ([], [one]):
                return False
    return True


_SHARDING: Final = re.compile(r"<(@[^<>]*)>")


def _of_one_device(block: mlir.Block) -> mlir.Block:
    """The program of each device, where all of main is one (`shard_map`, `pmap`); else main.

    Its arguments are the shares of main's, in their order.
    """
    manual = _manual(block)
    return block if manual is None else manual.regions[0].blocks[0]


def _manual(block: mlir.Block) -> Op | None:
    """The operation on shares that is all of main."""
    found = [one.operation for one in block.operations if one.operation.name != _SHARDED]
    if [one.name for one in found] != [_MANUAL, "func.return"]:
        return None
    manual, returned = found
    is_whole = list(manual.operands) == list(block.arguments)
    is_whole &= list(returned.operands) == list(manual.results)
    return manual if is_whole else None


_SHARDED: Final = "sdy.sharding_constraint"
_MANUAL: Final = "sdy.manual_computation"


def _argument(argument: mlir.Ssa, place: int) -> TensorType:
    try:
        return mlir.tensor_type(argument.type)
    except NotModelled as error:
        reason = f"argument {place} of main: {error.reason}"
        raise NoCounterpart(reason, fix=error.fix, source=error.source) from error


def _name(argument: mlir.Ssa, place: int) -> str:
    """The name that JAX gives an argument."""
    text = str(getattr(argument, "location", ""))
    named = text.startswith('loc("') and ":" not in text.partition("(")[2].partition('")')[0]
    return text[5:].partition('"')[0] if named else f"arg{place}"


def _drop_unread(into: Target, own: set[int]) -> None:
    """Take away constants that nothing reads, and put the others behind the arguments, `own`."""
    graph = into.b.graph
    read = {value.number for node in graph.nodes for value in node.values}
    read |= {value.number for value in graph.outputs}
    into.constants = {at: held for at, held in into.constants.items() if at in read}
    arguments = [value for value in graph.inputs if value.number in own]
    graph.inputs = [*arguments, *(one for one in graph.inputs if one.number in into.constants)]
