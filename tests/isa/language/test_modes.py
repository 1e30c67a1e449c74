"""The enumerations have AWS's own names and values."""

import copy
import operator
import pickle

import pytest

from trnsim.isa.language.modes import DgeMode, Engine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd

PUBLISHED = {
    Engine: {
        "unknown": 0,
        "tensor": 1,
        "scalar": 2,
        "gpsimd": 3,
        "dma": 4,
        "vector": 5,
        "sync": 6,
    },
    DgeMode: {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3},
    OobMode: {"error": 0, "skip": 1},
    MatmulPerfMode: {"none": "none", "double_row": "double_row"},
    ReduceCmd: {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4},
    NcVersion: {"gen2": 2, "gen3": 3, "gen4": 4},
}


@pytest.mark.parametrize("mode", PUBLISHED, ids=lambda mode: mode.__name__)
def test_an_enumeration_has_the_published_members(mode):
    members = {member.name: member.value for member in mode}
    joined = members.keys() - PUBLISHED[mode].keys()
    assert members.items() >= PUBLISHED[mode].items()
    # The generations grow with the table of targets; no kernel names the processor of collectives.
    assert not joined or mode is NcVersion or (mode is Engine and joined == {"collective"})


@pytest.mark.parametrize(
    "compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
)
def test_generations_compare_with_each_other_and_with_their_numbers(compare):
    for one in NcVersion:
        for other in NcVersion:
            expected = compare(one.value, other.value)
            assert compare(one, other) is expected
            assert compare(one, other.value) is expected
            assert compare(one.value, other) is expected


@pytest.mark.parametrize(
    "mode", [m for m in PUBLISHED if m is not NcVersion], ids=lambda mode: mode.__name__
)
def test_no_other_enumeration_has_an_order_or_equals_its_numbers(mode):
    first, second, *_ = mode
    assert first != first.value
    with pytest.raises(TypeError, match="not supported between"):
        _ = first < second


@pytest.mark.parametrize("mode", PUBLISHED, ids=lambda mode: mode.__name__)
def test_a_copy_of_a_member_is_the_member(mode):
    for member in mode:
        assert copy.deepcopy(member) is copy.copy(member) is member
        assert pickle.loads(pickle.dumps(member)) is member  # noqa: S301  our own


def test_every_engine_has_a_name_for_people():
    labels = [engine.label for engine in Engine]
    assert len(set(labels)) == len(Engine)
    assert Engine.gpsimd.label == "GpSimd Engine"
    assert Engine.dma.label == "DMA"
