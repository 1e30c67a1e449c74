"""Replica groups: lists of ranks, and partitions of ranks by an operation."""

import nki
import nki.collectives as ncc
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, IllegalInstruction


def test_a_replica_group_keeps_its_ranks_and_compares_by_them():
    group = ncc.ReplicaGroup(((0, 1), (2, 3)))
    assert group.groups == ((0, 1), (2, 3))
    assert group == ncc.ReplicaGroup(((0, 1), (2, 3))) != ncc.ReplicaGroup(((0, 2), (1, 3)))
    assert len({group, ncc.ReplicaGroup(((0, 1), (2, 3)))}) == 1
    assert repr(ncc.ReplicaGroup([[0, 4]])) == "ReplicaGroup([[0, 4]])"


@pytest.mark.parametrize(
    ("op", "operand", "groups"),
    [
        ("mod", 4, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mod", 2, [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("div", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("bitwise_and", 5, [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("bitwise_and", 0, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("div", 8, [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ],
)
def test_ranks_with_equal_results_of_an_operation_are_a_group(op, operand, groups):
    found = ncc.ReplicaGroup.from_partition_op(8, ncc.rg_partition_op[op], operand)
    assert found.groups == groups
    by_name = ncc.ReplicaGroup.from_partition_op(
        world_size=8, op=ncc.rg_partition_op[op], operand=operand
    )
    assert by_name == found


def test_operations_that_divide_nothing_are_refused():
    for world, op, operand in (
        (8, "mod", 0),
        (8, "div", 0),
        (0, "mod", 2),
        (8, "mod", -1),
        ("8", "div", 4),
    ):
        with pytest.raises(BadInput, match="legal: one rank or more, and an operand of"):
            ncc.ReplicaGroup.from_partition_op(world, ncc.rg_partition_op[op], operand)
    with pytest.raises(BadInput, match=r"legal: rg_partition_op\.bitwise_and"):
        ncc.ReplicaGroup.from_partition_op(8, "mod", 2)


@pytest.mark.parametrize("groups", [None, [0, 1], 3, "01", [[0, 1.5]], [["0", "1"]]])
def test_a_replica_group_is_a_list_of_lists(groups):
    @nki.jit
    def kernel(a):
        ncc.all_reduce([a], [a], ncc.ReplicaGroup(groups), nki.language.add)
        return a

    with pytest.raises(IllegalInstruction, match=r"replica_group is .*; legal: ReplicaGroup\("):
        trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2)


def test_ranks_are_partitioned_since_07():
    @nki.jit
    def kernel(x):
        ncc.ReplicaGroup.from_partition_op(2, op, 1)
        return x

    op = ncc.rg_partition_op.div
    trnsim.run(kernel, np.ones(4, np.float32), nki="0.7")
    message = r"ReplicaGroup\.from_partition_op under NKI 0\.6, where it does not exist yet"
    with pytest.raises(IllegalInstruction, match=message) as caught:
        trnsim.run(kernel, np.ones(4, np.float32), nki="0.6")
    assert caught.value.fix.startswith("list the ranks: ncc.ReplicaGroup([[0, 1], [2, 3]])")
