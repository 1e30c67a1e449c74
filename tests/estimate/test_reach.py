from dataclasses import replace

import pytest
from layer_sizes import LLAMA

from trnsim.estimate.question import Question, answer
from trnsim.estimate.reach import ROWS, beyond
from trnsim.place.machine import machine
from trnsim.workload.operators import Pass, Phase


@pytest.mark.parametrize("batch", [1, 8])
def test_a_pass_among_the_rows_is_not_beyond_them(batch):
    assert beyond(LLAMA, Pass(Phase.DECODE, batch, 1, 16383), 1) == ()


def test_each_size_beyond_the_rows_is_told():
    found = beyond(LLAMA, Pass(Phase.DECODE, 9, 1, 16384), 2)
    assert found == (
        "batch 9, where rows go from 1 to 8",
        "tokens of a sequence 16,385, where rows go from 256 to 16,384",
    )


def test_a_model_of_another_width_is_told():
    (tower,) = LLAMA.towers
    small = replace(LLAMA, towers=(replace(tower, hidden=2048),))
    assert "hidden size 2,048" in beyond(small, Pass(Phase.PREFILL, 1, 512), 1)[0]


def test_an_answer_says_it():
    question = Question(LLAMA, Pass(Phase.DECODE, 32, 1, 2047), machine("trn1"))
    assert answer(question).extrapolations == ("batch 32, where rows go from 1 to 8",)


def test_every_phase_has_rows():
    assert set(ROWS) == set(Phase)


def test_a_gpu_has_no_rows_by_family():
    assert beyond(LLAMA, Pass(Phase.DECODE, 9, 1, 16384), 0) == ()
