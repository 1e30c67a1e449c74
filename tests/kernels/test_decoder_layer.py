"""The example of a decoder layer over ranks: values, an exchange in parts, races."""

from functools import cache

import numpy as np
import pytest

from trnsim.errors import DataRace


@pytest.fixture(scope="module")
def layer(example):
    return example("decoder_layer")


@pytest.fixture(scope="module")
def world(layer):
    """A function that runs the example, once for each of its arguments."""
    return cache(layer.run)


def expected(layer):
    """The layer in float64, sequence by sequence."""
    given = {name: whole.astype(np.float64) for name, (whole, _) in layer.layer().items()}
    state, head = given["x"], layer.HEAD

    def normalized(x, number):
        return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * given["norms"][number]

    def by_head(x, weights):
        return (x @ given[weights]).reshape(len(x), -1, head)

    def turned(x):
        pairs = (x[..., : head // 2] + 1j * x[..., head // 2 :]) * turns[:, None]
        return np.concatenate([pairs.real, pairs.imag], axis=-1)

    turns = given["cos"] + 1j * given["sin"]
    x = normalized(state, 0)
    queries, keys, values = turned(by_head(x, "wq")), turned(by_head(x, "wk")), by_head(x, "wv")
    heads = np.empty_like(queries)
    for one, number in np.ndindex(heads.shape[:2]):
        kv = number * layer.KV_HEADS // layer.HEADS
        all_keys = np.vstack([given["keys"][kv, :, one, :-1].T, keys[one, kv]])
        all_values = np.vstack([given["values"][kv, :-1, one], values[one, kv]])
        weights = np.exp(all_keys @ queries[one, number] / head**0.5)
        heads[one, number] = weights @ all_values / weights.sum()
    state = state + heads.reshape(len(x), -1) @ given["wo"]
    x = normalized(state, 1)
    gate = x @ given["w_gate"]
    return state + (gate / (1 + np.exp(-gate)) * (x @ given["w_up"])) @ given["w_down"]


@pytest.mark.slow
def test_the_angles_are_those_of_the_last_position(layer):
    cos, sin = (layer.layer()[name][0] for name in ("cos", "sin"))
    np.testing.assert_allclose(cos**2 + sin**2, 1, rtol=1e-6)
    np.testing.assert_allclose(sin[:, 0], np.sin(layer.CONTEXT - 1), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("lnc", "parts"), [(1, 1), (1, 2), (2, 2)])
def test_eight_ranks_have_what_one_has_and_what_numpy_says(layer, world, lnc, parts):
    (alone,) = world(ranks=1).outputs
    wanted = expected(layer)
    np.testing.assert_allclose(alone, wanted, rtol=1e-5, atol=1e-5)
    for out in world(lnc=lnc, parts=parts).outputs:
        np.testing.assert_allclose(out, alone, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_part_is_exchanged_behind_the_products_of_the_next(world, hidden_s):
    whole, split = (world(lnc=1, parts=parts) for parts in (1, 2))
    assert hidden_s(whole.runs[0], "all_reduce") == [0, 0]
    _attention, first, last = hidden_s(split.runs[0], "all_reduce")
    spans = split.runs[0].timeline.spans()
    *_, second = (one for one in spans if one.opcode == "all_reduce")
    assert first > 0.9 * (second.busy_until_s - second.start_s)
    assert last == 0
    assert split.total_time_s < whole.total_time_s
    assert hidden_s(world(lnc=2, parts=2).runs[0], "all_reduce")[1] > 0


@pytest.fixture(scope="module")
def narrow(example):
    """The example with fewer hidden and inner columns."""
    found = example("decoder_layer")
    found.run.__globals__.update(HIDDEN=1024, INNER=1024)
    return found


@pytest.mark.slow_cases("attention0", "mlp0", "mlp1")
@pytest.mark.slow_cases("inner")
@pytest.mark.parametrize("tensor", ["heads", "attention0", "inner", "mlp0", "mlp1"])
def test_without_a_barrier_there_is_a_race(narrow, tensor, without_barrier):
    met = without_barrier(tensor)
    with pytest.raises(DataRace, match=rf"reads {tensor} HBM .*decoder_layer\.py:\d+ while"):
        narrow.run(ranks=4, lnc=2)
    assert tensor in met
