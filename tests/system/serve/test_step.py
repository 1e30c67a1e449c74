"""Steps: every input moves its part of the time, and no other."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.estimate.estimate import QUANTILES
from trnsim.estimate.few import FewConstants
from trnsim.estimate.rank import Rank
from trnsim.facts import assumed
from trnsim.place.machine import machine
from trnsim.system.serve.constants import HostTimes, user_host_times
from trnsim.system.serve.step import (
    QuantileCosts,
    ReplicaSteps,
    Speculation,
)
from trnsim.workload.config import from_config, read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
MIXTRAL = from_config(
    {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "vocab_size": 32000, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "mixtral.json",
)  # fmt: skip


def few(where):
    """Constants that follow the catalogue."""
    ranks, chip = where.ranks_per_chip, where.chip
    return FewConstants(
        0.2 * chip.peak_flop_per_s["bf16"] / ranks,
        0.7 * chip.memory_bytes_per_s / ranks,
        2.0,
        5e-5,
        0.1,
        "few constants of a test",
    )


def steps(on="trn2", model=LLAMA, tensor=8, expert=1, pipeline=1, rows=None, **more):
    where = machine(on, rows=rows)
    return ReplicaSteps(
        model,
        where,
        Split(tensor=tensor, expert=expert),
        pipeline,
        more.pop("times", few(where)),
        user_host_times(more.pop("host_s", 0.0)),
        **more,
    )


def changed(part, factor, chip="trainium2"):
    """The catalogue with one figure of a chip times `factor`."""
    rows = json.loads(json.dumps(read_rows()))
    leaf = rows["chips"][chip]
    for key in part:
        leaf = leaf[key]
    leaf["value"] *= factor
    return parse(rows)


@pytest.mark.parametrize("on", ["trn1", "trn2", "trn3", "inf2", "p5en"])
@pytest.mark.parametrize("make", [lambda s: s.decode(8, 1024), lambda s: s.prefill(2, 512, 256)])
def test_parts_add_up_to_the_step(on, make):
    found = make(steps(on))
    assert {"products", "weights", "exchanges", "host"} <= set(found.parts_s)
    assert found.time_s == pytest.approx(sum(found.parts_s.values()))
    assert (
        0
        < found.quantile_s("p10")
        < found.quantile_s("p50")
        == found.time_s
        < found.quantile_s("p90")
    )


def moved(before, after):
    """Parts of a step that are not what they were."""
    return {
        name
        for name in {*before.parts_s, *after.parts_s}
        if after.parts_s.get(name, 0.0) != pytest.approx(before.parts_s.get(name, 0.0))
    }


def test_hbm_bandwidth_moves_weights_and_keys_alone():
    before = steps().decode(8, 2048)
    after = steps(rows=changed(("memory", "bandwidth"), 1.5)).decode(8, 2048)
    assert moved(before, after) == {"weights", "KV"}
    assert after.time_s < before.time_s


def test_the_peak_moves_products_and_what_hbm_takes_longer():
    rows = changed(("peak", "bf16"), 2.0)
    assert moved(steps().decode(8, 2048), steps(rows=rows).decode(8, 2048)) <= {
        "products",
        "weights",
        "KV",
    }
    prompt = steps(rows=rows).prefill(1, 4096, 0), steps().prefill(1, 4096, 0)
    assert moved(*prompt) <= {"products", "weights"}  # the head's, of the last token alone
    assert prompt[0].parts_s["products"] == pytest.approx(prompt[1].parts_s["products"] / 2)


def test_the_bits_of_the_cache_move_keys_alone():
    before = steps().decode(8, 2048)
    after = steps(model=replace(LLAMA, kv_bits=8)).decode(8, 2048)
    assert moved(before, after) <= {"KV", "weights"}  # of one sum each takes its share
    bytes_s = [one.parts_s["KV"] + one.parts_s["weights"] for one in (before, after)]
    assert bytes_s[1] < bytes_s[0]


def test_the_bits_of_weights_move_weights():
    before = steps().decode(1, 256)
    after = steps(model=replace(LLAMA, weight_bits=8)).decode(1, 256)
    assert moved(before, after) <= {"weights", "KV"}
    assert after.parts_s["weights"] < 0.6 * before.parts_s["weights"]


def test_tensor_ranks_exchange_and_one_rank_does_not():
    assert steps(tensor=1).decode(8, 1024).parts_s["exchanges"] == 0
    assert steps(tensor=8).decode(8, 1024).parts_s["exchanges"] > 0


def test_links_move_exchanges_alone(monkeypatch):
    before = steps().decode(8, 1024)
    found = Rank.exchange_s
    monkeypatch.setattr(Rank, "exchange_s", lambda *given: 2 * found(*given))
    after = steps().decode(8, 1024)
    assert moved(before, after) == {"exchanges"}
    assert after.parts_s["exchanges"] == pytest.approx(2 * before.parts_s["exchanges"])


def test_exchanges_err_with_layers_whose_rows_had_them_and_else_by_themselves():
    class Apart:
        """Layers that a user measured, without exchanges."""

        def forward(self, block, given):
            layer = few(machine("trn2")).forward(block, given)
            return replace(layer, has_exchanges=False, source="measured: a.csv")

    together, apart = steps().decode(8, 1024), steps(times=Apart()).decode(8, 1024)
    assert "exchanges" not in together.errors_s
    part = apart.parts_s["exchanges"] / apart.time_s
    expected = ((0.1 * (1 - part)) ** 2 + (0.2 * part) ** 2) ** 0.5
    assert apart.sigma == pytest.approx(expected)


def test_a_step_is_as_sure_as_published_rows_are_near():
    assert steps("trn1").decode(8, 1024).sigma < steps("trn2").decode(8, 1024).sigma
    assert steps("trn1").decode(8, 1024).sigma < steps("trn1").decode(64, 1024).sigma


def test_the_host_is_a_part_of_its_own():
    host = HostTimes(assumed(2e-3, "a test"), assumed(0.0, "a test"))
    before, after = (one.decode(8, 1024) for one in (steps(), replace(steps(), host=host)))
    assert moved(before, after) == {"host"}
    assert after.time_s == pytest.approx(before.time_s + 2e-3)
    assert after.sigma > before.sigma * before.time_s / after.time_s


def test_the_host_takes_time_for_each_sequence_of_a_step():
    each = HostTimes(assumed(1e-3, "a test"), assumed(1e-5, "a test"))
    one = replace(steps("p5en"), host=each, _estimates={})
    assert one.decode(8, 1024).parts_s["host"] == pytest.approx(1e-3 + 8e-5)
    assert one.prefill(2, 512, 0).parts_s["host"] == pytest.approx(1e-3 + 2e-5)
    assert one.mixed(2, 512, 0, 8, 1024).parts_s["host"] == pytest.approx(1e-3 + 10e-5)


def test_a_request_waits_for_the_host_around_its_steps():
    costs = [
        QuantileCosts(steps(), quantile).request_overhead_s(1000)
        for quantile in ("p10", "p50", "p90")
    ]
    assert costs == sorted(costs)
    assert costs[1] == pytest.approx(2e-3 + 1000e-6)


@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_steps_grow_with_batch_length_and_prompt(on):
    one = steps(on)
    assert one.decode(4, 1024).time_s < one.decode(8, 1024).time_s < one.decode(8, 4096).time_s
    assert one.prefill(1, 512, 0).time_s < one.prefill(2, 512, 0).time_s
    assert one.prefill(1, 512, 0).time_s < one.prefill(1, 1024, 0).time_s
    assert one.prefill(1, 512, 0).time_s < one.prefill(1, 512, 2048).time_s


def test_a_mixed_step_takes_less_than_both_and_more_than_either():
    one = steps("p5en")
    both = one.prefill(1, 512, 0).time_s + one.decode(32, 1024).time_s
    mixed = one.mixed(1, 512, 0, 32, 1024).time_s
    assert max(one.prefill(1, 512, 0).time_s, one.decode(32, 1024).time_s) < mixed < both


def test_a_mixed_step_multiplies_the_rows_of_both_and_reads_weights_once():
    seen = []

    class Times:
        def forward(self, block, given):
            seen.append(block)
            return few(machine("p5en")).forward(block, given)

    steps("p5en", times=Times()).mixed(2, 100, 0, 7, 1000)
    layer = next(one for one in seen if one.name == "layer")
    alone = summaries(LLAMA, Pass(Phase.PREFILL, 2, 100), Split(tensor=8))[1]
    assert layer.weight_bytes == alone.weight_bytes
    up = next(one for one in layer.products if one.name == "up")
    assert up.m * up.times == 207
    decode = summaries(LLAMA, Pass(Phase.DECODE, 7, 1, 999), Split(tensor=8))[1]
    assert layer.flop == pytest.approx(alone.flop + decode.flop)
    assert layer.cache.read_bytes == decode.cache.read_bytes + alone.cache.read_bytes


def test_a_mixed_step_keeps_the_products_of_attentions_and_mixers_side_by_side():
    model = from_config(
        {
            "model_type": "falcon_h1", "hidden_size": 512, "intermediate_size": 1024,
            "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000,
            "mamba_d_ssm": 1024, "mamba_n_heads": 8,
        },
        "falcon.json",
    )  # fmt: skip
    seen = []

    class Times:
        def forward(self, block, given):
            seen.append(block)
            return few(machine("p5en")).forward(block, given)

    steps("p5en", model, tensor=1, times=Times()).mixed(2, 100, 0, 7, 1000)
    layer = next(one for one in seen if one.name == "layer")
    passes = Pass(Phase.PREFILL, 2, 100), Pass(Phase.DECODE, 7, 1, 999)
    prefill, decode = (summaries(model, one)[1] for one in passes)
    assert layer.flop == pytest.approx(prefill.flop + decode.flop)
    assert layer.weight_bytes == prefill.weight_bytes
    outputs = [one for one in layer.products if one.name == "output"]
    assert [(one.m, one.k) for one in outputs] == [(207, 1024), (207, 512)]


@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_a_mixed_step_of_an_encoder_and_a_decoder_takes_the_encoder_for_prompts(on):
    model = from_config(
        {
            "model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
            "num_heads": 8, "vocab_size": 32128,
        },
        "t5.json",
    )  # fmt: skip
    times = steps(on, model)
    mixed = times.mixed(1, 512, 0, 8, 256).time_s
    prefill, decode = times.prefill(1, 512, 0).time_s, times.decode(8, 256).time_s
    assert max(prefill, decode) < mixed < prefill + decode


def test_a_pipeline_gives_each_group_a_pass_and_all_prompts_the_closed_form():
    one, four = steps(), steps(pipeline=4)
    # Eight sequences in four groups: a pass of two, and three hops.
    hops_s = four.decode(8, 1024).time_s - one.decode(2, 1024).time_s
    assert 0 < hops_s < 1e-3
    prompts = [four.prefill(count, 512, 0).time_s for count in (1, 2, 5)]
    alone = steps().prefill(1, 512, 0).time_s
    for count, time_s in zip((1, 2, 5), prompts, strict=True):
        assert time_s == pytest.approx(alone * (count + 3) / 4, rel=0.02, abs=1e-3)


def test_drafts_cost_their_passes_and_a_wider_one_of_the_model():
    plain = steps().decode(4, 1024)
    head = steps(speculation=Speculation(3)).decode(4, 1024)
    assert head.parts_s["draft"] > 0
    assert head.time_s > plain.time_s
    small = replace(LLAMA, weight_bits=4)
    model = steps(speculation=Speculation(3, small)).decode(4, 1024)
    assert model.parts_s["draft"] > head.parts_s["draft"]  # a whole model, three times


def test_experts_that_are_met_unevenly_take_longer():
    def at(**more):
        found = steps(model=MIXTRAL, tensor=4, expert=4, **more)
        return found.prefill(4, 512, 0).time_s

    assert at(imbalance=1.0) < at() < at(imbalance=2.0)
    dense = steps(imbalance=3.0).decode(8, 1024).time_s
    assert dense == steps().decode(8, 1024).time_s


def test_a_rank_gets_as_many_assignments_as_the_tokens_of_its_group_make():
    # Four groups of a prompt of 512 tokens, each of which takes 2 experts.
    factor = 1 + math.sqrt(2 * math.log(4) / (512 * 2))
    even = steps(model=MIXTRAL, tensor=4, expert=4).prefill(4, 512, 0)
    stated = steps(model=MIXTRAL, tensor=4, expert=4, imbalance=factor).prefill(4, 512, 0)
    assert even.time_s == pytest.approx(stated.time_s, rel=1e-12)
    whole = steps(model=MIXTRAL, tensor=4, imbalance=2.0).prefill(4, 512, 0)
    assert whole.time_s == steps(model=MIXTRAL, tensor=4).prefill(4, 512, 0).time_s


def test_costs_at_a_quantile_are_those_of_steps():
    one = steps("p5en")
    for quantile in QUANTILES:
        at = QuantileCosts(one, quantile)
        for _ in range(2):
            assert at.decode(4, 1024) == one.decode(4, 1024).quantile_s(quantile)
            assert at.prefill(1, 128, 0) == one.prefill(1, 128, 0).quantile_s(quantile)
            assert at.mixed(1, 128, 0, 4, 96) == one.mixed(1, 128, 0, 4, 96).quantile_s(quantile)


def test_a_step_is_of_the_decoder_of_its_model():
    assert steps().source.startswith("few constants")


def test_summaries_of_a_pass_are_read_once_for_a_model_and_a_split(monkeypatch):
    read_passes = []

    def counted(model, model_pass, split):
        read_passes.append(model_pass)
        return summaries(model, model_pass, split)

    monkeypatch.setattr("trnsim.system.serve.step.summaries", counted)
    model = replace(LLAMA, name="read once")
    for tensor in (8, 8, 4):
        steps(model=model, tensor=tensor).decode(8, 1024)
    assert len(read_passes) == 2  # one for each split
