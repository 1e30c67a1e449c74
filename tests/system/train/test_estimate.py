from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.estimate.measured import read
from trnsim.facts import Evidence
from trnsim.place.machine import machine
from trnsim.system.train.best import Effort
from trnsim.system.train.candidates import LayoutRequest
from trnsim.system.train.estimate import (
    SHAPELESS,
    WITHOUT_KERNEL,
    estimate,
    layout_request,
    usual_batch,
    usual_request,
)
from trnsim.system.train.run import Reliability, goodput
from trnsim.workload.config import from_config

DAY = date(2026, 10, 15)
QUICK = Effort(budget=4, processes=1)


def of(model, on, tokens=1e9, **given):
    return estimate(model, on, tokens, effort=QUICK, as_of=DAY, **given)


@pytest.mark.slow_cases("trn1")
@pytest.mark.slow_cases("trn2")
@pytest.mark.slow_cases("trn3")
@pytest.mark.parametrize("on", ["trn1", "trn2", "trn3", "p5en"])
def test_percentiles_are_ordered_and_add_up_to_money(on, llama):
    found = of(llama, on)
    assert found.time_s.p10 < found.time_s.p50 < found.time_s.p90
    if found.usd is None:
        assert found.quote.usd_per_hour is None
    else:
        hours = found.time_s.p50 / 3600
        assert found.usd.p50 == pytest.approx(
            hours * found.machine.count * found.quote.usd_per_hour
        )


@pytest.mark.slow
def test_a_run_is_its_steps_and_what_is_lost(llama):
    found = of(llama, "trn2", instances=4)
    layout = found.step.layout
    steps = 1e9 / (layout.global_batch * layout.sequence)
    assert found.time_s.p50 == pytest.approx(steps * found.step.step_s.p50 / found.goodput.goodput)
    worse = of(llama, "trn2", instances=4, reliability=Reliability(chip_mtbf_s=1e6))
    assert worse.time_s.p50 > found.time_s.p50
    assert worse.step == found.step


def test_spares_are_paid_for(make_llama):
    fixed = {"zero": 1, "recompute": "selective", "micro_batch": 1, "tensor": 8, "pipeline": 1}
    asked = {"request": LayoutRequest(64, 2048, **fixed), "instances": 2}
    for spares in (0, 3):
        found = of(
            make_llama(num_hidden_layers=2), "trn2", reliability=Reliability(spares=spares), **asked
        )
        hours = found.time_s.p50 / 3600
        assert (found.machine.count, found.spares) == (2, spares)
        assert found.usd.p50 == pytest.approx(hours * (2 + spares) * found.quote.usd_per_hour)


@pytest.mark.slow
def test_twice_the_tokens_take_twice_as_long(llama):
    assert of(llama, "trn2", 2e9).time_s.p50 == pytest.approx(2 * of(llama, "trn2").time_s.p50)


@pytest.mark.slow
def test_only_chips_that_were_measured_assume_no_constant(llama):
    constants = "training efficiency"
    assert not any(text.startswith(constants) for text in of(llama, "trn1").basis.assumed)
    found = of(llama, "trn3")
    carried = "training efficiency = 0.69: extrapolated from Trn1 and Inf2: "
    assert any(one.startswith(carried) for one in found.basis.assumed)
    assert found.basis.counts[Evidence.ASSUMED] == 2


@pytest.mark.slow_cases("trn3-False")
@pytest.mark.parametrize(("on", "knows_shapes"), [("trn1", False), ("trn3", False), ("p5en", True)])
def test_times_that_know_no_shapes_of_products_say_so(on, knows_shapes, llama):
    found = of(llama, on)
    assert (SHAPELESS not in found.assumed) is knows_shapes
    assert set(found.basis.assumed) < {*found.assumed, ""}


@pytest.mark.parametrize("tokens", [0, -1.0, float("nan"), float("inf")])
def test_tokens_are_positive_and_finite(tokens, llama):
    with pytest.raises(BadInput, match=r"tokens is .*; legal: above 0"):
        of(llama, "trn1", tokens)


@pytest.mark.parametrize(("on", "batch"), [("trn2", 512), ("trn3", 576), ("p5en", 512)])
def test_the_usual_batch_is_what_ranks_can_share(on, batch):
    assert usual_batch(machine(on), 8192) == batch


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"model_type": "clip_text_model"}, 77),
        ({"model_type": "vit"}, 197),
        ({"model_type": "dinov2"}, 257),  # patches of 14 by default in transformers 5.23
        ({"model_type": "deit"}, 198),
        ({"model_type": "dinov2_with_registers"}, 201),
        *(({"model_type": name}, 196) for name in ("ijepa", "siglip_vision_model")),
        ({"model_type": "clip_vision_model"}, 50),
        ({"model_type": "vit", "image_size": 384}, 577),
        ({"model_type": "clip", "vision_config": {}, "text_config": {}}, 77),
        ({"model_type": "siglip", "vision_config": {}, "text_config": {}}, 64),
    ],
)
def test_an_image_is_trained_on_its_patches_and_a_pair_on_its_texts(config, length):
    model = from_config(config, "model.json")
    assert usual_request(model, machine("trn1", 1)).sequence == length


def test_an_image_has_no_sequence_of_another_length():
    model = from_config({"model_type": "vit"}, "vit.json")
    said = (
        r"a sequence of 8,192 tokens for vit \(vit\), whose configuration makes 197 tokens of "
        r"each image; legal: 197"
    )
    with pytest.raises(BadInput, match=said):
        of(model, "trn1", request=LayoutRequest(32, 8192))


def test_the_usual_sequence_is_one_that_the_model_knows(make_llama):
    assert usual_request(make_llama(max_position_embeddings=2048), machine("trn2")).sequence == 2048
    assert usual_request(make_llama(), machine("trn2")) == LayoutRequest(512, 8192)


def test_t5_which_states_no_length_is_trained_on_that_of_its_paper():
    sizes = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 1, "vocab_size": 100}
    model = from_config({"model_type": "t5", **sizes}, "t5.json")
    assert usual_request(model, machine("trn1")) == LayoutRequest(8192, 512)
    assert layout_request(model, machine("trn1"), sequence=2048).sequence == 2048


@pytest.mark.parametrize(
    ("on", "recompute", "is_said"),
    [("trn1", "full", True), ("trn1", "selective", False), ("p5en", "full", False)],
)
def test_full_recomputation_without_the_kernel_of_attention_is_said(
    on, recompute, is_said, make_llama
):
    fixed = {"zero": 1, "recompute": recompute, "micro_batch": 1, "tensor": 8, "pipeline": 1}
    model = make_llama(num_hidden_layers=2)
    found = of(model, on, request=LayoutRequest(64, 2048, **fixed), instances=1)
    assert (WITHOUT_KERNEL in found.assumed) is is_said


def test_a_model_that_has_no_such_kernel_loses_none():
    sizes = {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 1024, "vocab_size": 100}
    model = from_config({"model_type": "gpt2", **sizes}, "gpt2.json")
    request = LayoutRequest(64, 1024, zero=1, recompute="full", micro_batch=1, tensor=1)
    assert WITHOUT_KERNEL not in of(model, "trn1", request=request, instances=1).assumed


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    hidden=st.sampled_from([1024, 2048]),
    layers=st.sampled_from([4, 8]),
    on=st.sampled_from(["trn1", "trn2", "p5en"]),
    power=st.integers(0, 5),
    batch=st.sampled_from([16, 64, 256]),
)
def test_more_chips_are_never_slower_without_a_word(make_llama, hidden, layers, on, power, batch):
    model = make_llama(hidden_size=hidden, num_hidden_layers=layers, intermediate_size=4 * hidden)
    runs = []
    for count in (1 << power, 2 << power):
        try:
            asked = LayoutRequest(batch, 2048, context=1, micro_batch=1, recompute="full", zero=1)
            runs.append(of(model, on, instances=count, request=asked))
        except BadInput:  # more ranks than sequences, layers and heads give work
            return
    fewer, more = runs
    assert more.time_s.p50 < fewer.time_s.p50 or more.smaller is not None
    if more.smaller is not None:
        told = more.smaller
        assert told.machine.count < more.machine.count
        assert told.time_s.p50 <= 1.02 * more.time_s.p50
        quicker = [one for one in more.sizes if one.time_s.p50 <= 1.02 * more.time_s.p50]
        assert told.machine.count == min(one.machine.count for one in quicker)


def test_sizes_are_whole_runs_with_what_the_users_failures_take(make_llama):
    often = Reliability(chip_mtbf_s=1e5)
    small = make_llama(hidden_size=1024, num_hidden_layers=4, intermediate_size=4096)
    asked = LayoutRequest(64, 2048, context=1, micro_batch=1, recompute="full", zero=1)
    found = of(small, "trn2", instances=4, request=asked, reliability=often)
    for one in found.sizes:
        lost = goodput(one.machine.chips, one.machine.count, often)
        expected = 1e9 / (64 * 2048) * one.step.step_s.p50 / lost.goodput
        assert one.time_s.p50 == pytest.approx(expected)
    assert [one.machine.count for one in found.sizes] == [1, 2, 4]


def test_measured_times_of_layers_decide_the_step(llama, tmp_path):
    file = tmp_path / "mine.csv"
    text = "phase,batch,tokens,time_us,backward_us\ntrain,1,4096,{},{}\n"
    file.write_text(text.format(90_000, 180_000), encoding="utf-8")
    asked = LayoutRequest(64, 4096, tensor=8, context=1, micro_batch=1, recompute="full", zero=1)
    slow = of(llama, "trn1", instances=4, request=asked, measured=read(file))
    assert slow.step.estimate.sources["forward"].endswith(f"; measured: {file} (layer)")
    assert slow.step.estimate.sources["backward"].endswith(f"; measured: {file} (layer)")
    own = of(llama, "trn1", instances=4, request=asked)
    assert len(set(own.step.estimate.sources.values())) == 1
    assert slow.step.estimate.sigma < 0.8 * own.step.estimate.sigma
    file.write_text(text.format(180_000, 360_000), encoding="utf-8")
    slower = of(llama, "trn1", instances=4, request=asked, measured=read(file))
    assert slower.step.parts_s["compute"] > 1.9 * slow.step.parts_s["compute"]
    with pytest.raises(BadInput, match=r"is met: this plan asks for train of 1 x 2048 tokens; "):
        of(llama, "trn1", instances=4, request=replace(asked, sequence=2048), measured=read(file))
