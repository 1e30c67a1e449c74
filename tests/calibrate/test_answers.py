import pytest

from trnsim.calibrate.answers import figures_of
from trnsim.calibrate.asking import figures_of_question
from trnsim.cli.questions import ask
from trnsim.errors import BadInput

LLAMA, BERT = "examples/llama-3.1-8b.json", "examples/bert-large.json"
SERVED = (
    f"plan serve {LLAMA} --on trn1 --tensor-parallel-size 8 --max-num-seqs 2 --concurrency 2 "
    "--input-len 128 --output-len 8"
)
TRAINED = (
    f"plan train {LLAMA} --on trn1.32xlarge --instances 4 --tp 8 --pp 1 --zero 1 --micro-batch 1 "
    "--global-batch 128 --budget 2"
)


@pytest.mark.parametrize(
    ("question", "figure", "family", "causes"),
    [
        (f"plan infer {BERT} --on inf2.xlarge", "time", "encode", {"products", "host"}),
        (f"plan layer {LLAMA} --on trn1", "time", "decode", {"weights", "KV", "fixed"}),
        (TRAINED, "time", "train", {"products", "elements"}),
        (SERVED, "tpot", "decode", {"weights", "fixed"}),
        (SERVED, "ttft", "prefill", {"products", "fixed"}),
        (f"plan infer {BERT} --on g5.xlarge", "time", "GPU encode", set()),
        ("plan collective all_reduce --on trn1.32xlarge --bytes 1MiB", "time", "exchanges", set()),
    ],
)
def test_an_answer_has_a_figure_with_its_causes(question, figure, family, causes):
    told = figures_of_question(question, ask)[figure]
    assert told.family == family
    assert causes <= {part.cause for part in told.parts}
    assert told.fixed_s + sum(part.time_s for part in told.parts) == pytest.approx(told.time_s)
    assert told.p10_s < told.time_s < told.p90_s
    assert told.bound_s < told.time_s


@pytest.mark.parametrize(
    ("question", "least"),
    [
        (f"plan infer {BERT} --on inf2.xlarge --batch 16", 0.1),
        (f"plan layer {LLAMA} --on trn1", 0.1),
        (TRAINED, 0.1),
    ],
)
def test_a_bound_is_not_far_below(question, least):
    told = figures_of_question(question, ask)["time"]
    assert least * told.time_s < told.bound_s


def test_an_answer_of_no_time_has_no_figure():
    with pytest.raises(BadInput, match="its time is 0 s, of which a measurement is no multiple"):
        figures_of_question("plan collective barrier --on trn1.2xlarge --ranks 1 --bytes 8", ask)


def test_exchanges_are_a_family_of_their_own():
    parts = figures_of_question(TRAINED, ask)["time"].parts
    assert "exchanges" in {part.family for part in parts}


def test_a_step_has_a_rate_with_its_tokens():
    told = figures_of_question(TRAINED, ask)
    assert told["tokens_per_s"].units == 128 * 8192 / 128
    assert told["time"].units == 0


def test_an_answer_without_a_time_is_refused():
    with pytest.raises(BadInput, match="no time of it can be measured; legal: plan infer, "):
        figures_of("plan-fleet/1", {})


def test_an_answer_of_two_platforms_is_refused():
    with pytest.raises(BadInput, match="it answers for 2 platforms; legal: one, as --on trn2"):
        figures_of("plan-infer/1", [{}, {}])
