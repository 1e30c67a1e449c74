"""Custom calls by name, and annotations of shardings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jaxlib.mlir import ir

from trnsim.errors import NotModelled
from trnsim.graph.building.functions import FUNCTIONS
from trnsim.graph.ops.calls import CustomCall
from trnsim.jax.host_callbacks import TARGETS
from trnsim.jax.kernel_calls import TARGET, call_of
from trnsim.jax.memory_kinds import PLACEMENT
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.elementwise import apply_elementwise, compose
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.reductions import top_k
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Scope
from trnsim.nki.mixing import refuse_in_graph

_PLACEMENT_CALLS: Final = (
    *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"),
    *(PLACEMENT, "xla.sdy.FuncResultSharding", "MoveToHost", "MoveToDevice"),
)
"""Calls that only place a tensor, and compute nothing."""
_MHLO_FUNCTIONS: Final = tuple(f"mhlo.{name}" for name in sorted([*FUNCTIONS, "erf", "tan"]))
"""Functions that artifacts of JAX before 0.9 call by name."""


@rule("sdy.sharding_constraint", "sdy.propagation_barrier", is_folded=False)
def placement(scope: Scope, op: Op) -> Any:
    """The operand: the operation only places it."""
    return scope.entry(op.operands[0])


@rule("sdy.manual_computation", is_folded=False, limits="shares that are the whole tensors")
def manual_computation(scope: Scope, op: Op) -> Any:
    """The program of a device, if each device's share is the whole tensor."""
    block = op.regions[0].blocks[0]
    for operand, share in zip(op.operands, block.arguments, strict=True):
        if operand.type != share.type:
            raise NotModelled(
                f"sdy.manual_computation whose devices have {share.type} of {operand.type} among "
                "operations on whole tensors",
                fix="put all of the program in shard_map, or import the program of one device",
            )
    results = scope.run(block, [scope.entry(ssa) for ssa in op.operands])
    return results[0] if len(results) == 1 else tuple(results)


@rule(*_MHLO_FUNCTIONS, is_by_parts=True)
def mhlo_function(scope: Scope, op: Op) -> Any:
    """The function of that name."""
    return _apply_function(scope, op, op.name)


def _apply_function(scope: Scope, op: Op, name: str) -> Any:
    """A function by its name in MHLO: an operation of the graph, or several."""
    plain_name = name.removeprefix("mhlo.")
    if plain_name in FUNCTIONS:
        return compose(scope, op, FUNCTIONS[plain_name])
    return apply_elementwise(
        scope, plain_name, scope.value(op.operands[0]), dtype=scope.result(op).dtype
    )


@rule("mhlo.topk", limits="the largest ones")
def mhlo_top_k(scope: Scope, op: Op) -> Any:
    """The largest elements of the last dimension, and their indices."""
    attributes = op.attributes  # a custom call has those of the operation in one of its own
    if "mhlo.attributes" in attributes:
        attributes = attributes["mhlo.attributes"]
    try:
        is_largest = "largest" not in attributes or ir.BoolAttr(attributes["largest"]).value
    except (TypeError, ValueError) as error:
        raise NotModelled(
            f"mhlo.topk with the attributes {attributes!s:.80}; legal: k = 3 : i64, largest = true",
            fix="write jax.lax.top_k",
        ) from error
    if not is_largest:
        raise NotModelled("mhlo.topk of the smallest elements", fix="negate the operand")
    return top_k(scope, scope.value(op.operands[0]), mlir.shape_of(op.results[0].type)[-1])


@rule("sdy.mesh", is_folded=False)
def mesh(scope: Scope, op: Op) -> Any:
    """Nothing: the operation only names the devices of a mesh."""
    del scope, op
    return ()


@rule(
    "stablehlo.custom_call",
    is_folded=False,
    limits="NKI kernels of this process, notes of shardings and layouts, mhlo.topk and functions "
    "of mhlo; no other name",
)
def custom_call(scope: Scope, op: Op) -> Any:
    """The operand of a call that only places it; the graph's operation for known names.

    Raises:
        NotModelled: for any other name, such as a callback.
    """
    name = mlir.symbol(op, "call_target_name")
    if name in _PLACEMENT_CALLS:
        _check_same_shape(op, name)
        return scope.entry(op.operands[0])
    if name == "mhlo.topk":
        return mhlo_top_k(scope, op)
    if name in _MHLO_FUNCTIONS:
        return _apply_function(scope, op, name)
    if name == TARGET:
        return _kernel_call(scope, op)
    if name in TARGETS:
        raise NotModelled(
            "a callback (jax.debug.print, debug.callback, pure_callback, io_callback): AWS "
            "documents that host callbacks are not supported",
            fix="return the value and use it outside the program; or let the host compute it "
            "with TRNSIM_POLICY=host",
            source="aws-neuron-sdk jax-neuronx-known-issues.rst, host callbacks",
        )
    raise NotModelled(
        f"stablehlo.custom_call of {name}: code of the host that a NeuronCore does not have",
        fix="write it in jax.numpy, or compute it outside the program",
        source="aws-neuron-sdk jax-neuronx-known-issues.rst, host callbacks",
    )


def _kernel_call(scope: Scope, op: Op) -> Any:
    """A call of an NKI kernel, a program of its own."""
    call = call_of(mlir.symbol(op, "backend_config"))
    refuse_in_graph(call.kernel, scope.graph)
    origin = scope.graph.current_origin
    if origin is not None:
        scope.graph.current_origin = replace(origin, operator=call.name)
    types = tuple(scope.result(op, index) for index in range(len(op.results)))
    operands = [scope.value(ssa) for ssa in op.operands]
    results = scope.graph.apply_to_all(CustomCall(call, types), operands)
    return results[0] if len(results) == 1 else tuple(results)


def _check_same_shape(op: Op, name: str) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if source != target:
        raise NotModelled(
            f"stablehlo.custom_call of {name} from {source} to {target}: a share of a tensor",
            fix="import the program of one device",
        )
