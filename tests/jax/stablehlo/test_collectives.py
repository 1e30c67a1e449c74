"""Exchanges between cores: the operation of a graph, its groups and dimensions."""

import pytest
from agreeing import parsed

from trnsim.errors import NotModelled
from trnsim.graph.ops.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
)
from trnsim.jax.stablehlo import graph_of

GROUPS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
PAIR = ((0, 1), (2, 3))
BODY = """({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.{function} %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
}})"""


def operations(line, result="8x6"):
    text = f"""func.func public @main(%a: tensor<8x6xf32>) -> tensor<{result}xf32> {{
      {line} : (tensor<8x6xf32>) -> tensor<{result}xf32>
      return %0 : tensor<{result}xf32> }}"""
    return [node.operation for node in graph_of(parsed(text)).graph.nodes]


@pytest.mark.parametrize("function", ["add", "multiply", "maximum", "minimum"])
def test_reductions_over_a_group(function):
    body = BODY.format(function=function)
    found = operations(f'%0 = "stablehlo.all_reduce"(%a) {body} {{{GROUPS}}}')
    assert found == [AllReduce(PAIR, function)]


def test_shares_of_a_reduction():
    body = BODY.format(function="add")
    line = f'%0 = "stablehlo.reduce_scatter"(%a) {body} {{scatter_dimension = 1 : i64, {GROUPS}}}'
    assert operations(line, "8x3") == [ReduceScatter(PAIR, "add", 1)]


def test_moves_within_a_group():
    line = f'%0 = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64, {GROUPS}}}'
    assert operations(line, "16x6") == [AllGather(PAIR, 0)]
    line = (
        '%0 = "stablehlo.all_to_all"(%a) {split_dimension = 0 : i64, concat_dimension = 1 : i64, '
        f"split_count = 2 : i64, {GROUPS}}}"
    )
    assert operations(line, "4x12") == [AllToAll(PAIR, 0, 1)]


def test_tensors_passed_on():
    pairs = "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"
    line = f'%0 = "stablehlo.collective_permute"(%a) {{{pairs}}}'
    assert operations(line) == [CollectivePermute(((0, 1), (1, 0)))]


def test_the_first_of_a_group_gives_to_all():
    found = operations(f'%0 = "stablehlo.collective_broadcast"(%a) {{{GROUPS}}}')
    assert [one.name for one in found] == ["reshape", "all_gather", "slice", "reshape"]


def test_a_sum_over_replicas():
    found = operations(f'%0 = "stablehlo.cross-replica-sum"(%a) {{{GROUPS}}}')
    assert found == [AllReduce(PAIR, "add")]


def test_groups_that_nobody_names_are_refused():
    body = BODY.format(function="add")
    empty = "replica_groups = dense<> : tensor<0x0xi64>"
    with pytest.raises(
        NotModelled, match="in one group of all replicas, whose number the module does not"
    ):
        operations(f'%0 = "stablehlo.all_reduce"(%a) {body} {{{empty}}}')
