import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.traces.encoding import (
    INT_MAX,
    MalformedProgram,
    checked_index,
    decode_argument,
    encode_argument,
)

CORE = torch.device("neuron:0")


def again(value):
    return decode_argument(encode_argument(value, dict), [], CORE)


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            True,
            0,
            -1,
            INT_MAX,
            -INT_MAX - 1,
            1.5,
            math.inf,
            -math.inf,
            "mean",
            [],
            [1, [2, None]],
            1 + 2j,
        ),
        *(torch.float32, torch.bool, torch.strided, torch.channels_last),
    ],
)
def test_an_argument_is_read_as_it_was_written(value):
    assert again(value) == value


def test_nan_stays_nan_a_tuple_becomes_a_list_and_a_device_the_core():
    assert math.isnan(again(math.nan))
    assert again((1, 2)) == [1, 2]
    assert again(torch.device("cpu")) == CORE


def test_a_reference_is_to_an_earlier_value():
    assert decode_argument({"%": 1}, ["a", "b"], CORE) == "b"
    for number in (2, -1, 1.0, True, "0", None):
        with pytest.raises(MalformedProgram, match="a value"):
            decode_argument({"%": number}, ["a", "b"], CORE)


@pytest.mark.parametrize(
    "value",
    [
        *(
            {},
            {"dtype": "object"},
            {"dtype": ["float32"]},
            {"eval": "1"},
            {"dtype": "int8", "%": 0},
        ),
        *(INT_MAX + 1, -INT_MAX - 2, {"complex": [1, 2, 3]}, {"complex": 1}, {"float": "1"}),
        *({"layout": "sparse_coo"}, [[[[[[[[[[1]]]]]]]]]]),
    ],
)
def test_nothing_else_is_read(value):
    with pytest.raises(MalformedProgram):
        decode_argument(value, [], CORE)


def test_an_object_of_python_is_not_written():
    with pytest.raises(MalformedProgram, match="type object"):
        encode_argument([object()], dict)


def test_an_index_is_below_the_count():
    assert checked_index(0, 1, "it") == 0
    with pytest.raises(MalformedProgram, match="it 1, of 1"):
        checked_index(1, 1, "it")
