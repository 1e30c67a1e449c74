"""Tests of the forms of NKI that a source file uses."""

import re

import pytest

from trnsim.nki.dialect import REMOVED_FORMS
from trnsim.nki.forms import definitions_of, short_name, uses_of, words_of


def forms(text):
    return {use.form for use in uses_of(text)}


@pytest.mark.parametrize(
    "text",
    [
        "import nki.language as nl\nnl.dynamic_range(3)",
        "import nki\nnki.language.dynamic_range(3)",
        "from nki.language import dynamic_range as dr\ndr(3)",
        "from nki import language\nlanguage.dynamic_range(3)",
        "import nki.language\nnki.language.dynamic_range(3)",
    ],
)
def test_a_name_is_found_however_it_is_imported(text):
    assert "nl.dynamic_range" in forms(text)


def test_a_keyword_is_found_with_its_line():
    uses = uses_of("import nki.isa as nisa\nnisa.dma_copy(d,\n  s,\n  dst_rmw_op=1)")
    assert [use.line for use in uses if use.form == "nisa.dma_copy(dst_rmw_op=)"] == [4]


def test_names_of_others_are_no_forms():
    assert forms("import numpy as nl\nnl.dynamic_range(3)\nnl = 3") == set()
    assert short_name("nkipy.language.load") == ""
    assert short_name("nki") == ""


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("r = nisa.register_alloc(3)\nwhile r:\n  pass", "while register:"),
        ("nl.ndarray((1, 1), nl.int32, buffer='sbuf')", 'buffer="sbuf"'),
        (
            "nisa.dma_compute(d, s, [1.0], nl.add)",
            "nisa.dma_compute(dst, srcs, scales, reduce_op)",
        ),
        (
            "nisa.dma_compute(d, s, [1.0], operation)",
            "nisa.dma_compute(dst, srcs, scales, reduce_op)",
        ),
        (
            "nisa.affine_select(d, p, 0, 1, t, 0.0)",
            "nisa.affine_select(dst, pattern, offset, ...)",
        ),
        (
            "nisa.affine_select(d, p, 0, 1, t, 0.0, nl.equal)",
            "nisa.affine_select(dst, pattern, offset, ...)",
        ),
        ("nl.zeros((1, 1), nl.int32, 'sbuf')", 'buffer="sbuf"'),
        ("t.indirect(i)", ".indirect()"),
        ("import nki.collectives as ncc\nint(ncc.rank_id())", "a register as a Python number"),
        ("import nki.typing as nt\nx: nt.tensor", "nki.typing"),
        ("import neuronxcc.nki.language as old\nold.load(x)", "neuronxcc.nki in a kernel"),
    ],
)
def test_constructs_are_found(text, form):
    head = "import nki.isa as nisa\nimport nki.language as nl\n"
    assert form in forms(head + text)
    assert any(word in head + text for word in words_of(form))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("nl.dynamic_range", ("dynamic_range",)),
        ("nisa.dma_copy(dst_rmw_op=)", ("dst_rmw_op",)),
        ("sbuf.view()", ("sbuf.view", "psum.view", "hbm.view")),
    ],
)
def test_a_form_has_the_words_of_every_file_with_it(form, words):
    assert words_of(form) == words


def test_a_form_in_words_is_found_by_those_of_programs():
    spelled = re.compile(r"[a-z]+\.\w+(\(\w+=\))?")
    for form in REMOVED_FORMS:
        assert spelled.fullmatch(form) or words_of(form) != tuple(re.findall(r"\w+", form)[-1:])


@pytest.mark.parametrize(
    "text",
    [
        "n = 3\nwhile n:\n  n -= 1",
        "nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)",
        "nisa.dma_compute(d, s, nl.add, [1.0])",
        "nisa.affine_select(d, p, 1, t, 0.0)",
        "nisa.affine_select(d, p, 1, t, 0.0, nl.equal)",
        "nisa.affine_select(d, p, 1, t, 0.0, nl.equal, 3)",
        "nisa.affine_select(d, p, 1, t, 0.0, compare, offset=3)",
        "nl.ndarray((1, 1), nl.int32, nl.sbuf)",
        "nl.ndarray((1, 1), 'int32', nl.sbuf)",
        "nl.full((1, 1), 0, 'int32')",
    ],
)
def test_today_s_spellings_are_not_taken_for_older_ones(text):
    head = "import nki.isa as nisa\nimport nki.language as nl\n"
    names = {"nl.ndarray", "nl.int32", "nl.sbuf", "nl.add", "nisa.dma_compute"}
    assert not {form for form in forms(head + text) - names if "=" not in form and " " in form}


def test_forms_of_a_function_are_its_own_and_those_of_the_functions_that_it_names():
    text = """import nki.language as nl
from nki.language import load as fetch

def other():
    nl.store(1)

def helper():
    return fetch(2)

@decorated
def kernel():
    return helper()
"""
    assert [use.form for use in uses_of(text, ("kernel", 10))] == ["nl.load"]
    assert {use.form for use in uses_of(text, ("gone", 1))} == {"nl.load", "nl.store"}
    assert uses_of("f = lambda: nl.load\n" + text, ("<lambda>", 1))[0].form == "nl.load"


@pytest.mark.filterwarnings("error")
def test_a_file_of_which_python_warns_has_its_forms():
    text = 'import nki.language as nl\ndef f():\n    "\\d"\n    nl.dynamic_range\n'
    assert [use.form for use in uses_of(text)] == ["nl.dynamic_range"]
    assert len(definitions_of(text, ("f", 2))) == 1
