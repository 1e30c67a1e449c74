import pytest

from trnsim.errors import BadInput
from trnsim.workload.architecture import Mlp
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import GPT, PLAIN_NAMES, heads_of, kv_heads_of, mlp_of


def keys(**given):
    return ConfigKeys(given, "mine.json")


def test_heads_have_an_equal_part_or_what_is_said():
    assert heads_of(keys(num_attention_heads=7), PLAIN_NAMES, 56) == (7, 8)
    assert heads_of(keys(num_attention_heads=7, head_dim=5), PLAIN_NAMES, 1000) == (7, 5)
    assert heads_of(keys(n_head=7), GPT, 1000, 128) == (7, 128)
    with pytest.raises(BadInput, match=r"n_embd is 1000; legal: multiples of 7 heads, or any with"):
        heads_of(keys(n_head=7, n_embd=1000), GPT, 1000)


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_kv_heads_divide_the_heads(kv_heads):
    assert kv_heads_of(keys(num_key_value_heads=kv_heads), PLAIN_NAMES, 8) == kv_heads


def test_there_are_as_many_kv_heads_as_heads_or_as_the_file_says():
    assert kv_heads_of(keys(), PLAIN_NAMES, 8) == 8
    for wrong in (3, 16):
        with pytest.raises(BadInput, match=f"num_key_value_heads is {wrong}; legal: 1, 2, 4, 8: "):
            kv_heads_of(keys(num_key_value_heads=wrong), PLAIN_NAMES, 8)


def test_biases_of_gate_and_up_are_two():
    assert mlp_of(4, 10, is_gated=True, has_biases=True) == Mlp(10, 3, 24)
    assert mlp_of(4, 10, is_gated=False, has_biases=True) == Mlp(10, 2, 14)
    assert mlp_of(4, 10, is_gated=True) == Mlp(10, 3)
