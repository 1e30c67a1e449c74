"""`nki.collectives`: AWS's names and signatures, and refusals outside a world."""

import inspect

import nki
import nki.collectives as ncc
import numpy as np
import pytest

import trnsim
from trnsim.behaviours import VERSIONS
from trnsim.behaviours.chosen import pinned
from trnsim.behaviours.collectives import NAME_PARAMETERS, PRIORITIZED
from trnsim.errors import IllegalInstruction
from trnsim.nki.instruction import NkiInstruction

GROUPED = ("srcs", "dsts", "replica_group")
VARIABLE = ("metadata_tensor", "recv_counts_known", "has_rdispls", "priority", "name")
PUBLISHED = {
    "all_gather": (*GROUPED, "collective_dim", "priority", "name"),
    "all_gather_v": (*GROUPED, *VARIABLE),
    "all_gather_v_prepare": (*GROUPED, *VARIABLE),
    "all_gather_v_trigger": ("prepare_instr", "name"),
    "all_reduce": (*GROUPED, "op", "priority", "name"),
    "all_to_all": (*GROUPED, "collective_dim", "priority", "name"),
    "all_to_all_v": (*GROUPED, *VARIABLE),
    "all_to_all_v_prepare": (*GROUPED, *VARIABLE),
    "all_to_all_v_trigger": ("prepare_instr", "name"),
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
    "all_gather_v_prepare": lambda a, g: ncc.all_gather_v_prepare([a], [a], g, a),
    "all_gather_v_trigger": lambda a, _: ncc.all_gather_v_trigger(a),
    "all_reduce": lambda a, g: ncc.all_reduce([a], [a], g, nki.language.add),
    "all_to_all": lambda a, g: ncc.all_to_all([a], [a], g, 0),
    "all_to_all_v": lambda a, g: ncc.all_to_all_v([a], [a], g, a),
    "all_to_all_v_prepare": lambda a, g: ncc.all_to_all_v_prepare([a], [a], g, a),
    "all_to_all_v_trigger": lambda a, _: ncc.all_to_all_v_trigger(a),
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


def test_there_is_no_other_collective():
    others = {"ReplicaGroup", "reduce_scatter_v", "rg_partition_op"}
    assert sorted({*ncc.__all__} - others) == sorted(PUBLISHED)
    assert not hasattr(ncc, "broadcast")


def caller(name, options):
    """A function that calls a collective under a version, with options, and returns its refusal."""

    def call(version):
        @nki.jit
        def kernel(a):
            function = getattr(ncc, name)
            arguments = inspect.signature(function).parameters
            group = ncc.ReplicaGroup([[0, 1]])
            given = {"replica_group": group, "source_target_pairs": [(0, 1), (1, 0)]}
            lists = {key: [[a]] if "channel" in key else [a] for key in arguments}
            plain = {"channel_ids": [0], "channel_id": 0, "collective_dim": 0, "iteration_id": 0}
            values = {"op": nki.language.add, "priority": None, **plain, **given}
            plain_values = {k: values.get(k, lists[k]) for k in arguments if k != "name"}
            function(**{**plain_values, **options})

        try:
            trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2, nki=version)
        except IllegalInstruction as error:  # its tensors are wrong for most collectives
            return error.reason
        return ""

    return call


@pytest.mark.parametrize("name", sorted(NAME_PARAMETERS))
def test_a_collective_has_a_name_since_05(name):
    refusal = caller(name, {"name": "x"})
    old = refusal("0.4")
    assert old.startswith(
        f"ncc.{name}(name='x') under NKI 0.4, where collectives have no names yet"
    )
    assert old.endswith("legal: from NKI 0.5 on")
    assert "under NKI" not in refusal("0.5")


def test_the_register_of_a_rank_is_returned_and_not_passed():
    def kernel(x):
        ncc.rank_id(nki.isa.register_alloc())
        return x

    words = r"ncc\.rank_id\(name=VirtualRegister\); legal: a string"
    with pytest.raises(IllegalInstruction, match=words):
        trnsim.run(nki.jit(kernel), np.ones((4, 4), np.float32), ranks=2)


@pytest.mark.parametrize("name", sorted(PRIORITIZED))
def test_a_collective_has_a_priority_since_04(name):
    refusal = caller(name, {"priority": 2})
    assert refusal("0.3").startswith(f"ncc.{name}(priority=2) under NKI 0.3, where its transfers")
    assert "under NKI" not in refusal("0.4")
    assert "under NKI" not in caller(name, {"priority": None})("0.3")


@pytest.mark.parametrize(("version", "kind"), [("0.7", NkiInstruction), ("0.6", type(None))])
def test_a_collective_is_an_instruction_since_07(version, kind):
    seen = []

    @nki.jit
    def kernel(x):
        a, b = (
            nki.language.ndarray(x.shape, dtype=x.dtype, buffer=nki.language.shared_hbm)
            for _ in range(2)
        )
        nki.isa.dma_copy(dst=a, src=x)
        seen.append(ncc.all_to_all([a], [b], ncc.ReplicaGroup([[0, 1]]), 0))
        seen.append(ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0, 1]]), nki.language.add))
        return x

    trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2, nki=version)
    assert set(map(type, seen)) == {kind}


LATER = {
    "all_to_all_v_prepare": "0.7",
    "all_to_all_v_trigger": "0.7",
    "all_gather_v_prepare": "0.7",
    "all_gather_v_trigger": "0.7",
    "reduce_scatter_v": "0.7",
    "rg_partition_op": "0.7",
    "all_gather_v": "0.6",
    "all_to_all_v": "0.3",
}


@pytest.mark.parametrize("name", LATER)
def test_a_later_collective_is_absent_before_its_version(name):
    for version in VERSIONS.values():
        is_there = version.number >= VERSIONS[LATER[name]].number
        with pinned(version, "a test"):
            assert hasattr(ncc, name) is is_there
            assert (name in dir(ncc)) is is_there
    with (
        pinned("0.2", "--nki"),
        pytest.raises(AttributeError, match=r"and --nki asks for NKI 0\.2"),
    ):
        getattr(ncc, name)
