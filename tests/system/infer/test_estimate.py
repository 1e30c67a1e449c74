from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from infer_models import BERT, CLIP, RESNET, UNET, VIT, pipeline, write

from trnsim.arch.catalogue import catalogue, parse, read_rows
from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate import question
from trnsim.estimate.choice import layer_times
from trnsim.place.machine import machine
from trnsim.price import quote
from trnsim.system.infer.estimate import estimate
from trnsim.system.infer.parts import InputSizes
from trnsim.workload import captured
from trnsim.workload.config import from_config
from trnsim.workload.operators import Elementwise, Pass, Phase, Product
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

EVERYWHERE = (
    *("inf1.xlarge", "inf2.xlarge", "trn1.2xlarge", "trn2.48xlarge", "Trn3 Gen1 UltraServer"),
    *("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge", "p4de.24xlarge", "p5.48xlarge"),
    *("p5en.48xlarge", "p6-b200.48xlarge", "u-p6e-gb200x72"),
)


@pytest.fixture
def bert(tmp_path):
    return write(tmp_path, BERT)


@pytest.fixture
def diffusion(tmp_path, monkeypatch):
    """A pipeline whose denoiser and decoder are blocks of one product, by their batch."""
    known = captured.summaries_of

    def summaries_of(model, one, *split):
        if not isinstance(model, captured.CapturedModel):
            return known(model, one, *split)
        columns = 4000 if model.model_type == UNET["_class_name"] else 3000
        product = Product("addmm", 1000 * one.batch, 2000, columns, 1, 16)
        elementwise = Elementwise("addmm", 1e9), Elementwise("silu", 1e6 * one.batch)
        return (PartSummary("layer", 3, (product,), elementwise, resident_bytes=1e6),)

    monkeypatch.setattr(question, "summaries_of", summaries_of)
    return pipeline(tmp_path)


@pytest.mark.parametrize("on", EVERYWHERE)
@pytest.mark.parametrize("config", [BERT, VIT, CLIP])
def test_encoders_and_images_run_everywhere(tmp_path, on, config):
    found = estimate(write(tmp_path, config), on, InputSizes(8))
    low, middle, high = found.latency_s.p10, found.latency_s.p50, found.latency_s.p90
    assert 0 < low < middle < high < 1
    assert sum(found.estimate.parts_s.values()) == pytest.approx(middle)
    assert found.items_per_s.p50 == pytest.approx(8 * found.copies / middle)
    assert found.items_per_s.p10 == pytest.approx(8 * found.copies / high)
    assert found.copies == found.cores == machine(on).ranks_per_instance


def test_latency_is_the_sum_of_the_layers_times(bert):
    model = from_config(BERT | {"torch_dtype": "bfloat16"}, "bert.json")
    one = Pass(Phase.ENCODE, 8, 128)
    times = layer_times(machine("inf2.xlarge"), "encode")
    told_s = sum(block.times * times.forward(block, one).time_s for block in summaries(model, one))
    assert estimate(bert, "inf2.xlarge", InputSizes(8)).latency_s.p50 == pytest.approx(told_s)


def test_usd_is_the_price_by_the_items_of_an_hour(bert):
    found = estimate(bert, "g5.xlarge", InputSizes(4))
    hourly = quote("g5.xlarge", "on_demand").usd_per_hour
    usd = hourly / (3600 * found.items_per_s.p50) * 1e6
    assert found.usd_per_million.p50 == pytest.approx(usd)
    assert found.usd_per_million.p10 < usd < found.usd_per_million.p90
    assert estimate(bert, "trn2", InputSizes()).usd_per_million is None


def test_fewer_cores_serve_fewer_items_as_fast(bert):
    all_of, one = (estimate(bert, "trn1", InputSizes(), cores=cores) for cores in (None, 1))
    assert one.latency_s == all_of.latency_s
    assert all_of.items_per_s.p50 == pytest.approx(32 * one.items_per_s.p50)


def test_t4_takes_fp16_and_refuses_bf16(bert):
    assert estimate(bert, "g4dn.xlarge", InputSizes()).latency_s.p50 > 0
    with pytest.raises(BadInput, match="t4 has no published peak in bf16; legal: fp16"):
        estimate(bert, "g4dn.xlarge", InputSizes(), dtype="bf16")


def test_what_no_row_was_fitted_to_is_said(bert):
    first = estimate(bert, "inf1.xlarge", InputSizes())
    assert "extrapolated" in first.estimate.sources["model"]
    assert any(note.startswith("Inferentia1: from its documents") for note in first.notes)
    assert (
        "extrapolated" not in estimate(bert, "inf2.xlarge", InputSizes()).estimate.sources["model"]
    )
    wide, narrow = (estimate(bert, on, InputSizes()).latency_s for on in ("trn2", "inf2"))
    assert wide.p90 / wide.p10 > narrow.p90 / narrow.p10


def test_a_guided_step_is_shared_by_two_cores(diffusion):
    two = estimate(diffusion, "inf2.xlarge", InputSizes())
    one = estimate(diffusion, "inf2.xlarge", InputSizes(), cores=1)
    assert (two.copies, two.cores, one.copies, one.cores) == (1, 2, 1, 1)
    step = {part.name: part.time_s for part in two.parts}
    assert one.parts[1].time_s == pytest.approx(2 * step["denoiser"], rel=0.01)
    assert one.parts[2].time_s == pytest.approx(step["decoder"])
    free = estimate(diffusion, "inf2.xlarge", InputSizes(is_guided=False))
    assert (free.copies, free.parts[1].time_s) == (2, pytest.approx(step["denoiser"]))


def test_a_core_without_a_pair_idles(diffusion):
    found = estimate(diffusion, "inf2.48xlarge", InputSizes(), cores=5)
    assert (found.copies, found.cores) == (2, 4)
    assert "1 rank idle: a guided step takes two" in found.notes


def test_a_gpu_takes_both_predictions_at_once(diffusion):
    guided, free = (
        estimate(diffusion, "g5.xlarge", InputSizes(is_guided=one)) for one in (True, False)
    )
    assert guided.copies == free.copies == 1
    assert guided.parts[1].time_s > 1.5 * free.parts[1].time_s


def test_steps_multiply_the_denoiser_alone(diffusion):
    short, long = (estimate(diffusion, "inf2.xlarge", InputSizes(steps=one)) for one in (10, 40))
    assert long.parts[1].time_s == pytest.approx(4 * short.parts[1].time_s)
    assert [long.parts[at] for at in (0, 2)] == [short.parts[at] for at in (0, 2)]
    assert "not counted: safety_checker" in long.notes


def test_biases_of_a_captured_graph_cost_nothing(diffusion, monkeypatch):
    before = estimate(diffusion, "g5.xlarge", InputSizes()).latency_s.p50
    monkeypatch.setattr(question, "fuse_operators", lambda block: block)
    assert (
        estimate(diffusion, "g5.xlarge", InputSizes()).latency_s.p50 > before + 50 * 3 * 2e9 / 600e9
    )


def test_a_captured_graph_has_a_wider_interval(diffusion, bert):
    wide, narrow = (
        estimate(path, "inf2.xlarge", InputSizes()).latency_s for path in (diffusion, bert)
    )
    assert wide.p90 / wide.p50 > 1.25 > narrow.p90 / narrow.p50


@pytest.mark.parametrize("cores", [0, -1, 3])
def test_no_cores_that_an_instance_lacks(bert, cores):
    with pytest.raises(BadInput, match=rf"--cores is {cores}; legal on inf2.xlarge: 1 to 2, each"):
        estimate(bert, "inf2.xlarge", InputSizes(), cores=cores)


def test_no_platform_but_those_of_the_catalogue(bert):
    with pytest.raises(BadInput, match=r"'inf9' is no chip, family or instance type"):
        estimate(bert, "inf9", InputSizes())


def test_over_memory_names_what_needs_it(tmp_path):
    large = BERT | {"hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 32768}
    path = write(tmp_path, large)
    with pytest.raises(
        OutOfMemory,
        match=r"are needed: weights 18\..*activations .*a NeuronCore of inf2.xlarge has 16.0 GiB",
    ):
        estimate(path, "inf2.xlarge", InputSizes())
    assert estimate(path, "p5.48xlarge", InputSizes()).memory_bytes > 18 * 2**30
    with pytest.raises(OutOfMemory, match=r"weights 0\.2, activations"):
        estimate(write(tmp_path, BERT), "inf2.xlarge", InputSizes(100_000))


def test_a_model_that_no_package_builds_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(captured, "find_spec", lambda _: None)
    for config, needed in ((RESNET, "torch and transformers"), (UNET, "torch and diffusers")):
        with pytest.raises(BadInput, match=f"which needs {needed}") as caught:
            estimate(write(tmp_path, config), "inf2.xlarge", InputSizes())
        assert "pip install 'trnsim[torch,models]'" in str(caught.value)


def slower(chip, what):
    """The catalogue with half of a chip's peak or memory bandwidth."""
    rows = read_rows()
    row = rows["chips"].get(chip) or rows["gpus"][chip]
    leaves = {
        ("chips", "peak"): lambda: list(row["peak"].values()),
        ("chips", "memory"): lambda: [row["memory"]["bandwidth"]],
        ("gpus", "peak"): lambda: [row["bf16_dense"]],
        ("gpus", "memory"): lambda: [row["bandwidth"]],
    }["chips" if chip in rows["chips"] else "gpus", what]()
    for leaf in leaves:
        leaf["value"] = leaf["value"] / 2
    return parse(rows)


@pytest.mark.parametrize(
    ("on", "chip", "what", "config"),
    [
        ("inf2.xlarge", "inferentia2", "peak", BERT),
        ("inf1.xlarge", "inferentia1", "peak", BERT),
        ("inf1.xlarge", "inferentia1", "memory", CLIP),
        ("g5.xlarge", "a10g", "peak", BERT),
        ("g5.xlarge", "a10g", "memory", BERT),
        ("p5.48xlarge", "h100", "memory", VIT),
    ],
)
def test_peak_and_memory_each_move_the_latency(tmp_path, on, chip, what, config):
    path = write(tmp_path, config)
    asked = InputSizes(64 if what == "peak" else 4)
    before = estimate(path, on, asked, rows=catalogue()).latency_s.p50
    assert estimate(path, on, asked, rows=slower(chip, what)).latency_s.p50 > 1.01 * before


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batch=st.integers(1, 64),
    sequence=st.integers(1, 500),
    on=st.sampled_from(("inf2.xlarge", "g5.xlarge", "p5en", "trn2")),
)
def test_batch_and_sequence_each_move_the_latency(bert, batch, sequence, on):
    asked = InputSizes(batch, sequence)
    base = estimate(bert, on, asked).latency_s.p50
    for larger in (replace(asked, batch=2 * batch + 64), replace(asked, sequence=sequence + 12)):
        assert estimate(bert, on, larger).latency_s.p50 > base * (1 - 1e-9)
    assert estimate(bert, on, replace(asked, batch=batch + 256)).latency_s.p50 > base


def test_parts_of_a_pipelines_time_add_up_and_no_call_has_its_own(diffusion):
    for on in ("inf2.xlarge", "p5.48xlarge"):
        found = estimate(diffusion, on, InputSizes(1, steps=7))
        assert not found.estimate.parts_s.get("call")
        assert sum(found.estimate.parts_s.values()) == pytest.approx(found.latency_s.p50)
