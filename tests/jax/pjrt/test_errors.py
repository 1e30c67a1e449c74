import pytest

from trnsim.errors import BadInput, DataRace, NotModelled, OutOfMemory
from trnsim.jax.pjrt.errors import code_and_message, new_coded_error, new_error
from trnsim.jax.pjrt.structs import enumeration

CODES = enumeration("Error_Code")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OutOfMemory("full"), "RESOURCE_EXHAUSTED"),
        (NotModelled("later"), "UNIMPLEMENTED"),
        (BadInput("wrong"), "INVALID_ARGUMENT"),
        (DataRace("two"), "FAILED_PRECONDITION"),
        (KeyboardInterrupt(), "CANCELLED"),
        (RuntimeError("INVALID_ARGUMENT: of XLA"), "INVALID_ARGUMENT"),
        (ZeroDivisionError("of ours"), "INTERNAL"),
    ],
)
def test_an_exception_has_a_code(error, name):
    assert code_and_message(error)[0] == CODES[name]


def test_the_code_that_xla_gave_is_no_part_of_the_message():
    assert code_and_message(RuntimeError("ABORTED: one\ntwo"))[1] == "one\ntwo"


def test_a_fault_of_ours_names_its_class_and_its_line():
    try:
        raise KeyError("k")  # noqa: TRY301
    except KeyError as error:
        text = code_and_message(error)[1]
    assert text.startswith("KeyError: 'k' at ")
    assert "test_errors.py" in text


def test_a_fix_and_a_source_are_told():
    text = code_and_message(BadInput("wrong", fix="mend it", source="a.rst"))[1]
    assert "fix: mend it" in text
    assert "source: a.rst" in text


def test_each_error_has_a_handle_of_its_own():
    assert new_error(BadInput("a")) != new_coded_error(3, "a")
