import logging
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim import errors
from trnsim.errors import BadInput
from trnsim.torch.traces.example_runs import example_run
from trnsim.torch.traces.tracing import trace_function
from trnsim.user_traceback import traceback_lines

X = torch.ones(2, 3)


class Lines:
    def __repr__(self):
        return "one\ntwo"


def wrong(x):
    return x.reshape(4, 4)


def test_an_error_of_the_function_keeps_its_type_and_names_the_inputs_and_the_line():
    with pytest.raises(RuntimeError, match="invalid for input of size 6") as raised:
        trace_function(wrong, (X,))
    (note,) = raised.value.__notes__
    assert note.startswith("wrong raised it for the example inputs float32[2, 3]\n  fix: ")
    line = wrong.__code__.co_firstlineno + 1
    assert note.endswith(f"at {__file__}:{line}")
    lines = traceback_lines(raised.value)
    assert not any("/trnsim/torch/" in text or "site-packages" in text for text in lines)
    assert "TRNSIM_FULL_TRACEBACK=1" in lines[-1]


def test_a_failed_operator_is_not_logged_with_all_its_frames(caplog):
    with pytest.raises(RuntimeError, match="must have same reduction dim") as raised:
        trace_function(lambda x: torch.mm(x, x), (X,))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert __file__ in raised.value.__notes__[0]


def test_many_inputs_are_shown_in_part():
    with pytest.raises(KeyError) as raised, example_run("f", [X] * 8 + [3]):
        {}["a"]
    (note,) = raised.value.__notes__
    assert "float32[2, 3], ...\n" in note
    assert note.endswith(__file__ + note[note.rindex(":") :])


def test_an_input_that_is_no_tensor_is_shown_by_the_begin_of_its_first_line():
    with pytest.raises(KeyError) as raised, example_run("f", [X, "a" * 200, Lines()]):
        {}["a"]
    first = raised.value.__notes__[0].partition("\n")[0]
    assert first.endswith(f"float32[2, 3], '{'a' * 79}, one")


def test_errors_of_trnsim_are_as_they_are():
    with pytest.raises(BadInput) as raised, example_run("f", X):
        raise BadInput("reason")
    assert not hasattr(raised.value, "__notes__")


def test_an_error_within_trnsim_itself_has_all_its_frames(monkeypatch):
    monkeypatch.setattr("trnsim.errors._PACKAGE", __file__)
    with pytest.raises(KeyError) as raised, example_run("f", X):
        {}["a"]
    assert not hasattr(raised.value, "__notes__")
    assert traceback_lines(raised.value) is None


def test_an_error_of_a_package_whose_name_begins_with_trnsim_has_the_note():
    code = compile("{}['a']", f"{Path(errors.__file__).parent}_models/model.py", "exec")
    with pytest.raises(KeyError) as raised, example_run("f", X):
        exec(code)  # noqa: S102  our own text
    assert "f raised it for the example inputs float32[2, 3]" in raised.value.__notes__[0]
