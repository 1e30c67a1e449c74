"""Intervals grow with the distance from published rows, and hold what they say they hold."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_sizes import LLAMA

from trnsim.estimate import certainty
from trnsim.estimate.cells import CELLS, Family
from trnsim.estimate.certainty import SCALES, QuestionCell, sigma_of, subject, support, with_errors
from trnsim.estimate.estimate import Estimate
from trnsim.estimate.question import Question, answer
from trnsim.place.machine import machine
from trnsim.workload.config import from_config, read
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Pass, Phase, Split

BENCH = Path(__file__).resolve().parents[2] / "bench" / "system"
KEPT = json.loads((BENCH / "coverage.json").read_text(encoding="utf-8"))
ENOUGH = 8
"""Rows from which on a coverage is held to its bounds."""
DECODE = QuestionCell(ModelKind.DENSE, Phase.DECODE, "trainium1", Family.DECODE, 4, 4096, 32)
MASKED = from_config(
    {
        "model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"],
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 250002, "max_position_embeddings": 514,
    },
    "xlm-roberta.json",
)  # fmt: skip
MODELS = ("bert-large-uncased", "Llama-3-8B", "Mixtral-8x7B", "google--vit-base-patch16-224")
PASSES = {
    Phase.ENCODE: lambda batch: Pass(Phase.ENCODE, batch, 197),
    Phase.PREFILL: lambda batch: Pass(Phase.PREFILL, batch, 1024),
    Phase.DECODE: lambda batch: Pass(Phase.DECODE, batch, 1, 2047),
    Phase.TRAIN: lambda batch: Pass(Phase.TRAIN, batch, 197),
}


def covered(name):
    """Rows and part inside of each value of `name` among what the last run judged."""
    found = defaultdict(list)
    for one in KEPT["judged"]:
        found[one[name]].append(one)
    return {
        key: (
            len({one["id"] for one in ones}),
            sum(abs(one["error"]) <= one["half"] for one in ones) / len(ones),
        )
        for key, ones in found.items()
    }


def score(ones, kind):
    return sum(2 * one[kind] + 10 * max(abs(one["error"]) - one[kind], 0) for one in ones)


def test_no_family_of_eight_rows_covers_less_than_70_or_more_than_95_percent():
    for family, (rows, inside) in covered("family").items():
        assert rows < ENOUGH or 0.70 <= inside <= 0.95, family


def test_every_cut_of_eight_rows_covers_70_percent_and_all_together_75_to_90():
    for cut, (rows, inside) in covered("cut").items():
        assert rows < ENOUGH or inside >= 0.70, cut
    judged = KEPT["judged"]
    inside = sum(abs(one["error"]) <= one["half"] for one in judged) / len(judged)
    assert 0.75 <= inside <= 0.90


def test_intervals_score_better_than_one_factor_or_one_width():
    judged = KEPT["judged"]
    assert score(judged, "half") < min(score(judged, "before"), score(judged, "constant"))
    for family in {one["family"] for one in judged}:
        own = [one for one in judged if one["family"] == family]
        assert score(own, "half") <= 1.01 * score(own, "before"), family


def test_the_package_has_the_cells_and_weights_of_the_last_run():
    assert sorted(map(repr, CELLS)) == KEPT["cells"]
    features = KEPT["scales"]["features"]
    package = [getattr(certainty, name.upper()) for name in features]
    assert [float(one) for one in package] == pytest.approx(list(features.values()), abs=0.005)
    factors = KEPT["scales"]["factors"]
    assert {name: float(SCALES[Family(name)].factor) for name in factors} == pytest.approx(
        factors, abs=0.005
    )


@given(
    model=st.sampled_from(MODELS),
    chip=st.sampled_from(("trn1", "inf2", "trn2", "trn3", "p5")),
    phase=st.sampled_from(list(Phase)),
    batch=st.integers(1, 64),
)
def test_an_interval_covers_its_own_estimate(model, chip, phase, batch):
    read_model = read(BENCH / "configs" / f"{model}.json")
    if phase in (Phase.PREFILL, Phase.DECODE) and not read_model.is_generating:
        phase = Phase.ENCODE
    found = answer(Question(read_model, PASSES[phase](batch), machine(chip), Split(1)))
    assert found.quantile_s("p10") < found.time_s < found.quantile_s("p90")
    assert 0.05 < found.sigma < 2
    assert found.evidence


@pytest.mark.parametrize(
    "farther",
    [
        {"batch": 64},
        {"length": 65536},
        {"ranks": 2},
        {"chip": "trainium2"},
        {"kind": ModelKind.EXPERTS},
    ],
)
def test_what_lies_farther_from_the_rows_is_less_sure(farther):
    assert sigma_of(replace(DECODE, **farther)) > sigma_of(DECODE)
    assert not support(replace(DECODE, **farther)).is_validated


def test_scores_of_a_prompt_are_unsure_and_reads_of_memory_carry_over():
    prompt = replace(DECODE, phase=Phase.PREFILL, family=Family.PREFILL)
    assert sigma_of(prompt, scores=0.5) > sigma_of(prompt, scores=0.1)
    encoder = QuestionCell(
        ModelKind.VISION, Phase.TRAIN, "inferentia2", Family.TRAINING, 56, 197, 1
    )
    assert sigma_of(encoder, read_share=0.9) < sigma_of(encoder, read_share=0.1)


def test_a_pass_among_rows_is_validated_with_their_number_and_error():
    rows = support(DECODE)
    assert rows.is_validated
    assert str(rows) == (
        "validated by 24 published rows of dense decode on trainium1 "
        "(errors 5.9% in the median, 13.9% at P90)"
    )


@pytest.mark.parametrize("kind", [ModelKind.EXPERTS, ModelKind.LATENT, ModelKind.ENCODER_DECODER])
def test_a_kind_without_rows_is_validated_nowhere(kind):
    for cell in CELLS:
        if not cell.is_ported and cell.chip in ("trainium1", "inferentia2", "a100-80"):
            asked = QuestionCell(kind, cell.phase, cell.chip, cell.family, 1, 4096, 32)
            assert not support(asked).is_validated


def test_a_doubling_beyond_the_rows_is_still_among_them():
    assert support(replace(DECODE, batch=16, ranks=16)).is_validated
    assert not support(replace(DECODE, batch=17)).is_validated


def test_elsewhere_it_is_carried_over_and_says_why():
    found = support(replace(DECODE, kind=ModelKind.EXPERTS, chip="trainium2", batch=32))
    assert str(found) == (
        "carried over from 57 published rows, interval widened by distance: "
        "no row on trainium2, no row of mixture of experts, batch 32 where rows have 1 to 8"
    )
    vision = QuestionCell(ModelKind.VISION, Phase.ENCODE, "trainium1", Family.ENCODERS, 1, 197, 1)
    assert "no row of vision on trainium1" in str(support(vision))
    gpu = QuestionCell(ModelKind.ENCODER, Phase.ENCODE, "h100", Family.GPU_ENCODE, 1, 512, 1)
    assert str(support(gpu)) == "no published rows"


def test_a_port_has_rows_of_its_own_kind():
    deepseek = replace(
        DECODE, kind=ModelKind.LATENT, chip="trainium2", length=512, ranks=64, family=Family.PORTS
    )
    port = replace(deepseek, is_ported=True)
    assert "as ported" in str(support(port))
    assert support(port).is_validated
    assert sigma_of(port) < sigma_of(replace(deepseek, family=Family.DECODE))


def test_prompts_on_trainium2_are_surer_than_steps_as_halves_are_published():
    prompt = replace(DECODE, phase=Phase.PREFILL, family=Family.PREFILL)
    for chip, is_surer in (("trainium2", True), ("trainium3", False)):
        more = sigma_of(replace(prompt, chip=chip)) ** 2 - sigma_of(prompt) ** 2
        assert (more < float(certainty.CORE) ** 2) is is_surer


def test_the_subject_of_a_pass_is_its_cell():
    found = subject(LLAMA, Pass(Phase.DECODE, 4, 1, 4095), machine("trn1").chip, 32)
    assert found == replace(DECODE, kind=LLAMA.kind)


def test_times_that_a_user_measured_keep_their_own_errors():
    both = Estimate({"products": 2.0}, {"few constants of decode": 0.1, "measured: a.csv": 0.1})
    found = with_errors(both, DECODE)
    assert found.errors_s["measured: a.csv"] == 0.1
    alone = Estimate({"products": 2.0}, {"measured: a.csv": 0.1})
    assert with_errors(alone, DECODE) is alone


def test_results_that_go_to_the_host_are_no_surer_than_the_pass():
    """A vocabulary's logits of every token are most of the time of a masked language model."""
    asked = subject(MASKED, PASSES[Phase.ENCODE](8), machine("trn1").chip, 1)
    found = answer(Question(MASKED, PASSES[Phase.ENCODE](8), machine("trn1")))
    assert found.parts_s["host"] > 0.5 * found.time_s
    assert found.sigma == pytest.approx(sigma_of(asked))


def test_the_length_of_an_image_is_that_of_its_tokens():
    vit = from_config({"model_type": "vit", "image_size": 224, "patch_size": 16}, "vit")
    inferentia = machine("inf2").chip
    cells = [subject(vit, Pass(Phase.ENCODE, 1, tokens), inferentia, 1) for tokens in (1, 197)]
    assert [cell.length for cell in cells] == [197, 197]
    pair = {"model_type": "clip", "text_config": {}, "vision_config": {}}
    assert subject(from_config(pair, "clip"), Pass(Phase.ENCODE, 1, 77), inferentia, 1).length == 77
