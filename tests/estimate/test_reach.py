from dataclasses import replace

import pytest
from layer_sizes import LLAMA

from trnsim.estimate.question import Question, answer
from trnsim.estimate.reach import ROWS, list_extrapolations
from trnsim.place.machine import machine
from trnsim.workload.config import from_config
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Pass, Phase


@pytest.mark.parametrize("batch", [1, 8])
def test_a_pass_among_the_rows_is_not_beyond_them(batch):
    assert list_extrapolations(LLAMA, Pass(Phase.DECODE, batch, 1, 16383), 1) == ()


def test_each_size_beyond_the_rows_is_told():
    found = list_extrapolations(LLAMA, Pass(Phase.DECODE, 9, 1, 16384), 2)
    assert found == (
        "batch 9, where rows go from 1 to 8",
        "tokens of a sequence 16,385, where rows go from 256 to 16,384",
    )


def test_a_model_of_another_width_is_told():
    (tower,) = LLAMA.towers
    small = replace(LLAMA, towers=(replace(tower, hidden=2048),))
    assert "hidden size 2,048" in list_extrapolations(small, Pass(Phase.PREFILL, 1, 512), 1)[0]


def test_an_answer_says_it():
    question = Question(LLAMA, Pass(Phase.DECODE, 32, 1, 2047), machine("trn1"))
    assert answer(question).extrapolations == ("batch 32, where rows go from 1 to 8",)


def test_every_phase_has_rows():
    assert set(ROWS) == set(Phase)


def test_a_gpu_has_no_rows_by_family():
    assert list_extrapolations(LLAMA, Pass(Phase.DECODE, 9, 1, 16384), 0) == ()


CLIP = from_config(
    {
        "model_type": "clip",
        "projection_dim": 512,
        "text_config": {
            "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
            "num_attention_heads": 8, "vocab_size": 49408, "max_position_embeddings": 77,
        },
        "vision_config": {
            "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
            "num_attention_heads": 12, "image_size": 224, "patch_size": 32,
        },
    },
    "clip.json",
)  # fmt: skip


@pytest.mark.parametrize(("tokens", "is_beyond"), [(9, False), (77, True)])
def test_a_pair_has_rows_of_its_own(tokens, is_beyond):
    assert CLIP.kind is ModelKind.PAIR
    assert LLAMA.kind is ModelKind.DENSE
    found = list_extrapolations(CLIP, Pass(Phase.ENCODE, 1, tokens), 1)
    assert found == (("tokens of a sequence 77, where rows have 9",) if is_beyond else ())
