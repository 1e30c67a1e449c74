import json
from pathlib import Path

import pytest

from trnsim.document.values import json_text
from trnsim.place.machine import machine
from trnsim.system.serve import report
from trnsim.system.serve.demand import Demand, saturating_demand
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.workload.config import from_config, read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def found(on="trn1"):
    return plan(
        LLAMA, machine(on), ServerOptions(tensor=8, max_num_seqs=4), saturating_demand(256, 32)
    )


@pytest.mark.parametrize("on", ["trn1", "trn3", "p5en"])
def test_all_figures_are_intervals_in_si_units_and_json(on):
    values = json.loads(json_text(report.values(found(on))))
    for name in ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "output_tokens_per_s", "e2e_p90_s"):
        assert values[name]["p10"] <= values[name]["p50"] <= values[name]["p90"]
    assert values["tensor_parallel_size"] == 8
    assert values["max_num_seqs"] == 4
    assert sum(values["token_parts_s"].values()) == pytest.approx(
        values["tpot_p50_s"]["p50"], rel=0.05
    )
    assert ("buckets" in values) is (on != "p5en")
    assert (values["usd_per_million_tokens"] is None) is (on == "trn3")


def test_a_start_loads_weights_and_compiles_a_program_for_each_shape():
    neuron, gpu = (report.startup_s(found(on).deployment) for on in ("trn1", "p5en"))
    assert set(neuron) == {"load", "compile"}
    assert set(gpu) == {"load"}
    assert neuron["load"].p10 < neuron["load"].p50 < neuron["load"].p90
    # 128, 256 and 288 tokens; one prompt and one batch; 32 layers.
    assert neuron["compile"].p50 == pytest.approx(32 * 3 * 2 * 17.5 * 60 / 2 / 80)


def test_only_steps_like_published_ones_are_validated():
    evidence = report.published_support(found("trn1").deployment)
    assert str(evidence["steps"]) == (
        "carried over from 57 published rows, interval widened by distance: "
        "ranks 8 where rows have 32"
    )
    assert "no row on trainium3" in str(
        report.published_support(found("trn3").deployment)["prompts"]
    )
    assert not report.is_validated(found("trn1").deployment)
    assert found("trn1").deployment.steps.source.startswith("few constants")


def test_replicas_without_a_request_are_counted():
    lengths = Lengths("fixed", 64), Lengths("fixed", 8)
    demand = Demand(None, Synthetic(*lengths, 6, concurrency=2))
    one = plan(LLAMA, machine("trn1"), ServerOptions(tensor=8, max_num_seqs=1), demand)
    assert one.deployment.replicas == 4
    assert report.idle_replicas(one) == 0  # in turns each gets some
    two = plan(LLAMA, machine("trn1"), ServerOptions(tensor=2, max_num_seqs=1), demand)
    assert report.idle_replicas(two) == 16 - 6


def test_what_is_assumed_is_told_with_its_reason():
    told = report.assumed_facts(found("p5en").deployment)
    assert any(one.startswith("host s = 0.001: a pass of vLLM's scheduler") for one in told)
    share = "part of the memory's bandwidth = 0.8: part of a GPU's memory"
    assert any(one.startswith(share) for one in told)
    options = ServerOptions(tensor=8, max_num_seqs=4, host_s=1e-3)
    set_ = plan(LLAMA, machine("p5en"), options, saturating_demand(256, 32))
    assert not any(one.startswith("host s =") for one in report.assumed_facts(set_.deployment))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"model_type": "smolvlm", "scale_factor": 4},
            (
                "pixels of an image along a side = 2048: each prompt has one image; image_size "
                "beside vision_config states another size; it is encoded as 17 tiles; 1,127 tokens "
                "of the prompt are its own"
            ),
        ),
        (
            {"model_type": "paligemma"},
            (
                "pixels of an image along a side = 512: each prompt has one image, of the size "
                "that vision_config.image_size states; 1,024 tokens of the prompt are its own"
            ),
        ),
    ],
)
def test_the_image_of_a_prompt_is_told(given, said):
    sizes = {"hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 16}
    parts = {"vision_config": {**sizes, "image_size": 512, "patch_size": 16}, "text_config": sizes}
    model = from_config({**given, **parts}, "seeing.json")
    options = ServerOptions(tensor=1, max_num_seqs=1)
    served = plan(model, machine("trn2"), options, saturating_demand(2048, 8))
    assert report.assumed_facts(served.deployment)[0] == said


@pytest.mark.parametrize("on", ["trn1", "p5en"])
def test_steps_are_those_of_median_time_in_the_run_with_their_sizes(on):
    one = found(on)
    values, steps = json.loads(json_text(report.values(one))), one.deployment.steps
    step = values["decode_step"]
    batch, length = step["batch"], step["past"] + step["tokens"]
    assert step["p50_s"] == steps.decode(batch, length).time_s
    assert step["parts_s"].items() <= steps.decode(batch, length).parts_s.items()
    times = sorted(
        steps.decode(*shape).time_s
        for replica in one.served.outcome.replicas
        for shape in replica.decodes.elements()
    )
    assert times[(len(times) - 1) // 2] == step["p50_s"]
    prompt = values["prefill_step"]
    assert (
        prompt["p50_s"]
        == steps.prefill(*(prompt[key] for key in ("batch", "tokens", "past"))).time_s
    )


def test_a_run_without_a_step_of_a_kind_has_none():
    lengths = Lengths("fixed", 64), Lengths("fixed", 1)
    demand = Demand(None, Synthetic(*lengths, 6, concurrency=2))
    one = plan(LLAMA, machine("trn1"), ServerOptions(tensor=8, max_num_seqs=1), demand)
    values = report.values(one)
    assert values["decode_step"] is None
    assert values["prefill_step"]["tokens"] == 65
