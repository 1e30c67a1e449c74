import sys

import numpy as np
import pytest

from trnsim.gate.kernel_file import Arguments, module_of
from trnsim.gate.source import files_digest, inputs_text, source_digest
from trnsim.runner import run

SOURCE = '''from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128
UNUSED = 1
SETTINGS = {"engines": {"vector", "scalar"}}


class Shape:
    width = 4


@dataclass
class Size:
    rows: int


SIZE = Size(1)


def load(source):
    """A tile."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def copied(x):
    """A copy."""
    assert Shape.width and SETTINGS and SIZE
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=load(x[:ROWS]))
    return out
'''
X = np.ones((128, 4), np.float32)
ARGUMENTS = Arguments((X,), {})


@pytest.fixture
def digest(tmp_path, monkeypatch):
    numbers = iter(range(100))

    def of(source=SOURCE, arguments=ARGUMENTS):
        file = tmp_path / f"source_of_a_test_{next(numbers)}.py"
        file.write_text(source)
        module = module_of(file)
        try:
            return source_digest(module.copied, arguments)
        finally:
            monkeypatch.delitem(sys.modules, file.stem)

    return of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""A copy."""', '"""Another text."""'),
        ("    out = nl", "    # a comment\n\n    out = nl"),
        ("UNUSED = 1", "UNUSED = 2"),
        ("import nki\n", "\n\nimport nki\n"),
    ],
)
def test_comments_and_what_is_not_used_change_no_digest(digest, before, after):
    assert before in SOURCE
    assert digest(SOURCE.replace(before, after)) == digest()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x[:ROWS]", "x[0:ROWS]"),
        ("ROWS = 128", "ROWS = 64"),
        ("width = 4", "width = 8"),
        ("Size(1)", "Size(2)"),
        ('{"vector", "scalar"}', '{"vector"}'),
        ("tile = nl.ndarray(source.shape,", "tile = nl.zeros(source.shape,"),
        ("@nki.jit\ndef", "@nki.jit()\ndef"),
    ],
)
def test_what_the_kernel_uses_changes_the_digest(digest, before, after):
    assert before in SOURCE
    assert digest(SOURCE.replace(before, after)) != digest()


def test_shapes_dtypes_and_other_values_change_the_digest(digest):
    known = digest()
    assert digest(arguments=Arguments((X[:, :2],), {})) != known
    assert digest(arguments=Arguments((X.astype(np.float16),), {})) != known
    assert digest(arguments=Arguments((X,), {"depth": 2})) != known
    assert digest(arguments=Arguments((X + 1,), {})) == known


def test_arguments_in_words():
    arguments = Arguments((X, 3, (X, "a")), {"scale": 0.5, "kind": object})
    assert inputs_text(arguments) == (
        "float32[128,4], 3, (float32[128,4], 'a'), scale=0.5, kind=type"
    )


def test_a_function_without_a_source_has_a_digest():
    scope = {}
    exec("def f(x): return x\ndef g(x): return x + 1", scope)  # noqa: S102  typed at a prompt
    first, second = (source_digest(scope[name], ARGUMENTS) for name in "fg")
    assert first != second


def test_a_program_has_the_digest_of_the_files_that_issue_instructions(tmp_path, monkeypatch):
    digests = []
    for text in (SOURCE, SOURCE.replace("A copy", "B"), SOURCE.replace("UNUSED = 1", "UNUSED = 2")):
        file = tmp_path / "program_of_a_test.py"
        file.write_text(text)
        kernel = module_of(file).copied
        monkeypatch.delitem(sys.modules, file.stem)
        digests.append(files_digest(run(kernel, X), file))
    assert digests[0] == digests[1] != digests[2]
