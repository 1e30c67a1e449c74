"""Tests of both files on the same inputs."""

import numpy as np

from trnsim.nki.migrate.inputs import shapes_of
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.trial import trials_of
from trnsim.nki.migrate.writing import rewritten_file

TEXT = """import nki
import nki.isa as nisa
import nki.language as nl

print("loaded")

@nki.jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in nl.dynamic_range(3):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(out, tile)
    return out

@nki.jit
def other(y):
    for i in nl.dynamic_range(3):
        break
"""
SHAPES = shapes_of(["x=128x64"])


def trials(change=("", ""), **options):
    report = report_of(TEXT, "kernels.py")
    text = rewritten_file(report).text.replace(*change)
    options = {"shapes": SHAPES, "kernel": "scaled"} | options
    return trials_of(report, text, **options)


def test_a_mechanical_rewrite_gives_equal_values(capsys):
    (trial,) = trials()
    assert (trial.end, trial.says) == ("equal values", "")
    assert trial.inputs == {"x": "128x64:float32"}
    assert capsys.readouterr().out == ""


def test_other_values_are_said():
    (trial,) = trials(("nl.multiply", "nl.add"))
    assert (trial.end, trial.says) == ("other values", "no row of the table explains them")


def test_a_new_file_that_is_refused_says_why():
    (trial,) = trials(("nl.fori_loop", "nl.dynamic_range"))
    assert trial.end == "refused"
    assert trial.says.startswith("under NKI 0.7: ")


def test_inputs_that_are_not_known_are_asked_for():
    first, second = trials(shapes={}, kernel=None)
    assert (first.end, first.says) == ("not run", "say --shape x=128x512:float32")
    assert (second.kernel, second.says) == ("other", "say --shape y=128x512:float32")


def test_an_old_file_that_ends_is_not_run():
    (trial,) = trials(arrays=[np.zeros((300, 64), "float32")])
    assert trial.end == "not run"
    assert trial.says.startswith("under NKI 0.6: ")


def test_a_file_of_a_package_imports_its_neighbours(tmp_path):
    package = tmp_path / "kernels_of_a_package" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "sizes.py").write_text("TURNS = 3\n")
    text = TEXT.replace("range(3)", "range(TURNS)").replace(
        "print", "from .sizes import TURNS\nprint"
    )
    report = report_of(text, str(package / "kernels.py"))
    (trial,) = trials_of(report, rewritten_file(report).text, SHAPES, kernel="scaled")
    assert (trial.end, trial.says) == ("equal values", "")


def test_a_kernel_that_a_function_makes_is_for_a_program():
    text = TEXT + "\ndef make():\n    @nki.jit\n    def made(x):\n        pass\n"
    *_, trial = trials_of(report_of(text, "kernels.py"), text, SHAPES, kernel="made")
    assert trials_of(report_of(text, "kernels.py"), text, {})[-1].kernel == "other"
    assert trial.says == "it is made in a function; run the program: trnsim run --nki all"


def test_a_function_that_its_callers_decorate_is_tried_by_its_name():
    text = TEXT.replace("@nki.jit\n", "")
    report = report_of(text, "kernels.py")
    made = rewritten_file(report).text
    assert trials_of(report, made, SHAPES) == []
    (trial,) = trials_of(report, made, SHAPES, kernel="scaled")
    assert (trial.end, trial.says) == ("equal values", "")
