from dataclasses import replace

import pytest

from trnsim.errors import BadInput
from trnsim.place.links import Spread
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout, check, divisors, is_legal


def test_a_layout_that_uses_every_rank_is_legal(layout, llama, trn2):
    check(layout, llama, trn2)
    assert layout.ranks == trn2.ranks == 256
    assert layout.micro_batches == 32


def test_ranks_are_ordered_tensor_context_data_pipeline():
    spreads = Layout(tensor=4, context=2, data=8, expert=2, pipeline=3).spreads
    assert spreads == {
        "tensor": Spread(4, 1),
        "context": Spread(2, 4),
        "expert": Spread(2, 8),
        "data": Spread(16, 4),
        "expert data": Spread(4, 16),
        "pipeline": Spread(2, 64),
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tensor": 128}, "--tp 128 is more than the 64 ranks of trn2.48xlarge, each a logical"),
        ({"tensor": 3}, "--tp 3 does not divide the 64 ranks of trn2.48xlarge; legal: 1, 2, 4"),
        ({"data": 4}, "128 of 256 ranks would have no work: tp x cp x dp x pp is 128"),
        ({"data": 16}, "512 ranks asked for (tp x cp x dp x pp); 4 x trn2.48xlarge have 256"),
        ({"pipeline": 3, "data": 8}, "64 of 256 ranks would have no work"),
        ({"virtual": 3}, "llama-8b has 32 layers, which --pp x --vp = 12 does not divide"),
        ({"pipeline": 1, "data": 32, "virtual": 2}, "--vp 2 without a pipeline"),
        ({"virtual": 2, "schedule": "zb-h1"}, "--schedule zb-h1 has no virtual stages"),
        ({"virtual": 2, "global_batch": 80}, "interleaved stages need micro batches in multiples"),
        ({"expert": 2}, "--ep 2: llama-8b has no experts; legal: 1"),
        ({"global_batch": 4}, "4 of 8 data ranks would have no sequence: --global-batch is 4"),
        ({"global_batch": 257}, "--global-batch 257 is no multiple of --dp x --micro-batch = 8"),
        ({"micro_batch": 0}, "--micro-batch 0; legal: a whole number from 1 on"),
        ({"tensor": -8}, "--tp -8; legal: a whole number from 1 on"),
        ({"data": float("nan")}, "--dp nan; legal: a whole number from 1 on"),
        ({"zero": 4}, "--zero is 4; legal: 0, 1, 2, 3"),
        ({"recompute": "some"}, "--recompute is 'some'; legal: none, selective, full"),
        (
            {"dtype": "int4"},
            "--dtype is 'int4'; legal: fp32, fp16, bf16, fp8\n  fix: for example --dtype bf16",
        ),
        ({"optimizer": "adam"}, "--optimizer is 'adam'; legal: adamw"),
        ({"sequence": 4095, "context": 2, "data": 4}, "--cp 2 does not divide --sequence 4095"),
        ({"sequence": 4100}, "sequence parallelism: --tp 8 does not divide 4100 tokens"),
    ],
)
def test_what_cannot_be_names_the_option_and_what_is_legal(changed, said, layout, llama, trn2):
    with pytest.raises(BadInput) as caught:
        check(replace(layout, **changed), llama, trn2)
    assert said in str(caught.value)
    assert not is_legal(replace(layout, **changed), llama, trn2)


def test_learned_positions_end_and_rotary_ones_go_on(layout, llama, trn2):
    long = replace(layout, sequence=262_144)
    check(long, llama, trn2)
    learned = replace(llama, towers=(replace(llama.decoder, has_position_table=True),))
    with pytest.raises(BadInput, match="262,144 tokens exceeds max_position_embeddings of llama"):
        check(long, learned, trn2)


def test_experts_are_divided_by_their_ranks_and_these_divide_data_ranks(layout, mixtral, trn2):
    check(replace(layout, expert=8), mixtral, trn2)
    with pytest.raises(BadInput, match="has 8 experts, which --ep 16 does not divide"):
        check(replace(layout, expert=16), mixtral, trn2)
    uneven = replace(layout, tensor=16, data=4, expert=8)
    with pytest.raises(BadInput, match="--ep 8 does not divide --dp 4"):
        check(uneven, mixtral, trn2)


def test_an_instance_without_efa_trains_alone(llama):
    one = Layout(tensor=2, global_batch=8)
    check(one, llama, machine("trn1.2xlarge"))
    with pytest.raises(BadInput, match=r"trn1.2xlarge has no EFA, so 5 of them cannot train"):
        check(replace(one, data=5), llama, machine("trn1.2xlarge", 5))


def test_inferentia1_trains_nothing(llama):
    with pytest.raises(BadInput, match=r"inf1.6xlarge cannot train"):
        check(Layout(tensor=16, global_batch=1), llama, machine("inf1.6xlarge"))


def test_a_dtype_without_a_peak_is_refused(llama):
    with pytest.raises(BadInput, match=r"--dtype fp32: h200 has no published peak in it; legal: f"):
        check(Layout(data=8, global_batch=8, dtype="fp32"), llama, machine("p5en"))
    with pytest.raises(BadInput, match="--dtype bf16: t4 has no published peak in it; legal: fp16"):
        check(Layout(), llama, machine("g4dn.xlarge"))


def test_words_of_a_layout_name_what_is_not_one(layout):
    assert str(layout) == ("TP=8 PP=4 DP=8 ZeRO-1 recompute=selective SP micro batch 1")
    assert str(Layout(schedule="zb-h1", pipeline=2)) == (
        "PP=2 DP=1 ZeRO-1 recompute=selective zb-h1 micro batch 1"
    )


@pytest.mark.parametrize("number", [1, 2, 12, 97, 36, 10**9])
def test_divisors_are_all_in_order_and_found_at_once(number):
    found = divisors(number)
    assert found == sorted(set(found))
    assert all(number % size == 0 for size in found)
    if number < 100:
        assert found == [size for size in range(1, number + 1) if number % size == 0]
    else:
        assert len(found) == 100  # of 2**9 5**9
