from dataclasses import replace

from test_attending import with_cross
from workload_sizes import GROUPED, LATENT, model

from trnsim.workload.operators import Split
from trnsim.workload.resident import cache_bytes


def test_a_cache_keeps_keys_and_values_of_every_layer():
    assert cache_bytes(model(), 100) == 3 * 100 * 16 * 2
    assert cache_bytes(model(kv_bits=8), 100) == 3 * 100 * 16
    assert cache_bytes(model(), 100, Split(tensor=2)) == 3 * 100 * 8 * 2
    assert cache_bytes(model(), 100, Split(tensor=8)) == 3 * 100 * 8 * 2  # copied
    assert cache_bytes(model(), 100, Split(context=4)) == 3 * 25 * 16 * 2


def test_a_window_keeps_what_it_sees():
    short = model(replace(GROUPED, window=16))
    assert cache_bytes(short, 100) == 3 * 16 * 16 * 2
    assert cache_bytes(short, 10) == 3 * 10 * 16 * 2


def test_latent_vectors_are_kept_by_every_rank():
    assert cache_bytes(model(LATENT), 100) == 3 * 100 * 15 * 2
    assert cache_bytes(model(LATENT), 100, Split(tensor=6)) == 3 * 100 * 15 * 2


def test_cross_attention_keeps_the_source():
    assert cache_bytes(with_cross(), 100, source=7) == 3 * (100 * 16 + 7 * 64) * 2


def test_an_encoder_keeps_nothing():
    assert cache_bytes(model(replace(GROUPED, is_causal=False)), 100) == 0
