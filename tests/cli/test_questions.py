import pytest

from trnsim.cli.questions import ask
from trnsim.cli.report_files import collected
from trnsim.errors import BadInput

LAYER = "plan layer examples/llama-3.1-8b.json --on trn1"


def test_a_question_has_the_schema_and_the_values_of_its_answer(capsys):
    schema, values = ask(LAYER)
    assert schema == "plan-layer/1"
    assert values["phase"] == "decode"
    assert capsys.readouterr().out == ""


def test_a_command_that_prints_something_else_is_refused():
    with pytest.raises(BadInput, match="it has no answer of values"):
        ask(
            f"{LAYER.replace('layer', 'serve')} --emit vllm --tensor-parallel-size 8 "
            "--max-num-seqs 1 --concurrency 1 --output-len 4"
        )


def test_collections_lie_within_each_other():
    with collected() as outer:
        ask(LAYER)
        assert outer == []
