"""Exchanges between cores."""

from __future__ import annotations

from typing import Any

from trnsim.graph.ops import collectives as graph_ops
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.bodies import function_of
from trnsim.jax.stablehlo.devices import groups_of, share_dimension
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, Share


@rule("stablehlo.all_reduce")
def all_reduce(scope: Scope, op: Op) -> Any:
    """The sum, product, maximum or minimum of each operand over a group.

    Where each member reads only its own share of the result, it is a `reduce_scatter`.
    """
    (name, *_), groups = function_of(scope, op), groups_of(scope, op)
    dim = share_dimension(scope, op, groups) if len(op.results) == 1 else None
    if dim is not None:
        return Share(_exchange(scope, op, graph_ops.ReduceScatter(groups, name, dim)))
    return _exchange(scope, op, graph_ops.AllReduce(groups, name))


@rule("stablehlo.cross-replica-sum", composed="all_reduce")
def cross_replica_sum(scope: Scope, op: Op) -> Any:
    """Sums over a group."""
    return _exchange(scope, op, graph_ops.AllReduce(groups_of(scope, op), "add"))


@rule("stablehlo.all_gather")
def all_gather(scope: Scope, op: Op) -> Any:
    """The members' tensors, concatenated."""
    dim = mlir.number(op, "all_gather_dim")
    return _exchange(scope, op, graph_ops.AllGather(groups_of(scope, op), dim))


@rule("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, op: Op) -> Any:
    """This member's share of the result of `all_reduce`."""
    (name, *_) = function_of(scope, op)
    dim = mlir.number(op, "scatter_dimension")
    return _exchange(scope, op, graph_ops.ReduceScatter(groups_of(scope, op), name, dim))


@rule("stablehlo.all_to_all")
def all_to_all(scope: Scope, op: Op) -> Any:
    """Part i of each member's tensor, sent to member i."""
    split_dim, joined_dim = mlir.number(op, "split_dimension"), mlir.number(op, "concat_dimension")
    return _exchange(scope, op, graph_ops.AllToAll(groups_of(scope, op), split_dim, joined_dim))


@rule("stablehlo.collective_permute")
def collective_permute(scope: Scope, op: Op) -> Any:
    """The tensor of each pair's source on its target."""
    pairs = tuple((int(a), int(b)) for a, b in mlir.matrix(op, "source_target_pairs"))
    return _exchange(scope, op, graph_ops.CollectivePermute(pairs))


@rule("stablehlo.collective_broadcast", composed="all_gather, slice")
def collective_broadcast(scope: Scope, op: Op) -> Entry:
    """The tensor of the first of a group."""
    value = scope.value(op.operands[0])
    stacked_value = scope.graph.reshape(value, (1, *value.shape))
    gathered_values = scope.graph.apply(graph_ops.AllGather(groups_of(scope, op), 0), stacked_value)
    root_value = scope.graph.slice(
        gathered_values, (0,) * len(gathered_values.shape), stacked_value.shape
    )
    return scope.graph.reshape(root_value, value.shape)


def _exchange(scope: Scope, op: Op, operation: Any) -> Any:
    """The results of a collective on each operand."""
    results = [scope.graph.apply(operation, scope.value(ssa)) for ssa in op.operands]
    return results[0] if len(results) == 1 else tuple(results)
