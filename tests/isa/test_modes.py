"""The enumerations have AWS's own names and values."""

import pytest

from trnsim.isa.modes import DgeMode, Engine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd

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
    assert {member.name: member.value for member in mode} == PUBLISHED[mode]


def test_generations_compare_by_their_number():
    assert NcVersion.gen3.value > NcVersion.gen2.value


def test_every_engine_has_a_name_for_people():
    labels = [engine.label for engine in Engine]
    assert len(set(labels)) == len(Engine)
    assert Engine.gpsimd.label == "GpSimd Engine"
    assert Engine.dma.label == "DMA"
