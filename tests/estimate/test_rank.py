import pytest
from layer_sizes import LLAMA

from trnsim.estimate.choice import layer_times
from trnsim.estimate.estimate import EXCHANGES
from trnsim.estimate.rank import CALL, Rank
from trnsim.estimate.times import LayerTime
from trnsim.estimate.training import RECOMPUTED
from trnsim.place.links import Spread
from trnsim.place.machine import machine
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

TRN1 = machine("trn1.32xlarge")
STEP = Pass(Phase.DECODE, 2, 1, 511)


class Each:
    """Layers that take 2 ms each, and 5 their gradients."""

    def __init__(self, *, has_exchanges):
        self.has_exchanges = has_exchanges

    def forward(self, *_):
        """Forward."""
        return self._time(2e-3)

    def backward(self, *_):
        """Both gradients."""
        return self._time(5e-3)

    def _time(self, time_s):
        return LayerTime(time_s, {"products": time_s}, 0.1, "each", self.has_exchanges)


def rank(has_exchanges=True, **more):
    return Rank(TRN1, Each(has_exchanges=has_exchanges), Split(8), **more)


def test_a_pass_is_all_layers_and_what_ranks_exchange():
    made = summaries(LLAMA, STEP, Split(8))
    found = rank().pass_estimate(made, STEP)
    count = sum(block.times for block in made)
    one = next(block for block in made if block.name == "layer").exchanges[0]
    assert found.parts_s["products"] == pytest.approx(count * 2e-3)
    each_s = rank().exchange_s(one.kind, one.nbytes, Spread(8))
    assert found.parts_s[EXCHANGES] >= 2 * LLAMA.decoder.depth * each_s * 0.99
    assert found.sources == {"decode": "each"}


def test_one_rank_exchanges_nothing():
    made = summaries(LLAMA, STEP)
    found = Rank(TRN1, Each(has_exchanges=True)).pass_estimate(made, STEP)
    assert found.parts_s[EXCHANGES] == 0.0


def test_exchanges_err_with_layers_whose_rows_had_them_and_else_by_themselves():
    made = summaries(LLAMA, STEP, Split(8))
    together, apart = (
        rank().pass_estimate(made, STEP),
        rank(has_exchanges=False).pass_estimate(made, STEP),
    )
    assert together.time_s == apart.time_s
    assert together.errors_s == {"each": pytest.approx(0.1 * together.time_s)}
    assert set(apart.errors_s) == {"each", EXCHANGES}
    assert apart.errors_s["each"] == pytest.approx(0.1 * apart.parts_s["products"])


def test_a_call_errs_as_what_it_calls():
    made = summaries(LLAMA, STEP, Split(8))
    plain, called = rank().pass_estimate(made, STEP), rank(call_s=0.5).pass_estimate(made, STEP)
    assert called.parts_s[CALL] == 0.5
    assert called.sigma == pytest.approx(plain.sigma)


def test_a_further_spread_is_added_in_squares():
    made = summaries(LLAMA, STEP, Split(8))
    assert rank(more_spread=0.4).pass_estimate(made, STEP).sigma == pytest.approx(0.17**0.5)


def test_training_passes_forward_and_takes_both_gradients():
    given = Pass(Phase.TRAIN, 1, 64)
    made = summaries(LLAMA, given, Split(8))
    layers = [None, *LLAMA.decoder.layers, None]
    found = rank().micro_batch_estimate(zip(made, layers, strict=True), given)
    count = sum(block.times for block in made)
    assert found.parts_s["products"] == pytest.approx(count * 7e-3)
    assert found.parts_s[RECOMPUTED] == pytest.approx(LLAMA.decoder.depth * 2e-3)  # scores
    forward = rank().pass_estimate(made, given)
    assert found.parts_s[EXCHANGES] > forward.parts_s[EXCHANGES]


def test_what_was_seen_is_told_by_phase():
    one = Rank(TRN1, layer_times(TRN1))
    one.pass_estimate(summaries(LLAMA, STEP), STEP)
    given = Pass(Phase.PREFILL, 1, 16)
    one.pass_estimate(summaries(LLAMA, given), given)
    assert set(one.sources.words()) == {"decode", "prefill"}
