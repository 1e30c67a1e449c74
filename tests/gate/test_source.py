import linecache
import os
import subprocess
import sys
import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from trnsim.behaviours import LATEST
from trnsim.behaviours.chosen import pinned
from trnsim.gate.kernel_file import Arguments, module_of
from trnsim.gate.source import files_digest, inputs_text, source_digest
from trnsim.runner import run

SOURCE = '''from dataclasses import dataclass
from functools import partial

import itertools

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

FORM = nl.bfloat16
ENGINE = nisa.engine.vector
ROUNDED = partial(round, ndigits=1)
TABLE = np.ones(2)
ROWS = 128
UNUSED = 1
SETTINGS = {"engines": {"vector", "scalar"}}


class Shape:
    width = 4


@dataclass
class Size:
    rows: int


class Plan:
    def __init__(self, depth):
        self.depth = depth


SIZE = Size(1)
PLAN = Plan(2)


def load(source):
    """A tile."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def copied(x):
    """A copy."""
    assert Shape.width and SETTINGS and SIZE and PLAN.depth and TABLE.size
    assert FORM and ENGINE and ROUNDED(1.0) and itertools.count
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
        ("FORM = nl.bfloat16", "FORM = nl.float32"),
        ("ENGINE = nisa.engine.vector", "ENGINE = nisa.engine.scalar"),
        ("partial(round, ndigits=1)", "partial(round, ndigits=2)"),
        ("partial(round, ndigits=1)", "partial(divmod, ndigits=1)"),
        ("PLAN = Plan(2)", "PLAN = Plan(3)"),
        ("TABLE = np.ones(2)", "TABLE = np.ones(3)"),
        ("tile = nl.ndarray(source.shape,", "tile = nl.zeros(source.shape,"),
        ("@nki.jit\ndef", "@nki.jit()\ndef"),
    ],
)
def test_what_the_kernel_uses_changes_the_digest(digest, before, after):
    assert before in SOURCE
    assert digest(SOURCE.replace(before, after)) != digest()


def test_a_version_of_nki_changes_the_digest(digest):
    digests = [digest()]
    for version in ("0.6", LATEST):
        with pinned(version, "a test"):
            digests.append(digest())
    assert len(set(digests)) == 3
    assert digest() == digests[0]


def test_shapes_dtypes_and_other_values_change_the_digest(digest):
    known = digest()
    assert digest(arguments=Arguments((X[:, :2],), {})) != known
    assert digest(arguments=Arguments((X.astype(np.float16),), {})) != known
    assert digest(arguments=Arguments((X,), {"depth": 2})) != known
    assert digest(arguments=Arguments((X + 1,), {})) == known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (nl.bfloat16, nl.float32),
        (nl.add, nl.subtract),
        (nisa.engine.vector, nisa.engine.scalar),
        ({"depth": 2}, {"depth": 3}),
        ({"depth": [2]}, {"depth": (2,)}),
        (np.int64(4), np.int64(5)),
        (np.int64(4), np.int32(4)),
        (True, 1),
        (1, 1.0),
        (0.0, -0.0),
        (range(2), range(3)),
        ({"a", "b"}, {"a", "c"}),
        (np.dtype("float32"), np.dtype("int32")),
    ],
)
def test_an_argument_that_decides_a_time_changes_the_digest(digest, before, after):
    assert digest(arguments=Arguments((X, before))) != digest(arguments=Arguments((X, after)))
    assert digest(arguments=Arguments((X, before))) == digest(arguments=Arguments((X, before)))


@pytest.mark.slow  # it starts processes
def test_a_digest_is_the_same_in_every_process(tmp_path):
    (tmp_path / "kernels.py").write_text(SOURCE)
    code = (
        "import kernels, numpy as np\n"
        "from trnsim.gate.kernel_file import Arguments\n"
        "from trnsim.gate.source import source_digest\n"
        "print(source_digest(kernels.copied, Arguments((kernels.SETTINGS, kernels.PLAN))))\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(3)
    }
    assert len(digests) == 1


def test_arguments_in_words():
    arguments = Arguments((X, 3, (X, "a")), {"scale": 0.5, "kind": object})
    assert inputs_text(arguments) == (
        "float32[128,4], 3, (float32[128,4], 'a'), scale=0.5, kind=object"
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


def test_a_source_of_which_python_warns_has_its_constants_in_the_digest():
    scope, digests = {}, []
    for number in (1, 2):
        text = f'def f(x):\n    return x, "\\d", {number}\n'
        linecache.cache[f"warned_{number}.py"] = (len(text), None, text.splitlines(True), "")
        with warnings.catch_warnings(action="ignore"):
            exec(compile(text, f"warned_{number}.py", "exec"), scope)  # noqa: S102  as a user's file
        digests.append(source_digest(scope["f"], ARGUMENTS))
    assert digests[0] != digests[1]
