import re
import sys

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.gate.kernel_file import Arguments, cases, kernel_named, kernels_of, module_of

HEAD = """import nki, nki.isa as nisa, nki.language as nl
import numpy as np

@nki.jit
def twice(x, tile=128):
    return x

@nki.jit
def thrice(x):
    return x
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    def write(text):
        file = tmp_path / "kernel_file_of_a_test.py"
        file.write_text(HEAD + text)
        monkeypatch.setitem(sys.modules, file.stem, None)
        return file, module_of(file)

    return write


@pytest.mark.parametrize(
    ("declared", "positional", "keywords"),
    [
        ("def twice_inputs(): return (np.ones(3), 4)", 2, []),
        ("def twice_inputs(): return [np.ones(3)]", 1, []),
        ("def twice_inputs(): return {'x': np.ones(3), 'tile': 64}", 0, ["x", "tile"]),
        ("twice_inputs = np.ones(3)", 1, []),
        ("twice_inputs = ()", 0, []),
    ],
)
def test_inputs_are_a_tuple_a_dict_or_an_array(written, declared, positional, keywords):
    (case,) = cases(*written(declared))
    assert case.name == "twice"
    assert len(case.arguments.positional) == positional
    assert list(case.arguments.keywords) == keywords
    assert case.reference is None
    assert case.parameters == {}


def test_a_case_has_all_that_the_file_declares(written):
    (case,) = cases(
        *written(
            "twice_inputs = (np.ones(3),)\ntwice_tolerance = 0.5\n"
            "twice_parameters = {'tile': [64, 128, 64], 'depth': range(1, 4)}\n"
            "def twice_reference(x): return x\n"
        )
    )
    assert case.tolerance == 0.5
    assert case.reference(3) == 3
    assert case.parameters == {"tile": (64, 128), "depth": (1, 2, 3)}


def test_kernels_without_inputs_are_no_cases(written):
    file, module = written("")
    assert cases(file, module) == []
    assert list(kernels_of(module)) == ["twice", "thrice"]


def test_one_kernel_by_its_name(written):
    file, module = written("twice_inputs = thrice_inputs = ()")
    assert [case.name for case in cases(file, module)] == ["twice", "thrice"]
    assert [case.name for case in cases(file, module, "thrice")] == ["thrice"]
    assert kernel_named(file, module, "twice").title == "twice"


@pytest.mark.parametrize(
    ("declared", "name", "message"),
    [
        ("", "twice", "does not say on what twice runs: it has no twice_inputs"),
        ("", "four", "has the kernels: twice, thrice"),
        ("twice_inputs = 3", None, "twice_inputs gives int; legal: a tuple"),
        ("twice_inputs = ()\ntwice_reference = 3", None, "twice_reference is int; legal: a func"),
        ("twice_inputs = ()\ntwice_tolerance = 1", None, "twice_tolerance is 1; legal: a number"),
        ("twice_inputs = ()\ntwice_tolerance = True", None, "twice_tolerance is True; legal"),
        ("twice_inputs = ()\ntwice_parameters = [1]", None, "twice_parameters is list; legal"),
        ("twice_inputs = ()\ntwice_parameters = {'t': []}", None, r"['t'] is []; legal"),
        ("twice_inputs = ()\ntwice_parameters = {'t': 'ab'}", None, "['t'] is 'ab'; legal"),
        ("twice_inputs = ()\ntwice_parameters = {'t': 4}", None, "['t'] is 4; legal"),
        (
            "import numpy\ntwice_inputs = ()\ntwice_parameters = {'t': list(numpy.eye(2))}",
            None,
            "twice_parameters['t'] has arrays, of which none can be told from another; legal",
        ),
        (
            "def twice_inputs(): return 1 / 0",
            None,
            "twice_inputs() does not run to its end:\nTraceback (most recent call last):",
        ),
        ("def twice_inputs(n): pass", None, "missing 1 required positional argument: 'n'"),
        ("def twice_inputs(): raise SystemExit(0)", None, "SystemExit: 0"),
        (
            "twise_inputs = ()\ndef twise_reference(): pass",
            None,
            "has twise_reference and twise_inputs, and no kernel twise; it has: twice, thrice",
        ),
    ],
)
def test_illegal_declarations_are_refused(written, declared, name, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        cases(*written(declared), name)


def test_a_file_that_ends_itself_is_refused(written):
    with pytest.raises(BadInput, match=r"ended itself with sys.exit\(3\)"):
        written("import sys; sys.exit(3)")


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("def f(x=y): pass", "NameError: name 'y' is not defined"),
        ("def f(:", "SyntaxError: "),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_mod"),
        ("from trnsim.errors import BadInput; raise BadInput('mine')", "mine"),
    ],
)
def test_a_file_that_does_not_run_shows_its_own_frames(written, text, last):
    with pytest.raises(BadInput) as refused:
        written(text)
    assert last in refused.value.reason
    assert "site-packages" not in refused.value.reason
    assert "kernel_file.py" not in refused.value.reason


def test_a_file_that_is_no_python_is_refused(tmp_path):
    with pytest.raises(BadInput, match="is not a Python file"):
        module_of(tmp_path / "kernel.txt")


def test_keywords_replace_those_of_the_arguments():
    arguments = Arguments((np.ones(1),), {"tile": 1}).with_keywords({"tile": 2, "depth": 3})
    assert arguments.keywords == {"tile": 2, "depth": 3}
    assert len(arguments.positional) == 1


def test_a_file_takes_the_place_of_no_module_of_python(tmp_path):
    file = tmp_path / "json.py"
    file.write_text(HEAD)
    module = module_of(file)
    assert sys.modules["json"] is not module
    assert list(kernels_of(module)) == ["twice", "thrice"]
    assert sys.modules[module.__name__] is module


def test_a_file_may_change_the_path_of_imports(written):
    _, module = written("import sys\nsys.path.remove(str(__file__).rpartition('/')[0])")
    assert list(kernels_of(module)) == ["twice", "thrice"]
