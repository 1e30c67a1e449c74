import pytest
from layer_sizes import LLAMA

from trnsim.errors import BadInput
from trnsim.estimate.measured import read
from trnsim.estimate.question import Question, answer
from trnsim.place.machine import machine
from trnsim.workload.operators import Pass, Phase, Split

PLACES = ("trn1", "inf2", "trn2", "trn3", "p5en.48xlarge", "g6.xlarge", "inf1.xlarge")
PASSES = (
    Pass(Phase.ENCODE, 2, 128),
    Pass(Phase.PREFILL, 1, 512),
    Pass(Phase.DECODE, 4, 1, 2047),
    Pass(Phase.TRAIN, 1, 256),
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", PASSES, ids=lambda one: str(one.phase))
def test_every_phase_has_an_answer_everywhere(place, given):
    dtype = "fp16" if place == "inf1.xlarge" else "bf16"
    found = answer(Question(LLAMA, given, machine(place), dtype=dtype))
    low, middle, high = found.interval.p10, found.interval.p50, found.interval.p90
    assert 0 < low < middle < high
    assert middle == pytest.approx(sum(found.parts_s.values()))
    assert set(found.sources) == {given.phase}


def test_more_ranks_compute_less_and_exchange():
    where = machine("trn1.32xlarge")
    one, eight = (answer(Question(LLAMA, PASSES[1], where, Split(ranks))) for ranks in (1, 8))
    assert eight.parts_s["products"] == pytest.approx(one.parts_s["products"] / 8, rel=0.02)
    assert one.parts_s["exchanges"] == 0 < eight.parts_s["exchanges"]


def test_training_takes_more_than_twice_its_forward_pass():
    where = machine("trn1.32xlarge")
    trained = answer(Question(LLAMA, PASSES[3], where))
    ahead = Question(LLAMA, PASSES[3], where)
    forward = ahead.rank.pass_estimate(ahead.summaries, PASSES[3])
    assert 2.5 * forward.time_s < trained.time_s < 3.5 * forward.time_s


def test_a_dtype_without_a_peak_is_refused():
    with pytest.raises(BadInput, match="trainium1 has no published peak in fp4"):
        answer(Question(LLAMA, PASSES[0], machine("trn1"), dtype="fp4"))


def test_measured_layers_win(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("phase,batch,tokens,past,time_us\ndecode,4,1,2047,77\n")
    found = answer(Question(LLAMA, PASSES[2], machine("trn1"), measured=read(file)))
    assert found.parts_s["measured"] == pytest.approx(LLAMA.decoder.depth * 77e-6)
    assert f"measured: {file} (layer)" in found.sources["decode"]
