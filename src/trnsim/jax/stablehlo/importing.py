"""`graph_of`: a module of StableHLO as a graph.

Functions are inlined, operations on constants evaluated, loops of few and known trips unrolled.
Every operation of the graph has the scope and the line of the program from which it is imported.
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
from trnsim.jax.stablehlo.tidying import simplified_graph

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
class ImportedModule:
    """A module as a graph.

    Attributes:
        graph: its inputs are the arguments of the module's main function, in order, then its
            constants.
        outputs: the results of the main function, in order.
        constants: numbers of the program that are inputs of the graph, by the value's number.
        names: the names of the inputs, by the value's number.
        operators: StableHLO's operations, in order, with the operations of every trip of a loop.
        is_device_specific: True if the program reads its device, so that graphs may differ.
    """

    graph: Graph = field(repr=False)
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: dict[int, Array] = field(repr=False)
    names: dict[int, str] = field(repr=False)
    operators: tuple[str, ...] = field(repr=False)
    is_device_specific: bool = False

    def arguments(self, args: Sequence[Array]) -> list[Array]:
        """The arrays of all inputs of the graph: `args` of the main function, then constants."""
        return [*args, *(self.constants[value.number] for value in self.graph.inputs[len(args) :])]

    def reference(self, arrays: Sequence[Array]) -> list[Array]:
        """The results of the main function, by the references of the graph's operations."""
        return self.graph.reference(self.arguments(arrays))


def graph_of(module: Op, device: Device = Device()) -> ImportedModule:  # noqa: B008  frozen
    """The graph of a module of StableHLO on a device; it holds no reference to the module.

    Raises:
        NotModelled: for an operation or a type that a graph does not have, with the program's line.
        BadInput: the module has no main function.
    """
    functions = mlir.functions(module)
    if "main" not in functions:
        raise BadInput("a module without a function main", fix="lower a function with jax.jit")
    block = _device_block(mlir.body_of(functions["main"]))
    target = Target(functions, device)
    types = [_argument_type(argument, index) for index, argument in enumerate(block.arguments)]
    inputs = [target.b.graph.input(type_.shape, type_.dtype) for type_ in types]
    names = {
        value.number: _argument_name(block.arguments[index], index)
        for index, value in enumerate(inputs)
    }
    scope = Scope(target, None, Path())
    try:
        results = scope.run(block, inputs)
    except RecursionError as error:
        raise NotModelled(
            "functions that call themselves, or calls in more than a few hundred others",
            fix="write a loop: jax.lax.while_loop",
            source="StableHLO Specification, Functions",
        ) from error
    target.b.graph.current_origin = None
    target.b.graph.outputs = [scope.tensor(result) for result in results]
    target.b.graph = graph = simplified_graph(target.b.graph)
    _drop_unread(target, set(names))
    verify(graph)
    names |= {number: f"constant{at}" for at, number in enumerate(target.constants)}
    operators, is_specific = tuple(target.operators), bool(target.reads)
    outputs = tuple(graph.outputs)
    return ImportedModule(
        graph, tuple(inputs), outputs, target.constants, names, operators, is_specific
    )


def is_device_program(module: Op, shapes: Sequence[Sequence[int]]) -> bool:
    """True if all of main is one computation on shares (`shard_map`, `pmap`) of these shapes.

    The shares must also have the shardings of main's arguments and results.
    """
    main = mlir.functions(module)["main"]
    computation = _manual_computation(mlir.body_of(main))
    if computation is None:
        return False
    share_shapes = [
        mlir.shape_of(share.type) for share in computation.regions[0].blocks[0].arguments
    ]
    return share_shapes == [tuple(shape) for shape in shapes] and _has_same_shardings(
        main, computation
    )


def _has_same_shardings(main: Op, computation: Op) -> bool:
    """True if no argument or result of main has another sharding than its share."""
    for side, attribute in (("arg_attrs", "in_shardings"), ("res_attrs", "out_shardings")):
        share_shardings = _SHARDING_TEXT.findall(str(computation.attributes[attribute]))
        attributes = list(main.attributes[side]) if side in main.attributes else []
        for notes, sharding in zip(attributes, share_shardings, strict=False):
            shardings = (
                _SHARDING_TEXT.findall(str(notes["sdy.sharding"]))
                if "sdy.sharding" in notes
                else []
            )
            if shardings not in ([], [sharding]):
                return False
    return True


_SHARDING_TEXT: Final = re.compile(r"<(@[^<>]*)>")


def _device_block(block: mlir.Block) -> mlir.Block:
    """The block of each device's program if it is all of main (`shard_map`, `pmap`), else main's.

    The arguments of a device's program are the shares of main's arguments, in order.
    """
    computation = _manual_computation(block)
    return block if computation is None else computation.regions[0].blocks[0]


def _manual_computation(block: mlir.Block) -> Op | None:
    """The `sdy.manual_computation` that is all of main; None if main has other operations."""
    operations = [
        view.operation for view in block.operations if view.operation.name != _SHARDING_CONSTRAINT
    ]
    if [operation.name for operation in operations] != [_MANUAL_COMPUTATION, "func.return"]:
        return None
    computation, return_op = operations
    is_whole = list(computation.operands) == list(block.arguments)
    is_whole &= list(return_op.operands) == list(computation.results)
    return computation if is_whole else None


_SHARDING_CONSTRAINT: Final = "sdy.sharding_constraint"
_MANUAL_COMPUTATION: Final = "sdy.manual_computation"


def _argument_type(argument: mlir.Ssa, index: int) -> TensorType:
    try:
        return mlir.tensor_type(argument.type)
    except NotModelled as error:
        reason = f"argument {index} of main: {error.reason}"
        raise NoCounterpart(reason, fix=error.fix, source=error.source) from error


def _argument_name(argument: mlir.Ssa, index: int) -> str:
    """The name that JAX gives an argument."""
    text = str(getattr(argument, "location", ""))
    is_named = text.startswith('loc("') and ":" not in text.partition("(")[2].partition('")')[0]
    return text[5:].partition('"')[0] if is_named else f"arg{index}"


def _drop_unread(target: Target, argument_numbers: set[int]) -> None:
    """Remove constants that nothing reads, and put the others after the arguments."""
    graph = target.b.graph
    read_numbers = {value.number for node in graph.nodes for value in node.values}
    read_numbers |= {value.number for value in graph.outputs}
    target.constants = {
        at: numbers for at, numbers in target.constants.items() if at in read_numbers
    }
    arguments = [value for value in graph.inputs if value.number in argument_numbers]
    graph.inputs = [*arguments, *(arg for arg in graph.inputs if arg.number in target.constants)]
