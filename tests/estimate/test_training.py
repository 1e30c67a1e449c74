import pytest
from layer_sizes import LLAMA

from trnsim.estimate.choice import layer_times
from trnsim.estimate.training import RECOMPUTED, layer_passes
from trnsim.place.machine import machine
from trnsim.workload.gradients import Recompute, has_dropout, is_fused
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries

GIVEN = Pass(Phase.TRAIN, 1, 512)
LAYER = LLAMA.decoder.layers[0]
TABLE, BLOCK, HEAD = summaries(LLAMA, GIVEN)


def of(how, block=BLOCK, layer=LAYER):
    return layer_passes(block, layer, GIVEN, how, layer_times(machine("trn1"), "train"))


def test_decoders_have_attention_in_one_kernel_and_no_dropout():
    assert is_fused(LAYER)
    assert not has_dropout(LAYER)


def test_what_is_computed_again_grows_with_recomputation():
    none, some, all_of_it = (of(how) for how in Recompute)
    assert 0 < none.recomputed_s <= some.recomputed_s < all_of_it.recomputed_s
    assert none.forward.time_s < none.backward.time_s
    names = {one.name for one in all_of_it.recomputed.products}
    assert {one.name for one in none.recomputed.products} == {"scores"} < names


@pytest.mark.parametrize("block", [TABLE, HEAD])
def test_outside_the_layers_nothing_is_computed_again(block):
    found = of(Recompute.FULL, block, None)
    assert found.recomputed_s == 0.0
    assert not found.recomputed.products


def test_causes_add_up():
    found = of(Recompute.FULL)
    whole_s = found.forward.time_s + found.backward.time_s + found.recomputed_s
    assert sum(found.causes_s.values()) == pytest.approx(whole_s)
    assert found.causes_s[RECOMPUTED] == found.recomputed_s
