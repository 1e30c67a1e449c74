"""Tests of the version of NKI of a kernel: found from its file, marked there, or chosen."""

import importlib.util
import sys

import numpy as np
import pytest

import trnsim
from trnsim.behaviours.chosen import VERSION_VARIABLE
from trnsim.errors import BadInput
from trnsim.nki.dialect import inferred_version_of_file

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")
HEAD = "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
KERNEL = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, a)
    {line}
    nisa.dma_copy(out, tile)
    return out
"""
ARRAY = np.zeros((2, 3), np.float32)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that makes a module of a text."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)

    def make(text, name="kernels_of_a_test"):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, made)
        spec.loader.exec_module(made)
        return made

    return make


def test_a_file_without_versioned_forms_is_of_the_latest(module):
    run = trnsim.run(module(HEAD + KERNEL.format(line="pass")).kernel, ARRAY)
    assert run.version.note == ""
    assert run.program.core.nki.name == "0.7"


def test_a_removed_form_finds_the_last_version_that_has_it(module):
    loop = "for i in nl.dynamic_range(2): nisa.tensor_scalar(tile, tile, nl.add, 1.0)"
    made = module(HEAD + KERNEL.format(line=loop))
    run = trnsim.run(made.kernel, ARRAY)
    assert run.version.note.startswith("NKI 0.6: nl.dynamic_range at ")
    assert run.version.note.endswith("kernels_of_a_test.py:10 exists in NKI 0.2 to 0.6")
    assert run.outputs.tolist() == [[2.0] * 3] * 2


def test_a_marker_chooses_and_a_pin_goes_before_it(module):
    made = module("# nki: 0.4\n" + HEAD + KERNEL.format(line="pass"))
    assert trnsim.run(made.kernel, ARRAY).program.core.nki.name == "0.4"
    assert trnsim.run(made.kernel, ARRAY, nki="0.5").program.core.nki.name == "0.5"


def test_two_markers_in_one_file_are_refused(module):
    made = module("# nki: 0.4\n# nki: 0.6\n" + HEAD + KERNEL.format(line="pass"))
    with pytest.raises(BadInput, match=r"several versions of NKI: 0\.4, 0\.6"):
        trnsim.run(made.kernel, ARRAY)


def test_the_variable_chooses(module, monkeypatch):
    made = module(HEAD + KERNEL.format(line="pass"))
    monkeypatch.setenv(VERSION_VARIABLE, "0.3")
    run = trnsim.run(made.kernel, ARRAY)
    assert run.version.note == "NKI 0.3: $TRNSIM_NKI"


def test_forms_that_no_version_has_together_are_refused_with_both_lines(module):
    loop = "nisa.register_move(nl.fori_loop, imm=1)"
    made = module(HEAD + KERNEL.format(line=loop))
    with pytest.raises(BadInput) as caught:
        trnsim.run(made.kernel, ARRAY)
    assert "nisa.register_move(imm=) in line 10, which exists in NKI 0.2" in caught.value.reason
    assert "nl.fori_loop in line 10, which exists from NKI 0.6 on" in caught.value.reason
    with pytest.raises(trnsim.errors.IllegalInstruction, match="register_move"):
        trnsim.run(made.kernel, ARRAY, nki="0.7")


def test_forms_of_imported_files_count_where_they_leave_a_version(module):
    helper = HEAD + "def loop(n):\n    return nl.dynamic_range(n)\n"
    module(helper, "helper_of_a_test")
    text = "from helper_of_a_test import loop\n" + HEAD + KERNEL.format(line="loop(2)")
    run = trnsim.run(module(text).kernel, ARRAY)
    assert "nl.dynamic_range at " in run.version.note
    assert "helper_of_a_test.py:5" in run.version.note


def test_the_same_kernel_under_two_versions_keeps_two_records(module):
    kernel = module(HEAD + KERNEL.format(line="pass")).kernel
    for name in ("0.4", "0.7", "0.4"):
        assert trnsim.run(kernel, ARRAY, nki=name).program.core.nki.name == name


def test_a_file_is_of_the_newest_version_that_has_all_its_forms(tmp_path):
    file = tmp_path / "k.py"
    for text, name in (
        ("", "0.7"),
        ("nl.dynamic_range(3)", "0.6"),
        ("nl.ndarray((1, 1), nl.int32, buffer='psum')", "0.2"),
        ("nl.ndarray((1, 1), nl.int32, 'private_hbm')", "0.2"),
        ("psum.view(nl.float32, (128, 128))", "0.2"),
        ("nl.affine_range(3)  # of an affine_select", "0.7"),
        ("not Python", "0.7"),
    ):
        file.write_text(HEAD + text)
        assert inferred_version_of_file(str(file)).version.name == name
    file.write_text(HEAD + "nl.fori_loop\nnisa.register_move(r, imm=1)")
    assert inferred_version_of_file(str(file)) is None


def test_a_kernel_without_source_is_found_by_the_names_of_its_code():
    names = {}
    loop = "for i in nl.dynamic_range(2): nisa.tensor_scalar(tile, tile, nl.add, 1.0)"
    exec(HEAD + KERNEL.format(line=loop), names)  # noqa: S102  no file holds it
    run = trnsim.run(names["kernel"], ARRAY)
    assert run.version.version.name == "0.6"
    assert "nl.dynamic_range at <string>" in run.version.note


@pytest.mark.parametrize(
    "line", ["if r: pass", "for i in range(r): pass", "int(r)", "assert r == 1"]
)
def test_a_register_that_python_reads_is_a_form_of_0_6(module, line):
    text = HEAD + KERNEL.format(line=f"r = nisa.register_alloc(1)\n    {line}")
    run = trnsim.run(module(text).kernel, ARRAY)
    assert run.version.note.startswith("NKI 0.6: a register as a Python number at ")
    with pytest.raises(TypeError, match=r"--nki 0\.6"):
        trnsim.run(module(text).kernel, ARRAY, nki="0.7")
