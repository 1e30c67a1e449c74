import pytest

from trnsim.calibrate.suggestion import suggest
from trnsim.cli.questions import ask
from trnsim.errors import BadInput

SERVED = (
    "plan serve examples/llama-3.1-8b.json --on trn2.48xlarge --tensor-parallel-size 4 "
    "--max-num-seqs 2 --concurrency 2 --input-len 128 --output-len 8"
)


def test_the_question_itself_or_a_smaller_instance_narrows_it_most():
    told = suggest(f"trnsim {SERVED}", ask)
    assert told.question == SERVED
    assert (told.chip, told.family) == ("trainium2", "decode")
    widths = [each.width for each in told.experiments]
    assert [round(width, 2) for width in widths] == sorted(round(width, 2) for width in widths)
    assert widths[0] < told.width / 2
    by_instance = {each.instance: each for each in told.experiments}
    assert by_instance["trn2.48xlarge"].question == SERVED
    assert by_instance["trn2.3xlarge"].usd < by_instance["trn2.48xlarge"].usd
    assert by_instance["trn2.3xlarge"].width < told.width


def test_a_cost_is_an_hour_of_the_instance_at_its_public_price():
    for each in suggest("plan layer examples/llama-3.1-8b.json --on trn1", ask).experiments:
        assert each.hours == 1
        assert each.usd is not None
        assert f"{each.usd:.2f} USD/h on_demand" in (each.price or "")


def test_an_instance_without_a_public_price_has_no_cost():
    told = suggest("plan layer examples/llama-3.1-8b.json --on trn3", ask)
    assert {each.usd for each in told.experiments} == {None}


@pytest.mark.parametrize("question", ["prices show trn1", "plan layer none.json --on trn1"])
def test_a_question_that_cannot_be_asked_is_refused(question):
    with pytest.raises(BadInput, match=f"--suggest '{question}': "):
        suggest(question, ask)


def test_a_quotation_that_does_not_end_is_refused():
    with pytest.raises(BadInput, match=r"^--suggest .*: it cannot be parsed: No closing quotation"):
        suggest("plan layer 'x --on trn1", ask)
    with pytest.raises(BadInput, match="fix: close each quotation, and end in no backslash"):
        suggest("plan layer x --on trn1 \\", ask)


def test_a_time_of_nothing_is_refused():
    with pytest.raises(BadInput, match=r"^--suggest .*: its time is 0 s"):
        suggest("plan collective all_reduce --on trn1.2xlarge --ranks 1 --bytes 1MiB", ask)


def test_an_answer_of_one_token_is_judged_by_its_first():
    told = suggest(SERVED.replace("--output-len 8", "--output-len 1"), ask)
    assert told.family == "prefill"


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["--on trn1 --instances 4", "--on=trn1 --instances=4"])
def test_a_cost_is_of_all_instances_however_they_are_written(spelling):
    fixed = "--tp 8 --pp 1 --zero 1 --micro-batch 1 --global-batch 128 --budget 2"
    told = suggest(f"plan train examples/llama-3.1-8b.json {spelling} {fixed}", ask)
    (same,) = (each for each in told.experiments if each.question == told.question)
    assert same.instances == 4
    assert same.usd == pytest.approx(4 * 21.5, rel=0.01)


def test_the_instances_of_an_answer_count_where_the_question_names_none():
    def asked(question):
        schema, values = ask(question)
        return schema, {**values, "instances": 3}

    told = suggest(SERVED, asked)
    assert {each.instances for each in told.experiments if "plan serve" in each.question} == {3}
