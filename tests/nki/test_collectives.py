"""`nki.collectives`: AWS's names and signatures, replica groups, refusals outside a world."""

import inspect

import nki
import nki.collectives as ncc
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, IllegalInstruction, NotModelled, SourceLine

GROUPED = ("srcs", "dsts", "replica_group")
VARIABLE = ("metadata_tensor", "recv_counts_known", "has_rdispls", "priority", "name")
PUBLISHED = {
    "all_gather": (*GROUPED, "collective_dim", "priority", "name"),
    "all_gather_v": (*GROUPED, *VARIABLE),
    "all_reduce": (*GROUPED, "op", "priority", "name"),
    "all_to_all": (*GROUPED, "collective_dim", "priority", "name"),
    "all_to_all_v": (*GROUPED, *VARIABLE),
    "collective_permute": ("srcs", "dsts", "source_target_pairs", "priority", "name"),
    "collective_permute_implicit": (
        *("srcs_by_channel", "dsts_by_channel", "replica_group"),
        *("channel_ids", "priority", "name"),
    ),
    "collective_permute_implicit_current_processing_rank_id": (
        *("iteration_id", "replica_group", "channel_id", "name"),
    ),
    "collective_permute_implicit_reduce": (
        *("srcs0_by_channel", "srcs1_by_channel", "dsts_by_channel", "replica_group", "op"),
        *("channel_ids", "priority", "name"),
    ),
    "rank_id": ("name",),
    "reduce_scatter": (*GROUPED, "collective_dim", "op", "priority", "name"),
}
CALLS = {
    "all_gather": lambda a, g: ncc.all_gather([a], [a], g, 0),
    "all_gather_v": lambda a, g: ncc.all_gather_v([a], [a], g, a),
    "all_reduce": lambda a, g: ncc.all_reduce([a], [a], g, nki.language.add),
    "all_to_all": lambda a, g: ncc.all_to_all([a], [a], g, 0),
    "all_to_all_v": lambda a, g: ncc.all_to_all_v([a], [a], g, a),
    "collective_permute": lambda a, _: ncc.collective_permute([a], [a], [(0, 1), (1, 0)]),
    "collective_permute_implicit": lambda a, g: ncc.collective_permute_implicit([[a]], [[a]], g),
    "collective_permute_implicit_current_processing_rank_id": (
        lambda _, g: ncc.collective_permute_implicit_current_processing_rank_id(0, g)
    ),
    "collective_permute_implicit_reduce": (
        lambda a, g: ncc.collective_permute_implicit_reduce(
            [[a]], [[a]], [[a]], g, nki.language.add
        )
    ),
    "rank_id": lambda *_: ncc.rank_id(),
    "reduce_scatter": lambda a, g: ncc.reduce_scatter([a], [a], g, 0, nki.language.add),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_collective_has_awss_parameters(name):
    made = getattr(ncc, name)
    assert made.__name__ == name
    assert tuple(inspect.signature(made).parameters) == PUBLISHED[name]
    assert made.__doc__


@pytest.mark.parametrize("name", CALLS)
def test_outside_a_world_a_collective_is_refused_at_its_own_line(name):
    @nki.jit
    def kernel(a):
        CALLS[name](a, ncc.ReplicaGroup([[0, 1]]))
        return a

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32))
    assert caught.value.reason.startswith(f"{name} in a run without ranks; legal: in a world")
    assert "trnsim.run(kernel, ..., ranks=N)" in caught.value.fix
    assert caught.value.source == f"nki.collectives.{name}"
    line = inspect.getsourcelines(CALLS[name])[1]
    assert caught.value.line.file == __file__
    assert 0 <= caught.value.line.line - line <= 3


@pytest.mark.parametrize("name", ncc.UNMODELLED)
def test_what_is_not_emulated_says_so(name):
    @nki.jit
    def kernel(a):
        return getattr(ncc, name)([a], [a])  # here

    with pytest.raises(NotModelled, match=rf"nki\.collectives\.{name} is not emulated") as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32))
    lines, first = inspect.getsourcelines(kernel._function)
    (here,) = [first + i for i, line in enumerate(lines) if "# here" in line]
    assert caught.value.line == SourceLine(__file__, here)


def test_there_is_no_other_collective():
    assert sorted(ncc.NAMES) == sorted((*PUBLISHED, *ncc.UNMODELLED))
    assert not hasattr(ncc, "broadcast")


def test_a_replica_group_keeps_its_ranks_and_compares_by_them():
    group = ncc.ReplicaGroup(((0, 1), (2, 3)))
    assert group.groups == ((0, 1), (2, 3))
    assert group == ncc.ReplicaGroup(((0, 1), (2, 3))) != ncc.ReplicaGroup(((0, 2), (1, 3)))
    assert len({group, ncc.ReplicaGroup(((0, 1), (2, 3)))}) == 1


@pytest.mark.parametrize(
    ("op", "operand", "groups"),
    [
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


def test_operations_that_divide_nothing_are_refused():
    for world, op, operand in ((8, "mod", 0), (8, "div", 0), (0, "mod", 2), (8, "mod", -1)):
        with pytest.raises(BadInput, match="legal: one rank or more, and an operand above 0"):
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


LISTS = {
    "collective_permute: `source_target_pairs` is (0, 1); legal: a tuple, each of it a tuple": (
        lambda a, b, _: ncc.collective_permute([a], [b], [0, 1])
    ),
    "collective_permute: `source_target_pairs` is 1; legal: a tuple": (
        lambda a, b, _: ncc.collective_permute([a], [b], 1)
    ),
    "collective_permute_implicit: `channel_ids` is 0; legal: a tuple": (
        lambda a, b, g: ncc.collective_permute_implicit([[a]], [[b]], g, 0)
    ),
    "all_reduce: `srcs` is NkiTensor; legal: a list of tensors": (
        lambda a, b, g: ncc.all_reduce(a, b, g, nki.language.add)
    ),
}


@pytest.mark.parametrize("message", LISTS)
def test_lists_are_lists(message):
    @nki.jit
    def kernel(x):
        a, b = (
            nki.language.ndarray(x.shape, dtype=x.dtype, buffer=nki.language.shared_hbm, name=name)
            for name in "ab"
        )
        nki.isa.dma_copy(dst=a, src=x)
        LISTS[message](a, b, ncc.ReplicaGroup([[0, 1]]))
        return x

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2)
    assert caught.value.reason.startswith(message)
    assert caught.value.line.file == __file__
