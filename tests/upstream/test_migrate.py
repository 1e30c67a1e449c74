"""`trnsim migrate` over the public suites: no statement but true ones, and none is a crash.

A statement is true if the line has what its behaviour is about, in a kernel that is written for a
version which has it. In files of NKI 0.6 and 0.7 there are no others than removed loops.
"""

import ast

import pytest

from trnsim.errors import BadInput, NotModelled
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import rewritten_file

SUITES = (
    "nki-library/src",
    "nki-library/test/integration",
    "autocomp/sols",
    "autocomp/harnesses",
    "trnfft",
    "trnsparse",
)
ON_THE_LINE = {
    "nl.dynamic_range": "dynamic_range",
    "dynamic-loops-warn": ("dynamic_range", "while "),
    "while-register": "while ",
    "ranges-are-pythons": ("affine_range", "sequential_range", "static_range"),
    "output-in-any-hbm": "hbm",
    "mx-scale-twice-ocp": "quantize_mx",
    "ap-offset-adds": ".ap(",
    "string-buffers": "buffer=",
    "integer-enums": "=",
}
"""Behaviour -> what a line that relies on it has."""
LOOPS = {"nl.dynamic_range", "while-register", "ranges-are-pythons"}


@pytest.mark.parametrize("suite", SUITES)
def test_every_statement_is_true(suite, upstream):
    files, refused = 0, []
    for path in sorted((upstream / suite).rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            report = report_of(text, str(path))
        except (BadInput, NotModelled) as error:
            refused.append(str(error))
            continue
        files += 1
        lines = text.splitlines()
        for statement in report.statements:
            words = ON_THE_LINE[statement.row.name]
            words = (words,) if isinstance(words, str) else words
            assert any(word in lines[statement.line - 1] for word in words), (path, statement)
        of_today = {kernel.name for kernel in report.kernels if kernel.version.name >= "0.6"}
        for statement in report.statements:
            if of_today.issuperset(statement.kernels):
                assert statement.row.name in LOOPS, path
        ast.parse(rewritten_file(report).text)
    assert files
    assert not [words for words in refused if "has no kernel" not in words and "0.1" not in words]
