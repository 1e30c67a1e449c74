"""Tests of the version of each kernel, and of refused files."""

import pytest

from trnsim.behaviours import VERSIONS
from trnsim.errors import BadInput, NotModelled
from trnsim.nki.migrate.report import WHOLE_FILE, report_of

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n"
TWO = (
    HEAD
    + """
def helper(r):
    nisa.register_move(r, imm=1)

@nki.jit
def old(x):
    helper(x)

@nki.jit
def new(x):
    nl.fori_loop(0, 2, x)

@nki.jit
def middle(x):
    for i in nl.dynamic_range(2):
        nl.load(x)
"""
)


def test_each_kernel_has_its_own_version_and_the_reason():
    kernels = {kernel.name: kernel for kernel in report_of(TWO, "k.py").kernels}
    assert {name: kernel.version.name for name, kernel in kernels.items()} == {
        "old": "0.2",
        "new": "0.7",
        "middle": "0.6",
    }
    assert kernels["old"].reason == "nisa.register_move(imm=) in line 7 exists in NKI 0.2"
    assert kernels["middle"].oldest is VERSIONS["0.3"]
    assert not kernels["old"].is_chosen


def test_a_statement_names_the_kernels_that_call_its_place():
    (statement,) = [s for s in report_of(TWO, "k.py").statements if s.line == 7]
    assert statement.kernels == ("old",)
    assert statement.says == "nisa.register_move(imm=) does not exist any more"


def test_a_sure_trace_is_a_sign_of_an_older_version():
    text = HEAD + "@nki.jit\ndef k(x):\n    a = nl.ndarray((1, 1), x.dtype, buffer=nl.hbm)\n"
    (kernel,) = report_of(text + "    return a\n", "k.py").kernels
    assert kernel.version is VERSIONS["0.2"]
    assert kernel.reason == "line 7: a kernel may return a tensor in nl.hbm in NKI 0.2"


def test_lists_at_a_call_are_those_of_the_kernel():
    text = HEAD + "@nki.jit\ndef k(x, y):\n    pass\n\nk[2](1, y=[2])\n"
    (statement,) = report_of(text, "k.py").statements
    assert (statement.line, statement.kernels) == (9, ("k",))


def test_functions_without_a_kernel_are_the_file_s():
    report = report_of(HEAD + "def f(r):\n    nisa.register_move(r, imm=1)\n", "k.py")
    assert [kernel.name for kernel in report.kernels] == [WHOLE_FILE]
    assert [s.kernels for s in report.statements] == [(WHOLE_FILE,)]


@pytest.mark.parametrize("mark", [True, False])
def test_a_version_is_chosen_by_the_file_or_the_option(mark):
    text = HEAD + "@nki.jit\ndef k(x):\n    nisa.quantize_mx(x, x, x)\n"
    marked = f"# nki: 0.4\n{text}" if mark else text
    report = report_of(marked, "k.py", origin=None if mark else "0.4")
    assert report.kernels[0].version is VERSIONS["0.4"]
    assert report.kernels[0].is_chosen
    assert [s.row.name for s in report.statements] == ["mx-scale-twice-ocp"]
    assert report_of(text, "k.py").statements == []


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ("def f(:\n", {}, BadInput, "k.py is not valid Python"),
        ("x = '\\x00'\0", {}, BadInput, "k.py is not valid Python"),
        ("import numpy\n", {}, BadInput, "k.py has no kernel: it imports nothing of NKI"),
        (
            "import neuronxcc.nki.language as nl\n",
            {},
            NotModelled,
            r"written for NKI 0\.1 \(neuronxcc\.nki\), which is not emulated yet",
        ),
        (TWO, {"target": VERSIONS["0.5"]}, BadInput, r"--to 0\.5 is older than k\.py: new is"),
        (TWO, {"origin": "0.1"}, BadInput, r"--from names NKI '0\.1'"),
        (
            TWO,
            {"origin": "0.5"},
            BadInput,
            r"--from says NKI 0\.5, and k\.py uses nisa\.register_move\(imm=\), which exists",
        ),
        ("# nki: 0.3\n# nki: 0.4\n" + TWO, {}, BadInput, "marked for several versions"),
        (
            HEAD + "@nki.jit\ndef k(r):\n    nisa.register_move(r, imm=1)\n    nl.load(r)\n",
            {},
            BadInput,
            r"uses nisa\.register_move\(imm=\) in line 7, which exists in NKI 0\.2, and nl\.load",
        ),
    ],
)
def test_a_file_that_cannot_be_migrated_is_named(text, options, error, words):
    with pytest.raises(error, match=words):
        report_of(text, "k.py", **options)


@pytest.mark.parametrize(
    ("line", "version"), [("if x is True: pass", "0.7"), ("y.reshape((128, 3))", "0.4")]
)
def test_a_restriction_is_a_sign_of_a_version_without_it(line, version):
    text = f"{HEAD}@nki.jit\ndef k(x):\n    y = nl.ndarray((128, 2), nl.int32)\n    {line}\n"
    report = report_of(text, "k.py")
    assert report.kernels[0].version is VERSIONS[version]
    assert [each.version.name for each in report.statements] == (
        ["0.5"] if version == "0.4" else []
    )
    assert report_of(text, "k.py", origin="0.5").statements == []
