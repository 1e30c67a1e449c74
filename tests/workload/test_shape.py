import pytest

from trnsim.errors import BadInput
from trnsim.workload.shape import PHASES, ModelShape


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"phase": "sample"}, "phase 'sample'; legal: encode, prefill, decode, train"),
        ({"phase": "encode", "batch": 0}, "batch of 0; legal: 1 and more"),
        ({"phase": "encode", "batch": True}, "batch of True; legal: whole numbers, 1 and more"),
        ({"phase": "encode", "ranks": 2.0}, "ranks of 2.0; legal: whole numbers, 1 and more"),
        ({"phase": "encode", "batch": "2"}, "batch of '2'; legal: whole numbers, 1 and more"),
        ({"phase": "encode", "sequence": 0}, "sequence of 0; legal: 1 and more"),
        ({"phase": "encode", "ranks": 0}, "ranks of 0; legal: 1 and more"),
        ({"phase": "decode", "past": -1}, "past of -1; legal: 0 and more"),
        ({"phase": "prefill", "past": 1}, "past of 1 in phase prefill; legal: a cache in decode"),
        ({"phase": "decode"}, "decode without a cache; legal: past of 1 and more"),
    ],
)
def test_what_has_no_graph_is_refused(given, message):
    with pytest.raises(BadInput, match=message) as error:
        ModelShape(**given)
    assert error.value.fix


def test_the_smallest_shape_of_each_phase():
    for phase in PHASES:
        past = 1 if phase == "decode" else 0
        shape = ModelShape(phase, batch=1, sequence=1, past=past, ranks=1)
        assert shape.tokens == 1


def test_a_step_of_decoding_passes_one_token():
    assert ModelShape("decode", sequence=512, past=7).tokens == 1
    assert ModelShape("prefill", sequence=512).tokens == 512
