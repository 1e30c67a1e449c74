import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput
from trnsim.tune import tuning

SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scaled(x, parts=1, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = x.shape[1] // parts
    for start in range(0, x.shape[1], width):
        tile = nl.ndarray((x.shape[0], width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start : start + width])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        for _ in range(factor == 2.0):
            nisa.reciprocal(dst=tile, data=tile)
            nisa.reciprocal(dst=tile, data=tile)
        nisa.dma_copy(dst=out[:, start : start + width], src=tile)
    return out


def scaled_inputs():
    return (np.ones((128, 512), np.float32),)
"""
PARAMETERS = "\n\nscaled_parameters = {'parts': [1, 2, 4]}\n"
REFERENCE = "\n\ndef scaled_reference(x):\n    return 2 * x\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(SOURCE + PARAMETERS + REFERENCE)


def write(text):
    Path("scaled.py").write_text(text)


def invoke(*words):
    return CliRunner().invoke(app, ["tune", *words])


def answer(*words):
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads(result.stdout)["kernels"]
    return kernel


def test_the_best_setting_has_right_values_and_a_gain_with_its_interval():
    kernel = answer("scaled.py")
    assert kernel["best"]["setting"]["parts"] in ("2", "4")
    assert kernel["error"] == 0
    gain = kernel["gain"]
    assert gain["counts"]
    assert gain["p10_s"] <= gain["change_s"] <= gain["p90_s"] < 0
    assert kernel["own"]["setting"] == {"parts": "1"}
    assert len(kernel["trials"]) == kernel["settings"] == 3


@pytest.mark.slow
def test_a_faster_setting_with_wrong_values_is_named_and_not_the_best():
    write(SOURCE + PARAMETERS.replace("4]", "4], 'factor': [2.0, 3.0]") + REFERENCE)
    kernel = answer("scaled.py")
    assert kernel["best"]["setting"]["factor"] == "2.0"
    assert kernel["wrong"]
    assert all("factor=3.0" in row["setting"] for row in kernel["wrong"])
    assert "off by 0.5" in kernel["wrong"][0]["why"]
    assert "faster, and its values are wrong: parts=" in " ".join(
        invoke("scaled.py").stdout.split()
    )


def test_a_kernel_that_is_as_fast_as_can_be_says_so():
    write((SOURCE + PARAMETERS).replace("parts=1", "parts=4"))
    shown = invoke("scaled.py").stdout
    assert "scaled on trn2: no setting that was tried is faster than the kernel's own" in shown
    assert "not compared: the file has no scaled_reference" in shown


def test_an_own_setting_that_is_not_legal_is_told():
    write(SOURCE.replace("parts=1", "parts=3") + PARAMETERS.replace("4]", "4, 3]"))
    kernel = answer("scaled.py")
    assert kernel["gain"] is None
    assert kernel["own"]["error"]
    assert "its own setting is not legal; another one is" in invoke("scaled.py").stdout


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        (SOURCE, "", "scaled.py declares no kernel with inputs and parameters; it has inputs for"),
        (SOURCE, "--kernel scaled", "declares no parameters of scaled"),
        (SOURCE, "--kernel other", "has the kernels: scaled"),
        (SOURCE + PARAMETERS.replace("parts", "tile"), "", "'tile', which scaled does not take"),
        (SOURCE + PARAMETERS.replace("1, 2, 4", ""), "", "['parts'] is []; legal: a dict"),
        (
            (SOURCE + PARAMETERS).replace("(128, 512)", "(129, 512)"),
            "",
            "none of the 3 settings of scaled that were tried on trn2 is legal; ",
        ),
        (
            SOURCE + PARAMETERS + REFERENCE.replace("2 * x", "3 * x"),
            "",
            "no setting of scaled that is timed has right values; parts=",
        ),
    ],
)
def test_what_cannot_be_tuned_is_named(source, words, message):
    write(source)
    result = invoke("scaled.py", *words.split())
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_ctrl_c_prints_the_best_so_far(monkeypatch):
    calls = []
    real_map = tuning.search.map

    def interrupted(*arguments, **keywords):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real_map(*arguments, **keywords)

    monkeypatch.setattr(tuning.search, "map", interrupted)
    result = invoke("scaled.py")
    assert result.exit_code == 130
    assert "best      parts=1" in result.stdout
    assert "interrupted: called again, the search goes on where it was" in result.stdout
