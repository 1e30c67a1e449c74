import pytest

from trnsim.lsp.marks import (
    LineMark,
    hints,
    imports_nki,
    marks,
    refusal_mark,
    refusal_marks,
    syntax_mark,
)

STORED = b"import nki\n\n@nki.jit\ndef scaled(x):\n    return x\n"


def finding(**fields):
    usual = {"kind": "illegal", "failure": True, "text": "too wide", "fix": "", "source": ""}
    return {**usual, "file": None, "line": None, **fields}


def answer(*findings, chips=("trn2",), kernel="scaled", lines=(), unchecked=()):
    kernels = [
        {"kernel": kernel, "chip": chip, "findings": list(findings), "lines": list(lines)}
        for chip in chips
    ]
    return {"chips": list(chips), "kernels": kernels, "unchecked": list(unchecked)}


def line_time(line, critical_s, waiting_s=0.0, file="k.py"):
    times = {"critical_s": critical_s, "waiting_s": waiting_s, "busy_s": 1e-6}
    return {"file": file, "line": line, "instructions": 2, **times}


def only(*findings, **settings):
    (mark,) = marks(answer(*findings, **settings), "sub/k.py", STORED)
    return mark


def test_a_refusal_stands_at_its_line_with_fix_and_source():
    mark = only(finding(fix="tile it", source="a.rst", file="sub/k.py", line=5))
    assert mark == LineMark(5, "too wide\nfix: tile it\nsource: a.rst", "error", "illegal")


@pytest.mark.parametrize(
    ("fields", "line", "words"),
    [
        ({"kind": "values"}, 4, "too wide"),
        ({"file": "other.py", "line": 9}, 4, "at other.py:9"),
        ({"kind": "race", "text": "writes at /a/k.py:5 and\n  at /a/k.py:2"}, 2, "writes"),
        ({"text": 'File "/a/k.py", line 3, in x\nNameError: y'}, 3, "NameError"),
        ({"text": "at tick.py:2"}, 4, "tick"),
    ],
)
def test_a_line_comes_from_the_text_or_is_that_of_the_kernel(fields, line, words):
    mark = only(finding(**fields))
    assert mark.line == line
    assert words in mark.text


def test_a_further_launch_stands_at_its_kernel_and_an_absent_name_at_line_1():
    assert only(finding(), kernel="scaled#2").line == 4
    assert only(finding(), kernel="elsewhere").line == 1


@pytest.mark.parametrize(
    ("kind", "failure", "severity"),
    [
        ("race", True, "error"),
        ("time", True, "error"),
        ("race", False, "warning"),
        ("memory", False, "warning"),
        ("faster", False, "information"),
    ],
)
def test_severity_is_by_kind(kind, failure, severity):
    assert only(finding(kind=kind, failure=failure)).severity == severity


def test_the_same_finding_is_marked_once_and_each_chip_is_named():
    assert len(marks(answer(finding(), finding()), "k.py", STORED)) == 1
    texts = [mark.text for mark in marks(answer(finding(), chips=("a", "b")), "k.py", STORED)]
    assert texts == ["on a: too wide", "on b: too wide"]


def test_a_kernel_without_inputs_is_told_at_its_definition():
    mark = only(chips=(), unchecked=["sub/k.py: scaled"])
    assert (mark.line, mark.severity) == (4, "information")
    assert "scaled_inputs()" in mark.text


def test_a_refused_file_has_the_commands_words():
    told = "k.py:2: Warning: x\ntrnsim: error: k.py launches no kernel\n  fix: define"
    mark = refusal_mark(told.replace("k.py:2", "other.py:2"), "", "k.py")
    assert mark == LineMark(1, "k.py launches no kernel\n  fix: define", "warning", "refused")


def test_a_library_of_kernels_has_a_notice_at_each_of_them_and_no_warning():
    told = "k.py launches no kernel, and has inputs for none\n  fix: define"
    plain = b"import nki\n\ndef plain(x): ...\n\n"
    stored = plain + b"@jit(grid=1)\ndef b(x): ...\n\n@nki.jit\ndef a(x): ...\n"
    text = "not checked: define {}_inputs(), which returns a tuple of its arguments"
    assert refusal_marks(told, "", "k.py", stored) == [
        LineMark(6, text.format("b"), "information", "unchecked"),
        LineMark(9, text.format("a"), "information", "unchecked"),
    ]
    assert refusal_marks(told, "", "k.py", b"import nki\n") == []
    assert refusal_marks("took too long", "", "k.py", stored) == [
        refusal_mark("took too long", "", "k.py")
    ]


def test_an_error_of_the_program_stands_at_its_innermost_line():
    frames = 'Traceback (most recent call last):\n  File "/a/k.py", line 9, in <module>\n'
    told = f'{frames}  File "/a/k.py", line 3, in f\nNameError: x'
    assert refusal_mark(told, "", "a/k.py") == LineMark(3, "NameError: x", "error", "refused")
    command = f"trnsim: error: k.py does not run:\n{told}\n  fix: run it"
    mark = refusal_mark(command, "", "a/k.py")
    assert (mark.line, mark.text) == (3, "NameError: x\n  fix: run it")


def test_a_time_out_is_a_warning_at_line_1_with_its_fix():
    mark = refusal_mark("trnsim check took longer than 1 s", "make it smaller", "k.py")
    assert mark == LineMark(
        1, "trnsim check took longer than 1 s\nfix: make it smaller", "warning", "refused"
    )


@pytest.mark.parametrize(
    ("stored", "line"),
    [
        (b"import nki\ndef f(:\n", 2),
        (b"x = (\n", 1),
        (b"x = 1\n\xff\n", None),
        (b"\0", None),
        (b"(" * 10_000, 1),
    ],
)
def test_what_does_not_parse_is_one_error(stored, line):
    mark = syntax_mark(stored)
    assert mark.severity == "error"
    assert line in (None, mark.line)


def test_what_parses_has_no_mark():
    assert syntax_mark(STORED) is None
    assert syntax_mark(b"") is None


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        ("import nki", True),
        ("import nki.isa as nisa", True),
        ("from neuronxcc.nki import isa", True),
        ("def f():\n    from nki import isa", True),
        ("import nkix", False),
        ("from .nki import isa", False),
        ("from . import nki", False),
        ("# import nki", False),
        ("", False),
    ],
)
def test_a_file_of_kernels_is_one_that_imports_nki(source, imports):
    assert imports_nki(source.encode()) is imports


def test_a_line_has_its_time_and_the_waiting_of_it():
    rows = [line_time(5, 2.12e-6, 1.41e-6), line_time(7, 0.0), line_time(1, 1.0, file="b.py")]
    first, second = hints(answer(lines=rows), "k.py")
    assert (first.line, first.label) == (5, "2.12 us, 1.41 us of it waiting")
    assert first.details == (
        "scaled on trn2: 2.12 us, 1.41 us of it waiting on the critical path; its engines are "
        "busy for 1 us; instructions: 2"
    )
    assert second.line == 7
    assert "waiting" not in second.label


def test_a_line_of_several_kernels_has_the_longest_time():
    values = answer(lines=[line_time(5, 1e-6)])
    values["kernels"] += answer(lines=[line_time(5, 3e-6)], kernel="other")["kernels"]
    (hint,) = hints(values, "k.py")
    assert hint.label == "3 us"
    assert [row.split()[0] for row in hint.details.splitlines()] == ["other", "scaled"]
