import shlex
from pathlib import Path

import pytest

from trnsim.calibrate.answers import figures_of
from trnsim.cli.questions import ask
from trnsim.cli.report_files import collecting_answers
from trnsim.errors import BadInput

ATTENTION = Path(__file__).parents[2] / "examples" / "attention.py"
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
    with collecting_answers() as outer:
        ask(LAYER)
        assert outer == []


def test_a_kernel_runs_in_a_process_of_its_own(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # the program makes its inputs where it runs
    schema, values = ask(f"run {shlex.quote(str(ATTENTION))} --on trn1")
    assert schema == "run/1"
    figure = figures_of(schema, values)["time"]
    assert (figure.chip, figure.family) == ("trainium1", "kernels")
    assert figure.p10_s < figure.time_s < figure.p90_s
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_a_program_that_fails_is_refused():
    with pytest.raises(BadInput, match=r"it ended with status 2: .*none\.py"):
        ask("run none.py --on trn1")


@pytest.mark.slow
def test_a_program_s_own_error_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text("raise ValueError('boom')\n")
    with pytest.raises(BadInput, match="it ended with status 1: ValueError: boom"):
        ask("run p.py")


@pytest.mark.slow
def test_an_error_of_a_program_need_not_be_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(
        "import sys\nsys.stderr.buffer.write(b'\\xff lost\\n')\nraise SystemExit(3)\n"
    )
    with pytest.raises(BadInput, match=r"it ended with status 3: trnsim: p\.py launched no kernel"):
        ask("run p.py")
