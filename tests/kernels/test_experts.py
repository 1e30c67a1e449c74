"""The example of experts: values with uneven counts, what is hidden, races."""

from functools import cache

import numpy as np
import pytest

from trnsim.errors import DataRace


@pytest.fixture(scope="module")
def layer(example):
    return example("experts")


@pytest.fixture(scope="module")
def world(layer):
    """A function that runs the example, once for each of its arguments, and checks the values."""

    @cache
    def ran(**given):
        world, wanted = layer.run(**given)
        for out, rows in zip(world.outputs, wanted, strict=True):
            np.testing.assert_allclose(out, rows, rtol=1e-5, atol=1e-5)
        return world

    return ran


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "lnc"), [(4, 1), (8, 1), (8, 2)])
def test_each_rank_has_its_tokens_from_all_experts(world, ranks, lnc):
    assert not world(ranks=ranks, lnc=lnc).warnings


def test_counts_are_uneven_and_a_rank_sends_and_another_gets_nothing(layer, monkeypatch):
    seen = []
    routed = layer.routed
    monkeypatch.setitem(
        layer.run.__globals__, "routed", lambda *given: seen.append(routed(*given)) or seen[-1]
    )
    layer.run(ranks=4)
    counts = np.array([metadata[0] for _, _, metadata in seen]) // layer.HIDDEN
    assert counts.sum(axis=1).tolist() == [128, 128, 0, 64]
    assert counts[:, 1].tolist() == [0, 0, 0, 0]
    assert len({*counts.ravel().tolist()}) > 4


def test_places_and_order_of_tokens_by_hand(layer):
    order, places, metadata = layer.routed(np.array([[2, 0], [0, 3], [2, 3]]), 4)
    assert order[:6, 0].tolist() == [0, 1, 0, 2, 1, 2]
    n = layer.TOKENS
    assert places[0, :3, 0].tolist() == [2 * n, 1, 2 * n + 1]
    assert places[1, :3, 0].tolist() == [0, 3 * n, 3 * n + 1]
    wanted = [[2, 0, 2, 2], [0, 2, 2, 4], [0] * 4]
    np.testing.assert_array_equal(metadata, np.array(wanted) * layer.HIDDEN)


@pytest.mark.slow
@pytest.mark.parametrize("lnc", [1, 2])
def test_the_shared_expert_works_while_tokens_travel(world, lnc, hidden_s):
    worlds = world(ranks=8, lnc=lnc, has_shared=False), world(ranks=8, lnc=lnc)
    bare, shared = (hidden_s(one.runs[0], "all_to_all_v") for one in worlds)
    assert bare == [0, 0]
    assert shared[0] > 0
    without_s, with_s = (
        sum(
            span.busy_until_s - span.start_s
            for span in one.runs[0].timeline.spans()
            if span.opcode == "nc_matmul"
        )
        for one in worlds
    )
    added_s = worlds[1].total_time_s - worlds[0].total_time_s
    assert added_s < 0.7 * (with_s - without_s)


@pytest.mark.slow
@pytest.mark.parametrize("tensor", ["sent", "received", "results", "returned"])
def test_without_a_barrier_there_is_a_race(layer, tensor, without_barrier):
    met = without_barrier(tensor)
    with pytest.raises(DataRace, match=rf"s {tensor} HBM .*experts\.py:\d+ while the other w"):
        layer.run(ranks=4, lnc=2)
    assert tensor in met
