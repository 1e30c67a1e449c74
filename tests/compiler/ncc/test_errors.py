from pathlib import Path

import pytest
from ncc_absent import ABSENT
from ncc_programs import PROGRAMS

from trnsim.compiler.ncc.errors import NCC_ERRORS
from trnsim.errors import EmulatorError

# The pages of compiler/error-codes in aws-neuron-sdk as of Neuron 2.32, and EVRF066 of 2.33.
DOCUMENTED = [
    *("EARG001", "EBIR023", "EBVF030", "EHCA005", "EMOD025", "EOOM001", "EOOM002"),
    *("ESFH002", "ESPP004", "ESPP047", "EUOC002"),
    *(f"EVRF{number:03}" for number in (1, 4, 5, 6, 7, 9, 10, 11, 13)),
    *(f"EVRF{number:03}" for number in (15, 16, 17, 18, 19, 22, 31, *range(35, 67))),
    *("EXSP001", "EXTP004"),
]


def test_every_documented_error_can_arise_or_is_said_not_to():
    codes = [*NCC_ERRORS, *(row.code for row in ABSENT)]
    assert sorted(codes) == [f"NCC_{code}" for code in DOCUMENTED]


def test_errors_that_can_arise_are_in_order_and_have_a_program_each():
    assert list(NCC_ERRORS) == sorted(NCC_ERRORS)
    assert PROGRAMS.keys() == NCC_ERRORS.keys()


@pytest.mark.parametrize("row", NCC_ERRORS.values(), ids=lambda row: row.code)
def test_an_error_says_what_is_refused_what_to_do_and_where_it_is_documented(row):
    assert row.rule
    assert row.fix
    assert row.source == f"aws-neuron-sdk compiler/error-codes/{row.code[4:]}.rst"
    for text in (row.rule, row.fix, row.reading):
        assert "|" not in text  # a cell of a table


@pytest.mark.parametrize("row", ABSENT, ids=lambda row: row.code)
def test_an_error_that_cannot_arise_says_why(row):
    assert all(row)
    assert not any("|" in text for text in row)


@pytest.fixture
def on_the_chip():
    """The policy `chip`, and a tracer that has compiled nothing."""
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    torch._dynamo.reset()
    torch.neuron.set_policy("chip")
    yield
    torch.neuron.set_policy("host")
    torch._dynamo.reset()


@pytest.mark.slow_but_every(3)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("on_the_chip")
@pytest.mark.parametrize("code", PROGRAMS)
def test_the_program_of_an_error_raises_it_with_the_line_and_the_remedy(code, tmp_path):
    file = tmp_path / f"{code.lower()}.py"
    file.write_text(PROGRAMS[code])
    with pytest.raises((EmulatorError, RuntimeError)) as caught:
        run(file)
    said = str(caught.value)
    assert f"{code}: " in said
    assert NCC_ERRORS[code].source in said
    assert f"fix: {NCC_ERRORS[code].fix}" in said.replace("\\n", "\n").replace("\\'", "'")
    if "import torch" in PROGRAMS[code] and code != "NCC_EMOD025":
        number = 1 + PROGRAMS[code].splitlines().index("def function(x):") + 1
        assert f"{file}:{number}" in said


def run(file: Path):
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "program"})  # noqa: S102
